"""Calls of the store that are repeated until there is an answer: a lost answer is not a failure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import psycopg

from freshline.errors import FreshlineError
from freshline.settings import Settings
from freshline.store.db.database import Database
from freshline.store.store import Store
from tests.chaos.chaos_workload import LEASE_MS
from tests.waiting import wait_until

T = TypeVar("T")
PATIENCE_S = 180


class Insisting:
    """A connection to the database of the chaos test that outlives all faults."""

    def __init__(self, url: str, root: Path, name: str) -> None:
        self._database = Database(url, name=name)
        self._settings = Settings(project=root, database_url=url, lease_ms=LEASE_MS)
        self._url = url
        self.errors = 0

    def open(self) -> None:
        self._database.open()

    def close(self) -> None:
        self._database.close()

    def call(self, call: Callable[[Store], T]) -> T:
        """Repeat the call until there is an answer. Raise what the store refuses."""
        answers: list[T] = []

        def answered() -> bool:
            try:
                answers.append(call(Store(self._database, self._settings)))
            except (psycopg.Error, OSError):
                self.errors += 1
                return False
            except FreshlineError as error:
                if error.code != "database":
                    raise
                self.errors += 1
                return False
            return True

        wait_until(answered, PATIENCE_S, every=0.2, what="an answer of the database")
        return answers[0]

    def now(self) -> datetime:
        """Return the time of the database."""
        found: list[datetime] = []

        def answered() -> bool:
            try:
                with psycopg.connect(self._url, connect_timeout=5) as connection:
                    row = connection.execute("SELECT clock_timestamp()").fetchone()
            except psycopg.Error:
                return False
            assert row
            found.append(row[0])
            return True

        wait_until(answered, PATIENCE_S, every=0.2, what="the time of the database")
        return found[0]
