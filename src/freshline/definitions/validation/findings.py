"""The collected errors and warnings of a project, so that users see all of them at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from freshline.definitions.validation.problems import Loc, Problem, subject
from freshline.errors import DefinitionError, DefinitionErrors, Place


class Origin(Protocol):
    """The origin of a definition: a document, or a decorated function."""

    @property
    def data(self) -> Any:
        """The definition as plain data."""

    def place(self, loc: Loc = ()) -> Place:
        """Return the file and line of a part of the definition."""


@dataclass(slots=True)
class Findings:
    """Errors and warnings."""

    errors: list[DefinitionError] = field(default_factory=list)
    warnings: list[DefinitionError] = field(default_factory=list)

    def add(self, origin: Origin, problem: Problem, *, see: Place | None = None) -> None:
        """Add a problem of a definition. `see`: the place that it contradicts, if that is in another definition."""
        if see is None and problem.see is not None:
            see = origin.place(problem.see)
        error = DefinitionError(
            subject(origin.data, problem.loc) + problem.message,
            place=problem.place or origin.place(problem.loc),
            hint=f"see {see}" if see else None,
        )
        (self.warnings if problem.warning else self.errors).append(error)

    def raise_errors(self) -> None:
        """Raise all errors at once, by file and line, if there are any."""
        if self.errors:
            raise DefinitionErrors(sorted(self.errors, key=_where))

    def warning_texts(self) -> tuple[str, ...]:
        """Return the warnings, sorted by file and line."""
        return tuple(str(warning) for warning in sorted(self.warnings, key=_where))


def _where(error: DefinitionError) -> tuple[str, int]:
    return (error.place.file, error.place.line or 0) if error.place else ("", 0)
