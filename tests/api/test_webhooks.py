"""Webhooks over HTTP: the required scope, idempotency keys, and no trace of a secret."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_network
from typing import Any

import pytest
from structlog.testing import capture_logs

from freshline.services.webhook_sender import WebhookSender
from freshline.webhooks.signature import new_secret
from tests.api.conftest import Api, serving
from tests.store_harness import laboratory
from tests.webhooks.receiver import Receiver, verify

URL = "https://hooks.example/x?token=canary-4711"


@pytest.fixture
def admin(api: Api) -> dict[str, str]:
    """Return the header that changes need."""
    return {"Authorization": api.token("admin")["Authorization"]}


def test_a_webhook_is_added_shown_paused_and_removed(api: Api, admin: dict[str, str]) -> None:
    """Its secret is told this once, and the query of its address never; all of it is in the audit."""
    made = api.post("/webhooks", {"url": URL, "types": ["asset.*"]}, expect=201, **admin)
    assert made["secret"].startswith("whsec_")
    shown = api.get("/webhooks/hooks.example")
    assert shown == {name: value for name, value in made.items() if name != "secret"}
    assert (shown["url"], shown["types"], shown["assets"]) == ("https://hooks.example/x?…", ["asset.*"], ["*"])
    assert api.get("/webhooks")["items"] == [shown]
    assert api.post("/webhooks/hooks.example/pause", expect=200, **admin)["paused"] is True
    assert api.post("/webhooks/hooks.example/resume", expect=200, **admin)["paused"] is False
    assert api.post("/webhooks/hooks.example/redeliver", expect=202, **admin)["redelivered"] == 0
    gone = api.client.delete("/webhooks/hooks.example", headers=admin)
    assert (gone.status_code, gone.headers.get("content-length")) == (204, None), "what follows would be another answer"
    assert "did you mean" not in api.get("/webhooks/hooks.example", expect=404)["detail"]
    audit = api.client.get("/audit", headers=admin)
    changes = [(one["who"], one["what"]) for one in audit.json()["items"][::-1]]
    parts = ("add", "pause", "resume", "redeliver", "remove")
    assert changes == [("token:admin", f"{what}_webhook") for what in parts]
    assert "canary" not in audit.text
    assert made["secret"] not in audit.text


def test_nobody_adds_a_webhook_without_admin(api: Api) -> None:
    """Not from this machine either, and not by a token that operates."""
    assert api.post("/webhooks", {"url": URL}, expect=401)["code"] == "token-needed"
    assert api.post("/webhooks", {"url": URL}, expect=403, **api.token("operate"))["code"] == "scope-needed"


def test_the_same_key_adds_one_webhook(api: Api, admin: dict[str, str]) -> None:
    """Also when all come at once; only the first answer has the secret. Another webhook by that key is refused."""

    def ask(_: int) -> Any:
        return api.post("/webhooks", {"url": URL}, expect=201, **admin, Idempotency_Key="k")

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(30)))
    assert len({one["id"] for one in answers}) == 1
    assert len([one for one in answers if one["secret"]]) == 1
    other = {"url": "https://other.example/"}
    assert api.post("/webhooks", other, expect=409, **admin, Idempotency_Key="k")["code"] == "conflict"
    assert "already" in api.post("/webhooks", {"url": URL}, expect=409, **admin)["detail"]


@pytest.mark.parametrize(
    "asked",
    [
        {"url": "https://10.0.0.1/"},
        {"url": "http://hooks.example/"},
        {"url": "https://user:canary-4711@hooks.example/"},
        {"url": URL, "secret": "canary-4711"},
        {"url": URL, "types": ["a b"]},
        {"url": URL, "types": []},
        {"url": URL, "assets": ["x"] * 51},
        {"url": URL, "name": "a/b"},
        {"url": URL, "more": 1},
        {},
    ],
)
def test_what_cannot_work_is_refused(api: Api, admin: dict[str, str], asked: dict[str, Any]) -> None:
    """With a sentence that repeats no secret."""
    answer = api.post("/webhooks", asked, expect=422, **admin)
    assert "canary" not in str(answer)
    assert api.get("/webhooks")["items"] == []


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Start a real HTTP receiver."""
    receiver = Receiver()
    yield receiver
    receiver.close()


def test_no_secret_is_told_anywhere(
    database_url: str, receiver: Receiver, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Not by a delivery that succeeds or fails, in no listing, event, metric or log; the receiver can verify it."""
    secret = receiver.secret = new_secret()
    seen: list[str] = []
    with (
        caplog.at_level(logging.DEBUG),
        capture_logs() as said,
        laboratory(database_url, webhook_allow_private=(ip_network("127.0.0.1"),)) as lab,
        serving(lab) as api,
    ):
        lab.apply(sources=("a",))
        asked = {"url": receiver.url + "?token=canary-4711", "secret": secret, "name": "hook"}
        admin = api.token("admin")
        seen.append(str(api.post("/webhooks", asked, expect=201, **admin)))
        for status in (500, 204):
            receiver.answer = status
            lab.report("a")
            lab.store.events.stamp_positions(10)
            WebhookSender(lab.store).run_once()
            seen += [api.client.get(path, headers=admin).text for path in PATHS]
    out, err = capfd.readouterr()
    told = "".join([*seen, str(said), out, err, caplog.text])
    assert verify(secret, receiver.received[0])
    assert "webhook_failed" in told
    assert "canary-4711" not in told
    assert secret.removeprefix("whsec_") not in told


PATHS = ("/webhooks", "/webhooks/hook", "/webhooks/hook/deliveries", "/audit", "/events", "/metrics", "/workers")
