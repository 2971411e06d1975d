"""Every error a user can meet, with a stable code.

A message says what happened, the value, what is allowed, what to do, and where.
The command line shows `FreshlineError` as one sentence and never as a traceback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the user's files something was written."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class FreshlineError(Exception):
    """Base of all errors that are told to the user. `exit_code`: 1 failed, 2 wrong usage."""

    code = "error"
    exit_code = 1

    def __init__(self, message: str, *, place: Place | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.hint = hint

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        hint = f" ({self.hint})" if self.hint else ""
        sentence, newline, more = self.message.partition("\n")  # lines of the user's own may follow
        return f"{where}{sentence}{hint}{newline}{more}"


class UsageError(FreshlineError):
    """The command was called with values that cannot work."""

    code = "usage"
    exit_code = 2


class DefinitionError(FreshlineError):
    """One mistake in what the user wrote."""

    code = "definition"


class DefinitionErrors(FreshlineError):
    """All mistakes of a project at once."""

    code = "definitions"

    def __init__(self, errors: list[DefinitionError]) -> None:
        self.errors = errors
        noun = "error" if len(errors) == 1 else "errors"
        super().__init__(f"{len(errors)} {noun} in the definitions:\n" + "\n".join(f"  {e}" for e in errors))


class NotFoundError(FreshlineError):
    """A named thing does not exist."""

    code = "not-found"


class ConflictError(FreshlineError):
    """The request contradicts what is stored."""

    code = "conflict"


class DatabaseError(FreshlineError):
    """The database cannot be reached or used."""

    code = "database"


class ApiError(FreshlineError):
    """The API that FRESHLINE_API_URL names cannot be reached, or is not one that this version understands."""

    code = "api"


class AccessError(FreshlineError):
    """The API wants a token, or one that allows more."""

    code = "access"


class BusError(FreshlineError):
    """Redis cannot be reached or used. It costs latency only, so nobody stops for it."""

    code = "bus"

    def __init__(self, message: str, *, unreachable: bool = False) -> None:
        super().__init__(message)
        self.unreachable = unreachable


class SchemaError(FreshlineError):
    """The database's schema does not fit this version of Freshline."""

    code = "schema"


class WarehouseError(FreshlineError):
    """The warehouse cannot be used: wrong id, full disk, staged files that changed."""

    code = "warehouse"


class EngineError(FreshlineError):
    """Spark cannot be started or reached. Never counted as a failure of the workflow (R7.1)."""

    code = "engine"


class EngineLostError(EngineError):
    """Spark got lost in the middle of a step: no failure of the workflow, but a crash, as the step may be why."""

    code = "engine-lost"


class JobError(FreshlineError):
    """The user's job failed."""

    code = "job"


class CheckError(JobError):
    """A data check failed: nothing is published. `checks`: all results; `staged`: its directory in the warehouse."""

    code = "check"

    def __init__(
        self,
        message: str,
        *,
        place: Place | None = None,
        hint: str | None = None,
        checks: Sequence[Mapping[str, Any]] = (),
        staged: str | None = None,
    ) -> None:
        super().__init__(message, place=place, hint=hint)
        self.checks = list(checks)
        self.staged = staged


class FencedError(FreshlineError):
    """This worker lost its lease: the run belongs to another attempt (promise 6)."""

    code = "fenced"
