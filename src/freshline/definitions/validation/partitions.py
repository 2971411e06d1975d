"""Checks of everything that a project says about partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from freshline.definitions.partition_edges import PartitionEdges, RefusedEdge, resolve
from freshline.definitions.policy import compile_policy
from freshline.definitions.schema.workflow import Source, Workflow
from freshline.definitions.steps import declared_partitioning, partitionings, produced
from freshline.definitions.validation.batches import batch_problems
from freshline.definitions.validation.draft import Draft
from freshline.definitions.validation.extent import extent_warnings
from freshline.definitions.validation.findings import Findings, Origin
from freshline.definitions.validation.partition_fields import field_problems, mentions_partitions, source_problems
from freshline.definitions.validation.problems import Loc, Problem
from freshline.definitions.validation.retention import retention_warnings
from freshline.errors import DefinitionError
from freshline.model.policy import Policy
from freshline.partitions import Partitioning


def check_partitions(
    workflows: Sequence[Draft[Workflow]], sources: Sequence[Draft[Source]], findings: Findings
) -> None:
    """Find what cannot be: outputs that disagree, mappings that are impossible, fields without effect."""
    for source in sources:
        for problem in source_problems(source.definition):
            findings.add(source.origin, problem)
    if any(mentions_partitions(draft.definition) for draft in workflows) or any(
        draft.definition.partitioning is not None for draft in sources
    ):
        sound = [draft for draft in workflows if _is_sound(draft, findings)]
        _check_edges(sound, sources, findings)


def _is_sound(draft: Draft[Workflow], findings: Findings) -> bool:
    """Add the problems within one workflow. Return whether its edges can be resolved."""
    found = list(chain(field_problems(draft.definition), batch_problems(draft.definition)))
    for problem in found:
        findings.add(draft.origin, problem)
    return all(problem.warning for problem in found)


def _check_edges(workflows: Sequence[Draft[Workflow]], sources: Sequence[Draft[Source]], findings: Findings) -> None:
    policies = {draft.definition.slug: policy for draft in workflows if (policy := _policy(draft.definition))}
    edges = resolve(policies, _known(workflows, sources))
    drafts = {draft.definition.slug: draft for draft in workflows}
    places = _places(workflows, sources)
    for one in edges.refused:
        draft = drafts[one.edge[1]]
        origin, declared = places[one.edge[0]]
        for loc in _consumed_at(draft.definition, one.edge[0]):
            findings.add(draft.origin, _problem(one, loc), see=origin.place(declared))
    _warn_about_retention(edges, policies, drafts, findings)
    _warn_about_extent(edges, policies, places, findings)


def _warn_about_extent(
    edges: PartitionEdges,
    policies: Mapping[str, Policy],
    places: Mapping[str, tuple[Origin, Loc]],
    findings: Findings,
) -> None:
    """Warn at the output, and refer to the input that ends, if it belongs to the project."""
    outputs = {slug: [one.asset_id for one in policy.outputs] for slug, policy in policies.items()}
    for one in extent_warnings(edges.resolved, outputs):
        origin, loc = places[outputs[one.slug][0]]
        source, declared = places[one.asset_id]
        findings.add(origin, Problem(loc, one.message, warning=True), see=source.place(declared))


def _warn_about_retention(
    edges: PartitionEdges, policies: Mapping[str, Policy], drafts: Mapping[str, Draft[Workflow]], findings: Findings
) -> None:
    for (asset_id, slug), message in retention_warnings(edges.resolved, policies):
        draft = drafts[slug]
        for loc in _consumed_at(draft.definition, asset_id):
            findings.add(draft.origin, Problem((*loc, "partitions"), message, warning=True))


def _policy(workflow: Workflow) -> Policy | None:
    """Return the compiled policy; None if blocks disagree, which is a problem of its own."""
    try:
        return compile_policy(workflow)
    except DefinitionError:
        return None


def _known(workflows: Sequence[Draft[Workflow]], sources: Sequence[Draft[Source]]) -> dict[str, Partitioning]:
    """Return the partitions of the assets of the project."""
    declared = {source.definition.asset_id: declared_partitioning(source.definition) for source in sources}
    return declared | partitionings(draft.definition for draft in workflows)


def _places(workflows: Sequence[Draft[Workflow]], sources: Sequence[Draft[Source]]) -> Mapping[str, tuple[Origin, Loc]]:
    """Return where the partitions of each asset are declared, or could be."""
    found: dict[str, tuple[Origin, Loc]] = {
        one.definition.asset_id: (one.origin, ("partitioning",) if one.definition.partitioning else ("assetId",))
        for one in sources
    }
    for draft in workflows:
        for s, step in enumerate(draft.definition.steps):
            for p, output in enumerate(step.produces):
                field = "partitioning" if output.partitioning else "assetId"
                found[output.asset_id] = (draft.origin, ("steps", s, "produces", p, field))
    return found


def _consumed_at(workflow: Workflow, asset_id: str) -> Iterator[Loc]:
    """Yield where the steps of a workflow consume an asset from outside, or their own output."""
    own = produced(workflow)
    for s, step in enumerate(workflow.steps):
        for c, item in enumerate(step.consumes):
            if item.asset_id == asset_id and own.get(asset_id, (step.id,))[0] == step.id:
                yield ("steps", s, "consumes", c)


def _problem(one: RefusedEdge, loc: Loc) -> Problem:
    hint = f"; {one.hint}" if one.hint else ""
    where: Loc = (*loc, "partitions") if one.field is None else (*loc, "partitions", one.field)
    return Problem(where, f"{one.message}{hint}")
