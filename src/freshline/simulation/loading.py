"""Loads workflows for a simulation from a project, a directory, YAML text or plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from freshline.definitions.fingerprint import definition_fingerprint, job_fingerprint
from freshline.definitions.loading import document
from freshline.definitions.loading.project import LoadedWorkflow, Project, draft_of, load_project
from freshline.definitions.policy import compile_policy
from freshline.definitions.schema.workflow import Source, Workflow
from freshline.definitions.steps import declared_partitioning
from freshline.definitions.validation.consistency import inconsistencies
from freshline.definitions.validation.findings import Findings
from freshline.definitions.validation.references import Draft, check_references
from freshline.errors import UsageError
from freshline.partitions.partitioning import Partitioning

Given = Project | Path | str | Mapping[str, Any] | LoadedWorkflow | Workflow | Iterable[Any]


class Definitions(NamedTuple):
    """Workflows, and the partitionings of the sources that are declared."""

    workflows: tuple[LoadedWorkflow, ...]
    sources: Mapping[str, Partitioning]


def load_workflows(given: Given) -> tuple[LoadedWorkflow, ...]:
    """Return the workflows of `load_definitions`."""
    return load_definitions(given).workflows


def load_definitions(given: Given) -> Definitions:
    """Return the definitions of a project, a directory, YAML or JSON text, a definition as data, or several of these.

    Text and data with an `assetId` and no `slug` declare a source.
    """
    if isinstance(given, Path) or (isinstance(given, str) and _is_path(given)):
        given = load_project(Path(given))
    if isinstance(given, Project):
        return Definitions(given.workflows, _divided(one.definition for one in given.sources))
    loaded = [one for one in _several(given) if isinstance(one, LoadedWorkflow)]
    rest = [one for one in _several(given) if not isinstance(one, LoadedWorkflow)]
    found = _checked([origin for one in rest for origin in _origins(one)])
    return Definitions((*loaded, *found.workflows), found.sources)


def _divided(sources: Iterable[Source]) -> dict[str, Partitioning]:
    return {one.asset_id: declared_partitioning(one) for one in sources}


def _is_path(text: str) -> bool:
    return "\n" not in text and not text.lstrip().startswith("{") and Path(text).is_dir()


def _several(given: Given) -> list[Any]:
    if isinstance(given, str | Mapping | LoadedWorkflow | Workflow | Path | Project):
        return [given]
    return list(given)


def _origins(one: Any) -> list[document.Document]:
    if isinstance(one, Workflow):
        one = one.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if not isinstance(one, str | Mapping):
        allowed = "a project's directory, a Project, LoadedWorkflows, YAML text or definitions as dicts"
        raise UsageError(f"given {type(one).__name__!r}; allowed are {allowed}")
    return document.parse(one if isinstance(one, str) else json.dumps(one), "given")


def _checked(origins: list[document.Document]) -> Definitions:
    findings = Findings()
    declared = [one for one in origins if _is_source(one)]
    sources = [source for one in declared if (source := draft_of(Source, one, findings))]
    drafts = [draft for one in origins if one not in declared and (draft := draft_of(Workflow, one, findings))]
    for draft in drafts:
        for problem in inconsistencies(draft.definition):
            findings.add(draft.origin, problem)
    check_references(drafts, sources, (), findings, strict=False)
    findings.raise_errors()
    return Definitions(tuple(_loaded(draft) for draft in drafts), _divided(one.definition for one in sources))


def _is_source(origin: document.Document) -> bool:
    return isinstance(origin.data, dict) and "assetId" in origin.data and "slug" not in origin.data


def _loaded(draft: Draft[Workflow]) -> LoadedWorkflow:
    definition = draft.definition
    return LoadedWorkflow(
        definition=definition,
        place=draft.origin.place(),
        policy=compile_policy(definition),
        fingerprint=definition_fingerprint(definition),
        job_fingerprint=job_fingerprint(definition, lambda _: ""),
        code_hash=None,
    )
