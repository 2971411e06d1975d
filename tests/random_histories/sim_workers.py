"""Run workers that take time, die, sleep longer than their leases, hand runs back, and see cancellations."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from freshline.definitions.schema.workflow import Workflow
from freshline.definitions.steps import produced
from freshline.errors import ConflictError, FencedError
from freshline.model.run import ClaimedRun, StagedOutput
from freshline.store.db.ids import new_id
from tests.random_histories.heads import content
from tests.random_histories.histories import Shape, entrypoint
from tests.random_histories.increments import Increments
from tests.random_histories.notifications import Sleeper
from tests.store_harness import Lab

LEASE_MS = 20_000
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(eq=False)
class Worker:
    """A run worker. Until `asleep_until` it sleeps with its run, longer than its lease."""

    id: str
    loop: Sleeper
    run: ClaimedRun | None = None
    ends_at: datetime = NEVER
    asleep_until: datetime = NEVER


@dataclass
class Crew:
    """All run workers of a history. `log` adds a text to the current step."""

    lab: Lab
    rng: random.Random
    shape: Shape
    log: Callable[[str], None]
    increments: Increments = field(init=False)
    workers: list[Worker] = field(default_factory=list)
    faults: bool = True
    _made: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.increments = Increments(self.lab)

    def hire(self, count: int, poll: timedelta) -> None:
        """Add workers, which try to claim a run at once."""
        for _ in range(count):
            worker = Worker(new_id(), Sleeper("worker", lambda: False, poll, self.lab.now))
            worker.loop.run_once = self._round_of(worker)
            self.workers.append(worker)

    def _round_of(self, worker: Worker) -> Callable[[], bool]:
        return lambda: self._run_once(worker)

    def _run_once(self, worker: Worker) -> bool:
        """Claim a run, or end the one that is done. Return True if there may be more to do now."""
        if worker.asleep_until > self.lab.now:
            worker.loop.due = worker.asleep_until
            return False
        if worker.run is None:
            return self._claim(worker)
        if worker.ends_at <= self.lab.now:
            self._end(worker, worker.run)
            return True
        worker.loop.due = worker.ends_at
        return False

    def _claim(self, worker: Worker) -> bool:
        worker.run = self.lab.store.runs.claim(self.lab.claimant(worker.id))
        if worker.run is None:
            return False
        self.log(f"starts {worker.run.slug} attempt {worker.run.attempt}")
        self.increments.claimed(worker.run)
        worker.ends_at = self.lab.later(seconds=self.rng.choice([0, 0, 2, 8]) if self.faults else 0)
        worker.loop.due = worker.ends_at
        if self.faults:
            self._maybe_lose(worker)
        return worker.ends_at <= self.lab.now

    def _maybe_lose(self, worker: Worker) -> None:
        chance = self.rng.random()
        if chance < 0.08:
            self.log("and dies")
            worker.run = None
        elif chance < 0.2:
            self.log("and sleeps past its lease")
            worker.asleep_until = self.lab.later(seconds=LEASE_MS / 1000 + self.rng.choice([1, 30]))

    def _end(self, worker: Worker, run: ClaimedRun) -> None:
        worker.run = None  # whether or not the commit succeeds, the worker no longer holds the run
        try:
            self._finish(run)
        except FencedError:
            self.log("(fenced)")
            assert self._owner(run) != (run.attempt, "running"), "fenced, although it owns the run"

    def _finish(self, run: ClaimedRun) -> None:
        chance = self.rng.random() if self.faults else 1.0
        if chance < self.shape.flaky.get(run.slug, 0):
            self.log(f"fails {run.slug}")
            self.lab.fail(run)
        elif chance > 0.97 and self.faults:
            self.log(f"hands {run.slug} back")
            self.lab.store.runs.hand_back(run.id, run.attempt)
        else:
            self.log(f"finishes {run.slug} attempt {run.attempt}")
            self.increments.note(run)
            self._publish(run)

    def _publish(self, run: ClaimedRun) -> None:
        """Publish; fail a run whose increment was added to a head that has moved (docs/semantics.md#R9.5)."""
        try:
            self.lab.store.runs.publish(run, self._outputs(run))
        except ConflictError:
            self.log("(its head has moved)")
            self.lab.fail(run)

    def heartbeat(self) -> None:
        """Renew the leases of workers that are awake; drop lost runs, and end canceled ones."""
        awake = [(w, w.run) for w in self.workers if w.run and w.asleep_until <= self.lab.now]
        if not awake:
            return
        kept = self.lab.store.runs.renew_leases([{"id": run.id, "attempt": run.attempt} for _, run in awake])
        for worker, run in awake:
            if kept.get((run.id, run.attempt)) is not False:
                worker.run = None
            if kept.get((run.id, run.attempt)):
                self.log(f"ends canceled {run.slug}")
                self.lab.store.runs.cancel(run.id, run.attempt)

    def leave(self) -> None:
        """Kill all workers and replace them: leases expire, and nobody ends the runs."""
        for worker in self.workers:
            worker.run, worker.asleep_until = None, NEVER

    def _owner(self, run: ClaimedRun) -> tuple[int, str]:
        row = self.lab.rows("SELECT attempt, status FROM runs WHERE id = %s", run.id)[0]
        return row["attempt"], row["status"]

    def _outputs(self, run: ClaimedRun) -> list[StagedOutput]:
        """Return outputs whose content depends on the job and the inputs; without inputs it is new each time."""
        made = produced(Workflow.model_validate(run.definition))
        read = [(pin.asset_id, pin.data_version) for pin in run.inputs.values() if pin.asset_id not in made]
        job = entrypoint(run.definition)
        if not read and self.faults:
            job += f" {next(self._made)}"
        return [
            StagedOutput(
                asset_id,
                step,
                content(asset_id, job, read, coarse=asset_id in self.shape.coarse),
                based_on=_based_on(run, asset_id),
            )
            for asset_id, (step, _) in made.items()
        ]


def _based_on(run: ClaimedRun, asset_id: str) -> int | None:
    """Return the head to which the run adds what was delivered since; None for other runs."""
    if not any(pinned.deliveries for pinned in run.inputs.values()):
        return None
    head = run.inputs.get(asset_id)
    return head.sequence if head else 0
