"""How far back partitions are simulated. Older ones are left out: nothing happens to them, and nobody reads them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from freshline.partitions.dimensions import Dimension, Dimensions
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.time_partitioning import TimePartitioning

MOST_PARTITIONS = 20_000
"""How many partitions exist at the start of a simulation, over all assets."""
MOST_ASKED = 100_000
"""As many, if late data or a backfill needs older ones."""


def horizon(
    partitionings: Iterable[Partitioning],
    now: datetime,
    asked: datetime | None = None,
    *,
    most: int = MOST_PARTITIONS,
    most_asked: int = MOST_ASKED,
) -> datetime | None:
    """Return the time from which partitions are simulated; None: all are.

    `asked`: the earliest time that reports and backfills need. It moves the horizon, up to `most_asked` partitions.
    """
    found = list(partitionings)
    if _count(found, now) <= most:
        return None
    usual = _bound(found, now, most)
    if asked is None or asked >= usual:
        return usual
    asked = datetime(asked.year, 1, 1, tzinfo=UTC) - timedelta(days=1)  # the months of what is asked, in every zone
    return asked if _count(cut(found, asked), now) <= most_asked else _bound(found, now, most_asked)


def cut(partitionings: Iterable[Partitioning], since: datetime) -> list[Partitioning]:
    """Return partitionings whose first window begins at this time or later."""
    return [later(one, since) for one in partitionings]


def later(one: Partitioning, since: datetime) -> Partitioning:
    """Return a partitioning whose first window begins at this time or later, if it has windows then."""
    if isinstance(one, Dimensions):
        return Dimensions(tuple((name, _axis(axis, since)) for name, axis in one.items))
    return _from(one, since) if isinstance(one, TimePartitioning) else one


def earliest(partitioning: Partitioning, keys: Collection[str]) -> datetime | None:
    """Return when the first window of these keys begins; None without a time."""
    windows = (partitioning.window(key) for key in keys if partitioning.defines(key))
    return min((window.begins for window in windows if window is not None), default=None)


def _axis(axis: Dimension, since: datetime) -> Dimension:
    return _from(axis, since) if isinstance(axis, TimePartitioning) else axis


def _from(one: TimePartitioning, since: datetime) -> TimePartitioning:
    first = min(one.calendar.ordinal_from(since), one.last)
    return one if first <= one.first else replace(one, start=one.calendar.key(first))


def _count(partitionings: Iterable[Partitioning], now: datetime) -> int:
    return sum(max(one.count(now), 0) for one in partitionings)


def _bound(partitionings: list[Partitioning], now: datetime, most: int) -> datetime:
    """Return the earliest midnight from which not more than `most` partitions exist."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    few, many = 0, 40_000  # days
    while many - few > 1:
        middle = (few + many) // 2
        if _count(cut(partitionings, midnight - timedelta(days=middle)), now) <= most:
            few = middle
        else:
            many = middle
    return midnight - timedelta(days=few)
