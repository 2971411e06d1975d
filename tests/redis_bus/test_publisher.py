"""Every event reaches the stream, in the order of positions, whatever happens to Redis and the publishers."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from freshline import failpoints
from freshline.failpoints import FailpointError
from freshline.redis_bus.connection import LONGEST_PAUSE_S, RedisConnection
from freshline.redis_bus.keys import EVENTS
from freshline.services.event_sequencer import EventSequencer
from freshline.services.redis_publisher import RedisPublisher
from tests.redis_bus.server import Server
from tests.store_harness import Lab
from tests.waiting import wait_until


def stream(server: Server) -> list[dict[str, str]]:
    """Return the messages, oldest first."""
    return [
        {name.decode(): value.decode() for name, value in fields.items()} for _, fields in server.client.xrange(EVENTS)
    ]


def stamped(lab: Lab) -> list[int]:
    """All positions that were given, in order."""
    return [row["position"] for row in lab.rows("SELECT position FROM events WHERE position > 0 ORDER BY position")]


def first_seen(server: Server) -> list[int]:
    """Positions in the order of the stream, without repetitions: what a consumer that drops known ids sees."""
    seen: dict[str, int] = {}
    for message in stream(server):
        seen.setdefault(message["id"], int(message["position"]))
    return list(seen.values())


def cursor(lab: Lab) -> int:
    """Up to where the stream is complete, as the database knows it."""
    return int(lab.one("SELECT position FROM bus_cursor"))


def report(lab: Lab, number: int) -> None:
    """So many events, with positions."""
    for one in range(number):
        lab.report("a", f"{lab.one('SELECT count(*) FROM events')}-{one}")
    lab.store.events.stamp_positions(10_000)


def publish(publisher: RedisPublisher) -> None:
    """All that waits."""
    while publisher.run_once():
        pass


def test_a_message_is_a_cloud_event(lab: Lab, server: Server, bus: RedisConnection) -> None:
    """Attributes of CloudEvents 1.0 with the event's own id, type, subject, time and data; source names us."""
    report(lab, 1)
    publish(RedisPublisher(lab.store, bus))
    event = lab.events("asset.produced")[0]
    (message,) = [one for one in stream(server) if one["type"] == "asset.produced"]
    assert json.loads(message.pop("data")) == event["data"]
    assert message == {
        "specversion": "1.0",
        "id": str(event["id"]),
        "source": f"/freshline/{lab.store.warehouse_id}",
        "type": "asset.produced",
        "subject": "a",
        "time": "2026-01-05T09:00:00.000000Z",
        "datacontenttype": "application/json",
        "position": str(event["position"]),
    }


def test_nothing_is_published_twice_without_a_failure(lab: Lab, server: Server, bus: RedisConnection) -> None:
    """The cursor remembers, for other processes and after restarts too."""
    report(lab, 5)
    publish(RedisPublisher(lab.store, bus))
    publish(RedisPublisher(lab.store, bus))
    assert [int(message["position"]) for message in stream(server)] == stamped(lab)
    assert cursor(lab) == stamped(lab)[-1]


def test_two_publishers_at_once_keep_order_and_completeness(
    lab: Lab, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relays of several processes, small batches, events all the time: every event, in order, and none twice."""
    monkeypatch.setattr("freshline.services.redis_publisher.BATCH", 3)
    buses = [RedisConnection(server.url, timeout_s=1) for _ in range(3)]
    publishers = [RedisPublisher(lab.store, bus) for bus in buses]
    sequencers = [EventSequencer(lab.store, stamped=publisher.wake) for publisher in publishers]
    for service in (*publishers, *sequencers):
        service.start()
    reporters = [threading.Thread(target=lambda: [lab.report("a") for _ in range(30)]) for _ in range(3)]
    try:
        for thread in reporters:
            thread.start()
        for thread in reporters:
            thread.join()
        wait_until(lambda: lab.one("SELECT count(*) FROM events WHERE position IS NULL") == 0)
        wait_until(lambda: cursor(lab) == stamped(lab)[-1])
    finally:
        for service in (*sequencers, *publishers):
            service.stop()
    assert [int(message["position"]) for message in stream(server)] == stamped(lab)
    for bus in buses:
        bus.close()


def test_a_crash_between_publishing_and_the_cursor_repeats_and_loses_nothing(
    lab: Lab, server: Server, bus: RedisConnection
) -> None:
    """At least once: the batch comes again with the same ids, and consumers see one order."""
    report(lab, 3)
    publisher = RedisPublisher(lab.store, bus)

    def crash() -> None:
        raise FailpointError("planted")

    with failpoints.armed("publish_events:before", crash), pytest.raises(FailpointError):
        publisher.run_once()
    report(lab, 2)
    publish(publisher)
    assert len(stream(server)) > len(stamped(lab))
    assert first_seen(server) == stamped(lab)


def test_a_suspended_publisher_repeats_and_never_reorders(lab: Lab, server: Server, bus: RedisConnection) -> None:
    """A stale publisher that sends its old batch late only adds repetitions."""
    report(lab, 4)
    stale = RedisPublisher(lab.store, bus)
    old: list[Any] = []

    def fall_asleep(events: Sequence[Any]) -> None:
        old.extend(events)
        raise FailpointError("planted")

    with pytest.raises(FailpointError):
        lab.store.events.publish(fall_asleep, batch=4, most_bytes=10**6)
    publish(RedisPublisher(lab.store, bus))
    report(lab, 3)
    publish(RedisPublisher(lab.store, bus))
    stale._send(old)
    report(lab, 1)
    publish(RedisPublisher(lab.store, bus))
    assert len(stream(server)) == len(stamped(lab)) + 4
    assert first_seen(server) == stamped(lab)


def test_events_of_an_outage_come_afterwards(lab: Lab, server: Server, bus: RedisConnection) -> None:
    """Redis is killed and comes back with its data: no event is missing, and none is out of order."""
    publisher = RedisPublisher(lab.store, bus)
    report(lab, 3)
    publish(publisher)
    server.kill()
    report(lab, 3)
    assert publisher.run_once() is False
    assert cursor(lab) < stamped(lab)[-1]
    server.start()
    wait_until(publisher.run_once, timeout=LONGEST_PAUSE_S + 5)
    publish(publisher)
    assert first_seen(server) == stamped(lab)


def test_a_batch_that_redis_did_not_take_is_published_again(
    lab: Lab, server: Server, bus: RedisConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server dies after it was greeted: the cursor stays where it was, and nothing is left out."""
    report(lab, 3)
    publisher = RedisPublisher(lab.store, bus)
    send = publisher._send

    def too_late(events: Sequence[Any]) -> None:
        server.kill()
        send(events)

    with monkeypatch.context() as patched:
        patched.setattr(publisher, "_send", too_late)
        assert publisher.run_once() is False
    assert cursor(lab) == 0
    server.start()
    wait_until(publisher.run_once)
    publish(publisher)
    assert first_seen(server) == stamped(lab)


def test_killing_redis_again_and_again_loses_nothing(lab: Lab, server: Server) -> None:
    """kill -9 under load, several times: every event is there, first occurrences in order."""
    bus = RedisConnection(server.url, timeout_s=0.2)
    publisher = RedisPublisher(lab.store, bus)
    sequencer = EventSequencer(lab.store, stamped=publisher.wake)
    publisher.start()
    sequencer.start()
    try:
        for _ in range(4):
            for _ in range(10):
                lab.report("a")
            server.kill()
            for _ in range(5):
                lab.report("a")
            server.start()
        wait_until(lambda: lab.one("SELECT count(*) FROM events WHERE position IS NULL") == 0)
        wait_until(lambda: cursor(lab) == stamped(lab)[-1])
    finally:
        sequencer.stop()
        publisher.stop()
        bus.close()
    assert first_seen(server) == stamped(lab)


def test_a_flush_takes_what_was_there_and_nothing_that_comes(lab: Lab, server: Server, bus: RedisConnection) -> None:
    """After FLUSHALL the stream continues with the next event; the database still has all events."""
    publisher = RedisPublisher(lab.store, bus)
    report(lab, 3)
    publish(publisher)
    lost = stamped(lab)
    server.client.flushall()
    report(lab, 3)
    publish(publisher)
    assert first_seen(server) == stamped(lab)[len(lost) :]
    assert [event["position"] for event in lab.store.reader.events_since(0)] == stamped(lab)


def test_the_stream_is_trimmed(database_url: str, server: Server, bus: RedisConnection) -> None:
    """About FRESHLINE_BUS_LENGTH messages are kept, the newest ones."""
    server.client.config_set("stream-node-max-entries", 10)
    lab = Lab(database_url, event_bus=server.url, bus_length=50)
    lab.rows(
        "INSERT INTO events (id, time, type, subject, data) SELECT gen_random_uuid(), now(), 't', 's', '{}'"
        " FROM generate_series(1, 300) RETURNING 1"
    )
    lab.store.events.stamp_positions(1000)
    publish(RedisPublisher(lab.store, bus))
    kept = [int(message["position"]) for message in stream(server)]
    assert 50 <= len(kept) < 70
    assert kept == stamped(lab)[-len(kept) :]
    lab.close()


def test_a_batch_is_bounded_in_bytes_and_goes_on(lab: Lab, server: Server, bus: RedisConnection) -> None:
    """Large payloads travel in several batches; one that exceeds the bound by itself travels alone."""
    for number in range(5):
        lab.report("a", str(number), payload={"text": "x" * 200_000})
    lab.store.events.stamp_positions(100)
    publisher = RedisPublisher(lab.store, bus)
    sizes: list[int] = []
    while size := lab.store.events.publish(publisher._send, batch=500, most_bytes=300_000):
        sizes.append(size)
    assert len(sizes) >= 3
    assert first_seen(server) == stamped(lab)


def test_a_key_of_another_type_is_told_and_waited_out(lab: Lab, server: Server, bus: RedisConnection) -> None:
    """WRONGTYPE is a trouble of the bus: nothing is lost, it is logged once, and it ends when the key is gone."""
    server.client.set(EVENTS, "not a stream")
    report(lab, 2)
    publisher = RedisPublisher(lab.store, bus)
    with capture_logs() as logs:
        for _ in range(3):
            publisher._client._next = 0
            assert publisher.run_once() is False
        assert "WRONGTYPE" in str(bus.trouble)
        assert [entry["event"] for entry in logs] == ["bus_trouble"]
        server.client.delete(EVENTS)
        wait_until(publisher.run_once)
        publish(publisher)
    assert [one for entry in logs if (one := entry["event"]).startswith("bus_")] == ["bus_trouble", "bus_recovered"]
    assert first_seen(server) == stamped(lab)
    assert bus.trouble is None


def test_a_full_server_refuses_a_batch_as_a_whole(lab: Lab, server: Server, bus: RedisConnection) -> None:
    """Out of memory: no event of a batch overtakes another one that was refused."""
    report(lab, 5)
    server.client.config_set("maxmemory", 1)
    publisher = RedisPublisher(lab.store, bus)
    assert publisher.run_once() is False
    assert stream(server) == []
    server.client.config_set("maxmemory", 0)
    wait_until(publisher.run_once)
    assert first_seen(server) == stamped(lab)
