"""Executes steps on Spark: reads pinned inputs, runs queries, stages outputs. One step at a time."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from freshline.definitions.code import Code
from freshline.definitions.retry import Failure
from freshline.definitions.schema.spark import runtime
from freshline.definitions.schema.workflow import Produces, Query, Step
from freshline.definitions.steps import view_name
from freshline.errors import CheckError, EngineLostError, FreshlineError, JobError
from freshline.model.column_sets import column_set
from freshline.model.deliveries import Deliveries, Delivery
from freshline.model.run import OutputTarget, PinnedInput, StagedOutput
from freshline.spark.application import Application
from freshline.spark.batches import write_batch
from freshline.spark.code_distribution import pack
from freshline.spark.connect import Remote
from freshline.spark.delivery_failures import delivery_error
from freshline.spark.failures import classified, classify, explain, failed, no_client
from freshline.spark.partition_reading import load_partitions
from freshline.spark.plan_columns import analysed_plan, columns_of
from freshline.spark.progress import Meter, Reporter, metered
from freshline.spark.read_failures import reason, unreadable
from freshline.spark.reading import load, load_deliveries, with_paths
from freshline.spark.session import SESSION_CONF
from freshline.spark.staging import Staging, write
from freshline.storage.base import Storage
from freshline.storage.local import LocalStorage

SHOWN = 500  # characters of an error of a Spark that was lost


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Options of a step's session. `code`: Spark's own Python processes need the project's code.

    On a Connect server `session` is its id, and `orphans` are sessions of lost tries, which are closed first
    (docs/semantics.md#R12.1).
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    code: bool = False
    session: str | None = None
    orphans: Sequence[str] = ()


class Engine:
    """Gives every step its own session of one Spark application. `code`: the packed project, if Spark needs it."""

    def __init__(self, application: Application, *, code: Path | None = None) -> None:
        self.application = application
        self._session = application.root
        self._code = code
        self._storage: Storage = LocalStorage(Path())
        self._outputs: Mapping[str, OutputTarget] = {}
        self._views: dict[str, str] = {}
        self._queries: dict[str, Query] = {}
        self._columns: dict[str, Sequence[str]] = {}
        self._deliveries: Callable[[PinnedInput], Deliveries] = _no_deliveries

    @classmethod
    def open(
        cls,
        *,
        master: str | None,
        remote: Remote | None,
        scratch: Path,
        java: str | None = None,
        own_conf: Mapping[str, str] | None = None,
        code: Code | None = None,
    ) -> Engine:
        """Start or reach Spark. A local one executes a small write, so that the first step is quick.

        `own_conf`: settings of the one run that it is for. `code`: of the project, for Spark's machines.
        """
        application = Application.open(master=master, remote=remote, scratch=scratch, java=java, own_conf=own_conf)
        packed = pack(code, scratch) if code and not application.local else None
        engine = cls(application, code=packed)
        if application.local:
            engine._warm_up(scratch / "warm-up")
        elif application.classic and packed is not None:
            application.root.sparkContext.addPyFile(str(packed))
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
        self,
        storage: Storage,
        outputs: Mapping[str, OutputTarget],
        reporter: Reporter,
        options: SessionOptions | None = None,
        deliveries: Callable[[PinnedInput], Deliveries] | None = None,
    ) -> Iterator[Meter]:
        """Open the session of a step and report progress while it runs; afterwards no state of it is left.

        `deliveries` returns those of an append source.
        Raise `EngineLostError` if the cluster or the server was lost, whatever error the step itself raised.
        """
        self._storage, self._outputs, self._views, self._queries = storage, outputs, {}, {}
        self._columns = {}
        self._deliveries = deliveries or _no_deliveries
        try:
            self._begin(options or SessionOptions(), reporter)
            with metered(self._session, reporter, classic=self.application.classic) as meter:
                yield meter
        except CheckError:  # the data is kept for inspection
            raise
        except Exception as error:
            for output in outputs.values():
                storage.clear(output.staging)
            if lost := self._lost(error):
                raise lost from None
            raise
        finally:
            self._end()

    def _begin(self, options: SessionOptions, reporter: Reporter) -> None:
        remote = self.application.remote
        if remote is not None:
            remote.end(options.orphans)
        self._session = self.application.new_session(options.session)
        if remote is not None and (ignored := sorted(options.conf.keys() - runtime(options.conf).keys())):
            reporter.log(f"INFO settings left to the Spark Connect server: {', '.join(ignored)}")
        for name, value in {**SESSION_CONF, **runtime(options.conf)}.items():
            try:
                self._session.conf.set(name, value)
            except Exception as error:  # noqa: BLE001 - errors of Spark and of the connection to it
                raise JobError(f"setting {name!r} cannot be {value!r}: {explain(error) or error}") from None
        if remote is not None and self._code is not None and options.code:
            self._session.addArtifacts(str(self._code), pyfile=True)

    def _end(self) -> None:
        root = self.application.root
        with contextlib.suppress(Exception):  # a broken session is replaced together with its process
            if self.application.classic:
                root.catalog.clearCache()  # on a server it would clear the cache of all users
            elif self._session is not root:
                self._session.stop()

    def _lost(self, error: Exception) -> EngineLostError | None:
        """Return the error to raise instead if Spark was lost: not the step's failure (docs/semantics.md#R7.1)."""
        where = self.application.lost_where(self._session)
        if where is None:
            return None
        text = self.application.hide(explain(error) or str(error))
        return EngineLostError(f"Spark ({where}) got lost in the middle of the step: {text[:SHOWN]}")

    def cancel(self) -> None:
        """Cancel the Spark jobs of the current step."""
        self.application.cancel(self._session)

    def read(self, pinned: PinnedInput, *, new: bool = False) -> DataFrame:
        """Return the rows of a pinned snapshot. `new`: only those that the step has not read yet."""
        if pathless := _pathless(pinned):
            raise JobError(f"{pathless} has no path; declare one in sources/ or report it with payload.path")
        try:
            table = self._load(pinned, new=new)
            _ = table.schema  # Connect analyses only now; here the asset of an error is known
        except Exception as error:  # noqa: BLE001 - data sources raise anything
            if unable := no_client(error, str(self._storage)):
                raise unable from None
            raise (self._delivery_error(pinned, error, new=new) or _cannot_read(pinned, error)) from None
        return table

    def _load(self, pinned: PinnedInput, *, new: bool) -> DataFrame:
        local = self.application.local
        if pinned.partitions is not None:
            return load_partitions(self._session, self._storage, pinned, new=new, local=local)
        return load(
            self._session,
            self._storage,
            pinned,
            since=pinned.since if new else None,
            local=local,
            deliveries=None if pinned.deliveries is None else self._deliveries(pinned),
        )

    def _delivery_error(self, pinned: PinnedInput, error: Exception, *, new: bool) -> JobError | None:
        """Return the error of an append source with the delivery that cannot be read, if it is one."""
        if pinned.deliveries is None or isinstance(error, FreshlineError):
            return None
        chosen = with_paths(self._deliveries(pinned).after(pinned.since if new else None))

        def read(some: Sequence[Delivery]) -> DataFrame:
            return load_deliveries(self._session, pinned, some, local=self.application.local)

        found = delivery_error(pinned.asset_id, read, chosen, error)
        return None if found is None else classified(found, error)

    def create_views(self, step: Step, inputs: Mapping[str, PinnedInput]) -> None:
        """Create a view for every consumed asset whose data can be read."""
        for consumed in step.consumes:
            pinned = inputs.get(consumed.asset_id)
            if pinned is not None and pinned.location is not None:
                self._views[consumed.asset_id] = view_name(consumed)
                rows = self.read(pinned, new=consumed.rows == "new")
                rows.createOrReplaceTempView(view_name(consumed))
                self._columns[view_name(consumed).lower()] = tuple(rows.columns)

    def view_columns(self) -> Mapping[str, Sequence[str]]:
        """Return the columns of each view of the step, by its name in lower case."""
        return self._columns

    def columns_of(self, text: str, table: DataFrame) -> dict[str, frozenset[str]] | None:
        """Return the columns that a query reads of each view; None: it reads whole rows.

        `table`: the result of the query. What goes wrong here must not fail the step.
        """
        try:
            return columns_of(text, analysed_plan(table, classic=self.application.classic), self._columns)
        except Exception:  # noqa: BLE001 - errors of Spark, of the connection to it, and of the parser
            return None

    def query(
        self, asset_id: str, query: Query, parameters: Mapping[str, Any], inputs: Mapping[str, PinnedInput]
    ) -> DataFrame:
        """Return the result of an asset's query with its named parameters."""
        self._queries[asset_id] = query
        try:
            return self._session.sql(query.text, args=_arguments(query.text, parameters) or None)
        except Exception as error:  # noqa: BLE001 - errors of Spark and of the connection to it
            raise _with_pathless(failed(error, self._views, query), inputs) from None

    def stage(self, produced: Produces, step_id: str, table: DataFrame) -> list[StagedOutput]:
        """Write, fingerprint and check one output: of a batch, all its partitions together."""
        output = self._outputs[produced.asset_id]
        staging = Staging(
            asset_id=produced.asset_id,
            step_id=step_id,
            storage=self._storage,
            directory=output.staging,
            produced=produced,
            head=output.head,
            replace=output.replace,
            partition=output.partition,
            remote_writers=not self.application.local,
            column_sets=[column_set(one) for one in output.column_sets],
        )
        try:
            return write_batch(table, staging, output.batch) if output.batch else [write(table, staging)]
        except FreshlineError:
            raise
        except Exception as error:  # noqa: BLE001 - lazy user code fails here
            if unable := no_client(error, str(self._storage)):
                raise unable from None
            raise failed(error, self._views, self._queries.get(produced.asset_id)) from None

    def is_table(self, value: Any) -> bool:
        """Return whether a job returned a Spark DataFrame."""
        return isinstance(value, DataFrame)

    def explain(self, error: BaseException) -> str | None:
        """Return Spark's explanation of an exception of user code; None if it is not Spark's."""
        return explain(error)

    def classify(self, error: BaseException) -> Failure:
        """Return what an exception of user code means for further tries."""
        return classify(error)

    def unreadable(self, error: BaseException) -> str | None:
        """Return what replaces the text of an exception that may quote a file; None if it cannot."""
        return unreadable(error)


def _pathless(pinned: PinnedInput) -> str | None:
    """Return what of an input has no location, in words; None if all of it has one."""
    if pinned.location is None:
        return f"asset {pinned.asset_id!r}"
    missing = next((one.partition_key for one in pinned.partitions or () if one.location is None), None)
    return None if missing is None else f"partition {missing!r} of asset {pinned.asset_id!r}"


def _no_deliveries(pinned: PinnedInput) -> Deliveries:
    raise RuntimeError(f"the deliveries of {pinned.asset_id!r} are not read here")


def _cannot_read(pinned: PinnedInput, error: Exception) -> JobError:
    """Return the error for an input that cannot be opened. Of a source it has no text that may quote a file."""
    location = pinned.location or {}
    if "path" not in location:
        return classified(JobError(f"asset {pinned.asset_id!r} cannot be read: {explain(error) or error}"), error)
    why = reason(error) or explain(error) or type(error).__name__
    shown = JobError(
        f"asset {pinned.asset_id!r} cannot be read: {why}",
        hint=f"its path is {location['path']}, and its format is {location.get('format', 'parquet')}",
    )
    return classified(shown, error)


def _with_pathless(error: FreshlineError, inputs: Mapping[str, PinnedInput]) -> FreshlineError:
    """Add to the hint which inputs have no path: the reason why their views are missing."""
    pathless = [asset for asset, pinned in inputs.items() if pinned.location is None]
    if error.hint and pathless:
        error.hint += f"; no path is known for {', '.join(pathless)}: declare it in sources/ or report payload.path"
    return error


def _arguments(sql: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that the query names; objects are passed as JSON texts."""
    used = set(re.findall(r":([A-Za-z_]\w*)", sql))
    return {
        name: json.dumps(value) if isinstance(value, dict) else value
        for name, value in parameters.items()
        if name in used
    }
