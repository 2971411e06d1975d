"""The details of one run, and the results of checks on runs and assets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from freshline.cli.render.run import output_text
from tests.cli.conftest import Freshline
from tests.rows import Rows, ago

PASSED = {"check": "minRows", "severity": "error", "passed": True, "observed": 2}
WARNED = {
    "check": "range",
    "severity": "warn",
    "passed": False,
    "observed": {"count": 1, "min": 0, "max": 9},
    "message": "column 'v' has 1 of 2 values out of range: it goes from 0 to 9",
}
FAILED = {
    "check": "unique(id)",
    "severity": "error",
    "passed": False,
    "observed": {"count": 1, "example": '{"id":7}'},
    "message": "column 'id': 1 value occurs more than once, such as {\"id\":7}",
}
WARNING = "  warn range: column 'v' has 1 of 2 values out of range: it goes from 0 to 9"
FAILURE = "  error unique(id): column 'id': 1 value occurs more than once, such as {\"id\":7}"


def failed(rows: Rows, **error: Any) -> str:
    """Insert a failed run of make."""
    told = {"code": "job", "message": "jobs.py:3: ValueError: no", "step": "one", "traceback": None, **error}
    return rows.run("make", "failed", error=told)


@pytest.fixture
def asset(rows: Rows, project: Path) -> Rows:
    """Insert the asset out, made by a run, with a violated warning."""
    data = project / ".freshline" / "warehouse" / "out" / "data" / "x"
    data.mkdir(parents=True)
    duckdb.sql(f"COPY (SELECT 1 AS id) TO '{data}/part-0.parquet'")
    rows.source("raw")
    rows.workflow("make", ["out"], ["raw"])
    run = rows.run("make", queued=90, pins={"raw": {"sequence": 4, "dataVersion": "r4"}})
    steps = {"run_id": run, "step_id": "one", "attempt": 1, "started_at": ago(80), "finished_at": ago(70)}
    rows.insert(
        "run_steps", **steps, **{"try": 1, "status": "failed", "error": {"code": "job", "message": "try again"}}
    )
    rows.insert("run_steps", **steps, **{"try": 2, "status": "succeeded", "outputs": []})
    location = {"format": "parquet", "paths": ["out/data/x"]}
    rows.snapshot("out", "v1", location=location, rows=2, bytes=9, checks=[PASSED, WARNED], run_id=run)
    rows.ids["run"] = run  # type: ignore[assignment]  # a place to remember it
    return rows


def test_a_run_is_told_in_full(freshline: Freshline, asset: Rows) -> None:
    """What it read, every try, what it made, and the checks that did not pass."""
    run = str(asset.ids["run"])
    told = freshline("runs", run[-8:]).stdout
    assert f"run {run} of make (version 1) succeeded, because upstream-update" in told
    for words in (
        ["raw", "4", "r4"],
        ["one", "1.1", "failed"],
        ["one", "1.2", "succeeded"],
        ["out", "1", "v1", "2"],
    ):
        assert any(line.split()[: len(words)] == words for line in told.splitlines()), (words, told)
    assert "try again" in told
    assert f"out: 1 of 2 checks did not pass\n{WARNING}\n" in told
    document = freshline.json("runs", run)
    assert document["outputs"][0]["checks"] == [PASSED, WARNED]
    assert [one["try"] for one in document["steps"]] == [1, 2]


@pytest.mark.parametrize(
    ("trigger", "listed", "headline"),
    [
        ({"type": "manual"}, "manual", "started by hand"),
        (
            {"type": "auto-materialize", "reason": "missing", "upstream": [{"assetId": "raw", "from": "1", "to": "2"}]},
            "missing",
            "started because an output was never produced",
        ),
        (
            {
                "type": "auto-materialize",
                "reason": "upstream-update",
                "upstream": [{"assetId": "raw", "from": "1", "to": "2"}],
            },
            "upstream-update: raw",
            "because upstream-update: raw",
        ),
    ],
)
def test_the_cause_of_a_run_is_not_taken_for_another(
    freshline: Freshline, asset: Rows, trigger: dict[str, Any], listed: str, headline: str
) -> None:
    """`missing: raw` would say that the input is missing, and the run was made because its output was."""
    run = asset.run("make", trigger=trigger)
    row = next(line for line in freshline("runs").stdout.splitlines() if line.startswith(run[-8:]))
    assert listed in row.split("  ")
    assert f"{headline}, queued" in freshline("runs", run).stdout


@pytest.mark.parametrize(
    ("made", "text"),
    [
        ({"version": 3, "rows": 1204, "changed": True}, "version 3 (1,204 rows)"),
        ({"version": 3, "rows": None, "changed": True}, "version 3"),
        ({"version": 3, "rows": None, "changed": False}, "version 3 (unchanged)"),
        ({"version": 3, "rows": 1, "changed": False}, "version 3 (1 row, unchanged)"),
    ],
)
def test_a_published_version_without_a_table_has_no_rows(made: Any, text: str) -> None:
    """`run --wait` says nothing of rows where there are none to count."""
    assert output_text(made) == text


def test_a_failed_run_shows_the_lines_of_the_user(freshline: Freshline, asset: Rows) -> None:
    """`runs RUN` and `logs RUN` end with the error and the traceback, in whatever brackets it has."""
    trace = 'Traceback (most recent call last):\n  File "jobs.py", line 3, in clean\n    [bold] x\nValueError: no\n'
    run = failed(asset, traceback=trace)
    for command in ("runs", "logs"):
        told = freshline(command, run).stdout
        assert told.endswith(f"step one: jobs.py:3: ValueError: no\n{trace}")
    assert freshline.json("logs", run) == []
    assert freshline.json("runs", run)["error"]["traceback"] == trace


def test_logs_of_a_name_are_those_of_its_last_run(freshline: Freshline, asset: Rows) -> None:
    """As the usage says: a run, an asset or a workflow. The answer names the run, and that there was none."""
    run = failed(asset)
    for name in ("make", "out"):
        told = freshline("logs", name)
        assert "ValueError: no" in told.stdout
        assert f"the last run of {name} is {run[-8:]}; `freshline runs --" in told.stderr
    asset.workflow("idle", ["nothing"])
    assert "'nothing' was never run (`freshline why nothing` says why)" in freshline("logs", "nothing", code=1).stderr


def test_the_checks_that_a_run_failed_by_are_told(freshline: Freshline, asset: Rows) -> None:
    """By `runs RUN`, `logs` and `why`, each with what was observed; those that passed are not repeated."""
    run = failed(asset, code="check", message="asset 'out': check unique(id) failed", checks=[FAILED, PASSED])
    asset.decision("make", "hold", "cooling-down")
    for command in (["runs", run], ["logs", run]):
        told = freshline(*command).stdout
        assert FAILURE in told
        assert "minRows" not in told
    why = freshline("why", "out").stdout
    assert f"{WARNING}\nthe last run {run[-8:]} published nothing:\n{FAILURE}\n" in why


def test_why_shows_violated_warnings_of_what_is_published(freshline: Freshline, asset: Rows) -> None:
    """A warning does not stop an output, so it must be seen where people look."""
    asset.decision("make", "skip", "up-to-date")
    assert WARNING in freshline("why", "out").stdout


def test_show_ends_with_the_checks(freshline: Freshline, asset: Rows) -> None:
    """Beside the rows: how many passed, and what a violated one observed."""
    told = freshline("show", "out")
    assert f"1 of 2 checks did not pass\n{WARNING}\n" in told.stderr
    assert freshline.json("show", "out")["checks"] == [PASSED, WARNED]
    asset.update("UPDATE snapshots SET checks = %s", [PASSED])
    assert "1 check, all passed" in freshline("show", "out").stderr
    asset.update("UPDATE snapshots SET checks = NULL")
    assert "check" not in freshline("show", "out").stderr


def test_one_run_is_not_a_listing(freshline: Freshline, asset: Rows) -> None:
    """Filters and a run exclude each other; an unknown run is told."""
    run = str(asset.ids["run"])
    for option in (["--follow"], ["--status", "failed"], ["--workflow", "make"], ["--after", run]):
        assert "a RUN is one run" in freshline("runs", run, *option, code=2).output
    assert "deadbeef" in freshline("runs", "deadbeef", code=1).output
