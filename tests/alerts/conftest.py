"""A lab whose alerts may be sent to this machine, and helpers to evaluate and read them."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import pytest

from freshline.definitions.alerts import read_rule
from freshline.model.alerts import AlertRule
from tests.store_harness import Lab, laboratory, workflow
from tests.webhooks.receiver import Receiver

LOOPBACK = (ip_network("127.0.0.0/8"),)
EVERYTHING = ["failing", "overdue", "breaker", "check-failed", "watch-failed", "backfill-proposed"]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Yield a receiver that accepts everything."""
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield the real store with the chain a -> b -> c -> d."""
    options = {"poll_ms": 20, "webhook_allow_private": LOOPBACK, "webhook_timeout_ms": 2_000, "webhook_attempts": 5}
    with laboratory(database_url, **options) as lab:
        lab.apply(workflow("b", "a"), workflow("c", "b"), workflow("d", "c"))
        yield lab


def rule(name: str = "all", **fields: Any) -> AlertRule:
    """Return a rule that reports everything to nobody."""
    return read_rule(name, {"on": EVERYTHING, "to": "json://127.0.0.1:9/", **fields})


def look(lab: Lab) -> list[dict[str, Any]]:
    """Evaluate until nothing is due; return the queued messages: rule, kind and root."""
    while (left := lab.store.alert_evaluation.time_left()) is not None and left <= 0:
        assert lab.store.alert_evaluation.run()
    return lab.rows(
        "SELECT r.name, m.kind, (SELECT i.root FROM alert_incidents i WHERE i.id = m.incident_ids[1]) AS root"
        " FROM alert_messages m JOIN alert_rules r ON r.id = m.rule_id ORDER BY m.number"
    )


def told(lab: Lab) -> list[tuple[str, str]]:
    """Evaluate; return all messages so far: what, and about which root."""
    return [(one["kind"], one["root"].partition(":")[2]) for one in look(lab)]


def break_(lab: Lab, asset: str, version: str = "bad", message: str = "boom") -> None:
    """Report a source and fail all that runs because of it, once."""
    lab.report(asset, version)
    lab.settle()
    while (run := lab.claim()) is not None:
        lab.fail(run, message)
        lab.settle()
