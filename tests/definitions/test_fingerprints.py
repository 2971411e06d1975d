"""Fingerprints change with what they stand for, and with nothing else (docs/semantics.md#R1.2)."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from freshline.definitions import code
from freshline.definitions.code import code_hash
from freshline.definitions.fingerprint import (
    definition_fingerprint,
    former_fingerprint,
    job_fingerprint,
    needs_code,
    needs_spark,
)
from freshline.definitions.schema.workflow import Workflow
from freshline.errors import DefinitionError
from tests.definitions.projects import always

SQL: dict[str, Any] = {
    "slug": "w",
    "parameters": {"a": 1},
    "steps": [
        {
            "id": "x",
            "job": {"kind": "spark.sql", "sql": "SELECT a, 'b  c' FROM i -- why\nWHERE a > 1", "parameters": {"p": 1}},
            "consumes": [{"assetId": "i"}],
            "produces": [{"assetId": "o"}],
        }
    ],
}
PYTHON = copy.deepcopy(SQL)
PYTHON["steps"][0]["job"] = {"kind": "spark.python", "entrypoint": "m:f"}


def edited(base: dict[str, Any], path: str, value: Any) -> Workflow:
    """Return the workflow with one changed field."""
    data = copy.deepcopy(base)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    block: Any = data
    for part in parents:
        block = block[part]
    block[last] = value
    return Workflow.model_validate(data)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("slug", "other"),
        ("description", "text"),
        ("quietHours", [{"from": "22:00", "to": "06:00"}]),
        ("backoff", {"budget": 3}),
        ("publishParameters", True),
        ("spark", {"size": "large", "conf": {"spark.sql.shuffle.partitions": 8}}),
        ("steps/0/retry", {"maxAttempts": 9}),
        ("steps/0/timeout", "1h"),
        ("steps/0/consumes/0/autoMaterialize", {"onUpstreamUpdate": True}),
        ("steps/0/consumes/0/freshness", {"maxAge": "1h"}),
        ("steps/0/consumes/0/as", "i"),
        ("steps/0/produces/0/freshness", {"ttl": "1h"}),
        ("steps/0/produces/0/autoMaterialize", {"onUpstreamUpdate": True}),
        ("steps/0/produces/0/checks", [{"minRows": 1}]),
        ("steps/0/job/sql", "SELECT a,\n  'b  c' FROM i /* because */ WHERE a > 1"),
    ],
)
def test_edits_of_policy_and_layout_cause_no_run(path: str, value: object) -> None:
    """Policy, freshness, retries, checks, comments and spaces leave the job's fingerprint as it is."""
    base, other = Workflow.model_validate(SQL), edited(SQL, path, value)
    assert job_fingerprint(base, always("code")) == job_fingerprint(other, always("code"))
    assert definition_fingerprint(base) != definition_fingerprint(other)


@pytest.mark.parametrize(
    ("base", "path", "value"),
    [
        (SQL, "steps/0/job/sql", "SELECT a, 'b c' FROM i WHERE a > 1"),
        (SQL, "steps/0/job/sql", "SELECT a, 'b  c' FROM i WHERE a > 2"),
        (SQL, "steps/0/job/sql", "SELECT a, 'b  c' FROM i -- why WHERE a > 1"),
        (SQL, "steps/0/job/parameters", {"p": 2}),
        (SQL, "steps/0/job", {"kind": "spark.sql", "outputs": {"o": "SELECT 1"}}),
        (SQL, "parameters", {"a": 2}),
        (SQL, "steps/0/consumes", [{"assetId": "j", "as": "i"}]),
        (SQL, "steps/0/consumes", [{"assetId": "i", "as": "k"}]),
        (SQL, "steps/0/consumes", []),
        (PYTHON, "steps/0/job", {"kind": "spark.python", "entrypoint": "m:g"}),
        (PYTHON, "steps/0/job", {"kind": "python", "entrypoint": "m:f"}),
    ],
)
def test_edits_of_the_job_cause_a_run(base: dict[str, Any], path: str, value: object) -> None:
    """SQL, entry point, kind, parameters and consumed assets are what a run computes."""
    assert job_fingerprint(Workflow.model_validate(base), always("c")) != job_fingerprint(
        edited(base, path, value), always("c")
    )


def test_code_counts_only_for_python_jobs() -> None:
    """An edit of the project's Python files concerns Python jobs alone."""
    sql, python = Workflow.model_validate(SQL), Workflow.model_validate(PYTHON)
    assert job_fingerprint(sql, always("c1")) == job_fingerprint(sql, always("c2"))
    assert job_fingerprint(python, always("c1")) != job_fingerprint(python, always("c2"))
    assert [needs_code(sql), needs_code(python)] == [False, True]
    plain = edited(PYTHON, "steps/0/job/kind", "python")
    assert [needs_spark(sql), needs_spark(python), needs_spark(plain)] == [True, True, False]


def test_the_method_is_part_of_the_fingerprint_of_code() -> None:
    """The fingerprint of SQL is that of 0.1; the one of a Python job names its method, and 0.1 had another."""
    sql, python = Workflow.model_validate(SQL), Workflow.model_validate(PYTHON)
    assert job_fingerprint(sql, always("c")) == former_fingerprint(sql, "c")
    assert job_fingerprint(python, always("c")).startswith("2:")
    assert job_fingerprint(python, always("c")) != former_fingerprint(python, "c")


def test_raw_strings_are_left_alone() -> None:
    """In SQL with raw strings every space counts."""
    one, other = (edited(SQL, "steps/0/job/sql", f"SELECT r'\\', '{gap}' FROM i") for gap in (" ", "  "))
    assert job_fingerprint(one, always("")) != job_fingerprint(other, always(""))


def test_the_code_hash_sees_names_and_contents_of_python_files(tmp_path: Path) -> None:
    """Every edit, rename, addition and removal of code changes the hash. Other files do not."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "a.py").write_text("x = 1\n")
    seen = [code_hash(tmp_path)]
    (tmp_path / "jobs" / "a.py").write_text("x = 2\n")
    seen.append(code_hash(tmp_path))
    (tmp_path / "jobs" / "a.py").rename(tmp_path / "jobs" / "b.py")
    seen.append(code_hash(tmp_path))
    assert len(set(seen)) == 3
    (tmp_path / "venv" / "lib").mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    for place in (".venv", ".freshline", "tests", "jobs/__pycache__", "venv/lib", "node_modules"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / "other.py").write_text("y = 1\n")
    (tmp_path / "jobs" / "notes.txt").write_text("text")
    assert code_hash(tmp_path) == seen[-1]


def test_too_much_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project with too much code is an error."""
    monkeypatch.setattr(code, "MAX_CODE_FILES", 2)
    for name in "abc":
        (tmp_path / f"{name}.py").touch()
    with pytest.raises(DefinitionError, match="more than 2 Python files"):
        code_hash(tmp_path)
