"""A whole materializer with Redis: what happens to Redis changes latency only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from freshline.redis_bus.connection import RedisConnection
from freshline.redis_bus.keys import EVENTS, INBOUND
from freshline.services.materializer import Materializer
from freshline.services.redis_consumer import RedisConsumer
from freshline.services.redis_publisher import RedisPublisher
from freshline.store.store import Store
from tests.redis_bus.server import Server
from tests.store_harness import Lab
from tests.waiting import wait_until

SERVICES: dict[str, Callable[[Store, RedisConnection], Any]] = {
    "intake": lambda store, bus: RedisConsumer(store, bus, wait_ms=1),
    "publisher": RedisPublisher,
    "materializer": lambda store, _: Materializer(store, store.settings),
}


@contextmanager
def running(lab: Lab) -> Iterator[Materializer]:
    """Yield a running materializer, and stop it afterwards."""
    materializer = Materializer(lab.store, lab.settings)
    materializer.start()
    try:
        yield materializer
    finally:
        materializer.stop()


@pytest.fixture
def live(lab: Lab) -> Lab:
    """Return the lab under the real clock."""
    lab.database.clock = None
    return lab


def run_of_b(lab: Lab) -> None:
    """Wait for a queued run of `b` and let it succeed."""
    run = wait_until(lab.claim, what="the run of b")
    assert run is not None
    lab.finish(run)


def everything_stamped(lab: Lab) -> bool:
    """Every event has its position."""
    return int(lab.one("SELECT count(*) FROM events WHERE position IS NULL")) == 0


def everything_published(lab: Lab) -> bool:
    """Return whether the cursor is at the last event."""
    waits = "SELECT count(*) FROM events e, bus_cursor c WHERE e.position IS NULL OR e.position > c.position"
    return int(lab.one(waits)) == 0


def bus_info(lab: Lab, materializer: Materializer) -> str:
    """Return the state of the bus that the process shows after its next heartbeat."""
    materializer.services[0].wake()
    return str(lab.one("SELECT info ->> 'bus' FROM workers"))


def test_a_message_becomes_a_run_and_its_events_come_back(live: Lab, server: Server) -> None:
    """From the inbound stream through a run to the outbound one."""
    with running(live):
        server.client.xadd(INBOUND, {"assetId": "a", "dataVersion": "v1"})
        run_of_b(live)
        wait_until(lambda: everything_published(live))
    types = [fields[b"type"].decode() for _, fields in server.client.xrange(EVENTS)]
    assert types.count("asset.produced") == 2
    assert "workflow.run.succeeded" in types


@pytest.mark.parametrize("fault", ["frozen", "killed"])
def test_without_redis_everything_else_goes_on(live: Lab, server: Server, fault: str) -> None:
    """Everything else continues while Redis is down. The outage is logged once, and all events are published later."""
    with capture_logs() as logs, running(live) as materializer:
        live.report("a", "1")
        run_of_b(live)
        wait_until(lambda: everything_published(live))
        server.freeze() if fault == "frozen" else server.kill()
        for version in ("2", "3"):
            live.report("a", version)
            run_of_b(live)
        wait_until(lambda: everything_stamped(live))
        assert not everything_published(live)
        wait_until(lambda: "unreachable" in bus_info(live, materializer))
        assert any("is unreachable" in note for note in live.store.reader.status()["notes"])
        server.thaw() if fault == "frozen" else server.start()
        wait_until(lambda: everything_published(live))
        bus = materializer.bus
        assert bus is not None
        wait_until(lambda: bus.trouble is None)
    assert [entry["event"] for entry in logs if entry["event"].startswith("bus_")] == ["bus_trouble", "bus_recovered"]
    assert not [entry for entry in logs if entry["event"] in {"round_failed", "database_trouble"}]
    seen = list(dict.fromkeys(int(fields[b"position"]) for _, fields in server.client.xrange(EVENTS)))
    assert seen == sorted(seen)
    # The pruner takes what the lab's own clock wrote months ago; the stream has it already.
    assert {row["position"] for row in live.rows("SELECT position FROM events")} <= set(seen)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_may_be_started_and_stopped_from_anywhere(lab: Lab, bus: RedisConnection, name: str) -> None:
    """Threads that start and stop one service at random never hang, and leave none."""
    service = SERVICES[name](lab.store, bus)
    count, repetitions = (3, 2) if name == "materializer" else (4, 10)

    def toggle(number: int) -> None:
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
    names = {"intake", "publisher", "doorbell", "relay"}
    assert [thread.name for thread in threading.enumerate() if thread.name in names] == []


def test_a_stop_does_not_wait_for_a_frozen_server(live: Lab, server: Server) -> None:
    """No longer than the timeout of an answer."""
    with running(live):
        wait_until(lambda: server.client.exists(INBOUND))
        server.freeze()
    server.thaw()
