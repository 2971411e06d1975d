"""The warm Spark of a runner: reads pinned inputs, runs queries, stages outputs. One step at a time."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from freshline.definitions.schema import Produces, Query, Step
from freshline.definitions.steps import view_name
from freshline.errors import CheckError, FreshlineError, JobError
from freshline.model.run import PinnedInput, StagedOutput
from freshline.spark.failures import explain, failed
from freshline.spark.progress import Meter, Say, metered
from freshline.spark.reading import load
from freshline.spark.session import EVERYWHERE, open_session
from freshline.spark.staging import Staging, write
from freshline.warehouse import files

SETTLE_SECONDS = 0.05


class Health(StrEnum):
    """How a session is: good, stopped by the user's code, or gone with its JVM or server."""

    GOOD = "good"
    STOPPED = "stopped"
    GONE = "gone"


class Engine:
    """A session that is open for the life of the process; every step gets a session of its own on top of it."""

    def __init__(self, session: SparkSession, *, classic: bool, local: bool) -> None:
        self._root = session
        self._session = session
        self._classic = classic
        self._local = local
        self._warehouse = Path()
        self._outputs: Mapping[str, Mapping[str, Any]] = {}
        self._views: dict[str, str] = {}
        self._queries: dict[str, Query] = {}

    @classmethod
    def open(cls, *, master: str | None, remote: str | None, scratch: Path, java: str | None = None) -> Engine:
        """Start or reach Spark, and warm it up with a small write, so that the first step is quick."""
        session = open_session(master=master, remote=remote, scratch=scratch, java=java)
        local = remote is None and (master or "local").startswith("local")
        engine = cls(session, classic=remote is None, local=local)
        if local:
            engine._warm_up(scratch / "warm-up")
        return engine

    def _warm_up(self, directory: Path) -> None:
        staging = Staging("warm-up", "warm-up", directory.parent, directory)
        write(self._session.range(10).selectExpr("id % 3 AS k").groupBy("k").count(), staging)
        files.discard_directory(directory)

    @property
    def spark(self) -> SparkSession:
        """The session of the current step."""
        return self._session

    @contextlib.contextmanager
    def step(self, warehouse: Path, outputs: Mapping[str, Mapping[str, Any]], say: Say) -> Iterator[Meter]:
        """A step's own views and settings; progress is told while it runs; afterwards nothing of it is left."""
        self._warehouse, self._outputs, self._views, self._queries = warehouse, outputs, {}, {}
        self._session = self._root.newSession()
        for name, value in EVERYWHERE.items():
            self._session.conf.set(name, value)
        try:
            with metered(self._session, say, classic=self._classic) as meter:
                yield meter
        except CheckError:  # people want to look at the data
            raise
        except Exception:
            for output in outputs.values():
                files.discard_directory(Path(output["staging"]))
            raise
        finally:
            with contextlib.suppress(Exception):  # a session that is broken is replaced with its process
                self._root.catalog.clearCache()

    def read(self, pinned: PinnedInput, *, new: bool = False) -> DataFrame:
        """Exactly the pinned snapshot. `new`: only the rows that the step has not read yet."""
        if pinned.location is None:
            raise JobError(
                f"asset {pinned.asset_id!r} has no path; declare one in sources/ or report it with payload.path"
            )
        try:
            return load(self._session, self._warehouse, pinned, since=pinned.since if new else None)
        except Exception as error:  # noqa: BLE001 - formats raise what they like
            raise JobError(f"asset {pinned.asset_id!r} cannot be read: {explain(error) or error}") from None

    def create_views(self, step: Step, inputs: Mapping[str, PinnedInput]) -> None:
        """A view per consumed asset whose data can be read."""
        for consumed in step.consumes:
            pinned = inputs.get(consumed.asset_id)
            if pinned is not None and pinned.location is not None:
                self._views[consumed.asset_id] = view_name(consumed)
                rows = self.read(pinned, new=consumed.rows == "new")
                rows.createOrReplaceTempView(view_name(consumed))

    def query(
        self, asset_id: str, query: Query, parameters: Mapping[str, Any], inputs: Mapping[str, PinnedInput]
    ) -> DataFrame:
        """The result of an asset's query with its named parameters."""
        self._queries[asset_id] = query
        try:
            return self._session.sql(query.text, args=_arguments(query.text, parameters) or None)
        except Exception as error:  # noqa: BLE001 - Spark's own and those of the connection to it
            raise self._named(failed(error, self._views, query), inputs) from None

    def _named(self, error: FreshlineError, inputs: Mapping[str, PinnedInput]) -> FreshlineError:
        pathless = [asset for asset, pinned in inputs.items() if pinned.location is None]
        if error.hint and pathless:
            error.hint += f"; no path is known for {', '.join(pathless)}: declare it in sources/ or report payload.path"
        return error

    def stage(self, produced: Produces, step_id: str, table: DataFrame) -> StagedOutput:
        """Write, fingerprint and check one output."""
        output = self._outputs[produced.asset_id]
        head = output.get("head")
        staging = Staging(
            asset_id=produced.asset_id,
            step_id=step_id,
            warehouse=self._warehouse,
            directory=Path(output["staging"]),
            produced=produced,
            head=PinnedInput(**head) if head else None,
            anew=output.get("anew", True),
        )
        try:
            return write(table, staging)
        except FreshlineError:
            raise
        except Exception as error:  # noqa: BLE001 - lazy user code fails here
            raise failed(error, self._views, self._queries.get(produced.asset_id)) from None

    def is_table(self, value: Any) -> bool:
        """Whether a job returned a Spark DataFrame."""
        return isinstance(value, DataFrame)

    def explain(self, error: BaseException) -> str | None:
        """What Spark has to say about an exception of user code."""
        return explain(error)

    def health(self) -> Health:
        """Whether the session can take another step."""
        try:
            stopped = self._classic and self._root.sparkContext._jsc is None  # noqa: SLF001 - there is no public way
            self._root.conf.get("spark.app.name", "")  # a question that is not answered from memory
        except Exception:  # noqa: BLE001 - whatever keeps it from answering
            return Health.GONE
        return Health.STOPPED if stopped else Health.GOOD

    def cancel(self) -> None:
        """End what the current step computes; called by another thread."""
        if self._classic:
            self._root.sparkContext.cancelAllJobs()
        else:
            self._session.interruptAll()

    def settle(self) -> None:
        """Return when Spark's cores are free again: tasks of a canceled write go on for a while, and write files."""
        with contextlib.suppress(Exception):
            while self._classic and self._running_tasks():
                time.sleep(SETTLE_SECONDS)
            self._root.range(1).count()

    def _running_tasks(self) -> int:
        executors = self._root.sparkContext._jsc.sc().statusTracker().getExecutorInfos()  # noqa: SLF001 - as above
        return sum(executor.numRunningTasks() for executor in executors)

    def close(self) -> None:
        """Give back what others could use; a local JVM simply dies with the process."""
        if not self._local:
            self._root.stop()


def _arguments(sql: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that the query names; objects are passed as JSON texts."""
    used = set(re.findall(r":([A-Za-z_]\w*)", sql))
    return {
        name: json.dumps(value) if isinstance(value, dict) else value
        for name, value in parameters.items()
        if name in used
    }
