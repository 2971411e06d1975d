"""The snapshots of an Iceberg table: which ones were added since a position, and what does not fit to append-only data.

Pure. The position is the last snapshot that was reported. Snapshots know their parent, so the way back from the current
one shows each that was added since. A table that was rolled back, replaced or rewritten is a conflict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypedDict, cast

from freshline.model.json import Json
from freshline.watching.look import MAX_FOUND, Found, Look, LookContext, Mode
from freshline.watching.notes import Note, conflicts, kept, note
from freshline.watching.watermark import key

APPEND, REPLACE, DELETE = "append", "replace", "delete"  # replace: other files, the same rows


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot of a table. Ids are texts: JSON readers round numbers of 64 bits."""

    id: str
    parent: str | None
    operation: str
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it is now, with the snapshots that have not expired. `current`: None for an empty table."""

    name: str
    uuid: str
    current: str | None
    snapshots: Mapping[str, Snapshot]

    def history(self, snapshot: str | None) -> Iterator[Snapshot]:
        """Yield a snapshot, its parent and so on, as far as they are known."""
        while snapshot is not None and snapshot in self.snapshots:
            found = self.snapshots[snapshot]
            yield found
            snapshot = found.parent


class Position(TypedDict):
    """The last reported snapshot of a table. `since`: the first look."""

    uuid: str
    snapshot: str | None
    number: int
    since: str
    notes: list[Note]


def compare(mode: Mode, stored: Json | None, table: Table, context: LookContext) -> Look:
    """Return what is new since the stored position, and the next position."""
    before = _position(stored, table, context)
    if table.current is None:
        return Look((), cast("Json", before), f"Table {table.name} has no snapshot yet.", conflicts(before["notes"]))
    return _appended(before, table, context) if mode == "append" else _version(before, table)


def _position(stored: Json | None, table: Table, context: LookContext) -> Position:
    if stored is None:
        since = context.now.isoformat()
        return {"uuid": table.uuid, "snapshot": None, "number": 0, "since": since, "notes": []}
    known = cast("Position", stored)
    notes = list(known["notes"])
    if known["uuid"] != table.uuid:
        message = (
            f"The table {table.name} is not the one of the last look: it was dropped and created again, or the watch "
            "named another one. It is delivered as a whole."
        )
        notes.append(note(table.name, message, context))
        known = {**known, "uuid": table.uuid, "snapshot": None}
    return {**known, "notes": kept(notes, context)}


def _version(before: Position, table: Table) -> Look:
    current = table.current or ""
    summary = f"Table {table.name} is at snapshot {current}."
    if before["snapshot"] == current:
        return Look((), cast("Json", before), summary)
    number = before["number"] + 1
    # A snapshot that comes back by a rollback is a change again, so the number is part of its key.
    identity = key(number, before["since"], table.uuid, current)
    payload = {"table": table.name, "snapshot": current}
    found = Found(identity, current, payload, _moment(table.snapshots.get(current)))
    after: Position = {**before, "snapshot": current, "number": number, "notes": []}
    return Look((found,), cast("Json", after), summary)


def _appended(before: Position, table: Table, context: LookContext) -> Look:
    added, start, notes = _added(before["snapshot"], table, context)
    added, more = added[:MAX_FOUND], len(added) > MAX_FOUND
    found: list[Found] = []
    for one in added:
        if one.operation not in {APPEND, REPLACE}:
            notes.append(note(one.id, _rewritten(one), context))
        if one.operation not in {REPLACE, DELETE}:
            found.append(_delivery(table, start, one))
            start = one.id
    reached = added[-1].id if added else table.current
    notes = kept([*before["notes"], *notes], context)
    after: Position = {**before, "snapshot": reached, "number": before["number"] + len(found), "notes": notes}
    summary = (
        f"Table {table.name} is at snapshot {table.current}, and {len(found):,} "
        f"deliver{'y is' if len(found) == 1 else 'ies are'} new."
    )
    return Look(tuple(found), cast("Json", after), summary, conflicts(notes), more)


def _added(last: str | None, table: Table, context: LookContext) -> tuple[Sequence[Snapshot], str | None, list[Note]]:
    """Return the snapshots since the last reported one, oldest first, and the one before them."""
    history = list(table.history(table.current))
    if last is None:
        return history[:1], None, []  # the first delivery is the whole table
    known = {last, *(one.id for one in table.history(last))}
    added = [one for one in history if one.id not in known]
    oldest = added[-1] if added else history[0]
    fork = oldest.parent if added else oldest.id
    if fork == last:
        return added[::-1], last, []
    if fork in known:
        message = f"The table was rolled back to snapshot {fork}. Rows of later snapshots up to {last} were delivered."
        return added[::-1], fork, [note(table.name, message, context)]
    message = (
        f"Snapshots between {last} and {oldest.id} have expired before they were seen. The delivery that ends with "
        f"{oldest.id} begins with {last}, so that it holds their rows."
    )
    return added[::-1], last, [note(table.name, message, context)]


def _delivery(table: Table, start: str | None, one: Snapshot) -> Found:
    payload = {"table": table.name, "from": start, "to": one.id, "operation": one.operation}
    return Found(key(1, table.uuid, start, one.id), None, payload, _moment(one))


def _rewritten(one: Snapshot) -> str:
    if one.operation == DELETE:
        return f"Snapshot {one.id} deleted rows. They may have been delivered, and nothing is delivered for it."
    return (
        f"Snapshot {one.id} has the operation {one.operation!r}: it may have replaced rows that were delivered. It is "
        "delivered with its operation."
    )


def _moment(one: Snapshot | None) -> datetime | None:
    return datetime.fromtimestamp(one.timestamp_ms / 1_000, UTC) if one else None
