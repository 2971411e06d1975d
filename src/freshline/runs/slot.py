"""The runners of one slot: one for `python` steps, and one with a warm Spark session, each replaced when it must be."""

from __future__ import annotations

from dataclasses import dataclass, field

from freshline.runs.process import RunnerProcess
from freshline.settings import Settings

CLOSE_GRACE_S = 2.0


@dataclass(slots=True)
class Slot:
    """One slot executes one run at a time. `python` steps never wait for Spark and never start it."""

    settings: Settings
    _runners: dict[bool, RunnerProcess] = field(default_factory=dict)

    def runner(self, *, spark: bool, code_hash: str) -> RunnerProcess:
        """A runner that is alive and has imported this code, and no other (R10.3)."""
        runner = self._runners.get(spark)
        if runner is not None and runner.alive and runner.failure is None and runner.code_hash == code_hash:
            return runner
        if runner is not None:
            runner.close(CLOSE_GRACE_S)
        return self._start(spark=spark, code_hash=code_hash)

    def spark(self) -> RunnerProcess | None:
        """The Spark runner, if one was started."""
        return self._runners.get(True)

    def forget_spark(self) -> None:
        """Give up a Spark runner that cannot get ready."""
        runner = self._runners.pop(True, None)
        if runner is not None:
            runner.close(CLOSE_GRACE_S)

    def _start(self, *, spark: bool, code_hash: str) -> RunnerProcess:
        runner = RunnerProcess(self.settings.project, spark=spark, settings=self.settings, code_hash=code_hash)
        runner.start()
        self._runners[spark] = runner
        return runner

    def pids(self) -> dict[str, int | None]:
        """The processes, for `freshline workers`."""
        return {"spark" if spark else "python": runner.pid for spark, runner in list(self._runners.items())}

    def close(self) -> None:
        """End all runners."""
        for runner in self._runners.values():
            runner.close(CLOSE_GRACE_S)
