"""Random projects and histories for the simulator and for the real store and services."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

from freshline.model.enums import RunStatus
from freshline.model.reports import SourceReport
from freshline.model.run import ClaimedRun
from freshline.simulation import Catalogue, Run, Simulator
from tests.simulation.facts import Said
from tests.store_harness import MONDAY, NEXT, Lab, project, workflow

PLAIN: dict[str, Any] = {"onUpstreamUpdate": True}
JOINING = (
    PLAIN,
    PLAIN,
    {**PLAIN, "maxWaitMs": 20_000},
    {**PLAIN, "maxWaitMs": 60_000},
    {**PLAIN, "debounceMs": 25_000},
    {**PLAIN, "debounceMs": 15_000, "maxDelayMs": 40_000},
    {**PLAIN, "minIntervalMs": 90_000},
    {**PLAIN, "when": "all"},
)
SOON = {"baseMs": 20_000, "maxMs": 30_000, "budget": 2, "probeMs": 400_000}


def random_project(luck: random.Random, *, dense: bool, sources: int | None = None) -> list[dict[str, Any]]:
    """Return a few workflows with random policies. `dense`: nearly all of them join inputs and wait."""
    known = [f"s{number}" for number in range(sources or (1 if dense else luck.randint(1, 3)))]
    workflows = []
    for number in range(luck.randint(4, 8)):
        made = (_joining if dense else _workflow)(luck, f"w{number}", known)
        workflows.append(made)
        known.extend(output["assetId"] for output in made["steps"][0]["produces"])
    return workflows


def _joining(luck: random.Random, slug: str, known: list[str]) -> dict[str, Any]:
    """Return a workflow that reads the source and something derived from it."""
    near = luck.sample(known[-3:], min(len(known), luck.choice((1, 1, 2))))
    inputs = sorted({*near, *(known[:1] if luck.random() < 0.6 else ())})
    more: dict[str, Any] = {"backoff": SOON} if luck.random() < 0.5 else {}
    if luck.random() < 0.1:
        more["quietHours"] = [{"from": "09:02", "to": "09:04"}]
    read = [{"assetId": one, **({"freshness": {"maxAgeMs": 30_000}} if luck.random() < 0.1 else {})} for one in inputs]
    return workflow(slug, read, auto=luck.choice(JOINING), **more)


def _workflow(luck: random.Random, slug: str, known: list[str]) -> dict[str, Any]:
    inputs = luck.sample(known[-4:], min(len(known), luck.choice((0, 1, 1, 2, 2, 3))))
    auto: dict[str, Any] | None = {"onUpstreamUpdate": luck.random() < 0.9}
    if auto is not None and luck.random() < 0.6:
        auto |= luck.choice(
            (
                {"when": "all"},
                {"debounceMs": 40_000, "maxDelayMs": 120_000},
                {"debounceMs": 90_000},
                {"minIntervalMs": 180_000},
                {"waitForUpstream": False},
                {"maxWaitMs": 45_000},
                {"onMissing": False},
                {"priority": luck.randint(1, 9)},
                {"enabled": False},
            )
        )
    if luck.random() < 0.05:
        auto = None
    freshness = luck.choice((None, None, {"ttlMs": 200_000}, {"cadenceMs": 300_000}, {"cron": "*/7 * * * *"}))
    more: dict[str, Any] = {"backoff": SOON}
    if luck.random() < 0.2:
        more["quietHours"] = [{"from": "09:10", "to": "09:15"}]
    read = [{"assetId": one, **_edge(luck)} for one in inputs]
    outputs = [slug, f"{slug}.more"] if luck.random() < 0.2 else [slug]
    return workflow(slug, read, auto=auto, freshness=freshness, outputs=outputs, **more)


def _edge(luck: random.Random) -> dict[str, Any]:
    dice = luck.random()
    if dice < 0.1:
        return {"autoMaterialize": {"onUpstreamUpdate": False}}
    return {"freshness": {"maxAgeMs": 250_000}} if dice < 0.2 else {}


def named(versions: dict[str, str]) -> dict[str, str]:
    """Return versions by asset as arguments of `Lab.finish`."""
    return {asset_id.replace(".", "_"): version for asset_id, version in versions.items()}


class Both:
    """The same steps in the store and in the simulator. `groups`: of how many sources, which are reported together."""

    def __init__(self, lab: Lab, seed: int, *, groups: int | None = None) -> None:
        self.luck = random.Random(seed)  # noqa: S311 - a seed, not a secret
        self.lab = lab
        self.dense = dense = seed % 3 != 0
        self.groups = groups
        definitions = random_project(self.luck, dense=dense, sources=groups)
        lab.apply(*definitions)
        self.said = Said()
        catalogue = Catalogue.of(project(*definitions).workflows, lab.settings)
        self.simulator = Simulator(catalogue, MONDAY, observer=self.said)
        self.simulator.start(fresh=False)
        self.running: list[tuple[ClaimedRun, Run]] = []
        self._versions = iter(range(1, 1_000_000))
        if dense:
            self.warm_up()

    def warm_up(self) -> None:
        """Produce everything once, so that updates follow instead of missing inputs."""
        for asset_id in self.simulator.catalogue.sources:
            self.lab.report(asset_id, "0")
            self.simulator.report(asset_id, "0")
        self.settle()
        while self.begin() != "nothing is queued":
            self.end(failing=0.0)
            self.settle()

    def step(self) -> str:
        """Do one random thing in both, and let both settle."""
        actions = (self.report, self.begin, self.end, self.advance, self.touch)
        (action,) = self.luck.choices(actions, weights=(4, 6, 5, 4, 1))
        text = action()
        self.settle()
        return text

    def settle(self) -> None:
        self.lab.settle()
        self.simulator.settle()

    def report(self) -> str:
        if not self.simulator.catalogue.sources:
            return "nothing to report"
        if self.groups and self.luck.random() < 0.7 and len(self.simulator.catalogue.sources) > 1:
            return self.report_together()
        asset_id = self.luck.choice(self.simulator.catalogue.sources)
        version = f"{asset_id}-{self.luck.choice((1, next(self._versions)))}"
        self.lab.report(asset_id, version)
        self.simulator.report(asset_id, version)
        return f"report {asset_id} {version}"

    def report_together(self) -> str:
        """Report two sources or more as one generation."""
        known = sorted(self.simulator.catalogue.sources)
        members = sorted(self.luck.sample(known, self.luck.randint(2, len(known))))
        versions = {one: f"{one}-{self.luck.choice((1, next(self._versions)))}" for one in members}
        self.lab.store.operations.report_together([SourceReport(*one) for one in versions.items()])
        self.simulator.report_together((one, "", version) for one, version in versions.items())
        return f"report together {versions}"

    def begin(self) -> str:
        """Start a run. Equally urgent runs are claimed in any order: the simulator follows the store."""
        theirs = self.lab.claim()
        if theirs is None:
            assert self.simulator.claim() is None, "nothing is queued there"
            return "nothing is queued"
        queued = [run for run in self.simulator.active.values() if run.status is RunStatus.QUEUED]
        (mine,) = [run for run in queued if run.slug == theirs.slug]
        assert self._urgency(mine) == min(map(self._urgency, queued)), "another run is more urgent"
        self.simulator.begin(mine)
        self.running.append((theirs, mine))
        return f"begin {mine.slug}"

    def _urgency(self, run: Run) -> datetime:
        return run.queued_at + timedelta(seconds=10 * self.simulator.catalogue.members[run.workflow_id].policy.priority)

    def end(self, failing: float = 0.25) -> str:
        if not self.running:
            return "nothing runs"
        theirs, mine = self.running.pop(self.luck.randrange(len(self.running)))
        if self.luck.random() < failing:
            self.lab.fail(theirs)
            self.simulator.fail(mine)
            return f"fail {mine.slug}"
        versions = {asset_id: self._made(asset_id) for asset_id in self.simulator.catalogue.find(mine.slug).outputs}
        self.publish(theirs, mine, versions)
        return f"succeed {mine.slug} {versions}"

    def publish(self, theirs: ClaimedRun, mine: Run, versions: dict[str, str]) -> None:
        """Publish these data versions of the outputs of a run."""
        self.lab.finish(theirs, **named(versions))
        self.simulator.succeed(mine, versions)

    def _made(self, asset_id: str) -> str:
        head = self.simulator.assets[asset_id].head
        if head is not None and self.luck.random() < 0.3:
            return head.data_version
        return f"{asset_id}-{next(self._versions)}"

    def advance(self) -> str:
        """Let time pass. The real services run whenever something is due."""
        seconds = self.luck.choice((1, 1, 2, 5, 5, 10, 15, 30, 90) if self.dense else (1, 5, 5, 15, 30, 60, 120, 400))
        target = self.lab.later(seconds=seconds)
        while (moment := self.lab.one(NEXT)) is not None and moment <= target:
            self.lab.now = max(self.lab.now, moment)
            self.lab.settle()
        self.lab.now = target
        self.simulator.advance(target)
        return f"advance {seconds} s"

    def touch(self) -> str:
        slug = self.luck.choice(sorted(self.simulator.catalogue.by_slug))
        member = self.simulator.catalogue.by_slug[slug]
        verb = self.luck.choice(("pause", "resume", "resume", "reset", "expire"))
        if verb == "expire":
            self.lab.store.operations.expire(member.outputs[0])
            self.simulator.expire(member.outputs[0])
        elif verb == "pause":
            until = self.luck.choice((None, self.lab.later(seconds=50)))
            self.lab.store.operations.pause(slug, until)
            self.simulator.pause(member.id, until)
        else:
            getattr(self.lab.store.operations, verb)(slug)
            getattr(self.simulator, verb)(member.id)
        return f"{verb} {slug}"
