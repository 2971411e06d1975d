"""Messages of outside producers are reported once and in order; invalid ones are set aside."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from freshline import failpoints
from freshline.errors import BusError
from freshline.failpoints import FailpointError
from freshline.redis_bus.connection import RedisConnection
from freshline.redis_bus.inbound import InboundStream
from freshline.redis_bus.keys import DEAD, GROUP, INBOUND
from freshline.redis_bus.message import MAX_BYTES
from freshline.services.redis_consumer import MAX_TRIES, RedisConsumer
from freshline.store.operations.report import Reported
from tests.redis_bus.server import Server
from tests.store_harness import Lab, workflow
from tests.waiting import wait_until


@pytest.fixture
def consumer(lab: Lab, bus: RedisConnection) -> RedisConsumer:
    """Return a consumer that does not wait for messages; its first round creates the group."""
    consumer = RedisConsumer(lab.store, bus, wait_ms=1)
    consumer.run_once()
    return consumer


def send(server: Server, **fields: Any) -> str:
    """Add a message as a producer; return its id in the stream."""
    return str(server.client.xadd(INBOUND, fields).decode())


def versions(lab: Lab, asset_id: str = "a") -> list[str]:
    """Return the reported versions in the order of their reports."""
    rows = lab.rows("SELECT data_version FROM snapshots WHERE asset_id = %s ORDER BY sequence", asset_id)
    return [row["data_version"] for row in rows]


def dead(server: Server) -> list[dict[str, str]]:
    """Return the refused messages."""
    return [
        {name.decode(): value.decode("utf-8", "replace") for name, value in fields.items()}
        for _, fields in server.client.xrange(DEAD)
    ]


def left(server: Server) -> tuple[int, int]:
    """How many messages are in the stream, and how many of them are given out and not acknowledged."""
    return server.client.xlen(INBOUND), server.client.xpending(INBOUND, GROUP)["pending"]


def crash() -> None:
    """Simulate the death of the process."""
    raise FailpointError("planted")


def test_a_message_is_a_report(lab: Lab, server: Server, consumer: RedisConsumer) -> None:
    """Version, key, sequence and payload arrive as with `freshline report`, and the message is gone afterwards."""
    send(server, assetId="a", dataVersion="v1", key="k1", sequence=7, payload=json.dumps({"path": "/data/1"}))
    consumer.run_once()
    (row,) = lab.rows("SELECT * FROM snapshots WHERE asset_id = 'a'")
    assert (row["data_version"], row["report_key"], row["report_sequence"]) == ("v1", "k1", 7)
    assert row["payload"] == {"path": "/data/1"}
    assert left(server) == (0, 0)
    lab.settle()
    assert lab.active() == ["b"]


def test_the_asset_alone_is_enough(lab: Lab, server: Server, consumer: RedisConsumer) -> None:
    """Without a version every message is a change, in the order of the stream (docs/semantics.md#R3.3)."""
    for _ in range(3):
        send(server, assetId="a")
    consumer.run_once()
    assert versions(lab) == ["seq:1", "seq:2", "seq:3"]


@pytest.mark.parametrize("name", ["key", "id"])
def test_a_repetition_counts_once(lab: Lab, server: Server, consumer: RedisConsumer, name: str) -> None:
    """Producers may repeat; the key, or the id of a CloudEvent, says that it is the same report.

    See docs/semantics.md#R3.3.
    """
    for _ in range(3):
        send(server, assetId="a", **{name: "one"})
    consumer.run_once()
    send(server, assetId="a", **{name: "one"})
    consumer.run_once()
    assert versions(lab) == ["seq:1"]
    assert dead(server) == []
    assert left(server) == (0, 0)


def test_a_lower_sequence_moves_nothing(lab: Lab, server: Server, consumer: RedisConsumer) -> None:
    """A message that comes late is recorded, and the head stays (docs/semantics.md#R3.3)."""
    send(server, assetId="a", dataVersion="new", sequence=9)
    send(server, assetId="a", dataVersion="old", sequence=3)
    consumer.run_once()
    assert lab.head("a")["data_version"] == "new"
    assert versions(lab) == ["new", "old"]


def test_a_crash_after_the_report_changes_nothing_more(
    lab: Lab, server: Server, bus: RedisConnection, consumer: RedisConsumer
) -> None:
    """The consumer dies between commit and XACK: the next one finds the message again, and it counts once."""
    send(server, assetId="a", dataVersion="v1")
    with failpoints.armed("report:after", crash), pytest.raises(FailpointError):
        consumer.run_once()
    assert versions(lab) == ["v1"]
    assert left(server) == (1, 1)
    RedisConsumer(lab.store, bus, wait_ms=1).run_once()
    assert versions(lab) == ["v1"]
    assert left(server) == (0, 0)
    assert len(lab.events("asset.produced")) == 1


def test_a_crash_before_the_report_loses_nothing(
    lab: Lab, server: Server, bus: RedisConnection, consumer: RedisConsumer
) -> None:
    """The consumer dies before the commit: the message was not acknowledged, and another consumer takes it."""
    send(server, assetId="a", dataVersion="v1")
    send(server, assetId="a", dataVersion="v2")
    with failpoints.armed("report:before", crash), pytest.raises(FailpointError):
        consumer.run_once()
    assert versions(lab) == []
    RedisConsumer(lab.store, bus, wait_ms=1).run_once()
    assert versions(lab) == ["v1", "v2"]
    assert left(server) == (0, 0)


def test_an_acknowledgement_that_is_lost_is_made_up_for(lab: Lab, server: Server, consumer: RedisConsumer) -> None:
    """Redis dies between commit and XACK: when it is back the message comes again and counts once."""
    send(server, assetId="a", dataVersion="v1")
    with failpoints.armed("report:after", server.kill):
        assert consumer.run_once() is False
    assert versions(lab) == ["v1"]
    server.start()
    wait_until(lambda: consumer.run_once() and left(server) == (0, 0))
    assert versions(lab) == ["v1"]


def test_several_consumers_keep_the_order_of_the_stream(lab: Lab, server: Server) -> None:
    """Without a sequence the order of the stream counts, with any number of materializers: the last message wins."""
    buses = [RedisConnection(server.url, timeout_s=1) for _ in range(3)]
    consumers = [RedisConsumer(lab.store, bus, wait_ms=5) for bus in buses]
    for one in consumers:
        one.start()
    try:
        for number in range(60):
            send(server, assetId="a", dataVersion=f"v{number}")
        wait_until(lambda: server.client.exists(INBOUND) and left(server) == (0, 0))
    finally:
        for one in consumers:
            one.stop()
    assert versions(lab) == [f"v{number}" for number in range(60)]
    for bus in buses:
        bus.close()


def test_two_consumers_that_both_believe_it_is_their_turn_keep_the_order(
    lab: Lab, server: Server, bus: RedisConnection, consumer: RedisConsumer
) -> None:
    """The turn saves work only: a consumer that slept repeats what the other one did, and reorders nothing."""
    for number in range(4):
        send(server, assetId="a", dataVersion=f"v{number}")
    slept = RedisConsumer(lab.store, bus, wait_ms=1)
    batch = slept._inbound.next(2, 1)
    consumer.run_once()
    send(server, assetId="a", dataVersion="v4")
    for entry in batch:
        slept._handle(entry)
    consumer.run_once()
    assert versions(lab) == [f"v{number}" for number in range(5)]
    assert left(server) == (0, 0)


def test_only_one_process_takes_messages_at_a_time(lab: Lab, server: Server, consumer: RedisConsumer) -> None:
    """While another one has the turn, messages stay for it."""
    send(server, assetId="a")
    with lab.store.events.intake_lock() as mine:
        assert mine
        assert consumer.run_once() is False
    assert versions(lab) == []
    consumer.run_once()
    assert versions(lab) == ["seq:1"]


def test_what_somebody_else_took_and_forgot_is_claimed(
    lab: Lab, server: Server, consumer: RedisConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages that are pending under another name come to us when they were idle for long enough."""
    send(server, assetId="a", dataVersion="v1")
    server.client.xreadgroup(GROUP, "a person", {INBOUND: ">"})
    consumer.run_once()
    assert versions(lab) == []
    monkeypatch.setattr("freshline.redis_bus.inbound.CLAIM_MS", 0)
    consumer.run_once()
    assert versions(lab) == ["v1"]
    assert left(server) == (0, 0)


def test_a_message_that_was_deleted_meanwhile_blocks_nobody(lab: Lab, server: Server, consumer: RedisConsumer) -> None:
    """A message that was delivered and then trimmed is acknowledged, and those behind it are handled."""
    gone = send(server, assetId="a", dataVersion="gone")
    send(server, assetId="a", dataVersion="v2")
    server.client.xreadgroup(GROUP, "freshline", {INBOUND: ">"})
    server.client.xdel(INBOUND, gone)
    consumer.run_once()
    assert versions(lab) == ["v2"]
    assert left(server) == (0, 0)


BAD: dict[str, tuple[dict[Any, Any], str, str]] = {
    "unknown asset": ({"assetId": "nobody"}, "not-found", "asset 'nobody' does not exist"),
    "produced asset": ({"assetId": "b"}, "conflict", "is produced by workflow 'b'"),
    "no asset": ({"dataVersion": "1"}, "usage", "no assetId"),
    "typing mistake": ({"assetId": "a", "dataversion": "1"}, "usage", "did you mean 'dataVersion'?"),
    "sequence": ({"assetId": "a", "sequence": "soon"}, "usage", "whole numbers"),
    "large sequence": ({"assetId": "a", "sequence": "9223372036854775808"}, "usage", "up to"),
    "payload": ({"assetId": "a", "payload": "{"}, "usage", "payload is not JSON"),
    "deep payload": ({"assetId": "a", "payload": "[" * 100_000}, "usage", "payload is not JSON"),
    "not a number": ({"assetId": "a", "payload": "NaN"}, "usage", "NaN"),
    "infinite": ({"assetId": "a", "payload": "1e999"}, "usage", ""),
    "null character": ({"assetId": "a\0"}, "usage", "null character"),
    "null in payload": ({"assetId": "a", "payload": '"\\u0000"'}, "usage", ""),
    "long key": ({"assetId": "a", "key": "k" * 501}, "usage", "allowed are 500"),
    "not text": ({"assetId": b"\xff\xfe"}, "usage", "UTF-8"),
    "too large": ({"assetId": "a", "payload": json.dumps("x" * MAX_BYTES)}, "usage", "allowed are 300000"),
    "garbage": ({b"\x00\x01": b"\xde\xad"}, "usage", ""),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_message_is_set_aside_and_the_next_one_is_taken(
    lab: Lab, server: Server, consumer: RedisConsumer, name: str
) -> None:
    """It goes to the dead messages with its id, a code and the reason, is logged, and blocks no other."""
    fields, code, reason = BAD[name]
    bad = server.client.xadd(INBOUND, fields).decode()
    send(server, assetId="a", dataVersion="good")
    with capture_logs() as logs:
        consumer.run_once()
    (letter,) = dead(server)
    assert (letter["streamId"], letter["code"]) == (bad, code)
    assert reason in letter["reason"]
    assert all(len(value) <= 10_000 for value in letter.values())
    assert len([entry for entry in logs if entry["event"] == "message_refused"]) == 1
    assert versions(lab) == ["good"]
    assert left(server) == (0, 0)


def test_a_key_with_other_data_is_set_aside(lab: Lab, server: Server, consumer: RedisConsumer) -> None:
    """A producer that retries the same message is a duplicate; one that reuses its key gets a dead message."""
    for version in ("v1", "v1", "v2"):
        send(server, assetId="a", dataVersion=version, key="k")
    send(server, assetId="a", dataVersion="v3", key="k3")
    consumer.run_once()
    (letter,) = dead(server)
    assert (letter["code"], letter["message.dataVersion"]) == ("key-reused", "v2")
    assert "with another version" in letter["reason"]
    assert versions(lab) == ["v1", "v3"]
    assert left(server) == (0, 0)


def test_a_dead_message_can_be_sent_again(lab: Lab, server: Server, consumer: RedisConsumer) -> None:
    """It keeps its fields: when the asset is known, the same message is accepted."""
    send(server, assetId="later", dataVersion="v1", key="k")
    consumer.run_once()
    (letter,) = dead(server)
    lab.apply(workflow("b", "a"), workflow("c", "later"))
    prefix = "message."
    send(server, **{name.removeprefix(prefix): text for name, text in letter.items() if name.startswith(prefix)})
    consumer.run_once()
    assert versions(lab, "later") == ["v1"]


def test_the_dead_are_bounded(database_url: str, server: Server, bus: RedisConnection) -> None:
    """About FRESHLINE_BUS_DEAD_LENGTH refused messages are kept, the newest ones."""
    server.client.config_set("stream-node-max-entries", 5)
    lab = Lab(database_url, event_bus=server.url, bus_dead_length=10)
    consumer = RedisConsumer(lab.store, bus, wait_ms=1)
    for number in range(60):
        send(server, assetId=f"nobody-{number}")
    wait_until(lambda: consumer.run_once() and left(server) == (0, 0))
    assert 10 <= server.client.xlen(DEAD) < 20
    assert dead(server)[-1]["message.assetId"] == "nobody-59"
    lab.close()


def test_a_message_that_cannot_be_set_aside_stays(
    lab: Lab, server: Server, bus: RedisConnection, consumer: RedisConsumer
) -> None:
    """The dead key has another type: the bad message is not lost, and the failure is logged once."""
    server.client.set(DEAD, "not a stream")
    send(server, assetId="nobody")
    with capture_logs() as logs:
        for _ in range(3):
            consumer._inbound._dead_client._next = 0
            assert consumer.run_once() is False
    assert [entry["event"] for entry in logs] == ["bus_trouble"]
    assert left(server) == (1, 1)
    server.client.delete(DEAD)
    wait_until(lambda: consumer.run_once() and left(server) == (0, 0))
    assert len(dead(server)) == 1
    assert bus.trouble is None


def test_a_fault_of_ours_does_not_hold_up_the_stream_for_ever(
    lab: Lab, server: Server, consumer: RedisConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that fails repeatedly is set aside after some tries, and the next one is handled."""
    report = lab.store.operations.report

    def fail(asset_id: str, **more: Any) -> Reported:
        if more["version"] == "poison":
            raise RuntimeError("a fault")
        return report(asset_id, **more)

    monkeypatch.setattr(lab.store.operations, "report", fail)
    send(server, assetId="a", dataVersion="poison")
    send(server, assetId="a", dataVersion="good")
    for _ in range(MAX_TRIES - 1):
        with pytest.raises(RuntimeError):
            consumer.run_once()
    consumer.run_once()
    assert [letter["code"] for letter in dead(server)] == ["unexpected"]
    assert versions(lab) == ["good"]


def test_the_group_is_created_again_after_a_flush(lab: Lab, server: Server, consumer: RedisConsumer) -> None:
    """FLUSHALL deletes unhandled messages; later ones are handled."""
    send(server, assetId="a", dataVersion="before")
    consumer.run_once()
    server.client.flushall()
    send(server, assetId="a", dataVersion="after")
    wait_until(lambda: consumer.run_once() and versions(lab) == ["before", "after"])


def test_an_old_place_with_new_content_is_a_new_message(lab: Lab, server: Server, consumer: RedisConsumer) -> None:
    """A server that was emptied may give a stream id again; only the same content there is a repetition."""
    for known in (["v1"], ["v1", "v2"]):
        server.client.xadd(INBOUND, {"assetId": "a", "dataVersion": known[-1]}, id="5-0")
        consumer.run_once()  # after a flush, it makes the group
        consumer.run_once()
        assert versions(lab) == known
        server.client.flushall()


def test_an_inbound_key_of_another_type_is_told_once(lab: Lab, server: Server, bus: RedisConnection) -> None:
    """WRONGTYPE: no message is handled, events are still published, and it ends when the key is deleted."""
    server.client.set(INBOUND, "not a stream")
    consumer = RedisConsumer(lab.store, bus, wait_ms=1)
    with capture_logs() as logs:
        for _ in range(3):
            consumer._inbound._client._next = 0
            assert consumer.run_once() is False
    assert [entry["event"] for entry in logs] == ["bus_trouble"]
    assert "inbound messages" in str(bus.trouble)
    server.client.delete(INBOUND)
    send(server, assetId="a", dataVersion="v1")
    wait_until(lambda: consumer.run_once() and versions(lab) == ["v1"])
    assert bus.trouble is None


def test_database_trouble_is_not_the_messages_fault(lab: Lab, server: Server, bus: RedisConnection) -> None:
    """Nothing is refused because PostgreSQL is away: the message waits."""
    send(server, assetId="a", dataVersion="v1")
    consumer = RedisConsumer(lab.store, bus, wait_ms=1)
    ended = threading.Event()

    def cut() -> None:
        if not ended.is_set():
            ended.set()
            lab.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    with failpoints.armed("report:before", cut):
        consumer.start()
        try:
            wait_until(lambda: ended.is_set() and left(server) == (0, 0))
        finally:
            consumer.stop()
    assert versions(lab) == ["v1"]
    assert dead(server) == []


def test_what_is_done_twice_is_no_error(server: Server, bus: RedisConnection) -> None:
    """Acknowledging a deleted message, even without a stream, changes nothing."""
    inbound = InboundStream(bus, dead_length=10)
    inbound.done("1-1")
    server.kill()
    with pytest.raises(BusError):
        inbound.done("1-1")
