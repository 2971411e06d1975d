"""Processes that sleep until a notification or their poll, and notifications that may be lost, late or doubled."""

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
from tests.random_histories.sim_watchers import Directories, Looker
from tests.store_harness import Lab

# The channel of each service, by the name in its logs; the rescuer and the event sequencer only poll.
LISTENS = {"absorber": "events", "reconciler": "considerations", "expiry": "timers", "worker": "runs"}
LOST, LATE, TWICE = 0.25, 0.15, 0.1


@dataclass(eq=False)
class Sleeper:
    """One loop of one process: `run_once` does a round, and returns whether there may be more to do at once."""

    name: str
    run_once: Callable[[], bool]
    poll: timedelta
    due: datetime
    pending: int = 0  # notifications that no round has served yet

    def round(self, now: datetime) -> None:
        """Run once, then sleep; a notification during the round, or a second one before it, causes another round."""
        self.pending = max(0, self.pending - 1)
        self.due = now + self.poll  # also if this round is the process's last
        if self.run_once() or self.pending:
            self.due = min(self.due, now)


@dataclass(eq=False)
class Process:
    """A materializer: its services, with a separate store, so that processes share no cache."""

    lab: Lab
    number: int
    batch: int
    poll: timedelta
    outside: Directories
    loops: list[Sleeper] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start(self.lab.now)

    def start(self, when: datetime) -> None:
        """Start a new process: it keeps nothing of the previous one, and runs every service once."""
        store = Store(self.lab.database, replace(self.lab.settings, batch=self.batch))
        services = (InboxConsumer(store), Reconciler(store), Expiry(store), Rescuer(store), EventSequencer(store))
        self.loops[:] = [Sleeper(one.name, one.run_once, self.poll, when) for one in services]
        if self.outside.files:
            # First: a report after the reconciler's round would move heads between a pin and its check.
            self.loops.insert(0, Sleeper("watcher", Looker(self.outside, store).run_once, self.poll, when))


@dataclass
class Notifications:
    """A replacement for NOTIFY that decides for each notification and each listener whether and when it arrives."""

    lab: Lab
    rng: random.Random
    listeners: Callable[[], Sequence[Sleeper]]
    muted: bool = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Receive every notification of the store and of the services while the block lasts."""
        with mock.patch.object(self.lab.database, "notify", self.notify):
            yield

    def notify(self, *channels: str) -> None:
        """Wake the listeners. Notifications before a round are merged; a lost one delays work until the next poll."""
        for sleeper in self.listeners():
            if LISTENS.get(sleeper.name) in channels and not self.muted:
                self._reach(sleeper)

    def _reach(self, sleeper: Sleeper) -> None:
        luck = self.rng.random()
        if luck < LOST:
            return
        delay = self.rng.choice([1, 4]) if luck < LOST + LATE else 0
        sleeper.pending += 1 if 1 - luck < TWICE else 0
        sleeper.due = min(sleeper.due, self.lab.later(seconds=delay))
