"""`/alerts`: rules, incidents and messages over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from freshline.services.alert_evaluator import AlertEvaluator
from freshline.store.alerts.messages import Result
from tests.api.conftest import Api

RULE: dict[str, Any] = {"name": "ops", "on": ["failing"], "to": ["slack://canary-4711/b/c", {"env": "OPS"}]}


@pytest.fixture
def admin(api: Api) -> dict[str, str]:
    """Return the header that changes need."""
    return {"Authorization": api.token("admin")["Authorization"]}


@pytest.fixture
def failing(api: Api) -> Api:
    """Return an installation in which `b` fails."""
    api.lab.report("a", "broken")
    api.lab.settle()
    api.lab.fail(api.lab.start_of("b"))
    return api


def test_a_rule_is_added_shown_paused_and_removed(api: Api, admin: dict[str, str]) -> None:
    """Its addresses are never told; all of it is in the audit."""
    made = api.post("/alerts", {**RULE, "clearAfter": "5m"}, expect=201, **admin)
    assert (made["to"], made["clearAfterMs"], made["assets"]) == (["slack://***", "$OPS"], 300_000, ["*"])
    assert api.get("/alerts")["items"] == [api.get("/alerts/ops")] == [made]
    assert api.post("/alerts/ops/pause", expect=200, **admin)["paused"] is True
    assert api.post("/alerts/ops/resume", expect=200, **admin)["paused"] is False
    assert api.client.delete("/alerts/ops", headers=admin).status_code == 204
    assert api.get("/alerts/ops", expect=404)["code"] == "not-found"
    audit = api.client.get("/audit", headers=admin)
    changes = [one["what"] for one in audit.json()["items"][::-1]]
    assert changes == ["add_alert", "pause_alert", "resume_alert", "remove_alert"]
    assert "canary" not in audit.text + str(made)


def test_changes_need_admin_and_a_key_adds_one_rule(api: Api, admin: dict[str, str]) -> None:
    """The same key and another rule are a conflict."""
    assert api.post("/alerts", RULE, expect=401)["code"] == "token-needed"
    for _ in range(2):
        assert api.post("/alerts", RULE, expect=201, **admin, Idempotency_Key="k")["name"] == "ops"
    other = {**RULE, "on": ["overdue"]}
    assert api.post("/alerts", other, expect=409, **admin, Idempotency_Key="k")["code"] == "conflict"
    assert len(api.get("/alerts")["items"]) == 1


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"on": ["late"]}, "'on' has 'late'"),
    ({"to": ["canary-4711"]}, "'to' has something that is not an address"),
    ({"to": ["syslog://canary-4711"]}, "acts on the machine"),
    ({"digest": "never"}, "'digest' is 'never'"),
    ({"body": "{why.x}"}, "a template has {why.x}"),
]


def test_mistakes_are_refused(api: Api, admin: dict[str, str]) -> None:
    """With what is allowed, and nothing of an address."""
    for fields, message in MISTAKES:
        answer = api.post("/alerts", {**RULE, **fields}, expect=422, **admin)
        assert message in str(answer)
        assert "canary" not in str(answer)


def test_incidents_and_messages_are_listed(failing: Api, admin: dict[str, str]) -> None:
    """Newest first, in pages."""
    failing.post("/alerts", RULE, expect=201, **admin)
    AlertEvaluator(failing.lab.store).run_once()
    (incident,) = failing.get("/alerts/ops/incidents", open="true")["items"]
    assert (incident["root"], incident["rootType"], incident["kinds"]) == ("b", "workflow", ["failing"])
    first = failing.get("/alerts/ops/messages", limit=1)
    second = failing.get("/alerts/ops/messages", limit=1, after=first["next"])
    assert [one["to"] for one in first["items"] + second["items"]] == ["$OPS", "slack://***"]
    assert second["next"] is None
    letters = failing.lab.store.alert_messages.claim(lease_ms=60_000)
    failing.lab.store.alert_messages.record([Result(letters[0], "title"), Result(letters[1], "title", "no answer")])
    states = [(one["state"], one["trouble"]) for one in failing.get("/alerts/ops/messages")["items"]]
    assert states == [("waiting", "no answer"), ("sent", None)]
    shown = failing.get("/alerts/ops")
    assert (shown["open"], shown["sent"], shown["waiting"], shown["trouble"]) == (1, 1, 1, "no answer")
