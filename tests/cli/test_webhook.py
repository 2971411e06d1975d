"""`freshline webhook`: add, list, test, pause and remove."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from freshline.services.webhook_sender import WebhookSender
from freshline.store.store import Store
from freshline.webhooks.signature import new_secret
from tests.cli.conftest import Freshline
from tests.webhooks.receiver import Receiver, verify

URL = "https://hooks.example/x?token=canary-4711"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Start a receiver on this machine, and allow webhooks to reach it."""
    monkeypatch.setenv("FRESHLINE_WEBHOOK_ALLOW_PRIVATE", "127.0.0.1")
    receiver = Receiver()
    yield receiver
    receiver.close()


def test_a_secret_is_shown_once(freshline: Freshline) -> None:
    """On stdout, and in no listing; neither is the query of the address."""
    secret = freshline("webhook", "add", URL, "--type", "asset.*", "--asset", "shop.*").stdout.strip()
    assert secret.startswith("whsec_")
    (shown,) = freshline.json("webhook", "list")
    assert (shown["name"], shown["types"], shown["assets"]) == ("hooks.example", ["asset.*"], ["shop.*"])
    listed = freshline("webhook", "list").output + str(shown)
    assert secret not in listed
    assert "canary" not in listed
    assert "already" in freshline("webhook", "add", URL, code=1).stderr


def test_a_secret_can_be_brought(freshline: Freshline, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a variable, so that it is in no history of a shell; `test` sends an event that is signed with it."""
    assert "is not set" in freshline("webhook", "add", receiver.url, "--secret-env", "HOOK", code=2).stderr
    monkeypatch.setenv("HOOK", "canary-4711")
    refused = freshline("webhook", "add", receiver.url, "--secret-env", "HOOK", code=2)
    assert "another form" in refused.stderr
    assert "canary" not in refused.output
    secret = new_secret()
    monkeypatch.setenv("HOOK", secret)
    assert secret not in freshline("webhook", "add", receiver.url, "--name", "mine", "--secret-env", "HOOK").output
    assert "'mine' answered 204" in freshline("webhook", "test", "mine").stderr
    assert verify(secret, receiver.received[0])
    assert receiver.received[0].event["type"] == "freshline.webhook.test"
    receiver.answer = 418
    assert "the receiver answered 418" in freshline("webhook", "test", "mine", code=1).stderr


def test_letters_are_shown_and_sent_again(applied: Freshline, receiver: Receiver, store: Store) -> None:
    """What was not taken, why, and how often it was tried."""
    freshline = applied
    freshline("webhook", "add", receiver.url, "--name", "mine")
    assert "all deliveries succeeded" in freshline("webhook", "deliveries", "mine").stderr
    receiver.answer = 500
    freshline("report", "shop.raw")
    store.events.stamp_positions(1000)
    WebhookSender(store).run_once()
    table = freshline("webhook", "deliveries", "mine").stdout
    assert "waiting" in table
    assert "0 dead letters" in freshline("webhook", "redeliver", "mine").stderr


def test_it_is_paused_resumed_and_removed(freshline: Freshline) -> None:
    """By its name; a wrong one is answered with the nearest."""
    freshline("webhook", "add", URL, "--name", "mine")
    freshline("webhook", "pause", "mine")
    assert "paused" in freshline("webhook", "list").stdout
    freshline("webhook", "resume", "mine")
    assert "did you mean 'mine'" in freshline("webhook", "remove", "mime", code=1).stderr
    freshline("webhook", "remove", "mine")
    assert freshline.json("webhook", "list") == []


def test_a_private_address_is_refused_at_once(freshline: Freshline) -> None:
    """With what to do."""
    refused = freshline("webhook", "add", "https://192.168.0.1/", code=2).stderr
    assert "is not public" in refused
    assert "FRESHLINE_WEBHOOK_ALLOW_PRIVATE" in refused


def test_lineage_takes_a_key_and_no_secret(freshline: Freshline, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is made, a given one is not shown, and only runs are asked for."""
    monkeypatch.setenv("LINEAGE_KEY", "canary-4711")
    words = ("webhook", "add", "https://lineage.example/", "--kind", "openlineage")
    made = freshline.json(*words, "--secret-env", "LINEAGE_KEY")
    assert (made["kind"], made["types"], made["secret"]) == ("openlineage", ["workflow.run.*"], None)
    assert "whsec_" not in freshline(*words, "--name", "open").output
    assert "canary" not in freshline("webhook", "list", "--json").output + str(made)
    assert "a run that never was" in freshline("webhook", "test", "open", code=2).stderr
