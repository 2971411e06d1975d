"""The checks of `freshline doctor` on the warehouse: id, age, files of heads, leftovers, lost and unknown directories.

The warehouse may change during the checks. So young directories and heads that moved meanwhile are skipped, and the
database is read again before anything is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from freshline.errors import WarehouseError
from freshline.model.json import Json
from freshline.model.state import reference
from freshline.storage import layout
from freshline.storage.base import StorageError, storage_at
from freshline.store.db.database import Row
from freshline.store.db.ids import id_time_ms
from freshline.store.db.queries import load
from freshline.store.doctor.checks import Check, Finding, Severity
from freshline.store.doctor.restore import DATABASE_OLDER, TOKEN_REVIVED, RestoreCheck
from freshline.store.store import Store

SQL = load("doctor")
BATCH = 500
YOUNG_S = 3600.0  # a worker that lost its run may still be writing, but not for this long without a lease
_STAGING = re.compile(r"(?P<run>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-\d+-\d+")

WAREHOUSE_ID = Check(
    "warehouse-id",
    Severity.ERROR,
    "the warehouse has the id of the database",
    "set FRESHLINE_WAREHOUSE or FRESHLINE_DATABASE_URL so that both match; run the doctor where the workers run",
)
HEAD_FILES = Check(
    "head-files",
    Severity.ERROR,
    "the files of every head exist, with the recorded sizes",
    "`freshline run` of its workflow rewrites it, also if the rows are the same; or restore the directory",
)
STAGING_LEFTOVER = Check(
    "staging-leftover",
    Severity.WARNING,
    "staged output that was not published is removed",
    "`freshline doctor --fix` removes it; it only takes space",
    repair="removes directories of ended runs that no snapshot names and that are an hour old, or failed a check and "
    "were kept for FRESHLINE_KEEP_FAILED_HOURS",
)
DIRECTORY_LOST = Check(
    "directory-lost",
    Severity.NOTE,
    "the database knows the runs that wrote tables within the retention",
    "nothing has to be done: it is removed after FRESHLINE_KEEP_DAYS; until then the rows can be read from there",
)
DIRECTORY_UNKNOWN = Check(
    "directory-unknown",
    Severity.NOTE,
    "the warehouse contains only tables and files that Freshline wrote",
    "inspect it; it is never removed automatically",
)
FILE_CHECKS = (HEAD_FILES, STAGING_LEFTOVER, DIRECTORY_LOST, DIRECTORY_UNKNOWN)
WAREHOUSE_CHECKS = (WAREHOUSE_ID, DATABASE_OLDER, TOKEN_REVIVED, *FILE_CHECKS)


@dataclass(slots=True)
class _Found:
    """The first sentences of a check and the number of all, so that the answer stays short."""

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
    """A warehouse and the database that it should belong to."""

    def __init__(self, store: Store) -> None:
        self._storage = storage_at(store.settings.warehouse_at)
        self._store = store
        self._database = store.database

    def examine(self, limit: int) -> tuple[Finding, ...]:
        """Run all checks. Those of files need a warehouse with the id of the database."""
        mismatch = self._id_mismatch()
        if mismatch:
            return (Finding(WAREHOUSE_ID, 1, [mismatch]), *(Finding(check) for check in WAREHOUSE_CHECKS[1:]))
        files, leftovers, lost, unknown = (_Found(check, limit) for check in FILE_CHECKS)
        for sentence in self._damaged_heads():
            files.add(sentence)
        for directory in self._leftovers():
            leftovers.add(f"{self._storage.at(directory)} was staged by a run that ended, and no snapshot names it")
        for path in self._lost():
            lost.add(f"{self._storage.at(path)} was written by a run that the database does not know")
        for path in self._unknown():
            unknown.add(f"{self._storage.at(path)} was not written by Freshline")
        restored = RestoreCheck(self._database, self._storage).examine(limit)
        return (Finding(WAREHOUSE_ID), *restored, *(one.finding() for one in (files, leftovers, lost, unknown)))

    def remove_leftovers(self) -> int:
        """Delete directories that no run and no snapshot needs, and return how many.

        Delete nothing in a warehouse with another id.
        """
        if self._id_mismatch():
            return 0
        removed = 0
        for directory in self._leftovers():
            self._storage.clear(directory)
            removed += 1
        return removed

    def _id_mismatch(self) -> str | None:
        """Return why the warehouse is not that of the database; None if it is, or if it is still empty."""
        try:
            found = layout.read_id(self._storage)
        except (WarehouseError, OSError) as error:
            return str(error)
        own = self._store.warehouse_id
        if found is not None and found != own:
            return f"the warehouse {self._storage} has the id '{found}', the database has '{own}'"
        if found is None and (self._storage.children("") or self._page()):
            return f"{self._storage} has no id, and the database has tables or the directory is not empty"
        return None

    # --- heads ------------------------------------------------------------------------------------------------------

    def _damaged_heads(self) -> Iterator[str]:
        asset, version, key = "", -1, ""
        while rows := self._page(asset, version, key):
            for row in rows:
                differs = self._difference(row["location"])
                if differs and self._is_head(row):
                    where = self._storage.at(row["location"]["paths"][-1])
                    which = f"asset '{reference(row['asset'], row['key'])}' version {row['sequence']}"
                    yield f"{which}: {where} differs from what was written: {differs}"
            asset, version, key = rows[-1]["asset"], rows[-1]["version"], rows[-1]["key"]

    def _difference(self, location: Json) -> str:
        try:
            return layout.difference(self._storage, location)
        except StorageError as error:
            return str(error)

    def _page(self, asset: str = "", version: int = -1, key: str = "") -> Sequence[Row]:
        where = {"asset": asset, "version": version, "key": key, "batch": BATCH}
        with self._database.reading() as connection:
            return connection.execute(SQL["tables"], where).fetchall()

    def _is_head(self, row: Row) -> bool:
        with self._database.reading() as connection:
            found = connection.execute(SQL["head_sequence"], {"asset": row["asset"], "key": row["key"]}).fetchone()
        return bool(found and found["sequence"] == row["sequence"])

    # --- directories ------------------------------------------------------------------------------------------------

    def _leftovers(self) -> Iterator[str]:
        """Yield staging directories that no unfinished run, snapshot or kept failed check needs.

        Reading an age is slow in an object store, so only directories that the database does not need are aged. The
        database is read again afterwards, since it may have changed meanwhile.
        """
        for some in self._staged():
            lost = self._of_lost_runs(some)
            old = [path for path in self._unneeded(some) if path not in lost and self._storage.age(path) > YOUNG_S]
            yield from self._unneeded(old)

    def _lost(self) -> Iterator[str]:
        """Yield directories of runs that a restored database has lost. They may be all that is left of the rows."""
        for some in self._staged():
            lost = self._of_lost_runs(some)
            yield from (path for path in self._unneeded(some) if path in lost)

    def _staged(self) -> Iterator[list[str]]:
        staged = (path for path in self._directories() if _STAGING.fullmatch(_last(path)))
        while some := list(islice(staged, BATCH)):
            yield some

    def _of_lost_runs(self, directories: Iterable[str]) -> set[str]:
        """Return the directories of unknown runs whose ids are too young for the retention to have deleted them."""
        runs = _runs(directories)
        where = {"runs": sorted(set(runs.values())), "days": self._store.settings.keep_days}
        with self._database.reading() as connection:
            row = connection.execute(SQL["known_runs"], where).fetchone()
        assert row is not None  # noqa: S101 - it is one row of values
        since, known = int(row["since"].timestamp() * 1000), set(row["known"])
        return {path for path, run in runs.items() if run not in known and id_time_ms(run) > since}

    def _unneeded(self, directories: Iterable[str]) -> Iterator[str]:
        runs = _runs(directories)
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
            if not _STAGING.fullmatch(_last(path)) and self._storage.age(path) > YOUNG_S:
                yield path

    def _directories(self) -> Iterator[str]:
        """Yield every directory in `<asset>/data`."""
        for asset in self._storage.children(""):
            data = layout.data_directory(asset)
            yield from (f"{data}/{name}" for name in self._storage.children(data))


def _runs(directories: Iterable[str]) -> dict[str, str]:
    """Return the run of each staging directory."""
    return {path: match["run"] for path in directories if (match := _STAGING.fullmatch(_last(path)))}


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1]
