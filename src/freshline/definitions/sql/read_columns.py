"""The columns that a query reads of each view: those that it mentions anywhere (docs/semantics.md#R1.6).

What is not known to depend only on the mentioned columns reads whole rows: `*`, functions that are not listed here,
such as those that are not deterministic or depend on the order of rows, and names that cannot be resolved.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot.expressions import Expr
    from sqlglot.optimizer.scope import Scope

DIALECT = "databricks"
_CLAUSES = """
    Select From Where Group Having Join Subquery With CTE TableAlias Alias Column Identifier Table Order Ordered
    Distinct Union Except Intersect Star Window WindowSpec Exists In Between Paren Tuple Case If Literal Boolean Null
    Placeholder Parameter Var DataType DataTypeParam Interval Dot
"""
_OPERATORS = """
    And Or Not Is EQ NEQ NullSafeEQ NullSafeNEQ GT GTE LT LTE Add Sub Mul Div IntDiv Mod Neg Like ILike Escape
    BitwiseAnd BitwiseOr BitwiseXor BitwiseNot DPipe
"""
_FUNCTIONS = """
    Count CountIf Sum Min Max Avg LogicalAnd LogicalOr Rank DenseRank Cast TryCast Coalesce Nullif Nvl2 Abs Ceil Floor
    Round Sign Sqrt Pow Exp Ln Greatest Least Length Lower Upper Trim Substring Concat ConcatWs Replace StartsWith
    EndsWith Contains RegexpLike Year Month Day DayOfMonth Quarter Hour Minute Second Extract DateAdd DateSub DateDiff
    DateTrunc TimestampTrunc LastDay TsOrDsToDate TsOrDsAdd TsOrDsDiff MD5 SHA2
"""
_SPECIAL = re.compile("now|today|tomorrow|yesterday", re.IGNORECASE)
_KNOWN = frozenset(f"{_CLAUSES} {_OPERATORS} {_FUNCTIONS}".split())
Columns = Mapping[str, Collection[str]]


def read_columns(statement: Expr, schemas: Columns) -> dict[str, frozenset[str]] | None:
    """Return the columns that a query reads of each view, both in lower case. None: it reads whole rows.

    `schemas`: the columns of each view. A view that the query does not name is not in the result.
    """
    from sqlglot import exp  # noqa: PLC0415 - it takes 0.5 s, which commands without definitions should not pay
    from sqlglot.errors import SqlglotError  # noqa: PLC0415

    lower = {view.lower(): {name.lower() for name in names} for view, names in schemas.items()}
    ambiguous = any(len(lower[view.lower()]) < len(names) for view, names in schemas.items())
    if ambiguous or not isinstance(statement, exp.Query) or not all(map(_is_known, statement.walk())):
        return None
    try:
        return _resolved(statement.copy(), lower)
    except (SqlglotError, RecursionError):
        return None


def _is_known(node: Expr) -> bool:
    """Return whether a part of a query depends on nothing but the columns that it mentions."""
    from sqlglot import exp  # noqa: PLC0415

    if type(node).__name__ not in _KNOWN:
        return False
    match node:
        case exp.Star():
            return isinstance(node.parent, exp.Count)
        case exp.Table():  # not a path, a function or a table outside of the step; no sample and no time travel
            given = {name for name, value in node.args.items() if value} - {"this", "alias", "joins", "laterals"}
            return isinstance(node.this, exp.Identifier) and not given
        case exp.Join():  # columns in common are found in the schemas
            return not node.args.get("using") and not node.method
        case exp.WindowSpec():
            return node.args.get("kind") != "ROWS"  # of equal rows, some are in the frame
        case exp.Select():
            return not any(node.args.get(name) for name in ("limit", "offset", "distinct_on", "sample", "kind"))
        case exp.Cast():  # date'today' is another day at each run
            return not (isinstance(node.this, exp.Literal) and _SPECIAL.search(str(node.this.this)))
        case exp.Group():
            return not any(node.args.get(name) for name in ("cube", "rollup", "grouping_sets", "all"))
    return True


def _resolved(statement: Expr, schemas: Mapping[str, Collection[str]]) -> dict[str, frozenset[str]] | None:
    from sqlglot import exp  # noqa: PLC0415
    from sqlglot.optimizer.qualify import qualify  # noqa: PLC0415
    from sqlglot.optimizer.scope import traverse_scope  # noqa: PLC0415

    typed: dict[str, object] = {view: dict.fromkeys(names, "unknown") for view, names in schemas.items()}
    qualified = qualify(statement, dialect=DIALECT, schema=typed, expand_stars=False, quote_identifiers=False)
    found: dict[str, set[str]] = {}
    for scope in traverse_scope(qualified):
        for table in scope.sources.values():
            if isinstance(table, exp.Table):
                found.setdefault(table.name.lower(), set())
        for column in scope.columns:
            source = _source(scope, column.table)
            if source is None:
                return None
            if isinstance(source, exp.Table):
                found.setdefault(source.name.lower(), set()).add(column.name.lower())
    complete = found.keys() <= schemas.keys() and all(names <= set(schemas[view]) for view, names in found.items())
    return {view: frozenset(names) for view, names in found.items()} if complete else None


def _source(scope: Scope, table: str) -> object | None:
    """Return what a table's name means in a scope: that of the scope itself, or of one around it."""
    return next((one.sources[table] for one in _around(scope) if table in one.sources), None)


def _around(scope: Scope | None) -> Iterator[Scope]:
    while scope is not None:
        yield scope
        scope = scope.parent
