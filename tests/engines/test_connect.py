"""Steps on a real Spark Connect server: the same results, errors, cancellation and isolation as on one machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import duckdb
import pytest

from freshline.errors import CheckError, EngineError, FreshlineError
from freshline.model.run import PinnedInput, StagedOutput
from freshline.settings import Settings
from freshline.spark.connect import Remote
from freshline.worker.runner_process import RunnerProcess
from freshline.worker.step_errors import JobFailedError, RunnerDied, StepStopped
from tests.engines.servers import TOKEN, ConnectServer
from tests.waiting import wait_until
from tests.worker.steps import Bench, copy_of, source, spark_python, sql

pytestmark = [pytest.mark.spark, pytest.mark.full]

JOBS = """
from pyspark.sql import functions as F
from shop.prices import rounded

def priced(ctx):
    return ctx.inputs["up"].df().select("k", rounded("v").alias("v"))
def typo(ctx): return ctx.inputs["up"].df().select("vv").collect()
def fails_late(ctx): return ctx.inputs["up"].df().select(explode("v").alias("x"))

@F.udf("int")
def explode(v): raise ValueError(f"cannot take {v}")

def leaves_traces(ctx):
    ctx.spark.range(1).createOrReplaceTempView("trace")
    ctx.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    return ctx.spark.range(1)
def sees_traces(ctx):
    names = [t.name for t in ctx.spark.catalog.listTables()]
    seen = [ctx.spark.conf.get(name) for name in ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions")]
    return ctx.spark.createDataFrame([(str(names), *seen)], "names string, zone string, partitions string")
def endless(ctx):
    ctx.progress(0)
    return ctx.spark.range(10**15).selectExpr("sum(hash(id)) AS s")
def stops_spark(ctx):
    table = ctx.spark.range(1)
    ctx.spark.stop()
    return table
def tells(ctx):
    print(ctx.spark.client._builder.token)
    raise ValueError(ctx.spark.client._builder.token)
"""
PRICES = """
from pyspark.sql import functions as F

@F.udf("double")
def rounded(v): return round(v * 1.2, 1)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Jobs, a package of their own without __init__.py, and three rows."""
    project = tmp_path_factory.mktemp("project")
    (project / "jobs.py").write_text(JOBS)
    (project / "shop").mkdir()
    (project / "shop" / "prices.py").write_text(PRICES)
    (project / "up.csv").write_text("k,v\na,1\na,2\nb,3\n")
    return project


def runner_on(server: ConnectServer, project: Path, token: str = TOKEN) -> RunnerProcess:
    """Return a runner whose Spark is the server."""
    settings = Settings(project=project, spark_remote=server.url, spark_token=token)
    runner = RunnerProcess(project, spark=True, settings=settings, code=copy_of(project))
    runner.start()
    return runner


@pytest.fixture(scope="module")
def bench(connect: ConnectServer, project: Path) -> Iterator[Bench]:
    """Yield a runner that is connected."""
    shared = Bench(project, runner_on(connect, project))
    wait_until(lambda: shared.runner.ready or not shared.runner.alive, 60, what="a connected runner")
    assert shared.runner.ready, shared.runner.failure
    yield shared
    shared.runner.kill()


@pytest.fixture
def up(project: Path) -> dict[str, PinnedInput]:
    """Three rows (k, v): a 1, a 2, b 3."""
    return {"up": source("up", project / "up.csv")}


def rows(bench: Bench, output: StagedOutput) -> list[tuple[object, ...]]:
    """Return the rows of a staged output, read without Spark."""
    files = str(bench.warehouse / (output.location or {})["paths"][0] / "*.parquet")
    return sorted(duckdb.sql(f"SELECT * FROM read_parquet('{files}')").fetchall())


def test_sql_python_functions_and_checks_work(bench: Bench, up: dict[str, PinnedInput]) -> None:
    """Views, parameters, a function of the project's own package inside Spark, checks: all as on one machine."""
    job = {**sql("SELECT k, sum(v) AS v FROM up WHERE v < :limit GROUP BY k"), "parameters": {"limit": 3}}
    produces = [{"assetId": "out", "checks": [{"notNull": ["k"]}, {"unique": ["k"]}, {"sql": "count(*) > 0"}]}]
    (output,) = bench.run(job, inputs=up, produces=produces).outputs
    assert rows(bench, output) == [("a", 3)]
    assert [one["passed"] for one in output.checks] == [True, True, True]
    (priced,) = bench.run(spark_python("priced"), inputs=up).outputs
    assert rows(bench, priced) == [("a", 1.2), ("a", 2.4), ("b", 3.6)]
    pinned = PinnedInput("out", 1, priced.data_version or "", priced.location, schema=priced.schema)
    (back,) = bench.run(sql("SELECT * FROM out"), inputs={"out": pinned}, produces=[{"assetId": "copy"}]).outputs
    assert back.data_version == priced.data_version


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (sql("SELECT * FROM upp"), r"reads `upp`, which is not there.*: up \(asset up\) \(a table that"),
        (sql("SELECT vv FROM up"), r"\[UNRESOLVED_COLUMN.*`vv`"),
        (sql("SELECT v / 0 AS x FROM up"), r"\[DIVIDE_BY_ZERO\]"),
        (spark_python("typo"), r"jobs.py:\d+: \[UNRESOLVED_COLUMN.*`vv`"),
        (spark_python("fails_late"), r"ValueError: cannot take \d"),
    ],
)
def test_a_mistake_is_told_in_short(
    bench: Bench, up: dict[str, PinnedInput], job: dict[str, str], message: str
) -> None:
    """The same sentences as on one machine, without the stack of the JVM; nothing is left behind."""
    before = len(list(bench.warehouse.glob("*/data/*")))
    with pytest.raises(JobFailedError, match=message) as caught:
        bench.run(job, inputs=up)
    assert "\tat " not in str(caught.value)
    assert not bench.lines
    assert len(list(bench.warehouse.glob("*/data/*"))) == before


def test_an_input_that_is_not_there_is_named(bench: Bench) -> None:
    """Connect looks for files late; the error still says which asset it is about."""
    with pytest.raises(JobFailedError, match=r"asset 'up' cannot be read: \[PATH_NOT_FOUND\]"):
        bench.run(sql("SELECT * FROM up"), inputs={"up": source("up", Path("/nowhere.csv"))})


def test_a_failed_check_keeps_the_data(bench: Bench, up: dict[str, PinnedInput]) -> None:
    """The error names the check and where the data is."""
    produces = [{"assetId": "out", "checks": [{"range": {"column": "v", "max": 2}}]}]
    with pytest.raises(CheckError, match=r"column 'v' has 1 of 3 .* from 1 to 3") as caught:
        bench.run(sql("SELECT * FROM up"), inputs=up, produces=produces)
    assert list((bench.warehouse / (caught.value.staged or "")).glob("*.parquet"))


def test_settings_hold_for_one_step_alone(bench: Bench) -> None:
    """`conf` is set on the step's own session and gone afterwards; what a session cannot take is left to the server."""
    bench.run(spark_python("leaves_traces"))
    conf = {"spark.sql.shuffle.partitions": "7", "spark.driver.memory": "64g"}
    (with_conf,) = bench.run(spark_python("sees_traces"), conf=conf).outputs
    assert bench.lines == ["INFO settings left to the Spark Connect server: spark.driver.memory"]
    (without,) = bench.run(spark_python("sees_traces")).outputs
    assert rows(bench, with_conf) == [("[]", "UTC", "7")]
    assert rows(bench, without) == [("[]", "UTC", "4")]
    with pytest.raises(JobFailedError, match=r"setting 'spark.sql.shuffle.partitions' cannot be 'many': .*many"):
        bench.run(sql("SELECT 1 AS a"), conf={"spark.sql.shuffle.partitions": "many"})


def test_a_step_can_be_stopped_and_the_slot_used_again(connect: ConnectServer, bench: Bench, project: Path) -> None:
    """The session's work is interrupted on the server.

    When it computes: what is interrupted while the server submits it is given up there, and computed all the same.
    """
    began, before = time.monotonic(), tasks(connect)
    with pytest.raises(StepStopped):
        bench.run(spark_python("endless"), stop=lambda: "canceled" if tasks(connect) > before else None)
    assert time.monotonic() - began < 30
    if not bench.runner.alive:  # a server that is too busy to answer in time costs the runner, not the slot
        bench.runner = runner_on(connect, project)
    assert bench.run(sql("SELECT 1 AS a")).outputs


def test_whoever_comes_next_ends_what_a_lost_runner_left(connect: ConnectServer, bench: Bench, project: Path) -> None:
    """A session outlives its runner on the server; the next step ends it, and it takes no more work.

    See docs/semantics.md#R12.1.
    """
    lost, session = Bench(project, runner_on(connect, project)), str(uuid4())

    def kill_runner() -> None:
        if lost.progress and lost.runner.alive and computes():
            with suppress(ProcessLookupError):  # it was killed a moment ago
                os.kill(lost.runner.pid or 0, signal.SIGKILL)

    def computes() -> bool:
        return bool(active_jobs(connect, project))

    with pytest.raises(RunnerDied):
        lost.run(spark_python("endless"), session=session, stop=kill_runner)
    assert computes(), "the server goes on without its client"
    bench.run(sql("SELECT 1 AS a"), session=str(uuid4()), orphans=[session])
    with pytest.raises(FreshlineError, match="SESSION_CLOSED"):
        bench.run(sql("SELECT 1 AS a"), session=session)
    wait_until(lambda: not computes(), 30, every=0.2, what="an idle server")


def tasks(server: ConnectServer) -> int:
    """How many tasks the server has begun."""
    return server.said().count("Executor: Running task")


def active_jobs(server: ConnectServer, project: Path) -> set[str]:
    """Return whether the server still computes, judged by the processor time of its process."""
    before = cpu(server.process.pid)
    deadline = time.monotonic() + 0.5
    wait_until(lambda: time.monotonic() > deadline)
    return {"busy"} if cpu(server.process.pid) - before > 10 else set()


def cpu(pid: int) -> int:
    """Ticks that a process used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_token_is_never_shown(connect: ConnectServer, bench: Bench, project: Path) -> None:
    """Neither in arguments and environments of processes, nor in logs and errors, not even if a job tells it."""
    with pytest.raises(JobFailedError, match=r"ValueError: \*\*\*") as caught:
        bench.run(spark_python("tells"))
    assert "***" in bench.lines
    assert TOKEN not in "".join([*bench.lines, str(caught.value), caught.value.traceback])
    for file in ("cmdline", "environ"):
        assert TOKEN.encode() not in Path(f"/proc/{bench.runner.pid}/{file}").read_bytes()
    stranger = Bench(project, runner_on(connect, project, token="wrong-4711"))  # noqa: S106 - it is none
    with pytest.raises(EngineError, match=rf"cannot be started or reached \({connect.url}\): ") as refused:
        stranger.run(sql("SELECT 1 AS a"))
    assert "wrong-4711" not in str(refused.value)
    assert TOKEN not in repr(Remote.of(f"{connect.url}/;token={TOKEN}"))


def test_a_job_that_stops_its_session_is_told(bench: Bench) -> None:
    """The error says what the job did; the server is as before."""
    with pytest.raises(JobFailedError, match=r"do not call spark.stop\(\)"):
        bench.run(spark_python("stops_spark"))
