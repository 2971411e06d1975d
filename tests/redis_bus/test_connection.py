"""The connection to Redis logs an outage once, recovers by itself, and shows no password."""

from __future__ import annotations

import builtins
import itertools
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from freshline.cli.logging_setup import configure
from freshline.errors import BusError, UsageError
from freshline.redis_bus import open_bus
from freshline.redis_bus.connection import FIRST_PAUSE_S, LONGEST_PAUSE_S, RedisConnection, redacted
from freshline.services.materializer import Materializer
from freshline.settings import Settings
from tests.redis_bus.server import Server
from tests.store_harness import Lab, laboratory
from tests.waiting import wait_until

CANARY = "c4n4ry/s3cret"
ENCODED = "c4n4ry%2Fs3cret"


def ping(bus: RedisConnection, purpose: str = "a ping") -> bool:
    """One use of the bus."""
    with bus.guarded(purpose).use() as redis:
        return bool(redis.ping())


def events(logs: list[Any]) -> list[str]:
    """Return the names of the logged events."""
    return [entry["event"] for entry in logs]


@pytest.fixture
def liar() -> Iterator[str]:
    """Yield the URL of a server that is not Redis and answers every request with the same line."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1000)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"redis://:{ENCODED}@127.0.0.1:{listener.getsockname()[1]}/0"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_inline_opens_nothing() -> None:
    """The default needs no Redis and no package for it."""
    assert open_bus(Settings(project=Path("/nowhere"))) is None


def test_an_outage_is_told_once_whoever_notices(server: Server, bus: RedisConnection) -> None:
    """Many uses and many tries while the server is away: one line; and one when all of them work again."""
    clients = [bus.guarded(purpose) for purpose in ("events", "inbound messages", "notifications")]
    server.kill()
    with capture_logs() as logs:
        for client, _ in itertools.product(clients, range(5)):
            with pytest.raises(BusError, match="is unreachable"), client.use() as redis:
                redis.ping()
        assert events(logs) == ["bus_trouble"]
        assert str(bus.trouble).startswith(f"the event bus unix://{server.socket} is unreachable")
        server.start()
        for client in clients:
            with client.use() as redis:
                redis.ping()
    assert events(logs) == ["bus_trouble", "bus_recovered"]
    assert bus.trouble is None


def test_a_second_outage_is_told_again(server: Server, bus: RedisConnection) -> None:
    """Each has a beginning and an end."""
    with capture_logs() as logs:
        for _ in range(2):
            server.kill()
            with pytest.raises(BusError):
                ping(bus)
            server.start()
            ping(bus)
    assert events(logs) == ["bus_trouble", "bus_recovered"] * 2


def test_pauses_double_up_to_a_bound(server: Server, bus: RedisConnection) -> None:
    """A server that is away is asked less and less often, and never less than every 5 s; success ends it."""
    client = bus.guarded("events")
    server.kill()
    pauses = []
    for _ in range(8):
        with pytest.raises(BusError), client.use() as redis:
            redis.ping()
        assert not client.ready
        pauses.append(client._pause_s)
        assert client._next <= time.monotonic() + LONGEST_PAUSE_S
    assert pauses == [min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**number) for number in range(8)]
    server.start()
    with client.use() as redis:
        redis.ping()
    assert client.ready


def test_a_trouble_that_nobody_tries_again_is_forgotten(
    server: Server, bus: RedisConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process did it meanwhile: the note about it must not stay for ever."""
    server.kill()
    with pytest.raises(BusError):
        ping(bus)
    assert bus.trouble is not None
    monkeypatch.setattr("freshline.redis_bus.connection.TROUBLE_EXPIRES_S", 0)
    assert bus.trouble is None


def test_a_frozen_server_is_given_up_in_time(server: Server, bus: RedisConnection) -> None:
    """SIGSTOP: the kernel still takes the connection; the timeout ends the waiting."""
    server.freeze()
    try:
        begun = time.monotonic()
        with pytest.raises(BusError, match="unreachable"):
            ping(bus)
        assert time.monotonic() - begun < 2
    finally:
        server.thaw()
    wait_until(bus.client.ping)


def test_a_refusal_is_of_one_use_alone(server: Server, bus: RedisConnection) -> None:
    """A key of another type does not make the whole bus unreachable, and the error contains no data."""
    server.client.set("k", "text")
    client = bus.guarded("events")
    with pytest.raises(BusError) as refused, client.use() as redis:
        redis.pipeline().xadd("k", {"data": CANARY}).execute()
    ping(bus)
    assert "refuses events: WRONGTYPE" in str(bus.trouble)
    assert CANARY not in str(refused.value)


def test_what_is_no_redis_is_a_trouble_like_others(liar: str) -> None:
    """A server that answers with nonsense is unreachable or refuses; nothing else is raised."""
    bus = RedisConnection(liar, timeout_s=0.5)
    with pytest.raises(BusError):
        ping(bus)
    assert CANARY not in str(bus.trouble)
    bus.close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:secret@host:6380/2", "redis://host:6380/2"),
        ("rediss://:s%40cret@host?ssl_password=secret", "rediss://host"),
        ("unix://:secret@/run/redis.sock?db=1", "unix:///run/redis.sock"),
        ("redis://[::1]:6379", "redis://[::1]:6379"),
    ],
)
def test_an_address_is_shown_without_user_password_and_options(url: str, shown: str) -> None:
    """Logs, errors and `freshline workers` show the address without it."""
    assert redacted(url) == shown


def test_a_password_is_in_no_text(server: Server, database_url: str) -> None:
    """A wrong password, a right one, an outage: not in logs, errors, the stored information, or `status`."""
    server.client.config_set("requirepass", CANARY)
    url = server.url.replace("unix://", f"unix://:{ENCODED}wrong@")
    with (
        laboratory(database_url, poll_ms=20, event_bus=url) as lab,
        capture_logs() as logs,
    ):
        lab.database.clock = None
        materializer = Materializer(lab.store, lab.settings)
        materializer.start()
        try:
            wait_until(lambda: bus_info(lab, materializer) not in {"None", "ok"})
            (note,) = [one for one in lab.store.reader.status()["notes"] if "event bus" in one]
            stored = lab.one("SELECT info::text FROM workers")
        finally:
            materializer.stop()
    assert "invalid" in note.lower()
    for text in (note, stored, repr(logs), repr(lab.settings)):
        assert CANARY not in text
        assert ENCODED not in text
    assert events([entry for entry in logs if entry["event"].startswith("bus_")]) == ["bus_trouble"]


def bus_info(lab: Lab, materializer: Materializer) -> str:
    """Return the state of the bus that the process shows after its next heartbeat."""
    materializer.services[0].wake()
    return str(lab.one("SELECT info ->> 'bus' FROM workers"))


def test_a_missing_package_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra the process does not start, and says what to install."""
    real = builtins.__import__

    def without_redis(name: str, *more: Any) -> Any:
        if name == "freshline.redis_bus.connection":
            raise ModuleNotFoundError("No module named 'redis'", name="redis")
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without_redis)
    with pytest.raises(UsageError, match=r"package redis is not installed; install freshline\[redis\]"):
        open_bus(Settings(project=Path("/nowhere"), event_bus="redis://host"))


@pytest.mark.parametrize("option", ["ssl_no_such_thing=1", "ssl_ca_certs=1&ssl_colour=blue"])
def test_an_option_that_the_client_does_not_know_is_refused_at_the_start(option: str) -> None:
    """Not at every try to connect, and without the password."""
    settings = Settings(project=Path("/nowhere"), event_bus=f"rediss://:{ENCODED}@host:1/0?{option}")
    with pytest.raises(UsageError, match="what follows the question mark") as refused:
        open_bus(settings)
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_traceback_in_the_log_shows_no_values(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A fault of ours is logged with its lines of code, and not with what its variables held."""
    before = structlog.get_config()
    try:
        configure(Settings(project=Path("/nowhere"), log_format=form))
        try:
            _fail(CANARY)
        except RuntimeError:
            structlog.get_logger().exception("round_failed")
    finally:
        structlog.configure(**before)
    told = capsys.readouterr().err
    assert "a fault" in told
    assert "_fail" in told
    assert CANARY not in told


def _fail(password: str) -> None:
    raise RuntimeError("a fault")
