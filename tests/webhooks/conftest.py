"""A real receiver, and a lab that may send to this machine."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

import pytest

from tests.store_harness import Lab, laboratory, workflow
from tests.webhooks.receiver import Receiver

LOOPBACK = (ip_network("127.0.0.0/8"),)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Yield a receiver that accepts everything."""
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield the real store with `b` made from the source `a`, and `other.b` from `other.a`."""
    options = {"poll_ms": 20, "webhook_allow_private": LOOPBACK, "webhook_timeout_ms": 500, "webhook_attempts": 5}
    with laboratory(database_url, **options) as lab:
        lab.apply(workflow("b", "a"), workflow("other", "other.a", outputs=["other.b"]))
        lab.store.events.stamp_positions(1000)
        yield lab
