"""Tokens of the HTTP API. The store never sees a token, only its SHA-256."""

from __future__ import annotations

import psycopg

from freshline.errors import ConflictError, NotFoundError
from freshline.store.db.database import Connection, Database
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.operations import audit
from freshline.suggest import did_you_mean

SQL = load("operations")
# The last use is written at most once in this time.
EVERY_MS = 60_000


class Tokens:
    """Creates and revokes tokens, and records their use."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, scope: str, digest: bytes, *, lifetime_ms: int, data: bool = False) -> None:
        """Store a token by its digest. A repetition changes nothing. `data`: it may read the rows of tables."""
        given = {"name": name, "scope": scope, "data": data, "digest": digest, "lifetime_ms": lifetime_ms}
        values = {"id": new_id(), **given}
        try:
            with (
                self._database.transaction("create_token") as connection,
                audit.changing(connection, "create_token", name, "token_state", values["id"]),
            ):
                connection.execute(SQL["create_token"], values)
        except psycopg.errors.UniqueViolation:
            hint = f"choose another name, or revoke that one with `freshline token revoke {name}`"
            raise ConflictError(f"there is a token '{name}' already", hint=hint) from None

    def revoke(self, name: str) -> None:
        """Revoke a token. A repetition changes nothing."""
        with self._database.transaction("revoke_token") as connection:
            row = connection.execute(SQL["lock_token"], {"name": name}).fetchone()
            if row is None:
                raise NotFoundError(f"token '{name}' does not exist", hint=_hint(connection, name))
            if row["revoked_at"] is not None:
                return
            with audit.changing(connection, "revoke_token", name, "token_state", row["id"]):
                connection.execute(SQL["revoke_token"], {"id": row["id"]})

    def use(self, token_id: str) -> None:
        """Record the use of a token, to the minute."""
        with self._database.transaction("use_token") as connection:
            connection.execute(SQL["use_token"], {"id": token_id, "every_ms": EVERY_MS})


def prune(connection: Connection, days: int, batch: int) -> None:
    """Delete old audit rows, and tokens that ended long ago."""
    connection.execute(SQL["prune_audit"], {"days": days, "batch": batch})
    connection.execute(SQL["prune_tokens"], {"days": days})


def _hint(connection: Connection, wrong: str) -> str:
    names = [row["name"] for row in connection.execute(SQL["token_names"])]
    return did_you_mean(wrong, names) or "`freshline token list` shows them"
