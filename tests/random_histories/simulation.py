"""A deterministic simulation: the real services and the real store, whole transactions as steps, a seeded scheduler.

There are several materializers and workers, crashes before and after every commit, lost, late and doubled
notifications, pauses longer than leases, clock jumps, and changes of definitions. Safety is checked after every step.
Then faults and notifications stop, and the system must converge by polling alone. A seed determines the history.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from freshline import failpoints
from freshline.errors import KeyReusedError
from freshline.failpoints import FailpointError
from tests.random_histories.histories import Shape, change, random_shape
from tests.random_histories.invariants import Invariants
from tests.random_histories.notifications import Notifications, Process, Sleeper
from tests.random_histories.sim_workers import LEASE_MS, Crew
from tests.store_harness import Lab

STEPS = 200
CRASHES = 0.1
MOST_ROUNDS = 80
ROUND = timedelta(milliseconds=LEASE_MS + 1_000)
TABLES = "workflows, projects, assets, runs, events, inbox, decisions, workers"
UNRETIRED = "SELECT slug FROM workflows WHERE retired_at IS NULL"
READY = """
SELECT count(*) = count(h.asset_id) FROM edges e JOIN workflows w ON w.id = e.workflow_id
  LEFT JOIN heads h ON h.asset_id = e.asset_id WHERE w.slug = %s
"""


@dataclass
class Simulation:
    """One random history."""

    lab: Lab
    seed: int
    rng: random.Random = field(init=False)
    shape: Shape = field(init=False)
    crew: Crew = field(init=False)
    processes: list[Process] = field(init=False)
    notifications: Notifications = field(init=False)
    invariants: Invariants = field(init=False)
    story: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        random.seed(self.seed)  # the jitter of cooldowns
        self.rng = rng = random.Random(self.seed)  # noqa: S311 - the seed determines the history
        self.shape = random_shape(rng)
        poll = timedelta(seconds=rng.choice([0.5, 5, 30]))
        self.processes = [
            Process(self.lab, number, rng.choice([1, 2, 100]), poll) for number in range(rng.randint(1, 3))
        ]
        self.crew = Crew(self.lab, rng, self.shape, self._log)
        self.crew.hire(rng.randint(1, 3), poll)
        self.notifications = Notifications(self.lab, rng, self._sleepers)
        self.invariants = Invariants(self.lab, self.shape)

    def run(self) -> None:
        """Run the whole history; an AssertionError names the seed and the last steps."""
        try:
            with self.notifications.installed():
                self._live()
                self._converge()
            self.invariants.at_the_end()
        except AssertionError as error:
            last = "\n".join(self.story[-40:])
            replay = f"make sim SEED={self.seed} SEEDS=1"
            raise AssertionError(f"seed {self.seed}: {error}\nreplay: {replay}\nthe last steps:\n{last}") from error

    def _log(self, words: str) -> None:
        self.story[-1] += f" {words}"

    # Faults.

    def _live(self) -> None:
        self._begin("apply")
        self.shape.apply(self.lab)
        outside = self._outside()
        for _ in range(STEPS):
            awake = [one for one in self._sleepers() if one.due <= self.lab.now]
            names, weights = list(outside), [weight for weight, _ in outside.values()]
            name = self.rng.choices(["round", *names], [60 if awake else 0, *weights])[0]
            if name == "round":
                self._round(self.rng.choice(awake))
            else:
                self._begin(name)
                self._crashing(outside[name][1])
            self._check()

    def _outside(self) -> dict[str, tuple[int, Callable[[], object]]]:
        """Return the actions that are not rounds of a service, with their weights."""
        store = self.lab.store
        return {
            "report": (10, self._report),
            "heartbeat": (8, self.crew.heartbeat),
            "clock": (14, self._tick),
            "apply": (2, self._apply),
            "pause": (1, self._pause),
            "resume": (2, lambda: store.operations.resume(self._slug())),
            "reset": (1, lambda: store.operations.reset(self._slug())),
            "cancel": (1, self._cancel),
            "manual": (1, self._manual),
            "expire": (1, lambda: store.operations.expire(self._slug())),
        }

    def _begin(self, name: str) -> None:
        self.story.append(f"{self.lab.now:%H:%M:%S} {name}")

    def _round(self, sleeper: Sleeper) -> None:
        """Run one round of a service or worker; a crash ends its process, and a new one starts."""
        process = next((one for one in self.processes if sleeper in one.loops), None)
        self._begin(f"{sleeper.name}{f' of {process.number}' if process else ''}")
        if self._crashing(lambda: sleeper.round(self.lab.now)) and process:
            process.start(self.lab.later(seconds=self.rng.choice([0, 3])))

    def _crashing(self, action: Callable[[], object]) -> bool:
        """Return whether it crashed, before or after the commit."""
        if self.rng.random() >= CRASHES:
            action()
            return False
        side = self.rng.choice(["before", "after"])
        self._log(f"(crash {side} commit)")
        with failpoints.armed_all(side, _crash), suppress(FailpointError):
            action()
            return False
        return True

    def _check(self) -> None:
        """Check safety after a step."""
        self.invariants.after_step()

    def _sleepers(self) -> list[Sleeper]:
        return [*(loop for one in self.processes for loop in one.loops), *(one.loop for one in self.crew.workers)]

    def _slug(self) -> str:
        return self.shape.active(self.rng)

    # Actions of users and sources.

    def _report(self) -> None:
        source = self.rng.choice(self.shape.sources)
        version = self.rng.choice([None, str(self.rng.randint(1, 4))])
        key = self.rng.choice([None, f"k{self.rng.randint(1, 30)}"])
        self._log(f"{source}={version}")
        with suppress(KeyReusedError):  # a producer that reuses a key for other data changes nothing
            self.lab.report(source, version, key=key)

    def _tick(self) -> None:
        self.lab.advance(seconds=self.rng.choice([0.1, 1, 3, 10, 25]))

    def _apply(self) -> None:
        """Change and apply the definitions; if a crash kept them from being stored, restore the previous ones."""
        before, epoch = self.shape.copy(), self._epoch()
        try:
            self._log(change(self.rng, self.shape))
            self.shape.apply(self.lab)
        finally:
            if self._epoch() == epoch:
                self.shape.restore(before)

    def _epoch(self) -> int:
        found: int = self.lab.one("SELECT epoch FROM installation")
        return found

    def _pause(self) -> None:
        slug, until = self._slug(), self.rng.choice([None, self.lab.later(seconds=30)])
        self._log(slug)
        self.lab.store.operations.pause(slug, until)

    def _cancel(self) -> None:
        active = self.lab.rows("SELECT id::text FROM runs WHERE status IN ('queued', 'running') ORDER BY id")
        if active:
            self.lab.store.operations.cancel(self.rng.choice(active)["id"])

    def _manual(self) -> None:
        slug = self._slug()
        if self.lab.one(READY, slug):
            self._log(slug)
            self.lab.store.operations.request_run(slug)

    # Convergence.

    def _converge(self) -> None:
        """Stop the faults and the notifications; the system must recover and become current by polling alone."""
        self.notifications.muted, self.crew.faults = True, False
        self.crew.leave()
        self._begin("faults stop")
        self.lab.now += ROUND
        self.lab.store.runs.rescue(100)  # ends runs that were canceled while their worker slept
        self._undo()
        for _ in range(MOST_ROUNDS):
            self.lab.now += ROUND
            self._begin("round")
            self._poll()
            unsettled = self.invariants.unsettled()
            if not unsettled:
                return
        raise AssertionError(f"after {MOST_ROUNDS * ROUND} of polls: {unsettled}")

    def _undo(self) -> None:
        """Undo pauses and cancellations, which hold workflows back until a user acts."""
        for row in self.lab.rows(f"{UNRETIRED} AND paused_at IS NOT NULL AND paused_until IS NULL"):
            self.lab.store.operations.resume(row["slug"])
        canceled = "SELECT workflow_id FROM workflow_partitions WHERE canceled IS NOT NULL"
        for row in self.lab.rows(f"{UNRETIRED} AND id IN ({canceled})"):
            self.lab.store.operations.reset(row["slug"])
        for source in self.shape.sources:
            if not self.lab.rows("SELECT 1 FROM heads WHERE asset_id = %s", source):
                self.lab.report(source)

    def _poll(self) -> None:
        """Run the services of one process and then all workers once; check safety after each."""
        for sleepers in (self.rng.choice(self.processes).loops, [one.loop for one in self.crew.workers]):
            for sleeper in sleepers:
                while sleeper.run_once():
                    pass
            self._check()


def _crash() -> None:
    raise FailpointError("the process dies here")


def reset(lab: Lab) -> None:
    """Empty the installation."""
    with lab.database.connection() as connection:
        connection.execute(f"TRUNCATE {TABLES} RESTART IDENTITY CASCADE")
        connection.execute("UPDATE installation SET epoch = epoch + 1")
