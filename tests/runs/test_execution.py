"""What one attempt of a run leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from freshline.errors import EngineLostError, FreshlineError
from freshline.runs.execution import Execution
from freshline.runs.protocol import JobFailedError, RunnerDied, StepStopped, StepTimeout
from freshline.runs.slot import Slot
from freshline.settings import Settings


@pytest.mark.parametrize(
    ("error", "remembered"),
    [
        (RunnerDied(-9), True),
        (StepStopped("canceled"), True),
        (StepTimeout("too long"), True),
        (EngineLostError("gone"), True),
        (JobFailedError("boom"), False),
    ],
)
def test_a_session_that_may_still_compute_is_remembered(
    tmp_path: Path, error: FreshlineError, remembered: bool
) -> None:
    """R12.1: the next step ends it. A runner that told of an error has ended its session itself."""
    execution = object.__new__(Execution)
    execution.slot = Slot(Settings(project=tmp_path))
    with pytest.raises(type(error)), execution._owning("session-1"):
        raise error
    assert list(execution.slot.orphans) == (["session-1"] if remembered else [])
