"""Transactions in threads, stepped statement by statement, to run all interleavings and not just likely ones.

A step ends before the next statement or commit. pg_blocking_pids tells whether a thread waits for a lock.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from freshline import failpoints
from freshline.store.db import database
from tests.store_harness import Lab, laboratory

TIMEOUT_S = 30.0
POLL_S = 0.002
SERVER_TIMEOUTS = ("lock_timeout", "idle_in_transaction_session_timeout")
Act = Callable[[], Any]
_execute = psycopg.Connection.execute


class Actor:
    """One act in a thread that stops before each of its statements."""

    def __init__(self, name: str, act: Act) -> None:
        self.name = name
        self.error: Exception | None = None
        self.result: Any = None
        self.pid = 0
        self.state = "running"
        self._act = act
        self._go = threading.Semaphore(0)
        self._reports: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"actor-{name}", daemon=True)

    def start(self) -> None:
        """Run up to the first statement."""
        actors[self._thread] = self
        self._thread.start()

    def go(self) -> None:
        """Run up to the next statement."""
        self.state = "running"
        self._go.release()

    def stop_here(self, connection: Any) -> None:
        """Wait for permission to go on; the thread itself calls this before each statement."""
        self.pid = connection.info.backend_pid
        self._reports.put("ready")
        assert self._go.acquire(timeout=TIMEOUT_S), "nobody lets it go on"

    def settle(self, blocked: Callable[[int], bool]) -> None:
        """Wait until it stops: before its next statement, at another session's lock, or because it is done."""
        for _ in range(int(TIMEOUT_S / POLL_S)):
            try:
                self.state = self._reports.get(timeout=POLL_S)
            except queue.Empty:
                if self.pid and blocked(self.pid) and self._reports.empty():
                    self.state = "blocked"
                    return
            else:
                return
        raise AssertionError(f"{self.name} neither goes on nor waits for a lock")

    def _run(self) -> None:
        try:
            self.result = self._act()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        finally:
            actors.pop(self._thread, None)
            self._reports.put("done")


actors: dict[threading.Thread, Actor] = {}


@dataclass(slots=True)
class Trace:
    """A schedule that was run: whose turn it was at each step, and whose it could have been."""

    actors: Sequence[Actor]
    turns: list[int] = field(default_factory=list)
    choices: list[tuple[int, ...]] = field(default_factory=list)
    waits: int = 0

    def __str__(self) -> str:
        return " ".join(f"{self.actors[turn].name}" for turn in self.turns)

    def switches(self, turns: Sequence[int]) -> int:
        """Return how often the turn passed on although the actor could have gone on."""
        pairs = zip(turns, turns[1:], self.choices[1:], strict=False)
        return sum(one != two and one in choice for one, two, choice in pairs)


class Stage:
    """Runs schedules on one lab."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._observer = psycopg.connect(lab.database.url, autocommit=True)

    def close(self) -> None:
        """Close the connection that watches for locks."""
        self._observer.close()

    def play(self, acts: dict[str, Act], prefix: Sequence[int]) -> Trace:
        """Run the acts with these turns first; then let each act go on for as long as possible."""
        trace = Trace([Actor(name, act) for name, act in acts.items()])
        for actor in trace.actors:
            actor.start()
            actor.settle(self._blocked)
        while not all(actor.state == "done" for actor in trace.actors):
            self._turn(trace, prefix)
        return trace

    def _turn(self, trace: Trace, prefix: Sequence[int]) -> None:
        for actor in trace.actors:
            if actor.state == "blocked":
                actor.settle(self._blocked)
        choice = tuple(number for number, actor in enumerate(trace.actors) if actor.state == "ready")
        if not choice:
            return  # a deadlock, which the server will resolve
        wanted = prefix[len(trace.turns)] if len(trace.turns) < len(prefix) else trace.turns[-1] if trace.turns else 0
        turn = wanted if wanted in choice else choice[0]
        trace.turns.append(turn)
        trace.choices.append(choice)
        actor = trace.actors[turn]
        actor.go()
        actor.settle(self._blocked)
        trace.waits += actor.state == "blocked"

    def _blocked(self, pid: int) -> bool:
        row = self._observer.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [pid]).fetchone()
        return bool(row and row[0])

    def explore(self, acts: dict[str, Act], *, switches: int, before: Callable[[], None], most: int) -> Iterator[Trace]:
        """Yield every schedule with up to `switches` switches, at most `most` of them; `before` restores the state."""
        waiting: list[tuple[int, ...]] = [()]
        for _ in range(most):
            if not waiting:
                return
            prefix = waiting.pop(0)
            before()
            trace = self.play(acts, prefix)
            yield trace
            for position in range(len(prefix), len(trace.turns)):
                for other in trace.choices[position]:
                    turns = (*trace.turns[:position], other)
                    if other != trace.turns[position] and trace.switches(turns) <= switches:
                        waiting.append(turns)
        raise AssertionError(f"more than {most} schedules")


@contextmanager
def stepped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the statements and commits of actors wait for their turn."""

    def pause(connection: Any) -> None:
        actor = actors.get(threading.current_thread())
        if actor is not None:
            actor.stop_here(connection)

    def execute(self: Any, *arguments: Any, **options: Any) -> Any:
        pause(self)
        return _execute(self, *arguments, **options)

    with monkeypatch.context() as patch, failpoints.armed_with("*:before", pause):
        patch.setattr(psycopg.Connection, "execute", execute)
        yield


@contextmanager
def long_timeout_laboratory(url: str) -> Iterator[Lab]:
    """Yield a lab that detects deadlocks at once, and whose lock and transaction timeouts fit a busy machine."""
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET deadlock_timeout = '20ms'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "SESSION", database.SESSION | dict.fromkeys(SERVER_TIMEOUTS, "60s"))
        with laboratory(url) as lab:
            lab.database.notify = _silence  # type: ignore[method-assign]
            yield lab


def _silence(*_: str) -> None:
    """Send no notification: the schedules do not contain NOTIFY statements."""
