"""Opens a project's database for reading only: without the definitions' models, so that looking is quick."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from freshline.settings import Settings
from freshline.store import migrate
from freshline.store.database import Database
from freshline.store.embedded import EmbeddedServer
from freshline.store.reader import Reader


@contextmanager
def open_reader(settings: Settings) -> Iterator[Reader]:
    """A reader, with the schema checked. Only the embedded database is started and upgraded without asking."""
    if settings.database_url is not None:
        with _connected(settings.database_url) as reader:
            yield reader
        return
    settings.home.mkdir(parents=True, exist_ok=True)
    with EmbeddedServer(settings.home) as url:
        migrate.upgrade(url)
        with _connected(url) as reader:
            yield reader


@contextmanager
def _connected(url: str) -> Iterator[Reader]:
    database = Database(url, name="freshline-reader", size=2)
    database.open()
    try:
        with database.connection() as connection:
            migrate.require_current(connection)
        yield Reader(database)
    finally:
        database.close()
