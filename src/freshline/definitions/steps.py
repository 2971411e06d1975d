"""The steps of a workflow: their order, their inputs from outside, and their outputs."""

from __future__ import annotations

from collections.abc import Iterable

from freshline.definitions import names
from freshline.definitions.schema.workflow import Consumes, InputFreshness, Produces, Source, Step, Workflow
from freshline.errors import DefinitionError
from freshline.partitions import Partitioning, Unpartitioned


def view_name(consumes: Consumes) -> str:
    """Return the view under which a step reads an asset: `as`, or `flights_clean` for `flights.clean`."""
    return consumes.as_ or names.view_of(consumes.asset_id)


def produced(workflow: Workflow) -> dict[str, tuple[str, Produces]]:
    """Return each produced asset with the id of its step and its declaration."""
    return {output.asset_id: (step.id, output) for step in workflow.steps for output in step.produces}


def external_inputs(workflow: Workflow) -> tuple[Consumes, ...]:
    """Return the inputs from outside the workflow, one per asset, sorted by asset id (docs/semantics.md#R1.3).

    If several steps consume one asset, the smallest `maxAgeMs` counts, and the first block that is set.
    """
    own = produced(workflow)
    merged: dict[str, Consumes] = {}
    for step in workflow.steps:
        for item in step.consumes:
            if item.asset_id not in own:
                merged[item.asset_id] = _both(merged[item.asset_id], item) if item.asset_id in merged else item
    return tuple(merged[asset_id] for asset_id in sorted(merged))


def own_inputs(workflow: Workflow) -> tuple[Consumes, ...]:
    """Return the inputs that the consuming step produces itself, sorted by asset id: earlier versions or partitions."""
    found = {
        item.asset_id: item
        for step in workflow.steps
        for item in step.consumes
        if item.asset_id in {output.asset_id for output in step.produces}
    }
    return tuple(found[asset_id] for asset_id in sorted(found))


def declared_partitioning(declared: Produces | Source) -> Partitioning:
    """Return the partitions of an output or of a source."""
    return declared.partitioning.compiled() if declared.partitioning else Unpartitioned()


def partitioning_of(workflow: Workflow) -> Partitioning:
    """Return the partitions of the outputs of a workflow. All outputs have the same."""
    first = next((output for _, output in produced(workflow).values()), None)
    return declared_partitioning(first) if first else Unpartitioned()


def partitionings(workflows: Iterable[Workflow]) -> dict[str, Partitioning]:
    """Return the partitions of all outputs, by asset."""
    return {asset_id: partitioning_of(workflow) for workflow in workflows for asset_id in produced(workflow)}


def internal_inputs(workflow: Workflow) -> dict[str, set[str]]:
    """Return, by step, the inputs that other steps of the workflow produce in the same run."""
    maker = {asset_id: step_id for asset_id, (step_id, _) in produced(workflow).items()}
    return {
        step.id: {item.asset_id for item in step.consumes if maker.get(item.asset_id, step.id) != step.id}
        for step in workflow.steps
    }


def step_order(workflow: Workflow) -> tuple[Step, ...]:
    """Return the steps in the order of execution: each comes after the steps that it depends on or consumes from.

    Otherwise the declared order is kept. Raise `DefinitionError` with the path of a cycle.
    """
    before = dependencies(workflow)
    waiting = list(workflow.steps)
    ordered: list[Step] = []
    done: set[str] = set()
    while waiting:
        ready = next((step for step in waiting if before[step.id] <= done), None)
        if ready is None:
            raise DefinitionError(f"steps wait for each other: {' -> '.join(_cycle(before, done))}")
        waiting.remove(ready)
        ordered.append(ready)
        done.add(ready.id)
    return tuple(ordered)


def dependencies(workflow: Workflow) -> dict[str, set[str]]:
    """Return the steps that come before each step: `dependsOn`, and the producers of its inputs, except itself."""
    ids = {step.id for step in workflow.steps}
    maker = {asset_id: step_id for asset_id, (step_id, _) in produced(workflow).items()}
    return {
        step.id: {
            *(name for name in step.depends_on if name in ids),
            *(maker[item.asset_id] for item in step.consumes if item.asset_id in maker),
        }
        - {step.id}
        for step in workflow.steps
    }


def _cycle(before: dict[str, set[str]], done: set[str]) -> list[str]:
    """Return a cycle among the steps that are not done. Each of them waits for another one."""
    path = [min(before.keys() - done)]
    while True:
        path.append(min(before[path[-1]] - done))
        if path[-1] in path[:-1]:
            return list(reversed(path[path.index(path[-1]) :]))


def _both(first: Consumes, second: Consumes) -> Consumes:
    ages = [item.freshness.max_age_ms for item in (first, second) if item.freshness]
    return first.model_copy(
        update={
            "auto_materialize": first.auto_materialize or second.auto_materialize,
            "freshness": InputFreshness(max_age_ms=min(ages)) if ages else None,
        }
    )
