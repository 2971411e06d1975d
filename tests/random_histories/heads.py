"""Recomputes every version from the inputs that are recorded with it, and requires current heads from current inputs.

Nothing here reads the consumed versions of workflows, on which decisions are based. What was applied is known from the
history itself, not from the database.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tests.random_histories.histories import Shape, entrypoint, outputs, policy, reads
from tests.random_histories.lineage import Lineage
from tests.store_harness import Lab

SNAPSHOTS = """
SELECT s.asset_id, s.sequence, s.data_version, s.inputs, s.produced_at, r.id::text AS run_id, w.slug,
       v.definition, h.asset_id IS NOT NULL AS is_head
  FROM snapshots s
  LEFT JOIN heads h ON (h.asset_id, h.partition_key, h.sequence) = (s.asset_id, s.partition_key, s.sequence)
  LEFT JOIN runs r ON r.id = s.run_id
  LEFT JOIN workflows w ON w.id = r.workflow_id
  LEFT JOIN workflow_versions v ON (v.workflow_id, v.version) = (r.workflow_id, r.version)
"""


def content(asset_id: str, job: str, read: Iterable[tuple[str, str]], *, coarse: bool) -> str:
    """Return the version of an output: a function of the job and of the versions that it read."""
    digest = hashlib.sha256(repr((asset_id, job, sorted(read))).encode()).digest()
    return f"{asset_id}:{digest[0] % 2 if coarse else digest.hex()[:8]}"


@dataclass
class Heads:
    """The checks of all snapshots of one history. `accepted`: heads that an apply accepted, by asset."""

    lab: Lab
    shape: Shape
    lineage: Lineage
    accepted: dict[str, int] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)  # workflows that were applied before

    def applied(self, *, baseline: bool) -> None:
        """Note which heads the last apply accepted: all, or those that a new workflow with `onMissing: false` found."""
        sequences = {row["asset_id"]: row["sequence"] for row in self.lab.rows("SELECT asset_id, sequence FROM heads")}
        for slug in self.shape.definitions.keys() - self.shape.retired:
            definition = self.shape.definitions[slug]
            if baseline or (slug not in self.known and not policy(definition).get("onMissing", True)):
                made = [one for one in outputs(definition) if one in sequences]
                self.accepted |= {one: sequences[one] for one in made}
                self.lineage.accepted |= {(one, sequences[one]) for one in made}
            self.known.add(slug)

    def wrong(self) -> list[str]:
        """Return the snapshots whose content is not what their recorded inputs and their job give."""
        return [f"{_name(row)} was not made from what is recorded" for row in self._rows() if not self._explained(row)]

    def behind(self) -> list[str]:
        """Return the heads that are not what a healthy automatic workflow would make now."""
        heads = {row["asset_id"]: row for row in self._rows() if row["is_head"]}
        return [
            f"{_name(heads[asset_id])} of {slug} {why}"
            for slug, definition in self.shape.definitions.items()
            if slug not in self.shape.retired and self._healthy(definition, heads)
            for asset_id in outputs(definition)
            if asset_id in heads and self.accepted.get(asset_id) != heads[asset_id]["sequence"]
            for why in _reasons(slug, definition, heads[asset_id], heads)
        ]

    def _rows(self) -> list[dict[str, Any]]:
        return self.lab.rows(SNAPSHOTS)

    def _explained(self, row: Mapping[str, Any]) -> bool:
        if row["run_id"] is None or not row["inputs"]:
            return True  # a report, or a generator, whose data is new each time
        read = [(asset_id, pin["dataVersion"]) for asset_id, pin in row["inputs"].items()]
        job = entrypoint(row["definition"])
        wanted = content(row["asset_id"], job, read, coarse=row["asset_id"] in self.shape.coarse)
        return bool(row["data_version"] == wanted)

    def _healthy(self, definition: dict[str, Any], heads: Mapping[str, Mapping[str, Any]]) -> bool:
        """Return whether the workflow is automatic, and its inputs exist and are not too old."""
        if not policy(definition).get("enabled", True) or not policy(definition)["onUpstreamUpdate"]:
            return False
        read = {one["assetId"]: one for one in definition["steps"][0]["consumes"]}
        return all(asset_id in heads and not self._too_old(one, heads[asset_id]) for asset_id, one in read.items())

    def _too_old(self, consumed: dict[str, Any], head: Mapping[str, Any]) -> bool:
        limit = consumed.get("freshness", {}).get("maxAgeMs")
        return bool(limit and head["produced_at"] + timedelta(milliseconds=limit) < self.lab.now)


def _reasons(
    slug: str, definition: dict[str, Any], head: Mapping[str, Any], heads: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    if head["slug"] != slug:
        yield f"was made by {head['slug'] or 'an outsider'}"
        return
    if entrypoint(head["definition"]) != entrypoint(definition):
        yield "was made by an old job"
    if reads(head["definition"]).keys() != reads(definition).keys():
        yield "was made from other assets"
    if policy(definition).get("when", "any") == "any":
        for asset_id, triggers in reads(definition).items():
            recorded = head["inputs"].get(asset_id, {}).get("dataVersion")
            if triggers and recorded != heads[asset_id]["data_version"]:
                yield f"was made from {asset_id} {recorded}, and {heads[asset_id]['data_version']} is current"


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['asset_id']} {row['sequence']} ({row['data_version']}, run {row['run_id']})"
