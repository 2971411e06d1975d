"""Random projects with partitions, and histories with backfills, for the simulator and for the real store."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any

from freshline.definitions.partition_edges import edge_between
from freshline.definitions.policy import compile_policy
from freshline.definitions.schema.workflow import Source, Workflow
from freshline.definitions.steps import declared_partitioning
from freshline.errors import ConflictError, FreshlineError, UsageError
from freshline.model.backfill import BackfillPolicy, BackfillRequest, Only
from freshline.model.enums import RunStatus
from freshline.model.state import reference
from freshline.partitions import document
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.selection import EVERYTHING
from freshline.simulation import Catalogue, Run, Simulator
from tests.scenarios.test_partitions import divided
from tests.simulation.facts import Said
from tests.simulation.histories import PLAIN, SOON
from tests.store_harness import MONDAY, NEXT, Lab, project

DAY = {"time": "day", "start": "2026-01-02"}
DIVISIONS: tuple[dict[str, Any] | None, ...] = (
    None,
    DAY,
    DAY,
    {**DAY, "timezone": "Europe/Berlin"},
    {"time": "day", "start": "2026-01-03", "timezone": "America/St_Johns"},
    {"time": "hour", "start": "2026-01-05T04"},
    {"time": "month", "start": "2025-12"},
    {"keys": ["eu", "us"]},
    {"dynamic": {"limit": 100}},
    {"dimensions": {"day": {"time": "day", "start": "2026-01-03"}, "region": {"keys": ["eu", "us"]}}},
)
DECLARED: tuple[dict[str, Any] | None, ...] = (
    None,
    None,
    None,
    {"window": {"from": -1, "to": 0}},
    {"window": {"from": -2, "to": 0}, "require": "any"},
    {"all": True},
    {"require": "any"},
    {"require": 1},
    {"require": "50%", "grace": "20s"},
    {"overlap": "whole"},
    {"overlap": "whole", "require": "any"},
)
POLICIES: tuple[dict[str, Any] | None, ...] = (
    PLAIN,
    PLAIN,
    PLAIN,
    {**PLAIN, "maxWaitMs": 20_000},
    {**PLAIN, "maxWaitMs": 60_000},
    {**PLAIN, "debounceMs": 25_000},
    {**PLAIN, "minIntervalMs": 90_000},
    {**PLAIN, "waitForUpstream": False},
    {**PLAIN, "priority": 5},
    {**PLAIN, "enabled": False},
    {**PLAIN, "onMissing": False},
    None,
)
FRESHNESS: tuple[dict[str, Any] | None, ...] = (None, None, None, {"ttlMs": 200_000}, {"cadenceMs": 300_000})
BEGINS = MONDAY


class Project:
    """A few random workflows with partitions, and the sources that they read."""

    def __init__(self, luck: random.Random, *, plain: bool = False) -> None:
        self.luck = luck
        divisions = (None,) if plain else DIVISIONS
        self.sources = [self._source(f"s{number}", luck.choice(divisions)) for number in range(luck.randint(1, 3))]
        self.divided: dict[str, Partitioning] = {
            one["assetId"]: declared_partitioning(Source.model_validate(one)) for one in self.sources
        }
        self.workflows = [self._workflow(f"w{number}", divisions) for number in range(luck.randint(3, 6))]

    def _source(self, name: str, division: dict[str, Any] | None) -> dict[str, Any]:
        return {"assetId": name, **({"partitioning": division} if division else {})}

    def _workflow(self, slug: str, divisions: tuple[dict[str, Any] | None, ...]) -> dict[str, Any]:
        luck = self.luck
        division = luck.choice(divisions)
        found: dict[str, Any] = {}
        for name in luck.sample(list(self.divided), min(len(self.divided), luck.choice((1, 1, 2, 2, 3)))):
            for declared in (luck.choice(DECLARED), None, {"all": True}):
                if self._is_valid(slug, {name: declared}, division):
                    found[name] = declared
                    break
        if division and division.get("time") == "day" and luck.random() < 0.25:
            own = {slug: {"window": {"from": -1, "to": -1}}}
            if self._is_valid(slug, own, division):
                found |= own
        more: dict[str, Any] = {"backoff": SOON}
        if luck.random() < 0.1:
            more["quietHours"] = [{"from": "09:02", "to": "09:05"}]
        auto, freshness = luck.choice(POLICIES), luck.choice(FRESHNESS)
        made = divided(slug, found, division, auto=auto, freshness=freshness, **more)
        self.divided[slug] = document.from_json(compile_policy(Workflow.model_validate(made)).partitioning)
        return made

    def _is_valid(self, slug: str, consumes: dict[str, Any], division: dict[str, Any] | None) -> bool:
        try:
            policy = compile_policy(Workflow.model_validate(divided(slug, consumes, division)))
            consumer = document.from_json(policy.partitioning)
            for one in policy.inputs:
                edge_between(self.divided[one.asset_id], consumer, one.partitions)
            for one in policy.predecessors:
                edge_between(consumer, consumer, one.partitions, own_output=True)
        except (FreshlineError, ValueError):
            return False
        return True


class PartitionedBoth:
    """The same steps in the store and in the simulator, with partitions and backfills."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.luck = random.Random(seed)  # noqa: S311 - a seed, not a secret
        self.lab = lab
        self.project = Project(self.luck, plain=seed % 6 == 5)
        loaded = project(*self.project.workflows, sources=tuple(self.project.sources))
        lab.store.apply.commit(loaded)
        self.said = Said()
        catalogue = Catalogue.of(loaded.workflows, lab.settings, self.project.divided)
        self.simulator = Simulator(catalogue, MONDAY, observer=self.said)
        self.simulator.start(fresh=False)
        self.running: list[tuple[Any, Run]] = []
        self.backfills: list[tuple[str, str]] = []
        self._versions = iter(range(1, 1_000_000))
        self.told: list[str] = []
        self.settle()
        if self.luck.random() < 0.7:
            self.warm_up()

    def warm_up(self) -> None:
        """Report and produce nearly everything once."""
        for asset_id, key in self.origins():
            if self.luck.random() < 0.9:
                self._report(asset_id, key, "0")
        self.settle()
        while self.begin() != "nothing is queued":
            self.end(failing=0.0)
            self.settle()

    def origins(self) -> list[tuple[str, str]]:
        """Return every partition of every source that may be reported."""
        found: list[tuple[str, str]] = []
        for asset_id in self.simulator.catalogue.sources:
            one = self.project.divided[asset_id]
            known = {"a": None, "b": None, "c": None} if one.is_dynamic else {}
            found.extend(
                (asset_id, key) for key in (one.keys(EVERYTHING, self.lab.now, known) if one.columns else [""])
            )
        return found

    def step(self) -> str:
        """Do one random thing in both, and let both settle."""
        actions = (self.report, self.begin, self.end, self.advance, self.touch, self.demand, self.control)
        (action,) = self.luck.choices(actions, weights=(4, 7, 7, 4, 1, 1, 1))
        text = action()
        self.told.append(text)
        self.settle()
        return text

    def settle(self) -> None:
        self.lab.settle()
        self.simulator.settle()

    def report(self) -> str:
        if not (origins := self.origins()):
            return "nothing to report"
        asset_id, key = self.luck.choice(origins)
        version = f"{reference(asset_id, key)}-{self.luck.choice((1, next(self._versions)))}"
        return self._report(asset_id, key, version)

    def _report(self, asset_id: str, key: str, version: str) -> str:
        if self.project.divided[asset_id].is_dynamic:  # the order of keys that appear at one moment is not defined
            self.settle()
            self.lab.now = self.simulator.now = self.lab.later(milliseconds=1)
        self.lab.report(asset_id, version, partition_key=key)
        self.simulator.report(asset_id, version, key)
        return f"report {reference(asset_id, key)} {version}"

    def begin(self) -> str:
        """Start a run. Equally urgent runs are claimed in any order: the simulator follows the store."""
        theirs = self.lab.claim()
        if theirs is None:
            assert self.simulator.claim() is None, "nothing is queued there"
            return "nothing is queued"
        queued = [run for run in self.simulator.active.values() if run.status is RunStatus.QUEUED]
        unit = (theirs.slug, theirs.partition_key)
        (mine,) = [run for run in queued if (run.slug, run.partition_key) == unit]
        urgent = min(run.urgency for run in queued)
        assert mine.urgency == urgent, f"another run is more urgent than {unit}: {mine.urgency - urgent}"
        self.simulator.begin(mine)
        self.running.append((theirs, mine))
        return f"begin {reference(*unit)}"

    def end(self, failing: float = 0.2) -> str:
        if not self.running:
            return "nothing runs"
        theirs, mine = self.running.pop(self.luck.randrange(len(self.running)))
        name = reference(mine.slug, mine.partition_key)
        if self.luck.random() < failing:
            self.lab.fail(theirs)
            self.simulator.fail(mine)
            return f"fail {name}"
        version = self._made(name)
        self.lab.finish(theirs, **{mine.slug: version})
        self.simulator.succeed(mine, {name: version})
        return f"succeed {name} {version}"

    def _made(self, name: str) -> str:
        head = self.simulator.asset(name).head
        if head is not None and self.luck.random() < 0.3:
            return head.data_version
        return f"{name}-{next(self._versions)}"

    def advance(self) -> str:
        """Let time pass. Both run whenever something is due in one of them."""
        seconds = self.luck.choice((1, 1, 2, 5, 5, 10, 15, 30, 90, 90, 1_800, 9_000, 40_000))
        target = self.lab.later(seconds=seconds)
        while (moment := self._next()) is not None and moment <= target:
            self.lab.now = self.simulator.now = max(self.lab.now, moment)
            self.settle()
        self.lab.now = self.simulator.now = target
        return f"advance {seconds} s"

    def _next(self) -> datetime | None:
        moments = (self.lab.one(NEXT), self.simulator.next_moment())
        return min((one for one in moments if one is not None), default=None)

    def touch(self) -> str:
        slug = self.luck.choice(sorted(self.simulator.catalogue.by_slug))
        member = self.simulator.catalogue.by_slug[slug]
        verb = self.luck.choice(("pause", "resume", "resume", "reset", "expire"))
        if verb == "expire":
            graph = self.simulator.catalogue.graph
            known = self.simulator.reading.known_keys(slug)
            keys = list(graph.partitioning(slug).keys(EVERYTHING, self.lab.now, known))
            if graph.partitioning(slug).columns and not keys:
                return "nothing to expire"
            key = self.luck.choice(keys) if graph.partitioning(slug).columns else ""
            self.lab.store.operations.expire(slug, key)
            self.simulator.expire(slug, key)
            return f"expire {reference(slug, key)}"
        if verb == "pause":
            until = self.luck.choice((None, self.lab.later(seconds=50)))
            self.lab.store.operations.pause(slug, until)
            self.simulator.pause(member.id, until)
        else:
            getattr(self.lab.store.operations, verb)(slug)
            getattr(self.simulator, verb)(member.id)
        return f"{verb} {slug}"

    def demand(self) -> str:
        """Request a backfill in both, each at a time of its own."""
        luck = self.luck
        self.lab.now = self.simulator.now = self.lab.later(milliseconds=7)
        self.settle()
        graph = self.simulator.catalogue.graph
        slug = luck.choice(sorted(self.simulator.catalogue.by_slug))
        partitioning, known = graph.partitioning(slug), self.simulator.reading.known_keys(slug)
        keys = list(partitioning.keys(EVERYTHING, self.lab.now, known)) if partitioning.columns else []
        chosen = tuple(luck.sample(keys, luck.randint(1, len(keys)))) if keys and luck.random() < 0.5 else ()
        policy = BackfillPolicy(
            only=luck.choice((Only.ALL, Only.ALL, Only.MISSING, Only.STALE, Only.FAILED)),
            concurrency=luck.choice((1, 2, 4)),
            newest_first=luck.random() < 0.6,
            not_before=luck.choice((None, None, None, self.lab.later(seconds=40))),
            during_quiet_hours=luck.random() < 0.3,
            priority=luck.choice((100, 200, 200)),
            partial=luck.random() < 0.3,
        )
        upstream, downstream = luck.random() < 0.3, luck.random() < 0.5
        request = BackfillRequest(slug, keys=chosen, upstream=upstream, downstream=downstream, policy=policy)
        try:
            theirs = self.lab.store.backfills.create(request)
        except UsageError as error:
            try:
                self.simulator.backfills.create(request)
            except UsageError:
                return f"refused: {error.message}"
            raise AssertionError(f"only the store refuses {request}") from error
        self.backfills.append((theirs, self.simulator.backfills.create(request).id))
        return f"backfill {request}"

    def control(self) -> str:
        """Pause, resume, retry or cancel a backfill in both."""
        if not self.backfills:
            return "nothing to control"
        theirs, mine = self.luck.choice(self.backfills)
        verb = self.luck.choice(("pause", "resume", "resume", "retry", "cancel"))
        try:
            getattr(self.lab.store.backfills, verb)(theirs)
        except ConflictError:
            try:
                getattr(self.simulator.backfills, verb)(mine)
            except ConflictError:
                return f"refused to {verb} {mine}"
            raise
        getattr(self.simulator.backfills, verb)(mine)
        return f"{verb} {mine}"
