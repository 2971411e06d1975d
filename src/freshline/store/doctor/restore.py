"""Detects that the database is older than the warehouse: it was restored from a backup, the warehouse was not.

A file in the warehouse, the mark, has the position and the id of the last event, and the tokens that were revoked. The
vacuum renews it every minute. A database that never gave out this position, or gave it to another event, is not the one
that wrote the mark. Then the mark stays as it is until `freshline db restored` confirms the restore.

The mark may be a minute old. It does not show what was lost within that minute.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime

from freshline.errors import WarehouseError
from freshline.storage.base import Storage
from freshline.store.db.database import Database, Row
from freshline.store.db.queries import load
from freshline.store.doctor.checks import Check, Finding, Severity, finding

SQL = load("doctor")
MARK_FILE = "freshline-mark.json"
MAX_REVOKED = 10_000

DATABASE_OLDER = Check(
    "database-older",
    Severity.ERROR,
    "the database has every event that the warehouse knows of",
    "if a backup was restored: follow the restore steps of docs/deployment.md, then `freshline db restored`; if not, "
    "this is the wrong database: set FRESHLINE_DATABASE_URL. Until then no files are removed",
)
TOKEN_REVIVED = Check(
    "token-revived",
    Severity.ERROR,
    "no token is valid that was revoked after the backup which the database was restored from",
    "`freshline token revoke NAME`; review the others with `freshline token list`",
)
SUMMARY = "the database is older than the warehouse, no files are removed; `freshline doctor` says what to do"


@dataclass(frozen=True, slots=True)
class Mark:
    """The last event that the database had, and the ids of the tokens that were revoked and had not expired."""

    at: str
    position: int
    event: str
    revoked: tuple[str, ...]


class RestoreCheck:
    """Compares the mark in a warehouse with the database that the warehouse belongs to."""

    def __init__(self, database: Database, storage: Storage) -> None:
        self._database = database
        self._storage = storage

    def advance(self) -> bool:
        """Renew the mark. Return False, and change nothing, if the database is older than the mark."""
        mark = self._read()
        if mark is not None and self._lost(mark) is not None:
            return False
        self._write(mark)
        return True

    def accept(self) -> Mark | None:
        """Replace the mark by one of this database, and return the old one if it did not fit."""
        try:
            mark = self._read()
        except WarehouseError:
            mark = None
        lost = self._lost(mark) if mark else None
        if lost:  # a database without any event gets no new mark
            self._storage.remove([MARK_FILE])
        self._write(None)
        return mark if lost else None

    def examine(self, limit: int) -> tuple[Finding, Finding]:
        """Return whether the database is older, and which tokens became valid again."""
        try:
            mark = self._read()
        except WarehouseError as error:
            return Finding(DATABASE_OLDER, 1, [str(error)]), Finding(TOKEN_REVIVED)
        lost = self._lost(mark) if mark else None
        if mark is None or lost is None:
            return Finding(DATABASE_OLDER), Finding(TOKEN_REVIVED)
        with self._database.reading() as connection:
            tokens = connection.execute(SQL["valid_tokens"], {"revoked": list(mark.revoked), "at": mark.at}).fetchall()
        others = [row["name"] for row in tokens if not row["revived"]]
        older = [lost]
        if others:
            older.append(f"tokens that are valid and may have been revoked since the backup: {', '.join(others)}")
        revived = [f"token '{row['name']}' was revoked, and is valid again" for row in tokens if row["revived"]]
        return Finding(DATABASE_OLDER, 1, older), finding(TOKEN_REVIVED, revived, limit)

    def _lost(self, mark: Mark) -> str | None:
        """Return how the database differs from the one that wrote the mark; None if it is the same."""
        with self._database.reading() as connection:
            row = connection.execute(SQL["marked_event"], {"position": mark.position}).fetchone()
        assert row is not None  # noqa: S101 - it is one row of values
        what = f"the warehouse knows event {mark.event} at position {mark.position}, of {mark.at}"
        if row["last"] < mark.position:
            return f"{what}; the last position of the database is {row['last']}"
        if row["event"] is not None and row["event"] != mark.event:
            return f"{what}; the database has event {row['event']} at this position"
        return None  # also if the event is older than the retention

    def _read(self) -> Mark | None:
        try:
            found = json.loads(self._storage.read(MARK_FILE))
            mark = Mark(str(found["at"]), int(found["position"]), str(found["event"]), tuple(found["revoked"]))
            datetime.fromisoformat(mark.at)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise WarehouseError(
                f"{self._storage.at(MARK_FILE)} is damaged",
                hint="remove this one file; no table is affected. The materializer writes it again; until then a "
                "database that is older than the warehouse is not noticed",
            ) from None
        return mark

    def _write(self, before: Mark | None) -> None:
        """Write the mark of this database, unless it says the same."""
        with self._database.reading() as connection:
            row: Row | None = connection.execute(SQL["mark"], {"limit": MAX_REVOKED}).fetchone()
        assert row is not None  # noqa: S101 - it is one row of values
        if row["position"] is None:  # nothing has happened yet, or all of it is older than the retention
            return
        now = Mark(row["at"].isoformat(), row["position"], row["event"], tuple(row["revoked"]))
        if before is None or (before.position, before.revoked) != (now.position, now.revoked):
            self._storage.replace(MARK_FILE, json.dumps(asdict(now)).encode())
