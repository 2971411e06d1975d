"""Loads workflows for a simulation from a project, a directory, YAML text or plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from freshline.definitions.fingerprint import definition_fingerprint, job_fingerprint
from freshline.definitions.loading import document
from freshline.definitions.loading.project import LoadedWorkflow, Project, draft_of, load_project
from freshline.definitions.policy import compile_policy
from freshline.definitions.schema.workflow import Workflow
from freshline.definitions.validation.consistency import inconsistencies
from freshline.definitions.validation.findings import Findings
from freshline.definitions.validation.references import Draft, check_references
from freshline.errors import UsageError

Given = Project | Path | str | Mapping[str, Any] | LoadedWorkflow | Workflow | Iterable[Any]


def load_workflows(given: Given) -> tuple[LoadedWorkflow, ...]:
    """Return the workflows of a project, a directory, YAML or JSON text, a definition as data, or several of these."""
    if isinstance(given, Project):
        return given.workflows
    if isinstance(given, Path) or (isinstance(given, str) and _is_path(given)):
        return load_project(Path(given)).workflows
    loaded = [one for one in _several(given) if isinstance(one, LoadedWorkflow)]
    rest = [one for one in _several(given) if not isinstance(one, LoadedWorkflow)]
    return (*loaded, *_checked([origin for one in rest for origin in _origins(one)]))


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


def _checked(origins: list[document.Document]) -> list[LoadedWorkflow]:
    findings = Findings()
    drafts = [draft for origin in origins if (draft := draft_of(Workflow, origin, findings))]
    for draft in drafts:
        for problem in inconsistencies(draft.definition):
            findings.add(draft.origin, problem)
    check_references(drafts, [], (), findings, strict=False)
    findings.raise_errors()
    return [_loaded(draft) for draft in drafts]


def _loaded(draft: Draft[Workflow]) -> LoadedWorkflow:
    definition = draft.definition
    return LoadedWorkflow(
        definition=definition,
        place=draft.origin.place(),
        policy=compile_policy(definition),
        fingerprint=definition_fingerprint(definition),
        job_fingerprint=job_fingerprint(definition, ""),
        code_hash=None,
    )
