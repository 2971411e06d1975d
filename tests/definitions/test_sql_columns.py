"""Columns of a query that no Delta table can have are refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from freshline.definitions.sql.columns import unstorable_columns
from freshline.definitions.sql.lint import parsed
from tests.definitions.projects import loaded, mistakes

FINE = (
    "SELECT a, t.b, c.d, `e`, * FROM t",
    "SELECT sum(a) AS total, count(*) n FROM t",
    "SELECT 1, -1, 'x', NULL, true FROM t",
    "SELECT a[0], (b) FROM t",
    "SELECT explode(a) FROM t",
    "SELECT posexplode_outer(a) FROM t",
    "SELECT stack(2, a, b) FROM t",
    "SELECT inline(a) FROM t",
    "SELECT json_tuple(a, 'b') FROM t",
    "SELECT :partition_key FROM t",
    "WITH q AS (SELECT count(*) FROM t) SELECT 1 FROM q",
    "SELECT n FROM (SELECT count(*) AS n FROM t WHERE sum(b) > 1)",
    "VALUES (1, 2)",
)
REFUSED = (
    ("SELECT sum(l_quantity) FROM t", "SUM(l_quantity)"),
    ("SELECT day, count(*) FROM t GROUP BY day", "COUNT(*)"),
    ("SELECT a + b FROM t", "a + b"),
    ("SELECT -a FROM t", "-a"),
    ("SELECT CAST(a AS INT) FROM t", "CAST(a AS INT)"),
    ("SELECT CASE WHEN a THEN 1 END FROM t", "CASE WHEN a THEN 1 END"),
    ("SELECT max(a) OVER (PARTITION BY b) FROM t", "MAX(a) OVER (PARTITION BY b)"),
    ("SELECT current_date FROM t", "CURRENT_DATE"),
    ("SELECT my_function(a) FROM t", "MY_FUNCTION(a)"),
    ("SELECT window(a, '1 hour') FROM t", "WINDOW(a, '1 hour')"),
    ("SELECT count(*) FROM t UNION ALL SELECT 1", "COUNT(*)"),
    ("SELECT a AS `the a` FROM t", "'the a'"),
)


def found(query: str) -> list[str]:
    """Return what is wrong with the columns of a query."""
    return [text for text, _ in unstorable_columns(parsed(query)[0])]


@pytest.mark.parametrize("query", FINE)
def test_columns_that_have_names(query: str) -> None:
    """Columns, aliases, literals, and functions that return several named columns."""
    assert found(query) == []


@pytest.mark.parametrize(("query", "named"), REFUSED)
def test_columns_that_a_table_cannot_have(query: str, named: str) -> None:
    """Spark names them by their expression, with parentheses or spaces."""
    (text,) = found(query)
    assert named in text


def test_the_mistake_has_a_place_and_a_remedy(tmp_path: Path) -> None:
    """In YAML and in a file; with the comment `unchecked` Spark decides."""
    files = {
        "sources/s.yaml": "assetId: s\n",
        "workflows/w.yaml": """
            slug: w
            steps:
              - id: x
                job: {kind: spark.sql, sqlFile: w.sql}
                consumes: [{assetId: s}]
                produces: [{assetId: o}]
            """,
        "workflows/w.sql": "SELECT a,\n  sum(b)\nFROM s GROUP BY a\n",
    }
    assert mistakes(tmp_path, files) == [
        "workflows/w.sql:2: step 'x': the column SUM(b) has no name that a table can have; write `SUM(b) AS name`"
    ]
    assert loaded(tmp_path, {**files, "workflows/w.sql": "SELECT sum(b) FROM s -- unchecked\n"}).workflows
