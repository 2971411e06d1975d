"""Proposed changes of policies: merged into stored definitions, validated as files are, and written as YAML."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from freshline.definitions.fingerprint import definition_fingerprint
from freshline.definitions.loading.project import LoadedWorkflow, draft_of
from freshline.definitions.policy import compile_policy
from freshline.definitions.schema.base import known_fields
from freshline.definitions.schema.timing import AutoMaterialize, Freshness
from freshline.definitions.schema.workflow import Workflow
from freshline.definitions.validation.consistency import inconsistencies
from freshline.definitions.validation.findings import Findings
from freshline.definitions.validation.problems import Loc
from freshline.errors import NotFoundError, Place, UsageError
from freshline.model.json import Json
from freshline.suggest import did_you_mean

Changes = Mapping[str, Json]
_AUTO = tuple(known_fields(AutoMaterialize))
_FRESHNESS = tuple(name for name in known_fields(Freshness) if name != "partitions")
_OWN = ("quietHours", "backoff")  # of the workflow, not of its outputs
FIELDS = (*_AUTO, "freshness", *_FRESHNESS, *_OWN)
"""What can be changed, as definitions name it. Fields of `freshness` may also be given in that block."""


@dataclass(frozen=True, slots=True)
class _Proposal:
    """A definition that is in no file."""

    slug: str
    data: Json

    def place(self, _: Loc = ()) -> Place:
        """Return the name of the workflow."""
        return Place(f"workflow {self.slug!r}")


def stored(definition: Json) -> LoadedWorkflow:
    """Return a workflow of a definition that was validated when it was applied."""
    workflow = Workflow.model_validate(definition)
    return LoadedWorkflow(
        definition=workflow,
        place=Place(workflow.slug),
        policy=compile_policy(workflow),
        fingerprint=definition_fingerprint(workflow),
        job_fingerprint="",  # a policy gives no reason to run again
        code_hash=None,
    )


def changed(definition: Json, changes: Json) -> Json:
    """Return a definition with these changes in all its outputs. A null removes a field."""
    slug = definition["slug"]
    for name in changes:
        if name not in FIELDS:
            hint = did_you_mean(name, FIELDS) or f"allowed are {', '.join(FIELDS)}"
            raise UsageError(f"workflow {slug!r}: unknown field {name[:80]!r}; {hint}")
    freshness = changes.get("freshness", {})
    if not isinstance(freshness, dict | None):
        raise UsageError(f"workflow {slug!r}: 'freshness' is not a block of fields")
    auto = {name: value for name, value in changes.items() if name in _AUTO}
    clock = {**(freshness or {}), **{name: value for name, value in changes.items() if name in _FRESHNESS}}
    found = deepcopy(definition)
    outputs = [output for step in found["steps"] for output in step.get("produces", ())]
    _merge_blocks(outputs, "autoMaterialize", auto)
    _merge_blocks(outputs, "freshness", clock)
    if freshness is None:
        for output in outputs:
            output.pop("freshness", None)
    _merge(found, {name: value for name, value in changes.items() if name in _OWN})
    return found


def proposed(current: Iterable[LoadedWorkflow], definitions: Mapping[str, Json]) -> list[LoadedWorkflow]:
    """Return the current workflows with these definitions instead of their own. Raise `DefinitionErrors`."""
    findings = Findings()
    made: dict[str, LoadedWorkflow] = {}
    for slug, definition in definitions.items():
        origin = _Proposal(slug, definition)
        draft = draft_of(Workflow, origin, findings)
        if draft is None:
            continue
        for problem in inconsistencies(draft.definition):
            findings.add(origin, problem)
        if not findings.errors:
            made[slug] = stored(definition)
    findings.raise_errors()
    return [made.get(one.definition.slug, one) for one in current]


def find(definitions: Mapping[str, Json], slug: str) -> Json:
    """Return the definition of a workflow."""
    if (found := definitions.get(slug)) is None:
        raise NotFoundError(f"workflow {slug[:80]!r} does not exist", hint=did_you_mean(slug, definitions))
    return found


def as_yaml(definition: Json) -> str:
    """Return the blocks of a definition that a policy consists of, as its file has them."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - it takes long to import

    steps = [
        {"id": step["id"], "produces": [_policy_of(output) for output in step["produces"]]}
        for step in definition["steps"]
        if step.get("produces")
    ]
    shown = {name: definition[name] for name in _OWN if name in definition}
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment] # its annotation is too narrow
    writer.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    writer.dump({"slug": definition["slug"], **shown, "steps": steps}, text)
    return text.getvalue()


def _policy_of(output: Json) -> Json:
    return {name: output[name] for name in ("assetId", "freshness", "autoMaterialize") if output.get(name) is not None}


def _merge_blocks(outputs: Iterable[Json], name: str, changes: Json) -> None:
    """Change a block in the outputs that have it, or in all if none has it."""
    if not changes:
        return
    every = list(outputs)
    for output in [one for one in every if one.get(name)] or every:
        block: Json = dict(output.get(name) or {})
        _merge(block, changes)
        output[name] = block
        if name == "freshness" and not block:
            del output[name]


def _merge(block: Json, changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        for spelling in (name, f"{name}Ms", name.removesuffix("Ms")):  # a duration is in milliseconds, or a text
            block.pop(spelling, None)
        if value is not None:
            block[name] = value
