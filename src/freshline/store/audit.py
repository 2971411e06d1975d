"""Who changed what: noted in the transaction of the change, so that neither is there without the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from freshline.store.database import Connection
from freshline.store.ids import new_id
from freshline.store.look import plain
from freshline.store.queries import load

SQL = load("access")


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who changes something: `token:NAME` with the id of the token, or a place such as `loopback`."""

    name: str
    token_id: str | None = None


_actor: ContextVar[Actor | None] = ContextVar("freshline_actor", default=None)


@contextmanager
def acting(actor: Actor) -> Iterator[None]:
    """Changes inside are made by `actor` and are noted. Outside nobody is named, and nothing is."""
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


@contextmanager
def changing(connection: Connection, what: str, subject: str, state: str, key: Any) -> Iterator[None]:
    """Note the change that happens inside. `state`: the query that tells how `key` is, before and after."""
    actor = _actor.get()
    if actor is None:
        yield
        return
    before = _look(connection, state, key)
    yield
    values = {"id": new_id(), "who": actor.name, "token": actor.token_id, "what": what, "subject": subject}
    after = _look(connection, state, key)
    connection.execute(SQL["audit"], {**values, "before": before, "after": after})


def _look(connection: Connection, state: str, key: Any) -> Jsonb | None:
    row = connection.execute(SQL[state], {"id": key}).fetchone()
    return Jsonb({name: plain(value) for name, value in row.items()}) if row else None
