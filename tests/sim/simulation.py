"""A deterministic simulation: the real services and the real store, whole transactions as steps, a seeded scheduler.

Several materializers and workers, crashes on either side of every commit, pauses longer than leases, a clock that
jumps. Safety is checked after every step; then the faults stop and convergence is demanded. One seed, one history.
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from freshline import failpoints
from freshline.definitions.schema import Workflow
from freshline.definitions.steps import produced
from freshline.errors import FencedError
from freshline.failpoints import FailpointError
from freshline.model.run import ClaimedRun, StagedOutput
from freshline.store.ids import new_id
from tests.lab import Lab, workflow

STEPS = 200
LEASE_MS = 20_000
NEVER = datetime(1970, 1, 1, tzinfo=UTC)
TABLES = "workflows, projects, assets, runs, events, inbox, decisions, workers"
Ways = dict[tuple[str, str], list[dict[str, str]]]  # by asset and data version: the inputs of each run that made it


@dataclass
class Shape:
    """A random graph of workflows over a few sources, and how each behaves."""

    sources: list[str]
    workflows: list[dict[str, Any]]
    inputs: dict[str, list[str]]
    coarse: set[str]  # outputs that often do not change: early cutoff
    flaky: dict[str, float]


def random_shape(rng: random.Random) -> Shape:
    """Up to three sources and eight workflows, each reading one to three assets above it."""
    sources = [f"s{i}" for i in range(rng.randint(1, 3))]
    above = list(sources)
    shape = Shape(sources, [], {}, set(), {})
    for i in range(rng.randint(2, 8)):
        slug = f"w{i}"
        shape.inputs[slug] = sorted(rng.sample(above, min(len(above), rng.choice([1, 1, 2, 2, 3]))))
        shape.workflows.append(_workflow(rng, slug, shape.inputs[slug]))
        above.append(slug)
        if rng.random() < 0.25:
            shape.coarse.add(slug)
        if rng.random() < 0.2:
            shape.flaky[slug] = rng.choice([0.2, 0.5])
    return shape


def _workflow(rng: random.Random, slug: str, inputs: list[str]) -> dict[str, Any]:
    auto: dict[str, Any] = {"onUpstreamUpdate": True}
    if rng.random() < 0.15:
        auto |= {"debounceMs": 5_000, "maxDelayMs": 20_000}
    if rng.random() < 0.1:
        auto["minIntervalMs"] = 10_000
    if rng.random() < 0.15:
        auto["when"] = "all"
    freshness = {"ttlMs": rng.choice([30_000, 120_000])} if rng.random() < 0.2 else None
    backoff = {"baseMs": 5_000, "maxMs": 30_000, "budget": rng.choice([2, 5])}
    return workflow(slug, list(inputs), auto=auto, freshness=freshness, backoff=backoff)


@dataclass
class SimWorker:
    """A run worker. `paused_until`: it sleeps with its run, longer than its lease, and does not know."""

    id: str
    run: ClaimedRun | None = None
    ends_at: datetime = NEVER
    paused_until: datetime = NEVER


@dataclass
class Simulation:
    """One history."""

    lab: Lab
    seed: int
    rng: random.Random = field(init=False)
    shape: Shape = field(init=False)
    workers: list[SimWorker] = field(init=False)
    faults: bool = True
    story: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        random.seed(self.seed)  # the jitter of cooldowns
        self.rng = random.Random(self.seed)  # noqa: S311 - a history is made of its seed
        self.shape = random_shape(self.rng)
        self.workers = [SimWorker(new_id()) for _ in range(self.rng.randint(1, 3))]

    def run(self) -> None:
        """The whole history; an AssertionError names the seed and the last steps."""
        try:
            self._live()
            self._converge()
        except AssertionError as error:
            last = "\n".join(self.story[-40:])
            raise AssertionError(
                f"seed {self.seed}: {error}\nreplay: make sim SEED={self.seed}\nthe last steps:\n{last}"
            ) from error

    def _live(self) -> None:
        self._store()
        actions = self._actions()
        names, weights = list(actions), [weight for weight, _ in actions.values()]
        for _ in range(STEPS):
            name = self.rng.choices(names, weights)[0]
            self._step(name, actions[name][1])
            self._check()

    def _actions(self) -> dict[str, tuple[int, Callable[[], object]]]:
        store = self.lab.store
        return {
            "report": (10, self._report),
            "absorb": (20, lambda: store.absorb(self.rng.choice([1, 3, 100]))),
            "reconcile": (25, self.lab.reconciler.run_once),
            "fire_timers": (5, lambda: store.fire_timers(10)),
            "rescue": (6, lambda: store.rescue(10)),
            "work": (30, self._work),
            "heartbeat": (8, self._heartbeat),
            "clock": (14, self._tick),
            "apply": (1, self._apply),
            "pause": (1, self._pause_workflow),
            "resume": (2, self._resume_workflow),
            "reset": (1, lambda: store.reset(self._slug())),
            "cancel": (1, self._cancel),
            "manual": (1, self._manual),
            "expire": (1, lambda: store.expire(self._slug())),
            "stamp": (2, lambda: store.stamp_positions(100)),
        }

    def _step(self, name: str, action: Callable[[], object]) -> None:
        """One transaction, which may crash on either side of its commit."""
        self.story.append(f"{self.lab.now:%H:%M:%S} {name}")
        side = self.rng.choice(["before", "after"]) if self.faults and self.rng.random() < 0.12 else None
        if side is None:
            action()
            return
        self.story[-1] += f" (crash {side} commit)"
        with failpoints.armed_all(side, _crash), suppress(FailpointError):
            action()

    def _slug(self) -> str:
        return self.rng.choice(list(self.shape.inputs))

    def _report(self) -> None:
        source = self.rng.choice(self.shape.sources)
        version = self.rng.choice([None, str(self.rng.randint(1, 4))])
        key = self.rng.choice([None, f"k{self.rng.randint(1, 30)}"])
        self.lab.report(source, version, key=key)
        self.story[-1] += f" {source}={version}"

    def _work(self) -> None:
        worker = self.rng.choice(self.workers)
        if worker.paused_until > self.lab.now:
            return
        if worker.run is None:
            worker.run = self.lab.store.claim_run(self.lab.claimant(worker.id))
            if worker.run:
                seconds = self.rng.choice([0, 0, 2, 8])
                worker.ends_at = self.lab.later(seconds=seconds)
                self.story[-1] += f" starts {worker.run.slug} attempt {worker.run.attempt}"
                self._maybe_lose(worker)
        elif worker.ends_at <= self.lab.now:
            self._end(worker)

    def _maybe_lose(self, worker: SimWorker) -> None:
        if not self.faults:
            return
        chance = self.rng.random()
        if chance < 0.08:
            self.story[-1] += ", and dies"
            worker.run = None
        elif chance < 0.2:
            self.story[-1] += ", and sleeps past its lease"
            worker.paused_until = self.lab.later(seconds=LEASE_MS / 1000 + self.rng.choice([1, 30]))

    def _end(self, worker: SimWorker) -> None:
        run = worker.run
        assert run is not None
        worker.run = None  # whatever happens to the commit, this worker does not know
        try:
            if self.faults and self.rng.random() < self.shape.flaky.get(run.slug, 0):
                self.story[-1] += f" fails {run.slug}"
                self.lab.fail(run)
            else:
                self.story[-1] += f" finishes {run.slug} attempt {run.attempt}"
                self.lab.store.publish_run(run, self._outputs(run))
        except FencedError:
            self.story[-1] += " (fenced)"
            assert self._attempt(run) != (run.attempt, "running"), "fenced, although it owns the run"

    def _attempt(self, run: ClaimedRun) -> tuple[int, str]:
        row = self.lab.rows("SELECT attempt, status FROM runs WHERE id = %s", run.id)[0]
        return row["attempt"], row["status"]

    def _outputs(self, run: ClaimedRun) -> list[StagedOutput]:
        read = {pin.asset_id: pin.data_version for pin in run.inputs.values() if pin.asset_id != run.slug}
        digest = hashlib.sha256(repr((run.slug, sorted(read.items()))).encode()).digest()
        content = digest[0] % 2 if run.slug in self.shape.coarse else digest.hex()[:8]
        definition = Workflow.model_validate(run.definition)
        return [StagedOutput(asset, step, f"{asset}:{content}") for asset, (step, _) in produced(definition).items()]

    def _heartbeat(self) -> None:
        awake = [w for w in self.workers if w.run and w.paused_until <= self.lab.now]
        held = [{"id": w.run.id, "attempt": w.run.attempt} for w in awake if w.run]
        if held:
            kept = self.lab.store.renew_leases(held)
            for worker in awake:
                if worker.run and worker.run.id not in kept:
                    worker.run = None

    def _tick(self) -> None:
        self.lab.advance(seconds=self.rng.choice([0.1, 1, 3, 10, 25]))

    def _store(self) -> None:
        self.lab.apply(*self.shape.workflows, sources=tuple(self.shape.sources))

    def _apply(self) -> None:
        changed = self.rng.randrange(len(self.shape.workflows))
        slug = self.shape.workflows[changed]["slug"]
        edited = _workflow(self.rng, slug, self.shape.inputs[slug])
        edited["steps"][0]["job"]["entrypoint"] = f"jobs:work{self.rng.randint(1, 3)}"
        workflows = [*self.shape.workflows[:changed], edited, *self.shape.workflows[changed + 1 :]]
        self.shape.workflows = workflows
        self._store()

    def _pause_workflow(self) -> None:
        until = self.rng.choice([None, self.lab.later(seconds=30)])
        self.lab.store.pause(self._slug(), until)

    def _resume_workflow(self) -> None:
        self.lab.store.resume(self._slug())

    def _cancel(self) -> None:
        active = self.lab.rows("SELECT id::text FROM runs WHERE status IN ('queued', 'running') ORDER BY id")
        if active:
            self.lab.store.cancel(self.rng.choice(active)["id"])

    def _manual(self) -> None:
        slug = self._slug()
        ready = self.lab.one(
            "SELECT count(*) = count(h.asset_id) FROM edges e JOIN workflows w ON w.id = e.workflow_id"
            " LEFT JOIN heads h ON h.asset_id = e.asset_id WHERE w.slug = %s",
            slug,
        )
        if ready:
            self.lab.store.request_run(slug)

    def _check(self) -> None:
        """Safety, after every step."""
        assert self.lab.forgotten() == 0, "a stale workflow that nothing will look at (R4.1)"
        doubled = self.lab.rows(
            "SELECT workflow_id FROM runs WHERE status IN ('queued', 'running') AND trigger_type = 'auto-materialize'"
            " GROUP BY workflow_id HAVING count(*) > 1"
        )
        assert not doubled, "two active automatic runs of one workflow (promise 2)"
        stale = self.lab.rows(
            "SELECT s.asset_id FROM snapshots s JOIN runs r ON r.id = s.run_id"
            " WHERE s.attempt <> r.attempt OR r.status <> 'succeeded'"
        )
        assert not stale, f"published by an attempt that had lost its run (promise 6): {stale}"
        self._check_cooldowns()
        self._check_generations()

    def _check_cooldowns(self) -> None:
        early = self.lab.rows(
            "SELECT w.slug FROM runs r JOIN workflows w ON w.id = r.workflow_id"
            " JOIN workflow_partitions p ON p.workflow_id = r.workflow_id"
            " WHERE r.trigger_type = 'auto-materialize' AND r.queued_at > p.failed_at AND r.queued_at < p.eligible_at"
        )
        assert not early, f"queued inside a cooldown (promise 5): {early}"

    def _check_generations(self) -> None:
        """An automatic run that does not say `mixed` reads one generation of every source (promise 3)."""
        mixes = self.lab.rows(
            """
            SELECT w.slug, r.id::text, s.key AS source, array_agg(DISTINCT s.value ->> 'sequence') AS generations
              FROM runs r JOIN workflows w ON w.id = r.workflow_id,
                   jsonb_each(r.pins) p (asset_id, pin),
                   LATERAL (SELECT x.key, x.value FROM snapshots n, jsonb_each(
                        n.sources || CASE WHEN n.run_id IS NULL
                                          THEN jsonb_build_object(n.asset_id, p.pin) ELSE '{}' END) x
                        WHERE n.asset_id = p.asset_id AND n.sequence = (p.pin ->> 'sequence')::bigint) s
             WHERE r.trigger_type = 'auto-materialize' AND NOT r.mixed AND r.status = 'queued'
             GROUP BY w.slug, r.id, s.key
            HAVING count(DISTINCT s.value ->> 'dataVersion') > 1
            """
        )
        real = [mix for mix in mixes if self._is_mix(mix["id"])]
        assert not real, f"a run that would read a mix without saying so (promise 3): {real}"

    def _is_mix(self, run_id: str) -> bool:
        """Whether no history explains what the run reads: early cutoff leaves old generations with current content."""
        ways: Ways = defaultdict(list)
        for row in self.lab.rows("SELECT asset_id, data_version, inputs FROM snapshots WHERE run_id IS NOT NULL"):
            ways[row["asset_id"], row["data_version"]].append(_versions(row["inputs"]))
        pins = self.lab.one("SELECT pins FROM runs WHERE id = %s", run_id)
        return not _explained(_versions(pins), ways, [*reversed(self.shape.inputs)])

    def _converge(self) -> None:
        """Faults stop: everything is free again by itself, and every asset comes from current data (promises 1, 9)."""
        self.faults = False
        for worker in self.workers:
            worker.run = None
        self.lab.advance(seconds=LEASE_MS / 1000 + 1)
        self.lab.store.rescue(100)  # runs that were canceled while their worker slept end here
        for slug in self.shape.inputs:
            self.lab.store.resume(slug)
            self.lab.store.reset(slug)
        for source in self.shape.sources:
            if not self.lab.rows("SELECT 1 FROM heads WHERE asset_id = %s", source):
                self.lab.report(source)
        for _ in range(40):
            self.lab.advance(seconds=LEASE_MS / 1000 + 1)
            self.lab.store.rescue(100)
            self.lab.work_with(self._outputs)
        self._check_converged()

    def _check_converged(self) -> None:
        assert not self.lab.rows("SELECT 1 FROM runs WHERE status = 'running'"), "a claim is stuck (promise 9)"
        assert not self.lab.rows("SELECT 1 FROM inbox"), "events were not absorbed"
        behind = self.lab.rows(
            "SELECT w.slug, e.asset_id FROM edges e JOIN workflows w ON w.id = e.workflow_id"
            " JOIN heads h ON h.asset_id = e.asset_id"
            " LEFT JOIN workflow_partitions p ON p.workflow_id = e.workflow_id"
            " WHERE w.policy ->> 'when' = 'any'"
            " AND h.data_version IS DISTINCT FROM p.vector -> e.asset_id ->> 'dataVersion'"
        )
        assert not behind, f"not computed from the current versions (promise 1): {behind}"


def _versions(pins: dict[str, Any]) -> dict[str, str]:
    return {asset_id: pin["dataVersion"] for asset_id, pin in pins.items()}


def _explained(read: dict[str, str], ways: Ways, downwards: list[str]) -> bool:
    """Whether every asset on the way up can be at one data version; equal content may come about in several ways."""
    for place, asset_id in enumerate(downwards):
        if asset_id in read:
            above = downwards[place + 1 :]
            return any(
                _explained({**read, **inputs}, ways, above)
                for inputs in ways[asset_id, read[asset_id]]
                if all(read.get(upper, version) == version for upper, version in inputs.items())
            )
    return True


def _crash() -> None:
    raise FailpointError("the process dies here")


def reset(lab: Lab) -> None:
    """An empty installation again."""
    with lab.database.connection() as connection:
        connection.execute(f"TRUNCATE {TABLES} RESTART IDENTITY CASCADE")
        connection.execute("UPDATE installation SET epoch = epoch + 1")
