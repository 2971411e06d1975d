"""Sets the timers of assets to their declared freshness."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple, TypedDict

from psycopg.types.json import Jsonb

from freshline.decide.times import expires_at, milliseconds, next_point
from freshline.model.enums import ExpiryReason
from freshline.model.policy import Freshness, Policy
from freshline.partitions import Partitioning, document
from freshline.store import partition_timers
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load

SQL = load("apply")
DB = load("db")


class DueTimer(TypedDict):
    """When a timer is due next. With `forget`, a past expiry is cleared too."""

    asset_id: str
    partition_key: str
    kind: str
    due_at: str | None
    reason: str | None
    forget: bool


def declared_freshness(connection: Connection, ids: list[int]) -> dict[str, Freshness]:
    """Return the freshness of the assets that these workflows declare. A workflow in use wins over a retired one."""
    rows = connection.execute(SQL["declared_policies"], {"workflows": ids}).fetchall()
    found: dict[str, Freshness] = {}
    for row in rows:
        # A policy that cannot be read is replaced by this apply, which must not fail because of it.
        with suppress(KeyError, TypeError, ValueError):
            found |= {output.asset_id: output.freshness for output in Policy.from_json(row["policy"]).outputs}
    return found


def set_timers(
    connection: Connection,
    ids: list[int],
    *,
    baseline: bool = False,
    only: Collection[str] | None = None,
    before: Mapping[str, Freshness] | None = None,
) -> list[DueTimer]:
    """Set the timers of these workflows' assets, or of `only` some (docs/semantics.md#R8.1).

    Cron and cadence timers exist from apply on, also for assets that were never produced. `before`: the freshness that
    was declared until this apply. Return the expiry timers of assets with fresh data whose freshness it changes.
    """
    now = connection.execute(DB["now"]).fetchone()
    assert now is not None  # noqa: S101 - it is one value
    due: list[DueTimer] = []
    gone: list[DueTimer] = []
    edited: list[DueTimer] = []
    declared = _declared(connection, ids, only)
    for row in _clocks(connection, declared, now["now"]):
        freshness = declared[row["asset_id"]].freshness
        changed = before is not None and not _same_clock(before.get(row["asset_id"]), freshness)
        if before is not None and not changed and not baseline and row["has_timer"]:
            expiry = None  # an apply that does not change the freshness does not move the time
        else:
            expiry = _expiry(row, freshness, now["now"], restart=baseline or changed)
        if changed and expiry is not None and row["produced_at"] is not None and row["expired_at"] is None:
            edited.append(expiry)
        for timer in (expiry, _overdue(row, freshness)):
            if timer is not None:
                (due if timer["due_at"] else gone).append(timer)
    connection.execute(SQL["set_due"], {"timers": Jsonb(due)})
    connection.execute(SQL["unset_due"], {"timers": Jsonb(gone)})
    connection.execute(SQL["drop_timers"])
    return edited


class _Declared(NamedTuple):
    partitioning: Partitioning
    freshness: Freshness


def _declared(connection: Connection, ids: list[int], only: Collection[str] | None) -> dict[str, _Declared]:
    """Return the assets of these workflows with what they declare."""
    found = {}
    for row in connection.execute(SQL["clocked_assets"], {"workflows": ids}).fetchall():
        if only is None or row["asset_id"] in only:
            outputs = Policy.from_json(row["policy"]).outputs
            freshness = next((o.freshness for o in outputs if o.asset_id == row["asset_id"]), Freshness())
            found[row["asset_id"]] = _Declared(document.from_json(row["partitioning"]), freshness)
    return found


def _clocks(connection: Connection, declared: Mapping[str, _Declared], now: datetime) -> Sequence[Row]:
    """Return the clocks of assets, or of their newest partitions. Those of other partitions stop."""
    clocks = [partition_timers.clocked(connection, one, *declared[one], now) for one in declared]
    partition_timers.stop_clocks(connection, clocks)
    pairs = [(one.asset_id, key) for one in clocks for key in one.keys]
    values = {"assets": [asset_id for asset_id, _ in pairs], "keys": [key for _, key in pairs]}
    return connection.execute(SQL["asset_clocks"], values).fetchall()


def _same_clock(before: Freshness | None, after: Freshness) -> bool:
    """Return whether data expires at the same times. `maxAgeMs` is only for alerts (docs/semantics.md#R8.4)."""
    return before is not None and replace(before, max_age_ms=None) == replace(after, max_age_ms=None)


def _expiry(row: Row, freshness: Freshness, now: datetime, *, restart: bool) -> DueTimer | None:
    """Return the next expiry, counted from the production, or from now on `restart`. A pending `expire` stays."""
    if row["reason"] == ExpiryReason.MANUAL:
        return None
    produced_at = now if restart and row["produced_at"] else row["produced_at"]
    fresh = produced_at is not None and row["expired_at"] is None
    expiry = expires_at(freshness, produced_at) if fresh else next_point(freshness, now)
    # Without declared freshness nothing is late, except an asset that a user expired.
    forget = freshness == Freshness() and row["expired_reason"] != ExpiryReason.MANUAL
    return _timer(row, "expiry", *(expiry or (None, None)), forget=forget)


def _overdue(row: Row, freshness: Freshness) -> DueTimer | None:
    if freshness.max_age_ms is None or row["produced_at"] is None:
        return _timer(row, "overdue", None, None, forget=True)
    if row["overdue_at"] is not None:
        return None  # reported already, once per incident (docs/semantics.md#R8.4)
    return _timer(row, "overdue", row["produced_at"] + milliseconds(freshness.max_age_ms), "max-age")


def _timer(row: Row, kind: str, due: datetime | None, reason: str | None, *, forget: bool = False) -> DueTimer:
    return {
        "asset_id": row["asset_id"],
        "partition_key": row["partition_key"],
        "kind": kind,
        "due_at": due.isoformat() if due else None,
        "reason": reason,
        "forget": forget,
    }
