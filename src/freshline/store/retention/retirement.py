"""Removes the data of partitions that are older than `retain` (docs/semantics.md#R13.14).

A removed partition keeps its history. It gets a snapshot without files, which is the version of the table without it,
so that the Delta log, the vacuum and pins need no rule of their own. Its head stays at its last version, which counts
as consumed, and says since when there is no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from psycopg.types.json import Jsonb

from freshline.counters import count
from freshline.decide.times import milliseconds
from freshline.model.enums import EventType
from freshline.model.json import Json
from freshline.model.moment import iso
from freshline.partitions import Partitioning, TimePartitioning, document
from freshline.reading import earlier
from freshline.store.db.database import Connection, Database, Row
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.runs.events import EventRow, append_events, asset_event

SQL = load("retirement")
RUNS = load("runs")
BATCH = 500
"""How many partitions one transaction removes, as one version of the table."""


class Retirement:
    """The transaction that removes partitions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def retire_partitions(self, batch: int = BATCH) -> int | None:
        """Remove up to `batch` partitions of one asset, oldest first, and return how many. None: nothing is due."""
        with self._database.transaction("retire_partitions") as connection:
            due = connection.execute(SQL["due"]).fetchone()
            if due is None:
                return None
            connection.execute(SQL["lock"], {"asset": due["asset_id"]})
            asset = connection.execute(SQL["asset"], {"asset": due["asset_id"]}).fetchone()
            # Another process may have done it, or an apply may have changed it.
            retired = [] if asset is None else _retire(connection, asset, batch)
        count("partitions_retired", len(retired))
        if asset is not None:
            self._database.notify("events", "timers")
        return len(retired)


def _retire(connection: Connection, asset: Row, batch: int) -> Sequence[str]:
    """Remove what is due, and set the timer for what follows."""
    partitioning = document.from_json(asset["partitioning"])
    retained = None if asset["retain_ms"] is None else milliseconds(asset["retain_ms"])
    where = {"asset": asset["id"]}
    if retained is None:
        connection.execute(SQL["drop_timer"], where)
        return []
    keys = _ended(connection, asset["id"], partitioning, earlier(asset["now"], retained))
    events = _remove(connection, asset, keys[:batch]) if keys else []
    if len(keys) <= batch:
        events.append(_all_ended(asset))
        following = next_retirement(partitioning, retained, asset["now"])
        connection.execute(SQL["drop_timer" if following is None else "move_timer"], {**where, "due": following})
    append_events(connection, events)
    return keys[:batch]


def next_retirement(partitioning: Partitioning, retained: timedelta, now: datetime) -> datetime | None:
    """Return when the next partition is old enough to be removed; None if never."""
    ends = partitioning.next_end_after(earlier(now, retained))
    try:
        return None if ends is None else ends + retained
    except OverflowError:
        return None


def is_ended(partitioning: Partitioning, key: str, horizon: datetime) -> bool:
    """Return whether the window of a key that the definition has ended at the horizon or before."""
    window = partitioning.window(key) if partitioning.defines(key) else None
    return window is not None and window.ends <= horizon


def _ended(connection: Connection, asset_id: str, partitioning: Partitioning, horizon: datetime) -> list[str]:
    """Return the partitions with data whose windows ended at the horizon or before, oldest first."""
    before = None
    if isinstance(partitioning, TimePartitioning):  # its keys are texts in the order of time
        if horizon <= partitioning.span.begins:
            return []
        before = partitioning.calendar.key_at(horizon)
    rows = connection.execute(SQL["with_data"], {"asset": asset_id, "before": before}).fetchall()
    return [row["partition_key"] for row in rows if is_ended(partitioning, row["partition_key"], horizon)]


def _remove(connection: Connection, asset: Row, keys: Sequence[str]) -> list[EventRow]:
    where = {"asset": asset["id"], "keys": list(keys)}
    heads = connection.execute(SQL["lock_heads"], where).fetchall()
    numbered = connection.execute(SQL["number"], where).fetchone()
    change = numbered["change"] if numbered else None
    rows = [_snapshot(asset, head, change) for head in heads]
    connection.execute(RUNS["insert_snapshots"], {"rows": Jsonb(rows)})
    connection.execute(SQL["retire_heads"], where)
    tables = [row for row in rows if row["table_version"] is not None]
    if tables:
        connection.execute(RUNS["note_commits"], {"rows": Jsonb(tables[:1])})
    connection.execute(SQL["stop_clocks"], where)
    return [_event(asset, head, row) for head, row in zip(heads, rows, strict=True)]


def _snapshot(asset: Row, head: Row, change: int | None) -> Json:
    """Return the snapshot of a partition without data. Those of one batch are one version of the table."""
    number = asset["table_version"] + 1 if head["table"] else None
    newest = asset["location"] or {}
    layout = {name: newest[name] for name in ("partition", "partitionBy") if name in newest}
    return {
        "asset_id": asset["id"],
        "partition_key": head["partition_key"],
        "sequence": head["last_sequence"] + 1,
        "data_version": head["data_version"],
        "changed": False,
        "table_version": number,
        "base_version": number,
        "location": {**layout, "paths": [], "files": {}} if head["table"] else None,
        "schema": asset["schema"] if head["table"] else None,
        "rows": 0,
        "bytes": 0,
        "produced_at": asset["now"].isoformat(),
        "event_id": new_id(),
        "change": change,
        "retired": True,
    }


def _event(asset: Row, head: Row, row: Json) -> EventRow:
    data = {
        "assetId": asset["id"],
        "partitionKey": head["partition_key"],
        "workflowSlug": asset["slug"],
        "dataVersion": head["data_version"],
        "retiredAt": iso(asset["now"]),
        "retainMs": asset["retain_ms"],
    }
    return asset_event(row["event_id"], EventType.PARTITION_RETIRED, data, "retired")


def _all_ended(asset: Row) -> EventRow:
    """Return an inbox row about all partitions whose time ended since the timer was due, with data or without."""
    return {
        "id": new_id(),
        "type": None,
        "subject": asset["id"],
        "data": {},
        "kind": "retired",
        "asset_id": asset["id"],
        "partition_key": "",
        "since": asset["due_at"].isoformat(),
    }
