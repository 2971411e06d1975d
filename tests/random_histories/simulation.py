"""A deterministic simulation: the real services and the real store, whole transactions as steps, a seeded scheduler.

There are several materializers and workers, crashes before and after every commit, lost, late and doubled
notifications, pauses longer than leases, clock jumps, and changes of definitions. Every second history has append
sources: files appear in watched directories, and deliveries are reported, skipped and joined. In every second history
changes come as a storm: workflows leave, come back, get other names and take over assets while runs are queued and
running. Safety is checked after every step. Then faults and notifications stop, and the system must converge by polling
alone. A seed determines the history.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from unittest import mock

from psycopg._preparing import PrepareManager

from freshline import failpoints
from freshline.errors import KeyReusedError
from freshline.failpoints import FailpointError
from tests.random_histories.histories import Shape, add_deliveries, outputs, random_shape
from tests.random_histories.invariants import Invariants
from tests.random_histories.notifications import Notifications, Process, Sleeper
from tests.random_histories.redefinitions import change
from tests.random_histories.sim_watchers import Directories
from tests.random_histories.sim_workers import LEASE_MS, Crew
from tests.store_harness import Lab

STEPS = (40, 80, 80, 160)
CRASHES = 0.1
WARM = 0.8
OFTEN = {"worker": 5, "reconciler": 4, "absorber": 4, "expiry": 2}  # the others rarely have something to do
MOST_ROUNDS = 80
ROUND = timedelta(milliseconds=LEASE_MS + 1_000)
TABLES = (
    "heads snapshots timers table_commits edges inbox considerations decisions run_logs run_steps runs events"
    " workflow_partitions workflow_versions pools assets workflows projects workers audit"
    " deliveries watches watched_files"
)
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
    storms: bool = True  # allow changes that give assets to other workflows
    rng: random.Random = field(init=False)
    shape: Shape = field(init=False)
    crew: Crew = field(init=False)
    outside: Directories = field(init=False)
    processes: list[Process] = field(init=False)
    notifications: Notifications = field(init=False)
    invariants: Invariants = field(init=False)
    story: list[str] = field(default_factory=list)
    storm: bool = field(init=False)
    counts: Counter[str] = field(default_factory=Counter)  # steps by name, and crashes

    def __post_init__(self) -> None:
        random.seed(self.seed)  # the jitter of cooldowns
        self.rng = rng = random.Random(self.seed)  # noqa: S311 - the seed determines the history
        self.shape = random_shape(rng)
        add_deliveries(random.Random(f"{self.seed} deliveries"), self.shape)  # noqa: S311 - as above
        self.outside = Directories(self.lab, rng, self.shape, self._log)
        self.storm = self.storms and rng.random() < 0.5
        poll = timedelta(seconds=rng.choice([0.5, 5, 30]))
        self.processes = [
            Process(self.lab, number, rng.choice([1, 2, 100]), poll, self.outside)
            for number in range(rng.randint(1, 3))
        ]
        self.crew = Crew(self.lab, rng, self.shape, self._log)
        self.crew.hire(rng.randint(1, 3), poll)
        self.notifications = Notifications(self.lab, rng, self._sleepers)
        self.invariants = Invariants(self.lab, self.shape, self.outside, self.crew.increments)

    def run(self) -> None:
        """Run the whole history; an AssertionError names the seed and the last steps, whatever went wrong."""
        try:
            with self.notifications.installed():
                self._live()
                self._converge()
            self.invariants.at_the_end()
        except Exception as error:
            last = "\n".join(self.story[-40:])
            replay = f"make sim SEED={self.seed} SEEDS=1"
            raise AssertionError(
                f"seed {self.seed}: {_said(error)}\nreplay: {replay}\nthe last steps:\n{last}"
            ) from error

    def _log(self, words: str) -> None:
        self.story[-1] += f" {words}"

    # Faults.

    def _live(self) -> None:
        self._begin("apply")
        self.shape.apply(self.lab)
        self._applied(baseline=False)
        if self.rng.random() < WARM:
            self._warm_up()
        outside = self._outside()
        for _ in range(self.rng.choice(STEPS)):
            awake = [one for one in self._sleepers() if one.due <= self.lab.now]
            names, weights = list(outside), [weight for weight, _ in outside.values()]
            name = self.rng.choices(["round", *names], [60 if awake else 0, *weights])[0]
            if name == "round":
                self._round(self.rng.choices(awake, [OFTEN.get(one.name, 1) for one in awake])[0])
            else:
                self._begin(name)
                self._crashing(outside[name][1])
            self._check()

    def _warm_up(self) -> None:
        """Begin with data: without it most redefinitions concern workflows that never ran."""
        for source in self.shape.sources:
            self.lab.report(source)
        self.crew.faults = self.outside.faults = False
        for _ in range(3):
            self._begin("round")
            self._poll()
        self.crew.faults = self.outside.faults = True

    def _outside(self) -> dict[str, tuple[int, Callable[[], object]]]:
        """Return the actions that are not rounds of a service, with their weights."""
        store = self.lab.store
        return {
            "report": (10, self._report),
            "heartbeat": (4, self.crew.heartbeat),
            "clock": (14, self._tick),
            "apply": (8 if self.storm else 2, self._apply),
            "blink": (4 if self.storm else 0, self._blink),
            "pause": (1, self._pause),
            "resume": (2, lambda: store.operations.resume(self._slug())),
            "reset": (1, lambda: store.operations.reset(self._slug())),
            "cancel": (1, self._cancel),
            "manual": (1, self._manual),
            "expire": (1, lambda: store.operations.expire(self._output())),
            **(self._deliveries() if self.shape.appends else {}),
        }

    def _deliveries(self) -> dict[str, tuple[int, Callable[[], object]]]:
        """Return the actions on append sources."""
        watched = bool(self.shape.watched)
        return {
            "drop": (8 if watched else 0, self.outside.drop),
            "rewatch": (1 if watched else 0, self._rewatch),
            "skip": (3, self._skip),
            "compact": (2, lambda: self.lab.store.retention.compact_deliveries(0, 100, chunk=2)),
        }

    def _begin(self, name: str) -> None:
        self.counts[name.split(" of ", maxsplit=1)[0]] += 1
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
        self.counts["crash"] += 1
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

    def _output(self) -> str:
        return self.rng.choice(outputs(self.shape.definitions[self._slug()]))

    # Actions of users and sources.

    def _report(self) -> None:
        orphans = self.shape.orphans() if self.storm else []
        source = self.rng.choice(orphans if orphans and self.rng.random() < 0.2 else self.shape.sources)
        version = self.rng.choice([None, str(self.rng.randint(1, 4))])
        key = self.rng.choice([None, f"k{self.rng.randint(1, 30)}"])
        self._log(f"{source}={version}")
        with suppress(KeyReusedError):  # a producer that reuses a key for other data changes nothing
            self.lab.report(source, version, key=key)

    def _skip(self) -> None:
        """Leave out a delivery, old or new."""
        source = self.rng.choice(self.shape.appends)
        last = self.lab.one("SELECT max(last_number) FROM deliveries WHERE asset_id = %s", source)
        if last:
            number = max(1, last - self.rng.choice([0, 0, 1, 3]))
            self._log(f"{source} {number}")
            self.lab.store.operations.skip_delivery(source, number, "planted")

    def _rewatch(self) -> None:
        """Apply another block, which refuses the looks under way."""
        source = self.rng.choice(sorted(self.shape.watched))

        def edit() -> None:
            self.shape.watched = {**self.shape.watched, source: 25 - self.shape.watched[source]}

        self._log(source)
        self._define(edit)

    def _tick(self) -> None:
        self.lab.advance(seconds=self.rng.choice([0.1, 1, 3, 10, 25]))

    def _apply(self) -> None:
        """Change and apply the definitions; in a storm several at once, and now and then with a baseline."""
        count = self.rng.randint(1, 3) if self.storm else 1
        baseline = self.storm and self.rng.random() < 0.05

        def edit() -> None:
            for _ in range(count):
                self._log(f"{change(self.rng, self.shape, storm=self.storm)};")

        self._define(edit, baseline=baseline)

    def _blink(self) -> None:
        """Remove a workflow, and add it again unchanged at once: its runs may be queued or running."""
        if len(self.shape.retired) + 1 == len(self.shape.definitions):
            return
        slug = self._slug()
        self._log(slug)
        self._define(lambda: self.shape.retired.add(slug))
        if self.rng.random() < 0.3:
            self._log("outside")
            self.lab.report(self.rng.choice(outputs(self.shape.definitions[slug])), f"{self.rng.randint(1, 4)}")
        self._define(lambda: self.shape.retired.discard(slug))

    def _define(self, edit: Callable[[], object], *, baseline: bool = False) -> None:
        """Edit and apply the definitions; if a crash kept them from being stored, restore the previous ones."""
        before, epoch = self.shape.copy(), self._epoch()
        try:
            edit()
            self._log("baseline" if baseline else "")
            self.shape.apply(self.lab, baseline=baseline)
        finally:
            if self._epoch() == epoch:
                self.shape.restore(before)
            else:
                self._applied(baseline=baseline)

    def _applied(self, *, baseline: bool) -> None:
        self.shape.applied()
        self.invariants.heads.applied(baseline=baseline)

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
        self.notifications.muted, self.crew.faults, self.outside.faults = True, False, False
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


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"


def _crash() -> None:
    raise FailpointError("the process dies here")


def reset(lab: Lab) -> None:
    """Empty the installation. TRUNCATE would cost ten times as much, and the plans of all statements."""
    with lab.database.connection() as connection:
        connection.execute("SET session_replication_role = replica")
        for table in TABLES.split():
            connection.execute(f"DELETE FROM {table}")
        connection.execute("RESET session_replication_role")
        connection.execute("UPDATE installation SET epoch = epoch + 1")


@contextmanager
def keeping_plans() -> Iterator[None]:
    """Keep prepared statements over rollbacks, as PostgreSQL does.

    The driver forgets them, because a rollback may undo changes of the schema. Here crashes cause rollbacks all the
    time, no schema changes, and three quarters of the server's time would be spent on planning.
    """
    with mock.patch.object(PrepareManager, "clear", return_value=False):
        yield
