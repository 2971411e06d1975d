"""The freshness timers of assets (docs/semantics.md#R8.1): restarted by production, fired by time, in one heap."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime

from freshline.decide.times import expires_at, milliseconds, next_point
from freshline.model.enums import ExpiryReason
from freshline.model.policy import Freshness
from freshline.model.state import Expiry, split_reference
from freshline.simulation.records import Asset

EXPIRY, OVERDUE = "expiry", "overdue"
Due = tuple[datetime, ExpiryReason]


class Timers:
    """The timers of all assets. An entry of the heap counts only while the asset has the same due time."""

    def __init__(self, assets: Mapping[str, Asset], freshness: Mapping[str, Freshness]) -> None:
        self._assets = assets
        self._freshness = freshness
        self._heap: list[tuple[datetime, str, str]] = []
        self._running: dict[str, set[str]] = {}  # the partitions of an asset whose clocks run

    def keep(self, asset_id: str, newest: Collection[str], now: datetime) -> None:
        """Let only the clocks of these partitions of an asset run (docs/semantics.md#R13.7).

        An expiry that a user asked for stays. Schedules of new ones start.
        """
        running = self._running.setdefault(asset_id, set())
        for name in running.difference(newest):
            asset = self._assets[name]
            if ExpiryReason.MANUAL not in {asset.due_reason, asset.expired.reason if asset.expired else None}:
                asset.due_at = asset.due_reason = asset.expired = None
            asset.overdue, asset.overdue_at = False, None
        for name in newest:
            asset = self._assets[name]
            if name not in running and asset.due_at is None and asset.expired is None:
                self._expire(asset, next_point(self._freshness.get(asset_id, Freshness()), now))
        self._running[asset_id] = set(newest)

    def start(self, now: datetime) -> None:
        """Start cron and cadence timers, which exist before the first production (docs/semantics.md#R8.1)."""
        for asset_id, freshness in self._freshness.items():
            if asset_id in self._assets and self._assets[asset_id].head is None:
                self._expire(self._assets[asset_id], next_point(freshness, now))

    def arm(self, asset: Asset, now: datetime) -> None:
        """Restart the timers of a produced asset."""
        asset.expired, asset.overdue = None, False
        freshness = self._freshness.get(asset.asset_id)
        stopped = asset.partition_key and asset.id not in self._running.get(asset.asset_id, ())
        if freshness is None or stopped:
            asset.due_at = asset.due_reason = None
            return
        self._expire(asset, expires_at(freshness, now))
        age = freshness.max_age_ms
        self._overdue(asset, None if age is None else now + milliseconds(age))

    def expire(self, asset: Asset, now: datetime) -> None:
        """Let the freshness of an asset end now."""
        self._expire(asset, (now, ExpiryReason.MANUAL))

    def stop(self, asset: Asset) -> None:
        """Stop the clocks of an asset."""
        asset.due_at = asset.due_reason = asset.expired = asset.overdue_at = None
        asset.overdue = False

    def load(self, asset: Asset, due: Due) -> None:
        """Set the timer of an asset that was restored from the store."""
        self._expire(asset, due)

    def fire(self, now: datetime, is_clocked: Callable[[Asset], bool]) -> Iterator[tuple[Asset, str]]:
        """Yield the assets whose timers are due, with the kind of timer, and start the next timer of a schedule.

        `is_clocked`: whether the clock of an asset runs on. A user may let any partition expire, once.
        """
        while self._heap and self._heap[0][0] <= now:
            at, kind, asset_id = heapq.heappop(self._heap)
            asset = self._assets[asset_id]
            if kind == OVERDUE and asset.overdue_at == at:
                asset.overdue, asset.overdue_at = True, None
                yield asset, kind
            elif kind == EXPIRY and asset.due_at == at and asset.due_reason is not None:
                asset.expired = Expiry(at, asset.due_reason)
                freshness = self._freshness.get(split_reference(asset_id)[0], Freshness())
                self._expire(asset, next_point(freshness, now) if is_clocked(asset) else None)
                yield asset, kind

    def next(self) -> datetime | None:
        """Return the time of the next entry."""
        return self._heap[0][0] if self._heap else None

    def _expire(self, asset: Asset, due: Due | None) -> None:
        asset.due_at, asset.due_reason = due or (None, None)
        if asset.due_at is not None:
            heapq.heappush(self._heap, (asset.due_at, EXPIRY, asset.id))

    def _overdue(self, asset: Asset, at: datetime | None) -> None:
        asset.overdue_at = at
        if at is not None:
            heapq.heappush(self._heap, (at, OVERDUE, asset.id))
