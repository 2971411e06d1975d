"""All errors that users can see, each with a stable code.

A message says what happened, the value, what is allowed, what to do, and where.
The command line prints a `FreshlineError` as one sentence, never as a traceback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the user's files."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class FreshlineError(Exception):
    """Base class of all errors that are shown to users. `exit_code`: 1 for a failure, 2 for wrong usage."""

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
        sentence, newline, more = self.message.partition("\n")  # further lines may come from the user
        return f"{where}{sentence}{hint}{newline}{more}"


class UsageError(FreshlineError):
    """Invalid arguments or settings."""

    code = "usage"
    exit_code = 2


class PartitionKeyError(UsageError, ValueError):
    """A text that is not a key of the partitioning."""

    code = "partition-key"


class DefinitionError(FreshlineError):
    """One mistake in a definition."""

    code = "definition"


class PartitioningError(DefinitionError, ValueError):
    """A partitioning, a mapping or a requirement that cannot be."""

    code = "partitioning"


class DefinitionErrors(FreshlineError):
    """All mistakes of a project."""

    code = "definitions"

    def __init__(self, errors: list[DefinitionError]) -> None:
        self.errors = errors
        noun = "error" if len(errors) == 1 else "errors"
        super().__init__(f"{len(errors)} {noun} in the definitions:\n" + "\n".join(f"  {e}" for e in errors))


class NotFoundError(FreshlineError):
    """The named object does not exist."""

    code = "not-found"


class ConflictError(FreshlineError):
    """The request contradicts what is stored."""

    code = "conflict"


class KeyReusedError(ConflictError):
    """The idempotency key belongs to another request."""

    code = "key-reused"


class ConfirmationError(ConflictError):
    """The request would drop data for ever, and nobody has confirmed that."""

    code = "confirmation-needed"


class DatabaseError(FreshlineError):
    """The database cannot be reached or used."""

    code = "database"


class ApiError(FreshlineError):
    """The API at FRESHLINE_API_URL cannot be reached, or has an unknown version."""

    code = "api"


class AccessError(FreshlineError):
    """The API needs a token, or a token with more rights."""

    code = "access"


class BusError(FreshlineError):
    """Redis cannot be reached or used. This costs only latency, so no process stops."""

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
    """Spark cannot be started or reached. It never counts as a failure of the workflow (docs/semantics.md#R7.1)."""

    code = "engine"


class EngineLostError(EngineError):
    """Spark was lost during a step. It counts as a crash, not as a failure, because the step may be the cause."""

    code = "engine-lost"


class JobError(FreshlineError):
    """The user's job failed.

    `raised`: the class of the exception of user code and its bases. `permanent`: trying again cannot help. An error
    that Freshline itself raises says that the job breaks a rule, which the next try would break again.
    """

    code = "job"
    raised: tuple[str, ...] = ("JobError",)
    permanent: bool = True


class CheckError(JobError):
    """A data check failed, so nothing is published.

    `checks`: all results. `staged`: the directory of the rejected data in the warehouse.
    """

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
    """This worker lost its lease: the run belongs to another attempt."""

    code = "fenced"
