"""The transactions about versions of tables: rollback_table, log_table, relog_table, mark_versions, remove_versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from freshline.counters import count
from freshline.decide.times import expires_at
from freshline.errors import ConflictError, FreshlineError, NotFoundError
from freshline.model.enums import EventType
from freshline.model.policy import Policy
from freshline.settings import Settings
from freshline.store.db.database import Connection, Database
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.operations import audit
from freshline.store.runs import publish

SQL = load("tables")
RUNS = load("runs")
DB = load("db")
# Longer than any transaction: a decision that read a head before it was marked has said by then what it is pinned to.
GRACE_MS = 600_000
# A log of thousands of versions in an object store is minutes of requests, which say nothing to the database.
LONG = "SET LOCAL idle_in_transaction_session_timeout = '10min'"
EVERY_TABLE = "*"
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unlogged:
    """A table version that its Delta log has not yet; `versions` reads what is known of it and of others."""

    asset_id: str
    number: int
    versions: Callable[[int, int], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Marked:
    """One page of tables: the last asset of it, how many there were, and how many versions are marked now."""

    last: str | None
    tables: int
    marked: int


class Tables:
    """What is done to the versions of tables, apart from publishing them."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def rollback(self, asset_id: str, version: int, *, partition_key: str = "") -> dict[str, Any]:
        """Make an earlier version current again, as a new snapshot with the same rows. Consumers run as for any change.

        Its inputs are those of the earlier version too, so increments are consumed again from there. If its rows are
        the current ones already, nothing is done: so it may be repeated.
        """
        where = {"asset": asset_id, "partition": partition_key}
        with self._database.transaction("rollback_table") as connection:
            asset = _head(connection, where)
            connection.execute(RUNS["lock_heads"], {"assets": [asset_id], "partition": partition_key})
            head = _head(connection, where)  # read when it is locked: a run may have published while we waited
            restored = connection.execute(SQL["restored"], {**where, "version": version}).fetchone()
            _refuse(asset_id, version, restored)
            assert restored is not None  # noqa: S101 - refused otherwise
            if restored["data_version"] == head["data_version"]:
                return {"asset_id": asset_id, "sequence": head["sequence"], "changed": False, **_same(head)}
            row = _restored_row(connection, head, restored, version)
            with audit.changing(connection, "rollback_table", asset_id, "head_state", asset_id) as noted:
                publish.append(connection, [_published(connection, asset, row, version)])
                noted["rolledBackTo"] = version
        self._database.ring("events")
        return {"asset_id": asset_id, "sequence": row["sequence"], "changed": True, **_same(row)}

    def write_log(self, write: Callable[[Unlogged], None]) -> bool:
        """Have `write` append one version to its table's Delta log, under the lock of that log; False: there is none.

        A `write` that fails is tried again later; the versions behind it wait.
        """
        with self._database.transaction("log_table", unhurried=True) as connection:
            row = connection.execute(SQL["next_commit"]).fetchone()
            if row is None:
                return False
            where = {"asset": row["asset_id"], "partition": row["partition_key"]}
            connection.execute(LONG)
            if _locked(connection, where):
                _log(connection, where, row["table_version"], write)
            else:
                connection.execute(SQL["commit_waits"], {**where, "version": row["table_version"]})
        return True

    def rewrite_log(self, asset_id: str, write: Callable[[Unlogged], None], *, partition_key: str = "") -> None:
        """Have `write` write the whole log of a table anew, while nobody else does."""
        where = {"asset": asset_id, "partition": partition_key}
        with self._database.transaction("relog_table", unhurried=True) as connection:
            connection.execute("SET LOCAL lock_timeout = '30s'")
            connection.execute(LONG)
            connection.execute(SQL["lock_log"], where)
            number = _newest(connection, where)  # read when the log is ours: what is published from now on waits
            with audit.changing(connection, "relog_table", asset_id, "log_state", asset_id):
                write(_unlogged(connection, where, number))
                connection.execute(SQL["committed"], {**where, "version": number})

    def mark_versions(self, after: str, batch: int, *, only: str | None = None) -> Marked:
        """Mark what nobody needs of a page of tables; the files stay for a while (R9.8)."""
        keep = {"versions": self._settings.keep_versions, "age_ms": self._settings.keep_tables_ms}
        with self._database.transaction("mark_versions") as connection:
            row = connection.execute(
                SQL["mark_versions"], {**keep, "after": after, "batch": batch, "only": only}
            ).fetchone()
            assert row is not None  # noqa: S101 - it is a row of counts
            audit.note(connection, "mark_versions", only or EVERY_TABLE, marked=row["marked"])
        count("versions_marked", row["marked"])
        return Marked(row["last"], row["tables"], row["marked"])

    def remove_versions(self, batch: int, *, only: str | None = None, grace_ms: int = GRACE_MS) -> list[dict[str, Any]]:
        """Versions whose files may be deleted from now on. What a run was pinned to in the meantime is spared."""
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
        """Of these directories, those that no version needs whose files are still to be there."""
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
    def versions(first: int, last: int) -> list[dict[str, Any]]:
        return connection.execute(SQL["versions"], {**where, "first": first, "last": last}).fetchall()

    return Unlogged(where["asset"], number, versions)


def _same(row: Row) -> dict[str, Any]:
    return {key: row[key] for key in ("data_version", "table_version")}


def _head(connection: Connection, where: Row) -> dict[str, Any]:
    return _known(where, connection.execute(SQL["table_head"], where).fetchone())


def _newest(connection: Connection, where: Row) -> int:
    number: int | None = _known(where, connection.execute(SQL["newest_version"], where).fetchone())["number"]
    if number is None:
        raise ConflictError(f"asset '{where['asset']}' has no table")
    return number


def _known(where: Row, row: dict[str, Any] | None) -> dict[str, Any]:
    if row is None:
        raise NotFoundError(f"there is no asset '{where['asset']}'; `freshline status` lists them")
    return row


def _refuse(asset_id: str, version: int, restored: Row | None) -> None:
    if restored is None:
        raise NotFoundError(f"asset '{asset_id}' has no version {version}; `freshline show {asset_id}` shows one")
    if restored["gone_at"] is not None:
        raise ConflictError(
            f"version {version} of '{asset_id}' is not kept any more; its files are gone or will be soon"
        )
    if not restored["location"] or "files" not in restored["location"]:
        raise ConflictError(f"version {version} of '{asset_id}' is no table of ours, so there is nothing to go back to")


def _restored_row(connection: Connection, head: Row, restored: Row, version: int) -> dict[str, Any]:
    """The new snapshot: the old rows, under a new number. It lists all directories itself, so it begins a new table."""
    paths = [path for _, path in restored["parts"]] if restored["parts"] else restored["location"]["paths"]
    number = head["table_version"] + 1
    kept = ("asset_id", "partition_key", "data_version", "schema", "rows", "bytes", "checks", "workflow_id", "step_id")
    return {
        **{name: restored[name] for name in (*kept, "inputs", "sources", "payload")},
        "sequence": head["last_sequence"] + 1,
        "changed": True,
        "difference": {"rolledBack": [str(version)]},
        "table_version": number,
        "base_version": number,
        "location": {**restored["location"], "paths": paths, "files": restored["all_files"]},
        "produced_at": _now(connection).isoformat(),
        "event_id": new_id(),
    }


def _published(connection: Connection, asset: Row, row: dict[str, Any], version: int) -> publish.Published:
    """The freshness clock starts again, as after a run."""
    since = datetime.fromisoformat(row["produced_at"])
    found = connection.execute(RUNS["policy"], {"workflow": asset["producer_id"]}).fetchone()
    policy = Policy.from_json(found["policy"]) if found else None
    freshness = next((one.freshness for one in policy.outputs if one.asset_id == asset["id"]), None) if policy else None
    expiry = expires_at(freshness, since) if freshness else None
    row["expires_at"] = expiry[0].isoformat() if expiry else None
    if freshness:
        publish.arm(connection, list(publish.timers(row, freshness, since, expiry)))
    data = publish.produced_data(row, found["slug"] if found else None, asset["declaration"].get("freshness"), None)
    event = publish.asset_event(
        row["event_id"],
        EventType.ASSET_PRODUCED,
        {**data, "rolledBackTo": version},
        "changed",
    )
    return publish.Published(row, event, (), None)


def _now(connection: Connection) -> datetime:
    row = connection.execute(DB["now"]).fetchone()
    assert row is not None  # noqa: S101 - it is one value
    now: datetime = row["now"]
    return now
