"""The runner processes of one slot: one for `python` steps, one with a warm Spark, and one per large run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from freshline.settings import Settings
from freshline.worker.code_copies import CodeCopy
from freshline.worker.runner_environment import JobEnvironment
from freshline.worker.runner_process import RunnerProcess

CLOSE_GRACE_S = 2.0
PYTHON, SPARK, LARGE = "python", "spark", "large"
MAX_ORPHANS = 100


@dataclass(slots=True)
class RunnerPool:
    """Starts, replaces and closes the runners of a slot. `python` steps never wait for Spark and never start it.

    `environment`: what runners get of the worker's variables; one that was started with more is replaced.
    `orphans`: sessions on a Connect server whose runner did not report an end; the next step there closes them.
    """

    settings: Settings
    environment: JobEnvironment = field(default_factory=JobEnvironment)
    orphans: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_ORPHANS))
    _runners: dict[str, RunnerProcess] = field(default_factory=dict)

    def runner(self, *, spark: bool, code: CodeCopy, secrets: Iterable[str] | None = None) -> RunnerProcess:
        """Return a live runner that imports exactly this code (docs/semantics.md#R10.3).

        `secrets`: those that the next step declares. A runner that had others is replaced.
        """
        return self._usable(SPARK if spark else PYTHON, code, secrets=secrets)

    def large(self, conf: Mapping[str, str], code: CodeCopy) -> RunnerProcess:
        """Return a runner whose Spark was started with these settings; the warm one keeps running beside it."""
        return self._usable(LARGE, code, conf)

    def close_large(self) -> None:
        """Close the Spark that was started for one large run."""
        self._close(LARGE)

    def spark(self) -> RunnerProcess | None:
        """Return the Spark runner if one was started."""
        return self._runners.get(SPARK)

    def close_spark(self) -> None:
        """Close a Spark runner that cannot become ready."""
        self._close(SPARK)

    def _close(self, kind: str) -> None:
        runner = self._runners.pop(kind, None)
        if runner is not None:
            runner.close(CLOSE_GRACE_S)

    def _usable(
        self,
        kind: str,
        code: CodeCopy,
        conf: Mapping[str, str] | None = None,
        *,
        secrets: Iterable[str] | None = None,
    ) -> RunnerProcess:
        runner = self._runners.get(kind)
        good = runner is not None and runner.alive and runner.failure is None and runner.code_hash == code.hash
        if runner is not None and good and runner.fits(self.environment, secrets):
            return runner
        if runner is not None:
            runner.close(CLOSE_GRACE_S)
        return self._start(kind, code, conf)

    def _start(self, kind: str, code: CodeCopy, conf: Mapping[str, str] | None) -> RunnerProcess:
        settings, spark = self.settings, kind != PYTHON
        runner = RunnerProcess(
            settings.project,
            spark=spark,
            settings=settings,
            code=code,
            own_conf=conf,
            environment=self.environment,
        )
        runner.start()
        self._runners[kind] = runner
        return runner

    def pids(self) -> dict[str, int | None]:
        """Return the process ids by kind, for `freshline workers`."""
        return {kind: runner.pid for kind, runner in list(self._runners.items())}

    def close(self) -> None:
        """Close all runners."""
        for runner in self._runners.values():
            runner.close(CLOSE_GRACE_S)
