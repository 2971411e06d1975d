"""The warm Spark of a runner: reads pinned inputs, runs queries, stages outputs. One step at a time."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from freshline.definitions.schema.spark import runtime
from freshline.definitions.schema.workflow import Produces, Query, Step
from freshline.definitions.steps import view_name
from freshline.errors import CheckError, EngineLostError, FreshlineError, JobError
from freshline.model.run import PinnedInput, StagedOutput
from freshline.spark.code_distribution import pack
from freshline.spark.connect import Remote, answers
from freshline.spark.failures import explain, failed, no_client
from freshline.spark.progress import Meter, Say, metered
from freshline.spark.reading import load
from freshline.spark.session import EVERYWHERE, open_session
from freshline.spark.staging import Staging, write
from freshline.storage.base import Storage
from freshline.storage.local import LocalStorage

SETTLE_SECONDS = 0.05
ENDING_SECONDS = 5.0  # for a JVM that no longer answers to be gone
OUT_OF_MEMORY = {3, 52}  # how a JVM ends that was told to (session.py), and how Spark ends it
SHOWN = 500  # characters of what was said when Spark got lost


class Health(StrEnum):
    """How Spark is: good, stopped by the user's code, gone with our own JVM, or lost with a cluster or a server."""

    GOOD = "good"
    STOPPED = "stopped"
    GONE = "gone"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a step wants of its session: settings, the project's code for Spark's own Python processes.

    On Connect `session` is its id, and `orphans` are sessions of lost tries, which are ended first (R12.1).
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    code: bool = False
    session: str | None = None
    orphans: Sequence[str] = ()


class Engine:
    """A session that is open for the life of the process; every step gets a session of its own on top of it."""

    def __init__(
        self, session: SparkSession, *, remote: Remote | None = None, local: bool, code: Path | None = None
    ) -> None:
        self._root = session
        self._session = session
        self._remote = remote
        self._classic = remote is None
        self._local = local
        self._code = code
        self._stopped = False
        self._storage: Storage = LocalStorage(Path())
        self._outputs: Mapping[str, Mapping[str, Any]] = {}
        self._views: dict[str, str] = {}
        self._queries: dict[str, Query] = {}

    @classmethod
    def open(
        cls,
        *,
        master: str | None,
        remote: Remote | None,
        scratch: Path,
        java: str | None = None,
        own: Mapping[str, str] | None = None,
        project: Path | None = None,
    ) -> Engine:
        """Start or reach Spark, and warm it up with a small write, so that the first step is quick.

        `own`: settings of the one run that it is for. `project`: whose code Spark's machines need.
        """
        session = open_session(master=master, remote=remote, scratch=scratch, java=java, own=own)
        local = remote is None and (master or "local").startswith("local")
        code = pack(project, scratch) if project and not local else None
        engine = cls(session, remote=remote, local=local, code=code)
        if local:
            engine._warm_up(scratch / "warm-up")
        elif remote is None and code is not None:
            session.sparkContext.addPyFile(str(code))
        return engine

    def _warm_up(self, directory: Path) -> None:
        storage = LocalStorage(directory.parent)
        staging = Staging("warm-up", "warm-up", storage, directory.name)
        write(self._session.range(10).selectExpr("id % 3 AS k").groupBy("k").count(), staging)
        storage.clear(directory.name)

    @property
    def spark(self) -> SparkSession:
        """The session of the current step."""
        return self._session

    @contextlib.contextmanager
    def step(
        self, storage: Storage, outputs: Mapping[str, Mapping[str, Any]], say: Say, wishes: Wishes | None = None
    ) -> Iterator[Meter]:
        """A step's own views and settings; progress is told while it runs; afterwards nothing of it is left.

        `EngineLostError`: the cluster or the server got lost meanwhile, whatever the step itself had to say about it.
        """
        self._storage, self._outputs, self._views, self._queries = storage, outputs, {}, {}
        try:
            self._begin(wishes or Wishes(), say)
            with metered(self._session, say, classic=self._classic) as meter:
                yield meter
        except CheckError:  # people want to look at the data
            raise
        except Exception as error:
            for output in outputs.values():
                storage.clear(output["staging"])
            if lost := self._lost(error):
                raise lost from None
            raise
        finally:
            self._end()

    def _begin(self, wishes: Wishes, say: Say) -> None:
        if self._remote is None:
            self._session = self._root.newSession()
        else:
            self._remote.end(wishes.orphans)
            self._session = self._remote.open(wishes.session)
            if left := sorted(wishes.conf.keys() - runtime(wishes.conf).keys()):
                say({"type": "log", "text": f"INFO settings left to the Spark Connect server: {', '.join(left)}"})
        for name, value in {**EVERYWHERE, **runtime(wishes.conf)}.items():
            try:
                self._session.conf.set(name, value)
            except Exception as error:  # noqa: BLE001 - Spark's own and those of the connection to it
                raise JobError(f"setting {name!r} cannot be {value!r}: {explain(error) or error}") from None
        if self._remote is not None and self._code is not None and wishes.code:
            self._session.addArtifacts(str(self._code), pyfile=True)

    def _end(self) -> None:
        with contextlib.suppress(Exception):  # a session that is broken is replaced with its process
            if self._classic:
                self._root.catalog.clearCache()  # on a server it would be everybody's
            elif self._session is not self._root:
                self._session.stop()

    def _lost(self, error: Exception) -> EngineLostError | None:
        """The error to tell instead, if it is not the step that failed but what it ran on (R7.1)."""
        if self._remote is not None:
            self._stopped = self._session.is_stopped
            if self._stopped or answers(self._session):
                return None
            where = self._remote.place
        elif not self._local and self._gave_up():
            where = "the cluster"
        else:
            return None
        said = explain(error) or str(error)
        return EngineLostError(f"Spark ({where}) got lost in the middle of the step: {self.hide(said)[:SHOWN]}")

    def _gave_up(self) -> bool:
        """Whether Spark ended itself, as it does when the cluster takes its application away."""
        try:
            context = self._root.sparkContext._jsc  # noqa: SLF001 - there is no public way
            return context is not None and bool(context.sc().isStopped())
        except Exception:  # noqa: BLE001 - the JVM is gone: that is a crash of ours
            return False

    def hide(self, text: str) -> str:
        """`text` without our credentials."""
        return self._remote.hide(text) if self._remote else text

    def read(self, pinned: PinnedInput, *, new: bool = False) -> DataFrame:
        """Exactly the pinned snapshot. `new`: only the rows that the step has not read yet."""
        if pinned.location is None:
            raise JobError(
                f"asset {pinned.asset_id!r} has no path; declare one in sources/ or report it with payload.path"
            )
        try:
            table = load(self._session, self._storage, pinned, since=pinned.since if new else None)
            _ = table.schema  # Connect asks the server only now; a mistake is told here, where the asset is known
        except Exception as error:  # noqa: BLE001 - formats raise what they like
            if unable := no_client(error, str(self._storage)):
                raise unable from None
            raise JobError(f"asset {pinned.asset_id!r} cannot be read: {explain(error) or error}") from None
        return table

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
            storage=self._storage,
            directory=output["staging"],
            produced=produced,
            head=PinnedInput(**head) if head else None,
            anew=output.get("anew", True),
            elsewhere=not self._local,
        )
        try:
            return write(table, staging)
        except FreshlineError:
            raise
        except Exception as error:  # noqa: BLE001 - lazy user code fails here
            if unable := no_client(error, str(self._storage)):
                raise unable from None
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
            if self._remote is not None:
                return self._health_of_server(self._remote)
            stopped = self._root.sparkContext._jsc is None  # noqa: SLF001 - there is no public way
            self._root.conf.get("spark.app.name", "")  # a question that is not answered from memory
        except Exception:  # noqa: BLE001 - whatever keeps it from answering
            return Health.GONE
        if stopped or not self._gave_up():
            return Health.STOPPED if stopped else Health.GOOD
        return Health.STOPPED if self._local else Health.LOST

    def lacks_archive(self) -> bool:
        """Whether our own JVM has started without the archive that would make it quicker."""
        if not self._classic:
            return False
        return "SharedArchiveFile" not in self._root.sparkContext.getConf().get("spark.driver.extraJavaOptions", "")

    def out_of_memory(self) -> bool:
        """Whether our own JVM is gone because its heap was full."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.jvm is not None and self.jvm.wait(ENDING_SECONDS) in OUT_OF_MEMORY
        return False

    @property
    def jvm(self) -> subprocess.Popen[bytes] | None:
        """Our own JVM; None where Spark is a server."""
        return getattr(self._root.sparkContext._gateway, "proc", None) if self._classic else None  # noqa: SLF001 - as above

    def _health_of_server(self, remote: Remote) -> Health:
        """By a new session: one that was idle for an hour is gone on a server that is well."""
        probe = remote.open()
        try:
            if not answers(probe):
                return Health.LOST
        finally:
            probe.stop()
        return Health.STOPPED if self._stopped else Health.GOOD

    def cancel(self) -> None:
        """End what the current step computes at this moment; what it begins a moment later is not met."""
        if self._classic:
            self._root.sparkContext.cancelAllJobs()
        else:
            self._session.interruptAll()

    def settle(self) -> None:
        """Return when Spark's cores are free again: tasks of a canceled write go on for a while, and write files."""
        with contextlib.suppress(Exception):
            while self._classic and self._running_tasks():
                time.sleep(SETTLE_SECONDS)
            if self._remote is None:
                self._root.range(1).count()
            else:
                with self._remote.open() as probe:
                    probe.range(1).count()

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
