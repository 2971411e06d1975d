"""`freshline alert`: add, list, show, test, pause and remove."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from freshline.store.store import Store
from tests.cli.conftest import Freshline
from tests.webhooks.receiver import Receiver


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Start a receiver on this machine, and allow alerts to reach it."""
    monkeypatch.setenv("FRESHLINE_WEBHOOK_ALLOW_PRIVATE", "127.0.0.1")
    receiver = Receiver()
    yield receiver
    receiver.close()


def test_a_rule_is_added_listed_paused_and_removed(freshline: Freshline) -> None:
    """Its address is shown nowhere, not in the audit either."""
    assert "freshline alert add NAME" in freshline("alert", "list").stderr
    to = "slack://canary-4711/b/c"
    made = freshline("alert", "add", "sales", "--on", "failing", "--on", "overdue", "--asset", "shop.*", "--to", to)
    assert "'sales' reports failing, overdue of shop.* to slack://***" in made.stderr
    assert "warning: no asset matches 'shop.*' now" in made.stderr
    freshline("alert", "add", "ops", "--on", "breaker", "--to-env", "OPS", "--digest", "4h", "--quiet", "22:00-07:00")
    listed = freshline.json("alert", "list")
    assert [(one["name"], one["to"], one["open"]) for one in listed] == [
        ("ops", ["$OPS"], 0),
        ("sales", ["slack://***"], 0),
    ]
    assert freshline.json("alert", "show", "ops")["digest"]["cadence_ms"] == 14_400_000
    shown = freshline("alert", "show", "ops").stdout
    assert "in a digest every 4.0 h; quiet 22:00-07:00 UTC" in shown
    assert "no incident so far" in shown
    freshline("alert", "pause", "sales")
    assert freshline.json("alert", "list")[1]["paused"] is True
    freshline("alert", "resume", "sales")
    assert "there is an alert 'sales' already" in freshline("alert", "add", "sales", "--on", "failing", "--to-env", "X",
                                                            code=1).stderr  # fmt: skip
    freshline("alert", "remove", "sales")
    assert "did you mean 'ops'" in freshline("alert", "remove", "op", code=1).stderr
    audited = freshline("audit", "--json").stdout
    assert "remove_alert" in audited
    assert "canary" not in audited + shown + str(listed) + made.output


MISTAKES = {
    ("x", "--on", "failing"): "no address is given",
    ("x", "--to-env", "X"): "'on' is missing; write what to report",
    ("x", "--on", "late", "--to-env", "X"): "'on' has 'late'; known are failing",
    ("x", "--on", "failing", "--to", "canary-4711"): "'to' has something that is not an address",
    ("x y", "--on", "failing", "--to-env", "X"): "an alert cannot be called 'x y'",
    ("x", "--on", "failing", "--to-env", "X", "--title", "{x.y}"): "a template has {x.y}",
}


def test_mistakes_are_explained(freshline: Freshline) -> None:
    """Without any part of an address."""
    for arguments, message in MISTAKES.items():
        refused = freshline("alert", "add", *arguments, code=2)
        assert message in refused.stderr
        assert "canary" not in refused.output


def test_an_unknown_alert_says_what_lists_them(freshline: Freshline) -> None:
    """Whichever command names it. `status` does not list alerts, nor webhooks."""
    for words in (["show"], ["test"], ["pause"], ["remove"]):
        assert "`freshline alert list` shows them" in freshline("alert", *words, "nobody", code=1).stderr
    assert "`freshline webhook list` shows them" in freshline("webhook", "deliveries", "nobody", code=1).stderr


def test_a_test_shows_the_result_of_each_address(
    freshline: Freshline, receiver: Receiver, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a rule or an address; exit code 1 if one failed."""
    monkeypatch.setenv("HOOK", f"json://127.0.0.1:{receiver.port}/canary-4711")
    freshline("alert", "add", "ops", "--on", "failing", "--to-env", "HOOK", "--to-env", "NOT_SET")
    answer = freshline("alert", "test", "ops", code=1)
    assert "$HOOK  sent" in answer.stdout
    assert "$NOT_SET  failed: the variable NOT_SET is not set in the environment of this command" in answer.stdout
    assert "This is a test of the rule 'ops'" in receiver.received[0].event["message"]
    assert "either a rule or an address" in freshline("alert", "test", code=2).stderr
    assert store.reader.alerts.messages("ops") == [], "a test is not a message of the rule"
