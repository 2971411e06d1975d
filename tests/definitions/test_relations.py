"""Which tables a query reads: a forgotten `consumes` is an error, and nothing else is taken for one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from freshline.definitions.sql.lint import parsed
from freshline.definitions.sql.relations import relations
from tests.definitions.projects import loaded, mistakes

SOURCES = {"sources/s.yaml": "[{assetId: s}, {assetId: t}, {assetId: sales.daily}]"}

# What each query reads from outside, as Spark sees it: qualified names have a dot.
READS = {
    "SELECT * FROM s": "s",
    "SELECT * FROM s, t": "s t",
    "SELECT * FROM s JOIN t USING (a)": "s t",
    "SELECT * FROM (s JOIN t USING (a))": "s t",
    "SELECT * FROM S": "S",
    "SELECT * FROM `s`": "s",
    "FROM s SELECT a": "s",
    "FROM s, t SELECT *": "s t",
    "FROM s |> WHERE a > 1 |> SELECT a |> AGGREGATE count(*) GROUP BY a": "s",
    "TABLE s": "s",
    "(TABLE s)": "s",
    "VALUES (1), (2)": "",
    "SELECT 1": "",
    "SELECT table AS s FROM t": "t",
    "SELECT * FROM VALUES (1), (2) AS s(a)": "",
    "SELECT * FROM range(10) AS s": "",
    "SELECT * FROM s AS x, x.items": "s x.items",
    "SELECT * FROM explode(array(1, 2)) AS s": "",
    "SELECT * FROM f(TABLE(s))": "s",
    "SELECT * FROM f(t => TABLE(s), n => 3)": "s",
    "SELECT * FROM f(TABLE(SELECT * FROM s))": "s",
    "SELECT * FROM IDENTIFIER(:name)": "",
    "SELECT * FROM s LATERAL VIEW explode(items) x AS item": "s",
    "SELECT * FROM s LATERAL VIEW OUTER explode(items) x LATERAL VIEW posexplode(more) y AS p, q": "s",
    "SELECT * FROM s, LATERAL (SELECT * FROM t WHERE t.a = s.a) AS x": "s t",
    "SELECT * FROM s, LATERAL explode(s.items) AS x(item)": "s",
    "SELECT a FROM s WHERE a IN (SELECT b FROM t)": "s t",
    "SELECT a FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.a = s.a)": "s t",
    "SELECT (SELECT max(a) FROM t) AS m FROM s": "s t",
    "SELECT * FROM (SELECT * FROM s) AS t": "s",
    "SELECT t.a FROM s AS t": "s",
    "SELECT /*+ BROADCAST(t) */ * FROM s AS t": "s",
    "SELECT /*+ MERGE(s, u), REPARTITION(3) */ * FROM s JOIN t AS u": "s t",
    "SELECT a FROM s UNION ALL SELECT a FROM t": "s t",
    "(SELECT a FROM s) EXCEPT (SELECT a FROM t)": "s t",
    "SELECT * FROM s TABLESAMPLE (10 PERCENT)": "s",
    "SELECT * FROM s PIVOT (sum(a) FOR b IN ('x', 'y'))": "s",
    "SELECT * FROM s UNPIVOT (v FOR k IN (a, b))": "s",
    "SELECT * FROM s SEMI JOIN t ON s.a = t.a": "s t",
    "SELECT a, sum(b) OVER w FROM s WINDOW w AS (PARTITION BY a)": "s",
    "SELECT window(ts, '1 hour').start FROM s GROUP BY window(ts, '1 hour')": "s",
    "SELECT transform(items, x -> x + 1) FROM s": "s",
    "SELECT s.a.b.c, s.items[0] FROM s": "s",
    "SELECT 'FROM t' AS a, \"FROM t\" AS b FROM s -- FROM t": "s",
    "SELECT * FROM parquet.`/data/x`": "parquet./data/x",
    "SELECT * FROM json.`y` JOIN s": "json.y s",
    "SELECT * FROM db.t": "db.t",
    "SELECT * FROM cat.db.t": "cat.db.t",
    "SELECT * FROM db.t AS s": "db.t",
    # CTEs: a name hides a view where it can be seen, and nowhere else.
    "WITH t AS (SELECT * FROM s) SELECT * FROM t": "s",
    "WITH T AS (SELECT * FROM s) SELECT * FROM t": "s",
    "WITH s AS (SELECT * FROM s WHERE a > 0) SELECT * FROM s": "s",
    "WITH t AS (SELECT 1), u AS (SELECT * FROM t) SELECT * FROM u": "",
    "WITH u AS (SELECT * FROM t), t AS (SELECT 1) SELECT * FROM u, t": "t",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 9) SELECT * FROM t": "",
    "SELECT * FROM (WITH t AS (SELECT * FROM s) SELECT * FROM t)": "s",
    "SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t) AS x JOIN t": "t",
    "WITH x AS (WITH t AS (SELECT * FROM s) SELECT * FROM t) SELECT * FROM x JOIN t": "s t",
    "WITH t AS (SELECT 1) SELECT * FROM s WHERE a IN (SELECT * FROM t)": "s",
    "WITH t AS (SELECT 1) (SELECT * FROM t UNION SELECT * FROM s)": "s",
    "WITH t AS (SELECT 1) SELECT * FROM t UNION ALL SELECT * FROM t": "",
    "WITH t AS (SELECT 1) FROM t SELECT *": "",
    "WITH t (a, b) AS (SELECT 1, 2) SELECT * FROM t": "",
    "WITH q AS (TABLE s) SELECT * FROM q": "s",
    "WITH t AS (SELECT 1) SELECT * FROM db.t": "db.t",
    "WITH t AS (VALUES (1)) SELECT * FROM f(TABLE(t))": "",
}  # fmt: skip


@pytest.mark.parametrize(("sql", "expected"), READS.items())
def test_what_a_query_reads(sql: str, expected: str) -> None:
    """Neither a table of the query's own is taken for a view, nor is a view overlooked."""
    found = {one.name for one in relations(parsed(sql))}
    assert found == set(expected.split())


def project(sql: str | dict[str, str], *consumes: str, **produces: Any) -> dict[str, str]:
    """One SQL step with these inputs."""
    job = {"kind": "spark.sql", **({"sql": sql} if isinstance(sql, str) else {"outputs": sql})}
    assets = ["out"] if isinstance(sql, str) else list(sql)
    step = {
        "id": "x",
        "job": job,
        "consumes": [{"assetId": asset} for asset in consumes],
        "produces": [{"assetId": asset, **produces} for asset in assets],
    }
    return {**SOURCES, "workflows/a.json": json.dumps({"slug": "a", "steps": [step]})}


def test_a_forgotten_input_is_an_error(tmp_path: Path) -> None:
    """A run would fail, and before that its changes would be lost: the known asset to add is named."""
    assert mistakes(tmp_path, project("SELECT * FROM s JOIN sales_DAILY JOIN t", "s")) == [
        (
            "workflows/a.json:1: step 'x': the SQL reads 'sales_DAILY', which the step does not consume; "
            "add {assetId: sales.daily} to 'consumes'"
        ),
        (
            "workflows/a.json:1: step 'x': the SQL reads 't', which the step does not consume; "
            "add {assetId: t} to 'consumes'"
        ),
    ]


def test_an_unknown_table_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    """The nearest view of the step is offered, and what to write if Spark's catalogue is meant."""
    known = "A table of Spark's own catalogue needs its schema's name or the comment '-- unchecked'"
    assert mistakes(tmp_path, project("SELECT * FROM sales_dialy JOIN elsewhere", "sales.daily")) == [
        (
            "workflows/a.json:1: step 'x': the SQL reads 'sales_dialy', which the step does not consume; "
            f"did you mean 'sales_daily'? {known}"
        ),
        (
            "workflows/a.json:1: step 'x': the SQL reads 'elsewhere', which the step does not consume; "
            f"add its asset to 'consumes'. {known}"
        ),
    ]
    assert loaded(tmp_path, project("SELECT * FROM elsewhere -- unchecked", "s")).warnings == ()


def test_what_another_output_of_the_step_makes_is_no_table(tmp_path: Path) -> None:
    """Queries of one step do not see each other's results; two steps do."""
    (only,) = mistakes(tmp_path, project({"one": "SELECT * FROM s", "two": "SELECT * FROM one"}, "s"))
    assert "the SQL reads 'one', which the step does not consume; add {assetId: one} to 'consumes'" in only


def test_a_qualified_name_is_left_to_spark(tmp_path: Path) -> None:
    """Files and tables of the catalogue are not ours; one that is called like an asset is a likely mistake."""
    assert loaded(tmp_path, project("SELECT * FROM s JOIN db.t JOIN parquet.`/x`", "s")).warnings == ()
    assert loaded(tmp_path, project("SELECT * FROM s JOIN sales.daily", "s")).warnings == (
        (
            "workflows/a.json:1: step 'x': the SQL reads 'sales.daily' from Spark's catalogue; "
            "the asset is read as 'sales_daily'"
        ),
    )


def test_an_input_that_no_query_reads_is_warned_about(tmp_path: Path) -> None:
    """Each change of the input causes an unnecessary run. A query that cannot be parsed may read it."""
    assert loaded(tmp_path, project({"one": "SELECT * FROM s", "two": "SELECT 1 AS a"}, "s", "t")).warnings == (
        (
            "workflows/a.json:1: asset 't': is consumed, but no query of the step reads it; "
            "its changes cause runs that change nothing"
        ),
    )
    assert loaded(tmp_path, project("SELECT * FROM s -- unchecked", "s", "t")).warnings == ()
    read = [{"sql": "SELECT * FROM output ANTI JOIN t USING (a)"}]
    assert loaded(tmp_path, project("SELECT * FROM s", "s", "t", checks=read)).warnings == ()


def test_a_check_reads_the_output_and_the_inputs(tmp_path: Path) -> None:
    """Nothing else is there when it runs; in an expression too."""
    good = [{"sql": "SELECT * FROM output JOIN s"}, {"sql": "WITH q AS (FROM output SELECT *) SELECT * FROM q"}]
    assert loaded(tmp_path, project("SELECT * FROM s", "s", checks=good)).warnings == ()
    (only,) = mistakes(tmp_path, project("SELECT * FROM s", "s", checks=[{"sql": "SELECT * FROM outputs"}]))
    assert "asset 'out': the SQL reads 'outputs', which the step does not consume; did you mean 'output'?" in only


def test_python_code_may_have_made_the_views_of_its_checks(tmp_path: Path) -> None:
    """There a foreign table is a warning, and all inputs count as read."""
    text = """
        slug: a
        steps:
          - id: x
            job: {kind: spark.python, entrypoint: jobs:run}
            consumes: [{assetId: s}]
            produces: [{assetId: out, checks: [{sql: SELECT * FROM output JOIN mine}]}]
    """
    made = {**SOURCES, "workflows/a.yaml": text, "jobs.py": "def run(ctx):\n    return None\n"}
    (only,) = loaded(tmp_path, made).warnings
    assert "the SQL reads 'mine', which the step does not consume" in only
