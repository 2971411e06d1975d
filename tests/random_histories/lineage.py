"""Decides by content whether the inputs of a run are of one generation: whether one history explains all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.random_histories.histories import Shape, outputs, policy, reads
from tests.store_harness import Lab

Reading = frozenset[tuple[str, str]]
ANYTHING: Reading = frozenset()
SNAPSHOTS = """
SELECT s.asset_id, s.sequence, s.data_version, s.inputs, r.id::text AS run_id, w.slug,
       coalesce(r.mixed, false) AS mixed
  FROM snapshots s LEFT JOIN runs r ON r.id = s.run_id LEFT JOIN workflows w ON w.id = r.workflow_id
"""


@dataclass
class Lineage:
    """The data versions from which each version of an asset was computed.

    Snapshots without a guarantee are not traced further: sources, declared mixes, workflows that do not wait, and
    assets that their workflow would not update if an input changed.
    """

    lab: Lab
    shape: Shape
    unbound: set[str] = field(default_factory=set)  # runs of workflows that did not wait
    accepted: set[tuple[str, int]] = field(default_factory=set)  # snapshots that a user declared to be current
    _ends: set[tuple[str, str]] = field(default_factory=set)  # versions beyond which a run was not traced

    def read(self, pins: Mapping[str, Any]) -> bool:
        """Note what a run reads that has just been pinned, and return whether it is a mix: no history explains it.

        A run is judged by the definitions of the moment at which it is pinned. What it made from an asset that was a
        source then is not a mix later, when a workflow produces that asset again.
        """
        read = {asset_id: str(pin["dataVersion"]) for asset_id, pin in pins.items()}
        readings = self._readings()
        self._ends |= _ends(read, readings)
        return not _explained(read, list(self.shape.upwards()), readings)

    def _readings(self) -> dict[tuple[str, str], set[Reading]]:
        """Return the inputs from which each version may have been computed; early cutoff merges several histories."""
        found: dict[tuple[str, str], set[Reading]] = defaultdict(set)
        bound = self._bound()
        for row in self.lab.rows(SNAPSHOTS):
            found[row["asset_id"], row["data_version"]].add(self._reading(row, bound))
        for end in self._ends:
            found[end].add(ANYTHING)
        return found

    def _reading(self, row: Mapping[str, Any], bound: Mapping[str, Mapping[str, bool]]) -> Reading:
        triggers = bound.get(row["asset_id"])
        accepted = (row["asset_id"], row["sequence"]) in self.accepted
        if (
            row["mixed"]
            or accepted
            or row["run_id"] in self.unbound
            or triggers is None
            or triggers.keys() != row["inputs"].keys()
        ):
            return ANYTHING
        return frozenset((one, pin["dataVersion"]) for one, pin in row["inputs"].items() if triggers[one])

    def _bound(self) -> dict[str, Mapping[str, bool]]:
        """Return the inputs of every automatic asset, and which of them trigger it."""
        return {
            asset_id: reads(definition)
            for slug, definition in self.shape.definitions.items()
            if slug not in self.shape.retired and policy(definition).get("enabled", True)
            for asset_id in outputs(definition)
        }


def _ends(read: Mapping[str, str], readings: Mapping[tuple[str, str], set[Reading]]) -> set[tuple[str, str]]:
    """Return the versions from which the inputs descend and that are not traced further."""
    seen: set[tuple[str, str]] = set()
    waiting = {*read.items()}
    while waiting:
        version = waiting.pop()
        seen.add(version)
        waiting |= {upper for way in readings.get(version, ()) for upper in way} - seen
    return {version for version in seen if ANYTHING in readings.get(version, {ANYTHING})}


def _explained(read: dict[str, str], upwards: list[str], readings: Mapping[tuple[str, str], set[Reading]]) -> bool:
    """Return whether every ancestor can have been read at one data version. `upwards`: descendants first."""
    if not upwards:
        return True
    asset_id, rest = upwards[0], upwards[1:]
    if asset_id not in read:
        return _explained(read, rest, readings)
    ways = readings.get((asset_id, read[asset_id]), {ANYTHING})
    return any(
        _explained(read | dict(way), rest, readings)
        for way in ways
        if all(read.get(upper, version) == version for upper, version in way)
    )
