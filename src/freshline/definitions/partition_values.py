"""Values for `@asset` that are about partitions: `partitioning=daily(start="2024-01-01")`, `inputs={"x": window(…)}`.

Partitionings are values of `partitioning`. Mappings take the id of the asset that is read, and are values of `inputs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Literal, TypedDict, Unpack

from freshline.definitions.dsl import validated
from freshline.definitions.schema.partitioning import GrainName, Partitioning
from freshline.definitions.schema.workflow import Consumes
from freshline.model.json import Json

Moment = str | date


class TimeOptions(TypedDict, total=False):
    """What partitions by time may have besides their start."""

    end: Moment
    open: bool
    column: str


class ReadOptions(TypedDict, total=False):
    """What every mapping may have: how many partitions must have data, and when to go on without them."""

    require: str | int
    grace: str
    time_column: str
    on_retire: Literal["keep", "recompute"]


def minutely(start: Moment, **options: Unpack[TimeOptions]) -> Partitioning:
    """Have one partition per minute, in UTC."""
    return _by_time("minute", start, None, options)


def hourly(start: Moment, **options: Unpack[TimeOptions]) -> Partitioning:
    """Have one partition per hour, in UTC."""
    return _by_time("hour", start, None, options)


def daily(start: Moment, *, timezone: str | None = None, **options: Unpack[TimeOptions]) -> Partitioning:
    """Have one partition per day of a time zone, which is UTC by default."""
    return _by_time("day", start, timezone, options)


def weekly(start: Moment, *, timezone: str | None = None, **options: Unpack[TimeOptions]) -> Partitioning:
    """Have one partition per ISO week."""
    return _by_time("week", start, timezone, options)


def monthly(start: Moment, *, timezone: str | None = None, **options: Unpack[TimeOptions]) -> Partitioning:
    """Have one partition per month."""
    return _by_time("month", start, timezone, options)


def yearly(start: Moment, *, timezone: str | None = None, **options: Unpack[TimeOptions]) -> Partitioning:
    """Have one partition per year."""
    return _by_time("year", start, timezone, options)


def keys(*values: str, column: str | None = None) -> Partitioning:
    """Have one partition per key of a fixed list."""
    return validated(Partitioning, keys=values, column=column)


def dynamic(*, limit: int | None = None, column: str | None = None) -> Partitioning:
    """Have a partition for each key that is reported or added, or that an input mapped `same` has."""
    return validated(Partitioning, dynamic={} if limit is None else {"limit": limit}, column=column)


def dimensions(**parts: Partitioning | Mapping[str, Any]) -> Partitioning:
    """Have a partition per product of two or three partitionings: `dimensions(day=daily(…), region=keys(…))`."""
    return validated(Partitioning, dimensions={name: _plain(part) for name, part in parts.items()})


def same(asset_id: str, **options: Unpack[ReadOptions]) -> Json:
    """Read the partition with the same key."""
    return _reading(asset_id, {"same": True}, options)


def overlap(asset_id: str, *, whole: bool = False, **options: Unpack[ReadOptions]) -> Json:
    """Read the partitions that share time. `whole`: also where they do not nest."""
    return _reading(asset_id, {"overlap": "whole" if whole else True}, options)


def window(asset_id: str, first: int, last: int = 0, **options: Unpack[ReadOptions]) -> Json:
    """Read the partitions around the window, counted in partitions of the input: `window("sales.daily", -6, 0)`."""
    return _reading(asset_id, {"window": {"from": first, "to": last}}, options)


def all_partitions(asset_id: str, **options: Unpack[ReadOptions]) -> Json:
    """Read every partition."""
    return _reading(asset_id, {"all": True}, options)


def latest(asset_id: str, count: int = 1, **options: Unpack[ReadOptions]) -> Json:
    """Read the newest partitions that have data."""
    return _reading(asset_id, {"latest": count}, options)


def pick(asset_id: str, *, options: ReadOptions | None = None, **values: str | list[str]) -> Json:
    """Read chosen values of dimensions: `pick("sales", region="eu")`."""
    return _reading(asset_id, {"pick": values}, options or {})


def by_dimension(
    asset_id: str, *, options: ReadOptions | None = None, **rules: Literal["same", "overlap", "all"] | Mapping[str, Any]
) -> Json:
    """Read by a rule per dimension: `by_dimension("sales", day={"window": {"from": -6, "to": 0}}, region="all")`."""
    return _reading(asset_id, {"dimensions": rules}, options or {})


def affects(asset_id: str, which: Literal["all", "latest", "none"]) -> Json:
    """Read an asset without partitions. `which`: the partitions that its changes make stale."""
    return _reading(asset_id, {"affects": which}, {})


def _by_time(grain: GrainName, start: Moment, timezone: str | None, options: TimeOptions) -> Partitioning:
    return validated(Partitioning, time=grain, start=start, timezone=timezone, **options)


def _reading(asset_id: str, rule: Json, options: ReadOptions) -> Json:
    """Return a `consumes` block. It is validated here, so that an error has the line of the call."""
    fields = {
        "require": options.get("require"),
        "grace": options.get("grace"),
        "timeColumn": options.get("time_column"),
        "onRetire": options.get("on_retire"),
    }
    block = {**rule, **{name: value for name, value in fields.items() if value is not None}}
    return _plain(validated(Consumes, assetId=asset_id, partitions=block))


def _plain(block: Partitioning | Consumes | Mapping[str, Any]) -> Json:
    if isinstance(block, Mapping):
        return dict(block)
    return block.model_dump(mode="json", by_alias=True, exclude_unset=True)
