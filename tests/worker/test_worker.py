"""The last write of a run: it outlasts a short outage of the database; who lost the run touches nothing."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from freshline import failpoints
from freshline.errors import (
    CheckError,
    EngineError,
    EngineLostError,
    FencedError,
    FreshlineError,
    JobError,
    WarehouseError,
)
from freshline.failpoints import Subject
from freshline.model.run import StagedOutput
from freshline.storage import layout
from freshline.storage.base import StorageError
from freshline.storage.layout import staging_directory
from freshline.store.operations.audit import Actor, acting
from freshline.worker.execution import Execution
from freshline.worker.lease import Lease
from freshline.worker.outcome import Canceled, Failed, HandedBack, Lost, Outcome, outcome_of
from freshline.worker.step_errors import StepStopped
from freshline.worker.worker import Worker
from tests.store_harness import Lab, workflow

ENGINE, ENGINE_LOST = EngineError("no Java"), EngineLostError("the server is gone")
STORE, BOOM = StorageError("no answer"), JobError("boom")


@pytest.fixture
def worker(lab: Lab, tmp_path: Path) -> Worker:
    """Return a worker that is not started: the test calls its slot."""
    (tmp_path / "freshline.toml").write_text('name = "lab"\n')
    settings = type(lab.settings)(project=tmp_path)
    return Worker(lab.store, settings)


def begun(lab: Lab, worker: Worker) -> tuple[Lease, Path]:
    """Return a run that the worker holds, and a directory that it has staged."""
    run = lab.start()
    staged = Path(worker.storage.at(staging_directory("b", run.id, run.attempt, 1)))
    staged.mkdir(parents=True)
    return worker.leases.hold(run, time.monotonic()), staged


def execute(worker: Worker, lease: Lease) -> None:
    """Execute a run and write how it ended."""
    slot = worker.slots[0]
    slot.end(lease, slot.execute(lease, worker.code.current()))


def test_a_failed_run_leaves_no_files(lab: Lab, worker: Worker) -> None:
    """What it staged is removed when its end is stored."""
    lease, staged = begun(lab, worker)
    worker.slots[0].end(lease, Failed(JobError("boom")))
    assert lab.runs("b")[-1]["status"] == "failed"
    assert not staged.exists()


@pytest.mark.parametrize("hours", [0, 24])
def test_data_that_failed_a_check_stays_to_be_looked_at(lab: Lab, worker: Worker, hours: int) -> None:
    """Only what the error names, and only if the setting says so; the results are stored with the run."""
    lease, other = begun(lab, worker)
    worker.settings = dataclasses.replace(worker.settings, keep_failed_hours=hours)
    name = staging_directory("b", lease.run.id, lease.run.attempt, 2)
    looked_at = Path(worker.storage.at(name))
    looked_at.mkdir()
    checks = [
        {"check": "minRows", "severity": "error", "passed": True, "observed": 3},
        {"check": "unique(k)", "severity": "error", "passed": False, "observed": {"count": 1}},
    ]
    worker.slots[0].end(lease, Failed(CheckError("asset 'b': no", checks=checks, staged=name), "work"))
    error = lab.runs("b")[-1]["error"]
    assert (error["code"], error["step"], error["checks"]) == ("check", "work", checks[::-1])
    assert lab.events("workflow.run.failed")[-1]["data"]["error"] == error
    assert looked_at.exists() == (hours > 0)
    assert not other.exists()


def test_a_check_that_failed_before_the_write_leaves_no_files(lab: Lab, worker: Worker) -> None:
    """A strict schema is refused before anything is written: there is nothing to look at."""
    lease, staged = begun(lab, worker)
    worker.slots[0].end(lease, Failed(CheckError("its columns changed")))
    assert not staged.exists()


@pytest.mark.parametrize("reason", ["failed", "canceled"])
def test_a_worker_that_lost_the_run_removes_nothing(lab: Lab, worker: Worker, reason: str) -> None:
    """Another attempt runs; a failure or cancellation that comes late leaves its files alone."""
    lease, mine = begun(lab, worker)
    lab.advance(minutes=1)
    lab.store.runs.rescue(10)
    _, theirs = begun(lab, worker)
    if reason == "failed":
        worker.slots[0].end(lease, Failed(JobError("boom")))
    else:
        worker.slots[0].end(lease, Canceled())
    assert lab.runs("b")[-1]["status"] == "running"
    assert theirs.exists()
    assert mine.exists(), "the attempt that goes on may use what an earlier one finished"


def ended_with(lab: Lab, worker: Worker, error: FreshlineError, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the run is after its step ended with an error, in a warehouse that was there when it began."""
    worker._warehouse_id = lab.store.warehouse_id
    lease, _ = begun(lab, worker)

    def fail(execution: Execution) -> None:
        execution.step = "work"
        raise error

    monkeypatch.setattr(Execution, "execute", fail)
    execute(worker, lease)
    return str(lab.runs("b")[-1]["status"])


@pytest.mark.parametrize("error", [WarehouseError("cannot be made durable"), JobError("no such file")])
def test_a_warehouse_that_goes_away_under_a_run_is_no_failure(
    lab: Lab, worker: Worker, monkeypatch: pytest.MonkeyPatch, error: FreshlineError
) -> None:
    """The run goes back, this worker takes no Spark runs for a while, and nothing is put in the empty place.

    See docs/semantics.md#R7.1.
    """
    job = {"kind": "spark.sql", "sql": "SELECT * FROM a"}
    flow = workflow("b", "a")
    lab.apply({**flow, "steps": [{**flow["steps"][0], "job": job}]})
    lab.settle()
    assert ended_with(lab, worker, error, monkeypatch) == "queued"
    assert lab.state("b")["failures"] == 0
    assert "is gone" in (worker.engine_error or "")
    assert not worker.may_use_spark()
    assert not Path(worker.storage.at("freshline-warehouse.json")).exists()


def test_what_was_written_into_the_place_of_a_lost_warehouse_is_not_published(
    lab: Lab, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount that went away leaves an empty directory, and files in it are hidden when it is back."""
    worker._warehouse_id = lab.store.warehouse_id
    lease, staged = begun(lab, worker)
    (staged / "part.parquet").write_bytes(b"rows")
    name = str(staged.relative_to(worker.settings.warehouse_at))
    output = StagedOutput("b", "work", "v1", location=layout.seal(worker.storage, name))
    monkeypatch.setattr(Execution, "_step", lambda *_: (output,))
    execute(worker, lease)
    assert lab.runs("b")[-1]["status"] == "queued"
    assert lab.one("SELECT count(*) FROM heads WHERE asset_id = 'b'") == 0


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (FencedError("taken over"), Lost()),
        (StepStopped("canceled"), Canceled()),
        (StepStopped("shutdown"), HandedBack()),
        (StepStopped("lease-lost"), Lost()),
        (ENGINE, HandedBack(engine_error=ENGINE)),
        (ENGINE_LOST, HandedBack(crashed=True, engine_error=ENGINE_LOST)),
        (STORE, HandedBack(crashed=True, engine_error=STORE)),
        (BOOM, Failed(BOOM, "work")),
    ],
    ids=["fenced", "canceled", "shutdown", "lease lost", "engine", "engine lost", "store", "job"],
)
def test_every_error_has_one_outcome(lab: Lab, error: FreshlineError, outcome: Outcome) -> None:
    """A run fails, is canceled, is queued again, or is left to the attempt that owns it."""
    assert outcome_of(error, lab.start(), "work", lambda: None) == outcome


def test_a_defect_of_freshline_fails_the_run(lab: Lab) -> None:
    """The error names the exception, and its traceback is logged."""
    run = lab.start()
    with capture_logs() as logs:
        outcome = outcome_of(KeyError("x"), run, "work", lambda: None)
    assert isinstance(outcome, Failed)
    assert outcome.error.message == "Freshline itself failed: KeyError: 'x'"
    assert [(one["event"], one["log_level"]) for one in logs] == [("run_broke", "error")]


def test_a_missing_class_archive_is_reported_once(worker: Worker) -> None:
    """Every slot notices it again and again; one line names the command that builds it."""
    with capture_logs() as logs:
        worker.report_class_archive(missing=False)
        for _ in range(3):
            worker.report_class_archive(missing=True)
    (line,) = logs
    assert (line["event"], line["build_it_with"]) == (
        "spark_class_archive_missing",
        "python -m freshline.spark.jvm_cds",
    )


def test_a_warehouse_that_goes_away_again_and_again_ends_the_run(
    lab: Lab, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is bounded like lost workers, as the run may be why (docs/semantics.md#R12.2)."""
    for _ in range(lab.settings.max_worker_losses - 1):
        assert ended_with(lab, worker, WarehouseError("away"), monkeypatch) == "queued"
    assert ended_with(lab, worker, WarehouseError("away"), monkeypatch) == "failed"
    assert lab.runs("b")[-1]["error"]["code"] == "poison"


@pytest.mark.parametrize(
    ("error", "there"),
    [(WarehouseError("the disk is full"), True), (JobError("boom"), False), (CheckError("no"), False)],
)
def test_other_errors_are_failures(
    lab: Lab, worker: Worker, monkeypatch: pytest.MonkeyPatch, error: FreshlineError, there: bool
) -> None:
    """A full disk is one; so is what cannot be due to the warehouse: a `python` step does without.

    See docs/semantics.md#R7.1.
    """
    if there:
        layout.check_warehouse(worker.storage, lab.store.warehouse_id)
    assert ended_with(lab, worker, error, monkeypatch) == "failed"
    assert lab.state("b")["failures"] == 1


@pytest.mark.parametrize("side", ["before", "after"])
def test_the_end_of_a_run_outlasts_a_lost_connection(lab: Lab, worker: Worker, side: str) -> None:
    """The connection is lost around the commit: the run fails once, and its files go."""
    lease, staged = begun(lab, worker)
    lost: list[str] = []

    def drop_once(subject: Subject) -> None:
        if not lost:
            lost.append(side)
            failpoints.drop(subject)

    with failpoints.armed_with(f"fail_run:{side}", drop_once):
        worker.slots[0].end(lease, Failed(JobError("boom")))
    assert lost == [side]
    assert lab.state("b")["failures"] == 1
    assert len(lab.events("workflow.run.failed")) == 1
    assert not staged.exists()


def test_a_worker_of_a_renamed_project_says_so_once(lab: Lab, worker: Worker) -> None:
    """It finishes what it holds, takes no other run, and tells what to do (docs/semantics.md#R10.1)."""
    lease, _ = begun(lab, worker)
    assert "renamedTo" not in worker._info()
    with acting(Actor("cli:ann@here")):
        lab.store.apply.rename("lab", "other")
    with capture_logs() as logs:
        assert worker._info()["renamedTo"] == worker._info()["renamedTo"] == "other"
    (told,) = [entry for entry in logs if entry["event"] == "project_renamed"]
    assert told["advice"] == 'write `name = "other"` in freshline.toml, and restart this worker'
    worker.slots[0].end(lease, Failed(JobError("boom")))
    assert lab.runs("b")[-1]["status"] == "failed"
