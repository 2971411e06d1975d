"""The table of processes: who runs, on which host, with which code."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from psycopg.types.json import Jsonb

from freshline.store.db.database import Database
from freshline.store.db.queries import load

SQL = load("operations")


class Processes:
    """Transactions about the rows of `workers`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def register(
        self, worker_id: str, kind: str, *, project: str | None, code_hash: str | None, info: Mapping[str, object]
    ) -> None:
        """Insert or renew the row of this process."""
        with self._database.transaction("register_worker") as connection:
            values = {"id": worker_id, "kind": kind, "host": socket.gethostname(), "pid": os.getpid()}
            values |= {"project": project, "code_hash": code_hash, "info": Jsonb(dict(info))}
            connection.execute(SQL["register_worker"], values)

    def leave(self, worker_id: str) -> None:
        """Mark the row of this process as stopped."""
        with self._database.transaction("leave_worker") as connection:
            connection.execute(SQL["leave_worker"], {"id": worker_id})
