"""Calls the functions that look at sources of the worker's project: `watch: {python: ...}`.

A function runs as jobs do: in a runner process without Spark, which imports from the copy of the applied code, without
the database's address. The claims, leases, timeouts and reports are those of the watcher of the materializer. It does
not promise a look while this worker has other code than the applied one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from freshline.definitions.schema.watch import PythonWatch
from freshline.model.watch import Look
from freshline.services.watcher import Running, Watcher
from freshline.store.watches.watches import ClaimedWatch, ProjectCode
from freshline.watching.look import LookContext
from freshline.watching.python import result, user_position
from freshline.worker.code_copies import CodeCopy
from freshline.worker.protocol import LookRequest
from freshline.worker.runner_pool import RunnerPool
from freshline.worker.step_errors import StepStopped

if TYPE_CHECKING:
    from freshline.worker.worker import Worker

log = structlog.get_logger("freshline.watching")
POLL_S = 5.0  # `apply` notifies; a claim of another worker that ended is noticed this late
MOST_LOOKS = 4  # each has a process
IDLE_S = 120.0  # then the process of a look is closed


@dataclass(slots=True)
class IdlePool:
    """Runners that no look uses since this monotonic time."""

    runners: RunnerPool
    since: float


class FunctionWatcher(Watcher):
    """Looks at sources by calling functions of the project."""

    name = "function-watcher"
    process = "worker"
    kinds = ("python",)

    def __init__(self, worker: Worker) -> None:
        poll_s = max(POLL_S, worker.settings.poll_ms / 1000)
        super().__init__(worker.store, poll_s=poll_s, holder=worker.heartbeat.id)
        self._worker = worker
        self._codes: dict[str, CodeCopy] = {}
        self._pools: list[IdlePool] = []
        self._lock = threading.Lock()

    @property
    def threads(self) -> int:
        """The number of looks at a time."""
        return min(MOST_LOOKS, self.store.settings.watch_threads)

    def run_once(self) -> bool:
        """Record, abandon and begin looks, and close processes that were not used for a while."""
        self._close_idle(time.monotonic() - IDLE_S)
        return super().run_once()

    def stop(self) -> None:
        """Stop the functions and their processes, and give the leases of looks that did not end back."""
        super().stop()
        self._close_idle(time.monotonic())

    def _follow(self) -> None:
        """Follow no directories: functions are called when they are due."""

    def _claim(self, most: int, hinted: list[str], excluded: list[str]) -> list[ClaimedWatch]:
        code = self._worker.current_code()
        if code is None:
            return []
        scope = ProjectCode(self._worker.project, code.hash)
        claimed = self.store.watches.claim(
            self.kinds, most, hinted=hinted, excluded=excluded, code=scope, holder=self.holder
        )
        self._codes |= {watch.asset_id: code for watch in claimed}
        return claimed

    def _until_due(self, excluded: list[str]) -> float | None:
        code = self._worker.current_code()
        if code is None:
            return None
        scope = ProjectCode(self._worker.project, code.hash)
        return self.store.watches.until_due(self.kinds, excluded=excluded, code=scope)

    def _result(self, one: Running) -> Look:
        watch, settings = one.watch, self.store.settings
        spec = PythonWatch.model_validate(watch.spec)
        request = LookRequest(
            asset_id=watch.asset_id,
            mode=watch.mode,
            entrypoint=spec.python,
            position=user_position(watch.position),
            timeout_ms=watch.timeout_ms,
            secrets=spec.secrets,
        )
        with self._runners() as runners:
            runner = runners.runner(spark=False, code=self._codes[watch.asset_id], secrets=spec.secrets)
            try:
                value = runner.run_look(
                    request,
                    on_log=lambda stream, text: log.info("look_output", asset=watch.asset_id, stream=stream, text=text),
                    stop=lambda: "shutdown" if self._stopping.is_set() else None,
                )
            except StepStopped:
                one.abandoned = True  # it did not fail: its lease is given back, and a worker calls it again
                raise
        context = LookContext(watch.asset_id, watch.now, watch.allowed(settings.known_root), watch.timeout_ms / 1000)
        return result(watch.mode, watch.position, value, context)

    @contextmanager
    def _runners(self) -> Iterator[RunnerPool]:
        """Yield runners that no other look uses."""
        with self._lock:
            runners = self._pools.pop().runners if self._pools else RunnerPool(self._worker.settings)
        runners.environment = self._worker.job_environment()
        try:
            yield runners
        finally:
            if self._stopping.is_set():
                runners.close()
            else:
                with self._lock:
                    self._pools.append(IdlePool(runners, time.monotonic()))

    def _close_idle(self, before: float) -> None:
        with self._lock:
            old = [one for one in self._pools if one.since <= before]
            self._pools = [one for one in self._pools if one.since > before]
        for one in old:
            one.runners.close()
