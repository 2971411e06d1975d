"""Proposed backfills: opened, changed and closed by what is held, approved and denied (docs/semantics.md#R14.7).

Held considerations are the truth, and proposals follow them. What a proposal lists is stored per partition, so that a
denial accepts exactly what was shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from psycopg.types.json import Jsonb

from freshline.decide.proposals import Confirmed, HeldPartition, Proposed, connected, propose, reasons_of
from freshline.graph import Graph
from freshline.model.backfill import DEFAULT_CONCURRENCY, DEFAULT_PRIORITY
from freshline.model.enums import EventType
from freshline.model.json import Json
from freshline.model.policy import Policy
from freshline.model.staleness import Counted, Staleness
from freshline.partitions.selection import EVERYTHING, Selection
from freshline.reading import later_in_chain
from freshline.store.backfills import read
from freshline.store.backfills.selecting import Catalogue
from freshline.store.db.database import Connection, Row
from freshline.store.db.ids import new_id
from freshline.store.db.locks import PROPOSALS
from freshline.store.db.queries import load
from freshline.store.runs.events import append_event

SQL = load("proposals")


class Changes(NamedTuple):
    """What became of held partitions. `released`: some are evaluated again. `proposed`: a proposal changed."""

    released: bool = False
    proposed: bool = False


def is_pending(connection: Connection) -> bool:
    """Return whether proposals differ from what is held."""
    row = connection.execute(SQL["pending"]).fetchone()
    return bool(row and row["pending"])


def follow(there: Catalogue) -> Changes:
    """Let proposals follow what is held now. Another process that does so wins."""
    connection, graph = there.connection, there.graph
    row = connection.execute(SQL["try_lock"], {"lock": PROPOSALS}).fetchone()
    if row is None or not row["locked"]:
        return Changes()
    changed = {one["id"] for one in connection.execute(SQL["drop_gone"])}
    held = [_held(one) for one in connection.execute(SQL["held"])]
    unresolved = {one["workflow_id"]: one["fresh"] for one in connection.execute(SQL["unresolved"])}
    workflows = sorted({one.workflow_id for one in held})
    rows = {one["workflow_id"]: one for one in connection.execute(SQL["confirmed"], {"workflows": workflows})}
    confirmed = {one: _confirmed(found, unresolved=one in unresolved) for one, found in rows.items()}
    grown: set[str] = set()
    released = False
    for group in connected(graph, workflows):
        found = propose(
            [one for one in held if one.workflow_id in group],
            confirmed,
            lambda one, most: _later(graph, one, there, most),
        )
        released |= _release(connection, found)
        changed |= {one.backfill_id for one in (*found.released, *found.ignored) if one.backfill_id is not None}
        if not _is_moving(graph, group, [one for one, fresh in unresolved.items() if fresh]):
            grown |= _list(there, found, rows)
    for one in connection.execute(SQL["proposals_of"], {"ids": sorted(changed | grown)}).fetchall():
        _restate(there, one, grew=one["id"] in grown)
    return Changes(released, bool(changed or grown))


def _held(row: Row) -> HeldPartition:
    listed = Staleness.from_json(row["listed"]) if row["listed"] is not None else None
    staleness = Staleness.from_json(row["staleness"] or {})
    counted, origin = Counted(row["counted"]), row["origin"]
    return HeldPartition(
        row["workflow_id"], row["partition_key"], counted, staleness, origin, row["backfill_id"], listed
    )


def _confirmed(row: Row, *, unresolved: bool) -> Confirmed:
    return Confirmed(Policy.from_json(row["policy"]), row["stale"], row["own"], row["started"], unresolved)


def _later(graph: Graph, one: HeldPartition, there: Catalogue, most: int) -> int:
    return later_in_chain(graph, (one.workflow_id, one.partition_key), there.now, there.known, most)


def _is_moving(graph: Graph, group: Iterable[int], due: Iterable[int]) -> bool:
    """Return whether partitions of these workflows, or of some below, were not evaluated yet."""
    own = set(group)
    outputs = [asset_id for one in own for asset_id in graph.outputs_of(one)]
    return not own.union(graph.descendants(*outputs)).isdisjoint(due)


def _release(connection: Connection, found: Proposed) -> bool:
    if found.ignored:
        connection.execute(SQL["lock_held"], _arrays([*found.released, *found.ignored]))
        connection.execute(SQL["decline"], {"rows": _rows(found.ignored)})
    released = [*found.released, *found.ignored]
    if released:
        connection.execute(SQL["release"], _arrays(released))
    return bool(released)


def _list(there: Catalogue, found: Proposed, rows: Mapping[int, Row]) -> set[str]:
    """List what is not listed as it is. Return the proposal that grew, or that was opened."""
    connection = there.connection
    fresh = [one for one in found.listed if not one.is_listed]
    known = sorted({one.backfill_id for one in found.listed if one.backfill_id is not None})
    if not fresh and len(known) < 2:  # noqa: PLR2004 - several proposals of connected workflows become one
        return set()
    opened = connection.execute(SQL["proposals_of"], {"ids": known}).fetchall()
    proposal = opened[0]["id"] if opened else _open(there, found.listed, rows)
    workflows = sorted({one.workflow_id for one in found.listed})
    connection.execute(SQL["ensure_parts"], {"id": proposal, "workflows": workflows})
    others = [one["id"] for one in opened[1:]]
    if others:
        _merge(connection, proposal, others)
    connection.execute(SQL["list_partitions"], {"id": proposal, "rows": _rows(fresh)})
    connection.execute(SQL["lock_held"], _arrays(fresh))
    connection.execute(SQL["mark_listed"], {"rows": _rows(fresh)})
    return {proposal, *others}


def _merge(connection: Connection, proposal: str, others: Sequence[str]) -> None:
    for other in others:
        listed = connection.execute(SQL["listed"], {"id": other}).fetchall()
        parts = sorted({row["workflow_id"] for row in listed})
        connection.execute(SQL["ensure_parts"], {"id": proposal, "workflows": parts})
    connection.execute(SQL["move_listed"], {"id": proposal, "others": list(others)})


def _open(there: Catalogue, listed: Sequence[HeldPartition], rows: Mapping[int, Row]) -> str:
    """Insert a proposal and return its id. Its asset is that of the highest workflow."""
    graph, backfill_id = there.graph, new_id()
    top = min({one.workflow_id for one in listed}, key=lambda one: (graph.level(one), one))
    values = {
        "id": backfill_id,
        "project": rows[top]["project"],
        "asset": graph.outputs_of(top)[0],
        "concurrency": DEFAULT_CONCURRENCY,
        "newest_first": all(graph.own_input(one.workflow_id) is None for one in listed),
        "priority": DEFAULT_PRIORITY,
    }
    there.connection.execute(SQL["open_proposal"], values)
    return backfill_id


def restate(there: Catalogue, backfill_id: str, *, grew: bool) -> None:
    """Compute the parts and the reasons of a proposal from what it lists. One that lists nothing ends."""
    for row in there.connection.execute(SQL["proposals_of"], {"ids": [backfill_id]}).fetchall():
        _restate(there, row, grew=grew)


def _restate(there: Catalogue, row: Row, *, grew: bool) -> None:
    connection, graph = there.connection, there.graph
    listed = [one for one in connection.execute(SQL["listed"], {"id": row["id"]}) if one["workflow_id"] in graph.slugs]
    keys: dict[int, list[str]] = {}
    for one in listed:
        keys.setdefault(one["workflow_id"], []).append(one["partition_key"])
    if not keys:
        connection.execute(SQL["close"], {"id": row["id"]})
        append(connection, EventType.BACKFILL_CANCELED, row)
        return
    versions = {one["workflow_id"]: one["version"] for one in listed}
    parts: list[Json] = [
        {
            "workflow_id": one,
            "version": versions[one],
            "selection": _selection(graph, one, found).as_json(),
            "total": len(found),
        }
        for one, found in sorted(keys.items())
    ]
    top = min(keys, key=lambda one: (graph.level(one), one))
    connection.execute(SQL["set_parts"], {"id": row["id"], "parts": Jsonb(parts)})
    reasons = reasons_of([(one["slug"], one["version"], Staleness.from_json(one["staleness"])) for one in listed])
    values = {
        "id": row["id"],
        "asset": graph.outputs_of(top)[0],
        "selection": Jsonb(_selection(graph, top, keys[top]).as_json()),
        "reasons": Jsonb(reasons),
        "grew": grew and bool(row["reasons"]),  # a proposal that was just opened has none, and the first revision
    }
    revised = connection.execute(SQL["set_proposal"], values).fetchone()
    if grew and revised is not None:
        shown = {"id": row["id"], "asset_id": values["asset"], "revision": revised["revision"], "reasons": reasons}
        append(connection, EventType.BACKFILL_PROPOSED, shown)


def _selection(graph: Graph, workflow_id: int, keys: Iterable[str]) -> Selection:
    partitioning = graph.partitioning_of(workflow_id)
    return partitioning.select(keys) if partitioning.columns else EVERYTHING


def _arrays(held: Iterable[HeldPartition]) -> dict[str, list[Any]]:
    units = [(one.workflow_id, one.partition_key) for one in held]
    return {"workflows": [workflow_id for workflow_id, _ in units], "partitions": [key for _, key in units]}


def _rows(held: Iterable[HeldPartition]) -> Jsonb:
    return Jsonb(
        [
            {"workflow_id": one.workflow_id, "partition_key": one.partition_key, "staleness": one.staleness.as_json()}
            for one in held
        ]
    )


def append(connection: Connection, type_: EventType, row: Mapping[str, object]) -> None:
    """Append an event about a backfill. That of a proposal has its revision and its reasons."""
    backfill_id, asset_id = str(row["id"]), str(row["asset_id"])
    data: Json = {"backfillId": backfill_id, "assetId": asset_id, "progress": read.progress(connection, backfill_id)}
    if type_ is EventType.BACKFILL_PROPOSED:
        data |= {"revision": row["revision"], "reasons": row["reasons"]}
    append_event(connection, type_, asset_id, data)


def approve(connection: Connection, row: Row, by: str | None) -> None:
    """Make an active backfill of a locked proposal."""
    connection.execute(SQL["approve"], {"id": row["id"], "by": by})
    connection.execute(SQL["lock_listed"], {"id": row["id"]})
    connection.execute(SQL["stop_counting"], {"id": row["id"]})
    append(connection, EventType.BACKFILL_STARTED, row)


def deny(connection: Connection, row: Row) -> int:
    """Accept exactly the versions that a locked proposal lists. Return of how many partitions."""
    connection.execute(SQL["lock_listed"], {"id": row["id"]})
    listed = connection.execute(SQL["listed"], {"id": row["id"]}).fetchall()
    keys = ("workflow_id", "partition_key", "staleness")
    connection.execute(SQL["decline"], {"rows": Jsonb([{key: one[key] for key in keys} for one in listed])})
    forget(connection, row)
    return len(listed)


def forget(connection: Connection, row: Row) -> None:
    """Forget what a backfill lists. Its held partitions are evaluated again."""
    connection.execute(SQL["forget_listed"], {"id": row["id"]})


def reopen(there: Catalogue, row: Row) -> None:
    """Propose the rest of a canceled backfill again."""
    there.connection.execute(SQL["reopen"], {"id": row["id"]})
    there.connection.execute(SQL["lock_listed"], {"id": row["id"]})
    there.connection.execute(SQL["count_again"], {"id": row["id"]})
    restate(there, row["id"], grew=True)
