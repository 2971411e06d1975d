"""Consistency checks within one workflow."""

from __future__ import annotations

from collections.abc import Iterator

from freshline.definitions.policy import disagreements, stated_trigger
from freshline.definitions.schema.spark import refusals
from freshline.definitions.schema.workflow import SparkSql, Step, Workflow
from freshline.definitions.steps import step_order, view_name
from freshline.definitions.validation.problems import Loc, Problem
from freshline.errors import DefinitionError
from freshline.suggest import suggestion


def inconsistencies(workflow: Workflow) -> Iterator[Problem]:
    """Yield all problems and warnings of one workflow."""
    yield from _spark(workflow)
    yield from _duplicate_steps(workflow)
    yield from _unknown_dependencies(workflow)
    yield from _produced_twice(workflow)
    for index, step in enumerate(workflow.steps):
        yield from _consumed_twice(index, step)
        yield from _queries(index, step)
        yield from _idle_input_fields(index, step)
    yield from disagreements(workflow)
    yield from _rebuilds(workflow)
    yield from _cycle(workflow)


def _spark(workflow: Workflow) -> Iterator[Problem]:
    if workflow.spark is None:
        return
    for name, sentence in refusals(workflow.spark):
        yield Problem(("spark", "conf", name), sentence)
    if all(step.job.kind == "python" for step in workflow.steps):
        yield Problem(("spark",), "'spark' has no effect: no step of this workflow uses Spark", warning=True)


def _duplicate_steps(workflow: Workflow) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, step in enumerate(workflow.steps):
        if first.setdefault(step.id, index) != index:
            yield Problem(
                ("steps", index, "id"),
                f"step id {step.id!r} is taken; choose another",
                see=("steps", first[step.id], "id"),
            )


def _unknown_dependencies(workflow: Workflow) -> Iterator[Problem]:
    ids = [step.id for step in workflow.steps]
    for index, step in enumerate(workflow.steps):
        for position, name in enumerate(step.depends_on):
            loc: Loc = ("steps", index, "dependsOn", position)
            if name == step.id:
                yield Problem(loc, f"step {name!r} depends on itself; remove it")
            elif name not in ids:
                hint = suggestion(name, ids) or f"; known are {', '.join(ids[:20])}"
                yield Problem(loc, f"'dependsOn' names the unknown step {name!r}{hint}")


def _produced_twice(workflow: Workflow) -> Iterator[Problem]:
    first: dict[str, Loc] = {}
    for s, step in enumerate(workflow.steps):
        for p, output in enumerate(step.produces):
            loc: Loc = ("steps", s, "produces", p, "assetId")
            if first.setdefault(output.asset_id, loc) != loc:
                yield Problem(loc, "is produced twice in this workflow; keep one", see=first[output.asset_id])


def _consumed_twice(index: int, step: Step) -> Iterator[Problem]:
    assets: dict[str, Loc] = {}
    views: dict[str, tuple[Loc, str]] = {}
    for position, item in enumerate(step.consumes):
        loc: Loc = ("steps", index, "consumes", position)
        view = view_name(item)
        if item.asset_id in assets:
            yield Problem(loc, "is consumed twice by one step; keep one", see=assets[item.asset_id])
            continue
        assets[item.asset_id] = loc
        # Names of views in Spark are not case-sensitive.
        other_loc, other = views.setdefault(view.lower(), (loc, item.asset_id))
        if other != item.asset_id:
            yield Problem(
                loc, f"is read as the view {view!r}, and so is {other!r}; give one of them 'as'", see=other_loc
            )


def _rebuilds(workflow: Workflow) -> Iterator[Problem]:
    """Yield outputs that would be computed again although they say otherwise: a full refresh is one of all tables."""
    stated = [
        (("steps", s, "produces", p, "table", "onCodeChange"), output.asset_id, output.table.on_code_change)
        for s, step in enumerate(workflow.steps)
        for p, output in enumerate(step.produces)
        if output.table and output.table.mode != "overwrite"
    ]
    first = next((one for one in stated if one[2] == "rebuild"), None)
    for loc, _, answer in stated if first else ():
        if first and answer != "rebuild":
            said = f"is {answer!r}" if answer else "is not given"
            yield Problem(
                loc if answer else loc[:-1],
                f"'onCodeChange' {said}, and that of {first[1]!r} is 'rebuild': a workflow is computed again as a "
                "whole; give all of its appended and merged tables 'rebuild', or none",
                see=first[0],
            )


def _queries(index: int, step: Step) -> Iterator[Problem]:
    if not isinstance(step.job, SparkSql):
        return
    declared = [output.asset_id for output in step.produces]
    loc: Loc = ("steps", index, "job")
    if not declared:
        yield Problem(loc, "a spark.sql job needs an asset in 'produces'; its result would go nowhere")
    elif step.job.outputs is None and len(declared) > 1:
        names = ", ".join(declared)
        yield Problem((*loc, "sql"), f"one 'sql' cannot make {len(declared)} assets ({names}); use 'outputs'")
    outputs = step.job.outputs or {}
    for asset_id in outputs:
        if asset_id not in declared:
            hint = suggestion(asset_id, declared)
            yield Problem((*loc, "outputs", asset_id), f"'outputs' names {asset_id!r}, which 'produces' does not{hint}")
    for position, output in enumerate(step.produces):
        if outputs and output.asset_id not in outputs and not output.optional:
            yield Problem(("steps", index, "produces", position), "has no query in 'outputs' of its job; add one")


def _idle_input_fields(index: int, step: Step) -> Iterator[Problem]:
    for position, item in enumerate(step.consumes):
        block = item.auto_materialize
        fields = type(block).model_fields if block else {}
        idle = sorted((block.model_fields_set if block else set()) - {"on_upstream_update"})
        loc: Loc = ("steps", index, "consumes", position, "autoMaterialize")
        if idle:
            named = ", ".join(repr(fields[name].alias) for name in idle)
            yield Problem(loc, f"{named} of an input's autoMaterialize has no effect", warning=True)
        elif block is not None and stated_trigger(item) is None:
            yield Problem(loc, "an input's empty autoMaterialize has no effect", warning=True)


def _cycle(workflow: Workflow) -> Iterator[Problem]:
    if len({step.id for step in workflow.steps}) < len(workflow.steps):
        return
    try:
        step_order(workflow)
    except DefinitionError as error:
        yield Problem(("steps",), error.message)
