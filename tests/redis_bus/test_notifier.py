"""Doorbells over Redis: heard on other hosts, sent without waiting, and needed by nobody."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from freshline.redis_bus.connection import Bus
from freshline.redis_bus.keys import BELLS
from freshline.redis_bus.notifier import Ear, Herald
from freshline.services.notifier import Doorbell
from tests.redis_bus.server import Server
from tests.store_harness import Lab
from tests.waiting import wait_until


@contextmanager
def listening(bus: Bus) -> Iterator[list[str]]:
    """What an ear hears; `*` is the look at everything when it begins to listen."""
    heard: list[str] = []
    stopping = threading.Event()
    ear = Ear(bus, heard.append, lambda: heard.append("*"))
    thread = threading.Thread(target=ear.run, args=(stopping,))
    thread.start()
    try:
        wait_until(lambda: heard == ["*"])
        yield heard
    finally:
        stopping.set()
        thread.join()


def test_a_ring_reaches_others(server: Server, bus: Bus) -> None:
    """Rings before the sending are one."""
    herald = Herald(bus)
    with listening(bus) as heard:
        herald.ring("events")
        herald.ring("events", "runs")
        herald.send()
        wait_until(lambda: sorted(heard[1:]) == ["events", "runs"])


def test_nonsense_on_the_channel_is_passed_over(server: Server, bus: Bus) -> None:
    """Whatever others say there, the next ring is heard."""
    with listening(bus) as heard:
        for nonsense in (b"\xff\xfe", "", "x" * 10_000, "1"):
            server.client.publish(BELLS, nonsense)
        Herald(bus).send()
        server.client.publish(BELLS, "events")
        wait_until(lambda: heard[-1] == "events")


def test_an_ear_comes_back_and_looks_at_what_it_missed(server: Server, bus: Bus) -> None:
    """The server is killed: after the reconnection everything is looked at once."""
    with listening(bus) as heard:
        server.kill()
        server.start()
        wait_until(lambda: heard == ["*", "*"])
        server.client.publish(BELLS, "runs")
        wait_until(lambda: heard[-1] == "runs")


def test_a_ring_never_waits_for_redis(server: Server, lab: Lab, bus: Bus) -> None:
    """A frozen server holds up only the thread that sends; who rings goes on at once."""
    doorbell = Doorbell(lab.database, {}, bus)
    doorbell.start()
    server.freeze()
    try:
        begun = time.monotonic()
        for _ in range(100):
            herald = lab.database.herald
            assert herald is not None
            herald("events")
        assert time.monotonic() - begun < 0.2
    finally:
        server.thaw()
        doorbell.stop()
    assert lab.database.herald is None


def test_services_are_rung_by_redis_where_notify_is_not_heard(
    lab: Lab, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener that PostgreSQL never rings, as behind a pooler, hears the ring of another process."""
    monkeypatch.setattr("freshline.store.db.database.CHANNEL", "nobody_listens_here")
    monkeypatch.setattr(Doorbell, "_loop", lambda _, stopping: stopping.wait())
    heard: list[str] = []
    here = Doorbell(lab.database, {"events": lambda: heard.append("events")}, bus)
    here.start()
    try:
        wait_until(lambda: heard == ["events"], what="the look at what rang before")
        lab.report("a")
        wait_until(lambda: heard == ["events", "events"])
    finally:
        here.stop()
