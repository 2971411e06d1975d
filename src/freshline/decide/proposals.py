"""What becomes of partitions that are held for an approval: released, ignored, or listed by one proposal. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from freshline.decide.flood import exceeds
from freshline.graph import Graph
from freshline.model.enums import Beyond
from freshline.model.json import Json
from freshline.model.policy import Policy
from freshline.model.staleness import Counted, Staleness
from freshline.model.state import split_reference

MOST_REASONS = 50
MOST_ANCESTORS = 10_000


class HeldPartition(NamedTuple):
    """A partition that is held for an approval. `listed`: what its open proposal lists about it."""

    workflow_id: int
    partition_key: str
    counted: Counted
    staleness: Staleness
    origin: datetime | None = None
    backfill_id: str | None = None
    listed: Staleness | None = None

    @property
    def is_listed(self) -> bool:
        """Whether a proposal lists it as it is."""
        return self.backfill_id is not None and self.listed == self.staleness


class Confirmed(NamedTuple):
    """How many partitions of a workflow count. `unresolved`: some of its partitions were not evaluated yet."""

    policy: Policy
    stale: int
    own: int
    started: int
    unresolved: bool = False


@dataclass(slots=True)
class Proposed:
    """What becomes of the held partitions of one connected set of workflows."""

    released: list[HeldPartition] = field(default_factory=list)
    ignored: list[HeldPartition] = field(default_factory=list)
    listed: list[HeldPartition] = field(default_factory=list)


Later = Callable[[HeldPartition, int], int]


def propose(held: Sequence[HeldPartition], confirmed: Mapping[int, Confirmed], later: Later) -> Proposed:
    """Divide the held partitions of one connected set.

    They are released if they are within the limit after all, and that is not known while some are not evaluated. One
    that joined is released when nothing is proposed any more of the change that made it stale.
    """
    found = Proposed()
    undecided: set[datetime | None] = set()
    for one in held:
        if one.counted is Counted.JOINED:
            continue
        known = confirmed[one.workflow_id]
        if one.counted is Counted.LISTED or _is_beyond(one, known, later):
            ignores = known.policy.flood.beyond is Beyond.IGNORE
            (found.ignored if ignores else found.listed).append(one)
        elif known.unresolved:
            undecided.add(one.origin)
        else:
            found.released.append(one)
    origins = {one.origin for one in found.listed}
    for one in held:
        if one.counted is Counted.JOINED and one.origin in origins:
            found.listed.append(one)
        elif one.counted is Counted.JOINED and one.origin not in undecided:
            found.released.append(one)
    return found


def _is_beyond(one: HeldPartition, known: Confirmed, later: Later) -> bool:
    count = known.own if one.counted is Counted.OWN else known.stale
    return exceeds(known.policy, count + known.started, later(one, known.policy.flood.limit))


def connected(graph: Graph, workflows: Iterable[int]) -> list[set[int]]:
    """Return the sets of workflows of which one is above another, directly or not. Those of no graph are left out."""
    left = {one for one in workflows if one in graph.slugs}
    sets: list[set[int]] = []
    for one in sorted(left):
        above = graph.ancestors([one], MOST_ANCESTORS)
        near = {one, *(left if above is None else left & above)}
        joined = [known for known in sets if known & near]
        sets = [known for known in sets if known not in joined]
        sets.append(near.union(*joined))
    return sets


def reasons_of(rows: Collection[tuple[str, int, Staleness]]) -> list[Json]:
    """Return what made listed partitions stale, per workflow: a version of it, or of an input. Most partitions first.

    `rows`: of each partition the slug and the version of its workflow, and what is listed about it.
    """
    counts: Counter[tuple[str, str, str | int]] = Counter()
    versions: dict[tuple[str, str], set[str]] = {}
    for slug, version, listed in rows:
        for kind, value in _kinds(version, listed):
            counts[slug, kind, value] += 1
        if listed.missing:
            continue
        read: dict[str, set[str]] = {}
        for reference, data_version in listed.inputs.items():
            read.setdefault(split_reference(reference)[0], set()).add(data_version)
        for asset_id, found in read.items():
            counts[slug, "assetId", asset_id] += 1
            versions.setdefault((slug, asset_id), set()).update(found)
    reasons: list[Json] = []
    for (slug, kind, value), count in sorted(
        counts.items(), key=lambda one: (one[0][0], -one[1], one[0][1], str(one[0][2]))
    ):
        reason: Json = {"workflowSlug": slug, kind: value, "partitions": count}
        if kind == "assetId":
            found = versions[slug, str(value)]
            reason["dataVersion"] = next(iter(found)) if len(found) == 1 else None
        reasons.append(reason)
    return reasons[:MOST_REASONS]


def _kinds(version: int, listed: Staleness) -> Iterable[tuple[str, str | int]]:
    if listed.missing:
        yield "missing", True
    elif listed.job is not None:
        yield "workflowVersion", version
    if listed.outputs:
        yield "foreign", True
    if listed.expired_at is not None:
        yield "expired", True
