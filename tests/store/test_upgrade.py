"""An installation of 0.1 after all migrations: nothing is lost, nothing runs because of it, everything is readable.

The fixture is described in tests/fixtures/v0_1/README.md. Tables and columns are compared by their numbers in the
system catalogue, which survive renames, so that later migrations are covered as well.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from freshline.cli.main import cli
from freshline.errors import SchemaError
from freshline.store.db import migrate
from tests.store_harness import laboratory

FIXTURE = Path(__file__).parents[1] / "fixtures" / "v0_1"
EXPECTED = json.loads((FIXTURE / "expected.json").read_text(encoding="utf-8"))
TAKEN_AT = datetime.fromisoformat(EXPECTED["taken_at"])
JOBS = "SELECT slug, job_fingerprint AS job FROM workflows ORDER BY slug"
TABLES = """
SELECT c.oid, c.oid::regclass::text AS name, array_agg(a.attnum ORDER BY a.attnum) AS numbers,
       array_agg(a.attname ORDER BY a.attnum) AS columns, array_agg(a.atttypid ORDER BY a.attnum) AS types
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname <> 'freshline_migrations'
 GROUP BY c.oid
"""


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a table as texts, by column number."""

    name: str
    types: dict[int, int]
    rows: list[dict[int, str | None]]

    def only(self, columns: list[int]) -> Counter[tuple[str | None, ...]]:
        """Return the rows with these columns."""
        return Counter(tuple(row[one] for one in columns) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Installation:
    """A project with the database and the warehouse of 0.1."""

    project: Path
    url: str

    def freshline(self, *arguments: str) -> Any:
        """Return the JSON answer of a command that must succeed."""
        result = CliRunner().invoke(cli, [*arguments, "--json"])
        assert result.exit_code == 0, f"{arguments}: {result.output} {result.exception!r}"
        return json.loads(result.stdout)

    def contents(self) -> dict[int, Table]:
        """Return all tables by their object id."""
        with psycopg.connect(self.url) as conn:
            found = conn.execute(TABLES).fetchall()
            return {oid: _table(conn, name, *columns) for oid, name, *columns in found}


def _table(conn: psycopg.Connection[Any], name: str, numbers: list[int], columns: list[str], types: list[int]) -> Table:
    texts = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(one)) for one in columns)
    rows = conn.execute(sql.SQL("SELECT {} FROM {}").format(texts, sql.SQL(name))).fetchall()
    return Table(name, dict(zip(numbers, types, strict=True)), [dict(zip(numbers, row, strict=True)) for row in rows])


@pytest.fixture
def old(empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """Restore the installation of 0.1, not upgraded yet, with the clock at the moment of the dump."""
    project = tmp_path / "upgrade"
    shutil.copytree(FIXTURE / "project", project)
    shutil.copytree(FIXTURE / "warehouse", project / ".freshline" / "warehouse")
    dump = gzip.decompress((FIXTURE / "database.sql.gz").read_bytes()).decode().replace("/srv/upgrade", str(project))
    with psycopg.connect(empty_database_url, autocommit=True) as conn:
        conn.execute(dump.encode())
        # Fixes the clock of all sessions, including those of commands.
        name = sql.Identifier(conninfo_to_dict(empty_database_url)["dbname"])  # type: ignore[arg-type]
        conn.execute(sql.SQL("ALTER DATABASE {} SET freshline.now = {}").format(name, TAKEN_AT.isoformat()))
    monkeypatch.setenv("FRESHLINE_PROJECT", str(project))
    monkeypatch.setenv("FRESHLINE_DATABASE_URL", empty_database_url)
    return Installation(project, empty_database_url)


@pytest.fixture
def upgraded(old: Installation) -> Installation:
    """Return the installation after all migrations."""
    assert migrate.upgrade(old.url, finish=True) == [one.name for one in migrate.known()[1:]]
    return old


def test_no_row_and_no_column_is_lost(old: Installation) -> None:
    """Every table and column of 0.1 is still there, under whatever name, with the same values."""
    before = old.contents()
    migrate.upgrade(old.url, finish=True)
    after = old.contents()
    assert sum(len(table.rows) for table in before.values()) > 400
    for oid, table in before.items():
        now = after[oid]
        assert set(table.types) <= set(now.types), f"{table.name} has lost a column"
        kept = [number for number, type_ in table.types.items() if now.types[number] == type_]
        assert len(kept) >= len(table.types) - 1, f"{table.name}: too many columns have another type to be compared"
        assert table.only(kept) == now.only(kept), f"{table.name} has other rows"


def test_the_fixture_has_everything_worth_upgrading(old: Installation) -> None:
    """No table of 0.1 is empty but those of work in progress, and all states that matter occur."""
    tables = {table.name: len(table.rows) for table in old.contents().values()}
    assert {name for name, count in tables.items() if not count and not name.startswith("events_week")} <= {
        "table_commits"
    }
    with psycopg.connect(old.url) as conn:

        def values(query: str) -> set[Any]:
            return {row[0] for row in conn.execute(query.encode())}

        assert values("SELECT status FROM runs") == {"queued", "succeeded", "failed", "canceled"}
        assert values("SELECT outcome FROM decisions") == {"run", "hold", "skip"}
        assert values("SELECT hold FROM considerations") >= {"breaker-open", "cooling-down", "paused", "debouncing"}
        assert values("SELECT dead_at IS NULL FROM deliveries") == {True, False}
        assert values("SELECT slug FROM workflows WHERE retired_at IS NOT NULL") == {"old"}
        assert values("SELECT kind FROM inbox") == {"changed", "ended"}


def test_nothing_runs_because_of_the_upgrade(upgraded: Installation) -> None:
    """The materializer decides what 0.1 decided on the same database: what was due anyway, and nothing else."""
    with laboratory(upgraded.url, now=TAKEN_AT) as lab:
        before = {run["id"]: run for run in lab.runs()}
        held = (
            "SELECT slug, hold FROM considerations JOIN workflows ON id = workflow_id WHERE hold IS NOT NULL ORDER BY 1"
        )
        holds = lab.rows(held)
        assert lab.forgotten() == 0
        lab.settle()
        queued = [run for run in lab.runs() if run["id"] not in before]
        assert sorted([run["slug"], run["trigger"]["reason"]] for run in queued) == EXPECTED["due"]
        assert {run["id"]: run for run in lab.runs() if run["id"] in before} == before
        assert [one for one in holds if one not in lab.rows(held)] == []
        assert lab.forgotten() == 0


def test_tables_stay_readable(upgraded: Installation) -> None:
    """Other readers find the Delta tables, `freshline show` the heads, and earlier versions are kept."""
    warehouse = upgraded.project / ".freshline" / "warehouse"
    rows = {"shop.clean": 59, "shop.history": 39 + 49 + 59, "shop.latest": 7}
    for asset, count in rows.items():
        assert pl.read_delta(str(warehouse / asset)).height == count, asset
        assert len(upgraded.freshline("show", asset, "--limit", "1000")["rows"]) == count, asset
    assert pl.read_delta(str(warehouse / "shop.clean"), version=0).height == 39
    versions = upgraded.freshline("table", "versions", "shop.clean")["versions"]
    assert [(one["rows"], one["changed"]) for one in versions] == [(59, False), (59, True), (49, True), (39, True)]


def test_the_doctor_finds_nothing(upgraded: Installation) -> None:
    """All invariants of the database and of the warehouse hold. It only notes that no process is running."""
    found = upgraded.freshline("doctor")
    assert {one["id"] for one in found["checks"] if one["count"]} == {"attendance"}


def test_the_same_project_changes_nothing(upgraded: Installation) -> None:
    """Stored definitions mean the same to the new version; sources get the paths that they allow.

    Fingerprints of Python jobs are written as the new method computes them, equally everywhere.
    """
    declared = "SELECT id, declaration - 'allowed' AS declaration, source_project FROM assets ORDER BY id"
    with laboratory(upgraded.url, now=TAKEN_AT) as lab:
        before, assets = lab.everything(), lab.rows(declared)
        jobs = lab.rows(JOBS)
        plan = upgraded.freshline("apply", "--yes")
        assert (plan["added"], plan["changed"], plan["retired"]) == ([], [], [])
        after = lab.everything()
        renamed = [
            (old["job"], new["job"]) for old, new in zip(jobs, lab.rows(JOBS), strict=True) if old["job"] != new["job"]
        ]
        assert {new[:2] for _, new in renamed} == {"2:"}
        for table in ("workflows", "workflow_versions", "workflow_partitions"):
            for old, new in renamed:
                before[table] = sorted(row.replace(old, new) for row in before[table])
            after[table].sort()
        assert {name for name in after if after[name] != before[name]} <= {
            *("audit", "installation", "projects"),
            "assets",
        }
        assert lab.rows(declared) == assets


def test_nobody_is_asked_about_the_rows_of_before(upgraded: Installation) -> None:
    """They count as made by the code of the upgrade, also after `apply` renamed it. A change asks."""
    with laboratory(upgraded.url, now=TAKEN_AT) as lab:
        for _ in range(2):
            assert [one["assetId"] for one in lab.store.reader.status()["assets"] if one["needsDecision"]] == []
            upgraded.freshline("apply", "--yes")
        lab.rows(
            "UPDATE workflows SET job_fingerprint = 'other' WHERE id = (SELECT producer_id FROM assets WHERE id = %s)"
            " RETURNING 1",
            "shop.history",
        )
        found = lab.store.reader.asset("shop.history")["needsDecision"]
        assert found is not None
        assert (found["rows"], found["exact"]) == (39 + 49 + 59, True)


def test_a_process_of_0_1_refuses_the_new_schema(upgraded: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """It uses the former names, so it must stop: at its start, and at its next heartbeat if it is running."""
    everything = migrate.known()
    monkeypatch.setattr(migrate, "known", lambda: everything[:1])
    newest = max(one.version for one in everything if one.breaking)
    sentence = (
        f"schema version {newest} of the database is newer than this Freshline, .* up to 1, .*; upgrade Freshline"
    )
    with psycopg.connect(upgraded.url) as conn:
        for check in (migrate.require_current, migrate.require_no_newer):
            with pytest.raises(SchemaError, match=sentence):
                check(conn)


def test_twenty_processes_upgrade_once(old: Installation) -> None:
    """Twenty processes of the new version that start at once upgrade the database once."""
    with ThreadPoolExecutor(20) as pool:
        applied = list(pool.map(lambda _: migrate.upgrade(old.url), range(20)))
    assert sorted(name for names in applied for name in names) == [one.name for one in migrate.needed()[1:]]
