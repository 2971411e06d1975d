"""A supervisor to be killed: starts a Spark runner, prints its pid, and runs an endless job."""

from __future__ import annotations

import sys
from pathlib import Path

from freshline.model.run import OutputTarget, PinnedInput
from freshline.settings import Settings
from freshline.worker.protocol import StepRequest, StoreQueries
from freshline.worker.runner_process import RunnerProcess
from tests.worker.steps import copy_of, no_deliveries


def main(project: Path) -> None:
    """Run until killed."""
    runner = RunnerProcess(project, spark=True, settings=Settings(project=project), code=copy_of(project))
    runner.start()
    show(str(runner.pid))
    step = {"id": "s", "job": {"kind": "spark.python", "entrypoint": "jobs:endless"}, "produces": [{"assetId": "out"}]}
    outputs = {"out": OutputTarget("out/data/orphan")}
    request = StepRequest("r", 1, 1, "flow", "", step, {}, {}, outputs, str(project / "warehouse"))
    runner.run_step(
        request,
        on_log=lambda *_: None,
        on_progress=lambda progress: show(str(progress)),
        queries=StoreQueries(nothing, no_deliveries),
        stop=lambda: None,
    )


def nothing(asset_id: str, _: str, version: int) -> PinnedInput:
    """Fail: no job here reads another version."""
    raise AssertionError(asset_id, version)


def show(text: str) -> None:
    """Print a line for the test that waits."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
