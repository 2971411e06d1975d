"""What one attempt of a run leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from freshline.definitions.retry import failure_named
from freshline.definitions.schema.workflow import Step, Workflow
from freshline.errors import CheckError, EngineLostError, FreshlineError, JobError
from freshline.model.run import FinishedStep, StagedOutput
from freshline.settings import Settings
from freshline.worker.execution import Execution
from freshline.worker.runner_pool import RunnerPool
from freshline.worker.step_errors import JobFailedError, RunnerDied, StepStopped, StepTimeout


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
    """The next step ends it. A runner that told of an error has ended its session itself (docs/semantics.md#R12.1)."""
    execution = object.__new__(Execution)
    execution.runners = RunnerPool(Settings(project=tmp_path))
    with pytest.raises(type(error)), execution._tracking("session-1"):
        raise error
    assert list(execution.runners.orphans) == (["session-1"] if remembered else [])


KEY_ERROR = failure_named("KeyError")
LOST = failure_named("ConnectionError")


@pytest.mark.parametrize(
    ("error", "on", "tries"),
    [
        (JobFailedError("x").classified(LOST), None, 3),
        (JobFailedError("x").classified(KEY_ERROR), None, 1),
        (JobFailedError("x").classified(KEY_ERROR), "any", 3),
        (JobFailedError("x").classified(KEY_ERROR), ["LookupError"], 3),
        (JobFailedError("x").classified(LOST), ["LookupError"], 1),
        (JobError("the job returned nonsense"), None, 1),
        (JobError("the job returned nonsense"), "any", 3),
        (StepTimeout("too long"), None, 3),
        (StepTimeout("too long"), ["TimeoutError"], 3),
        (RunnerDied(-9), None, 3),
        (RunnerDied(-9), ["KeyError"], 3),
        (CheckError("a check failed"), "any", 1),
    ],
)
def test_retry_on_decides_about_another_try(
    monkeypatch: pytest.MonkeyPatch, error: FreshlineError, on: str | list[str] | None, tries: int
) -> None:
    """An error that cannot go away by trying again ends the run at once, and the log says why."""
    tried: list[int] = []

    def fail(_: Execution, __: object, ___: object, try_: int) -> tuple[StagedOutput, ...]:
        tried.append(try_)
        raise error

    monkeypatch.setattr(Execution, "_try", fail)
    execution = object.__new__(Execution)
    execution.pause = lambda _: None
    execution.lease = SimpleNamespace(run=SimpleNamespace(id="run"), lines=[])  # type: ignore[assignment]
    retry = {} if on is None else {"retry": {"on": on}}
    step = {"id": "one", "job": {"kind": "python", "entrypoint": "jobs:work"}, "produces": [{"assetId": "a"}], **retry}
    workflow = Workflow.model_validate({"slug": "x", "steps": [step]})
    with pytest.raises(type(error)):
        execution._step(workflow, workflow.steps[0])
    assert tried == list(range(1, tries + 1))
    told = [one["text"] for one in execution.lease.lines]
    assert len(told) == (tries == 1 and not isinstance(error, CheckError))
    assert all("not tried again after" in one and "'retry.on' is" in one for one in told)


def graph(**before: str) -> dict[str, object]:
    """Return a workflow whose steps each make the asset of their name from another, or come `after:` another."""
    return {
        "slug": "graph",
        "steps": [
            {
                "id": name,
                "job": {"kind": "python", "entrypoint": "jobs:work"},
                **({"dependsOn": [one[6:]]} if one.startswith("after:") else {"consumes": [{"assetId": one}]}),
                "produces": [{"assetId": name}],
            }
            for name, one in before.items()
        ],
    }


@pytest.mark.parametrize(
    ("finished", "gone", "anew"),
    [
        ({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}, "", ""),
        ({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}, "c", "c"),
        ({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}, "d", "de"),
        ({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}, "b", "bc"),
        ({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}, "a", "abc"),
        ({"a": 2, "b": 1, "c": 1, "d": 1, "e": 1}, "", "bc"),
        ({"a": 2, "b": 2, "c": 1, "d": 1, "e": 1}, "", "c"),
        ({"a": 1, "b": 2, "c": 2, "d": 1, "e": 1}, "", ""),
        ({"a": 1}, "", "bcde"),
    ],
)
def test_a_step_is_done_anew_with_whatever_comes_before_it(
    monkeypatch: pytest.MonkeyPatch, finished: Mapping[str, int], gone: str, anew: str
) -> None:
    """Outputs that are published together were made from each other, however many attempts it took."""
    outputs = {name: (StagedOutput(name, name, f"{name}{attempt}"),) for name, attempt in finished.items()}
    run = SimpleNamespace(
        attempt=3,
        batch=(),
        definition=graph(a="source", b="a", c="after:b", d="source", e="d"),
        finished_steps={name: FinishedStep(attempt, outputs[name]) for name, attempt in finished.items()},
    )
    done: list[str] = []

    def work(_: Execution, __: object, step: Step) -> tuple[StagedOutput, ...]:
        done.append(step.id)
        return (StagedOutput(step.id, step.id, f"{step.id}3"),)

    monkeypatch.setattr(Execution, "_step", work)
    monkeypatch.setattr(Execution, "_still_there", lambda _, outputs: outputs[0].asset_id not in gone.split())
    monkeypatch.setattr(Execution, "_publish", lambda self, _: [one.data_version for one in self.staged.values()])
    execution = object.__new__(Execution)
    execution.lease, execution.staged = SimpleNamespace(run=run), {}  # type: ignore[assignment]  # all that it asks
    published = execution.execute()
    assert "".join(done) == anew
    assert published == [f"{name}{3 if name in anew else finished[name]}" for name in "abcde"]
