"""The runners of one slot: one for `python` steps, one with a warm Spark, and one for a large run as long as it runs.

Each is replaced when it must be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from freshline.settings import Settings
from freshline.worker.process import RunnerProcess

CLOSE_GRACE_S = 2.0
PYTHON, SPARK, LARGE = "python", "spark", "large"
MOST_ORPHANS = 100


@dataclass(slots=True)
class Slot:
    """One slot executes one run at a time. `python` steps never wait for Spark and never start it.

    `orphans`: sessions on a Connect server whose runner gave no answer; the next step there ends them.
    """

    settings: Settings
    orphans: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_ORPHANS))
    _runners: dict[str, RunnerProcess] = field(default_factory=dict)

    def runner(self, *, spark: bool, code_hash: str) -> RunnerProcess:
        """A runner that is alive and has imported this code, and no other (R10.3)."""
        return self._usable(SPARK if spark else PYTHON, code_hash)

    def large(self, own: Mapping[str, str], code_hash: str) -> RunnerProcess:
        """A runner with a Spark of its own, started with these settings; the warm one stays warm beside it."""
        return self._usable(LARGE, code_hash, own)

    def end_large(self) -> None:
        """The run is over, and so is the Spark that was started for it."""
        runner = self._runners.pop(LARGE, None)
        if runner is not None:
            runner.close(CLOSE_GRACE_S)

    def spark(self) -> RunnerProcess | None:
        """The Spark runner, if one was started."""
        return self._runners.get(SPARK)

    def forget_spark(self) -> None:
        """Give up a Spark runner that cannot get ready."""
        runner = self._runners.pop(SPARK, None)
        if runner is not None:
            runner.close(CLOSE_GRACE_S)

    def _usable(self, kind: str, code_hash: str, own: Mapping[str, str] | None = None) -> RunnerProcess:
        runner = self._runners.get(kind)
        if runner is not None and runner.alive and runner.failure is None and runner.code_hash == code_hash:
            return runner
        if runner is not None:
            runner.close(CLOSE_GRACE_S)
        return self._start(kind, code_hash, own)

    def _start(self, kind: str, code_hash: str, own: Mapping[str, str] | None) -> RunnerProcess:
        settings, spark = self.settings, kind != PYTHON
        runner = RunnerProcess(settings.project, spark=spark, settings=settings, code_hash=code_hash, own=own)
        runner.start()
        self._runners[kind] = runner
        return runner

    def pids(self) -> dict[str, int | None]:
        """The processes, for `freshline workers`."""
        return {kind: runner.pid for kind, runner in list(self._runners.items())}

    def close(self) -> None:
        """End all runners."""
        for runner in self._runners.values():
            runner.close(CLOSE_GRACE_S)
