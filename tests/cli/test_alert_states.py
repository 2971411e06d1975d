"""The lines of `freshline dev` about alerts: one when messages begin to fail and one when they arrive again."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

import pytest

from freshline.cli.alert_states import AlertStates
from freshline.cli.commands.dev import SHOWN_AS_LINES
from freshline.definitions.alerts import read_rule
from freshline.services.alert_sender import AlertSender
from tests.store_harness import Lab, laboratory, workflow
from tests.webhooks.receiver import Receiver


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a store whose alerts may be sent to this machine."""
    with laboratory(database_url, webhook_allow_private=(ip_network("127.0.0.0/8"),)) as lab:
        yield lab


def test_an_alert_that_goes_on_failing_is_one_line(lab: Lab) -> None:
    """Each try fails with the same error. When the message arrives, that is said too, and then nothing."""
    receiver = Receiver()
    receiver.answer = 500
    states, sender = AlertStates(lab.store.reader, pause_s=0), AlertSender(lab.store)
    lab.apply(workflow("b", "a"))
    lab.store.alerts.add(read_rule("oncall", {"on": ["failing"], "to": receiver.url.replace("http://", "json://")}))
    lab.report("a", "1")
    lab.settle()
    lab.fail(lab.start())
    lab.store.alert_evaluation.run()
    assert states.poll() == []
    told = []
    for _ in range(2):
        assert sender.run_once()
        told += [line.plain for line in states.poll()]
        lab.advance(hours=1)
    assert told == ["alert oncall cannot be sent: the service answered 500; `freshline alert show oncall` says more"]
    receiver.answer = 204
    assert sender.run_once()
    receiver.close()
    assert [line.plain for line in states.poll()] == ["alert oncall is sent again"]
    assert states.poll() == []
    assert AlertStates(lab.store.reader, pause_s=60).poll() == []
    assert "alert_failed" in SHOWN_AS_LINES
