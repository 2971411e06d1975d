"""Hypothesis strategies of the pure core, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from freshline.graph import Graph
from freshline.model.policy import Freshness, QuietHours
from tests.decide.builders import Flow, graph_of

# The same examples every time, and no limits of time: on a busy machine a slow example proves nothing.
settings.register_profile("core", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("core")

moments = st.datetimes(datetime(2000, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
crons = st.sampled_from(["30 2 * * *", "*/10 * * * *", "0 * * * *", "15,45 1-3 * * *", "30 1 * * 0", "0 0 1 * *"])
freshness = st.builds(
    Freshness,
    ttl_ms=st.none() | st.integers(1, 10**11),
    cadence_ms=st.none() | st.integers(1, 10**11),
    offset_ms=st.integers(0, 10**10),
    cron=st.none() | crons,
    timezone=zones,
)
hours = st.builds("{:02}:{:02}".format, st.integers(0, 23), st.integers(0, 59))
quiet_hours = st.builds(
    QuietHours,
    start=hours,
    end=hours,
    days=st.sets(st.integers(0, 6), min_size=1).map(lambda days: tuple(sorted(days))),
    timezone=zones,
)


@dataclass(frozen=True)
class Topology:
    """A random graph of workflows: its sources, its workflows in topological order, and its `Graph`."""

    sources: tuple[str, ...]
    flows: tuple[Flow, ...]
    graph: Graph

    def producer(self, asset_id: str) -> Flow | None:
        """Who makes it."""
        return next((f for f in self.flows if asset_id in f.outputs), None)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Up to three sources and eight workflows with up to three inputs and two outputs; numbers in random order."""
    sources = tuple(f"s{n}" for n in range(draw(st.integers(1, 3))))
    count = draw(st.integers(1, 8))
    numbers = draw(st.permutations(range(1, count + 1)))
    assets, flows = list(sources), []
    for number in numbers:
        inputs = draw(st.sets(st.sampled_from(assets), max_size=3))
        outputs = tuple(f"a{number}{letter}" for letter in "xy"[: draw(st.integers(1, 2))])
        flows.append(Flow(number, tuple(sorted(inputs)), outputs))
        assets.extend(outputs)
    return Topology(sources, tuple(flows), graph_of(flows))
