"""A real Redis server, and a lab that uses it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from freshline.redis_bus.connection import RedisConnection
from tests.redis_bus.server import Server
from tests.store_harness import Lab, laboratory, workflow


@pytest.fixture
def server() -> Iterator[Server]:
    """Yield a server for one test, in a short path, because socket names are limited."""
    with tempfile.TemporaryDirectory(prefix="freshline-") as directory:
        server = Server(Path(directory))
        try:
            server.start()
            yield server
        finally:
            server.close()


@pytest.fixture
def lab(database_url: str, server: Server) -> Iterator[Lab]:
    """Yield the real store with `b` made from the source `a`, on the test's Redis."""
    with laboratory(database_url, poll_ms=20, event_bus=server.url, bus_timeout_ms=200) as lab:
        lab.apply(workflow("b", "a"), sources=({"assetId": "a", "allow": ["/data"]}, "other"))
        yield lab


@pytest.fixture
def bus(server: Server) -> Iterator[RedisConnection]:
    """Yield a connection to the server."""
    bus = RedisConnection(server.url, timeout_s=0.2)
    yield bus
    bus.close()
