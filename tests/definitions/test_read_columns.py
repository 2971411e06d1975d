"""The columns that a query reads of each view, from its text and the columns of the views."""

from __future__ import annotations

from typing import Any

import pytest

from freshline.definitions.sql.lint import parsed
from freshline.definitions.sql.read_columns import read_columns

SCHEMAS = {"t": ["id", "b c", "C", "st"], "u": ["id", "c"]}
READ: tuple[tuple[str, dict[str, set[str]]], ...] = (
    ("SELECT id, sum(`b c`) AS x FROM t GROUP BY 1", {"t": {"id", "b c"}}),
    ("SELECT t.id FROM t JOIN u ON t.id = u.id", {"t": {"id"}, "u": {"id"}}),
    ("SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.c = t.c)", {"t": {"id", "c"}, "u": {"c"}}),
    ("SELECT id FROM t WHERE id IN (SELECT id FROM u WHERE c > t.c)", {"t": {"id", "c"}, "u": {"id", "c"}}),
    ("WITH q AS (SELECT id, c FROM t) SELECT id FROM q", {"t": {"id", "c"}}),
    ("WITH t AS (SELECT id FROM u) SELECT id FROM t", {"u": {"id"}}),
    ("SELECT ID FROM T WHERE c = :p", {"t": {"id", "c"}}),
    ("SELECT count(*) AS n FROM t", {"t": set()}),
    ("SELECT t.st.x FROM t", {"t": {"st"}}),
    ("SELECT id FROM t UNION SELECT id FROM u", {"t": {"id"}, "u": {"id"}}),
    ("SELECT a.id FROM t a, t b WHERE a.id = b.`b c`", {"t": {"id", "b c"}}),
    ("SELECT max(id) OVER (PARTITION BY c) AS m FROM t ORDER BY `b c`", {"t": {"id", "c", "b c"}}),
    ("SELECT (SELECT max(id) FROM u) AS m FROM t", {"t": set(), "u": {"id"}}),
)
WHOLE = (
    "SELECT * FROM t",
    "SELECT t.* FROM t",
    "SELECT * EXCEPT (id) FROM t",
    "SELECT count(t.*) AS n FROM t",
    "SELECT struct(*) AS s FROM t",
    "SELECT id FROM t JOIN u USING (id)",
    "SELECT id FROM t NATURAL JOIN u",
    "SELECT c FROM t JOIN u ON t.id = u.id",  # ambiguous
    "SELECT id, rand() AS r FROM t",
    "SELECT id, uuid() AS r FROM t",
    "SELECT id, current_date AS d FROM t",
    "SELECT id, current_timestamp() AS d FROM t",
    "SELECT id, now() AS d FROM t",
    "SELECT id, date'today' AS d FROM t",
    "SELECT id, timestamp'now' AS d FROM t",
    "SELECT id, input_file_name() AS f FROM t",
    "SELECT id, _metadata.file_name AS f FROM t",
    "SELECT id, monotonically_increasing_id() AS i FROM t",
    "SELECT id, my_function(id) AS i FROM t",
    "SELECT first(id) AS f FROM t",
    "SELECT collect_list(id) AS f FROM t",
    "SELECT row_number() OVER (ORDER BY id) AS n FROM t",
    "SELECT sum(id) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS n FROM t",
    "SELECT id FROM t LIMIT 5",
    "SELECT id FROM t TABLESAMPLE (10 PERCENT)",
    "SELECT id FROM t LATERAL VIEW explode(array(c)) z AS e",
    "SELECT c, count(DISTINCT id) AS n FROM t GROUP BY ALL",
    "SELECT id FROM other",
    "SELECT id FROM parquet.`/some/path`",
    "SELECT unknown FROM t",
    "VALUES (1)",
)


@pytest.mark.parametrize(("query", "columns"), READ)
def test_mentioned_columns_are_read(query: str, columns: Any) -> None:
    """Wherever they are mentioned; `count(*)` reads none."""
    assert read_columns(parsed(query)[0], SCHEMAS) == columns


@pytest.mark.parametrize("query", WHOLE)
def test_what_may_depend_on_more_reads_whole_rows(query: str) -> None:
    """Stars, functions that are not known, the order of rows, and names that cannot be resolved."""
    assert read_columns(parsed(query)[0], SCHEMAS) is None


def test_columns_that_differ_only_in_case_are_not_told_apart() -> None:
    """A table that has both is read as a whole."""
    assert read_columns(parsed("SELECT a FROM t")[0], {"t": ["a", "A"]}) is None
