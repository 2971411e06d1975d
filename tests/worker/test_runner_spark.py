"""Spark steps in a real runner: SQL, Python, pinned inputs, failures, and the end of the JVM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from freshline.errors import CheckError
from freshline.model.run import PinnedInput, StagedOutput
from freshline.settings import Settings
from freshline.spark.progress import SUMS
from freshline.storage.layout import verify_staged
from freshline.storage.local import LocalStorage
from freshline.worker.runner import SPARK_IS_GONE
from freshline.worker.runner_process import RunnerProcess
from freshline.worker.step_errors import OUT_OF_MEMORY, JobFailedError, RunnerDied, StepStopped
from tests.waiting import wait_until
from tests.worker.steps import Bench, copy_of, source, spark_python, sql

pytestmark = pytest.mark.spark

JOBS = """
import os, pathlib
from pyspark.sql import functions as F
from freshline.definitions.decorators import asset

def one(ctx):
    ctx.log.info("rows %d", ctx.inputs["up"].df().count())
    return ctx.inputs["up"].df().groupBy("k").agg(F.sum("v").alias("v"))

def whole(ctx): return ctx.new("up")
def two(ctx): return {"out": ctx.spark.range(3), "more": ctx.spark.range(4)}
def elsewhere(ctx):
    return {"assets": [{"assetId": "out", "dataVersion": "7", "payload": {"at": ctx.spark.range(3).count()}}]}
def undeclared(ctx): return {"out": ctx.spark.range(1), "oops": ctx.spark.range(1)}
def missing(ctx): return {"more": ctx.spark.range(1)}
def nothing(ctx): return None
def pandas(ctx): return [1, 2]
def typo(ctx): return ctx.inputs["up"].df().select("vv")
def fails(ctx): raise KeyError("k")
def fails_late(ctx): return ctx.inputs["up"].df().select(_explode("v").alias("x"))

def mistakes_late(ctx): return ctx.inputs["up"].df().select(_mistake("v").alias("x"))

@F.udf("int")
def _mistake(v): return {}[v]

@F.udf("int")
def _explode(v): raise ValueError(f"cannot take {v}")

@asset("out", inputs={"up": "up"})
def decorated(up, factor): return up.select((F.col("v") * factor).alias("v"))

def leaves_traces(ctx):
    ctx.spark.range(1).createOrReplaceTempView("trace")
    ctx.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    ctx.spark.range(10).cache().count()
    return ctx.spark.range(1)
def sees_traces(ctx):
    rows = [(t.name, ctx.spark.conf.get("spark.sql.session.timeZone")) for t in ctx.spark.catalog.listTables()]
    return ctx.spark.createDataFrame(rows, "name string, zone string")
def counts(ctx):
    import threading
    ctx.progress(1, 2)
    aside = threading.Thread(target=lambda: ctx.spark.range(100, numPartitions=5).count())
    aside.start()
    aside.join()
    return ctx.inputs["up"].df().repartition(3)
def goes_on(ctx):
    print("going", flush=True)
    while True:
        try:
            ctx.spark.range(1000).selectExpr("sum(id)").collect()
        except Exception as error:
            print("caught", type(error).__name__)
def spins(ctx):
    print("spinning", flush=True)
    while True:
        pass
@F.udf("string")
def imported(v):
    import helper
    return helper.VERSION
def udf_of_an_edited_module(ctx):
    file = pathlib.Path("helper.py")
    applied = file.read_bytes()
    file.write_text("VERSION = 'never applied'")
    table = ctx.spark.range(2).select(imported("id").alias("v")).collect()
    file.write_bytes(applied)
    return ctx.spark.createDataFrame(table)
def asks(ctx):
    print("asking", flush=True)
    return ctx.inputs["up"].at(1)
def endless(ctx): return ctx.spark.range(10**15).selectExpr("sum(hash(id)) AS s")
def kills_the_jvm(ctx):
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        name, _, fields = stat.read_text().partition("(")[2].rpartition(")")
        if name == "java" and int(fields.split()[2]) == os.getpgid(0):
            os.kill(int(stat.parent.name), 9)
    return ctx.spark.range(3)
def stops_spark(ctx):
    table = ctx.spark.range(1)
    ctx.spark.stop()
    return table
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One warm runner for all tests; the last ones end it."""
    project = tmp_path_factory.mktemp("project")
    (project / "jobs.py").write_text(JOBS)
    (project / "helper.py").write_text("VERSION = 'applied'\n")
    (project / "up.csv").write_text("k,v\na,1\na,2\nb,3\n")
    runner = RunnerProcess(project, spark=True, settings=Settings(project=project), code=copy_of(project))
    runner.start()
    wait_until(lambda: runner.ready or not runner.alive, 120, what="a warm runner")
    shared = Bench(project, runner)
    yield shared
    shared.runner.kill()


@pytest.fixture
def up(bench: Bench) -> dict[str, PinnedInput]:
    """Three rows (k, v): a 1, a 2, b 3."""
    return {"up": source("up", bench.project / "up.csv")}


def rows(bench: Bench, output: StagedOutput) -> list[tuple[object, ...]]:
    """Return the rows of a staged output, read without Spark."""
    assert output.location is not None
    verify_staged(LocalStorage(bench.warehouse), output.location)
    files = str(bench.warehouse / output.location["paths"][0] / "**" / "*.parquet")
    return sorted(duckdb.sql(f"SELECT * FROM read_parquet('{files}')").fetchall())


def pinned(output: StagedOutput) -> PinnedInput:
    """Return a staged output as the input of another step."""
    return PinnedInput(output.asset_id, 3, output.data_version or "", output.location, schema=output.schema)


def left(bench: Bench) -> int:
    """How many staging directories there are."""
    return len(list(bench.warehouse.glob("*/data/*")))


def test_a_query_reads_pinned_inputs_and_parameters(bench: Bench, up: dict[str, PinnedInput]) -> None:
    """A view per input, `as` for another name, :name for parameters; rows, bytes, schema and version are told."""
    job = {**sql("SELECT k, sum(v) AS v FROM data WHERE v < :limit GROUP BY k"), "parameters": {"limit": 3}}
    result = bench.run(job, inputs=up, consumes=[{"assetId": "up", "as": "data"}])
    (output,) = result.outputs
    assert rows(bench, output) == [("a", 3)]
    assert (output.asset_id, output.step_id, output.rows) == ("out", "step", 1)
    assert output.location is not None
    assert output.bytes == sum(output.location["files"].values())
    assert [field["name"] for field in output.schema["fields"]] == ["k", "v"]
    assert (result.metrics["rowsOut"], result.metrics["bytesOut"]) == (1, output.bytes)
    again = bench.run(job, inputs=up, consumes=[{"assetId": "up", "as": "data"}], parameters={"limit": 99})
    assert rows(bench, again.outputs[0]) == [("a", 3), ("b", 3)]
    assert again.outputs[0].data_version != output.data_version


def test_outputs_are_read_back_as_they_were_written(bench: Bench, up: dict[str, PinnedInput]) -> None:
    """Asset ids with dots and colons, partitioned files and every column's type survive; equal data, equal version."""
    query = "SELECT '01' AS p, v, CAST(v AS decimal(9, 2)) AS d FROM up"
    produces = [{"assetId": "a.b:c", "table": {"partitionBy": ["p"]}}]
    (output,) = bench.run(sql(query), inputs=up, produces=produces).outputs
    location = output.location or {}
    assert all(name.startswith(f"{location['paths'][0]}/p=01/") for name in location["files"])
    back = bench.run(sql("SELECT p, v, d FROM a_b_c"), inputs={"a.b:c": pinned(output)})
    assert back.outputs[0].data_version == output.data_version


def test_a_query_per_output(bench: Bench) -> None:
    """`outputs` names one query per asset."""
    job = {"kind": "spark.sql", "outputs": {"out": "SELECT 1 AS a", "more": "SELECT 2 AS a"}}
    result = bench.run(job, produces=[{"assetId": "out"}, {"assetId": "more"}])
    assert [(o.asset_id, rows(bench, o)) for o in result.outputs] == [("out", [(1,)]), ("more", [(2,)])]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT * FROM upp",
            r"reads `upp`.*not there \(line 1 pos 14\); .*: up \(asset up\) \(a table .*\n  1 \| SELECT",
        ),
        ("SELECT vv FROM up", r"\[UNRESOLVED_COLUMN.*`vv`.*line 1 pos 7\n  1 \| SELECT vv FROM up\n {13}\^$"),
        ("SELECT v,\n\n v / 0 AS x FROM up", r"\[DIVIDE_BY_ZERO\](.|\n)*\n  3 \|  v / 0 AS x FROM up\n {7}\^$"),
        ("SELECT v\nFORM up x y", r"\[PARSE_SYNTAX_ERROR\].*\n  2 \| FORM up x y\n {6} *\^$"),
        ("SELECT v FROM up WHERE v = :x", r"\[UNBOUND_SQL_PARAMETER\]"),
    ],
)
def test_a_query_that_fails_says_so_in_short(
    bench: Bench, up: dict[str, PinnedInput], query: str, message: str
) -> None:
    """Condition and position, no stack of the JVM; nothing is left behind."""
    before = left(bench)
    with pytest.raises(JobFailedError, match=message) as caught:
        bench.run(sql(query), inputs=up)
    assert len(str(caught.value)) < 1_000
    assert "\tat " not in str(caught.value)
    assert not bench.lines
    assert left(bench) == before


@pytest.mark.parametrize(
    ("job", "name", "permanent"),
    [
        (sql("SELECT vv FROM up"), "AnalysisException", True),
        (sql("SELECT v FORM up x y"), "AnalysisException", True),
        (sql("SELECT v / 0 AS n FROM up"), "Exception", True),
        (sql("SELECT CAST(k AS int) AS n FROM up"), "Exception", True),
        (sql("SELECT raise_error('later') AS n FROM up"), "Exception", False),
        (spark_python("typo"), "AnalysisException", True),
        (spark_python("fails"), "KeyError", True),
        (spark_python("fails_late"), "ValueError", False),
        (spark_python("mistakes_late"), "LookupError", True),
        (spark_python("pandas"), "JobError", True),
    ],
    ids=lambda one: (one.get("sql") or one["entrypoint"]) if isinstance(one, dict) else None,
)
def test_an_error_says_whether_it_can_go_away(
    bench: Bench, up: dict[str, PinnedInput], job: dict[str, str], name: str, permanent: bool
) -> None:
    """Errors of analysis, of values and of the program cannot (docs/semantics.md#R7.5)."""
    with pytest.raises(JobFailedError) as caught:
        bench.run(job, inputs=up)
    assert name in caught.value.raised, caught.value.raised
    assert caught.value.permanent is permanent


def test_an_error_in_a_sql_file_names_its_line(bench: Bench, up: dict[str, PinnedInput]) -> None:
    """At once, and when the rows are computed; a query in one long line is shown around the place."""
    file = {"sqlFile": "workflows/out.sql"}
    with pytest.raises(JobFailedError, match=r"^workflows/out\.sql:2: \[UNRESOLVED_COLUMN") as caught:
        bench.run({**sql("SELECT v,\n  vv\nFROM up"), **file}, inputs=up)
    assert str(caught.value).endswith("\n  2 |   vv\n        ^")
    with pytest.raises(JobFailedError, match=r"^workflows/out\.sql:2: \[CAST_INVALID_INPUT\]") as caught:
        bench.run({**sql("SELECT v,\n  CAST(k AS int) AS n FROM up"), **file}, inputs=up)
    assert str(caught.value).endswith("\n  2 |   CAST(k AS int) AS n FROM up\n        ^")
    long = ", ".join(f"v AS c{n}" for n in range(100))
    with pytest.raises(JobFailedError, match=r"^\[UNRESOLVED_COLUMN") as caught:
        bench.run(sql(f"SELECT {long}, vv, {long} FROM up"), inputs=up)
    line, caret = str(caught.value).splitlines()[-2:]
    assert line[caret.index("^") :].startswith("vv, ")
    assert len(line) < 200


def test_an_input_without_a_path_is_told_where_it_is_used(bench: Bench) -> None:
    """A source that nobody described can trigger, but not be read (docs/semantics.md#R3.1)."""
    up = {"up": PinnedInput("up", 1, "v", None)}
    assert bench.run(sql("SELECT 1 AS a"), inputs=up).outputs
    with pytest.raises(JobFailedError, match=r"no path is known for up: declare it in sources/ or report payload.path"):
        bench.run(sql("SELECT * FROM up"), inputs=up)
    with pytest.raises(JobFailedError, match=r"asset 'up' has no path; declare one in sources/ or report it"):
        bench.run(spark_python("one"), inputs=up)
    with pytest.raises(JobFailedError, match=r"asset 'up' cannot be read: \[PATH_NOT_FOUND\]"):
        bench.run(sql("SELECT * FROM up"), inputs={"up": source("up", Path("/nowhere.csv"))})


def test_a_python_job_returns_one_table_many_or_a_report(bench: Bench, up: dict[str, PinnedInput]) -> None:
    """A DataFrame, a mapping of asset to DataFrame, or what it wrote elsewhere."""
    (output,) = bench.run(spark_python("one"), inputs=up).outputs
    assert rows(bench, output) == [("a", 3), ("b", 3)]
    assert bench.log == [("log", "INFO rows 3")]
    assert bench.run(spark_python("whole"), inputs=up).outputs[0].rows == 3
    both = [{"assetId": "out"}, {"assetId": "more"}]
    assert [o.rows for o in bench.run(spark_python("two"), produces=both).outputs] == [3, 4]
    (told,) = bench.run(spark_python("elsewhere")).outputs
    assert told == StagedOutput("out", "step", "7", payload={"at": 3})
    (named,) = bench.run(spark_python("decorated"), inputs=up, parameters={"factor": 10}).outputs
    assert rows(bench, named) == [(10,), (20,), (30,)]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("undeclared", "asset 'oops', which it does not declare; declared are: out, more"),
        ("missing", "declares out in 'produces', but did not return it"),
        ("nothing", "declares out, more in 'produces', but did not return it"),
        ("pandas", "returned a value of type builtins.list; allowed are a Spark DataFrame"),
        ("one", "returned one DataFrame, but the step produces out, more"),
        ("typo", r"jobs.py:\d+: \[UNRESOLVED_COLUMN.*`vv`"),
        ("fails", r"jobs.py:\d+: KeyError: 'k'"),
    ],
)
def test_a_python_job_that_fails_is_told(bench: Bench, up: dict[str, PinnedInput], function: str, message: str) -> None:
    """Wrong results and exceptions are the user's errors, with the user's line."""
    with pytest.raises(JobFailedError, match=message):
        bench.run(spark_python(function), inputs=up, produces=[{"assetId": "out"}, {"assetId": "more"}])


def test_a_function_that_fails_inside_spark_is_told(bench: Bench, up: dict[str, PinnedInput]) -> None:
    """Lazy user code fails during the write: the message is the user's, and no files are left."""
    before = left(bench)
    with pytest.raises(JobFailedError, match=r"ValueError: cannot take \d \(at .*jobs.py:\d+\)"):
        bench.run(spark_python("fails_late"), inputs=up)
    assert left(bench) == before


@pytest.mark.parametrize(
    ("produced", "message"),
    [
        ({"table": {"mode": "merge", "keys": ["z"]}}, "table.keys names column 'z', .* its columns are a"),
        ({"table": {"partitionBy": ["z"]}}, "partitionBy names column 'z', .* its columns are a"),
        ({"dataVersion": {"exclude": ["z"]}}, "exclude names column 'z'"),
        ({"dataVersion": {"source": "reported"}}, "'reported', but the job returned a table without a version"),
    ],
)
def test_what_cannot_work_is_refused_before_the_write(bench: Bench, produced: dict[str, object], message: str) -> None:
    """Wishes for the table are compared with its columns first."""
    with pytest.raises(JobFailedError, match=message):
        bench.run(sql("SELECT 1 AS a"), produces=[{"assetId": "out", **produced}])


def test_a_failed_check_publishes_nothing_and_keeps_the_data(bench: Bench, up: dict[str, PinnedInput]) -> None:
    """The error names check, column and value, has all results, and says where the data is."""
    produces = [{"assetId": "out", "checks": [{"minRows": 1}, {"range": {"column": "v", "max": 2}}]}]
    with pytest.raises(
        CheckError, match=r"check range failed: column 'v' has 1 of 3 .* from 1 to 3.*nothing was published"
    ) as caught:
        bench.run(sql("SELECT * FROM up"), inputs=up, produces=produces)
    assert caught.value.staged
    assert list((bench.warehouse / caught.value.staged).glob("*.parquet"))
    passed, failed = caught.value.checks
    assert passed == {"check": "minRows", "severity": "error", "passed": True, "observed": 3}
    assert failed["observed"] == {"count": 1, "min": 1, "max": 3}
    assert failed["message"].startswith("column 'v' has 1 of 3")


def test_steps_leave_no_traces_for_each_other(bench: Bench) -> None:
    """Views, settings and caches of one step are gone in the next."""
    bench.run(spark_python("leaves_traces"))
    (output,) = bench.run(spark_python("sees_traces")).outputs
    assert rows(bench, output) == []


def test_a_spark_job_can_be_stopped_and_the_session_used_again(bench: Bench) -> None:
    """Its Spark jobs are canceled, progress was told, the JVM stays warm."""
    began = time.monotonic()
    with pytest.raises(StepStopped):
        bench.run(spark_python("endless"), stop=lambda: "canceled" if bench.progress else None)
    assert time.monotonic() - began < 15
    assert bench.progress[0]["spark"].keys() >= {"done", "total", "stages"}
    assert bench.runner.ready
    assert bench.run(sql("SELECT 1 AS a")).outputs


def test_a_step_can_be_stopped_while_it_asks_for_a_version(bench: Bench, up: dict[str, PinnedInput]) -> None:
    """The query of a stopped step is answered and is not its end: the runner is free for the next step."""
    wait_until(lambda: bench.runner.ready, 120, what="a warm runner")

    def once_asked() -> str | None:
        if "asking" not in bench.lines:
            return None
        assert bench.runner._listener is not None  # the query must wait in it when the step is stopped
        wait_until(lambda: not bench.runner._listener.events.empty(), what="the query")  # type: ignore[union-attr]
        return "canceled"

    began = time.monotonic()
    with pytest.raises(StepStopped):
        bench.run(spark_python("asks"), inputs=up, stop=once_asked)
    assert bench.run(sql("SELECT 1 AS a"), timeout_ms=10_000).outputs
    assert time.monotonic() - began < 10
    assert bench.runner.ready


def test_sparks_python_processes_import_the_applied_code(bench: Bench) -> None:
    """They start in the project's directory, and still import from the copy (docs/semantics.md#R10.3)."""
    (output,) = bench.run(spark_python("udf_of_an_edited_module")).outputs
    assert rows(bench, output) == [("applied",), ("applied",)]


def test_a_step_comes_with_its_numbers(bench: Bench, up: dict[str, PinnedInput]) -> None:
    """Rows and bytes in and out, tasks, shuffle and spill, duration and the job's last word, of this step alone."""
    result = bench.run(spark_python("counts"), inputs=up)
    (output,) = result.outputs
    first = dict(result.metrics)
    assert first.keys() == {"durationMs", "stages", "tasks", "progress", *SUMS}
    assert first["rowsIn"] >= 3
    assert first["bytesIn"] == (bench.project / "up.csv").stat().st_size
    assert (first["rowsOut"], first["bytesOut"]) == (3, output.bytes)
    assert first["shuffleWriteBytes"] == first["shuffleReadBytes"] > 0
    assert (first["memorySpilledBytes"], first["diskSpilledBytes"]) == (0, 0)
    assert first["tasks"] >= 5 + 3, "jobs of other threads count too"
    assert first["durationMs"] > 0
    assert first["progress"] == {"done": 1, "total": 2}
    small = bench.run(sql("SELECT 1 AS a")).metrics
    assert (small["rowsIn"], small["shuffleWriteBytes"], small["rowsOut"]) == (0, 0, 1)
    assert small["stages"] == small["tasks"] == 1


def on_disk(*places: Path) -> int:
    """Return the bytes of the files at or below these places."""
    return sum(one.stat().st_size for place in places for one in [place, *place.rglob("*")] if one.is_file())


def grown(bench: Bench, name: str) -> tuple[PinnedInput, list[Path]]:
    """Write a table that was appended to once, and return it with its two directories."""
    paths = [f"{name}/data/{number}-1-1" for number in (0, 1)]
    for number, path in enumerate(paths):
        (bench.warehouse / path).mkdir(parents=True)
        rows = f"SELECT range AS id, repeat('x', 50) || range AS text FROM range({1000 * (2 - number)})"
        duckdb.sql(f"COPY ({rows}) TO '{bench.warehouse / path / 'part-0.parquet'}' (FORMAT parquet)")
    folders = [bench.warehouse / path for path in paths]
    location = {"format": "parquet", "paths": paths[1:]}
    parts = list(enumerate(paths))
    return PinnedInput(name, 2, "v", location, table_version=1, parts=parts, bytes=on_disk(*folders)), folders


def test_bytes_in_are_those_of_the_files_of_the_inputs(bench: Bench, up: dict[str, PinnedInput]) -> None:
    """Each file once: however often the query reads it, whatever Spark skips in it, and without what checks read."""
    big, folders = grown(bench, "big")
    inputs = {**up, "big": big}
    csv, first, second = on_disk(bench.project / "up.csv"), *map(on_disk, folders)

    def read(query: str, **given: Any) -> object:
        return bench.run(sql(query), **{"inputs": inputs, **given}).metrics["bytesIn"]

    assert read("SELECT id, text FROM big") == first + second
    assert read("SELECT count(*) AS n FROM big WHERE id < 0") == first + second, "files, and not columns or pages"
    assert read("SELECT a.id FROM big a JOIN big b ON a.text = b.text") == first + second, "twice in the query"
    assert read("SELECT id FROM big UNION ALL SELECT int(v) FROM up") == first + second + csv
    assert read("SELECT k, v FROM up") == csv
    checked = [{"assetId": "out", "checks": [{"unique": ["k", "v"]}, {"minRows": 1}]}]
    assert read("SELECT k, v FROM up", produces=checked) == csv, "checks read outputs"
    assert read("SELECT 1 AS one") == 0
    new = {"big": replace(big, since=0)}
    assert read("SELECT id FROM big", inputs=new, consumes=[{"assetId": "big", "rows": "new"}]) == second
    nothing = {"big": replace(big, since=1)}
    assert read("SELECT id FROM big", inputs=nothing, consumes=[{"assetId": "big", "rows": "new"}]) == 0
    both = [{"assetId": "out"}, {"assetId": "more"}]
    assert bench.run(spark_python("one"), inputs=up).metrics["bytesIn"] == csv, "two DataFrames of one input"
    assert bench.run(spark_python("two"), inputs=up, produces=both).metrics["bytesIn"] is None, "it may read by itself"


def test_bytes_in_of_partitions_are_those_of_their_directories(bench: Bench) -> None:
    """The partitions that the run reads, and not the others of the table."""
    members, folders = [], []
    for day in ("2024-01-01", "2024-01-02", "2024-01-03"):
        below = f"daily/data/batch/day={day}"
        folders.append(bench.warehouse / below)
        folders[-1].mkdir(parents=True)
        file = folders[-1] / "part-0.parquet"
        duckdb.sql(f"COPY (SELECT {day[-1]} AS n, DATE '{day}' AS day) TO '{file}' (FORMAT parquet)")
        location = {"format": "parquet", "paths": ["daily/data/batch"]}
        location["partition"] = {"columns": {"day": day}, "directory": f"day={day}"}  # type: ignore[assignment]
        parts = [(0, "daily/data/batch")]
        members.append(PinnedInput("daily", 1, day, location, table_version=0, parts=parts, partition_key=day))
    read = PinnedInput("daily", 0, "keys:x", members[0].location, table_version=0, partitions=members[:2])
    result = bench.run(sql("SELECT sum(n) AS n FROM daily"), inputs={"daily": read})
    assert rows(bench, result.outputs[0]) == [(3,)]
    assert result.metrics["bytesIn"] == on_disk(*folders[:2])


def test_a_job_that_goes_on_after_its_spark_jobs_were_canceled_is_ended(bench: Bench) -> None:
    """Every further Spark job is canceled too; a job that catches that and goes on is killed in its grace."""
    with pytest.raises(StepStopped):
        bench.run(spark_python("goes_on"), stop=lambda: "canceled" if "going" in bench.lines else None)
    assert not bench.runner.alive
    bench.runner = another(bench)


@pytest.mark.full
def test_a_python_loop_without_spark_ends_with_its_runner(bench: Bench) -> None:
    """There is no Spark job to cancel: the runner is killed after its grace, and so is its JVM."""
    wait_until(lambda: bench.runner.ready, 120, what="a warm runner")
    runner = bench.runner.pid
    assert jvms(runner)
    with pytest.raises(StepStopped):
        bench.run(spark_python("spins"), stop=lambda: "canceled" if "spinning" in bench.lines else None)
    assert not bench.runner.alive
    wait_until(lambda: not jvms(runner), what="the end of the JVM")
    bench.runner = another(bench)


@pytest.mark.full
def test_a_job_that_stops_spark_is_told_and_the_runner_retires(bench: Bench) -> None:
    """The error says what the job did; the runner offers itself for no further step."""
    with pytest.raises(JobFailedError, match=r"do not call spark.stop\(\)"):
        bench.run(spark_python("stops_spark"))
    assert not bench.runner.alive


@pytest.mark.full  # the gate has a stopped session, and a runner that is killed
def test_the_death_of_the_jvm_is_the_death_of_the_runner(bench: Bench) -> None:
    """A JVM that user code kills counts as a crash, not as an error of Spark (docs/semantics.md#R12.2)."""
    bench.runner = another(bench)
    assert bench.run(sql("SELECT 1 AS a")).outputs
    (pid,) = jvms(bench.runner.pid)
    with pytest.raises(RunnerDied, match="Spark ended in the middle of the step") as caught:
        bench.run(spark_python("kills_the_jvm"))
    assert caught.value.status == SPARK_IS_GONE
    assert not bench.runner.alive
    assert not exists(pid)


@pytest.mark.full
def test_a_jvm_that_dies_between_two_steps_is_replaced_before_the_next(bench: Bench) -> None:
    """The supervisor sees a runner that is gone, and gives it no step that would fail for nothing."""
    bench.runner = another(bench)
    wait_until(lambda: bench.runner.ready, 120, what="a warm runner")
    (pid,) = jvms(bench.runner.pid)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not bench.runner.alive, 10, what="the end of the runner")


@pytest.mark.full
def test_a_jvm_without_memory_ends_and_the_error_says_so(bench: Bench) -> None:
    """It does not limp on with a full heap: the runner ends with it, and the error tells what to do.

    See docs/semantics.md#R12.2.
    """
    bench.runner = another(bench)
    with pytest.raises(RunnerDied, match="Spark ran out of memory") as caught:
        bench.run(sql("SELECT size(sequence(0L, 2000000000L)) AS n"))  # asks for 16 GB at once, in the driver
    assert caught.value.status == OUT_OF_MEMORY
    assert "size: large" in str(caught.value)
    assert "Terminating due to java.lang.OutOfMemoryError: Java heap space" in bench.lines
    assert not bench.runner.alive


@pytest.mark.full
def test_jvm_and_runner_die_with_their_supervisor(bench: Bench) -> None:
    """SIGKILL of the supervisor in the middle of a Spark job leaves neither runner nor JVM.

    See docs/semantics.md#R12.1.
    """
    command = [sys.executable, "-m", "tests.worker.supervisor", str(bench.project)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert parent.stdout is not None
    runner = int(parent.stdout.readline())
    parent.stdout.readline()  # the Spark job makes progress
    processes = [runner, *jvms(runner)]
    assert len(processes) >= 2
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not any(map(exists, processes)), what="the end of runner and JVM")


def another(bench: Bench) -> RunnerProcess:
    """Return a second runner of the same project."""
    runner = RunnerProcess(
        bench.project, spark=True, settings=Settings(project=bench.project), code=copy_of(bench.project)
    )
    runner.start()
    return runner


def jvms(runner: int | None) -> list[int]:
    """Return the Java processes in a runner's group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, fields = stat.read_text().partition("(")[2].rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if name == "java" and int(fields.split()[2]) == runner:
            found.append(int(stat.parent.name))
    return found


def exists(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
