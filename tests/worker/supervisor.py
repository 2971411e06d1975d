"""A supervisor to be killed: starts a Spark runner, says its pid, and runs an endless job."""

from __future__ import annotations

import sys
from pathlib import Path

from freshline.model.run import PinnedInput
from freshline.settings import Settings
from freshline.worker.process import RunnerProcess
from freshline.worker.protocol import StepRequest


def main(project: Path) -> None:
    """Never returns."""
    runner = RunnerProcess(project, spark=True, settings=Settings(project=project), code_hash=None)
    runner.start()
    say(str(runner.pid))
    step = {"id": "s", "job": {"kind": "spark.python", "entrypoint": "jobs:endless"}, "produces": [{"assetId": "out"}]}
    outputs = {"out": {"staging": "out/data/orphan"}}
    request = StepRequest("r", 1, 1, "flow", "", step, {}, {}, outputs, str(project / "warehouse"))
    runner.run_step(
        request,
        on_log=lambda *_: None,
        on_progress=lambda progress: say(str(progress)),
        on_ask=nothing,
        stop=lambda: None,
    )


def nothing(asset_id: str, version: int) -> PinnedInput:
    """No job here asks."""
    raise AssertionError(asset_id, version)


def say(text: str) -> None:
    """For the test that waits."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
