"""The doctor's look at the warehouse: whose it is, whether every head's files are there, and what nobody needs.

What is read here changes while it is read: nothing is said about a directory that is young, or about
a head that has moved on meanwhile, and the database is asked again before anything is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from freshline.errors import WarehouseError
from freshline.storage import layout
from freshline.storage.base import StorageError, storage_at
from freshline.store.db.queries import load
from freshline.store.doctor.checks import Check, Finding, Severity
from freshline.store.store import Store

SQL = load("doctor")
BATCH = 500
YOUNG_S = 3600.0  # a worker that lost its run may still be writing; nobody does so for this long without a lease
_OURS = re.compile(r"(?P<run>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-\d+-\d+")

WAREHOUSE_ID = Check(
    "warehouse-id",
    Severity.ERROR,
    "the warehouse carries the id of the database (R12.3)",
    "set FRESHLINE_WAREHOUSE or FRESHLINE_DATABASE_URL so that both belong together, and look where the workers run",
)
HEAD_FILES = Check(
    "head-files",
    Severity.ERROR,
    "the files of every head are there, with the sizes that were recorded",
    "`freshline run` of its workflow writes it anew, also if the rows are the same; or restore the directory",
)
STAGING_LEFTOVER = Check(
    "staging-leftover",
    Severity.WARNING,
    "what a run staged and did not publish is removed",
    "`freshline doctor --fix` removes it; it takes space and nothing else",
    repair="removes directories of ended runs that no snapshot names and that are an hour old, or failed a check and "
    "were kept for FRESHLINE_KEEP_FAILED_HOURS",
)
DIRECTORY_UNKNOWN = Check(
    "directory-unknown",
    Severity.NOTE,
    "in the warehouse there is only what Freshline wrote",
    "look what it is; it is never removed for you",
)
WAREHOUSE_CHECKS = (WAREHOUSE_ID, HEAD_FILES, STAGING_LEFTOVER, DIRECTORY_UNKNOWN)


@dataclass(slots=True)
class _Found:
    """The first sentences of a check and the count of all, so that a ruined warehouse is a short answer too."""

    check: Check
    limit: int
    count: int = 0
    sentences: list[str] = field(default_factory=list)

    def add(self, sentence: str) -> None:
        self.count += 1
        if self.count <= self.limit:
            self.sentences.append(sentence)

    def finding(self) -> Finding:
        return Finding(self.check, self.count, self.sentences)


class Warehouse:
    """One warehouse and the database that it should belong to."""

    def __init__(self, store: Store) -> None:
        self._storage = storage_at(store.settings.warehouse_at)
        self._store = store
        self._database = store.database

    def examine(self, limit: int) -> tuple[Finding, ...]:
        """All checks. Those of files need a warehouse that is ours."""
        stranger = self._stranger()
        if stranger:
            return (Finding(WAREHOUSE_ID, 1, [stranger]), *(Finding(check) for check in WAREHOUSE_CHECKS[1:]))
        files, leftovers, unknown = (_Found(check, limit) for check in WAREHOUSE_CHECKS[1:])
        for sentence in self._damaged():
            files.add(sentence)
        for directory in self._leftovers():
            leftovers.add(f"{self._storage.at(directory)} was staged by a run that ended, and no snapshot names it")
        for path in self._unknown():
            unknown.add(f"{self._storage.at(path)} is nothing that Freshline wrote")
        return (Finding(WAREHOUSE_ID), files.finding(), leftovers.finding(), unknown.finding())

    def remove_leftovers(self) -> int:
        """Delete what no run and no snapshot needs; returns how many directories. Only in a warehouse that is ours."""
        if self._stranger():
            return 0
        removed = 0
        for directory in self._leftovers():
            self._storage.clear(directory)
            removed += 1
        return removed

    def _stranger(self) -> str | None:
        """Why nothing can be said about the files. A warehouse that nobody has written to yet is none."""
        try:
            found = layout.read_id(self._storage)
        except (WarehouseError, OSError) as error:
            return str(error)
        own = self._store.warehouse_id
        if found is not None and found != own:
            return f"the warehouse {self._storage} has the id '{found}', the database has '{own}'"
        if found is None and (self._storage.children("") or self._page()):
            return f"{self._storage} carries no id, and the database has tables or the directory is not empty"
        return None

    # --- heads ------------------------------------------------------------------------------------------------------

    def _damaged(self) -> Iterator[str]:
        asset, version = "", -1
        while rows := self._page(asset, version):
            for row in rows:
                differs = self._difference(row["location"])
                if differs and self._is_head(row):
                    where = self._storage.at(row["location"]["paths"][-1])
                    which = f"asset '{row['asset']}' version {row['sequence']}"
                    yield f"{which}: {where} is not what was written: {differs}"
            asset, version = rows[-1]["asset"], rows[-1]["version"]

    def _difference(self, location: dict[str, Any]) -> str:
        try:
            return layout.difference(self._storage, location)
        except StorageError as error:
            return str(error)

    def _page(self, asset: str = "", version: int = -1) -> list[dict[str, Any]]:
        with self._database.reading() as connection:
            return connection.execute(SQL["tables"], {"asset": asset, "version": version, "batch": BATCH}).fetchall()

    def _is_head(self, row: dict[str, Any]) -> bool:
        with self._database.reading() as connection:
            found = connection.execute(SQL["head_sequence"], {"asset": row["asset"]}).fetchone()
        return bool(found and found["sequence"] == row["sequence"])

    # --- directories ------------------------------------------------------------------------------------------------

    def _leftovers(self) -> Iterator[str]:
        """Directories of ours that no unfinished run, no snapshot and nobody who looks into a failed check needs.

        Few are not needed, so their age is looked at then; but after it the database is asked again.
        """
        ours = (path for path in self._directories() if _OURS.fullmatch(_last(path)))
        while some := list(islice(ours, BATCH)):
            old = [path for path in self._unneeded(some) if self._storage.age(path) > YOUNG_S]
            yield from self._unneeded(old)

    def _unneeded(self, directories: Iterable[str]) -> Iterator[str]:
        runs = {path: match["run"] for path in directories if (match := _OURS.fullmatch(_last(path)))}
        where = {
            "runs": sorted(set(runs.values())),
            "hours": self._store.settings.keep_failed_hours,
            "assets": sorted({path.split("/", 1)[0] for path in runs}),
            "paths": list(runs),
        }
        if not runs:
            return
        with self._database.reading() as connection:
            kept = connection.execute(SQL["kept_directories"], where).fetchall()
        needed, named = {row["run"] for row in kept}, {row["path"] for row in kept}
        for path, run in runs.items():
            if run not in needed and path not in named:
                yield path

    def _unknown(self) -> Iterator[str]:
        for path in self._directories():
            if not _OURS.fullmatch(_last(path)) and self._storage.age(path) > YOUNG_S:
                yield path

    def _directories(self) -> Iterator[str]:
        """Everything in `<asset>/data`."""
        for asset in self._storage.children(""):
            data = layout.data_directory(asset)
            yield from (f"{data}/{name}" for name in self._storage.children(data))


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1]
