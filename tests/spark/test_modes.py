"""Table modes and increments: what is added is added once, whatever happens in between (docs/semantics.md#R9.5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from freshline.errors import CheckError, ConflictError, JobError, NotFoundError
from tests.spark.spark_harness import Mill, flow, job, local_engine
from tests.store_harness import laboratory

pytestmark = pytest.mark.spark
APPEND: dict[str, Any] = {"table": {"mode": "append"}}


@pytest.fixture
def mill(database_url: str, tmp_path: Path, spark: SparkSession) -> Iterator[Mill]:
    """A store of its own, and the session of all tests."""
    with laboratory(database_url, warehouse=str(tmp_path / "w")) as lab:
        yield Mill(lab, local_engine(spark))


def feed(mill: Mill, *numbers: int, then: bool = True) -> list[str]:
    """The source has these numbers now."""
    mill.lab.report("source", payload=list(numbers))
    return mill.work() if then else []


def test_appended_rows_come_to_those_that_are_there(mill: Mill) -> None:
    """Every version has all rows so far and stays readable; equal increments change the data version.

    See docs/semantics.md#R9.5.
    """
    mill.lab.apply(flow("numbers", job("numbers"), "source", table={"mode": "append", "onReplacedInput": "append"}))
    for numbers in ([1, 2], [3], [3], []):
        feed(mill, *numbers)
    assert mill.rows("numbers") == [(1,), (2,), (3,), (3,)]
    assert [mill.rows("numbers", n) for n in (1, 2, 3)] == [[(1,), (2,)], [(1,), (2,), (3,)], [(1,), (2,), (3,), (3,)]]
    seen = mill.lab.rows("SELECT * FROM snapshots WHERE asset_id = 'numbers' ORDER BY sequence")
    assert [row["changed"] for row in seen] == [True, True, True, False]
    assert [(row["table_version"], row["base_version"], row["rows"]) for row in seen] == [
        (0, 0, 2), (1, 0, 3), (2, 0, 4), (2, 0, 4),
    ]  # fmt: skip
    assert len({row["data_version"] for row in seen}) == 3
    assert [row["difference"] for row in seen[1:]] == [
        {"rows": ["2 -> 3"], "columns": ["n"]}, {"rows": ["3 -> 4"], "columns": ["n"]}, None,
    ]  # fmt: skip
    told = [run["result"]["metrics"]["work"] for run in mill.lab.runs("numbers")]
    assert [one["rowsOut"] for one in told] == [2, 1, 1, 0], "what was written, not what was there"
    assert [one["bytesOut"] for one in told[:3]] == [sum(row["location"]["files"].values()) for row in seen[:3]]
    assert seen[2]["bytes"] == sum(sum(row["location"]["files"].values()) for row in seen[:3])


def test_a_table_whose_parts_have_other_encodings_is_of_none_of_them(mill: Mill) -> None:
    """So that a full refresh writes all of it anew, though its rows and its last part may be the same (ADR 0013)."""
    seen = []
    for version in (2, 2, 1, 1):
        table = {"mode": "append", "onReplacedInput": "append", "parquet": version}
        mill.lab.apply(flow("numbers", job("numbers"), "source", table=table))
        feed(mill, 1)
        seen.append(mill.snapshot("numbers")["location"]["parquet"])
    mill.run("numbers", full_refresh=True)
    assert [*seen, mill.snapshot("numbers")["location"]["parquet"]] == [2, 2, None, None, 1]


def test_the_version_of_an_appended_table_is_that_of_its_rows(mill: Mill) -> None:
    """Parts combine to what one write of all rows would give (docs/semantics.md#R9.5)."""
    mill.lab.apply(
        flow("numbers", job("numbers"), "source", table={"mode": "append", "onReplacedInput": "append"}),
        flow("whole", "SELECT n FROM numbers", "numbers"),
    )
    feed(mill, 1, 2)
    feed(mill, 3)
    assert mill.lab.head("numbers")["data_version"] == mill.lab.head("whole")["data_version"]


def test_an_increment_is_consumed_exactly_once_over_crashes(mill: Mill) -> None:
    """Positions commit with the output: a run that died is done again, and no row is lost or doubled."""
    mill.lab.apply(
        flow("numbers", job("numbers"), "source", table={"mode": "append", "onReplacedInput": "append"}),
        flow("doubled", job("doubled"), "numbers", **APPEND),
    )
    expected = []
    for n in range(4):
        expected.append((n, 2 * n))
        feed(mill, n, then=False)
        mill.lab.settle()
        mill.execute(mill.lab.start_of("numbers"))
        mill.lab.settle()
        dead = mill.lab.start_of("doubled")  # this worker is never heard of again
        mill.lab.advance(seconds=60)
        assert mill.lab.store.runs.rescue(10) == 1
        again = mill.lab.start_of("doubled")
        assert (again.id, again.attempt) == (dead.id, 2)
        mill.execute(again)
        with pytest.raises(Exception, match="no longer owns"):
            mill.execute(dead)
        assert mill.rows("doubled") == expected
    assert any("increment" in line for line in mill.lines)
    assert mill.snapshot("doubled")["base_version"] == 0, "nothing was ever written anew"


def test_two_changes_before_a_run_are_one_increment(mill: Mill) -> None:
    """A consumer that was away reads everything since its last run, once."""
    mill.lab.apply(
        flow("numbers", job("numbers"), "source", table={"mode": "append", "onReplacedInput": "append"}),
        flow("doubled", job("doubled"), "numbers", **APPEND),
    )
    feed(mill, 1)
    mill.lab.store.operations.pause("doubled", None)
    feed(mill, 2)
    feed(mill, 3)
    mill.lab.store.operations.resume("doubled")
    assert mill.work() == ["doubled"]
    assert mill.rows("doubled") == [(1, 2), (2, 4), (3, 6)]


def test_an_input_that_was_replaced_means_a_full_refresh(mill: Mill) -> None:
    """The append output is replaced, ctx.full_refresh is true, and the log says why (docs/semantics.md#R9.5)."""
    mill.lab.apply(flow("numbers", job("numbers"), "source"), flow("doubled", job("doubled"), "numbers", **APPEND))
    feed(mill, 1, 2)
    feed(mill, 2, 3)
    assert mill.rows("doubled") == [(2, 4), (3, 6)]
    assert "INFO everything is read anew: numbers was changed other than by append" in mill.lines
    assert "INFO full refresh" in mill.lines


def test_sql_sees_only_new_rows_where_it_asks_for_them(mill: Mill) -> None:
    """`rows: new` on an input: its view has what was appended since the last run, the others are whole."""
    new = {"assetId": "numbers", "rows": "new"}
    mill.lab.apply(
        flow("numbers", job("numbers"), "source", table={"mode": "append", "onReplacedInput": "append"}),
        flow("doubled", "SELECT n, n * 2 AS twice FROM numbers", [new], **APPEND),
    )
    feed(mill, 1)
    feed(mill, 2)
    assert mill.rows("doubled") == [(1, 2), (2, 4)]
    assert mill.snapshot("doubled")["base_version"] == 0
    parts = mill.lab.store.runs.table_at("doubled", "", mill.snapshot("doubled")["sequence"]).parts
    assert [version for version, _ in parts] == [0, 1]


def test_a_user_can_ask_for_everything_anew(mill: Mill) -> None:
    """`freshline run SLUG --full-refresh` replaces an append output and a merge output."""
    merge: dict[str, Any] = {"table": {"mode": "merge", "keys": ["n"]}}
    mill.lab.apply(
        flow("numbers", job("numbers"), "source", table={"mode": "append", "onReplacedInput": "append"}),
        flow("merged", "SELECT n FROM numbers WHERE n > 1", "numbers", **merge),
    )
    feed(mill, 1, 2)
    mill.run("numbers", full_refresh=True)
    assert mill.rows("numbers") == [(1,), (2,)]
    assert mill.snapshot("numbers")["base_version"] == mill.snapshot("numbers")["table_version"]
    mill.work()
    feed(mill, 3)
    mill.lab.store.tables.rollback("numbers", 1)
    mill.work()
    assert mill.rows("merged") == [(2,), (3,)], "a merge keeps what is gone from its input"
    mill.run("merged", full_refresh=True)
    assert mill.rows("merged") == [(2,)]


def test_whoever_reads_what_it_makes_begins_anew_as_the_first_time(mill: Mill) -> None:
    """With `--full-refresh` its table is about to be replaced, so there is no previous version to look at.

    See docs/semantics.md#R9.5.
    """
    append = {"mode": "append", "onReplacedInput": "append"}
    mill.lab.apply(flow("unseen", job("unseen"), "source unseen", table=append))
    feed(mill, 1, 2)
    feed(mill, 1, 2, 3)
    assert mill.rows("unseen") == [(1,), (2,), (3,)]
    mill.run("unseen", full_refresh=True)
    assert mill.rows("unseen") == [(1,), (2,), (3,)]
    assert mill.snapshot("unseen")["changed"] is False


def test_merged_rows_replace_those_with_the_same_keys(mill: Mill) -> None:
    """New keys are added, known ones replaced, the rest stays; null is a key like any other."""
    query = "SELECT IF(n < 0, NULL, n % 10) AS k, n AS v FROM numbers"
    mill.lab.apply(
        flow("numbers", job("numbers"), "source"),
        flow("merged", query, "numbers", table={"mode": "merge", "keys": ["K"]}),
    )
    feed(mill, 1, 2, -1)
    feed(mill, 12, 13, -2)
    assert mill.rows("merged") == [(1, 1), (2, 12), (3, 13), (None, -2)]
    assert mill.snapshot("merged")["base_version"] == mill.snapshot("merged")["table_version"] == 1
    before = mill.lab.head("merged")["data_version"]
    feed(mill, 12, 13)
    assert mill.lab.head("merged")["data_version"] == before, (
        "a merge that changes nothing is cut off (docs/semantics.md#R9.3)"
    )


def test_a_merge_needs_one_row_per_key(mill: Mill) -> None:
    """Two new rows with one key: nothing is published, and the error names the key."""
    mill.lab.apply(
        flow("numbers", job("numbers"), "source"),
        flow("merged", "SELECT n % 10 AS k, n AS v FROM numbers", "numbers", table={"mode": "merge", "keys": ["k"]}),
    )
    feed(mill, 1)
    mill.lab.report("source", payload=[2, 12])
    mill.lab.settle()
    mill.execute(mill.lab.start_of("numbers"))
    mill.lab.settle()
    with pytest.raises(JobError, match="2 new rows have the same k; merging needs one row per key"):
        mill.execute(mill.lab.start_of("merged"))
    assert mill.rows("merged") == [(1, 1)]


@pytest.mark.parametrize("split", [[], ["k"]])
def test_the_first_write_of_a_merge_needs_one_row_per_key_too(mill: Mill, split: list[str]) -> None:
    """Also when everything is written anew: a later merge could only drop one of two rows without a word."""

    def values(rows: str) -> None:
        table = {"mode": "merge", "keys": ["K"], "partitionBy": split}
        mill.lab.apply(flow("out", f"SELECT * FROM VALUES {rows} AS t(k, v)", auto=None, table=table))

    values("(1, 'a'), (NULL, 'b'), (NULL, 'c')")
    with pytest.raises(JobError, match="2 new rows have the same K; merging needs one row per key"):
        mill.run("out")
    assert mill.lab.rows("SELECT * FROM snapshots WHERE asset_id = 'out'") == []
    values("(1, 'a'), (NULL, 'b')")
    mill.run("out")
    values("(1, 'a'), (1, 'c')")
    with pytest.raises(JobError, match="2 new rows have the same K"):
        mill.run("out", full_refresh=True)
    assert mill.rows("out") == [(1, "a"), (None, "b")]


def test_a_head_that_was_not_merged_may_not_have_doubles_of_a_key(mill: Mill) -> None:
    """A table that becomes one to merge, or gets other keys: no row goes without a word, and the error says more."""
    rows = "SELECT * FROM VALUES (1, 'a', 1), (1, 'b', 2), (2, 'a', 3) AS t(k, l, v)"
    one = "SELECT 2 AS k, 'a' AS l, 4 AS v"

    def merge(query: str, *keys: str) -> None:
        mill.lab.apply(flow("out", query, auto=None, table={"mode": "merge", "keys": list(keys)}))

    mill.lab.apply(flow("out", rows, auto=None))
    mill.run("out")
    merge(one, "k")
    with pytest.raises(JobError, match="2 rows of version 1 have the same k; merging needs one row per key") as refused:
        mill.run("out")
    assert refused.value.hint == "write it anew: `freshline run SLUG --full-refresh`"
    merge("SELECT 2 AS m, 2 AS k, 'a' AS l, 4 AS v", "m")
    with pytest.raises(JobError, match="version 1 cannot be merged by m: it has no such column"):
        mill.run("out")
    merge(one, "k", "l")
    mill.run("out")
    merge(one, "k")
    with pytest.raises(JobError, match="2 rows of version 2 have the same k"):
        mill.run("out")
    assert mill.rows("out") == [(1, "a", 1), (1, "b", 2), (2, "a", 4)]
    mill.run("out", full_refresh=True)
    assert mill.rows("out") == [(2, "a", 4)]


def test_an_append_may_bring_a_column_but_no_other_type(mill: Mill) -> None:
    """Old rows have null in a new column; a type that changed is refused with what to do."""
    table: dict[str, Any] = {"table": {"mode": "append", "onReplacedInput": "append"}}
    mill.lab.apply(flow("out", "SELECT 1 AS a", auto=None, **table))
    mill.run("out")
    mill.lab.apply(flow("out", "SELECT 'x' AS b, 2 AS a", auto=None, **table))
    mill.run("out")
    assert mill.rows("out") == [(1, None), (2, "x")]
    assert mill.snapshot("out")["difference"] == {"added": ["b string"], "rows": ["1 -> 2"], "columns": ["a"]}
    mill.lab.apply(flow("out", "SELECT '2' AS a", auto=None, **table))
    mill.lab.store.operations.request_run("out")
    with pytest.raises(JobError, match="column 'a' was int and is now string"):
        mill.execute(mill.lab.start_of("out"))


def test_an_append_may_leave_a_column_out(mill: Mill) -> None:
    """Its rows have null there, for checks and for the data version as well; no rows without it are no change."""
    checks = [{"range": {"column": "b", "min": 0}}]
    table: dict[str, Any] = {"table": {"mode": "append", "onReplacedInput": "append"}, "checks": checks}
    for query in ("SELECT 1 AS a, 2 AS b", "SELECT 3 AS a", "SELECT 3 AS a WHERE false"):
        mill.lab.apply(flow("out", query, auto=None, **table), flow("whole", "SELECT * FROM out", "out", auto=None))
        mill.run("out")
    assert mill.rows("out") == [(1, 2), (3, None)]
    seen = mill.lab.rows("SELECT changed FROM snapshots WHERE asset_id = 'out' ORDER BY sequence")
    assert [row["changed"] for row in seen] == [True, True, False]
    mill.run("whole")
    assert mill.lab.head("out")["data_version"] == mill.lab.head("whole")["data_version"]
    mill.lab.apply(flow("out", "SELECT 4 AS a", auto=None, **{**table, "checks": [{"notNull": ["b"]}]}))
    with pytest.raises(CheckError, match="column 'b' has 1 nulls"):
        mill.run("out")


def test_whether_values_may_be_null_is_no_part_of_their_type(mill: Mill) -> None:
    """An append may bring the first nulls, nested ones too, and what is recorded of the table allows them."""
    table: dict[str, Any] = {"table": {"mode": "append", "onReplacedInput": "append"}}
    for value in ("1", "CAST(NULL AS int)"):
        nested = f"array({value}) AS a, map('k', {value}) AS m, named_struct('f', {value}) AS s"
        mill.lab.apply(flow("out", f"SELECT {value} AS n, {nested}", auto=None, **table))
        mill.run("out")
    assert mill.rows("out") == [(1, [1], {"k": 1}, (1,)), (None, [None], {"k": None}, (None,))]
    assert "false" not in json.dumps(mill.snapshot("out")["schema"])


def test_an_equal_output_keeps_the_schema_of_its_files(mill: Mill) -> None:
    """A column that does not count may change its type; the files that stay have the one before.

    See docs/semantics.md#R9.3.
    """
    for value, changed in (("'x'", True), ("timestamp '2024-01-01'", False)):
        query = f"SELECT 1 AS a, {value} AS loaded_at"
        mill.lab.apply(flow("out", query, auto=None, dataVersion={"exclude": ["loaded_at"]}))
        mill.run("out")
        assert mill.snapshot("out")["changed"] is changed
        assert mill.rows("out") == [(1, "x")]


@pytest.mark.parametrize("mode", ["overwrite", "append", "merge"])
def test_columns_that_split_files_keep_their_place(mill: Mill, mode: str) -> None:
    """Readers see the columns in the order in which they were written, and merging the same rows changes nothing."""
    table = {"mode": mode, "partitionBy": ["day"], "keys": ["id"] if mode == "merge" else []}
    query = "SELECT '2024' AS day, 1 AS id, true AS v"
    checks = [{"sql": "SELECT * FROM output AS t(a, b, c) WHERE a <> '2024'"}]
    mill.lab.apply(flow("out", query, auto=None, table=table, schemaChange="strict", checks=checks))
    for _ in range(3):
        mill.run("out")
        assert set(mill.rows("out")) == {("2024", 1, True)}
    seen = mill.lab.rows("SELECT changed FROM snapshots WHERE asset_id = 'out' ORDER BY sequence")
    assert [row["changed"] for row in seen] == [True, mode == "append", mode == "append"]


def test_split_files_are_appended_and_read(mill: Mill) -> None:
    """partitionBy with append: each part has directories of its own, and they are one table."""
    table = {"mode": "append", "onReplacedInput": "append", "partitionBy": ["even"]}
    mill.lab.apply(
        flow("numbers", job("numbers"), "source"),
        flow("split", "SELECT n, n % 2 = 0 AS even FROM numbers", "numbers", table=table),
    )
    feed(mill, 1, 2)
    feed(mill, 3)
    assert mill.rows("split") == [(1, False), (2, True), (3, False)]


def test_checks_of_rows_see_the_new_ones_and_checks_of_the_table_all(mill: Mill) -> None:
    """`unique` holds over the whole appended table; a failure publishes nothing and keeps what was written."""
    table = {"mode": "append", "onReplacedInput": "append"}
    checks = [{"unique": ["n"]}, {"minRows": 2}, {"range": {"column": "n", "min": 0}}]
    mill.lab.apply(flow("numbers", job("numbers"), "source", table=table, checks=checks))
    feed(mill, 1, 2)
    feed(mill, 3)
    assert [one["observed"] for one in mill.snapshot("numbers")["checks"]] == [0, 3, {"count": 0, "max": 3, "min": 3}]
    feed(mill, 1, then=False)
    mill.lab.settle()
    run = mill.lab.start_of("numbers")
    with pytest.raises(CheckError, match="1 values occur more than once"):
        mill.execute(run)
    assert mill.rows("numbers") == [(1,), (2,), (3,)]
    assert list((mill.lab.warehouse / "numbers" / "data").glob(f"{run.id}-*")), "the data is kept"


def test_a_head_that_moved_under_a_run_is_not_added_to(mill: Mill) -> None:
    """A rollback while a run works: its increment was computed from another head, so it is void."""
    mill.lab.apply(flow("numbers", job("numbers"), "source", table={"mode": "append", "onReplacedInput": "append"}))
    feed(mill, 1)
    feed(mill, 2)
    feed(mill, 3, then=False)
    mill.lab.settle()
    run = mill.lab.start_of("numbers")
    mill.lab.store.tables.rollback("numbers", 1)
    with pytest.raises(ConflictError, match="was moved to version 3 while the run worked on version 2"):
        mill.execute(run)
    assert mill.rows("numbers") == [(1,)]


def test_a_rolled_back_output_reads_its_inputs_again_from_there(mill: Mill) -> None:
    """A rollback takes the positions back too: what was appended since is consumed once more."""
    mill.lab.apply(
        flow("numbers", job("numbers"), "source", table={"mode": "append", "onReplacedInput": "append"}),
        flow("doubled", job("doubled"), "numbers", **APPEND),
    )
    for n in (1, 2, 3):
        feed(mill, n)
    mill.lab.store.tables.rollback("doubled", 1)
    assert mill.rows("doubled") == [(1, 2)]
    feed(mill, 4)
    assert mill.rows("doubled") == [(1, 2), (2, 4), (3, 6), (4, 8)]


def test_a_job_reads_another_version_that_is_kept(mill: Mill) -> None:
    """ctx.inputs[..].at(version); one that is not there says so."""
    mill.lab.apply(flow("numbers", job("numbers"), "source"), flow("change", job("change"), "numbers", auto=None))
    feed(mill, 1)
    feed(mill, 1, 2)
    mill.lab.store.operations.request_run("change")
    with pytest.raises(NotFoundError, match="version 0 of asset 'numbers' does not exist"):
        mill.execute(mill.lab.start_of("change"))
    feed(mill, 1, 2, 3, 4)
    mill.run("change")
    assert mill.rows("change") == [(3,)]


def test_what_differed_is_told(mill: Mill) -> None:
    """Which columns have other values than in the version before, and how the schema changed.

    See docs/semantics.md#R9.6.
    """
    mill.lab.apply(flow("out", "SELECT 1 AS a, 'x' AS b", auto=None))
    mill.run("out")
    mill.lab.apply(flow("out", "SELECT 1 AS a, 'y' AS b", auto=None))
    mill.run("out")
    assert mill.snapshot("out")["difference"] == {"columns": ["b"]}
    mill.lab.apply(flow("out", "SELECT 1L AS a, true AS c", auto=None))
    mill.run("out")
    seen = mill.snapshot("out")["difference"]
    assert seen["added"] == ["c boolean"]
    assert seen["removed"] == ["b string"]
    assert seen["retyped"] == ["a integer -> long"]
