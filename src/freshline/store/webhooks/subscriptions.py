"""Webhook subscriptions: receivers of events over HTTP.

A secret is readable only by the sender that signs with it. No listing, audit, log or error contains it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import psycopg

from freshline.errors import ConflictError, NotFoundError, UsageError
from freshline.model.json import Json
from freshline.store.db.database import Connection, Database, Row
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.operations import audit
from freshline.store.read.resolve import parse_uuid
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
    """A receiver and its filters. Patterns match whole names; `*` matches anything."""

    name: str
    url: str
    secret: bytes = field(repr=False)
    kind: str = "cloudevents"
    types: tuple[str, ...] = EVERYTHING
    assets: tuple[str, ...] = EVERYTHING
    id: str = field(default_factory=new_id)


class Webhooks:
    """Adds, pauses, resumes and removes webhooks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, webhook: Webhook, *, key: str | None = None, after: int | None = None) -> bool:
        """Add a webhook. Return False if the same webhook was added before with the same key.

        It receives events from now on, or the kept events after a position.
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
            if self._was_added(key):  # a concurrent call with this key was faster
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
        """Remove a webhook and its pending deliveries."""
        with self._database.transaction("remove_webhook") as connection:
            _change(connection, "remove_webhook", name)

    def pause(self, name: str) -> None:
        """Pause a webhook. Its events wait as long as they are kept."""
        with self._database.transaction("pause_webhook") as connection:
            _change(connection, "pause_webhook", name)

    def resume(self, name: str) -> None:
        """Resume a webhook, and end its backoff."""
        with self._database.transaction("resume_webhook") as connection:
            _change(connection, "resume_webhook", name)

    def redeliver(self, name: str, event: str | None = None) -> int:
        """Give dead letters of a webhook, or that of one event, a new retry budget. Return how many."""
        wanted = parse_uuid(event, "an event's id") if event else None
        with self._database.transaction("redeliver_webhook") as connection:
            webhook = _locked(connection, name)
            with audit.changing(connection, "redeliver_webhook", name, "webhook_state", webhook["id"]):
                found = connection.execute(SQL["redeliver"], {"id": webhook["id"], "event": wanted}).fetchall()
        return len(found)

    def target(self, name: str) -> Row:
        """Return `{name, kind, url, secret}`, to send a test event."""
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


def _refuse_other(known: Row, webhook: Webhook, key: str | None) -> None:
    asked = (webhook.name, webhook.url, webhook.kind, list(webhook.types), list(webhook.assets))
    if asked != (known["name"], known["url"], known["kind"], known["types"], known["assets"]):
        raise ConflictError(f"the key {key!r} was used for another webhook, '{known['name']}'; choose another")


def _refuse_many(connection: Connection) -> None:
    if len(connection.execute(SQL["webhook_names"]).fetchall()) >= MOST_WEBHOOKS:
        raise ConflictError(f"there are {MOST_WEBHOOKS} webhooks already; remove one first")


def _values(webhook: Webhook, key: str | None, after: int | None) -> Json:
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


def _locked(connection: Connection, name: str) -> Row:
    row = connection.execute(SQL["lock_webhook"], {"name": name}).fetchone()
    if row is None:
        raise _unknown(connection, name)
    return row


def _unknown(connection: Connection, name: str) -> NotFoundError:
    names = [row["name"] for row in connection.execute(SQL["webhook_names"])]
    hint = did_you_mean(name, names) or "`freshline webhook list` shows them"
    return NotFoundError(f"webhook '{name}' does not exist", hint=hint)
