"""Looks at sources that have a watch, and reports what is new.

Each look runs in a thread of its own; only this service writes. A look that takes longer than its timeout is abandoned:
it counts as failed, and this process does not look at that source again while the thread lives, so that a source that
hangs delays no other. It does not promise a look at an exact time: an overloaded process looks later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

import psycopg
import structlog

from freshline.counters import count, observe
from freshline.definitions.schema.watch import KINDS, watch_of
from freshline.duration import as_text
from freshline.errors import ConflictError, DatabaseError, FencedError, FreshlineError
from freshline.model.watch import Look, identity, path_key
from freshline.partitions import document
from freshline.services.due_service import DueService
from freshline.services.file_notifications import FileNotifications
from freshline.store.store import Store
from freshline.store.watches.watches import ClaimedWatch, Looked
from freshline.watching.look import LookContext, SourcePartitions, look
from freshline.watching.seen import SeenFiles

log = structlog.get_logger("freshline.watching")
OWN = tuple(kind for kind in KINDS if kind != "python")  # workers call functions of projects
REFRESH_S = 60.0
BUSY_HINT_S = 0.2
STOP_S = 2.0
BATCH_S = 0.25  # how long a look that is due, or found nothing, waits for others: one statement serves many sources
CALLS = 0.9  # of the timeout: a call that ends by itself has an error that says more than "abandoned"


@dataclass(slots=True)
class Running:
    """A look under way. `abandoned`: its timeout is over and its result does not count."""

    watch: ClaimedWatch
    started: float
    deadline: float
    closed: frozenset[str] | None = None
    result: Look | str | None = None
    abandoned: bool = False
    took_s: float = 0.0

    @property
    def quiet(self) -> bool:
        """Whether it ended, and found nothing new."""
        return isinstance(self.result, Look) and _looked(self).quiet


class Watcher(DueService):
    """Claims due watches, looks at them, and records the results."""

    name = "watcher"
    process = "materializer"  # in which it runs
    woken_by_work = True
    kinds = OWN

    def __init__(self, store: Store, *, poll_s: float | None = None, holder: str | None = None) -> None:
        super().__init__(store, poll_s=poll_s)
        self.holder = holder  # this process, as it is registered
        self.notifications = FileNotifications(self.wake)
        self._running: dict[str, Running] = {}
        self._hanging: set[str] = set()
        self._ended: SimpleQueue[Running] = SimpleQueue()
        self._unfinished: list[ClaimedWatch] = []  # their looks ended because this process stops
        self._seen: dict[str, SeenFiles] = {}
        self._claimed_at = -BATCH_S
        self._wakes_at = 0.0  # when the next round comes by itself
        self._records_at: float | None = None  # when looks that ended are recorded, if none of them wakes this service
        self._refreshed = -REFRESH_S
        self._refresh = threading.Event()

    def run_once(self) -> bool:
        """Record the looks that ended, abandon those that hang, and begin those that are due."""
        self._follow()
        self._record()
        self._abandon()
        free = self.threads - len(self._running)
        return free > 0 and self._begin(free) == free

    def time_left(self) -> float | None:
        """Return the seconds until watches are due, looks have to be recorded, or one has to be abandoned."""
        now = time.monotonic()
        times = [one.deadline - now for one in self._running.values()]
        if len(self._running) < self.threads:
            due = self._until_due([*self._running, *self._hanging])
            times += [] if due is None else [max(due, self._claimed_at + BATCH_S - now)]
            times += [BUSY_HINT_S] if self.notifications.pending else []
        self._wakes_at = now + min(times, default=self.poll_s)
        # After the assignment: a look that ends from now on sees it.
        if not self._ended.empty():
            self._records_at = now + BATCH_S if self._records_at is None else self._records_at
            times.append(self._records_at - now)
        return min(times, default=None)

    def refresh(self) -> None:
        """Follow the directories of watches that were applied."""
        self._refresh.set()
        self.wake()

    def stop(self) -> None:
        """Stop. Looks that end within a moment are recorded; the leases of others are given back."""
        if self._end():
            ends = time.monotonic() + STOP_S
            while self._running and time.monotonic() < ends:
                self._wakeup.wait(0.05)
                self._wakeup.clear()
                self._record()
            self._give_back()
        self.notifications.close()

    def _give_back(self) -> None:
        """Let others look at once at what this process does not finish. Without a database the leases end later."""
        left = [*(one.watch for one in self._running.values()), *self._unfinished]
        self._unfinished = []
        try:
            released = self.store.watches.release(left) if left else 0
        except (psycopg.Error, DatabaseError) as error:
            log.warning("looks_not_given_back", looks=len(left), error=str(error).strip())
        else:
            if released:
                log.info("looks_given_back", looks=released)

    @property
    def threads(self) -> int:
        """The number of looks at a time."""
        return self.store.settings.watch_threads

    @property
    def busy(self) -> bool:
        """Whether a look is under way or not recorded yet."""
        return bool(self._running)

    def _follow(self) -> None:
        now = time.monotonic()
        if self._refresh.is_set() or self.notifications.stale or now - self._refreshed >= REFRESH_S:
            self._refresh.clear()
            self._refreshed = now
            watched = self.store.watches.directories()
            self.notifications.follow(watched)
            known = {row["asset_id"] for row in watched}
            self._seen = {asset_id: seen for asset_id, seen in self._seen.items() if asset_id in known}

    def _begin(self, most: int) -> int:
        excluded = [*self._running, *self._hanging]
        hinted = [asset_id for asset_id in self.notifications.hinted() if asset_id not in excluded]
        claimed = self._claim(most, hinted[:most], excluded)
        self._claimed_at = time.monotonic()
        for watch in claimed:
            now = time.monotonic()
            one = Running(watch, now, now + watch.timeout_ms / 1000, self.notifications.take(watch.asset_id))
            self._running[watch.asset_id] = one
            name = f"look {watch.asset_id}"
            threading.Thread(target=self._look, args=(one,), name=name, daemon=True).start()
        return len(claimed)

    def _claim(self, most: int, hinted: list[str], excluded: list[str]) -> list[ClaimedWatch]:
        return self.store.watches.claim(self.kinds, most, hinted=hinted, excluded=excluded, holder=self.holder)

    def _until_due(self, excluded: list[str]) -> float | None:
        return self.store.watches.until_due(self.kinds, excluded=excluded)

    def _look(self, one: Running) -> None:
        try:
            one.result = self._result(one)
        except FreshlineError as error:
            one.result = str(error)
        except Exception as error:
            log.exception("look_failed", asset=one.watch.asset_id, kind=one.watch.kind)
            one.result = f"the look failed with {type(error).__name__}; the log of the {self.process} has the details"
        now = time.monotonic()
        one.took_s = now - one.started
        self._ended.put(one)
        enough = self._ended.qsize() * 2 >= self.threads
        if enough or not one.quiet or self._wakes_at > now + BATCH_S:
            self.wake()

    def _result(self, one: Running) -> Look:
        memory = self._memory(one.watch) if one.watch.kind == "files" else None
        return _look_at(self.store, one.watch, memory, one.closed)

    def _memory(self, watch: ClaimedWatch) -> SeenFiles:
        """Return what this process knows of the files of a source, with what others have stored since."""
        store, asset_id = self.store.watches, watch.asset_id
        memory = self._seen.get(asset_id)
        if memory is None or memory.revision > watch.revision:
            memory = self._seen[asset_id] = SeenFiles(partial(store.files, asset_id))
        if memory.revision < watch.revision:
            memory.load(store.files_since(asset_id, memory.revision), watch.revision)
        return memory

    def _remember(self, watch: ClaimedWatch, look: Look) -> None:
        """Keep what this process has stored itself, so that the next look does not read it again."""
        memory = self._seen.get(watch.asset_id)
        if look.seen and memory is not None and memory.revision == watch.revision:
            stored = ((path_key(one.path), identity(one.size, one.version)) for one in look.seen)
            memory.load(stored, watch.revision + 1)

    def _record(self) -> None:
        self._records_at = None
        quiet: list[Running] = []
        while True:
            try:
                one = self._ended.get_nowait()
            except Empty:
                break
            if one.abandoned:
                self._hanging.discard(one.watch.asset_id)
                if self._running.get(one.watch.asset_id) is one:  # by itself, because this process stops
                    del self._running[one.watch.asset_id]
                    self._unfinished.append(one.watch)
            elif one.quiet:
                quiet.append(one)
            else:
                self._written([one], partial(self._write, one))
        if quiet:
            self._written(quiet, partial(self._note, quiet))

    def _written(self, ended: list[Running], write: Callable[[], None]) -> None:
        """Write results. If the database is away they are kept and written later, unless their claim ends."""
        try:
            write()
        except (psycopg.Error, DatabaseError):
            for one in ended:
                self._ended.put(one)
            raise
        for one in ended:
            del self._running[one.watch.asset_id]

    def _note(self, quiet: list[Running]) -> None:
        self.store.watches.note([_looked(one) for one in quiet])
        for one in quiet:
            _counted(one, "nothing")

    def _write(self, one: Running) -> None:
        try:
            if isinstance(one.result, Look):
                reported = self.store.watches.record(_looked(one))
                self._remember(one.watch, one.result)
                count("watch_reports", sum(not report["duplicate"] for report in reported), kind=one.watch.kind)
                _counted(one, "found")
            else:
                self._fail(one, one.result or "")
        except FencedError:
            count("fenced")
            log.warning("watch_lease_lost", asset=one.watch.asset_id)
        except FreshlineError as error:
            if isinstance(error, DatabaseError):
                raise
            self._fail(one, str(error))

    def _fail(self, one: Running, error: str) -> None:
        opened = self.store.watches.fail(one.watch, error)
        _counted(one, "failed")
        event = "watch_breaker_opened" if opened else "watch_failed"
        log.warning(event, asset=one.watch.asset_id, kind=one.watch.kind, failures=one.watch.failures + 1, error=error)

    def _abandon(self) -> None:
        now = time.monotonic()
        for asset_id, one in list(self._running.items()):
            if one.deadline <= now and one.result is None:
                one.abandoned = True
                self._hanging.add(asset_id)
                del self._running[asset_id]
                timeout = as_text(one.watch.timeout_ms)
                self._abandoned(one, f"the look did not end within {timeout} ('timeout'); it was abandoned")

    def _abandoned(self, one: Running, error: str) -> None:
        try:
            self._fail(one, error)
        except FencedError:
            count("fenced")


def look_without_report(store: Store, asset_id: str) -> Look:
    """Look at a source from this process. Nothing is claimed, reported or stored."""
    store.reader.watch(asset_id)  # which says what is wrong with the name
    watch = store.watches.peek(asset_id)
    if watch.kind not in OWN:
        raise ConflictError(
            f"'{asset_id}' is looked at by a worker; `freshline watch show {asset_id}` says what it saw"
        )
    memory = SeenFiles(partial(store.watches.files, asset_id))
    if watch.kind == "files":
        memory.load(store.watches.files_since(asset_id, memory.revision), watch.revision)
    return _look_at(store, watch, memory, None)


def _look_at(store: Store, watch: ClaimedWatch, memory: SeenFiles | None, closed: frozenset[str] | None) -> Look:
    context = LookContext(
        asset_id=watch.asset_id,
        now=watch.now,
        allowed=watch.allowed(store.settings.known_root),
        timeout_s=watch.timeout_ms / 1000 * CALLS,
        seen=memory,
        closed=closed,
        partitions=_partitions(store, watch),
        private_networks=store.settings.webhook_allow_private,
    )
    return look(watch_of(watch.spec), watch.mode, watch.position, context)


def _partitions(store: Store, watch: ClaimedWatch) -> SourcePartitions | None:
    partitioning = document.from_json(watch.partitioning)
    if not partitioning.columns:
        return None
    path = (watch.declaration.get("location") or {}).get("path")
    return SourcePartitions(partitioning, path, partial(store.watches.known_keys, watch.asset_id, partitioning))


def _looked(one: Running) -> Looked:
    assert isinstance(one.result, Look)  # noqa: S101 - the caller checked it
    waited_s = time.monotonic() - one.started - one.took_s
    return Looked(one.watch, one.result, int(one.took_s * 1000), int(waited_s * 1000))


def _counted(one: Running, result: str) -> None:
    count("watch_looks", kind=one.watch.kind, result=result)
    observe("watch_look_seconds", one.took_s)
