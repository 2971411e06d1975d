"""Services start and stop from any thread, survive a failing round, and can be woken."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from freshline.services.alert_evaluator import AlertEvaluator
from freshline.services.alert_sender import AlertSender
from freshline.services.event_sequencer import EventSequencer
from freshline.services.expiry import Expiry
from freshline.services.heartbeat import Heartbeat
from freshline.services.inbox_consumer import InboxConsumer
from freshline.services.materializer import Materializer
from freshline.services.notifier import Notifier
from freshline.services.pruner import Pruner
from freshline.services.reconciler import Reconciler
from freshline.services.rescuer import Rescuer
from freshline.services.service import Service
from freshline.services.sweeper import Sweeper
from freshline.services.watcher import Watcher
from freshline.services.webhook_sender import WebhookSender
from freshline.store.store import Store
from tests.store_harness import Lab, workflow
from tests.waiting import wait_until

SERVICES: dict[str, Callable[[Store], Any]] = {
    "absorber": InboxConsumer,
    "alert-sender": AlertSender,
    "alerts": AlertEvaluator,
    "deliverer": WebhookSender,
    "doorbell": lambda store: Notifier(store.database, {}),
    "expiry": Expiry,
    "materializer": lambda store: Materializer(store, store.settings),
    "presence": lambda store: Heartbeat(store, "materializer"),
    "pruner": Pruner,
    "reconciler": Reconciler,
    "relay": EventSequencer,
    "rescuer": Rescuer,
    "sweeper": Sweeper,
    "watcher": Watcher,
}


class Counting(Service):
    """Counts its rounds; a round can be made to fail."""

    name = "counting"

    def __init__(self, store: Store, poll_s: float) -> None:
        super().__init__(store, poll_s=poll_s)
        self.rounds = 0
        self.failures: list[Exception] = []

    def run_once(self) -> bool:
        """One round."""
        self.rounds += 1
        if self.failures:
            raise self.failures.pop()
        return False


def threads_named(*names: str) -> list[threading.Thread]:
    """Living threads of services."""
    return [thread for thread in threading.enumerate() if thread.name in names]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_may_be_started_and_stopped_from_anywhere(lab: Lab, name: str) -> None:
    """Threads that start and stop one service at random never hang, and leave at most one thread, then none."""
    service = SERVICES[name](lab.store)
    count, repetitions = (3, 4) if name in {"doorbell", "materializer"} else (6, 20)
    begin = threading.Barrier(count)

    def toggle(number: int) -> None:
        begin.wait()
        for repetition in range(repetitions):
            (service.start if (number + repetition) % 2 else service.stop)()

    threads = [threading.Thread(target=toggle, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a start or stop hangs"
    service.stop()
    service.stop()
    assert threads_named(*SERVICES, "doorbell") == []


def test_a_stop_does_not_wait_for_the_poll_interval(lab: Lab) -> None:
    """A service in a pause of an hour, or about to start one, stops at once."""
    for _ in range(200):
        service = Counting(lab.store, poll_s=3600)
        service.start()
        stopper = threading.Thread(target=service.stop)
        stopper.start()
        stopper.join(5)
        assert not stopper.is_alive(), "the stop was lost"


def test_a_wake_up_shortens_the_pause(lab: Lab) -> None:
    """Rings before the next round are one, and none is lost."""
    service = Counting(lab.store, poll_s=3600)
    service.start()
    wait_until(lambda: service.rounds == 1)
    service.wake()
    service.wake()
    wait_until(lambda: service.rounds >= 2)
    service.stop()
    assert service.rounds <= 3


@pytest.mark.parametrize(
    ("error", "told"),
    [(RuntimeError("boom"), "round_failed"), (psycopg.OperationalError("server gone"), "database_trouble")],
)
def test_a_failing_round_is_logged_and_the_next_one_works(lab: Lab, error: Exception, told: str) -> None:
    """Nothing that a round raises ends the service; trouble with the database asks for its revival."""
    revived: list[str] = []
    lab.store.database.revive = lambda: revived.append("revived")
    service = Counting(lab.store, poll_s=0.01)
    service.failures = [error, error]
    with capture_logs() as logs:
        service.start()
        wait_until(lambda: service.rounds >= 4)
        service.stop()
    assert [entry["event"] for entry in logs if entry.get("service") == "counting"] == [told, told]
    assert len(revived) == (2 if told == "database_trouble" else 0)


def test_a_materializer_works_without_any_notification(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all notifications lost, polling alone brings every run (docs/scenarios.md#scenario-10)."""
    monkeypatch.setattr(lab.database, "notify", lambda *_: None)
    lab.database.clock = None
    lab.apply(workflow("b", "a"), workflow("c", "b"))
    materializer = Materializer(lab.store, lab.settings)
    materializer.start()
    try:
        lab.report("a", "1")
        for slug in "bc":
            run = wait_until(lab.claim, what=f"the run of {slug}")
            assert run is not None
            assert run.slug == slug
            lab.finish(run)
        wait_until(lambda: lab.reason("c") == "up-to-date")
        wait_until(lambda: lab.one("SELECT count(*) FROM events WHERE position IS NULL") == 0)
    finally:
        materializer.stop()
    assert lab.one("SELECT count(*) FROM workers WHERE stopped_at IS NOT NULL") == 1
    assert lab.forgotten() == 0


def test_a_notification_wakes_its_service(lab: Lab) -> None:
    """A notification wakes the service that it names; unknown names are ignored."""
    heard: list[str] = []
    notifier = Notifier(lab.database, {"events": lambda: heard.append("events")})
    notifier.start()
    try:
        wait_until(lambda: heard == ["events"], what="the wake-up after connecting")
        lab.database.notify("events", "something-else")
        wait_until(lambda: heard == ["events", "events"])
    finally:
        notifier.stop()


def test_the_notifier_reconnects_when_its_connection_dies(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """It logs the lost connection, listens again, and wakes all services once.

    See docs/scenarios.md#scenario-10.
    """
    monkeypatch.setattr("freshline.services.notifier.RETRY_S", 0.01)
    heard: list[str] = []
    notifier = Notifier(lab.database, {"events": lambda: heard.append("events")})
    with capture_logs() as logs:
        notifier.start()
        try:
            wait_until(lambda: len(heard) == 1)
            lab.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND query LIKE 'LISTEN%%' AND pid <> pg_backend_pid()"
            )
            wait_until(lambda: len(heard) == 2, what="the wake-up after reconnecting")
            lab.database.notify("events")
            wait_until(lambda: len(heard) == 3)
        finally:
            notifier.stop()
    assert "doorbell_deaf" in [entry["event"] for entry in logs]


def test_a_notification_that_cannot_be_sent_is_not_an_error(lab: Lab) -> None:
    """A lost notification only costs latency: the transaction before it is committed."""
    lab.close()
    lab.database.notify("events")


def test_a_sweeper_that_is_turned_off_does_not_start(database_url: str) -> None:
    """`ASSET_MATERIALIZER_REFRESH_INTERVAL_MS=0` means no sweep."""
    lab = Lab(database_url, refresh_interval_ms=0)
    sweeper = Sweeper(lab.store)
    sweeper.start()
    assert threads_named("sweeper") == []
    sweeper.stop()
    lab.close()


def test_the_sweeper_finds_what_was_forgotten(lab: Lab) -> None:
    """A consideration that is deleted on purpose is restored, and the loss is logged."""
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.store.evaluation.consume_inbox(10)
    lab.rows("DELETE FROM considerations RETURNING 1")
    with capture_logs() as logs:
        Sweeper(lab.store).run_once()
    assert [entry["workflows"] for entry in logs if entry["event"] == "sweep_found"] == [1]
    assert lab.work() == ["b"]
