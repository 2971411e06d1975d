"""Increments of what has no versions of its own: tables that steps of one workflow hand on, and sources.

See docs/semantics.md#R9.5.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from freshline import failpoints
from freshline.worker.execution import Execution
from tests.spark.spark_harness import SparkHarness, flow, job, local_engine
from tests.store_harness import ON_UPDATE, laboratory

pytestmark = pytest.mark.spark
APPEND = {"mode": "append"}
COLLECT = {"mode": "append", "onReplacedInput": "append"}
TWICE = "SELECT n, n * 2 AS twice FROM numbers"


@pytest.fixture
def harness(database_url: str, tmp_path: Path, spark: SparkSession) -> Iterator[SparkHarness]:
    """Yield a harness with a fresh store, on the session of all tests."""
    with laboratory(database_url, warehouse=str(tmp_path / "w")) as lab:
        yield SparkHarness(lab, local_engine(spark))


def step(
    asset_id: str, how: str | Mapping[str, str], consumes: str, table: Mapping[str, Any] = APPEND, **more: Any
) -> dict[str, Any]:
    """Return a step that makes the asset by a query or a job from the new rows of another one."""
    return {
        "id": asset_id,
        "job": {"kind": "spark.sql", "sql": how} if isinstance(how, str) else dict(how),
        "consumes": [{"assetId": consumes, "rows": "new"}],
        "produces": [{"assetId": asset_id, "autoMaterialize": ON_UPDATE, "table": dict(table), **more}],
        "retry": {"maxAttempts": 1},
    }


def pipe(*steps: Mapping[str, Any]) -> dict[str, Any]:
    """One workflow of several steps."""
    return {"slug": "pipe", "steps": [dict(one) for one in steps], "backoff": {"baseMs": 1_000}}


def numbers(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the step that makes numbers of the source's payload."""
    return step("numbers", job("numbers"), "source", table)


def feed(harness: SparkHarness, *these: int) -> list[str]:
    """Report these numbers of the source; return what ran because of it."""
    harness.lab.report("source", payload=list(these))
    return harness.work()


def versions(harness: SparkHarness, asset_id: str) -> list[int]:
    """Return the versions that added the head's directories."""
    return [
        number
        for number, _ in harness.lab.store.runs.table_at(asset_id, "", harness.lab.head(asset_id)["sequence"]).parts
    ]


def doubled(*these: int) -> list[tuple[int, int]]:
    """Each with its double."""
    return [(n, 2 * n) for n in these]


def test_a_step_reads_what_an_earlier_one_has_added(harness: SparkHarness) -> None:
    """Only the new rows, run after run; what steps hand on is no reason to run (docs/semantics.md#R1.3)."""
    harness.lab.apply(pipe(numbers(COLLECT), step("doubled", TWICE, "numbers")))
    for n in (1, 2, 3):
        assert feed(harness, n) == ["pipe"]
    assert harness.rows("doubled") == doubled(1, 2, 3)
    assert versions(harness, "doubled") == [0, 1, 2], "each run has added its rows"
    assert harness.snapshot("doubled")["inputs"].keys() == {"source", "numbers"}
    assert harness.lab.state("pipe")["consumed_versions"].keys() == {"source"}


def test_a_table_that_an_earlier_step_writes_anew_replaces_what_was_added_to(harness: SparkHarness) -> None:
    """Inside a workflow too all rows are new, so the output is replaced, and so on down the chain.

    See docs/semantics.md#R9.5.
    """
    harness.lab.apply(
        pipe(numbers(APPEND), step("doubled", TWICE, "numbers"), step("last", "SELECT twice FROM doubled", "doubled"))
    )
    feed(harness, 1, 2)
    feed(harness, 2, 3)
    assert harness.rows("numbers") == [(2,), (3,)]
    assert harness.rows("doubled") == doubled(2, 3)
    assert harness.rows("last") == [(4,), (6,)]
    assert "INFO everything is read again: numbers was changed other than by append" in harness.lines


def test_a_table_that_an_earlier_step_writes_as_it_was_adds_nothing(harness: SparkHarness) -> None:
    """Equal rows are no new rows, though they were written once more."""
    harness.lab.apply(pipe(numbers({"mode": "overwrite"}), step("doubled", TWICE, "numbers")))
    feed(harness, 1, 2)
    feed(harness, 1, 2)
    assert harness.rows("doubled") == doubled(1, 2)
    assert harness.snapshot("doubled")["changed"] is False


def test_a_step_whose_output_was_rolled_back_reads_again_from_there(harness: SparkHarness) -> None:
    """A rollback takes back how far the output had read, also in what the workflow itself makes."""
    harness.lab.apply(pipe(numbers(COLLECT), step("doubled", TWICE, "numbers")))
    for n in (1, 2, 3):
        feed(harness, n)
    harness.lab.store.tables.rollback("doubled", 1)
    feed(harness, 4)
    assert harness.rows("doubled") == doubled(1, 2, 3, 4)


def test_a_step_whose_input_was_rolled_back_takes_no_row_twice(harness: SparkHarness) -> None:
    """The earlier step reads again what was taken back; the later one has those rows already."""
    harness.lab.apply(
        flow("numbers", job("numbers"), "source", table=COLLECT),
        pipe(
            step("copy", "SELECT n FROM numbers", "numbers"), step("doubled", "SELECT n, n * 2 AS t FROM copy", "copy")
        ),
    )
    feed(harness, 1)
    feed(harness, 2)
    harness.lab.store.tables.rollback("copy", 1)
    feed(harness, 3)
    assert harness.rows("copy") == [(1,), (2,), (3,)]
    assert harness.rows("doubled") == doubled(1, 2, 3)


def test_an_attempt_that_goes_on_after_a_finished_step_reads_as_the_first_one(harness: SparkHarness) -> None:
    """A worker that died between two steps: the rows that the first one has staged are taken once."""
    harness.lab.apply(pipe(numbers(COLLECT), step("doubled", job("doubled"), "numbers")))
    feed(harness, 1)
    harness.lab.report("source", payload=[2])
    harness.lab.settle()
    first = harness.lab.start_of("pipe")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.spark.jobs.doubled", _dies)
        with pytest.raises(_Death):
            harness.execute(first)
    harness.lab.advance(seconds=60)
    assert harness.lab.store.runs.rescue(10) == 1
    again = harness.lab.start_of("pipe")
    assert set(again.finished_steps) == {"numbers"}
    harness.execute(again)
    assert harness.rows("doubled") == doubled(1, 2)
    assert versions(harness, "doubled") == [0, 1]


def test_an_increment_that_was_staged_is_published_once_over_crashes(harness: SparkHarness) -> None:
    """Rows were written, or staged, or published when the worker died: no row is lost, and none is doubled."""
    harness.lab.apply(
        flow("numbers", job("numbers"), "source", table=COLLECT),
        flow("doubled", job("doubled"), "numbers", table=APPEND),
    )
    for n in range(3):
        harness.lab.report("source", payload=[n])
        harness.lab.settle()
        harness.execute(harness.lab.start_of("numbers"))
        harness.lab.settle()
        with failpoints.armed("stage:written", _dies):
            attempt_that_dies(harness, finished=False)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Execution, "_publish", _dies)
            attempt_that_dies(harness, finished=False)
            attempt_that_dies(harness, finished=True)
        with failpoints.armed("publish_run:after", _dies):
            attempt_that_dies(harness, finished=True, published=True)
        assert harness.rows("doubled") == doubled(*range(n + 1))
        assert versions(harness, "doubled") == list(range(n + 1)), "each number has added its row"
    assert harness.snapshot("doubled")["rows"] == 3


def attempt_that_dies(harness: SparkHarness, *, finished: bool, published: bool = False) -> None:
    """One attempt of `doubled`, after another that may have `finished` its step; it leaves rows behind and is lost."""
    run = harness.lab.start_of("doubled")
    assert bool(run.finished_steps) is finished
    with pytest.raises(_Death):
        harness.execute(run)
    assert list((harness.lab.warehouse / "doubled" / "data").glob(f"{run.id}-*/*.parquet"))
    harness.lab.advance(seconds=60)
    assert harness.lab.store.runs.rescue(10) == (0 if published else 1)


def _dies(*_: Any) -> Any:
    raise _Death


class _Death(BaseException):
    """What nothing on the way catches, as the end of a process."""


def test_a_job_hears_that_new_rows_are_the_whole_input(harness: SparkHarness) -> None:
    """`ctx.new` says so, and why, where everything is read again; of an increment it says nothing."""
    harness.lab.apply(
        flow("numbers", job("numbers"), "source", table=COLLECT),
        flow("doubled", job("doubled"), "numbers", table=APPEND),
    )
    said = "INFO ctx.new('numbers') is the whole input: everything is read again"
    for n in (1, 2):
        feed(harness, n)
        assert about_new(harness) == [said]
    harness.run("doubled", full_refresh=True)
    assert about_new(harness) == [said, said]


def test_a_job_hears_that_new_rows_of_its_own_table_are_all(
    harness: SparkHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a step makes itself has no rows that are known to be new; `ctx.new` says so and gives all of them."""
    monkeypatch.setattr("tests.spark.jobs.doubled", _sum)
    harness.lab.apply(
        flow("numbers", job("numbers"), "source", table=COLLECT),
        flow("sums", job("doubled"), "numbers sums", table=APPEND),
    )
    feed(harness, 1)
    first = about_new(harness)
    for n in (2, 4):
        feed(harness, n)
    assert harness.rows("sums") == [(1,), (3,), (8,)]
    said = "INFO ctx.new('sums') is the whole input: which of its rows are new is not known"
    assert about_new(harness) == [*first, said, said]


def about_new(harness: SparkHarness) -> list[str]:
    """Return the log lines about `ctx.new`."""
    return [line for line in harness.lines if "ctx.new(" in line]


def _sum(ctx: Any) -> Any:
    """Return the new numbers and all sums so far, as one more sum."""
    rows = [row.n for asset_id in ctx.inputs for row in ctx.new(asset_id).collect()]
    return ctx.spark.createDataFrame([(sum(rows),)], "n long")


def test_a_table_that_a_run_left_out_is_read_on_from_where_it_was(harness: SparkHarness) -> None:
    """Nothing was handed on, so nothing was read; the rows after that are the new ones (docs/semantics.md#R7.4)."""
    harness.lab.apply(
        pipe(
            step("numbers", job("numbers_if_any"), "source", COLLECT, optional=True),
            step("doubled", job("doubled_if_any"), "numbers", COLLECT),
        )
    )
    for these in ([1], [], [2]):
        feed(harness, *these)
    assert harness.rows("doubled") == doubled(1, 2)
    assert versions(harness, "doubled") == [0, 1]


def test_a_step_without_outputs_reads_what_its_run_adds(harness: SparkHarness) -> None:
    """It has no output to say how far it came; but what it read is published if and only if it succeeds."""
    sink = {**step("seen", job("seen"), "numbers"), "produces": []}
    harness.lab.apply(pipe(numbers(COLLECT), sink))
    for n in (1, 2):
        feed(harness, n)
    assert [line for line in harness.lines if line.startswith("INFO new: ")] == ["INFO new: [1]", "INFO new: [2]"]


@pytest.mark.parametrize("how", ["SELECT n FROM files", job("copied")], ids=["sql", "ctx.new"])
def test_a_source_that_did_not_change_has_no_new_rows(
    harness: SparkHarness, spark: SparkSession, tmp_path: Path, how: str | dict[str, str]
) -> None:
    """A run that a user asked for, or time, adds nothing; one after a change replaces all and says so."""
    harness.lab.apply(flow("copied", how, [{"assetId": "files", "rows": "new"}], table=APPEND), **DECLARED)
    report_file(harness, spark, tmp_path / "first", 1, 2)
    harness.work()
    harness.run("copied")
    assert harness.rows("copied") == [(1,), (2,)]
    assert harness.snapshot("copied")["changed"] is False
    report_file(harness, spark, tmp_path / "second", 2, 3)
    harness.work()
    assert harness.rows("copied") == [(2,), (3,)]
    assert "INFO everything is read again: files was changed other than by append" in harness.lines


def test_a_source_is_not_read_again_because_another_input_grew(
    harness: SparkHarness, spark: SparkSession, tmp_path: Path
) -> None:
    """Each input has its own increment, and that of an unchanged source is empty, with its columns."""
    both = [{"assetId": "numbers", "rows": "new"}, {"assetId": "files", "rows": "new"}]
    harness.lab.apply(
        flow("numbers", job("numbers"), "source", table=COLLECT),
        flow("joined", "SELECT n FROM numbers UNION ALL SELECT n FROM files", both, table=APPEND),
        **DECLARED,
    )
    report_file(harness, spark, tmp_path / "first", 10)
    for n in (1, 2):
        feed(harness, n)
    assert harness.rows("joined") == [(1,), (10,), (2,)]
    assert versions(harness, "joined") == [0, 1]


DECLARED: dict[str, Any] = {"sources": ({"assetId": "files", "allow": ["/"]},)}


def report_file(harness: SparkHarness, spark: SparkSession, path: Path, *these: int) -> None:
    """Report these numbers of the source `files`."""
    spark.createDataFrame([(n,) for n in these], "n long").write.parquet(str(path))
    harness.lab.report("files", payload={"path": str(path)})


def test_what_was_made_from_lost_files_is_made_anew_with_them(harness: SparkHarness) -> None:
    """Both outputs come from one roll of the dice, although an earlier attempt had finished both."""
    roll = "SELECT reflect('java.util.UUID', 'randomUUID') AS dice"
    harness.lab.apply(
        {
            "slug": "pipe",
            "steps": [
                {"id": "roll", "job": {"kind": "spark.sql", "sql": roll}, "produces": [{"assetId": "roll"}]},
                {
                    "id": "copy",
                    "job": {"kind": "spark.sql", "sql": "SELECT dice FROM roll"},
                    "consumes": [{"assetId": "roll"}],
                    "produces": [{"assetId": "copy"}],
                },
            ],
        }
    )
    harness.lab.store.operations.request_run("pipe")
    first = harness.lab.start_of("pipe")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Execution, "_publish", _dies)
        with pytest.raises(_Death):
            harness.execute(first)
    shutil.rmtree(next((harness.lab.warehouse / "roll" / "data").glob(f"{first.id}-*")))
    harness.lab.advance(seconds=60)
    assert harness.lab.store.runs.rescue(10) == 1
    again = harness.lab.start_of("pipe")
    assert set(again.finished_steps) == {"roll", "copy"}
    harness.execute(again)
    assert harness.rows("copy") == harness.rows("roll") != []
