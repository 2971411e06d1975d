"""Who changed what: noted in the transaction of the change, so that neither is there without the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from freshline.store.db.database import Connection
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.read.look import plain

SQL = load("operations")
Facts = dict[str, Any]
MOST_NAMES = 100


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who changes something: `token:NAME` with the token's id, `loopback`, `redis` or `cli:USER@HOST`."""

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
def changing(connection: Connection, what: str, subject: str, state: str, key: Any) -> Iterator[Facts]:
    """Note the change that happens inside. `state`: the query that tells how `key` is, before and after.

    What is put into the facts that it yields is told with what is there afterwards.
    """
    facts: Facts = {}
    actor = _actor.get()
    if actor is None:
        yield facts
        return
    before = _look(connection, state, key)
    yield facts
    after = _look(connection, state, key)
    known = {**(after or {}), **facts} if after or facts else None
    _write(connection, actor, {"what": what, "subject": subject}, before=before, after=known)


def note(connection: Connection, what: str, subject: str, **facts: Any) -> None:
    """Note a change of many things at once by what it did; nothing if that is nothing."""
    actor = _actor.get()
    if actor is not None and any(facts.values()):
        _write(connection, actor, {"what": what, "subject": subject}, before=None, after=facts)


def some(names: Sequence[str]) -> Facts:
    """How many there are, and the first of them."""
    return {"count": len(names), "first": list(names[:MOST_NAMES])}


def _write(connection: Connection, actor: Actor, change: Facts, **states: Facts | None) -> None:
    told = {name: None if state is None else Jsonb(state) for name, state in states.items()}
    who = {"id": new_id(), "who": actor.name, "token": actor.token_id}
    connection.execute(SQL["audit"], {**who, **change, **told})


def _look(connection: Connection, state: str, key: Any) -> Facts | None:
    row = connection.execute(SQL[state], {"id": key}).fetchone()
    return {name: plain(value) for name, value in row.items()} if row else None
