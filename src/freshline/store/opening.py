"""Opens the store of a project: its embedded server, or the one that FRESHLINE_DATABASE_URL names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from freshline.settings import Settings
from freshline.store import migrate
from freshline.store.database import Database
from freshline.store.embedded import EmbeddedServer
from freshline.store.facade import Store


@contextmanager
def open_store(settings: Settings, *, name: str = "freshline") -> Iterator[Store]:
    """The store, with its schema checked. Only the embedded database is upgraded without asking."""
    if settings.database_url is not None:
        with _connected(settings, settings.database_url, name) as store:
            yield store
        return
    settings.home.mkdir(parents=True, exist_ok=True)
    server = EmbeddedServer(settings.home)
    with server as url:
        migrate.upgrade(url)
        with _connected(settings, url, name) as store:
            store.revive = server.ensure_running
            yield store


@contextmanager
def _connected(settings: Settings, url: str, name: str) -> Iterator[Store]:
    database = Database(url, name=name)
    database.open()
    try:
        with database.connection() as connection:
            migrate.require_current(connection)
        yield Store(database, settings)
    finally:
        database.close()
