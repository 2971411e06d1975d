"""The Python files that the jobs of a project execute (docs/semantics.md#R1.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from freshline.definitions.code import Code
from freshline.definitions.import_closure import METHOD, ImportGraph
from freshline.definitions.loading.manifest import FILE
from freshline.definitions.python_module import Unknown
from freshline.definitions.schema.workflow import SparkSql, Workflow
from freshline.errors import DefinitionError, Place

MOST_FILES = 2_000
MOST_NAMED = 5


class JobCode:
    """What the entry points of workflows execute."""

    def __init__(self, code: Code, workflows: Sequence[Workflow]) -> None:
        imports = ImportGraph(code)
        self._workflows = workflows
        self._closures = {name: imports.closure(name) for one in workflows for name in entrypoints(one)}
        self._digests = imports.digests(self._closures.values())

    def fingerprint(self, entrypoint: str) -> str:
        """Return the fingerprint of what an entry point executes."""
        return self._closures[entrypoint].fingerprint

    def files(self, workflow: Workflow) -> frozenset[str]:
        """Return the files that the jobs of a workflow execute."""
        return frozenset().union(*(self._closures[name].files for name in entrypoints(workflow)))

    def digests(self) -> dict[str, str]:
        """Return a digest of each file, to say which of them changed; none of too many, because all are stored.

        The name "" stands for the method: digests of another method cannot be compared.
        """
        return {"": METHOD, **self._digests} if len(self._digests) <= MOST_FILES else {}

    def warnings(self) -> Iterator[DefinitionError]:
        """Yield each place where a file hides what it imports, with the workflows that every file counts for."""
        hidden: dict[Unknown, set[str]] = {}
        for workflow in self._workflows:
            for name in entrypoints(workflow):
                if unknown := self._closures[name].unknown:
                    hidden.setdefault(unknown, set()).add(workflow.slug)
        for unknown, slugs in hidden.items():
            shown = ", ".join(f"'{slug}'" for slug in sorted(slugs)[:MOST_NAMED])
            message = (
                f"what is imported cannot be read from the text: {unknown.what}. A change of any Python file of the "
                f"project runs {shown}{', …' if len(slugs) > MOST_NAMED else ''} again"
            )
            yield DefinitionError(message, place=Place(unknown.file, unknown.line) if unknown.file else Place(FILE))


def entrypoints(workflow: Workflow) -> list[str]:
    """Return the entry points of the Python jobs of a workflow."""
    return [step.job.entrypoint for step in workflow.steps if not isinstance(step.job, SparkSql)]
