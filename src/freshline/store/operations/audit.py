"""The audit: who changed what, written in the transaction of the change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from freshline.model.json import Json
from freshline.store.db.database import Connection
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.read.session import json_value

SQL = load("operations")
MOST_NAMES = 100


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes a change: `token:NAME` with the token's id, `loopback`, `redis` or `cli:USER@HOST`."""

    name: str
    token_id: str | None = None


_actor: ContextVar[Actor | None] = ContextVar("freshline_actor", default=None)


@contextmanager
def acting(actor: Actor) -> Iterator[None]:
    """Attribute the changes of the block to `actor`. Without an actor nothing is audited."""
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


@contextmanager
def changing(connection: Connection, what: str, subject: str, state: str, key: Any) -> Iterator[Json]:
    """Audit the change of the block, with the state of `key` before and after, as the query `state` returns it.

    Json that the block adds to the yielded mapping are stored with the state after.
    """
    facts: Json = {}
    actor = _actor.get()
    if actor is None:
        yield facts
        return
    before = _state(connection, state, key)
    yield facts
    after = _state(connection, state, key)
    known = {**(after or {}), **facts} if after or facts else None
    _write(connection, actor, {"what": what, "subject": subject}, before=before, after=known)


def actor_name() -> str | None:
    """Return who makes the change; None if nobody is named."""
    actor = _actor.get()
    return actor.name if actor else None


def note(connection: Connection, what: str, subject: str, **facts: Any) -> None:
    """Audit a change of many rows by its counts. Counts of zero are not audited."""
    actor = _actor.get()
    if actor is not None and any(facts.values()):
        _write(connection, actor, {"what": what, "subject": subject}, before=None, after=facts)


def some(names: Sequence[str]) -> Json:
    """Return the number of names, and the first of them."""
    return {"count": len(names), "first": list(names[:MOST_NAMES])}


def _write(connection: Connection, actor: Actor, change: Json, **states: Json | None) -> None:
    stored = {name: None if state is None else Jsonb(state) for name, state in states.items()}
    who = {"id": new_id(), "who": actor.name, "token": actor.token_id}
    connection.execute(SQL["audit"], {**who, **change, **stored})


def _state(connection: Connection, state: str, key: Any) -> Json | None:
    row = connection.execute(SQL[state], {"id": key}).fetchone()
    return {name: json_value(value) for name, value in row.items()} if row else None
