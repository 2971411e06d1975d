"""Fixtures: one PostgreSQL server per session; a fresh database or an object store per test."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import structlog
from psycopg.conninfo import make_conninfo

from freshline.embedded_postgres.server import EmbeddedServer
from freshline.storage.object_store import object_storage_at
from freshline.store.db import migrate
from tests import moto_server
from tests.databases import TEMPLATE, Databases, administer, empty_database
from tests.object_store_server import ObjectStore, serving

SLOW = {"process", "spark"}
# Small jobs end before optimized code pays off: without the second compiler Spark starts and writes in half the
# processor time (9.0 and 4.8 s for a start, 7.8 and 3.9 s for twelve small writes).
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the files with slow tests first, so that no process waits for them at the end."""
    slow = {item.path for item in items if SLOW & {mark.name for mark in item.iter_markers()}}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True)
def _own_logs() -> Iterator[None]:
    """Restore the logging configuration, which commands that run in this process change."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture(scope="session")
def _enterable(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let others enter the directories of tests: the embedded server is another user's if root runs the tests."""
    top, base = Path(tempfile.gettempdir()).resolve(), tmp_path_factory.getbasetemp().resolve()
    for directory in (base, *base.parents):
        if directory.is_relative_to(top) and directory != top and directory.stat().st_uid == os.getuid():
            directory.chmod(directory.stat().st_mode | 0o011)


@pytest.fixture
def tmp_path(tmp_path: Path, _enterable: None) -> Path:
    """Return the directory of a test, which others may enter."""
    tmp_path.chmod(0o711)
    return tmp_path


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Yield the URL of the session's server, without fsync and vacuum; its database `freshline` is empty."""
    quick = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}
    with (
        tempfile.TemporaryDirectory(prefix="freshline-") as home,
        EmbeddedServer(Path(home), options=quick) as url,
    ):
        yield url


@pytest.fixture(scope="session")
def databases(postgres: str) -> Iterator[Databases]:
    """Yield the databases of the session's server."""
    administer(postgres, "CREATE DATABASE {}", TEMPLATE)
    migrate.upgrade(make_conninfo(postgres, dbname=TEMPLATE))
    databases = Databases(postgres)
    yield databases
    databases.close()


@pytest.fixture
def empty_database_url(postgres: str) -> Iterator[str]:
    """Yield the URL of a database without any schema."""
    with empty_database(postgres, f"empty_{next(_numbers)}") as url:
        yield url


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """Yield the URL of a migrated database for one test."""
    with databases.database() as url:
        yield url


@pytest.fixture(scope="module")
def module_database_url(databases: Databases) -> Iterator[str]:
    """Yield the URL of a migrated database that the tests of one module share."""
    with databases.database() as url:
        yield url


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Yield an object store for one test, and set the environment that clients read."""
    for store in serving(tmp_path / "objects"):
        for name, value in store.environ.items():
            monkeypatch.setenv(name, value)
        yield store
        object_storage_at.cache_clear()


@pytest.fixture(scope="session")
def moto_environ(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield the environment that reaches a server of moto, which is started once."""
    with moto_server.moto(tmp_path_factory.mktemp("moto")) as environ:
        yield environ


@pytest.fixture
def moto_bucket(moto_environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield an address in moto that only this test uses, and set the environment that clients read."""
    for name, value in moto_environ.items():
        monkeypatch.setenv(name, value)
    object_storage_at.cache_clear()
    yield f"s3://{moto_server.BUCKET}/{uuid4()}"
    object_storage_at.cache_clear()
