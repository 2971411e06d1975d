"""The real store, the real execution of runs and a real Spark session, all in the test's process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from freshline.definitions.code import Code
from freshline.definitions.schema.workflow import Step
from freshline.errors import FencedError, FreshlineError
from freshline.model.run import ClaimedRun
from freshline.spark.application import Application
from freshline.spark.engine import Engine
from freshline.storage import layout
from freshline.worker.code_copies import CodeCopies, CodeCopy
from freshline.worker.execution import Execution, describe
from freshline.worker.lease import Lease, LeaseKeeper
from freshline.worker.progress_reporter import ProgressReporter
from freshline.worker.protocol import LogLine, Progress, RunStep, StepRequest, StepResult, StoreQueries, decode, encode
from freshline.worker.step_executor import StepTask, execute
from tests.store_harness import ON_UPDATE, Lab

Rows = list[tuple[Any, ...]]


def local_engine(session: SparkSession) -> Engine:
    """Return an engine on a local session of the tests."""
    return Engine(Application(session, remote=None, local=True))


def flow(
    slug: str,
    job: str | Mapping[str, Any],
    consumes: str | list[Any] = "",
    *,
    auto: Mapping[str, Any] | None = ON_UPDATE,
    **produced: Any,
) -> dict[str, Any]:
    """Return a workflow `slug` that makes the asset `slug` by a query, or by a function of `tests.spark.jobs`."""
    inputs = consumes.split() if isinstance(consumes, str) else consumes
    sql = {"kind": "spark.sql", "sql": job}
    output = {"assetId": slug, **({"autoMaterialize": dict(auto)} if auto is not None else {}), **produced}
    step = {
        "id": "work",
        "job": sql if isinstance(job, str) else dict(job),
        "consumes": [{"assetId": one} if isinstance(one, str) else one for one in inputs],
        "produces": [output],
        "retry": {"maxAttempts": 1},
    }
    return {"slug": slug, "steps": [step], "backoff": {"baseMs": 1_000}}


def job(function: str) -> dict[str, str]:
    """Return a job of `tests.spark.jobs`."""
    return {"kind": "spark.python", "entrypoint": f"tests.spark.jobs:{function}"}


class _Inline:
    """A runner pool and a runner in the test's process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    orphans = ()

    def runner(self, **_: Any) -> _Inline:
        return self

    def run_step(
        self,
        request: StepRequest,
        *,
        on_log: Callable[[str, str], None],
        queries: StoreQueries,
        **_: Any,
    ) -> StepResult:
        def send(message: LogLine | Progress) -> None:
            if isinstance(message, LogLine):
                on_log("log", message.text)

        request = _sent_and_received(request)
        step, reporter = Step.model_validate(request.step), ProgressReporter(send)
        return execute(StepTask(request, step, self._engine, reporter, queries))


def _sent_and_received(request: StepRequest) -> StepRequest:
    """Return the request as a runner receives it."""
    message = decode(encode(RunStep(1, request, {})))
    assert isinstance(message, RunStep)
    return message.request


class SparkHarness:
    """A lab whose runs compute real tables."""

    def __init__(self, lab: Lab, engine: Engine) -> None:
        self.lab = lab
        self.engine = engine
        layout.check_warehouse(lab.storage, lab.store.warehouse_id)

    def execute(self, run: ClaimedRun) -> list[str]:
        """All steps and the publication, as a worker does it; what was published."""
        lease = Lease(run, time.monotonic() + 3_600)
        execution = Execution(
            store=self.lab.store,
            settings=self.lab.settings,
            storage=self.lab.storage,
            runners=_Inline(self.engine),  # type: ignore[arg-type]  # all that an execution needs of it
            leases=LeaseKeeper(self.lab.store),
            lease=lease,
            code=CodeCopy(CodeCopies(self.lab.settings), Code({})),
            stop=lambda: None,
            pause=lambda _: None,
        )
        try:
            return execution.execute()
        except FencedError:
            raise
        except FreshlineError as error:
            self.lab.store.runs.fail(run.id, run.attempt, describe(error))
            raise

    def work(self) -> list[str]:
        """Settle and execute until nothing is left to do; the slugs that ran, in order."""
        ran: list[str] = []
        while True:
            self.lab.settle()
            run = self.lab.claim()
            if run is None:
                return ran
            ran.append(run.slug)
            self.execute(run)

    def run(self, slug: str, **trigger: Any) -> list[str]:
        """One run that a user asked for."""
        self.lab.store.operations.request_run(slug, **{"confirm": True, **trigger})
        return self.execute(self.lab.start_of(slug))

    def rows(self, asset_id: str, version: int | None = None) -> Rows:
        """Return the content of a version, by default of the head, as Spark reads it."""
        number = self.lab.head(asset_id)["sequence"] if version is None else version
        pinned = self.lab.store.runs.table_at(asset_id, "", number)
        with self.engine.step(self.lab.storage, {}, ProgressReporter(lambda _: None)):
            return sorted((tuple(row) for row in self.engine.read(pinned).collect()), key=repr)

    @property
    def lines(self) -> list[str]:
        """What the jobs logged, and what was logged about them."""
        return [row["text"] for row in self.lab.rows("SELECT text FROM run_logs ORDER BY run_id, line")]

    def snapshot(self, asset_id: str) -> dict[str, Any]:
        """Return the head's snapshot."""
        return self.lab.rows("SELECT * FROM snapshots WHERE asset_id = %s ORDER BY sequence DESC LIMIT 1", asset_id)[0]
