"""Sends events to webhooks, at least once, and in the order of events where nothing fails.

It does not promise that an event arrives only once: `webhook-id`, the event's id, is the key to drop repetitions by.
What a receiver does not take is tried again, ever less often, until its budget ends; then it is a dead letter, which
`freshline webhook deliveries` shows and `redeliver` sends again. Who fails is waited for by nobody else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import structlog

from freshline.counters import count
from freshline.errors import FencedError, UsageError
from freshline.model.events import MEDIA, cloud_event
from freshline.services.service import Service
from freshline.store.db.ids import new_id
from freshline.store.read.reader import Reader
from freshline.store.store import Store
from freshline.store.webhooks.delivery import PATIENCE, Batch, Letter, Outcome
from freshline.webhooks import openlineage, signature
from freshline.webhooks.egress_policy import AddressError
from freshline.webhooks.http import InterruptedPostError, Post, PostError

log = structlog.get_logger("freshline.webhooks")
Event = Mapping[str, Any]
TEST = "freshline.webhook.test"
SENDERS = 4  # so many slow receivers of one process at once delay nobody else
TURN_S = 2.0  # then it is another webhook's turn
LEASE_MS = 90_000  # longer than a turn, its last answer, and a resolver that takes its time


class WebhookSender(Service):
    """One lane: one webhook at a time, a batch of its events. Any number of them share the webhooks between them."""

    name = "deliverer"

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._post: Post | None = None

    def run_once(self) -> bool:
        """A turn of one webhook; True: there was one, and there may be more."""
        batch = self.store.deliveries.claim(lease_ms=LEASE_MS)
        if batch is None:
            return False
        if batch.letters:
            self._deliver(batch)
        return True

    def stop(self) -> None:
        """End at once: what was not answered counts as not sent, and is sent again."""
        self._stopping.set()
        post = self._post
        if post is not None:
            post.interrupt()
        super().stop()

    def _deliver(self, batch: Batch) -> None:
        settings = self.store.settings
        timeout_s = settings.webhook_timeout_ms / 1000
        self._post = Post(batch.url, allowed=settings.webhook_allow_private, timeout_s=timeout_s)
        outcomes = self._turn(batch, self._post)
        self._post = None
        try:
            self.store.deliveries.record(batch, outcomes)
        except FencedError:
            count("fenced")
            log.warning("webhook_lease_lost", webhook=batch.name)

    def _turn(self, batch: Batch, post: Post) -> list[Outcome]:
        """Until everything is sent, the turn is over, or the receiver seems to be away."""
        ends = time.monotonic() + TURN_S
        outcomes: list[Outcome] = []
        failures = batch.failures
        for letter in batch.letters:
            if self._stopping.is_set() or time.monotonic() > ends:
                break
            try:
                outcome = send(self.store, batch, letter, post)
            except InterruptedPostError:
                break
            outcomes.append(outcome)
            failures = 0 if outcome.trouble is None else failures + 1
            if outcome.trouble is not None:
                log.warning("webhook_failed", webhook=batch.name, event_id=letter.event_id, trouble=outcome.trouble)
            if failures >= PATIENCE:
                break
        return outcomes


def send(store: Store, batch: Batch, letter: Letter, post: Post) -> Outcome:
    """Try one letter. Where an event has nothing to tell in the webhook's language, that is all there is to do."""
    if letter.event is None:
        return Outcome(letter, "the event is not kept any more", final=True)
    written = content(store.reader, batch.kind, batch.secret, letter.event)
    try:
        if written is not None:
            post.send(*written)
    except InterruptedPostError:
        raise
    except (PostError, AddressError) as error:
        return Outcome(letter, error.message)
    return Outcome(letter)


def content(reader: Reader, kind: str, secret: bytes, event: Event) -> tuple[bytes, dict[str, str]] | None:
    """The body and the headers of a letter; None: there is nothing to tell."""
    if kind != "openlineage":
        return signed(secret, event)
    run_id = event["data"].get("runId")
    made = openlineage.run_event(event, reader.lineage(run_id) if run_id else None)
    if made is None:
        return None
    key = {"Authorization": f"Bearer {secret.decode()}"} if secret else {}
    return _json(made), {"Content-Type": "application/json", **key}


def signed(secret: bytes, event: Event) -> tuple[bytes, dict[str, str]]:
    """A CloudEvent in JSON, signed."""
    body = _json(cloud_event(event))
    proof = signature.headers(secret, str(event["id"]), int(time.time()), body)
    return body, {"Content-Type": f"{MEDIA}; charset=utf-8", **proof}


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def try_out(store: Store, name: str) -> int:
    """Send a test event to a webhook by hand, and return the status of the answer."""
    target = store.webhooks.target(name)
    if target["kind"] != "cloudevents":
        raise UsageError(f"webhook '{name}' takes runs as {target['kind']}; a test would be a run that never was")
    settings = store.settings
    event = {
        "id": new_id(),
        "source": f"/freshline/{store.warehouse_id}",
        "type": TEST,
        "subject": name,
        "time": datetime.now(UTC),
        "position": None,
        "data": {"webhook": name},
    }
    post = Post(target["url"], allowed=settings.webhook_allow_private, timeout_s=settings.webhook_timeout_ms / 1000)
    return post.send(*signed(target["secret"], event))
