"""The check of `freshline doctor` on Delta logs: each says what the database published, neither more nor less nor else.

Tables may be published meanwhile. The database is read before and after the log: the log must have what the database
had before, and must not have what the database does not have afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

from freshline.delta.log import READERS, REPAIR_MARKER, DeltaLog, TableVersion
from freshline.delta.sync import StoredVersion, stored_versions
from freshline.delta.unknown_logs import unknown_logs
from freshline.storage.base import Storage, StorageError, storage_at
from freshline.storage.layout import is_ours
from freshline.store.doctor.checks import Check, Finding, Severity, finding
from freshline.store.store import Store
from freshline.store.tables.versions import LoggedTable

BATCH = 500
COMPARED = 3  # of the newest commits of each log; and all that the database has still to write
MAX_COMPARED = 100
REPAIR_S = 600.0  # a repair takes less, or was killed

DELTA_LOG = Check(
    "delta-log",
    Severity.ERROR,
    "the Delta log of a table has the versions that the database published",
    "if the database was restored from a backup: `freshline table repair --all`, as in the restore steps of "
    "docs/deployment.md; for a single table: `freshline table repair ASSET`. Commits that the database does not know "
    "are kept beside the log",
)


def examine(store: Store, limit: int) -> Finding:
    """Compare the logs of all tables with the database; of a warehouse with another id none."""
    storage = storage_at(store.settings.warehouse_at)
    if not is_ours(storage, store.warehouse_id):
        return Finding(DELTA_LOG)
    return finding(DELTA_LOG, list(_differences(store, storage)), limit)


def _differences(store: Store, storage: Storage) -> Iterator[str]:
    after = ""
    while page := store.tables.logged(after, BATCH):
        with ThreadPoolExecutor(READERS) as pool:
            logs = list(pool.map(lambda one: _Examined(storage, one), page))
            later = {one.asset_id: one for one in store.tables.logged(after, BATCH)}
            tables = [later.get(log.table.asset_id) for log in logs]
            for sentences in pool.map(lambda log, table: log.compare(store, table), logs, tables):
                yield from sentences
        after = page[-1].asset_id
    for name, last in unknown_logs(store, storage).items():
        versions = f"version 0 to {last}" if last else "version 0"
        yield f"the Delta log of '{name}' has {versions}; the database has no version of this table"


class _Examined:
    """The log of one table as it was after `table` was read from the database."""

    def __init__(self, storage: Storage, table: LoggedTable) -> None:
        self.table = table
        self.log = DeltaLog(storage, table.asset_id)
        self.numbers: Sequence[int] = []
        self.last = -1
        self.trouble = ""
        try:
            self.numbers = self.log.numbers()
            self.last = max(self.log.files().values(), default=-1)
            marked = self.log.has_repair_marker()
            if marked and storage.age(f"{self.log.directory}/{REPAIR_MARKER}") > REPAIR_S:
                self.trouble = "a repair of it was not completed"
        except StorageError as error:
            self.trouble = f"it cannot be read: {error}"

    def compare(self, store: Store, later: LoggedTable | None) -> list[str]:
        """Return how the log differs from the database. `later`: the table when the log had been read."""
        which = f"the Delta log of '{self.table.asset_id}'"
        if self.trouble:
            return [f"{which}: {self.trouble}"]
        if later is None:  # more tables than before; the next doctor finds it
            return []
        found = []
        if self.last > later.newest:
            lost = f"{later.newest + 1} to {self.last}" if self.last > later.newest + 1 else f"{self.last}"
            found.append(f"{which} has version {lost}; the newest version of the database is {later.newest}")
        written = self.table.newest if self.table.pending is None else self.table.pending - 1
        first = min(written, self.last) - COMPARED + 1
        stored = stored_versions(
            self.table.asset_id, store.tables.versions(self.table.asset_id, max(0, first - 1), later.newest)
        )
        if self.last < written and written in stored and stored[written].is_shown:
            found.append(f"{which} ends at version {self.last}; the database has written version {written}")
        try:
            wrong = [n for n in self._compared(first, stored) if not _fits(self.log.text(n), stored[n].version)]
        except StorageError as error:
            return [f"{which}: it cannot be read: {error}"]
        if wrong:
            names = ", ".join(map(str, wrong))
            found.append(f"{which} has commits that the database did not publish: version {names}")
        return found

    def _compared(self, first: int, stored: Mapping[int, StoredVersion]) -> list[int]:
        shown = [n for n in self.numbers if n >= first and n in stored and stored[n].is_shown]
        return shown[:MAX_COMPARED]


def _fits(text: str | None, version: TableVersion) -> bool:
    """Return whether a commit can be that of a version: the directories of files are those of one run.

    A log that was rewritten may have other bytes, and a rollback may add no file.
    """
    if text is None:  # removed meanwhile: a checkpoint has it
        return True
    try:
        actions = [json.loads(line) for line in text.splitlines()]
        added = {unquote(one["add"]["path"]): one["add"]["size"] for one in actions if "add" in one}
        sequences = [one["txn"]["version"] for one in actions if "txn" in one]
    except (ValueError, KeyError, TypeError):
        return False
    if version.base < version.number or (version.key and version.files.items() <= added.items()):
        return version.files.items() <= added.items()
    return added.items() <= version.files.items() and (bool(added) or sequences == [version.sequence])
