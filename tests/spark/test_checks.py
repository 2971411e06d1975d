"""Data checks on what was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from freshline.definitions.loading import document
from freshline.definitions.schema.workflow import Check, Produces
from freshline.errors import CheckError
from freshline.spark.checks import run_checks
from freshline.spark.staging import Staging, write
from freshline.storage.local import LocalStorage
from tests.docs.pages import CHECKS, code

pytestmark = pytest.mark.spark

GOOD: list[dict[str, Any]] = [
    {"notNull": ["k", "t"]},
    {"unique": ["k"]},
    {"unique": ["t", "k"]},
    {"minRows": 4},
    {"maxRows": 4},
    {"accepted": {"column": "t", "values": ["a", "b"]}},
    {"accepted": {"column": "n", "values": [1]}},
    {"range": {"column": "k", "min": 1, "max": 4}},
    {"range": {"column": "at", "min": "2020-01-01"}},
    {"sql": "k > 0 AND n > 0"},
    {"sql": "count(*) = 4 AND max(k) < 5"},
    {"sql": "SELECT * FROM output WHERE k > 4"},
    {"freshRows": {"column": "at", "maxAge": "1h"}},
]

BAD: list[tuple[dict[str, Any], Any, str]] = [
    ({"notNull": ["k", "n"]}, {"n": 2}, "column 'n' has 2 nulls"),
    ({"unique": ["t"]}, {"count": 1, "example": '{"t":"a"}'}, "column 't': 1 value occurs more than once"),
    ({"unique": ["n"]}, None, "column 'n': 2 values"),
    ({"minRows": 5}, 4, "4 rows; allowed are 5 or more"),
    ({"maxRows": 3}, 4, "4 rows; allowed are 3 or fewer"),
    ({"accepted": {"column": "t", "values": ["a"]}}, {"count": 1, "example": "b"}, "such as 'b'; allowed are 'a'"),
    (
        {"range": {"column": "k", "max": 3}},
        {"count": 1, "min": 1, "max": 4},
        "column 'k' has 1 of 4 values out of range: it goes from 1 to 4; allowed is to 3",
    ),
    ({"sql": "k < 3"}, 2, "`k < 3` does not hold for 2 of 4 rows"),
    ({"sql": "sum(k) < 3"}, 4, "`sum(k) < 3` does not hold for the table of 4 rows"),
    ({"sql": "with x as (select k from output) select k from x where k = 4"}, {"k": 4}, "must return no row"),
    ({"freshRows": {"column": "old", "maxAge": "1h"}}, None, "ms old; allowed are 3600000 ms"),
    ({"freshRows": {"column": "never", "maxAge": "1h"}}, None, "it has no value"),
]


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    """Four rows."""
    rows = "VALUES (1, 'a', 1), (2, 'a', NULL), (3, 'a', 1), (4, 'b', NULL) AS t(k, t, n)"
    times = "current_timestamp() AS at, date '2020-01-01' AS old, CAST(NULL AS timestamp) AS never"
    return spark.sql(f"SELECT *, {times} FROM {rows}").cache()


def test_all_kinds_of_checks_can_pass(table: DataFrame) -> None:
    """Nulls pass where a value is compared; the number of rows comes from the write."""
    results = run_checks(table, table, 4, [Check.model_validate(check) for check in GOOD])
    assert [r.check.kind for r in results if not r.passed] == []


def test_all_kinds_of_checks_can_fail_and_say_what_they_saw(table: DataFrame) -> None:
    """Each names its column and the observed value, which is stored as JSON."""
    results = run_checks(table, table, 4, [Check.model_validate(check) for check, _, _ in BAD])
    for result, (check, observed, said) in zip(results, BAD, strict=True):
        assert not result.passed, check
        assert said in result.violation
        if observed is not None:
            assert result.as_json()["observed"] == observed


def test_an_aggregate_speaks_of_an_empty_table_too(spark: SparkSession) -> None:
    """A false aggregate fails although no single row is wrong; null passes, and so do row checks without rows."""
    empty = spark.createDataFrame([], "k int")
    checks = [Check.model_validate({"sql": sql}) for sql in ("count(*) > 0", "sum(k) > 0", "k > 0")]
    results = run_checks(empty, empty, 0, checks)
    assert [result.passed for result in results] == [False, True, True]
    assert results[0].violation == "`count(*) > 0` does not hold for the table of 0 rows"


def test_a_failed_check_names_itself_and_keeps_the_data(table: DataFrame, tmp_path: Path) -> None:
    """Errors stop the output, warnings are only stored; the error says where the data is."""
    bad = [{"minRows": 9, "severity": "warn"}, {"notNull": ["n"], "name": "n is there"}, {"unique": ["t"]}]
    directory = "out/data/x"
    produced = Produces.model_validate({"assetId": "out", "checks": bad})
    with pytest.raises(CheckError) as caught:
        write(table, Staging("out", "step", LocalStorage(tmp_path), directory, produced))
    assert str(caught.value).startswith(
        "asset 'out': check n is there failed: column 'n' has 2 nulls; check unique(t) "
    )
    assert str(caught.value).endswith("; nothing was published")
    assert caught.value.staged == directory
    assert [(one["check"], one["passed"]) for one in caught.value.checks] == [
        ("minRows", False),
        ("n is there", False),
        ("unique(t)", False),
    ]
    assert list((tmp_path / directory).glob("part-*.parquet"))


def test_warnings_do_not_stop_an_output(table: DataFrame, tmp_path: Path) -> None:
    """A violated check of severity warn is stored with what it saw."""
    produced = Produces.model_validate({"assetId": "out", "checks": [{"minRows": 9, "severity": "warn"}]})
    output = write(table, Staging("out", "step", LocalStorage(tmp_path), "out/data/x", produced))
    said = "the table has 4 rows; allowed are 9 or more"
    assert output.checks == [{"check": "minRows", "severity": "warn", "passed": False, "observed": 4, "message": said}]


def test_checks_see_the_rows_that_were_written(spark: SparkSession, tmp_path: Path) -> None:
    """A job whose every computation gives other values: checks and data version are about those in the files."""
    table = spark.range(5).selectExpr("reflect('java.util.UUID', 'randomUUID') AS t")
    checks = [
        {"range": {"column": "t", "min": "~"}, "severity": "warn"},
        {"sql": "SELECT max(t) AS t FROM output", "severity": "warn"},
    ]
    produced = Produces.model_validate({"assetId": "out", "checks": checks})
    output = write(table, Staging("out", "step", LocalStorage(tmp_path), "x", produced))
    written = spark.read.parquet(str(tmp_path / "x"))
    values = sorted(row.t for row in written.collect())
    assert values != sorted(row.t for row in table.collect()), "another computation gives other values"
    assert [one["observed"] for one in output.checks] == [
        {"count": 5, "min": values[0], "max": values[-1]},
        {"t": values[-1]},
    ]
    assert write(written, Staging("out", "step", LocalStorage(tmp_path), "y")).data_version == output.data_version


@pytest.mark.parametrize("check", [{"unique": ["kk"]}, {"range": {"column": "kk", "min": 1}}])
def test_a_check_of_an_absent_column_says_which_there_are(table: DataFrame, check: dict[str, Any]) -> None:
    """The columns of the table are listed."""
    with pytest.raises(CheckError, match=r"names column 'kk', .* its columns are k, t, n, at, old, never"):
        run_checks(table, table, 4, [Check.model_validate(check)])


def test_many_keys_are_counted_in_one_pass(spark: SparkSession) -> None:
    """Overlapping keys, nulls, columns in another case and a key twice: each check gets its own answer."""
    rows = "VALUES (1, 'a', NULL), (1, 'b', NULL), (2, 'a', 7), (2, 'b', NULL), (3, 'c', 8) AS t(k, `a.b`, n)"
    keys = [["k"], ["K", "a.b"], ["a.b"], ["k"], ["n"], ["n", "k"], ["k", "a.b", "n"]]
    table = spark.sql(f"SELECT * FROM {rows}")
    results = run_checks(table, table, 5, [Check.model_validate({"unique": key}) for key in keys])
    assert [result.observed and result.observed["count"] for result in results] == [2, 0, 2, 2, 1, 1, 0]
    assert results[2].observed["example"] in ('{"a.b":"a"}', '{"a.b":"b"}')
    assert results[5].observed["example"] == '{"k":1}', "JSON leaves nulls out"


def test_as_few_jobs_as_possible(spark: SparkSession, table: DataFrame) -> None:
    """One pass for all aggregates and one for all keys, however many checks there are."""
    counted: list[str] = []
    frame = type(table)
    collect = frame.collect

    def counting(self: DataFrame) -> Any:
        counted.append("pass")
        return collect(self)

    checks = [{"notNull": ["k"]}, {"unique": ["k"]}, {"unique": ["t", "k"]}, {"sql": "k > 0"}, {"minRows": 1}]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame, "collect", counting)
        run_checks(table, table, 4, [Check.model_validate(check) for check in checks])
    assert counted == ["pass", "pass"]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("kk > 1", r"check mine cannot be evaluated: \[UNRESOLVED_COLUMN.*`kk`.*; nothing was published$"),
        ("SELECT kk FROM output", r"check mine cannot be evaluated: \[UNRESOLVED_COLUMN.*`kk`"),
        ("1 / (k - k) > 0", r"the checks cannot be evaluated: (.|\n)*DIVIDE_BY_ZERO"),
    ],
)
def test_a_check_that_cannot_be_evaluated_is_told(table: DataFrame, tmp_path: Path, sql: str, said: str) -> None:
    """It is the check's mistake: the data is where it can be looked at, and nothing is published."""
    produced = Produces.model_validate({"assetId": "out", "checks": [{"sql": sql, "name": "mine"}]})
    directory = "out/data/x"
    with pytest.raises(CheckError, match=said) as caught:
        write(table, Staging("out", "step", LocalStorage(tmp_path), directory, produced))
    assert caught.value.staged == directory
    assert (tmp_path / directory).exists()


def test_what_is_observed_is_stored_in_short(spark: SparkSession) -> None:
    """Rows may hold anything: long texts, many columns, and what the database cannot store."""
    wide = ", ".join(f"repeat('x', 10000) AS c{n}" for n in range(30))
    check = Check.model_validate({"sql": f"SELECT concat('a', char(0)) AS a, {wide} FROM output"})
    table = spark.range(1).toDF("k")
    (result,) = run_checks(table, table, 1, [check])
    told = result.as_json()
    assert len(told["observed"]) == 10
    assert told["observed"]["a"] == "a\ufffd"
    assert len(json.dumps(told)) < 5_000


def test_the_examples_of_the_page_hold(spark: SparkSession) -> None:
    """docs/checks.md: each example of the table is true of the rows on the page."""
    head, *lines = CHECKS.blocks("csv")[0].splitlines()
    values = ", ".join("({}, '{}', {}, timestamp '{}')".format(*line.split(",")) for line in lines)
    table = spark.sql(f"SELECT * FROM VALUES {values} AS t({head})")
    examples = [document.parse(code(cell), "x.yaml")[0].data for cell, _ in CHECKS.table("Every check")]
    results = run_checks(table, table, len(lines), [Check.model_validate(one) for one in examples])
    assert [result.violation for result in results if not result.passed] == []


def test_what_is_wrong_with_added_rows_is_told_of_those(spark: SparkSession) -> None:
    """Rows that were there are not looked at again, and not counted either; of the table, all of it is."""
    whole = spark.range(5).selectExpr("id AS k")
    texts = [{"sql": "k < 3"}, {"range": {"column": "k", "max": 3}}, {"maxRows": 4}, {"sql": "count(*) < 5"}]
    checks = [Check.model_validate(one) for one in texts]
    results = run_checks(whole.where("k > 2"), whole, 5, checks, wrote=2)
    assert [result.violation for result in results] == [
        "`k < 3` does not hold for 2 of 2 rows",
        "column 'k' has 1 of 2 values out of range: it goes from 3 to 4; allowed is to 3",
        "the table has 5 rows; allowed are 4 or fewer",
        "`count(*) < 5` does not hold for the table of 5 rows",
    ]
