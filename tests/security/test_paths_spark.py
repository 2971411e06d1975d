"""What a report names is read by Spark only where it is allowed, and no error that is stored quotes a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from freshline.errors import JobError
from freshline.model.run import PinnedInput
from freshline.spark.reading import _source_path
from freshline.spark.session import open_session
from tests.spark.spark_harness import SparkHarness, flow, job, local_engine
from tests.store_harness import laboratory

pytestmark = pytest.mark.spark
CANARY = "canary-7f3a"
STRUCT = {
    "type": "struct",
    "fields": [{"name": one, "type": "integer", "nullable": True, "metadata": {}} for one in ("a", "b")],
}


@pytest.fixture(scope="module")
def harness(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkHarness]:
    """Yield a store and a Spark for all tests."""
    root = tmp_path_factory.mktemp("project")
    scratch = tmp_path_factory.mktemp("scratch")
    session = open_session(master="local[2]", remote=None, scratch=scratch)
    (root / "in").mkdir()
    with laboratory(module_database_url, warehouse=str(root / "w")) as lab:
        yield SparkHarness(lab, local_engine(session))
    session.stop()


@pytest.fixture
def project(harness: SparkHarness) -> Path:
    """Return the directory of the project, with a secret outside of what sources allow."""
    root = harness.lab.warehouse.parent
    (root / "secret.csv").write_text(f"{CANARY},b\n{CANARY},2,3\n")
    return root


def failing(harness: SparkHarness, slug: str) -> str:
    """Run a workflow that must fail; return all that is stored about runs: what the scope `read` shows."""
    with pytest.raises(JobError) as caught:
        harness.run(slug)
    stored = harness.lab.everything()
    tables = ("runs", "run_steps", "run_logs", "events", "snapshots", "decisions", "inbox")
    return "\n".join(
        [str(caught.value), caught.value.__dict__.get("traceback", ""), *(row for t in tables for row in stored[t])]
    )


def declare(harness: SparkHarness, slug: str, query: str | dict[str, str] | None = None, **source: Any) -> str:
    """Apply a workflow that copies a declared source; return the id of the source."""
    raw = f"{slug}_raw"
    declared = {"assetId": raw, "format": "csv", "path": "in", **source}
    flows = flow(slug, query or f"SELECT * FROM {raw}", raw, auto=None)
    harness.lab.apply(flows, sources=(declared,), root=harness.lab.warehouse.parent)
    return raw


def test_a_stored_path_that_is_not_allowed_is_not_read(harness: SparkHarness, project: Path) -> None:
    """Such as one that was reported to 0.1, or before `allow` was narrowed; and links, patterns and other schemes."""
    raw = declare(harness, "stored")
    (project / "in" / "link.csv").symlink_to(project / "secret.csv")
    (project / "in" / "x.csv").write_text("a\n1\n")
    harness.lab.report(raw, payload={"path": "in/x.csv"})
    tries = 0
    for path in ("secret.csv", f"{project}/secret.csv", "in/link.csv", "in/*.csv", "in", "hdfs://127.0.0.1:1/x"):
        harness.lab.rows(
            "UPDATE snapshots SET location = location || %s WHERE asset_id = %s RETURNING 1", Jsonb({"path": path}), raw
        )
        stored = failing(harness, "stored")
        assert CANARY not in stored
        assert f"source '{raw}' is not read" in stored
        tries += 1
    (project / "in" / "link.csv").unlink()
    print(f"{tries} tries")


def test_a_job_gets_no_path_that_is_not_allowed(harness: SparkHarness, project: Path) -> None:
    """Python jobs find the path in the payload, so the step does not begin."""
    raw = declare(harness, "python", job("collected"))
    (project / "in" / "later.csv").write_text("a\n1\n")
    harness.lab.report(raw, payload={"path": "in/later.csv"})
    (project / "in" / "later.csv").unlink()
    (project / "in" / "later.csv").symlink_to(project / "secret.csv")
    assert "leads by a symbolic link to a place that is not allowed" in failing(harness, "python")
    (project / "in" / "later.csv").unlink()


def test_a_reported_file_is_read_from_this_machine(harness: SparkHarness, project: Path) -> None:
    """The default file system of Spark's configuration does not redirect it: the scheme is given."""
    pinned = PinnedInput("x", 1, "v", {"path": "/in/x"}, {"path": "x"}, allowed={})
    assert _source_path(pinned, "/in/x", local=True) == "file:///in/x"
    assert _source_path(pinned, "/in/x", local=False) == "/in/x"  # a cluster has its own file system
    assert _source_path(replace(pinned, allowed=None), "/in/x", local=True) == "/in/x"  # declared
    raw = declare(harness, "local")
    (project / "in" / "a b%.csv").write_text("a\n1\n")
    (project / "in" / "c.csv").write_text("a\n1\n")
    for path in ("in/a b%.csv", f"file://{project}/in/c.csv", "in/a*.csv"):
        harness.lab.report(raw, payload={"path": path})
        harness.run("local")
        assert harness.rows("local") == [(1,)]


UNREADABLE: list[tuple[str, str, dict[str, Any]]] = [
    ("parquet", "parquet", {}),
    ("footer", "parquet", {"schema": STRUCT}),
    ("orc", "orc", {}),
    ("strict", "csv", {"options": {"mode": "FAILFAST"}}),
    ("typed", "csv", {"options": {"mode": "FAILFAST"}, "schema": STRUCT}),
    ("short", "csv", {"options": {"maxCharsPerColumn": "3"}}),
    ("json", "json", {"options": {"mode": "FAILFAST"}}),
    ("lines", "json", {"options": {"mode": "FAILFAST"}, "schema": STRUCT}),
]


GATE = {"typed", "short"}
CASES = [pytest.param(*one, id=one[0], marks=[] if one[0] in GATE else [pytest.mark.full]) for one in UNREADABLE]


@pytest.mark.parametrize(("name", "kind", "declared"), CASES)
def test_an_error_of_reading_has_no_content(
    harness: SparkHarness, project: Path, name: str, kind: str, declared: dict[str, Any]
) -> None:
    """In SQL, where the rows are written, and in a traceback of Python code. It names the file and the condition."""
    at = project / f"in-{name}"
    at.mkdir(exist_ok=True)
    (at / "bad").write_text(f'a,b\n{CANARY},2,3\n{{"a": {CANARY}\n"unclosed {CANARY}\n')
    for number, how in enumerate((None, job("collected"))):
        slug = f"{name}{number}"
        raw = declare(harness, slug, how, format=kind, path=f"in-{name}", **declared)
        harness.lab.report(raw)
        stored = failing(harness, slug)
        assert CANARY not in stored
        assert "cannot be read" in stored or "cannot be parsed" in stored
