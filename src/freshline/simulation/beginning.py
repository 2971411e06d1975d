"""The start of a simulation: what has data, what counts as consumed, and which clocks run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from freshline.model.state import reference
from freshline.partitions.selection import EVERYTHING
from freshline.simulation.records import first_version

if TYPE_CHECKING:
    from freshline.simulation.catalogue import Member
    from freshline.simulation.simulator import Simulator

Data = Mapping[str, Collection[str]]
"""The partitions with data, by source. A source that is not in it has data in all partitions."""


def begin(simulator: Simulator, *, fresh: bool, data: Data) -> None:
    """Start a simulation. `fresh`: every asset was just produced; otherwise no asset was ever produced."""
    for asset in simulator.assets.values() if fresh else ():
        asset.append(first_version(asset.id), simulator.now, None)
        simulator.timers.arm(asset, simulator.now)
    for member in list(simulator.catalogue.members.values()):
        if fresh or _accepts(member):
            simulator.baseline(member, succeeded=fresh)
        if not fresh:
            simulator.note(member.id)
    simulator.timers.start(simulator.now)
    if not simulator.catalogue.graph.partitioned:
        simulator.arrivals.start()
        simulator.retirement.start()
    elif fresh:
        _begin_with(simulator, data)
    else:
        _begin_empty(simulator)


def _accepts(member: Member) -> bool:
    """Return whether the heads that exist count as consumed, though nothing was produced."""
    return member.policy.automatic and not member.policy.on_missing


def _begin_empty(simulator: Simulator) -> None:
    """Evaluate all partitions that exist, and those that come to exist when their time has come."""
    for number in list(simulator.arrivals.members()):
        member = simulator.catalogue.members[number]
        if _accepts(member):
            simulator.baseline(member, succeeded=False)
        simulator.note(number)
    simulator.arrivals.start()
    simulator.retirement.start()


def _begin_with(simulator: Simulator, data: Data) -> None:
    """Let partitions have data, and what was computed from them be fresh. Await those that come to exist."""
    gaps = set(_produce_sources(simulator, data))
    made = list(_produce_outputs(simulator, gaps))
    simulator.arrivals.start()
    simulator.retirement.start()
    _start_clocks(simulator)
    whole = [one for one in simulator.catalogue.members.values() if not one.partition_key]
    for member in [*whole, *made]:
        simulator.baseline(member, succeeded=True)


def _start_clocks(simulator: Simulator) -> None:
    """Let the newest partitions age from now on, as everything does that was just produced."""
    for asset_id, freshness in simulator.catalogue.freshness.items():
        if simulator.catalogue.graph.partitioning(asset_id).columns:
            for name in simulator.reading.newest(asset_id, simulator.now, freshness.partitions):
                if simulator.asset(name).head is not None:
                    simulator.timers.arm(simulator.asset(name), simulator.now)


def _produce_sources(simulator: Simulator, data: Data) -> Iterator[str]:
    """Let the partitions of sources have data. Yield the sources of which existing partitions have none."""
    graph, now = simulator.catalogue.graph, simulator.now
    for asset_id in simulator.catalogue.sources:
        partitioning = graph.partitioning(asset_id)
        if not partitioning.columns:
            continue
        existing = [] if partitioning.is_dynamic else list(partitioning.keys(EVERYTHING, now))
        given = data.get(asset_id)
        keys = existing if given is None else [key for key in given if partitioning.defines(key)]
        for key in keys:
            _produce(simulator, reference(asset_id, key))
        if given is not None and not set(keys).issuperset(existing):
            yield asset_id


def _produce_outputs(simulator: Simulator, gaps: set[str]) -> Iterator[Member]:
    """Let the partitions of workflows have data, except those whose inputs do not have it. Yield the former.

    `gaps`: the assets of which existing partitions have no data; those that are found are added.
    """
    catalogue, now = simulator.catalogue, simulator.now
    for workflow_id in sorted(catalogue.workflows, key=catalogue.rank.__getitem__):
        if not catalogue.graph.partitioning_of(workflow_id).columns:
            continue
        has_gaps = not gaps.isdisjoint(catalogue.graph.inputs(workflow_id))
        for number in simulator.reading.partitions(workflow_id, EVERYTHING, now):
            member = catalogue.members[number]
            if has_gaps:
                state = simulator.state(member)
                if any(one.missing for one in state.inputs):
                    gaps.update(member.outputs)
                    if state.grace_ends is not None:
                        simulator.note(number)
                    continue
            for name in simulator.outputs(member):
                _produce(simulator, name)
            yield member


def _produce(simulator: Simulator, name: str) -> None:
    simulator.asset(name).append(first_version(name), simulator.now, None)
    simulator.reading.produced(name, simulator.now)
