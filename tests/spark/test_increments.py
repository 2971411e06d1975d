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
from tests.spark.spark_harness import Mill, flow, job, local_engine
from tests.store_harness import ON_UPDATE, laboratory

pytestmark = pytest.mark.spark
APPEND = {"mode": "append"}
COLLECT = {"mode": "append", "onReplacedInput": "append"}
TWICE = "SELECT n, n * 2 AS twice FROM numbers"


@pytest.fixture
def mill(database_url: str, tmp_path: Path, spark: SparkSession) -> Iterator[Mill]:
    """A store of its own, and the session of all tests."""
    with laboratory(database_url, warehouse=str(tmp_path / "w")) as lab:
        yield Mill(lab, local_engine(spark))


def step(
    asset_id: str, how: str | Mapping[str, str], consumes: str, table: Mapping[str, Any] = APPEND, **more: Any
) -> dict[str, Any]:
    """A step that makes the asset by a query or a job from the new rows of another one."""
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
    """The step that makes numbers of the source's payload."""
    return step("numbers", job("numbers"), "source", table)


def feed(mill: Mill, *these: int) -> list[str]:
    """The source has these numbers now; what ran because of it."""
    mill.lab.report("source", payload=list(these))
    return mill.work()


def versions(mill: Mill, asset_id: str) -> list[int]:
    """The versions that the head's directories came with."""
    return [
        number for number, _ in mill.lab.store.runs.table_at(asset_id, "", mill.lab.head(asset_id)["sequence"]).parts
    ]


def doubled(*these: int) -> list[tuple[int, int]]:
    """Each with its double."""
    return [(n, 2 * n) for n in these]


def test_a_step_reads_what_an_earlier_one_has_added(mill: Mill) -> None:
    """Only the new rows, run after run; what steps hand on is no reason to run (docs/semantics.md#R1.3)."""
    mill.lab.apply(pipe(numbers(COLLECT), step("doubled", TWICE, "numbers")))
    for n in (1, 2, 3):
        assert feed(mill, n) == ["pipe"]
    assert mill.rows("doubled") == doubled(1, 2, 3)
    assert versions(mill, "doubled") == [0, 1, 2], "each run has added its rows"
    assert mill.snapshot("doubled")["inputs"].keys() == {"source", "numbers"}
    assert mill.lab.state("pipe")["consumed_versions"].keys() == {"source"}


def test_a_table_that_an_earlier_step_writes_anew_replaces_what_was_added_to(mill: Mill) -> None:
    """Inside a workflow too all rows are new, so the output is replaced, and so on down the chain.

    See docs/semantics.md#R9.5.
    """
    mill.lab.apply(
        pipe(numbers(APPEND), step("doubled", TWICE, "numbers"), step("last", "SELECT twice FROM doubled", "doubled"))
    )
    feed(mill, 1, 2)
    feed(mill, 2, 3)
    assert mill.rows("numbers") == [(2,), (3,)]
    assert mill.rows("doubled") == doubled(2, 3)
    assert mill.rows("last") == [(4,), (6,)]
    assert "INFO everything is read anew: numbers was changed other than by append" in mill.lines


def test_a_table_that_an_earlier_step_writes_as_it_was_adds_nothing(mill: Mill) -> None:
    """Equal rows are no new rows, though they were written once more."""
    mill.lab.apply(pipe(numbers({"mode": "overwrite"}), step("doubled", TWICE, "numbers")))
    feed(mill, 1, 2)
    feed(mill, 1, 2)
    assert mill.rows("doubled") == doubled(1, 2)
    assert mill.snapshot("doubled")["changed"] is False


def test_a_step_whose_output_was_rolled_back_reads_again_from_there(mill: Mill) -> None:
    """A rollback takes back how far the output had read, also in what the workflow itself makes."""
    mill.lab.apply(pipe(numbers(COLLECT), step("doubled", TWICE, "numbers")))
    for n in (1, 2, 3):
        feed(mill, n)
    mill.lab.store.tables.rollback("doubled", 1)
    feed(mill, 4)
    assert mill.rows("doubled") == doubled(1, 2, 3, 4)


def test_a_step_whose_input_was_rolled_back_takes_no_row_twice(mill: Mill) -> None:
    """The earlier step reads again what was taken back; the later one has those rows already."""
    mill.lab.apply(
        flow("numbers", job("numbers"), "source", table=COLLECT),
        pipe(
            step("copy", "SELECT n FROM numbers", "numbers"), step("doubled", "SELECT n, n * 2 AS t FROM copy", "copy")
        ),
    )
    feed(mill, 1)
    feed(mill, 2)
    mill.lab.store.tables.rollback("copy", 1)
    feed(mill, 3)
    assert mill.rows("copy") == [(1,), (2,), (3,)]
    assert mill.rows("doubled") == doubled(1, 2, 3)


def test_an_attempt_that_goes_on_after_a_finished_step_reads_as_the_first_one(mill: Mill) -> None:
    """A worker that died between two steps: the rows that the first one has staged are taken once."""
    mill.lab.apply(pipe(numbers(COLLECT), step("doubled", job("doubled"), "numbers")))
    feed(mill, 1)
    mill.lab.report("source", payload=[2])
    mill.lab.settle()
    first = mill.lab.start_of("pipe")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.spark.jobs.doubled", _dies)
        with pytest.raises(_Death):
            mill.execute(first)
    mill.lab.advance(seconds=60)
    assert mill.lab.store.runs.rescue(10) == 1
    again = mill.lab.start_of("pipe")
    assert set(again.finished_steps) == {"numbers"}
    mill.execute(again)
    assert mill.rows("doubled") == doubled(1, 2)
    assert versions(mill, "doubled") == [0, 1]


def test_an_increment_that_was_staged_is_published_once_over_crashes(mill: Mill) -> None:
    """Rows were written, or staged, or published when the worker died: no row is lost, and none is doubled."""
    mill.lab.apply(
        flow("numbers", job("numbers"), "source", table=COLLECT),
        flow("doubled", job("doubled"), "numbers", table=APPEND),
    )
    for n in range(3):
        mill.lab.report("source", payload=[n])
        mill.lab.settle()
        mill.execute(mill.lab.start_of("numbers"))
        mill.lab.settle()
        with failpoints.armed("stage:written", _dies):
            attempt_that_dies(mill, finished=False)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Execution, "_publish", _dies)
            attempt_that_dies(mill, finished=False)
            attempt_that_dies(mill, finished=True)
        with failpoints.armed("publish_run:after", _dies):
            attempt_that_dies(mill, finished=True, published=True)
        assert mill.rows("doubled") == doubled(*range(n + 1))
        assert versions(mill, "doubled") == list(range(n + 1)), "each number has added its row"
    assert mill.snapshot("doubled")["rows"] == 3


def attempt_that_dies(mill: Mill, *, finished: bool, published: bool = False) -> None:
    """One attempt of `doubled`, after another that may have `finished` its step; it leaves rows behind and is lost."""
    run = mill.lab.start_of("doubled")
    assert bool(run.finished_steps) is finished
    with pytest.raises(_Death):
        mill.execute(run)
    assert list((mill.lab.warehouse / "doubled" / "data").glob(f"{run.id}-*/*.parquet"))
    mill.lab.advance(seconds=60)
    assert mill.lab.store.runs.rescue(10) == (0 if published else 1)


def _dies(*_: Any) -> Any:
    raise _Death


class _Death(BaseException):
    """What nothing on the way catches, as the end of a process."""


def test_a_job_hears_that_new_rows_are_the_whole_input(mill: Mill) -> None:
    """`ctx.new` says so, and why, where everything is read anew; of an increment it says nothing."""
    mill.lab.apply(
        flow("numbers", job("numbers"), "source", table=COLLECT),
        flow("doubled", job("doubled"), "numbers", table=APPEND),
    )
    said = "INFO ctx.new('numbers') is the whole input: everything is read anew"
    for n in (1, 2):
        feed(mill, n)
        assert about_new(mill) == [said]
    mill.run("doubled", full_refresh=True)
    assert about_new(mill) == [said, said]


def test_a_job_hears_that_new_rows_of_its_own_table_are_all(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step makes itself has no rows that are known to be new; `ctx.new` says so and gives all of them."""
    monkeypatch.setattr("tests.spark.jobs.doubled", _sum)
    mill.lab.apply(
        flow("numbers", job("numbers"), "source", table=COLLECT),
        flow("sums", job("doubled"), "numbers sums", table=APPEND),
    )
    feed(mill, 1)
    first = about_new(mill)
    for n in (2, 4):
        feed(mill, n)
    assert mill.rows("sums") == [(1,), (3,), (8,)]
    said = "INFO ctx.new('sums') is the whole input: which of its rows are new is not known"
    assert about_new(mill) == [*first, said, said]


def about_new(mill: Mill) -> list[str]:
    """What jobs were told about `ctx.new`."""
    return [line for line in mill.lines if "ctx.new(" in line]


def _sum(ctx: Any) -> Any:
    """The new numbers and all sums so far, as one more sum."""
    rows = [row.n for asset_id in ctx.inputs for row in ctx.new(asset_id).collect()]
    return ctx.spark.createDataFrame([(sum(rows),)], "n long")


def test_a_table_that_a_run_left_out_is_read_on_from_where_it_was(mill: Mill) -> None:
    """Nothing was handed on, so nothing was read; the rows after that are the new ones (docs/semantics.md#R7.4)."""
    mill.lab.apply(
        pipe(
            step("numbers", job("numbers_if_any"), "source", COLLECT, optional=True),
            step("doubled", job("doubled_if_any"), "numbers", COLLECT),
        )
    )
    for these in ([1], [], [2]):
        feed(mill, *these)
    assert mill.rows("doubled") == doubled(1, 2)
    assert versions(mill, "doubled") == [0, 1]


def test_a_step_without_outputs_reads_what_its_run_adds(mill: Mill) -> None:
    """It has no output to say how far it came; but what it read is published if and only if it succeeds."""
    sink = {**step("seen", job("seen"), "numbers"), "produces": []}
    mill.lab.apply(pipe(numbers(COLLECT), sink))
    for n in (1, 2):
        feed(mill, n)
    assert [line for line in mill.lines if line.startswith("INFO new: ")] == ["INFO new: [1]", "INFO new: [2]"]


@pytest.mark.parametrize("how", ["SELECT n FROM files", job("copied")], ids=["sql", "ctx.new"])
def test_a_source_that_did_not_change_has_no_new_rows(
    mill: Mill, spark: SparkSession, tmp_path: Path, how: str | dict[str, str]
) -> None:
    """A run that a user asked for, or time, adds nothing; one after a change replaces all and says so."""
    mill.lab.apply(flow("copied", how, [{"assetId": "files", "rows": "new"}], table=APPEND))
    report_file(mill, spark, tmp_path / "first", 1, 2)
    mill.work()
    mill.run("copied")
    assert mill.rows("copied") == [(1,), (2,)]
    assert mill.snapshot("copied")["changed"] is False
    report_file(mill, spark, tmp_path / "second", 2, 3)
    mill.work()
    assert mill.rows("copied") == [(2,), (3,)]
    assert "INFO everything is read anew: files was changed other than by append" in mill.lines


def test_a_source_is_not_read_again_because_another_input_grew(mill: Mill, spark: SparkSession, tmp_path: Path) -> None:
    """Each input has its own increment, and that of an unchanged source is empty, with its columns."""
    both = [{"assetId": "numbers", "rows": "new"}, {"assetId": "files", "rows": "new"}]
    mill.lab.apply(
        flow("numbers", job("numbers"), "source", table=COLLECT),
        flow("joined", "SELECT n FROM numbers UNION ALL SELECT n FROM files", both, table=APPEND),
    )
    report_file(mill, spark, tmp_path / "first", 10)
    for n in (1, 2):
        feed(mill, n)
    assert mill.rows("joined") == [(1,), (10,), (2,)]
    assert versions(mill, "joined") == [0, 1]


def report_file(mill: Mill, spark: SparkSession, path: Path, *these: int) -> None:
    """The source `files` has these numbers now."""
    spark.createDataFrame([(n,) for n in these], "n long").write.parquet(str(path))
    mill.lab.report("files", payload={"path": str(path)})


def test_what_was_made_from_lost_files_is_made_anew_with_them(mill: Mill) -> None:
    """Both outputs come from one roll of the dice, although an earlier attempt had finished both."""
    roll = "SELECT reflect('java.util.UUID', 'randomUUID') AS dice"
    mill.lab.apply(
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
    mill.lab.store.operations.request_run("pipe")
    first = mill.lab.start_of("pipe")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Execution, "_publish", _dies)
        with pytest.raises(_Death):
            mill.execute(first)
    shutil.rmtree(next((mill.lab.warehouse / "roll" / "data").glob(f"{first.id}-*")))
    mill.lab.advance(seconds=60)
    assert mill.lab.store.runs.rescue(10) == 1
    again = mill.lab.start_of("pipe")
    assert set(again.finished_steps) == {"roll", "copy"}
    mill.execute(again)
    assert mill.rows("copy") == mill.rows("roll") != []
