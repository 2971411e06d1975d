"""Sends events to webhooks at least once, in the order of events as long as nothing fails.

It does not promise that an event arrives only once: receivers drop repetitions by `webhook-id`, the event's id. A
delivery that fails is retried with increasing pauses until its budget ends. Then it is a dead letter, which
`freshline webhook deliveries` shows and `redeliver` sends again. A failing receiver does not delay others.
"""

from __future__ import annotations

import json
import time
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
from freshline.store.webhooks.delivery import UNREACHABLE_AFTER, Batch, Letter, Outcome
from freshline.webhooks import openlineage, signature
from freshline.webhooks.egress_policy import AddressError
from freshline.webhooks.http import InterruptedPostError, Post, PostError

log = structlog.get_logger("freshline.webhooks")
TEST = "freshline.webhook.test"
SENDERS = 4  # per process; this many slow receivers delay no other
TURN_S = 2.0  # then another webhook is served
LEASE_MS = 90_000  # longer than a turn, its last reply and a slow name resolution


class WebhookSender(Service):
    """Serves one webhook at a time, a batch of its events. Any number may run; they share the webhooks."""

    name = "deliverer"

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._post: Post | None = None

    def run_once(self) -> bool:
        """Serve one webhook for one turn; return whether there was one."""
        batch = self.store.deliveries.claim(lease_ms=LEASE_MS)
        if batch is None:
            return False
        if batch.letters:
            self._deliver(batch)
        return True

    def stop(self) -> None:
        """Stop at once. A request without a reply counts as not sent, and is sent again."""
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
        """Send until all is sent, the turn is over, or the receiver seems to be down."""
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
            if failures >= UNREACHABLE_AFTER:
                break
        return outcomes


def send(store: Store, batch: Batch, letter: Letter, post: Post) -> Outcome:
    """Try to deliver one event. An event that the webhook's format cannot express counts as delivered."""
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


def content(reader: Reader, kind: str, secret: bytes, event: openlineage.Event) -> tuple[bytes, dict[str, str]] | None:
    """Return the body and headers of a delivery; None if the webhook's format cannot express the event."""
    if kind != "openlineage":
        return signed(secret, event)
    run_id = event["data"].get("runId")
    lineage = reader.lineage(run_id) if run_id else None
    document = openlineage.run_event(event, lineage)
    if document is None:
        return None
    key = {"Authorization": f"Bearer {secret.decode()}"} if secret else {}
    return _json(document), {"Content-Type": "application/json", **key}


def signed(secret: bytes, event: openlineage.Event) -> tuple[bytes, dict[str, str]]:
    """Return the body and headers of a signed CloudEvent."""
    body = _json(cloud_event(event))
    signed_headers = signature.headers(secret, str(event["id"]), int(time.time()), body)
    return body, {"Content-Type": f"{MEDIA}; charset=utf-8", **signed_headers}


def _json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def try_out(store: Store, name: str) -> int:
    """Send a test event to a webhook and return the status of the reply."""
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
