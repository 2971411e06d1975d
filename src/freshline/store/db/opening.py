"""Opens a project's database: its embedded server, or the one that FRESHLINE_DATABASE_URL names.

A reader is opened without the store, and so without the models of definitions, which start slowly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from freshline.settings import Settings
from freshline.store.db import migrate
from freshline.store.db.database import Database
from freshline.store.read.reader import Reader

if TYPE_CHECKING:
    from freshline.store.store import Store


@contextmanager
def open_store(settings: Settings, *, name: str = "freshline") -> Iterator[Store]:
    """Open the store."""
    from freshline.store.store import Store  # noqa: PLC0415 - readers do not need it

    with open_database(settings, name=name) as database:
        yield Store(database, settings)


@contextmanager
def open_reader(settings: Settings) -> Iterator[Reader]:
    """Open the reader."""
    with open_database(settings, name="freshline-reader", size=2) as database:
        yield Reader(database)


@contextmanager
def open_database(settings: Settings, *, name: str, size: int = 8) -> Iterator[Database]:
    """Open connections to a database with the right schema. Only an embedded server is started and upgraded."""
    if settings.database_url is not None:
        with _connected(Database(settings.database_url, name=name, size=size)) as database:
            yield database
        return
    from freshline.embedded_postgres.server import EmbeddedServer  # noqa: PLC0415 - not needed with a server

    settings.home.mkdir(parents=True, exist_ok=True)
    server = EmbeddedServer(settings.home)
    with server as url:
        migrate.upgrade(url)
        with _connected(Database(url, name=name, size=size, revive=server.ensure_running)) as database:
            yield database


@contextmanager
def _connected(database: Database) -> Iterator[Database]:
    database.open()
    try:
        with database.connection() as connection:
            migrate.require_current(connection)
        yield database
    finally:
        database.close()
