"""What a job function gets: `ctx`, with its pinned inputs, its parameters and a voice."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from freshline.errors import JobError
from freshline.model.run import PinnedInput
from freshline.runs.voice import job_progress


class Tables(Protocol):
    """What a context needs of Spark; `freshline.spark.engine.Engine` is the one in real life."""

    @property
    def spark(self) -> Any:
        """The session of this step."""

    def read(self, pinned: PinnedInput) -> Any:
        """The DataFrame of one pinned snapshot."""


@dataclass(frozen=True, slots=True)
class Input:
    """One consumed asset, at the version that this run is pinned to.

    `version` is the number of the snapshot, `data_version` changes if and only if the content does.
    """

    asset_id: str
    version: int
    data_version: str
    payload: Any
    _read: Callable[[], Any] = field(repr=False)

    def df(self) -> Any:
        """The rows as a Spark DataFrame."""
        return self._read()


class Context:
    """The one argument of a job function."""

    def __init__(
        self,
        *,
        run_id: str,
        attempt: int,
        partition_key: str,
        parameters: Mapping[str, Any],
        inputs: Mapping[str, PinnedInput],
        full_refresh: bool,
        tables: Tables | None,
        say: Callable[[dict[str, Any]], None],
    ) -> None:
        self.run_id = run_id
        self.attempt = attempt
        self.partition_key = partition_key
        self.parameters = dict(parameters)
        self.full_refresh = full_refresh
        self.log = _logger(say)
        self.inputs = Inputs({asset: self._input(pinned) for asset, pinned in inputs.items()})
        self._tables = tables
        self._say = say

    def _input(self, pinned: PinnedInput) -> Input:
        read = lambda: self._need_spark(f"ctx.inputs[{pinned.asset_id!r}].df()").read(pinned)  # noqa: E731
        return Input(pinned.asset_id, pinned.sequence, pinned.data_version, pinned.payload, read)

    @property
    def spark(self) -> Any:
        """The Spark session."""
        return self._need_spark("ctx.spark").spark

    def new(self, asset_id: str) -> Any:
        """The rows of an input that no earlier run consumed.

        In this version that is the whole input: `ctx.full_refresh` is true and says so.
        """
        return self.inputs[asset_id].df()

    def progress(self, done: float, total: float | None = None) -> None:
        """Tell how far the job is; shown while it runs, in place of Spark's tasks."""
        self._say({"type": "progress", "progress": {"job": job_progress(done, total)}})

    def _need_spark(self, what: str) -> Tables:
        if self._tables is None:
            raise JobError(f"{what} needs Spark, and a 'python' job has none; use the job kind 'spark.python'")
        return self._tables


class Inputs(dict[str, Input]):
    """The inputs by asset id; asking for another one says which there are."""

    def __missing__(self, asset_id: str) -> Input:
        declared = ", ".join(sorted(self)) or "none"
        raise JobError(
            f"asset {asset_id!r} is not an input of this step; its inputs are: {declared}; add it to 'consumes'"
        )


class _Handler(logging.Handler):
    def __init__(self, say: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._say = say
        self.setFormatter(logging.Formatter("%(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        for line in self.format(record).splitlines():
            self._say({"type": "log", "text": line[:65_536].replace("\x00", "\ufffd")})


def _logger(say: Callable[[dict[str, Any]], None]) -> logging.Logger:
    logger = logging.Logger("freshline.job", logging.DEBUG)  # noqa: LOG001 - it belongs to one step, not to the process
    logger.addHandler(_Handler(say))
    return logger
