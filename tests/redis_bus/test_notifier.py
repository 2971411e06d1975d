"""Notifications over Redis reach other hosts, are sent without waiting, and are never needed for correctness."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from freshline.redis_bus.connection import RedisConnection
from freshline.redis_bus.keys import NOTIFICATIONS
from freshline.redis_bus.notifier import NotificationListener, NotificationSender
from freshline.services.notifier import Notifier
from tests.redis_bus.server import Server
from tests.store_harness import Lab
from tests.waiting import wait_until


@contextmanager
def listening(bus: RedisConnection) -> Iterator[list[str]]:
    """Collect what a listener receives; `*` stands for `connected`."""
    heard: list[str] = []
    stopping = threading.Event()
    listener = NotificationListener(bus, heard.append, lambda: heard.append("*"))
    thread = threading.Thread(target=listener.run, args=(stopping,))
    thread.start()
    try:
        wait_until(lambda: heard == ["*"])
        yield heard
    finally:
        stopping.set()
        thread.join()


def test_a_notification_reaches_others(server: Server, bus: RedisConnection) -> None:
    """Notifications of one name before the next send are merged."""
    sender = NotificationSender(bus)
    with listening(bus) as heard:
        sender.notify("events")
        sender.notify("events", "runs")
        sender.send()
        wait_until(lambda: sorted(heard[1:]) == ["events", "runs"])


def test_nonsense_on_the_channel_is_passed_over(server: Server, bus: RedisConnection) -> None:
    """Whatever others publish there, the next notification is received."""
    with listening(bus) as heard:
        for nonsense in (b"\xff\xfe", "", "x" * 10_000, "1"):
            server.client.publish(NOTIFICATIONS, nonsense)
        NotificationSender(bus).send()
        server.client.publish(NOTIFICATIONS, "events")
        wait_until(lambda: heard[-1] == "events")


def test_a_listener_reconnects_and_looks_at_what_it_missed(server: Server, bus: RedisConnection) -> None:
    """The server is killed: after the reconnection everything is looked at once."""
    with listening(bus) as heard:
        server.kill()
        server.start()
        wait_until(lambda: heard == ["*", "*"])
        server.client.publish(NOTIFICATIONS, "runs")
        wait_until(lambda: heard[-1] == "runs")


def test_a_notification_never_waits_for_redis(server: Server, lab: Lab, bus: RedisConnection) -> None:
    """A frozen server blocks only the sending thread; the caller goes on at once."""
    notifier = Notifier(lab.database, {}, bus)
    notifier.start()
    server.freeze()
    try:
        begun = time.monotonic()
        for _ in range(100):
            notify = lab.database.also_notify
            assert notify is not None
            notify("events")
        assert time.monotonic() - begun < 0.2
    finally:
        server.thaw()
        notifier.stop()
    assert lab.database.also_notify is None


def test_services_are_woken_by_redis_where_notify_does_not_arrive(
    lab: Lab, bus: RedisConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that receives no NOTIFY, as behind a pooler, is woken through Redis."""
    monkeypatch.setattr("freshline.store.db.database.CHANNEL", "nobody_listens_here")
    monkeypatch.setattr(Notifier, "_loop", lambda _, stopping: stopping.wait())
    heard: list[str] = []
    here = Notifier(lab.database, {"events": lambda: heard.append("events")}, bus)
    here.start()
    try:
        wait_until(lambda: heard == ["events"], what="the wake-up after connecting")
        lab.report("a")
        wait_until(lambda: heard == ["events", "events"])
    finally:
        here.stop()
