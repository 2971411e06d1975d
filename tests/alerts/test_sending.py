"""Messages through a real Apprise to a real HTTP receiver and a real SMTP server."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_network
from typing import Any

import pytest

from freshline.apprise_process.process import AppriseProcess, Message, Sent
from freshline.cli.commands.why import explain
from freshline.definitions.alerts import LOCAL
from freshline.model.alerts import AlertTarget
from freshline.services.alert_sender import AlertSender, resolve, try_out
from freshline.store.alerts.messages import Result
from tests.alerts.conftest import break_, rule, told
from tests.alerts.mailbox import Mailbox
from tests.store_harness import Lab, workflow
from tests.webhooks.receiver import Receiver

LOOPBACK = (ip_network("127.0.0.0/8"),)


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    """Yield a mailbox that accepts everything."""
    mailbox = Mailbox()
    yield mailbox
    mailbox.close()


def json_url(receiver: Receiver, path: str = "hook") -> str:
    """Return the Apprise address of a receiver."""
    return f"json://127.0.0.1:{receiver.port}/{path}"


def test_one_alert_and_one_all_clear_arrive_at_both(
    lab: Lab, receiver: Receiver, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They say what happened, why, and what to run; 8 descendants of the broken job are counted, not reported."""
    below = [workflow(f"w{number}", "b", freshness={"maxAgeMs": 3_600_000}) for number in range(8)]
    lab.apply(workflow("b", "a"), *below)
    monkeypatch.setenv("ALERT_MAIL", mailbox.url)
    lab.store.alerts.add(rule(to=[json_url(receiver), {"env": "ALERT_MAIL"}]))
    lab.report("a", "1")
    lab.work()
    break_(lab, "a", message="AnalysisException: there is no path s3a://lake/orders")
    lab.live(hours=2)
    sender = AlertSender(lab.store, explain)
    assert told(lab) == [("alert", "b"), ("alert", "b")], "one per address"
    assert sender.run_once()
    assert not sender.run_once()
    (run,) = [one for one in lab.runs("b") if one["status"] == "failed"]
    (one,) = [received.event for received in receiver.received]
    assert one["title"] == "Freshline: workflow 'b' is failing"
    assert one["type"] == "failure"
    for part in (
        "Workflow 'b' is failing: AnalysisException: there is no path s3a://lake/orders.",
        "8 assets downstream wait for it.",
        "b is failing",
        "it cools down after 1 failure",
        "freshline why b",
        f"freshline logs {run['id']}",
        "freshline reset b",
        f"incident {lab.one('SELECT id::text FROM alert_incidents')}",
    ):
        assert part in one["message"], one["message"]
    assert mailbox.subjects == [one["title"]]
    assert mailbox.text().split() == one["message"].split()
    lab.report("a", "2")
    lab.work()
    told(lab)
    lab.advance(minutes=2)
    assert told(lab)[2:] == [("clear", "b"), ("clear", "b")]
    assert sender.run_once()
    assert [received.event["title"] for received in receiver.received][1:] == ["Freshline: workflow 'b' is fine again"]
    assert receiver.received[1].event["type"] == "success"
    assert len(mailbox.mails) == 2
    assert lab.one("SELECT count(*) FROM alert_messages WHERE sent_at IS NULL") == 0


@pytest.mark.full
def test_a_failure_is_retried_in_order(lab: Lab, receiver: Receiver, mailbox: Mailbox) -> None:
    """The all-clear waits for the alert at the address that fails; the other address does not wait."""
    receiver.answer = 500
    lab.store.alerts.add(rule(to=[json_url(receiver, "secret-path"), mailbox.url]))
    break_(lab, "a")
    told(lab)
    sender = AlertSender(lab.store)
    assert sender.run_once()
    (row,) = lab.rows("SELECT * FROM alert_messages WHERE sent_at IS NULL")
    assert row["trouble"] == "the service answered 500"
    assert row["attempts"] == 1
    lab.store.operations.reset("b")
    told(lab)
    lab.now = max(lab.later(minutes=2), row["eligible_at"])
    told(lab)
    receiver.answer = 204
    while sender.run_once():
        pass
    titles = [one.event["title"] for one in receiver.received]
    assert titles == ["Freshline: workflow 'b' is failing", "Freshline: workflow 'b' is fine again"]
    assert len(mailbox.mails) == 2
    assert "secret-path" not in str(lab.rows("SELECT trouble, title FROM alert_messages"))


def test_an_all_clear_never_overtakes_its_alert(lab: Lab) -> None:
    """It waits until the alert was sent or given up, at each address for itself."""
    lab.store.alerts.add(rule(to=["json://h/1", "json://h/2"]))
    break_(lab, "a")
    told(lab)
    first, second = lab.store.alert_messages.claim(lease_ms=60_000)
    assert lab.store.alert_messages.record([Result(first, trouble="no"), Result(second, "title")]) == 2
    lab.store.operations.reset("b")
    told(lab)
    lab.advance(seconds=61)
    assert told(lab)[2:] == [("clear", "b"), ("clear", "b")]
    kinds = [(one.kind.value, one.target.url) for one in lab.store.alert_messages.claim(lease_ms=60_000)]
    assert kinds == [("alert", "json://h/1"), ("clear", "json://h/2")]
    lab.advance(days=2)
    (again,) = [one for one in lab.store.alert_messages.claim(lease_ms=60_000) if one.kind.value == "alert"]
    lab.store.alert_messages.record([Result(again, trouble="no")])
    assert lab.one("SELECT count(*) FROM alert_messages WHERE dead_at IS NOT NULL") == 1, "it is too old"
    assert [one.kind.value for one in lab.store.alert_messages.claim(lease_ms=60_000)] == ["clear"]


def test_a_message_that_was_sent_but_not_recorded_is_sent_again(lab: Lab) -> None:
    """After a crash the lease ends, another sender takes it, and the late record of the first changes nothing."""
    lab.store.alerts.add(rule())
    break_(lab, "a")
    told(lab)
    (first,) = lab.store.alert_messages.claim(lease_ms=60_000)
    assert lab.store.alert_messages.claim(lease_ms=60_000) == []
    lab.advance(seconds=61)
    (second,) = lab.store.alert_messages.claim(lease_ms=60_000)
    assert [one.incident.id for one in second.facts] == [one.incident.id for one in first.facts]
    assert lab.store.alert_messages.record([Result(first, trouble="late")]) == 0
    assert lab.store.alert_messages.record([Result(second, "title")]) == 1
    assert lab.store.alert_messages.record([Result(second, "title")]) == 0
    assert lab.one("SELECT count(*) FROM alert_messages WHERE sent_at IS NOT NULL AND attempts = 1") == 1


def test_many_senders_take_each_message_once(lab: Lab) -> None:
    """Eight of them claim eight messages, each one once."""
    for number in range(8):
        lab.store.alerts.add(rule(f"r{number}"))
    break_(lab, "a")
    told(lab)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: lab.store.alert_messages.claim(lease_ms=60_000), range(8)))
    assert sorted(one.number for letters in found for one in letters) == sorted(
        row["number"] for row in lab.rows("SELECT number FROM alert_messages")
    )


def test_what_a_service_may_not_do(receiver: Receiver, tmp_path: Any) -> None:
    """Connect to private addresses, send unencrypted to public ones, follow redirects, act on the machine, hang."""
    certificate = tmp_path / "key"
    certificate.write_text("secret")
    hung: list[str] = []

    def answer(_: BaseHTTPRequestHandler, event: dict[str, Any]) -> int:
        hung.append(event["title"])
        return 302

    receiver.answer = answer
    urls = {
        "jsons://10.0.0.1/x": "the address 10.0.0.1 is not public",
        "jsons://[::ffff:10.0.0.1]/x": "is not public",
        "json://1.1.1.1/x": "without encryption",
        "mailto://user:hunter2@1.1.1.1?from=a@b.example&to=c@d.example": "without encryption",
        f"{json_url(receiver)}?redirect=yes": "the service answered 302",
        "syslog://": "syslog:// acts on this machine",
        "nonsense://x": "Apprise does not understand the nonsense:// address",
        f"fcm://project@hunter2/device/?keyfile={certificate}&mode=oauth2": "",
    }
    process = AppriseProcess(allowed=LOOPBACK, timeout_s=2)
    messages = [Message(number, url, "title", "body") for number, url in enumerate(urls)]
    found = dict(process.send(messages))
    for number, (url, part) in enumerate(urls.items()):
        trouble = found[number].trouble
        assert trouble is not None, url
        assert part in trouble, (url, trouble)
        assert "hunter2" not in trouble
    assert len(receiver.asked) == 1, "the redirect was not followed"
    process.interrupt()
    assert dict(process.send(messages)) == {}, "it starts nothing after an interrupt"


def test_services_that_act_on_the_machine_are_refused() -> None:
    """The list has every service of Apprise that has no address to send to: a new version may add one."""
    from apprise.manager_plugins import NotificationManager  # noqa: PLC0415 - slow to import

    manager: Any = NotificationManager
    local: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of Apprise
        plugins = list(manager().plugins())
    for plugin in plugins:
        name = plugin.__module__.rpartition(".")[2]
        if name in {"blink1", "dbus", "glib", "gnome", "macosx", "syslog", "windows"}:
            local |= {plugin.protocol} if isinstance(plugin.protocol, str) else set(plugin.protocol)
        elif plugin.protocol is not None or plugin.secure_protocol is not None:
            needs = [one for one in plugin.templates if "{" in one]
            assert needs, f"{name} has addresses without a host or a token: is it local?"
    assert local == LOCAL


def test_an_address_comes_from_the_environment_and_is_never_shown() -> None:
    """An error names the variable and not its value."""
    assert resolve(AlertTarget(env="X"), {"X": " json://h/x "}) == "json://h/x"
    with pytest.raises(ValueError, match="the variable X is not set"):
        resolve(AlertTarget(env="X"), {})
    for value in ("hunter2", "syslog://hunter2"):
        with pytest.raises(ValueError, match="the variable X does not hold an address") as error:
            resolve(AlertTarget(env="X"), {"X": value})
        assert "hunter2" not in str(error.value)
    assert "hunter2" not in repr(AlertTarget(url="slack://hunter2"))
    assert AlertTarget(url="slack://hunter2").shown == "slack://***"


def test_a_test_message_is_sent_now(lab: Lab, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every address has its own result."""
    monkeypatch.delenv("NOT_SET", raising=False)
    targets = [AlertTarget(url=json_url(receiver)), AlertTarget(env="NOT_SET")]
    (first, second) = try_out(lab.store, "a rule", targets)
    assert first == ("json://***", Sent())
    assert second[0] == "$NOT_SET"
    assert second[1].trouble == "the variable NOT_SET is not set in the environment of this command"
    assert "test" in receiver.received[0].event["title"]


@pytest.mark.full
def test_a_service_that_hangs_is_killed(receiver: Receiver) -> None:
    """It fails, although no single read takes long, and what comes after it is sent."""
    receiver.answer = lambda handler, event: _drip(handler) if event["title"] == "slow" else 204
    process = AppriseProcess(allowed=LOOPBACK, timeout_s=1)
    found = dict(process.send([Message(1, json_url(receiver), "slow", "b"), Message(2, json_url(receiver), "t", "b")]))
    assert "did not end within 3 s" in str(found[1].trouble)
    assert found[2] == Sent()


def _drip(handler: BaseHTTPRequestHandler) -> None:
    """Send one header after the other until the client is gone."""
    pace = threading.Event()
    with suppress(OSError):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(90):
            handler.wfile.write(f"X-{number}: 1\r\n".encode())
            handler.wfile.flush()
            pace.wait(0.1)
