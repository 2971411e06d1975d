"""The transactions of backfills: request, pause, resume, retry and cancel them, and give turns to their partitions.

A backfill is a demand, not a queue of runs: evaluations read it, and decide as for any other cause. Whoever changes a
backfill, or gives turns, locks its row first, then considerations in key order, then runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from freshline.decide.backfill_parts import Turns
from freshline.errors import ConflictError, KeyReusedError, NotFoundError
from freshline.model.backfill import OPEN, BackfillRequest, BackfillStatus, Only
from freshline.model.documents.backfill import Backfill, BackfillDetail, BackfillPreview
from freshline.model.enums import EventType
from freshline.model.json import Json
from freshline.partitions.selection import NOTHING, Selection, from_json
from freshline.reading import existing
from freshline.store.apply.stored_graph import GraphCache
from freshline.store.backfills import proposals, read, selecting, staleness
from freshline.store.backfills.selecting import Catalogue, Part
from freshline.store.db.database import Connection, Database, Row
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.evaluation.partitions import known_keys
from freshline.store.operations import audit
from freshline.store.operations.targets import find_asset

SQL = load("backfills")
EVALUATION = load("evaluation")
MOST_ACTIVE = 1_000
MOST_LISTED = 1_000


class Backfills:
    """Requests of users about backfills, and the turns of their partitions."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._graphs = GraphCache()

    def preview(self, request: BackfillRequest) -> BackfillPreview:
        """Return what a backfill would compute. Raise UsageError or NotFoundError as `create` would."""
        with self._database.reading() as connection:
            asset = find_asset(connection, request.asset_id, lock=False)
            there = self._catalogue(connection)
            parts = selecting.select(there, asset, request)
            if request.policy.only is Only.STALE:
                parts = staleness.stale_parts(there, parts, newest_first=request.policy.newest_first)
                if not parts:
                    raise selecting.nothing(there.graph, request, asset["id"])
            return read.preview(there, request, parts)

    def create(self, request: BackfillRequest, *, key: str | None = None) -> str:
        """Request a backfill and return its id. The same request with the same `key` returns the same id.

        Raise NotFoundError for an unknown asset; UsageError for a source, an unknown key, an empty selection, or more
        partitions than one backfill may have. Then nothing is stored.
        """
        backfill_id = new_id()
        with self._database.transaction("create_backfill") as connection:
            known = _requested(connection, request, key)
            if known is not None:
                return known
            asset = find_asset(connection, request.asset_id)
            _refuse_too_many(connection)
            there = self._catalogue(connection)
            parts = selecting.select(there, asset, request)
            if request.policy.only is Only.FAILED:
                _clear_failures(there, parts)
            with audit.changing(
                connection, "create_backfill", request.asset_id, "backfill_state", backfill_id
            ) as noted:
                _insert(there, backfill_id, request, parts, key)
                noted |= {"partitions": sum(part.total for part in parts)}
            proposals.append(connection, EventType.BACKFILL_STARTED, {"id": backfill_id, "asset_id": request.asset_id})
        self._database.notify("backfills", "events")
        return backfill_id

    def find(self, backfill_id: str) -> BackfillDetail:
        """Return a backfill with its parts and progress. Raise NotFoundError if it does not exist."""
        with self._database.reading() as connection:
            return read.detail(self._catalogue(connection), _known_id(backfill_id))

    def list(
        self,
        *,
        statuses: Sequence[BackfillStatus] = (),
        asset_id: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> list[Backfill]:
        """Return backfills with their progress, the newest first. `after`: the last id of the previous page.

        Raise NotFoundError for an unknown asset.
        """
        with self._database.reading() as connection:
            if asset_id is not None:
                find_asset(connection, asset_id, lock=False)
            return read.listed(
                connection,
                statuses=statuses,
                asset_id=asset_id,
                limit=min(limit, MOST_LISTED),
                after=None if after is None else _known_id(after),
            )

    def pause(self, backfill_id: str) -> None:
        """Pause a backfill: its queued runs end, running ones go on. Raise ConflictError if it has ended."""
        with self._database.transaction("pause_backfill") as connection:
            row = _lock(connection, backfill_id, BackfillStatus.ACTIVE, BackfillStatus.PAUSED)
            if row["status"] != BackfillStatus.PAUSED:
                self._stop(connection, row, "pause_backfill", BackfillStatus.PAUSED, "backfill paused")
                connection.execute(SQL["note_open"], {"id": row["id"], "origin": row["requested_at"]})
        self._database.notify("considerations", "events")

    def resume(self, backfill_id: str) -> None:
        """End the pause of a backfill. Raise ConflictError if it has ended."""
        with self._database.transaction("resume_backfill") as connection:
            row = _lock(connection, backfill_id, BackfillStatus.ACTIVE, BackfillStatus.PAUSED)
            with audit.changing(connection, "resume_backfill", row["asset_id"], "backfill_state", row["id"]):
                _set_status(connection, row, BackfillStatus.ACTIVE)
            connection.execute(SQL["note_open"], {"id": row["id"], "origin": row["requested_at"]})
        self._database.notify("backfills", "considerations")

    def retry(self, backfill_id: str) -> int:
        """Try the failed and refused partitions again, without their cooldowns, and return how many.

        Those that failed and wait for their next run are among them. A finished backfill goes on. Raise ConflictError
        if it was canceled or denied.
        """
        with self._database.transaction("retry_backfill") as connection:
            allowed = (BackfillStatus.ACTIVE, BackfillStatus.PAUSED, BackfillStatus.FINISHED)
            row = _lock(connection, backfill_id, *allowed)
            with audit.changing(connection, "retry_backfill", row["asset_id"], "backfill_state", row["id"]) as noted:
                units = connection.execute(SQL["retry_partitions"], {"id": row["id"]}).fetchall()
                arrays = {
                    "workflows": [unit["workflow_id"] for unit in units],
                    "partitions": [unit["partition_key"] for unit in units],
                }
                connection.execute(SQL["clear_failures"], arrays)
                if units and row["status"] == BackfillStatus.FINISHED:
                    _set_status(connection, row, BackfillStatus.ACTIVE)
                noted |= {"partitions": len(units)}
            connection.execute(SQL["note_open"], {"id": row["id"], "origin": row["requested_at"]})
        self._database.notify("backfills", "considerations")
        return len(units)

    def cancel(self, backfill_id: str, *, kill: bool = False) -> None:
        """Remove the demand and its queued runs. Running ones finish unless `kill`.

        Its partitions are evaluated again, for causes of their own. Canceling twice changes nothing; a backfill that
        ended otherwise raises ConflictError.
        """
        with self._database.transaction("cancel_backfill") as connection:
            row = _lock(connection, backfill_id, *OPEN, BackfillStatus.CANCELED)
            if row["status"] == BackfillStatus.CANCELED:
                return
            if row["status"] == BackfillStatus.PROPOSED:
                raise ConflictError(f"backfill {backfill_id} is proposed; deny it to end it")
            self._stop(connection, row, "cancel_backfill", BackfillStatus.CANCELED, "backfill canceled")
            if kill:
                reason = {"id": row["id"], "reason": "backfill canceled"}
                connection.execute(SQL["kill_running"], reason)
            connection.execute(SQL["note_open"], {"id": row["id"], "origin": row["requested_at"]})
            connection.execute(SQL["drop_open"], {"id": row["id"]})
            if row["reasons"]:
                proposals.reopen(self._catalogue(connection), row)
            else:
                proposals.append(connection, EventType.BACKFILL_CANCELED, row)
        self._database.notify("considerations", "events", "runs")

    def approve(self, backfill_id: str, *, revision: int | None = None) -> None:
        """Make an active backfill of a proposal. Raise ConflictError if it is none, or if it grew since `revision`."""
        with self._database.transaction("approve_backfill") as connection:
            row = _lock_revision(connection, backfill_id, revision)
            with audit.changing(connection, "approve_backfill", row["asset_id"], "backfill_state", row["id"]) as noted:
                proposals.approve(connection, row, audit.actor_name())
                noted |= {"revision": row["revision"]}
        self._database.notify("backfills", "events")

    def deny(self, backfill_id: str, *, revision: int | None = None) -> None:
        """Accept what a proposal lists without running it: its versions cause nothing any more, all others do.

        Raise ConflictError if it is no proposal, or if it grew since `revision`.
        """
        with self._database.transaction("deny_backfill") as connection:
            row = _lock_revision(connection, backfill_id, revision)
            with audit.changing(connection, "deny_backfill", row["asset_id"], "backfill_state", row["id"]) as noted:
                noted |= {"revision": row["revision"], "partitions": proposals.deny(connection, row)}
                _set_status(connection, row, BackfillStatus.DENIED)
        self._database.notify("considerations", "events")

    def propose(self) -> bool:
        """Let proposals follow what is held for an approval. Return whether anything changed."""
        with self._database.reading() as connection:
            if not proposals.is_pending(connection):
                return False
        with self._database.transaction("propose_backfills") as connection:
            changes = proposals.follow(self._catalogue(connection))
        if changes.released:
            self._database.notify("considerations")
        if changes.proposed:
            self._database.notify("events")
        return changes.released or changes.proposed

    def advance(self) -> bool:
        """Count what is done in every active backfill, and give turns. Return whether anything moved."""
        with self._database.connection() as connection:
            rows = connection.execute(SQL["active_backfills"], {"most": MOST_ACTIVE}).fetchall()
        moved = [self._advance(row["id"]) for row in rows]
        return any(moved)

    def _advance(self, backfill_id: str) -> bool:
        with self._database.transaction("advance_backfill") as connection:
            row = connection.execute(SQL["claim_backfill"], {"id": backfill_id}).fetchone()
            if row is None:
                return False
            connection.execute(SQL["refuse_retired"], {"id": backfill_id})
            counted = connection.execute(SQL["tally"], {"id": backfill_id}).fetchone()
            parts = connection.execute(SQL["parts"], {"id": backfill_id}).fetchall()
            done = counted["done"] if counted else 0
            turns = self._give_turns(connection, row, parts)
            connection.execute(SQL["hurry_one"], {"id": backfill_id})
            if not turns and all(part["rest"] is None and part["open"] == 0 for part in parts):
                _finish(connection, row)
            elif done and _crossed(sum(part["done"] for part in parts), done, sum(part["total"] for part in parts)):
                proposals.append(connection, EventType.BACKFILL_PROGRESSED, row)
        if turns:
            self._database.notify("considerations")
        return bool(turns or done)

    def _give_turns(self, connection: Connection, row: Row, parts: Sequence[Row]) -> bool:
        """Open as many partitions as there are places, and let them be evaluated. Return whether there were any."""
        rests = {part["workflow_id"]: from_json(part["rest"]) for part in parts if part["rest"] is not None}
        if not rests or (row["not_before"] is not None and row["not_before"] > row["now"]):
            return False
        rows = connection.execute(SQL["places"], {"id": row["id"]}).fetchall()
        sizes = {one["workflow_id"]: row["batch"] if one["batch"] else 1 for one in rows}
        places = row["concurrency"] - sum(ceil(one["taken"] / sizes[one["workflow_id"]]) for one in rows)
        if places <= 0:
            return False
        graph = self._graphs.read(connection, row["epoch"])
        turns = Turns(graph, rests, row["now"], known_keys(connection, graph), newest_first=row["newest_first"])
        units = turns.take(places, sizes)
        arrays = {"workflows": [unit[0] for unit in units], "partitions": [unit[1] for unit in units]}
        left: list[Json] = [_rest(one, turns.rests.get(one)) for one in sorted(rests)]
        connection.execute(SQL["open_partitions"], {"id": row["id"], **arrays})
        connection.execute(SQL["set_rest"], {"id": row["id"], "parts": Jsonb(left)})
        connection.execute(SQL["note_turns"], {**arrays, "origin": row["requested_at"]})
        return bool(units) or len(turns.rests) < len(rests)

    def _stop(self, connection: Connection, row: Row, what: str, status: BackfillStatus, reason: str) -> None:
        """Move a backfill to a state in which it starts nothing, and end its queued runs."""
        # A reconciler that is evaluating one of its partitions may queue a run: wait for it.
        connection.execute(SQL["lock_considerations"], {"id": row["id"]})
        with audit.changing(connection, what, row["asset_id"], "backfill_state", row["id"]):
            connection.execute(SQL["end_queued"], {"id": row["id"], "reason": reason})
            _set_status(connection, row, status)

    def _catalogue(self, connection: Connection) -> Catalogue:
        row = connection.execute(EVALUATION["epoch_and_time"]).fetchone()
        assert row is not None  # noqa: S101 - the migration inserted it
        graph = self._graphs.read(connection, row["epoch"])
        return Catalogue(connection, graph, row["now"], known_keys(connection, graph))


def _insert(
    there: Catalogue, backfill_id: str, request: BackfillRequest, parts: Sequence[Part], key: str | None
) -> None:
    connection, graph = there.connection, there.graph
    policy = request.policy
    producer = graph.producer(request.asset_id)
    # The asset itself may have none that is missing, failed or stale, and what is above or below it some.
    selection = next((part.selection for part in parts if part.workflow_id == producer), NOTHING)
    project = connection.execute(SQL["project_of"], {"workflow": producer}).fetchone()
    values: dict[str, Any] = {
        "id": backfill_id,
        "project": project["project"] if project else "",
        "asset": request.asset_id,
        "requested_by": audit.actor_name(),
        "key": key,
        "selection": Jsonb(selection.as_json()),
        "upstream": request.upstream,
        "downstream": request.downstream,
        "only": policy.only,
        "batch": policy.batch,
        "concurrency": policy.concurrency,
        "newest_first": policy.newest_first,
        "not_before": policy.not_before,
        "during_quiet_hours": policy.during_quiet_hours,
        "priority": policy.priority,
        "partial": policy.partial,
    }
    connection.execute(SQL["create_backfill"], values)
    rows = Jsonb([part.as_json() for part in parts])
    connection.execute(SQL["create_parts"], {"id": backfill_id, "parts": rows})


def _requested(connection: Connection, request: BackfillRequest, key: str | None) -> str | None:
    """Return the backfill that was requested with this key. Raise an error if it was for another asset."""
    if key is None:
        return None
    known = connection.execute(SQL["requested_backfill"], {"key": key}).fetchone()
    if known is None:
        return None
    if known["asset_id"] != request.asset_id:
        raise KeyReusedError(f"the key {key!r} was used for a backfill of asset '{known['asset_id']}'; choose another")
    return str(known["id"])


def _refuse_too_many(connection: Connection) -> None:
    row = connection.execute(SQL["count_open"], {"most": MOST_ACTIVE}).fetchone()
    if row is not None and row["count"] >= MOST_ACTIVE:
        raise ConflictError(
            f"{MOST_ACTIVE:,} backfills have not ended; allowed are {MOST_ACTIVE:,} at a time",
            hint="`freshline backfill list` shows them: wait until some have finished, or cancel some",
        )


def _clear_failures(there: Catalogue, parts: Sequence[Part]) -> None:
    """Let failed partitions be tried at once: that is what was asked for."""
    for part in parts:
        keys = list(existing(there.graph, part.workflow_id, part.selection, there.now, there.known))
        arrays = {"workflows": [part.workflow_id] * len(keys), "partitions": keys}
        there.connection.execute(SQL["clear_failures"], arrays)


def _lock(connection: Connection, backfill_id: str, *allowed: BackfillStatus) -> Row:
    """Return the locked row of a backfill. Raise an error if it does not exist, or is in another state."""
    row = connection.execute(SQL["lock_backfill"], {"id": _known_id(backfill_id)}).fetchone()
    if row is None:
        raise read.unknown(backfill_id)
    if row["status"] not in allowed:
        hint = None
        if row["status"] == BackfillStatus.PROPOSED:
            hint = f"`freshline backfill show {backfill_id}` shows how to approve or deny it"
        states = " or ".join(sorted(allowed))
        raise ConflictError(f"backfill {backfill_id} is {row['status']}; this needs one that is {states}", hint=hint)
    return row


def _lock_revision(connection: Connection, backfill_id: str, revision: int | None) -> Row:
    """Return the locked row of a proposal. Raise ConflictError if it has another revision than the named one."""
    row = _lock(connection, backfill_id, BackfillStatus.PROPOSED)
    now = row["revision"]
    if revision not in {None, now}:
        grown = "it grew since, and nothing was changed" if (revision or 0) < now else "it does not exist yet"
        raise ConflictError(
            f"proposal {backfill_id} has revision {now}, and revision {revision} is named: {grown}",
            hint=f"`freshline backfill show {backfill_id}` shows what it lists now",
        )
    return row


def _known_id(backfill_id: str) -> str:
    """Return the id if it can be one. Raise NotFoundError otherwise: the database would refuse the text."""
    try:
        return str(UUID(backfill_id))
    except ValueError:
        raise NotFoundError(
            f"backfill {backfill_id!r} does not exist", hint="`freshline backfill list` lists them"
        ) from None


def _set_status(connection: Connection, row: Row, status: BackfillStatus) -> None:
    connection.execute(SQL["set_status"], {"id": row["id"], "status": status, "open": status in OPEN})


def _finish(connection: Connection, row: Row) -> None:
    _set_status(connection, row, BackfillStatus.FINISHED)
    proposals.forget(connection, row)
    proposals.append(connection, EventType.BACKFILL_FINISHED, row)


def _crossed(done: int, new: int, total: int) -> bool:
    """Return whether another tenth is done: a backfill of 10,000 partitions appends ten events, not 10,000."""
    return done * 10 // total > (done - new) * 10 // total


def _rest(workflow_id: int, rest: Selection | None) -> Json:
    return {"workflow_id": workflow_id, "rest": None if rest is None else rest.as_json()}
