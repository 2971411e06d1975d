"""Processes that sleep until they are rung or their poll is due, and doorbells that get lost, come late or twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from unittest import mock

from freshline.services.event_sequencer import EventSequencer
from freshline.services.expiry import Expiry
from freshline.services.inbox_consumer import InboxConsumer
from freshline.services.reconciler import Reconciler
from freshline.services.rescuer import Rescuer
from freshline.store.store import Store
from tests.store_harness import Lab

# Who hears which bell; the rescuer and the relay only poll.
HEARS = {"absorber": "events", "reconciler": "considerations", "expiry": "timers", "worker": "runs"}
LOST, LATE, TWICE = 0.25, 0.15, 0.1


@dataclass(eq=False)
class Sleeper:
    """One loop of one process: `look` does a round, and says whether there may be more to do at once."""

    name: str
    look: Callable[[], bool]
    poll: timedelta
    due: datetime
    rings: int = 0  # rings that it has heard and not served yet

    def round(self, now: datetime) -> None:
        """Look, then sleep; a ring during the round, or a second one before it, means another round."""
        self.rings = max(0, self.rings - 1)
        self.due = now + self.poll  # also if this round is the process's last
        if self.look() or self.rings:
            self.due = min(self.due, now)


@dataclass(eq=False)
class Process:
    """A materializer: its services, and a store of its own, so that what it has cached is its own too."""

    lab: Lab
    number: int
    batch: int
    poll: timedelta
    loops: list[Sleeper] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start(self.lab.now)

    def start(self, when: datetime) -> None:
        """Start a new process: it keeps nothing of the previous one, and runs every service once."""
        store = Store(self.lab.database, replace(self.lab.settings, batch=self.batch))
        services = (InboxConsumer(store), Reconciler(store), Expiry(store), Rescuer(store), EventSequencer(store))
        self.loops[:] = [Sleeper(one.name, one.run_once, self.poll, when) for one in services]


@dataclass
class Doorbells:
    """Stands where PostgreSQL would notify: decides for each ring and each listener what becomes of it."""

    lab: Lab
    rng: random.Random
    listeners: Callable[[], Sequence[Sleeper]]
    deaf: bool = False

    @contextmanager
    def hung(self) -> Iterator[None]:
        """While they hang there, every ring of the store and of the services comes here."""
        with mock.patch.object(self.lab.database, "notify", self.ring):
            yield

    def ring(self, *bells: str) -> None:
        """Any number of rings before the next round are one; a lost one only means a later poll."""
        for sleeper in self.listeners():
            if HEARS.get(sleeper.name) in bells and not self.deaf:
                self._reach(sleeper)

    def _reach(self, sleeper: Sleeper) -> None:
        fate = self.rng.random()
        if fate < LOST:
            return
        delay = self.rng.choice([1, 4]) if fate < LOST + LATE else 0
        sleeper.rings += 1 if 1 - fate < TWICE else 0
        sleeper.due = min(sleeper.due, self.lab.later(seconds=delay))
