"""How a step can end other than well: exceptions, and the record of an error that crosses the process boundary."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from freshline.definitions.retry import Failure, failure_named
from freshline.errors import CheckError, EngineError, EngineLostError, FreshlineError, JobError, Place, WarehouseError

MAX_TEXT = 16_000  # characters of a message or a traceback
OUT_OF_MEMORY = 71  # exit code of a runner whose Spark ran out of memory
MORE_MEMORY = (
    "give it more with `spark: {size: large, conf: {spark.driver.memory: 8g}}` in the workflow, or let the step hold "
    "less at once"
)


class JobFailedError(JobError):
    """The user's code failed. `traceback` begins at the user's first line; empty where it would not help."""

    def __init__(
        self, message: str, *, place: Place | None = None, hint: str | None = None, traceback: str = ""
    ) -> None:
        super().__init__(message, place=place, hint=hint)
        self.traceback = traceback

    def classified(self, failure: Failure) -> Self:
        """Add what the error means for further tries."""
        self.raised, self.permanent = failure.names, failure.permanent
        return self


class StepTimeout(JobFailedError):
    """The step took longer than its `timeoutMs`."""

    code = "timeout"
    raised = failure_named("TimeoutError").names
    permanent = False


class StepStopped(FreshlineError):
    """The supervisor stopped the step. `reason`: canceled, lease-lost or shutdown."""

    code = "stopped"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the step was stopped: {reason}")
        self.reason = reason


class RunnerDied(FreshlineError):
    """The runner exited in the middle of a step. `status`: its exit code, or minus the signal's number.

    `fault`: why the supervisor itself ended it.
    """

    code = "runner-died"

    def __init__(self, status: int | None, tail: str = "", fault: str | None = None) -> None:
        how = "is not running" if status is None else f"was ended: {fault}" if fault else _describe_exit(status)
        hint = MORE_MEMORY if status == OUT_OF_MEMORY else None
        last = f"; its last words:\n{tail}" if tail and not hint else ""  # those of a lost JVM do not help
        super().__init__(f"the process that ran the job {how}{last}", hint=hint)
        self.status = status
        self.tail = tail


def _describe_exit(status: int) -> str:
    if status == OUT_OF_MEMORY:
        return "was ended, as Spark ran out of memory"
    if status >= 0:
        return f"ended itself with exit code {status}"
    why = ", as the system does when memory runs out" if -status == signal.SIGKILL else ""
    return f"was killed by signal {-status}{why}"


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """An error as plain data. `checks` and `staged` are set for a failed check only."""

    code: str
    message: str
    hint: str | None = None
    place: Place | None = None
    traceback: str = ""
    checks: Sequence[Mapping[str, Any]] = ()
    staged: str | None = None
    raised: Sequence[str] = JobError.raised
    permanent: bool = JobError.permanent

    @classmethod
    def of(cls, error: FreshlineError) -> ErrorRecord:
        """Return the record of an error, without characters that PostgreSQL cannot store."""
        check = error if isinstance(error, CheckError) else None
        return cls(
            code=error.code,
            message=storable(error.message),
            hint=None if error.hint is None else storable(error.hint),
            place=error.place,
            traceback=storable(getattr(error, "traceback", "")),
            checks=check.checks if check else (),
            staged=check.staged if check else None,
            raised=error.raised if isinstance(error, JobError) else (),
            permanent=isinstance(error, JobError) and error.permanent,
        )

    def to_error(self) -> FreshlineError:
        """Return the exception; codes that do not come from Spark, checks or the warehouse are the job's failure."""
        if self.code == CheckError.code:
            return CheckError(self.message, place=self.place, hint=self.hint, checks=self.checks, staged=self.staged)
        if kind := _KINDS.get(self.code):
            return kind(self.message, place=self.place, hint=self.hint)
        failed = JobFailedError(self.message, place=self.place, hint=self.hint, traceback=self.traceback)
        return failed.classified(Failure(tuple(self.raised), self.permanent))


_KINDS: Mapping[str, type[FreshlineError]] = {
    kind.code: kind for kind in (EngineError, EngineLostError, WarehouseError)
}


def hide_in(error: FreshlineError, hide: Callable[[str], str]) -> None:
    """Replace secrets in the texts of an error."""
    error.message = hide(error.message)
    error.args = (error.message,)
    error.hint = None if error.hint is None else hide(error.hint)
    if isinstance(error, JobFailedError):
        error.traceback = hide(error.traceback)


def storable(text: str) -> str:
    """Return `text` without NUL and lone surrogates, which the database rejects, and cut in the middle if too long."""
    clean = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    if len(clean) <= MAX_TEXT:
        return clean
    half = MAX_TEXT // 2
    return f"{clean[:half]}\n... {len(clean) - MAX_TEXT} characters left out ...\n{clean[-half:]}"
