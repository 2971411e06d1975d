"""Table modes and increments: what is added is added once, whatever happens in between (docs/semantics.md#R9.5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from freshline.errors import CheckError, ConflictError, JobError, NotFoundError
from tests.spark.spark_harness import SparkHarness, flow, job, local_engine
from tests.store_harness import laboratory

pytestmark = pytest.mark.spark
APPEND: dict[str, Any] = {"table": {"mode": "append"}}


@pytest.fixture
def harness(database_url: str, tmp_path: Path, spark: SparkSession) -> Iterator[SparkHarness]:
    """Yield a harness with a fresh store, on the session of all tests."""
    with laboratory(database_url, warehouse=str(tmp_path / "w")) as lab:
        yield SparkHarness(lab, local_engine(spark))


def feed(harness: SparkHarness, *numbers: int, then: bool = True) -> list[str]:
    """Report these numbers of the source."""
    harness.lab.report("source", payload=list(numbers))
    return harness.work() if then else []


def test_appended_rows_come_to_those_that_are_there(harness: SparkHarness) -> None:
    """Every version has all rows so far and stays readable; equal increments change the data version.

    See docs/semantics.md#R9.5.
    """
    harness.lab.apply(flow("numbers", job("numbers"), "source", table={"mode": "append", "onReplacedInput": "append"}))
    for numbers in ([1, 2], [3], [3], []):
        feed(harness, *numbers)
    assert harness.rows("numbers") == [(1,), (2,), (3,), (3,)]
    assert [harness.rows("numbers", n) for n in (1, 2, 3)] == [
        [(1,), (2,)],
        [(1,), (2,), (3,)],
        [(1,), (2,), (3,), (3,)],
    ]
    seen = harness.lab.rows("SELECT * FROM snapshots WHERE asset_id = 'numbers' ORDER BY sequence")
    assert [row["changed"] for row in seen] == [True, True, True, False]
    assert [(row["table_version"], row["base_version"], row["rows"]) for row in seen] == [
        (0, 0, 2), (1, 0, 3), (2, 0, 4), (2, 0, 4),
    ]  # fmt: skip
    assert len({row["data_version"] for row in seen}) == 3
    assert [row["difference"] for row in seen[1:]] == [
        {"rows": ["2 -> 3"], "columns": ["n"]}, {"rows": ["3 -> 4"], "columns": ["n"]}, None,
    ]  # fmt: skip
    told = [run["result"]["metrics"]["work"] for run in harness.lab.runs("numbers")]
    assert [one["rowsOut"] for one in told] == [2, 1, 1, 0], "what was written, not what was there"
    assert [one["bytesOut"] for one in told[:3]] == [sum(row["location"]["files"].values()) for row in seen[:3]]
    assert seen[2]["bytes"] == sum(sum(row["location"]["files"].values()) for row in seen[:3])


def test_a_table_whose_parts_have_other_encodings_is_of_none_of_them(harness: SparkHarness) -> None:
    """So that a full refresh writes all of it anew, though its rows and its last part may be the same (ADR 0013)."""
    seen = []
    for version in (2, 2, 1, 1):
        table = {"mode": "append", "onReplacedInput": "append", "parquet": version}
        harness.lab.apply(flow("numbers", job("numbers"), "source", table=table))
        feed(harness, 1)
        seen.append(harness.snapshot("numbers")["location"]["parquet"])
    harness.run("numbers", full_refresh=True)
    assert [*seen, harness.snapshot("numbers")["location"]["parquet"]] == [2, 2, None, None, 1]


def test_the_version_of_an_appended_table_is_that_of_its_rows(harness: SparkHarness) -> None:
    """Parts combine to what one write of all rows would give (docs/semantics.md#R9.5)."""
    harness.lab.apply(
        flow("numbers", job("numbers"), "source", table={"mode": "append", "onReplacedInput": "append"}),
        flow("whole", "SELECT n FROM numbers", "numbers"),
    )
    feed(harness, 1, 2)
    feed(harness, 3)
    assert harness.lab.head("numbers")["data_version"] == harness.lab.head("whole")["data_version"]


def test_an_increment_is_consumed_exactly_once_over_crashes(harness: SparkHarness) -> None:
    """Positions commit with the output: a run that died is done again, and no row is lost or doubled."""
    harness.lab.apply(
        flow("numbers", job("numbers"), "source", table={"mode": "append", "onReplacedInput": "append"}),
        flow("doubled", job("doubled"), "numbers", **APPEND),
    )
    expected = []
    for n in range(4):
        expected.append((n, 2 * n))
        feed(harness, n, then=False)
        harness.lab.settle()
        harness.execute(harness.lab.start_of("numbers"))
        harness.lab.settle()
        dead = harness.lab.start_of("doubled")  # this worker is never heard of again
        harness.lab.advance(seconds=60)
        assert harness.lab.store.runs.rescue(10) == 1
        again = harness.lab.start_of("doubled")
        assert (again.id, again.attempt) == (dead.id, 2)
        harness.execute(again)
        with pytest.raises(Exception, match="no longer owns"):
            harness.execute(dead)
        assert harness.rows("doubled") == expected
    assert any("increment" in line for line in harness.lines)
    assert harness.snapshot("doubled")["base_version"] == 0, "nothing was ever written anew"


def test_two_changes_before_a_run_are_one_increment(harness: SparkHarness) -> None:
    """A consumer that was away reads everything since its last run, once."""
    harness.lab.apply(
        flow("numbers", job("numbers"), "source", table={"mode": "append", "onReplacedInput": "append"}),
        flow("doubled", job("doubled"), "numbers", **APPEND),
    )
    feed(harness, 1)
    harness.lab.store.operations.pause("doubled", None)
    feed(harness, 2)
    feed(harness, 3)
    harness.lab.store.operations.resume("doubled")
    assert harness.work() == ["doubled"]
    assert harness.rows("doubled") == [(1, 2), (2, 4), (3, 6)]


def test_an_input_that_was_replaced_means_a_full_refresh(harness: SparkHarness) -> None:
    """The append output is replaced, ctx.full_refresh is true, and the log says why (docs/semantics.md#R9.5)."""
    harness.lab.apply(flow("numbers", job("numbers"), "source"), flow("doubled", job("doubled"), "numbers", **APPEND))
    feed(harness, 1, 2)
    feed(harness, 2, 3)
    assert harness.rows("doubled") == [(2, 4), (3, 6)]
    assert "INFO everything is read again: numbers was changed other than by append" in harness.lines
    assert "INFO full refresh" in harness.lines


def test_sql_sees_only_new_rows_where_it_asks_for_them(harness: SparkHarness) -> None:
    """`rows: new` on an input: its view has what was appended since the last run, the others are whole."""
    new = {"assetId": "numbers", "rows": "new"}
    harness.lab.apply(
        flow("numbers", job("numbers"), "source", table={"mode": "append", "onReplacedInput": "append"}),
        flow("doubled", "SELECT n, n * 2 AS twice FROM numbers", [new], **APPEND),
    )
    feed(harness, 1)
    feed(harness, 2)
    assert harness.rows("doubled") == [(1, 2), (2, 4)]
    assert harness.snapshot("doubled")["base_version"] == 0
    parts = harness.lab.store.runs.table_at("doubled", "", harness.snapshot("doubled")["sequence"]).parts
    assert [version for version, _ in parts] == [0, 1]


def test_a_user_can_ask_for_everything_anew(harness: SparkHarness) -> None:
    """`freshline run SLUG --full-refresh` replaces an append output and a merge output."""
    merge: dict[str, Any] = {"table": {"mode": "merge", "keys": ["n"]}}
    harness.lab.apply(
        flow("numbers", job("numbers"), "source", table={"mode": "append", "onReplacedInput": "append"}),
        flow("merged", "SELECT n FROM numbers WHERE n > 1", "numbers", **merge),
    )
    feed(harness, 1, 2)
    harness.run("numbers", full_refresh=True)
    assert harness.rows("numbers") == [(1,), (2,)]
    assert harness.snapshot("numbers")["base_version"] == harness.snapshot("numbers")["table_version"]
    harness.work()
    feed(harness, 3)
    harness.lab.store.tables.rollback("numbers", 1)
    harness.work()
    assert harness.rows("merged") == [(2,), (3,)], "a merge keeps what is gone from its input"
    harness.run("merged", full_refresh=True)
    assert harness.rows("merged") == [(2,)]


def test_whoever_reads_what_it_makes_begins_anew_as_the_first_time(harness: SparkHarness) -> None:
    """With `--full-refresh` its table is about to be replaced, so there is no previous version to look at.

    See docs/semantics.md#R9.5.
    """
    append = {"mode": "append", "onReplacedInput": "append"}
    harness.lab.apply(flow("unseen", job("unseen"), "source unseen", table=append))
    feed(harness, 1, 2)
    feed(harness, 1, 2, 3)
    assert harness.rows("unseen") == [(1,), (2,), (3,)]
    harness.run("unseen", full_refresh=True)
    assert harness.rows("unseen") == [(1,), (2,), (3,)]
    assert harness.snapshot("unseen")["changed"] is False


def test_merged_rows_replace_those_with_the_same_keys(harness: SparkHarness) -> None:
    """New keys are added, known ones replaced, the rest stays; null is a key like any other."""
    query = "SELECT IF(n < 0, NULL, n % 10) AS k, n AS v FROM numbers"
    harness.lab.apply(
        flow("numbers", job("numbers"), "source"),
        flow("merged", query, "numbers", table={"mode": "merge", "keys": ["K"]}),
    )
    feed(harness, 1, 2, -1)
    feed(harness, 12, 13, -2)
    assert harness.rows("merged") == [(1, 1), (2, 12), (3, 13), (None, -2)]
    assert harness.snapshot("merged")["base_version"] == harness.snapshot("merged")["table_version"] == 1
    before = harness.lab.head("merged")["data_version"]
    feed(harness, 12, 13)
    assert harness.lab.head("merged")["data_version"] == before, (
        "a merge that changes nothing is cut off (docs/semantics.md#R9.3)"
    )


def test_a_merge_needs_one_row_per_key(harness: SparkHarness) -> None:
    """Two new rows with one key: nothing is published, and the error names the key."""
    harness.lab.apply(
        flow("numbers", job("numbers"), "source"),
        flow("merged", "SELECT n % 10 AS k, n AS v FROM numbers", "numbers", table={"mode": "merge", "keys": ["k"]}),
    )
    feed(harness, 1)
    harness.lab.report("source", payload=[2, 12])
    harness.lab.settle()
    harness.execute(harness.lab.start_of("numbers"))
    harness.lab.settle()
    with pytest.raises(JobError, match="2 new rows have the same k; merging needs one row per key"):
        harness.execute(harness.lab.start_of("merged"))
    assert harness.rows("merged") == [(1, 1)]


@pytest.mark.parametrize("split", [[], pytest.param(["k"], marks=pytest.mark.full)])
def test_the_first_write_of_a_merge_needs_one_row_per_key_too(harness: SparkHarness, split: list[str]) -> None:
    """Also when everything is written anew: a later merge could only drop one of two rows without a word."""

    def values(rows: str) -> None:
        table = {"mode": "merge", "keys": ["K"], "partitionBy": split}
        harness.lab.apply(flow("out", f"SELECT * FROM VALUES {rows} AS t(k, v)", auto=None, table=table))

    values("(1, 'a'), (NULL, 'b'), (NULL, 'c')")
    with pytest.raises(JobError, match="2 new rows have the same K; merging needs one row per key"):
        harness.run("out")
    assert harness.lab.rows("SELECT * FROM snapshots WHERE asset_id = 'out'") == []
    values("(1, 'a'), (NULL, 'b')")
    harness.run("out")
    values("(1, 'a'), (1, 'c')")
    with pytest.raises(JobError, match="2 new rows have the same K"):
        harness.run("out", full_refresh=True)
    assert harness.rows("out") == [(1, "a"), (None, "b")]


def test_a_head_that_was_not_merged_may_not_have_doubles_of_a_key(harness: SparkHarness) -> None:
    """A table that becomes one to merge, or gets other keys: no row goes without a word, and the error says more."""
    rows = "SELECT * FROM VALUES (1, 'a', 1), (1, 'b', 2), (2, 'a', 3) AS t(k, l, v)"
    one = "SELECT 2 AS k, 'a' AS l, 4 AS v"

    def merge(query: str, *keys: str) -> None:
        harness.lab.apply(flow("out", query, auto=None, table={"mode": "merge", "keys": list(keys)}))

    harness.lab.apply(flow("out", rows, auto=None))
    harness.run("out")
    merge(one, "k")
    with pytest.raises(JobError, match="2 rows of version 1 have the same k; merging needs one row per key") as refused:
        harness.run("out")
    assert "`freshline run SLUG --full-refresh` writes the whole table again" in str(refused.value.hint)
    assert "it first says which rows would be dropped" in str(refused.value.hint)
    merge("SELECT 2 AS m, 2 AS k, 'a' AS l, 4 AS v", "m")
    with pytest.raises(JobError, match="version 1 cannot be merged by m: it has no such column"):
        harness.run("out")
    merge(one, "k", "l")
    harness.run("out")
    merge(one, "k")
    with pytest.raises(JobError, match="2 rows of version 2 have the same k"):
        harness.run("out")
    assert harness.rows("out") == [(1, "a", 1), (1, "b", 2), (2, "a", 4)]
    harness.run("out", full_refresh=True)
    assert harness.rows("out") == [(2, "a", 4)]


def test_an_append_may_bring_a_column_but_no_other_type(harness: SparkHarness) -> None:
    """Old rows have null in a new column; a type that changed is refused with what to do."""
    table: dict[str, Any] = {"table": {"mode": "append", "onReplacedInput": "append"}}
    harness.lab.apply(flow("out", "SELECT 1 AS a", auto=None, **table))
    harness.run("out")
    harness.lab.apply(flow("out", "SELECT 'x' AS b, 2 AS a", auto=None, **table))
    harness.run("out")
    assert harness.rows("out") == [(1, None), (2, "x")]
    assert harness.snapshot("out")["difference"] == {"added": ["b string"], "rows": ["1 -> 2"], "columns": ["a"]}
    harness.lab.apply(flow("out", "SELECT '2' AS a", auto=None, **table))
    harness.lab.store.operations.request_run("out")
    with pytest.raises(JobError, match="column 'a' was int and is now string"):
        harness.execute(harness.lab.start_of("out"))


def test_an_append_may_leave_a_column_out(harness: SparkHarness) -> None:
    """Its rows have null there, for checks and for the data version as well; no rows without it are no change."""
    checks = [{"range": {"column": "b", "min": 0}}]
    table: dict[str, Any] = {"table": {"mode": "append", "onReplacedInput": "append"}, "checks": checks}
    for query in ("SELECT 1 AS a, 2 AS b", "SELECT 3 AS a", "SELECT 3 AS a WHERE false"):
        harness.lab.apply(flow("out", query, auto=None, **table), flow("whole", "SELECT * FROM out", "out", auto=None))
        harness.run("out")
    assert harness.rows("out") == [(1, 2), (3, None)]
    seen = harness.lab.rows("SELECT changed FROM snapshots WHERE asset_id = 'out' ORDER BY sequence")
    assert [row["changed"] for row in seen] == [True, True, False]
    harness.run("whole")
    assert harness.lab.head("out")["data_version"] == harness.lab.head("whole")["data_version"]
    harness.lab.apply(flow("out", "SELECT 4 AS a", auto=None, **{**table, "checks": [{"notNull": ["b"]}]}))
    with pytest.raises(CheckError, match="column 'b' has 1 null"):
        harness.run("out")


def test_whether_values_may_be_null_is_no_part_of_their_type(harness: SparkHarness) -> None:
    """An append may bring the first nulls, nested ones too, and what is recorded of the table allows them."""
    table: dict[str, Any] = {"table": {"mode": "append", "onReplacedInput": "append"}}
    for value in ("1", "CAST(NULL AS int)"):
        nested = f"array({value}) AS a, map('k', {value}) AS m, named_struct('f', {value}) AS s"
        harness.lab.apply(flow("out", f"SELECT {value} AS n, {nested}", auto=None, **table))
        harness.run("out")
    assert harness.rows("out") == [(1, [1], {"k": 1}, (1,)), (None, [None], {"k": None}, (None,))]
    assert "false" not in json.dumps(harness.snapshot("out")["schema"])


def test_an_equal_output_keeps_the_schema_of_its_files(harness: SparkHarness) -> None:
    """A column that does not count may change its type; the files that stay have the one before.

    See docs/semantics.md#R9.3.
    """
    for value, changed in (("'x'", True), ("timestamp '2024-01-01'", False)):
        query = f"SELECT 1 AS a, {value} AS loaded_at"
        harness.lab.apply(flow("out", query, auto=None, dataVersion={"exclude": ["loaded_at"]}))
        harness.run("out")
        assert harness.snapshot("out")["changed"] is changed
        assert harness.rows("out") == [(1, "x")]


@pytest.mark.parametrize("mode", ["overwrite", pytest.param("append", marks=pytest.mark.full), "merge"])
def test_columns_that_split_files_keep_their_place(harness: SparkHarness, mode: str) -> None:
    """Readers see the columns in the order in which they were written, and merging the same rows changes nothing."""
    table = {"mode": mode, "partitionBy": ["day"], "keys": ["id"] if mode == "merge" else []}
    query = "SELECT '2024' AS day, 1 AS id, true AS v"
    checks = [{"sql": "SELECT * FROM output AS t(a, b, c) WHERE a <> '2024'"}]
    harness.lab.apply(flow("out", query, auto=None, table=table, schemaChange="strict", checks=checks))
    for _ in range(3):
        harness.run("out")
        assert set(harness.rows("out")) == {("2024", 1, True)}
    seen = harness.lab.rows("SELECT changed FROM snapshots WHERE asset_id = 'out' ORDER BY sequence")
    assert [row["changed"] for row in seen] == [True, mode == "append", mode == "append"]


def test_split_files_are_appended_and_read(harness: SparkHarness) -> None:
    """partitionBy with append: each part has directories of its own, and they are one table."""
    table = {"mode": "append", "onReplacedInput": "append", "partitionBy": ["even"]}
    harness.lab.apply(
        flow("numbers", job("numbers"), "source"),
        flow("split", "SELECT n, n % 2 = 0 AS even FROM numbers", "numbers", table=table),
    )
    feed(harness, 1, 2)
    feed(harness, 3)
    assert harness.rows("split") == [(1, False), (2, True), (3, False)]


def test_checks_of_rows_see_the_new_ones_and_checks_of_the_table_all(harness: SparkHarness) -> None:
    """`unique` holds over the whole appended table; a failure publishes nothing and keeps what was written."""
    table = {"mode": "append", "onReplacedInput": "append"}
    checks = [{"unique": ["n"]}, {"minRows": 2}, {"range": {"column": "n", "min": 0}}]
    harness.lab.apply(flow("numbers", job("numbers"), "source", table=table, checks=checks))
    feed(harness, 1, 2)
    feed(harness, 3)
    assert [one["observed"] for one in harness.snapshot("numbers")["checks"]] == [
        0,
        3,
        {"count": 0, "max": 3, "min": 3},
    ]
    feed(harness, 1, then=False)
    harness.lab.settle()
    run = harness.lab.start_of("numbers")
    with pytest.raises(CheckError, match="1 value occurs more than once"):
        harness.execute(run)
    assert harness.rows("numbers") == [(1,), (2,), (3,)]
    assert list((harness.lab.warehouse / "numbers" / "data").glob(f"{run.id}-*")), "the data is kept"


def test_a_head_that_moved_under_a_run_is_not_added_to(harness: SparkHarness) -> None:
    """A rollback while a run works: its increment was computed from another head, so it is void."""
    harness.lab.apply(flow("numbers", job("numbers"), "source", table={"mode": "append", "onReplacedInput": "append"}))
    feed(harness, 1)
    feed(harness, 2)
    feed(harness, 3, then=False)
    harness.lab.settle()
    run = harness.lab.start_of("numbers")
    harness.lab.store.tables.rollback("numbers", 1)
    with pytest.raises(ConflictError, match="was moved to version 3 while the run worked on version 2"):
        harness.execute(run)
    assert harness.rows("numbers") == [(1,)]


def test_a_rolled_back_output_reads_its_inputs_again_from_there(harness: SparkHarness) -> None:
    """A rollback takes the positions back too: what was appended since is consumed once more."""
    harness.lab.apply(
        flow("numbers", job("numbers"), "source", table={"mode": "append", "onReplacedInput": "append"}),
        flow("doubled", job("doubled"), "numbers", **APPEND),
    )
    for n in (1, 2, 3):
        feed(harness, n)
    harness.lab.store.tables.rollback("doubled", 1)
    assert harness.rows("doubled") == [(1, 2)]
    feed(harness, 4)
    assert harness.rows("doubled") == [(1, 2), (2, 4), (3, 6), (4, 8)]


def test_a_job_reads_another_version_that_is_kept(harness: SparkHarness) -> None:
    """ctx.inputs[..].at(version); one that is not there says so."""
    harness.lab.apply(flow("numbers", job("numbers"), "source"), flow("change", job("change"), "numbers", auto=None))
    feed(harness, 1)
    feed(harness, 1, 2)
    harness.lab.store.operations.request_run("change")
    with pytest.raises(NotFoundError, match="version 0 of asset 'numbers' does not exist"):
        harness.execute(harness.lab.start_of("change"))
    feed(harness, 1, 2, 3, 4)
    harness.run("change")
    assert harness.rows("change") == [(3,)]


def test_what_differed_is_told(harness: SparkHarness) -> None:
    """Which columns have other values than in the version before, and how the schema changed.

    See docs/semantics.md#R9.6.
    """
    harness.lab.apply(flow("out", "SELECT 1 AS a, 'x' AS b", auto=None))
    harness.run("out")
    harness.lab.apply(flow("out", "SELECT 1 AS a, 'y' AS b", auto=None))
    harness.run("out")
    assert harness.snapshot("out")["difference"] == {"columns": ["b"]}
    harness.lab.apply(flow("out", "SELECT 1L AS a, true AS c", auto=None))
    harness.run("out")
    seen = harness.snapshot("out")["difference"]
    assert seen["added"] == ["c boolean"]
    assert seen["removed"] == ["b string"]
    assert seen["retyped"] == ["a integer -> long"]
