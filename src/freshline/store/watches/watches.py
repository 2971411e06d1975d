"""Watches: claim what is due, and record what a look found.

Nothing is looked at inside a transaction. What a look found and its position are written in one transaction under the
claim number, which is a fencing token: a look that is repeated after a crash repeats no report and loses none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from freshline.counters import count
from freshline.errors import FencedError, NotFoundError
from freshline.model.allowed_paths import AllowedPaths
from freshline.model.json import Json
from freshline.model.watch import Look, Mode, SeenFile, identity, path_key
from freshline.partitions import Partitioning
from freshline.settings import Settings
from freshline.store import seen_keys
from freshline.store.db.database import Connection, Database, Row
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.operations import report
from freshline.store.operations.report import Report, Reported

SQL = load("watches")
MARGIN_MS = 15_000  # of a lease, after the timeout of the look: for recording
BREAKER_FAILURES = 5
FILES_PER_STATEMENT = 10_000
MOST_CONFLICTS = 100
MOST_ERROR_CHARS = 2_000


class ProjectCode(NamedTuple):
    """The code that a worker has of its project."""

    project: str
    code_hash: str


@dataclass(frozen=True, slots=True)
class ClaimedWatch:
    """A watch that this process may look at until its lease ends.

    `now`: the database's time of the claim. `partitioning`: of the source; None without.
    """

    asset_id: str
    kind: str
    mode: Mode
    spec: Json
    timeout_ms: int
    claim: int
    position: Json | None
    revision: int
    failures: int
    half_open: bool
    now: datetime
    declaration: Json
    partitioning: Json | None = None

    def allowed(self, root: str | None) -> AllowedPaths:
        """Return the paths that reports of the source may name."""
        return AllowedPaths.of(self.declaration, root=root)


@dataclass(frozen=True, slots=True)
class Looked:
    """A look that ended: what it returned, how long it took, and how long ago it ended."""

    watch: ClaimedWatch
    look: Look
    took_ms: int
    waited_ms: int = 0

    @property
    def quiet(self) -> bool:
        """Whether it changes nothing but the time of the next look."""
        return not self.look.found and not self.look.seen and self.look.position == self.watch.position

    @property
    def pause_ms(self) -> int | None:
        """The pause that the look asks for: 0 for at once, None for `every`."""
        return 0 if self.look.more else self.look.again_ms

    def conflicts(self) -> list[Json]:
        """Return what is not delivered, as it is stored."""
        return [{"subject": one.subject, "message": one.message} for one in self.look.conflicts[:MOST_CONFLICTS]]


class Watches:
    """Transactions of the watcher."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def claim(
        self,
        kinds: Sequence[str],
        most: int,
        *,
        hinted: Collection[str] = (),
        excluded: Collection[str] = (),
        code: ProjectCode | None = None,
        holder: str | None = None,
    ) -> list[ClaimedWatch]:
        """Claim due watches of some kinds, each for its timeout and a margin.

        `hinted`: sources that changed; they are claimed before they are due unless somebody looks at them or the
        breaker is open. `excluded`: sources that this process cannot look at now. `code`: only sources of this project,
        and only while this is its applied code. `holder`: the process, as it is registered.
        """
        values = {**_scope(kinds, excluded, code), "hinted": list(hinted), "most": most, "margin_ms": MARGIN_MS}
        values["holder"] = holder
        with self._database.transaction("claim_watches") as connection:
            return [ClaimedWatch(**row) for row in connection.execute(SQL["claim"], values)]

    def peek(self, asset_id: str) -> ClaimedWatch:
        """Return the watch of a source without a claim, for a look that is not recorded."""
        with self._database.reading() as connection:
            row = connection.execute(SQL["peek"], {"asset": asset_id}).fetchone()
        if row is None:
            raise NotFoundError(f"source '{asset_id}' has no watch")
        return ClaimedWatch(**row)

    def until_due(
        self, kinds: Sequence[str], *, excluded: Collection[str] = (), code: ProjectCode | None = None
    ) -> float | None:
        """Return the seconds until a watch is due; None if there is none."""
        with self._database.connection() as connection:
            row = connection.execute(SQL["until_due"], _scope(kinds, excluded, code)).fetchone()
        return None if row is None else row["seconds"]

    def record(self, looked: Looked) -> list[Reported]:
        """Report what a look found, and store its position, in one transaction. A later claim fences this one."""
        reported = report.retried(lambda: self._record(looked))
        if reported:
            self._database.notify("events")
        return reported

    def note(self, quiet: Sequence[Looked]) -> None:
        """Record looks that found nothing new. Those whose claim ended are left out."""
        looks = [
            {
                "asset_id": one.watch.asset_id,
                "claim": one.watch.claim,
                "summary": one.look.summary,
                "conflicts": None if one.look.partial else one.conflicts(),
                "pause_ms": one.pause_ms,
                "took_ms": one.took_ms,
                "waited_ms": one.waited_ms,
            }
            for one in quiet
        ]
        with self._database.transaction("note_looks") as connection:
            noted = connection.execute(SQL["note"], {"looks": Jsonb(looks)}).fetchall()
        count("fenced", len(looks) - len(noted))

    def fail(self, watch: ClaimedWatch, error: str) -> bool:
        """Record that a look failed. Return whether this opened the breaker. A later claim fences this one."""
        values = {"asset": watch.asset_id, "error": error[:MOST_ERROR_CHARS]}
        limits = {"budget": BREAKER_FAILURES, "probe_ms": self._settings.watch_probe_ms}
        with self._database.transaction("fail_look") as connection:
            _lock(connection, watch)
            row = connection.execute(SQL["fail"], {**values, **limits}).fetchone()
            assert row is not None  # noqa: S101 - it is locked
        return bool(row["opened"])

    def release(self, watches: Sequence[ClaimedWatch]) -> int:
        """End the leases of looks that this process will not record, and return how many it still had."""
        return self._release([{"asset_id": one.asset_id, "claim": one.claim} for one in watches])

    def release_abandoned(self, most: int, *, silent_ms: int) -> int:
        """End the leases of processes that stopped, or were not seen for `silent_ms`; return how many."""
        with self._database.reading() as connection:
            found = connection.execute(SQL["abandoned"], {"most": most, "silent_ms": silent_ms}).fetchall()
        return self._release([dict(row) for row in found]) if found else 0

    def _release(self, looks: list[Json]) -> int:
        with self._database.transaction("release_watches") as connection:
            return len(connection.execute(SQL["release"], {"looks": Jsonb(looks)}).fetchall())

    def files_since(self, asset_id: str, revision: int) -> Iterator[tuple[UUID, int]]:
        """Yield the keys and identities of the files that were stored after a revision."""
        with self._database.reading(unhurried=True) as connection, connection.cursor(name="files") as cursor:
            cursor.itersize = FILES_PER_STATEMENT
            for row in cursor.execute(SQL["files_since"], {"asset": asset_id, "revision": revision}):
                yield row["path_key"], row["identity"]

    def files(self, asset_id: str, paths: Collection[str]) -> Mapping[str, SeenFile]:
        """Return what is stored of some files, by path."""
        keys = [path_key(path) for path in paths]
        if not keys:
            return {}
        with self._database.connection() as connection:
            rows = connection.execute(SQL["files"], {"asset": asset_id, "keys": keys}).fetchall()
        return {row["path"]: _seen(row) for row in rows}

    def known_keys(self, asset_id: str, partitioning: Partitioning) -> Sequence[str]:
        """Return the keys of a source with dynamic partitions; none of others."""
        with self._database.connection() as connection:
            return seen_keys.read(connection, asset_id, partitioning)

    def directories(self) -> Sequence[Row]:
        """Return the watches of files: source, block and declaration."""
        with self._database.reading() as connection:
            return connection.execute(SQL["watched_directories"]).fetchall()

    def _record(self, looked: Looked) -> list[Reported]:
        watch, look = looked.watch, looked.look
        with self._database.transaction("record_look") as connection:
            held = _lock(connection, watch)
            reported = report.record_all(connection, self._reports(looked))
            if look.seen:
                _save_files(connection, watch.asset_id, look.seen, held["revision"] + 1)
            new = sum(not one["duplicate"] for one in reported)
            values: Row = {
                "asset": watch.asset_id,
                "position": Jsonb(look.position),
                "summary": look.summary,
                "conflicts": Jsonb(looked.conflicts()),
                "partial": look.partial,
                "revised": 1 if look.seen else 0,
                "reported": new,
                "pause_ms": looked.pause_ms,
                "took_ms": looked.took_ms,
            }
            connection.execute(SQL["record"], values)
        return reported

    def _reports(self, looked: Looked) -> list[Report]:
        """Return the reports. Versions of a snapshot source may come back, so only deliveries have keys."""
        watch = looked.watch
        delivers = watch.mode == "append"
        return [
            Report(
                watch.asset_id,
                found.partition_key,
                found.data_version,
                found.key if delivers else None,
                None,
                dict(found.payload) or None,
                event_id=new_id(),
                root=self._settings.known_root,
            )
            for found in looked.look.found
        ]


def _scope(kinds: Sequence[str], excluded: Collection[str], code: ProjectCode | None) -> dict[str, Any]:
    project, code_hash = code or (None, None)
    return {"kinds": list(kinds), "excluded": list(excluded), "project": project, "code_hash": code_hash}


def _lock(connection: Connection, watch: ClaimedWatch) -> Row:
    row = connection.execute(SQL["lock_claim"], {"asset": watch.asset_id, "claim": watch.claim}).fetchone()
    if row is None:
        raise FencedError(
            f"the watch of '{watch.asset_id}' was claimed by another process, or applied again, meanwhile"
        )
    return row


def _save_files(connection: Connection, asset_id: str, files: Sequence[SeenFile], revision: int) -> None:
    for first in range(0, len(files), FILES_PER_STATEMENT):
        part = files[first : first + FILES_PER_STATEMENT]
        values = {"asset": asset_id, "revision": revision, "files": Jsonb([_row(one) for one in part])}
        connection.execute(SQL["save_files"], values)


def _row(file: SeenFile) -> Json:
    size, version = file.was or (None, None)
    return {
        "path_key": str(path_key(file.path)),
        "path": file.path,
        "size": file.size,
        "version": file.version,
        "identity": identity(file.size, file.version),
        "state": file.state,
        "was_size": size,
        "was_version": version,
    }


def _seen(row: Row) -> SeenFile:
    was = None if row["was_size"] is None else (row["was_size"], row["was_version"])
    return SeenFile(row["path"], row["size"], row["version"], row["state"], was)
