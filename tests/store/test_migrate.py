"""The migration runner, on real databases."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from freshline.embedded_postgres import binaries
from freshline.embedded_postgres.account import initialiser
from freshline.errors import DatabaseError, SchemaError
from freshline.store.db import migrate
from freshline.store.db.dump import DUMP, dump
from freshline.store.db.migrate import Migration

LATEST = migrate.known()[-1].version


@pytest.fixture
def older_server() -> Iterator[str]:
    """Start the PostgreSQL 16 that the wheel also contains, and yield its URL."""
    programs = binaries.folder().parents[1] / "pginstall" / "bin"
    with tempfile.TemporaryDirectory(prefix="freshline-") as directory:
        data = Path(directory) / "data"
        data.mkdir(mode=0o700)
        Path(directory).chmod(0o711)
        user = initialiser() if os.geteuid() == 0 else None
        if user:
            os.chown(data, user.uid, user.gid)

        def run(*command: str | Path) -> None:
            uid, gid = (user.uid, user.gid) if user else (None, None)
            subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL, user=uid, group=gid)

        run(programs / "initdb", "-D", data, "-A", "trust", "-U", "freshline", "-N", "--encoding=UTF8", "--locale=C")
        run(programs / "pg_ctl", "-D", data, "-w", "-l", data / "log", "-o", f"-h '' -p 5432 -k {data}", "start")
        yield f"postgresql://freshline@/postgres?host={data}&port=5432"
        run(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")


def _add_version(url: str, version: int, *, breaking: bool) -> None:
    with psycopg.connect(url) as conn:
        conn.execute(
            "INSERT INTO freshline_migrations (version, name, breaking, checksum) VALUES (%s, 'later', %s, 'x')",
            [version, breaking],
        )


def _check(url: str) -> None:
    with psycopg.connect(url) as conn:
        migrate.require_current(conn)


def test_upgrade_applies_everything_once(empty_database_url: str) -> None:
    """An empty database gets all migrations in order, and the second upgrade finds nothing to do."""
    names = [migration.name for migration in migrate.known()]
    assert migrate.status(empty_database_url).pending == tuple(names)
    assert migrate.upgrade(empty_database_url) == names
    assert migrate.upgrade(empty_database_url) == []
    assert migrate.status(empty_database_url) == migrate.MigrationStatus(LATEST, LATEST, (), (), None)
    _check(empty_database_url)


def test_twenty_migrators_at_once(empty_database_url: str) -> None:
    """Of twenty concurrent upgrades none fails, and every migration is applied by exactly one of them."""
    with ThreadPoolExecutor(20) as pool:
        applied = list(pool.map(lambda _: migrate.upgrade(empty_database_url), range(20)))
    assert sorted(name for names in applied for name in names) == [m.name for m in migrate.known()]
    _check(empty_database_url)


def test_a_database_that_is_behind_is_refused(empty_database_url: str) -> None:
    """A process refuses a database without the newest schema, and says which command helps."""
    with pytest.raises(SchemaError, match=r"has schema version 0 .* needs \d+ .*; run `freshline db upgrade`"):
        _check(empty_database_url)


def test_a_newer_breaking_schema_is_refused(database_url: str) -> None:
    """Neither a worker nor an upgrade touches a database whose schema only a newer Freshline understands."""
    _add_version(database_url, LATEST + 6, breaking=True)
    sentence = f"schema version {LATEST + 6} of the database is newer .* up to {LATEST}, .*; upgrade Freshline"
    with pytest.raises(SchemaError, match=sentence):
        _check(database_url)
    with pytest.raises(SchemaError, match=sentence):
        migrate.upgrade(database_url)
    assert migrate.status(database_url).newer_breaking == LATEST + 6


def test_a_newer_compatible_schema_is_accepted(database_url: str) -> None:
    """A newer migration that is not marked as breaking lets older processes work on."""
    _add_version(database_url, LATEST + 1, breaking=False)
    _check(database_url)
    assert migrate.upgrade(database_url) == []


def test_a_failing_migration_leaves_nothing(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration that fails in the middle is undone with its version row, and the error names it."""
    everything = migrate.known()
    broken = Migration(LATEST + 1, "9999_broken", breaking=False, sql="CREATE TABLE half (); SELECT 1 / 0;")
    monkeypatch.setattr(migrate, "known", lambda: (*everything, broken))
    with pytest.raises(SchemaError, match="9999_broken failed and was undone: division by zero"):
        migrate.upgrade(database_url)
    assert migrate.status(database_url).pending == ("9999_broken",)
    with psycopg.connect(database_url) as conn:
        assert conn.execute("SELECT to_regclass('half')").fetchone() == (None,)


def test_breaking_is_marked_on_the_first_line() -> None:
    """Only `-- breaking` on the very first line marks a migration."""
    assert migrate._parse("0007_later.sql", "-- breaking\nSELECT 1;").breaking
    assert not migrate._parse("0007_later.sql", "SELECT 1;\n-- breaking\n").breaking
    with pytest.raises(SchemaError, match=r"'later[.]sql' is not named like 0001_init"):
        migrate._parse("later.sql", "")


def test_versions_are_numbered_without_gaps() -> None:
    """The files of the package are 1, 2, 3 and so on."""
    assert [migration.version for migration in migrate.known()] == list(range(1, LATEST + 1))


def test_an_old_server_is_refused(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL older than 15 is refused by its version before anything is read or written."""
    monkeypatch.setattr(migrate, "OLDEST_SERVER", 99)
    with pytest.raises(DatabaseError, match=r"runs PostgreSQL \d+; Freshline needs 99 or newer"):
        _check(database_url)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        (
            "postgresql://nobody:hush@localhost:1/there",
            "'there' at localhost cannot be reached: .*; check FRESHLINE_DA",
        ),
        ("postgresql://localhost:nonsense/x", "cannot be (used|reached): "),
        ("no url", "FRESHLINE_DATABASE_URL is written like postgresql://"),
    ],
)
def test_an_unreachable_database_is_one_sentence(url: str, sentence: str) -> None:
    """A wrong address is told in one sentence that names the variable and keeps the password to itself."""
    with pytest.raises(DatabaseError, match=sentence) as caught:
        migrate.upgrade(url)
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_schema_that_is_not_ours_is_not_changed(database_url: str) -> None:
    """A user without the right to create tables is told so."""
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute("DROP TABLE freshline_migrations")
        conn.execute("DO $$ BEGIN CREATE ROLE guest LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")
    with pytest.raises(DatabaseError, match=r"permission denied .* use a database that belongs to this user"):
        migrate.upgrade(psycopg.conninfo.make_conninfo(database_url, user="guest"))


def test_the_dump_is_current(database_url: str) -> None:
    """The schema in git is what the migrations make; `make schema` writes it."""
    assert dump(database_url) == DUMP.read_text(encoding="utf-8"), "run `make schema` and commit it"


def test_an_older_server_gets_the_same_schema(older_server: str) -> None:
    """PostgreSQL 16 takes the migrations too, and the result differs only in names that 18 gives by itself."""
    migrate.upgrade(older_server)
    given = re.compile(r"CONSTRAINT \w+_not_null ")
    assert dump(older_server) == given.sub("", DUMP.read_text(encoding="utf-8"))


PRE = Migration(LATEST + 1, "9001_colour_pre", breaking=False, sql="ALTER TABLE installation ADD COLUMN colour text")
POST = Migration(LATEST + 2, "9002_colour_post", breaking=True, sql="ALTER TABLE installation DROP COLUMN created_at")
LATER = Migration(LATEST + 3, "9003_shape", breaking=False, sql="ALTER TABLE installation ADD COLUMN shape text")


def test_the_last_step_waits_for_the_older_version(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In between, processes of both versions are content with the schema; afterwards the older one is not."""
    old, new = migrate.known(), (*migrate.known(), PRE, POST)
    monkeypatch.setattr(migrate, "known", lambda: new)
    with pytest.raises(SchemaError, match="freshline db upgrade"):
        migrate.require(migrate.status(database_url))
    assert migrate.upgrade(database_url) == [PRE.name]
    for version in (old, new):
        monkeypatch.setattr(migrate, "known", lambda version=version: version)
        migrate.require(migrate.status(database_url))
    assert migrate.status(database_url).unfinished == (POST.name,)
    assert migrate.upgrade(database_url, finish=True) == [POST.name]
    migrate.require(migrate.status(database_url))
    monkeypatch.setattr(migrate, "known", lambda: old)
    with pytest.raises(SchemaError, match=f"version {POST.version} of the database is newer than this Freshline"):
        migrate.require(migrate.status(database_url))


def test_a_step_that_something_follows_is_not_left_out(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who skips a version gets its last step too: what comes later may build on it."""
    known = (*migrate.known(), PRE, POST, LATER)
    monkeypatch.setattr(migrate, "known", lambda: known)
    assert migrate.upgrade(database_url) == [PRE.name, POST.name, LATER.name]


def test_a_new_database_gets_everything(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nobody to wait for."""
    known = (*migrate.known(), PRE, POST)
    monkeypatch.setattr(migrate, "known", lambda: known)
    assert migrate.upgrade(empty_database_url)[-2:] == [PRE.name, POST.name]


def test_what_takes_away_is_breaking() -> None:
    """A last step that is not marked is refused."""
    with pytest.raises(SchemaError, match="does not begin with `-- breaking`"):
        migrate._parse("0009_colour_post.sql", "DROP TABLE x")


def test_a_changed_file_is_refused(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration that was edited after it was applied stops upgrades and processes, and the error names both sums."""
    first, *rest = migrate.known()
    edited = replace(first, sql=first.sql + "-- edited\n")
    monkeypatch.setattr(migrate, "known", lambda: (edited, *rest))
    changed = migrate.Changed(first.name, first.checksum, edited.checksum)
    assert migrate.status(database_url).changed == (changed,)
    sentence = (
        f"{first.name} was changed .* expected checksum {first.checksum[:16]}, found {edited.checksum[:16]}; .* again"
    )
    with pytest.raises(SchemaError, match=sentence):
        migrate.upgrade(database_url)
    with pytest.raises(SchemaError, match=sentence):
        _check(database_url)


def test_each_applied_migration_has_its_checksum(database_url: str) -> None:
    """The sum of the file that was applied is stored with it."""
    with psycopg.connect(database_url) as conn:
        stored: dict[int, str] = dict(conn.execute("SELECT version, checksum FROM freshline_migrations").fetchall())
    assert stored == {one.version: one.checksum for one in migrate.known()}


def test_the_first_migration_is_that_of_0_1() -> None:
    """Installations of 0.1 recorded no checksum, so the second migration carries that of the first."""
    first, second = migrate.known()[:2]
    assert first.checksum in second.sql


def test_the_classes_of_0_1_become_names(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers become names in the same order: an event goes before a timer, and a timer before a sweep."""
    everything = migrate.known()
    monkeypatch.setattr(migrate, "known", lambda: everything[:1])
    migrate.upgrade(empty_database_url)
    with psycopg.connect(empty_database_url) as conn:
        conn.execute("INSERT INTO projects VALUES ('p', 'c', now())")
        conn.execute(
            """INSERT INTO workflows
                      (slug, project, version, automatic, policy, job_fingerprint, created_at, applied_at)
               SELECT 'w' || n, 'p', 1, true, '{}', 'f', now(), now() FROM generate_series(0, 2) n"""
        )
        conn.execute(
            """INSERT INTO considerations (workflow_id, partition_key, not_before, class, noted_at)
               SELECT id, '', now(), right(slug, 1)::smallint, now() FROM workflows"""
        )
    monkeypatch.setattr(migrate, "known", lambda: everything)
    migrate.upgrade(empty_database_url)
    with psycopg.connect(empty_database_url) as conn:
        ordered = conn.execute(
            "SELECT slug, class::text FROM considerations c JOIN workflows w ON w.id = c.workflow_id ORDER BY c.class"
        ).fetchall()
    assert ordered == [("w0", "event"), ("w1", "timer"), ("w2", "sweep")]


def test_every_check_is_named(database_url: str) -> None:
    """No constraint has a name that only counts, and no implication is written as a comparison of truth values."""
    with psycopg.connect(database_url) as conn:
        checks = conn.execute(
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'c' AND conrelid <> 0"
        ).fetchall()
    assert [name for name, _ in checks if re.search(r"_check\d+$", name)] == []
    with psycopg.connect(database_url) as conn:
        tables = conn.execute("SELECT relname || '_check' FROM pg_class WHERE relkind IN ('r', 'p')").fetchall()
    assert {name for name, _ in checks} & {name for (name,) in tables} == set()
    assert [name for name, text in checks if re.search(r"\) <= \(", text)] == []
