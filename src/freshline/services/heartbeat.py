"""Registers a process, renews its row, and marks it as stopped at the end.

Correctness does not depend on it: claims have their own leases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

import psycopg

from freshline.errors import DatabaseError, SchemaError
from freshline.services.service import Service
from freshline.store.db.ids import new_id
from freshline.store.store import Store

HEARTBEAT_S = 5.0


class Heartbeat(Service):
    """One row in `freshline workers`. A process that dies stays listed as not seen."""

    name = "presence"

    def __init__(
        self,
        store: Store,
        kind: str,
        *,
        project: str | None = None,
        code_hash: Callable[[], str | None] = lambda: None,
        info: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        super().__init__(store, poll_s=HEARTBEAT_S)
        self.id = new_id()
        self._kind = kind
        self._project = project
        self._code_hash = code_hash
        self._info = info
        self.fatal: SchemaError | None = None  # why this process has to stop

    def run_once(self) -> bool:
        """Renew the row. Set `fatal`, which stops the process, if the schema does not fit this version."""
        try:
            self.store.require_schema()
        except SchemaError as error:
            self.fatal = error
            return False
        self.store.processes.register(
            self.id, self._kind, project=self._project, code_hash=self._code_hash(), info=self._info()
        )
        return False

    def stop(self) -> None:
        """Stop, and mark the row as stopped."""
        if self._end():
            # Without a database, the row later shows the process as not seen.
            with suppress(psycopg.Error, DatabaseError):
                self.store.processes.leave(self.id)
