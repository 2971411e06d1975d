"""Values for the arguments of `@asset`: `freshness=ttl(hours=1)`, `auto=on_upstream_update(priority=5)`."""

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
    latest: int | None = None,
) -> Freshness:
    """Expire this long after production. `latest`: of how many partitions, from the newest on; default 1."""
    length = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return validated(Freshness, ttlMs=_milliseconds(length), maxAge=max_age, partitions=_latest(latest))


def cadence(
    *,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
    offset: str | None = None,
    max_age: str | None = None,
    latest: int | None = None,
) -> Freshness:
    """Expire at the next point of a fixed grid, shifted by `offset`. `latest`: of how many partitions; default 1."""
    length = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    partitions = _latest(latest)
    return validated(Freshness, cadenceMs=_milliseconds(length), offset=offset, maxAge=max_age, partitions=partitions)


def cron(
    expression: str, *, timezone: str | None = None, max_age: str | None = None, latest: int | None = None
) -> Freshness:
    """Expire at the next time of a cron expression. `latest`: of how many partitions; default 1."""
    return validated(Freshness, cron=expression, timezone=timezone, maxAge=max_age, partitions=_latest(latest))


def max_age(duration: str, *, latest: int | None = None) -> Freshness:
    """Alert when the asset is older. This never causes a run. `latest`: of how many partitions; default 1."""
    return validated(Freshness, maxAge=duration, partitions=_latest(latest))


def on_upstream_update(**policy: Any) -> AutoMaterialize:
    """Run when an input changes. `policy`: other fields of `autoMaterialize` in snake case: `priority=5`."""
    return automatic(on_upstream_update=True, **policy)


def automatic(**policy: Any) -> AutoMaterialize:
    """Run when the asset is missing or expired. `policy`: fields of `autoMaterialize` in snake case: `when="all"`."""
    return validated(AutoMaterialize, **{_camel(name): value for name, value in policy.items()})


def not_null(*columns: str, severity: Severity | None = None) -> Check:
    """Check that these columns have no nulls."""
    return validated(Check, notNull=columns, severity=severity)


def unique(*columns: str, severity: Severity | None = None) -> Check:
    """Check that no two rows have equal values in all these columns."""
    return validated(Check, unique=columns, severity=severity)


def min_rows(count: int, *, severity: Severity | None = None) -> Check:
    """Check that there are at least `count` rows."""
    return validated(Check, minRows=count, severity=severity)


def max_rows(count: int, *, severity: Severity | None = None) -> Check:
    """Check that there are at most `count` rows."""
    return validated(Check, maxRows=count, severity=severity)


def accepted(column: str, *values: float | str | bool, severity: Severity | None = None) -> Check:
    """Check that a column has only these values."""
    return validated(Check, accepted={"column": column, "values": values}, severity=severity)


def between(
    column: str, low: float | str | None, high: float | str | None, *, severity: Severity | None = None
) -> Check:
    """Check that a column has only values from `low` to `high`. None: no limit."""
    return validated(Check, range={"column": column, "min": low, "max": high}, severity=severity)


def holds(sql: str, *, severity: Severity | None = None) -> Check:
    """Check that a SQL expression is true, or that a query on the view `output` returns no row."""
    return validated(Check, sql=sql, severity=severity)


def fresh_rows(column: str, max_age: str, *, severity: Severity | None = None) -> Check:
    """Check that the newest value of a timestamp or date column is at most this old."""
    return validated(Check, freshRows={"column": column, "maxAge": max_age}, severity=severity)


def validated(model: type[Block], **fields: Any) -> Block:
    """Return the block of a definition. Raise `DefinitionError`, which gets the line of the caller's file."""
    data = {name: value for name, value in fields.items() if value is not None}
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise DefinitionError(explain(model, error, data)[0].message) from None


def _latest(count: int | None) -> dict[str, int] | None:
    return None if count is None else {"latest": count}


def _milliseconds(length: timedelta) -> int:
    return length // timedelta(milliseconds=1)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
