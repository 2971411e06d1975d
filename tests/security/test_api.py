"""Clients that hold connections and streams neither keep others out of the API nor fill its log."""

from __future__ import annotations

import hashlib
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from freshline import counters
from freshline.api import connections
from tests.api.conftest import serving
from tests.security.api_process import api_process, ended, idle, measured
from tests.store_harness import Lab, laboratory, workflow
from tests.waiting import wait_until

STREAM = "text/event-stream"
QUICK_S = 0.1


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a store with one workflow."""
    with laboratory(database_url, now=datetime.now(UTC)) as lab:
        lab.apply(workflow("b", "a"), sources=("a",))
        yield lab


def requests(logs: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the lines about requests."""
    return [one for one in logs if one["event"] == "request"]


@contextmanager
def streaming(client: httpx.Client, path: str, **headers: str) -> Iterator[None]:
    """Hold a stream of events."""
    with client.stream("GET", path, headers={"Accept": STREAM, **headers}) as answer:
        assert answer.status_code == 200
        texts = answer.iter_text()  # the stream ends with it
        assert next(texts).startswith("retry:")
        yield
        texts.close()  # type: ignore[attr-defined]  # it is a generator


def bearer(lab: Lab, name: str, scope: str = "read") -> dict[str, str]:
    """Create a token and return its header."""
    secret = f"freshline_{name}"
    lab.store.tokens.create(name, scope, hashlib.sha256(secret.encode()).digest(), lifetime_ms=3_600_000)
    return {"Authorization": f"Bearer {secret}"}


@pytest.mark.process
def test_idle_connections_and_streams_do_not_lock_others_out(lab: Lab, database_url: str, tmp_path: Path) -> None:
    """1,000 idle connections and 100 streams by one token: another client's `/status` answers in under 100 ms."""
    hog, other = bearer(lab, "hog"), bearer(lab, "other")
    with ExitStack() as stack, api_process(database_url, tmp_path, files=1_024) as api:
        stack.enter_context(idle(api.port, 500))
        client = stack.enter_context(api.client(**hog, Accept=STREAM))
        for _ in range(100):
            stack.enter_context(streaming(client, "/api/v1/events"))
        refused = client.get("/api/v1/events", timeout=5)
        assert (refused.status_code, refused.json()["code"]) == (429, "too-many-streams")
        assert "token:hog already has 100 streams" in refused.json()["detail"]
        stack.enter_context(idle(api.port, 500))

        api.get("/api/v1/status", other)
        took = measured(lambda: api.get("/api/v1/status", other), 20)
        healthy = measured(api.healthy, 20)
        ready = stack.enter_context(api.client(**other, Accept=STREAM))
        stack.enter_context(streaming(ready, "/api/v1/events"))
        log = api.log.read_text()
    print(f"1,100 connections held: /status {took[10] * 1000:.0f} ms, at most {took[-1] * 1000:.0f} ms")
    assert took[10] < QUICK_S
    assert healthy[10] < QUICK_S
    assert "Traceback" not in log
    assert log.count('"reason": "full"') <= 2  # of hundreds


@pytest.mark.process
@pytest.mark.parametrize(
    "reserved", [pytest.param(32, id="gate", marks=pytest.mark.full), pytest.param(-10_000, id="descriptors")]
)
def test_few_descriptors_do_not_fill_the_log(lab: Lab, database_url: str, tmp_path: Path, reserved: int) -> None:
    """Health answers, and the log grows by a few lines; also if more connections are allowed than descriptors exist."""
    before = f"import freshline.api.connections as c; c.RESERVED_FILES = {reserved}"
    with api_process(database_url, tmp_path, files=96, before=before) as api:
        api.healthy()
        size = api.log.stat().st_size
        tries = 0
        with ExitStack() as stack:
            until = time.monotonic() + 2
            while time.monotonic() < until and tries < 1_000:
                stack.enter_context(idle(api.port, 50))
                tries += 50
                api.healthy()
        took = measured(api.healthy, 5)
        grown = api.log.stat().st_size - size
        text = api.log.read_text()
    print(
        f"{tries} connections with 96 descriptors: the log grew by {grown} bytes, /healthz took {took[2] * 1000:.0f} ms"
    )
    assert grown < 60_000
    assert "Traceback" not in text
    assert ('"reason": "descriptors"' in text) == (reserved < 0)


def test_slow_headers_end(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """600 clients send one byte after another; each has a deadline, and health answers all the time."""
    monkeypatch.setattr(connections, "HEADERS_S", 1.0)
    monkeypatch.setattr(connections, "most_connections", lambda wanted: wanted)
    with serving(lab) as api, idle(api.server.address[1], 600, b"GET / HTTP/1.1\r\nX: ") as slow:
        slowest = 0.0

        def drip() -> bool:
            nonlocal slowest
            for one in slow:
                try:
                    one.send(b"x")
                except OSError:
                    continue
            began = time.monotonic()
            assert api.client.get("/healthz").status_code == 200
            slowest = max(slowest, time.monotonic() - began)
            return all(ended(one) for one in slow)

        wait_until(drip, every=0.1, timeout=20)
    print(f"600 slow clients were closed; /healthz took at most {slowest * 1000:.0f} ms")


def test_silence_ends_before_and_between_requests(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first byte, and in the headers of a second request on a kept connection."""
    monkeypatch.setattr(connections, "FIRST_BYTE_S", 0.2)
    monkeypatch.setattr(connections, "HEADERS_S", 0.2)
    with serving(lab) as api, idle(api.server.address[1], 2) as (silent, kept):
        kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in kept.recv(4096)
        kept.sendall(b"GET /healthz HTTP/1.1\r\n")
        wait_until(lambda: ended(silent))
        wait_until(lambda: ended(kept))
    assert {"reason=no-request", "reason=slow-headers"} <= counters.snapshot()["connections_closed"].keys()


def test_the_address_with_the_most_idle_connections_loses_them(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest one of it. A client at another address, and a running request, keep theirs."""
    monkeypatch.setattr("freshline.api.server.most_connections", lambda _: 20)
    with serving(lab) as api, ExitStack() as stack:
        port = api.server.address[1]
        other = stack.enter_context(socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0)))
        stack.enter_context(streaming(api.client, "/events"))
        held = stack.enter_context(idle(port, 60))
        wait_until(lambda: sum(map(ended, held)) == 42, timeout=8)
        assert all(ended(one) for one in held[:42])
        assert not ended(other)
        assert api.get("/status", expect=200)
        other.settimeout(30)
        other.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in other.recv(4096)


def test_an_incomplete_body_is_no_request(lab: Lab) -> None:
    """A report whose end did not arrive is not recorded, even if what arrived is valid JSON."""
    head = b"POST /api/v1/assets/a/produced HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    bodies = (b"Content-Length: 100\r\n\r\n{}", b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
    with serving(lab) as api, capture_logs() as logs:
        for body in bodies:
            with socket.create_connection(("127.0.0.1", api.server.address[1])) as client:
                client.sendall(head + body)
        wait_until(lambda: len(requests(logs)) == len(bodies))
    assert lab.rows("SELECT * FROM snapshots") == []


def test_request_lines_say_who_and_refusals_are_counted(lab: Lab) -> None:
    """The client's address and the token's name; a forwarded address is not believed; 401 and 403 have counters."""
    reader = bearer(lab, "reader")
    before = counters.snapshot().get("requests_refused", {})
    with serving(lab, auth="token") as api, capture_logs() as logs:
        api.get("/status", headers={**reader, "X-Forwarded-For": "10.9.9.9"})
        api.get("/audit", headers=reader, expect=403)
        api.get("/status", expect=401)
        api.get("/status", headers={"Authorization": "Bearer wrong"}, expect=401)
        api.get(f"/{'x' * 5_000}", expect=404)
        wait_until(lambda: len(requests(logs)) == 5)
    logged = requests(logs)
    lines = [(one["status"], one["client"], one["actor"]) for one in logged]
    who = ("127.0.0.1", "token:reader")
    assert lines[:3] == [(200, *who), (403, *who), (401, "127.0.0.1", None)]
    assert len(logged[4]["path"]) <= 500
    after = counters.snapshot()["requests_refused"]
    assert {key: after[key] - before.get(key, 0) for key in after} == {"status=401": 2, "status=403": 1}


def test_one_token_leaves_streams_for_others(database_url: str) -> None:
    """Beyond its limit a token gets 429 with a problem; a place that it gives back can be taken again."""
    with laboratory(database_url, now=datetime.now(UTC), poll_ms=20, api_streams_per_token=2) as lab:
        hog, other = bearer(lab, "hog"), bearer(lab, "other")
        with serving(lab, auth="token") as api, ExitStack() as stack:

            def stream(who: dict[str, str]) -> Any:
                return streaming(api.client, "/events", **who)

            stack.enter_context(stream(hog))
            with stream(hog):
                refused = api.get("/events", headers={**hog, "Accept": STREAM}, expect=429)
                stack.enter_context(stream(other))
            assert refused["code"] == "too-many-streams"
            assert "token:hog already has 2 streams" in refused["detail"]

            def again() -> bool:
                with api.client.stream("GET", "/events", headers={**hog, "Accept": STREAM}) as answer:
                    return answer.status_code == 200

            wait_until(again)
