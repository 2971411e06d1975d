"""Webhooks: who is told about events over HTTP. They are added, paused, resumed and removed here.

A secret goes in and comes out only for whoever signs with it: no listing, audit, log or error has it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg

from freshline.errors import ConflictError, NotFoundError, UsageError
from freshline.store.db.database import Connection, Database
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.operations import audit
from freshline.store.read.look import uuid
from freshline.suggest import did_you_mean

SQL = load("webhooks")
EVERYTHING = ("*",)
RUNS = ("workflow.run.*",)
MOST_PATTERNS = 50
MOST_WEBHOOKS = 1_000
_PATTERN = re.compile(r"[A-Za-z0-9._:*-]{1,200}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")


@dataclass(frozen=True, slots=True)
class Webhook:
    """Who wants to be told about what. Patterns are whole names in which `*` stands for anything."""

    name: str
    url: str
    secret: bytes = field(repr=False)
    kind: str = "cloudevents"
    types: tuple[str, ...] = EVERYTHING
    assets: tuple[str, ...] = EVERYTHING
    id: str = field(default_factory=new_id)


class Webhooks:
    """What is done to webhooks by hand."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, webhook: Webhook, *, key: str | None = None, after: int | None = None) -> bool:
        """Whether it was added; False: it was before, by the same key, as the same.

        It is told about events from now on, or about those after a position that are still kept.
        """
        _check(webhook)
        try:
            with self._database.transaction("add_webhook") as connection:
                known = connection.execute(SQL["added"], {"key": key}).fetchone() if key else None
                if known:
                    _refuse_other(known, webhook, key)
                    return False
                _refuse_many(connection)
                with audit.changing(connection, "add_webhook", webhook.name, "webhook_state", webhook.id):
                    connection.execute(SQL["add_webhook"], _values(webhook, key, after))
        except psycopg.errors.UniqueViolation:
            if self._was_added(key):  # somebody else was first with this key
                return self.add(webhook, key=key, after=after)
            hint = f"choose another name, or remove that one with `freshline webhook remove {webhook.name}`"
            raise ConflictError(f"there is a webhook '{webhook.name}' already", hint=hint) from None
        return True

    def _was_added(self, key: str | None) -> bool:
        if key is None:
            return False
        with self._database.reading() as connection:
            return connection.execute(SQL["added"], {"key": key}).fetchone() is not None

    def remove(self, name: str) -> None:
        """Nobody is told any more; what waited to be sent is forgotten."""
        with self._database.transaction("remove_webhook") as connection:
            _change(connection, "remove_webhook", name)

    def pause(self, name: str) -> None:
        """Nothing is sent until it is resumed. Events wait, as long as they are kept."""
        with self._database.transaction("pause_webhook") as connection:
            _change(connection, "pause_webhook", name)

    def resume(self, name: str) -> None:
        """What waited is sent, from now on; a backoff ends too."""
        with self._database.transaction("resume_webhook") as connection:
            _change(connection, "resume_webhook", name)

    def redeliver(self, name: str, event: str | None = None) -> int:
        """Dead letters of a webhook, or the one of an event, get a new budget. Returns how many."""
        wanted = uuid(event, "an event's id") if event else None
        with self._database.transaction("redeliver_webhook") as connection:
            webhook = _locked(connection, name)
            with audit.changing(connection, "redeliver_webhook", name, "webhook_state", webhook["id"]):
                found = connection.execute(SQL["redeliver"], {"id": webhook["id"], "event": wanted}).fetchall()
        return len(found)

    def target(self, name: str) -> Mapping[str, Any]:
        """`{name, kind, url, secret}`, to send something by hand."""
        with self._database.reading() as connection:
            row = connection.execute(SQL["target"], {"name": name}).fetchone()
            if row is None:
                raise _unknown(connection, name)
        return row


def _change(connection: Connection, what: str, name: str) -> None:
    webhook = _locked(connection, name)
    with audit.changing(connection, what, name, "webhook_state", webhook["id"]):
        connection.execute(SQL[what], {"id": webhook["id"]})


def _check(webhook: Webhook) -> None:
    if not _NAME.fullmatch(webhook.name):
        allowed = "1 to 100 letters, digits and . _ : -, beginning with a letter or a digit"
        raise UsageError(f"a webhook cannot be called {webhook.name[:120]!r}; allowed are {allowed}")
    for what, patterns in (("type", webhook.types), ("asset", webhook.assets)):
        if not 1 <= len(patterns) <= MOST_PATTERNS:
            raise UsageError(f"there are {len(patterns)} {what} patterns; allowed are 1 to {MOST_PATTERNS}")
        for pattern in patterns:
            if not _PATTERN.fullmatch(pattern):
                allowed = "1 to 200 letters, digits and . _ : -, with * for anything"
                raise UsageError(f"{what} pattern {pattern[:220]!r} is not allowed; allowed are {allowed}")


def _refuse_other(known: Mapping[str, Any], webhook: Webhook, key: str | None) -> None:
    asked = (webhook.name, webhook.url, webhook.kind, list(webhook.types), list(webhook.assets))
    if asked != (known["name"], known["url"], known["kind"], known["types"], known["assets"]):
        raise ConflictError(f"the key {key!r} was used for another webhook, '{known['name']}'; choose another")


def _refuse_many(connection: Connection) -> None:
    if len(connection.execute(SQL["webhook_names"]).fetchall()) >= MOST_WEBHOOKS:
        raise ConflictError(f"there are {MOST_WEBHOOKS} webhooks already; remove one first")


def _values(webhook: Webhook, key: str | None, after: int | None) -> dict[str, Any]:
    return {
        "id": webhook.id,
        "name": webhook.name,
        "kind": webhook.kind,
        "url": webhook.url,
        "types": list(webhook.types),
        "assets": list(webhook.assets),
        "secret": webhook.secret,
        "key": key,
        "after": after,
    }


def _locked(connection: Connection, name: str) -> Mapping[str, Any]:
    row = connection.execute(SQL["lock_webhook"], {"name": name}).fetchone()
    if row is None:
        raise _unknown(connection, name)
    return row


def _unknown(connection: Connection, name: str) -> NotFoundError:
    names = [row["name"] for row in connection.execute(SQL["webhook_names"])]
    hint = did_you_mean(name, names) or "`freshline webhook list` shows them"
    return NotFoundError(f"there is no webhook '{name}'", hint=hint)
