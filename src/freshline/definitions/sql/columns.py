"""The columns that a parsed query returns and that no Delta table can have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from freshline.model.column_names import SHOWN, is_storable

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

MOST_SHOWN = 60
# They name their columns themselves.
_GENERATORS = frozenset(
    {
        "explode",
        "explode_outer",
        "inline",
        "inline_outer",
        "json_tuple",
        "posexplode",
        "posexplode_outer",
        "stack",
        "variant_explode",
        "variant_explode_outer",
    }
)


def unstorable_columns(statement: Expr) -> Iterator[tuple[str, int | None]]:
    """Yield what is wrong with a column of a query, and its line. Columns of `*` are not known."""
    from sqlglot import exp  # noqa: PLC0415 - it takes 0.5 s, which commands without definitions should not pay

    for one in getattr(statement, "selects", ()):
        column = one.unnest()
        if isinstance(column, exp.Alias):
            if not is_storable(column.alias):
                yield f"the name of column {column.alias!r} has one of the characters {SHOWN}", _line(column)
        elif _is_computed(column):
            text = column.sql(dialect="databricks").replace("WIND0W", "WINDOW")
            shown = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
            yield f"the column {shown} has no name that a table can have; write `{shown} AS name`", _line(column)


def _is_computed(column: Expr) -> bool:
    """Return whether Spark names a column by its expression, with parentheses or spaces."""
    from sqlglot import exp  # noqa: PLC0415 - as above

    if isinstance(column, exp.JSONExtract | exp.Dot | exp.Interval):
        return False
    if isinstance(column, exp.Explode | exp.Posexplode | exp.Inline):
        return False
    if isinstance(column, exp.Anonymous):
        return str(column.this).lower() not in _GENERATORS
    if isinstance(column, exp.Neg):
        return not isinstance(column.this, exp.Literal)
    if isinstance(column, exp.Func) and column.sql_name().lower() in _GENERATORS:
        return False
    return isinstance(column, exp.Func | exp.Binary | exp.Window | exp.Not | exp.Predicate)


def _line(column: Expr) -> int | None:
    found = (one.meta.get("line") for one in column.walk())
    return next((int(line) for line in found if line is not None), None)
