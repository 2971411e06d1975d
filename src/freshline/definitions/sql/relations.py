"""The tables that a parsed query reads, with the scopes of Spark: a CTE hides a view only where it is visible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot.expressions import Expr


@dataclass(frozen=True, slots=True)
class Relation:
    """A table that a query reads. `qualified`: its name has several parts, so it is not a view of the step."""

    name: str
    line: int | None
    column: int | None
    qualified: bool = False


def relations(statements: Iterable[Expr]) -> Iterator[Relation]:
    """Yield the tables that the statements read, in no order, once per mention."""
    from sqlglot import exp  # noqa: PLC0415 - it takes 0.5 s, which commands without definitions should not pay

    for statement in statements:
        for node in statement.walk():
            if isinstance(node, exp.Table):
                yield from _of_table(node)
            elif (name := _of_keyword(node)) is not None and not _is_local(name, node):
                yield _relation(name)


def _of_table(table: Expr) -> Iterator[Relation]:
    from sqlglot import exp  # noqa: PLC0415

    parts = table.parts  # type: ignore[attr-defined]  # a Table has them
    if not isinstance(table.this, exp.Identifier) or table.find_ancestor(exp.Hint) is not None:
        return  # a table function, or a hint
    if len(parts) > 1:
        yield _relation(table.this, ".".join(part.name for part in parts))
    elif not _is_local(table.this, table):
        yield _relation(table.this)


def _of_keyword(node: Expr) -> Expr | None:
    """Return the name in `TABLE x` and `TABLE(x)`, which sqlglot parses as a column and as a function."""
    from sqlglot import exp  # noqa: PLC0415

    if isinstance(node, exp.Alias) and not isinstance(node.parent, exp.Select):
        column = node.this
        is_table = isinstance(column, exp.Column) and column.name.upper() == "TABLE" and not column.this.quoted
        return node.args["alias"] if is_table else None
    if isinstance(node, exp.Anonymous) and str(node.this).upper() == "TABLE" and len(node.expressions) == 1:
        (only,) = node.expressions
        return only.this if isinstance(only, exp.Column) and not only.table else None
    return None


def _is_local(name: Expr, node: Expr) -> bool:
    """Return whether a CTE that is visible from `node` has this name."""
    from sqlglot import exp  # noqa: PLC0415

    wanted, below = name.name.lower(), node
    while below.parent is not None:
        above = below.parent
        # Inside of WITH, only earlier CTEs are visible, and a recursive CTE itself.
        if isinstance(above, exp.With):
            at = next(i for i, cte in enumerate(above.expressions) if cte is below)
            seen = above.expressions[: at + 1] if above.args.get("recursive") else above.expressions[:at]
        elif isinstance(with_ := above.args.get("with_"), exp.With) and with_ is not below:
            seen = with_.expressions
        else:
            seen = []
        if any(cte.alias.lower() == wanted for cte in seen):
            return True
        below = above
    return False


def _relation(identifier: Expr, name: str | None = None) -> Relation:
    meta = identifier.meta
    line, column = meta.get("line"), meta.get("col")
    if column is not None:
        column -= meta.get("end", 0) - meta.get("start", 0)
    return Relation(name or identifier.name, line, column, qualified=name is not None)
