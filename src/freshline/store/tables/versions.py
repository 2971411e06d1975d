"""The transactions about versions of tables: rollback, Delta log, marking and removal of old versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from psycopg.types.json import Jsonb

from freshline.counters import count
from freshline.decide.times import expires_at
from freshline.errors import ConflictError, FreshlineError, NotFoundError
from freshline.model.enums import EventType
from freshline.model.json import Json
from freshline.model.policy import Policy
from freshline.model.state import reference
from freshline.partitions import document
from freshline.settings import Settings
from freshline.store import partition_timers
from freshline.store.db.database import Connection, Database, Row
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.operations import audit
from freshline.store.operations.targets import existing_partition
from freshline.store.runs.events import asset_event, produced_data
from freshline.store.runs.publish import Published, append
from freshline.store.runs.timers import set_timers, timers
from freshline.store.tables.schemas import table_schema

SQL = load("tables")
RUNS = load("runs")
DB = load("db")
# Longer than any transaction: a decision that read a head before it was marked has stored its pins by then.
GRACE_MS = 600_000
# Writing a log of thousands of versions to an object store takes minutes without a statement.
LONG = "SET LOCAL idle_in_transaction_session_timeout = '10min'"
EVERY_TABLE = "*"


@dataclass(frozen=True, slots=True)
class Unlogged:
    """A table version that is not in the Delta log yet.

    `versions(first, last)` reads the rows of versions. `table_at(version, key)` reads those that the table consisted of
    at a version: of one partition, or of all if the key is None.
    """

    asset_id: str
    number: int
    versions: Callable[[int, int], list[Json]]
    table_at: Callable[[int, str | None], list[Json]]


@dataclass(frozen=True, slots=True)
class Marked:
    """One page of tables: its last asset, the number of tables, and the number of versions marked."""

    last: str | None
    tables: int
    marked: int


class LoggedTable(NamedTuple):
    """A table: its newest version, and the lowest one that is not in the Delta log yet; None if all are."""

    asset_id: str
    newest: int
    pending: int | None


class RolledBack(NamedTuple):
    """The current version after a rollback. `changed` is False if it was current before."""

    sequence: int
    data_version: str
    table_version: int
    changed: bool


class Tables:
    """Transactions on versions of tables, except publication."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def rollback(self, asset_id: str, version: int, *, partition_key: str = "") -> RolledBack:
        """Make an earlier version current again, as a new snapshot with the same rows. Consumers run as for any change.

        Of a partition, `version` is one of the whole table: the partition gets the rows that it had there.
        The snapshot has the inputs of the earlier version, so increments are consumed again from there. If the rows are
        current already, nothing happens, so a repetition is safe.
        """
        with self._database.transaction("rollback_table") as connection:
            key = _partition_of(connection, asset_id, partition_key)
            where = {"asset": asset_id, "partition": key}
            asset = _head(connection, where)
            connection.execute(RUNS["lock_heads"], {"assets": [asset_id], "partition": key})
            head = _head(connection, where)  # read after the lock: a run may have published meanwhile
            found = SQL["restored_partition" if key else "restored"]
            restored = connection.execute(found, {**where, "version": version}).fetchone()
            _refuse(reference(asset_id, key), version, restored)
            assert restored is not None  # noqa: S101 - refused otherwise
            if restored["data_version"] == head["data_version"] and head["retired_at"] is None:
                return _rolled_back(head, changed=False)
            row = _restored_row(connection, head, restored, version)
            with audit.changing(
                connection, "rollback_table", reference(asset_id, key), "head_state", asset_id
            ) as noted:
                append(connection, [_published(connection, asset, row, version)])
                noted["rolledBackTo"] = version
        self._database.notify("events", "timers")
        return _rolled_back(row, changed=True)

    def write_log(self, write: Callable[[Unlogged], None]) -> bool:
        """Let `write` append one version to its table's Delta log, under the log's lock. Return False if none is due.

        A failed `write` is tried again later; later versions of the table wait for it.
        """
        with self._database.transaction("log_table", unhurried=True) as connection:
            row = connection.execute(SQL["next_commit"]).fetchone()
            if row is None:
                return False
            where = {"asset": row["asset_id"]}
            connection.execute(LONG)
            if _locked(connection, where):
                _log(connection, where, row["table_version"], write)
            else:
                connection.execute(SQL["commit_waits"], {**where, "version": row["table_version"]})
        return True

    def rewrite_log(self, asset_id: str, write: Callable[[Unlogged], None]) -> int:
        """Let `write` rewrite the whole log of a table, under the log's lock. Return its newest version."""
        where = {"asset": asset_id}
        with self._database.transaction("relog_table", unhurried=True) as connection:
            _lock_log(connection, where)
            number = _newest(connection, where)  # read after the lock: later publications wait
            with audit.changing(connection, "relog_table", asset_id, "log_state", asset_id):
                write(_unlogged(connection, where, number))
                connection.execute(SQL["committed"], {**where, "version": number})
        return number

    def clear_log(self, asset_id: str, clear: Callable[[], None]) -> bool:
        """Let `clear` remove the log of a table of which the database has no version, under the log's lock.

        Return False, and remove nothing, if the database has one.
        """
        where = {"asset": asset_id}
        with self._database.transaction("relog_table", unhurried=True) as connection:
            _lock_log(connection, where)
            row = connection.execute(SQL["newest_version"], where).fetchone()
            if row is not None and row["number"] is not None:
                return False
            clear()
            audit.note(connection, "relog_table", asset_id, cleared=True)
        return True

    def logged(self, after: str, batch: int) -> list[LoggedTable]:
        """Return a page of tables, by asset."""
        with self._database.reading() as connection:
            rows = connection.execute(SQL["logged_tables"], {"after": after, "batch": batch}).fetchall()
        return [LoggedTable(row["asset"], row["newest"], row["pending"]) for row in rows]

    def versions(self, asset_id: str, first: int, last: int) -> list[Json]:
        """Return the rows of a range of versions of a table."""
        where = {"asset": asset_id, "first": first, "last": last}
        with self._database.reading() as connection:
            return connection.execute(SQL["versions"], where).fetchall()

    def mark_versions(self, after: str, batch: int, *, only: str | None = None) -> Marked:
        """Mark unneeded versions of a page of tables; their files stay for a while (docs/semantics.md#R9.8)."""
        keep = {"versions": self._settings.keep_versions, "age_ms": self._settings.keep_tables_ms}
        with self._database.transaction("mark_versions") as connection:
            row = connection.execute(
                SQL["mark_versions"], {**keep, "after": after, "batch": batch, "only": only}
            ).fetchone()
            assert row is not None  # noqa: S101 - it is a row of counts
            audit.note(connection, "mark_versions", only or EVERY_TABLE, marked=row["marked"])
        count("versions_marked", row["marked"])
        return Marked(row["last"], row["tables"], row["marked"])

    def remove_versions(self, batch: int, *, only: str | None = None, grace_ms: int = GRACE_MS) -> list[Json]:
        """Return the versions whose files may be deleted. Versions that a run was pinned to meanwhile are kept."""
        with self._database.transaction("remove_versions") as connection:
            wanted = {"batch": batch, "only": only, "grace_ms": grace_ms}
            gone = connection.execute(SQL["gone_versions"], wanted).fetchall()
            rows = Jsonb([{key: value for key, value in row.items() if key != "location"} for row in gone])
            spared = connection.execute(SQL["spared"], {"rows": rows}).fetchall()
            connection.execute(SQL["spare"], {"rows": Jsonb(spared)})
            kept = {(row["asset_id"], row["partition_key"], row["sequence"]) for row in spared}
            removed = [row for row in gone if (row["asset_id"], row["partition_key"], row["sequence"]) not in kept]
            keys = [{key: row[key] for key in ("asset_id", "partition_key", "sequence")} for row in removed]
            connection.execute(SQL["removed"], {"rows": Jsonb(keys)})
            audit.note(connection, "remove_versions", only or EVERY_TABLE, removed=len(removed))
        count("versions_removed", len(removed))
        return removed

    def unnamed(self, assets: Sequence[str], paths: Sequence[str]) -> set[str]:
        """Return those of the directories that no kept version needs."""
        with self._database.connection() as connection:
            named = connection.execute(SQL["named_paths"], {"assets": list(assets), "paths": list(paths)}).fetchall()
        return set(paths) - {row["path"] for row in named}


def _locked(connection: Connection, where: Row) -> bool:
    row = connection.execute(SQL["try_lock_log"], where).fetchone()
    return row is not None and row["locked"]


def _log(connection: Connection, where: Row, number: int, write: Callable[[Unlogged], None]) -> None:
    at = {**where, "version": number}
    try:
        write(_unlogged(connection, where, number))
    except (OSError, FreshlineError) as error:
        connection.execute(SQL["commit_failed"], {**at, "trouble": str(error)[:2_000]})
        count("table_commits", result="failed")
    else:
        connection.execute(SQL["committed"], at)
        count("table_commits", result="written")


def _unlogged(connection: Connection, where: Row, number: int) -> Unlogged:
    def versions(first: int, last: int) -> list[Json]:
        return connection.execute(SQL["versions"], {**where, "first": first, "last": last}).fetchall()

    def table_at(version: int, key: str | None) -> list[Json]:
        return connection.execute(SQL["table_at"], {**where, "version": version, "key": key}).fetchall()

    return Unlogged(where["asset"], number, versions, table_at)


def _rolled_back(row: Row, *, changed: bool) -> RolledBack:
    return RolledBack(row["sequence"], row["data_version"], row["table_version"], changed)


def _head(connection: Connection, where: Row) -> Row:
    return _known(where, connection.execute(SQL["table_head"], where).fetchone())


def _lock_log(connection: Connection, where: Row) -> None:
    """Wait for other writers of the log, and exclude them."""
    connection.execute("SET LOCAL lock_timeout = '30s'")
    connection.execute(LONG)
    connection.execute(SQL["lock_log"], where)


def _newest(connection: Connection, where: Row) -> int:
    number: int | None = _known(where, connection.execute(SQL["newest_version"], where).fetchone())["number"]
    if number is None:
        raise ConflictError(f"asset '{where['asset']}' has no table")
    return number


def _partition_of(connection: Connection, asset_id: str, partition_key: str) -> str:
    """Return the canonical key of a partition of the asset; the empty one of an asset without partitions."""
    row = _known({"asset": asset_id}, connection.execute(SQL["partitioning"], {"asset": asset_id}).fetchone())
    partitioning = document.from_json(row["partitioning"])
    return existing_partition(connection, f"asset '{asset_id}'", asset_id, partitioning, partition_key)


def _known(where: Row, row: Row | None) -> Row:
    if row is None:
        raise NotFoundError(f"asset '{where['asset']}' does not exist; `freshline status` lists them")
    return row


def _refuse(asset_id: str, version: int, restored: Row | None) -> None:
    if restored is None:
        raise NotFoundError(f"asset '{asset_id}' has no version {version}; `freshline table versions` of it lists them")
    if restored["gone_at"] is not None:
        raise ConflictError(
            f"version {version} of '{asset_id}' is not kept any more; its files are gone or will be soon"
        )
    if not restored["location"] or "files" not in restored["location"]:
        raise ConflictError(
            f"version {version} of '{asset_id}' is not a table of this warehouse, so it cannot be restored"
        )


def _restored_row(connection: Connection, head: Row, restored: Row, version: int) -> Json:
    """Return the new snapshot: the old rows under a new version that lists all directories itself."""
    paths = [path for _, path in restored["parts"]] if restored["parts"] else restored["location"]["paths"]
    number = head["table_version"] + 1
    kept = (
        "asset_id",
        "partition_key",
        "data_version",
        "schema",
        "rows",
        "bytes",
        "checks",
        "code",
        "workflow_id",
        "step_id",
    )
    origin = ("inputs", "sources", "mixed", "mixed_from", "payload")
    return {
        **{name: restored[name] for name in (*kept, *origin)},
        "sequence": head["last_sequence"] + 1,
        "changed": True,
        "difference": {"rolledBack": [str(version)]},
        "table_version": number,
        "base_version": number,
        "location": {**_whole(head, restored), "paths": paths, "files": restored["all_files"]},
        "produced_at": _now(connection).isoformat(),
        "event_id": new_id(),
    }


def _whole(head: Row, restored: Row) -> Json:
    """Return the restored location, of a partition with the columns that the whole table has now."""
    location = {name: value for name, value in restored["location"].items() if name != "tableSchema"}
    if not restored["partition_key"] or not head["schema"]:
        return location
    whole = table_schema(head["schema"], restored["schema"])
    return location if whole == restored["schema"] else {**location, "tableSchema": whole}


def _published(connection: Connection, asset: Row, row: Json, version: int) -> Published:
    """Add the event, and restart the freshness timers as after a run."""
    since = datetime.fromisoformat(row["produced_at"])
    found = connection.execute(RUNS["policy"], {"workflow": asset["producer_id"]}).fetchone()
    policy = Policy.from_json(found["policy"]) if found else None
    freshness = next((one.freshness for one in policy.outputs if one.asset_id == asset["id"]), None) if policy else None
    if policy and freshness:
        clocks = partition_timers.running(connection, policy, row["partition_key"], {asset["id"]: freshness}, since)
        freshness = clocks[asset["id"]]
    expiry = expires_at(freshness, since) if freshness else None
    row["expires_at"] = expiry[0].isoformat() if expiry else None
    if freshness:
        set_timers(connection, list(timers(asset["id"], row["partition_key"], freshness, since)))
    data = produced_data(row, found["slug"] if found else None, asset["declaration"].get("freshness"), None)
    event = asset_event(
        row["event_id"],
        EventType.ASSET_PRODUCED,
        {**data, "rolledBackTo": version},
        "changed",
    )
    return Published(row, event)


def _now(connection: Connection) -> datetime:
    row = connection.execute(DB["now"]).fetchone()
    assert row is not None  # noqa: S101 - it is one value
    now: datetime = row["now"]
    return now
