"""The times of partitions: when the next one comes to exist, and of which partitions the freshness clocks run.

The moment of the next key is a row of `timers`, like an expiry (docs/semantics.md#R13.2): one per workflow, on its
first output, and one per source that has consumers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from psycopg.types.json import Jsonb

from freshline.decide.times import milliseconds, next_point
from freshline.model.json import Json
from freshline.model.policy import Freshness, Policy
from freshline.partitions import Partitioning, document
from freshline.partitions.calendar import BEGINNING
from freshline.reading import earlier
from freshline.store import seen_keys
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.retention.retirement import is_ended, next_retirement

SQL = load("partitions")
NEXT_KEY = "next-key"
RETIRE = "retire"


class Clocks(NamedTuple):
    """The partitions of an asset whose freshness clocks run."""

    asset_id: str
    keys: Sequence[str]


def set_next_keys(connection: Connection) -> None:
    """Set the timers of all next keys. A timer that is due already stays: its keys were not considered yet."""
    rows = connection.execute(SQL["partitioned_assets"]).fetchall()
    timers = [*_wanted(rows), *_retiring(rows)]
    connection.execute(SQL["set_next_keys"], {"timers": Jsonb(timers)})


def _wanted(rows: Iterable[Row]) -> Iterator[Json]:
    workflows: set[int] = set()
    for row in rows:
        if row["producer_id"] in workflows:
            continue  # the outputs of a workflow have the same keys
        if row["producer_id"] is not None:
            workflows.add(row["producer_id"])
        due = document.from_json(row["partitioning"]).next_key_at(row["now"])
        if due is not None:
            yield {"asset_id": row["id"], "kind": NEXT_KEY, "due_at": due.isoformat()}


def _retiring(rows: Iterable[Row]) -> Iterator[Json]:
    """Yield when partitions of assets are removed next. A new timer fires for all that are too old already."""
    for row in rows:
        retain_ms = row["policy"].get("retain_ms") if row["policy"] else None
        if retain_ms is None:
            continue
        partitioning, retained, now = document.from_json(row["partitioning"]), milliseconds(retain_ms), row["now"]
        following = next_retirement(partitioning, retained, now)
        horizon = earlier(now, retained)
        first = partitioning.next_end_after(BEGINNING)
        late = any(is_ended(partitioning, key, horizon) for key in row["keys"] or ())
        began = first is not None and first <= horizon
        due = now if late or (following is None and began) else following
        if due is not None:
            timer = {"asset_id": row["id"], "kind": RETIRE, "due_at": due.isoformat()}
            yield timer | ({"first_at": (first + retained).isoformat()} if first is not None and began else {})


def fire(connection: Connection, rows: Sequence[Row], policies: Mapping[str, Policy]) -> None:
    """Move the timers to the keys after those that came, and the freshness clocks to the newest partitions.

    After a downtime one firing stands for all keys that came. The inbox rows of the caller name the times.
    """
    following: list[Json] = []
    clocks: list[Clocks] = []
    starting: list[Json] = []
    for row in rows:
        partitioning = document.from_json(row["partitioning"])
        due = partitioning.next_key_at(row["now"])
        following.append({"asset_id": row["asset_id"], "kind": NEXT_KEY, "due_at": due.isoformat() if due else None})
        policy = policies.get(row["asset_id"])
        for output in policy.outputs if policy else ():
            newest = clocked(connection, output.asset_id, partitioning, output.freshness, row["now"])
            clocks.append(newest)
            starting.extend(_scheduled(newest, output.freshness, row["now"]))
    connection.execute(SQL["move_next_keys"], {"timers": Jsonb(following)})
    stop_clocks(connection, clocks)
    if starting:
        connection.execute(SQL["start_clocks"], {"timers": Jsonb(starting)})


def clocked(
    connection: Connection, asset_id: str, partitioning: Partitioning, freshness: Freshness, now: datetime
) -> Clocks:
    """Return the partitions of an asset whose freshness clocks run: the newest ones (docs/semantics.md#R13.7)."""
    if not partitioning.columns:
        return Clocks(asset_id, [""])
    known = seen_keys.read(connection, asset_id, partitioning)
    return Clocks(asset_id, newest_keys(partitioning, freshness, now, known))


def running(
    connection: Connection, policy: Policy, key: str, declared: Mapping[str, Freshness], now: datetime
) -> dict[str, Freshness]:
    """Return the freshness of the outputs of a partition that is produced now: none if it is not a newest one.

    The newest dynamic key takes the clock of the one before. With time, the timer of the next key does that.
    """
    if policy.partitioning is None:
        return dict(declared)
    partitioning = document.from_json(policy.partitioning)
    clocks = [clocked(connection, one, partitioning, freshness, now) for one, freshness in declared.items()]
    if partitioning.is_dynamic:
        stop_clocks(connection, clocks)
    return {one.asset_id: declared[one.asset_id] if key in one.keys else Freshness() for one in clocks}


def newest_keys(
    partitioning: Partitioning, freshness: Freshness, now: datetime, known: Collection[str]
) -> Sequence[str]:
    """Return the newest existing keys: as many windows as the freshness says, none without a clock."""
    if freshness == Freshness():
        return []
    return list(partitioning.keys(partitioning.newest(now, known, freshness.partitions), now, known))


def stop_clocks(connection: Connection, clocks: Sequence[Clocks]) -> None:
    """Stop the clocks of all other partitions of these assets."""
    if not clocks:
        return
    pairs = [(one.asset_id, key) for one in clocks for key in one.keys]
    values = {
        "assets": [one.asset_id for one in clocks],
        "newest": [a for a, _ in pairs],
        "keys": [k for _, k in pairs],
    }
    connection.execute(SQL["stop_clocks"], values)


def _scheduled(newest: Clocks, freshness: Freshness, now: datetime) -> Iterator[Json]:
    """Yield the first points of schedules, which do not depend on a production."""
    point = next_point(freshness, now)
    if point is None:
        return
    for key in newest.keys:
        yield {
            "asset_id": newest.asset_id,
            "partition_key": key,
            "due_at": point[0].isoformat(),
            "reason": point[1],
        }
