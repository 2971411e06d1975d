"""The columns that a step on Spark reads of its inputs (docs/semantics.md#R1.6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from freshline.definitions.schema.workflow import Query, SparkSql, Step
from freshline.definitions.sql.lint import SqlError, parsed
from freshline.definitions.sql.relations import relations
from freshline.definitions.steps import view_name
from freshline.model.column_sets import column_set

if TYPE_CHECKING:
    from freshline.spark.engine import Engine

Columns = Mapping[str, frozenset[str]]


def columns_read(
    step: Step, engine: Engine, queries: Mapping[str, Query], tables: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return the columns that the queries of a step read, by input. An input that is not in it is read as a whole.

    Whole rows are read by a step whose output depends on how often it runs, and of inputs that no query names: they
    are consumed for their changes.
    """
    if not isinstance(step.job, SparkSql) or _depends_on_runs(step) or _checks_read_inputs(step):
        return {}
    known = engine.view_columns()
    read = _together(engine.columns_of(query.text, tables[asset_id]) for asset_id, query in queries.items()) or {}
    found: dict[str, set[str]] = {}
    whole = set[str]()
    for item in step.consumes:
        view = view_name(item).lower()
        columns = read.get(view) if item.rows == "all" else None
        if columns is None or len(columns) == len(known[view]):
            whole.add(item.asset_id)
        else:
            found.setdefault(item.asset_id, set()).update(columns)
    return {asset_id: list(column_set(columns)) for asset_id, columns in found.items() if asset_id not in whole}


def _together(found: Iterable[Columns | None]) -> dict[str, frozenset[str]] | None:
    """Return the union of what several queries read, by view; None if one of them reads whole rows."""
    together: dict[str, frozenset[str]] = {}
    for one in found:
        if one is None:
            return None
        for view, columns in one.items():
            together[view] = together.get(view, frozenset()) | columns
    return together


def _depends_on_runs(step: Step) -> bool:
    """Return whether each run adds to what was there."""
    own = {one.asset_id for one in step.produces}
    appends = any(one.table is not None and one.table.mode == "append" for one in step.produces)
    return appends or any(item.asset_id in own for item in step.consumes)


def _checks_read_inputs(step: Step) -> bool:
    """Return whether a check may read an input: it could fail for a column that no query reads."""
    return any(_reads(text, step) for text in _check_queries(step))


def _check_queries(step: Step) -> Iterator[str]:
    for produced in step.produces:
        for check in produced.checks:
            if check.sql is not None:
                yield check.sql if check.is_query else f"SELECT {check.sql}"


def _reads(text: str, step: Step) -> bool:
    views = {view_name(item).lower() for item in step.consumes}
    try:
        statements = parsed(text)
    except SqlError:
        return True
    return not statements or any(one.qualified or one.name.lower() in views for one in relations(statements))
