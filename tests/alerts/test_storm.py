"""500 failing descendants of one broken source, with real processes, a real HTTP receiver and a real SMTP server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from freshline.services.alert_evaluator import AlertEvaluator
from freshline.services.alert_sender import AlertSender
from tests.acceptance.deployment import Deployment
from tests.alerts.conftest import rule
from tests.alerts.mailbox import Mailbox
from tests.store_harness import Lab, workflow
from tests.waiting import wait_until
from tests.webhooks.receiver import Receiver

BELOW = 500


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    """Yield a mailbox that accepts everything."""
    mailbox = Mailbox()
    yield mailbox
    mailbox.close()


@pytest.mark.full
@pytest.mark.timeout(900)
def test_five_hundred_failing_descendants_are_one_alert_and_one_all_clear(
    lab: Lab, receiver: Receiver, mailbox: Mailbox
) -> None:
    """All read the broken source, half of them also what is made from it. They recover one by one."""
    half = BELOW // 2
    direct = [workflow(f"direct-{number}", "landing") for number in range(half)]
    hasty = {"onUpstreamUpdate": True, "waitForUpstream": False}
    indirect = [workflow(f"indirect-{number}", f"landing direct-{number}", auto=hasty) for number in range(half)]
    lab.apply(*direct, *indirect)
    lab.store.alerts.add(rule(to=[f"json://127.0.0.1:{receiver.port}/", mailbox.url]))
    evaluator, sender = AlertEvaluator(lab.store), AlertSender(lab.store)

    def work(*, broken: bool) -> None:
        """Execute what is queued. The services of alerts run beside it."""
        for number in range(10 * BELOW):
            lab.settle()
            run = lab.claim()
            if run is None:
                return
            if broken:
                lab.fail(run, "AnalysisException: the path does not exist")
            else:
                lab.finish(run)
            if number % 50 == 0:
                evaluator.run_once()
                sender.run_once()
        raise AssertionError("it never ends")

    lab.report("landing", "1")
    work(broken=False)
    lab.report("landing", "2")
    work(broken=True)
    evaluator.run_once()
    while sender.run_once():
        pass
    assert lab.one("SELECT count(*) FROM workflow_partitions WHERE failures > 0") == BELOW
    assert len(receiver.received) == len(mailbox.mails) == 1
    lab.report("landing", "3")
    lab.advance(hours=1)  # the cooldowns end
    work(broken=False)
    evaluator.run_once()
    lab.advance(minutes=2)
    evaluator.run_once()
    while sender.run_once():
        pass
    titles = [one.event["title"] for one in receiver.received]
    assert titles == mailbox.subjects
    assert len(titles) == 2
    assert titles[1].endswith("fine again")
    assert lab.one("SELECT count(*) FROM alert_incidents") == 1
    assert lab.one("SELECT cardinality(members) FROM alert_incidents") == BELOW


@pytest.mark.full
@pytest.mark.process
def test_a_materializer_that_is_killed_after_sending_sends_again(
    tmp_path: Path, database_url: str, receiver: Receiver
) -> None:
    """kill -9 between sending and recording: the next one sends the same incident, and records it."""
    deployment = Deployment(
        tmp_path,
        database_url,
        ALERT_URL=f"json://127.0.0.1:{receiver.port}/canary-4711",
        FRESHLINE_WEBHOOK_ALLOW_PRIVATE="127.0.0.1",
        FRESHLINE_WEBHOOK_TIMEOUT_MS="500",
    )
    try:
        deployment.workflow("b", "a")
        with (tmp_path / "freshline.toml").open("a") as manifest:
            manifest.write('[alerts.all]\non = ["failing"]\nto = {env = "ALERT_URL"}\n')
        (tmp_path / "fail-b").touch()
        deployment.apply()
        killed = deployment.start("materializer", FRESHLINE_FAILPOINTS="record_alerts:before=kill")
        deployment.start("worker")
        deployment.cli("report", "a", "--version", "1")
        wait_until(lambda: killed.poll() is not None, 90, what="the materializer is killed")
        assert len(receiver.received) == 1
        deployment.start("materializer")
        wait_until(lambda: len(receiver.received) == 2, 90, what="the message is sent again")
        wait_until(lambda: deployment.json("alert", "show", "all")["sent"] == 1, 30, what="it is recorded")
        first, second = (one.event for one in receiver.received)
        assert first["title"] == second["title"] == "Freshline: workflow 'b' is failing"
        incident = deployment.json("alert", "show", "all")["incidents"][0]["id"]
        assert incident in first["message"]
        assert incident in second["message"]
        assert "it cools down after 1 failure" in first["message"], "the answer of why"
        assert "canary" not in deployment.logs() + deployment.cli("alert", "show", "all") + deployment.cli("audit")
    finally:
        deployment.stop_all()
