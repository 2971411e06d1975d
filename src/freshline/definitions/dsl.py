"""The small words of Python definitions: `freshness=ttl(hours=1)`, `auto=on_upstream_update(priority=5)`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar

from pydantic import ValidationError

from freshline.definitions.schema.base import Model
from freshline.definitions.schema.workflow import AutoMaterialize, Check, Freshness
from freshline.definitions.validation.problems import explain
from freshline.errors import DefinitionError

Block = TypeVar("Block", bound=Model)
Severity = str


def ttl(
    *,
    weeks: float = 0,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
    max_age: str | None = None,
) -> Freshness:
    """Fresh for so long after it was produced."""
    length = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return _block(Freshness, ttlMs=_milliseconds(length), maxAge=max_age)


def cadence(
    *,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
    offset: str | None = None,
    max_age: str | None = None,
) -> Freshness:
    """Fresh until the next point of a fixed grid, shifted by `offset`."""
    length = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    return _block(Freshness, cadenceMs=_milliseconds(length), offset=offset, maxAge=max_age)


def cron(expression: str, *, timezone: str | None = None, max_age: str | None = None) -> Freshness:
    """Fresh until the next time that a cron expression names."""
    return _block(Freshness, cron=expression, timezone=timezone, maxAge=max_age)


def max_age(duration: str) -> Freshness:
    """Alert when it is older; run nothing."""
    return _block(Freshness, maxAge=duration)


def on_upstream_update(**policy: Any) -> AutoMaterialize:
    """Run when an input changes. Other fields of `autoMaterialize` in snake case: `priority=5`, `debounce="10s"`."""
    return automatic(on_upstream_update=True, **policy)


def automatic(**policy: Any) -> AutoMaterialize:
    """Run when it is missing or expired. Fields of `autoMaterialize` in snake case: `priority=5`, `when="all"`."""
    return _block(AutoMaterialize, **{_camel(name): value for name, value in policy.items()})


def not_null(*columns: str, severity: Severity | None = None) -> Check:
    """No nulls in these columns."""
    return _block(Check, notNull=columns, severity=severity)


def unique(*columns: str, severity: Severity | None = None) -> Check:
    """No two rows agree in all these columns."""
    return _block(Check, unique=columns, severity=severity)


def min_rows(count: int, *, severity: Severity | None = None) -> Check:
    """At least so many rows."""
    return _block(Check, minRows=count, severity=severity)


def max_rows(count: int, *, severity: Severity | None = None) -> Check:
    """At most so many rows."""
    return _block(Check, maxRows=count, severity=severity)


def accepted(column: str, *values: float | str | bool, severity: Severity | None = None) -> Check:
    """Only these values in a column."""
    return _block(Check, accepted={"column": column, "values": values}, severity=severity)


def between(
    column: str, low: float | str | None, high: float | str | None, *, severity: Severity | None = None
) -> Check:
    """Only values from `low` to `high` in a column; None leaves a side open."""
    return _block(Check, range={"column": column, "min": low, "max": high}, severity=severity)


def holds(sql: str, *, severity: Severity | None = None) -> Check:
    """A SQL expression that must hold, or a query on the view `output` that must return no row."""
    return _block(Check, sql=sql, severity=severity)


def fresh_rows(column: str, max_age: str, *, severity: Severity | None = None) -> Check:
    """The newest value of a timestamp or date column is at most this old."""
    return _block(Check, freshRows={"column": column, "maxAge": max_age}, severity=severity)


def _block(model: type[Block], **fields: Any) -> Block:
    data = {name: value for name, value in fields.items() if value is not None}
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise DefinitionError(explain(model, error, data)[0].message) from None


def _milliseconds(length: timedelta) -> int:
    return length // timedelta(milliseconds=1)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
