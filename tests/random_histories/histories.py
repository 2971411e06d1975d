"""Random graphs with random policies."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.store_harness import Lab, workflow

POOLS = {"narrow": 1, "wide": 2}
WATCH_TIMEOUT_S = 10
FIRST_MINUTES = ("09:00", "09:01", "09:02", "09:04", "09:06")  # a history begins on Monday at nine

# The probability of each choice and its fields; one policy may have several.
AUTO: tuple[tuple[float, tuple[dict[str, Any], ...]], ...] = (
    (0.12, ({"debounceMs": 5_000, "maxDelayMs": 20_000}, {"debounceMs": 8_000})),
    (0.10, ({"minIntervalMs": 10_000}, {"minIntervalMs": 40_000})),
    (0.15, ({"when": "all"},)),
    (0.15, ({"maxWaitMs": 1_000}, {"maxWaitMs": 15_000}, {"maxWaitMs": 60_000})),
    (0.05, ({"waitForUpstream": False},)),
    (0.05, ({"onMissing": False},)),
    (0.05, ({"onUpstreamUpdate": False},)),
    (0.03, ({"enabled": False},)),
    (0.20, ({"priority": 1}, {"priority": 50})),
)
FRESHNESS: tuple[tuple[float, tuple[dict[str, Any], ...]], ...] = (
    (0.15, ({"ttlMs": 30_000}, {"ttlMs": 120_000})),
    (0.10, ({"cadenceMs": 60_000}, {"cadenceMs": 45_000, "offsetMs": 7_000})),
    (0.05, ({"cron": "*/2 * * * *"},)),
)
EDGES: tuple[tuple[float, tuple[dict[str, Any], ...]], ...] = (
    (0.06, ({"autoMaterialize": {"onUpstreamUpdate": False}},)),
    (0.04, ({"freshness": {"maxAgeMs": 60_000}},)),
)


@dataclass
class Shape:
    """A graph of workflows over a few sources, as currently applied, and the behaviour of their jobs."""

    sources: list[str]
    appends: list[str] = field(default_factory=list)  # the sources whose reports are deliveries
    watched: dict[str, int] = field(default_factory=dict)  # and those that are looked at, every so many seconds
    dense: bool = False  # nearly all workflows join, wait, and have no other policy
    definitions: dict[str, dict[str, Any]] = field(default_factory=dict)  # by slug, ancestors first
    retired: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)  # assets that an apply has stored; they are never forgotten
    coarse: set[str] = field(default_factory=set)  # outputs that often do not change: early cutoff
    flaky: dict[str, float] = field(default_factory=dict)

    def apply(self, lab: Lab, *, baseline: bool = False) -> None:
        """Apply the current definitions."""
        kept = [one for slug, one in self.definitions.items() if slug not in self.retired]
        lab.apply(*kept, sources=tuple(map(self._source, self.sources)), pools=POOLS, baseline=baseline)

    def _source(self, asset_id: str) -> dict[str, Any]:
        mode = {"mode": "append"} if asset_id in self.appends else {}
        every = self.watched.get(asset_id)
        block = {"files": "drop/*.csv", "every": f"{every}s", "timeout": f"{WATCH_TIMEOUT_S}s"}
        return {"assetId": asset_id, **mode, **({"watch": block} if every else {})}

    def applied(self) -> None:
        """Note the assets that the last apply stored: those that a workflow which is not retired makes or reads."""
        for slug in self.definitions.keys() - self.retired:
            self.stored |= {*outputs(self.definitions[slug]), *reads(self.definitions[slug])}

    def copy(self) -> Shape:
        """Return a copy to restore later."""
        return copy.deepcopy(self)

    def restore(self, before: Shape) -> None:
        """Restore the definitions of a copy."""
        self.definitions, self.retired, self.watched = before.definitions, before.retired, before.watched

    def sort(self) -> bool:
        """Put ancestors first again after a change; return False if there is a cycle."""
        placed: dict[str, dict[str, Any]] = {}
        left = dict(self.definitions)
        while left:
            unmade = {asset_id for one in left.values() for asset_id in outputs(one)}
            ready = [slug for slug, one in left.items() if not unmade & (reads(one).keys() - set(outputs(one)))]
            if not ready:
                return False
            placed |= {slug: left.pop(slug) for slug in ready}
        self.definitions = placed
        return True

    def owner(self, asset_id: str) -> str | None:
        """Return the workflow that produces the asset now."""
        kept = (slug for slug in self.definitions if slug not in self.retired)
        return next((slug for slug in kept if asset_id in outputs(self.definitions[slug])), None)

    def heard(self, asset_id: str) -> set[str]:
        """Return the assets above this one that have no inputs, and whose changes can cause runs down to it."""
        owner = self.owner(asset_id)
        above = reads(self.definitions[owner]) if owner else {}
        found = {root for one, triggers in above.items() if triggers for root in self.heard(one)}
        return found if above else {asset_id}

    def orphans(self) -> list[str]:
        """Return the assets that only outsiders can report now.

        An asset that a workflow got and lost by one apply was never stored: a report of it is refused.
        """
        every = {asset_id for one in self.definitions.values() for asset_id in outputs(one)}
        return sorted(asset_id for asset_id in every & self.stored if self.owner(asset_id) is None)

    def active(self, rng: random.Random) -> str:
        """Return a random workflow that is not retired."""
        return rng.choice([slug for slug in self.definitions if slug not in self.retired])

    def upwards(self) -> Iterator[str]:
        """Yield all assets, descendants first."""
        for slug in reversed(self.definitions):
            yield from outputs(self.definitions[slug])
        yield from self.sources

    def above(self, slug: str | None = None) -> list[str]:
        """Return the assets that a workflow may read."""
        found = list(self.sources)
        for other, definition in self.definitions.items():
            if other == slug:
                break
            found += outputs(definition)
        return found


def random_shape(rng: random.Random) -> Shape:
    """Return up to three sources and eight workflows with up to three inputs each; every second graph is dense."""
    dense = rng.random() < 0.5
    shape = Shape([f"s{i}" for i in range(1 if dense else rng.randint(1, 3))], dense=dense)
    for i in range(rng.randint(3, 6) if dense else rng.randint(2, 8)):
        slug = f"w{i}"
        made = random_workflow(rng, slug, shape.above(), dense=dense)
        shape.coarse |= {asset_id for asset_id in outputs(made) if rng.random() < 0.25}
        shape.definitions[slug] = made
        if rng.random() < 0.2:
            shape.flaky[slug] = rng.choice([0.2, 0.5])
    return shape


def add_deliveries(rng: random.Random, shape: Shape) -> None:
    """Let some sources of every second graph be append sources, and a part of those be watched."""
    if rng.random() < 0.5:
        return
    shape.appends = [source for source in shape.sources if rng.random() < 0.7]
    shape.watched = {source: rng.choice([5, 20]) for source in shape.appends if rng.random() < 0.7}


def random_workflow(rng: random.Random, slug: str, above: list[str], *, dense: bool) -> dict[str, Any]:
    """Return a workflow with random inputs and a random policy."""
    count = min(len(above), rng.choice([1, 2, 2, 3] if dense else [1, 1, 1, 2, 2, 2, 2, 3, 3, 0]))
    edges = () if dense else EDGES
    read = [{"assetId": one, **_chosen(rng, edges)} for one in sorted(rng.sample(above, count))]
    more = random_policy(rng, rooted=count == 0, plain=dense and rng.random() < 0.7)
    return workflow(slug, read, outputs=_outputs(rng, slug), **more)


def random_policy(rng: random.Random, *, rooted: bool, plain: bool) -> dict[str, Any]:
    """Return a random policy. `rooted`: no inputs, so only freshness causes runs. `plain`: it follows its inputs."""
    auto = {"onUpstreamUpdate": True, "maxWaitMs": 300_000}
    policy: dict[str, Any] = {
        "auto": auto if plain else auto | _chosen(rng, AUTO),
        "freshness": (None if plain else _chosen(rng, FRESHNESS)) or ({"ttlMs": 40_000} if rooted else None),
        "backoff": {"baseMs": 5_000, "maxMs": 30_000, "budget": rng.choice([2, 5]), "probeMs": 60_000},
    }
    if plain:
        return policy
    if rng.random() < 0.2:
        policy["pool"] = rng.choice(list(POOLS))
    if rng.random() < 0.08:
        begin, end = sorted(rng.sample(FIRST_MINUTES, 2))
        policy["quietHours"] = [{"from": begin, "to": end, "timezone": "UTC"}]
    return policy


def outputs(definition: dict[str, Any]) -> list[str]:
    """Return the assets that a definition produces."""
    return [one["assetId"] for one in definition["steps"][0]["produces"]]


def reads(definition: dict[str, Any]) -> dict[str, bool]:
    """Return the consumed assets, and whether a change of each may cause a run (docs/semantics.md#R2.3)."""
    auto = definition["steps"][0]["produces"][0]["autoMaterialize"]
    usual = auto.get("enabled", True) and auto["onUpstreamUpdate"]
    return {
        one["assetId"]: one.get("autoMaterialize", {}).get("onUpstreamUpdate", usual)
        for one in definition["steps"][0]["consumes"]
    }


def policy(definition: dict[str, Any]) -> dict[str, Any]:
    """Return the automation policy of the outputs."""
    auto: dict[str, Any] = definition["steps"][0]["produces"][0]["autoMaterialize"]
    return auto


def entrypoint(definition: Mapping[str, Any]) -> str:
    """Return the entry point of the job."""
    found: str = definition["steps"][0]["job"]["entrypoint"]
    return found


def _outputs(rng: random.Random, slug: str) -> list[str]:
    return [slug, f"{slug}.more"] if rng.random() < 0.15 else [slug]


def _chosen(rng: random.Random, choices: tuple[tuple[float, tuple[dict[str, Any], ...]], ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for chance, ways in choices:
        if rng.random() < chance:
            found |= rng.choice(ways)
    return found
