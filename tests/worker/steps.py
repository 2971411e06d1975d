"""Requests for single steps, and a caller that keeps what a step logs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from freshline.errors import NotFoundError
from freshline.model.deliveries import Delivery
from freshline.model.run import OutputTarget, PinnedInput
from freshline.settings import Settings
from freshline.storage.layout import staging_directory
from freshline.worker.code_copies import CodeCopies, CodeCopy
from freshline.worker.protocol import ProgressValues, StepRequest, StepResult, StoreQueries
from freshline.worker.runner_process import RunnerProcess

_tries = itertools.count(1)


def unknown(asset_id: str, _: str, version: int) -> PinnedInput:
    """Answer a step that reads a version which does not exist."""
    raise NotFoundError(f"version {version} of {asset_id} is not there")


def no_deliveries(asset_id: str, first: int, last: int) -> list[Delivery]:
    """Answer a step that reads deliveries where there are none."""
    raise NotFoundError(f"{asset_id} has no deliveries from {first} to {last}")


def copy_of(project: Path) -> CodeCopy:
    """Return the project's code as it is now, with its copy."""
    return CodeCopies(Settings(project=project)).current()


@dataclass
class Bench:
    """A project, a warehouse and a runner; `run` executes one step."""

    project: Path
    runner: RunnerProcess
    log: list[tuple[str, str]] = field(default_factory=list)
    progress: list[ProgressValues] = field(default_factory=list)

    @property
    def warehouse(self) -> Path:
        """Where tables go."""
        return self.project / "warehouse"

    @property
    def lines(self) -> list[str]:
        """The text of what was logged by the last step."""
        return [text for _, text in self.log]

    def request(self, job: Mapping[str, Any], **given: Any) -> StepRequest:
        """Return a request for a step that produces `out` by default."""
        produces = given.pop("produces", [{"assetId": "out"}])
        inputs = given.pop("inputs", {})
        consumes = given.pop("consumes", [{"assetId": asset} for asset in inputs])
        try_ = next(_tries)
        outputs = {
            asset: OutputTarget(staging_directory(asset, "run", 1, try_))
            for asset in (produced["assetId"] for produced in produces)
        }
        return StepRequest(
            run_id="run",
            attempt=1,
            try_=try_,
            slug="flow",
            partition_key="",
            step={"id": "step", "job": job, "consumes": consumes, "produces": produces},
            parameters=given.pop("parameters", {}),
            inputs=inputs,
            outputs=outputs,
            warehouse=str(self.warehouse),
            **given,
        )

    def run(
        self,
        job: Mapping[str, Any],
        *,
        stop: Callable[[], str | None] = lambda: None,
        ask: Callable[[str, str, int], PinnedInput] = unknown,
        deliveries: Callable[[str, int, int], Sequence[Delivery]] = no_deliveries,
        **given: Any,
    ) -> StepResult:
        """Execute one step."""
        self.log.clear()
        self.progress.clear()
        return self.runner.run_step(
            self.request(job, **given),
            on_log=lambda stream, text: self.log.append((stream, text)),
            on_progress=self.progress.append,
            queries=StoreQueries(ask, deliveries),
            stop=stop,
        )


def python(function: str) -> dict[str, str]:
    """Return a job without Spark."""
    return {"kind": "python", "entrypoint": f"jobs:{function}"}


def spark_python(function: str) -> dict[str, str]:
    """Return a Python job on Spark."""
    return {"kind": "spark.python", "entrypoint": f"jobs:{function}"}


def sql(query: str) -> dict[str, str]:
    """Return a query."""
    return {"kind": "spark.sql", "sql": query}


def source(asset: str, path: Path, kind: str = "csv") -> PinnedInput:
    """Return a source asset that is a file."""
    return PinnedInput(asset, 1, "v1", {"format": kind, "path": str(path)})
