"""Compiles the blocks of outputs and inputs into the policy of a workflow (docs/semantics.md#R2.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from freshline.definitions.schema.base import Model
from freshline.definitions.schema.input_partitions import InputPartitions
from freshline.definitions.schema.timing import DAYS
from freshline.definitions.schema.workflow import AutoMaterialize, Consumes, Freshness, Produces, QuietHours, Workflow
from freshline.definitions.steps import external_inputs, own_inputs, partitioning_of, produced
from freshline.definitions.validation.problems import Loc, Problem, show
from freshline.errors import DefinitionError
from freshline.model import policy as model
from freshline.model.enums import Beyond, OnRetire, When

# The blocks of a workflow must have equal values for these fields, if they set them.
AGREED = (
    "when",
    "wait_for_upstream",
    "max_wait_ms",
    "debounce_ms",
    "max_delay_ms",
    "min_interval_ms",
    "parameter_defaults",
    "partitions",
)


def compile_policy(workflow: Workflow) -> model.Policy:
    """Return the policy that `decide` uses. Raise `DefinitionError` if blocks contradict each other.

    `declared` is false without any block. `automatic` is false if all blocks are disabled.
    """
    for problem in disagreements(workflow):
        raise DefinitionError(problem.message)
    blocks = [output.auto_materialize for _, output in produced(workflow).values() if output.auto_materialize]
    enabled = [block for block in blocks if block.enabled]
    updates = any(block.on_upstream_update for block in enabled)
    inputs = tuple(_input(item, updates=updates) for item in external_inputs(workflow))
    asked = any(stated_trigger(item) for item in external_inputs(workflow))
    return model.Policy(
        declared=bool(blocks) or asked,
        automatic=bool(enabled) or asked,
        on_missing=any(block.on_missing for block in enabled),
        priority=min((block.priority for block in enabled), default=AutoMaterialize().priority),
        **_agreed(enabled),
        backoff=_backoff(workflow),
        quiet_hours=tuple(_quiet(hours) for hours in workflow.quiet_hours),
        inputs=inputs,
        outputs=tuple(_output(output) for _, (_, output) in sorted(produced(workflow).items())),
        **_of_partitions(workflow, enabled, updates=updates),
    )


def disagreements(workflow: Workflow) -> Iterator[Problem]:
    """Yield contradictions between the enabled blocks of a workflow, and between steps that consume one input."""
    yield from _blocks_that_disagree(workflow)
    yield from _inputs_that_disagree(workflow)


def stated_trigger(consumes: Consumes) -> bool | None:
    """Return the `onUpstreamUpdate` of an input, or None if it is not set (docs/semantics.md#R2.3)."""
    block = consumes.auto_materialize
    if block is None or "on_upstream_update" not in block.model_fields_set:
        return None
    return block.on_upstream_update


def _blocks_that_disagree(workflow: Workflow) -> Iterator[Problem]:
    first: dict[str, tuple[Loc, str, Any]] = {}
    for loc, asset_id, block in _enabled_blocks(workflow):
        for name in AGREED:
            if name not in block.model_fields_set:
                continue
            field, value = AutoMaterialize.model_fields[name].alias or name, getattr(block, name)
            here = (*loc, field)
            other_loc, other_asset, other = first.setdefault(name, (here, asset_id, value))
            if other != value:
                yield Problem(
                    here,
                    f"'{field}' is {_shown(value)}, but {_shown(other)} for asset {other_asset!r}; "
                    "the outputs of a workflow must agree",
                    see=other_loc,
                )


def _shown(value: Any) -> str:
    return show(value.model_dump(by_alias=True)) if isinstance(value, Model) else repr(value)


def _inputs_that_disagree(workflow: Workflow) -> Iterator[Problem]:
    first: dict[str, tuple[Loc, bool]] = {}
    for s, step in enumerate(workflow.steps):
        for c, item in enumerate(step.consumes):
            stated = stated_trigger(item)
            if stated is None:
                continue
            loc: Loc = ("steps", s, "consumes", c, "autoMaterialize", "onUpstreamUpdate")
            other_loc, other = first.setdefault(item.asset_id, (loc, stated))
            if other != stated:
                yield Problem(loc, "steps disagree about 'onUpstreamUpdate' of one input; use one value", see=other_loc)


def _enabled_blocks(workflow: Workflow) -> Iterator[tuple[Loc, str, AutoMaterialize]]:
    for s, step in enumerate(workflow.steps):
        for p, output in enumerate(step.produces):
            block = output.auto_materialize
            if block is not None and block.enabled:
                yield ("steps", s, "produces", p, "autoMaterialize"), output.asset_id, block


def _agreed(enabled: list[AutoMaterialize]) -> dict[str, Any]:
    stated = {name: getattr(block, name) for block in enabled for name in AGREED if name in block.model_fields_set}
    stated.pop("partitions", None)
    if "when" in stated:
        stated["when"] = When(stated["when"])
    return stated


def _of_partitions(workflow: Workflow, enabled: list[AutoMaterialize], *, updates: bool) -> dict[str, Any]:
    """Return the fields of the policy that are about partitions: none of a workflow without partitions."""
    partitioning = partitioning_of(workflow).as_json()
    if not partitioning:
        return {}
    first = next(output for _, output in produced(workflow).values())
    limit = next((block.partitions for block in enabled if block.partitions), None)
    return {
        "partitioning": partitioning,
        "predecessors": tuple(_input(item, updates=updates) for item in own_inputs(workflow)),
        "flood": model.Flood(limit.limit, Beyond(limit.beyond)) if limit else model.Flood(),
        "retain_ms": first.retain_ms,
        "frozen_after_ms": first.frozen_after_ms,
        "batch": all(step.batch for step in workflow.steps),
    }


def _input(item: Consumes, *, updates: bool) -> model.InputPolicy:
    stated = stated_trigger(item)
    ignored = item.partitions is not None and item.partitions.affects == "none"
    return model.InputPolicy(
        asset_id=item.asset_id,
        triggers=not ignored and (updates if stated is None else stated),
        max_age_ms=item.freshness.max_age_ms if item.freshness else None,
        partitions=_declared(item.partitions) if item.partitions else None,
    )


def _declared(block: InputPartitions) -> model.InputPartitions:
    return model.InputPartitions(
        mapping=block.declared().as_json(),
        require=block.require,
        grace_ms=block.grace_ms,
        on_retire=OnRetire(block.on_retire) if block.on_retire else None,
    )


def _output(output: Produces) -> model.OutputPolicy:
    return model.OutputPolicy(
        asset_id=output.asset_id,
        enabled=output.auto_materialize is not None and output.auto_materialize.enabled,
        optional=output.optional,
        freshness=compile_freshness(output.freshness or Freshness()),
    )


def compile_freshness(freshness: Freshness) -> model.Freshness:
    """Return the compiled freshness."""
    return model.Freshness(
        ttl_ms=freshness.ttl_ms,
        cadence_ms=freshness.cadence_ms,
        offset_ms=freshness.offset_ms or 0,
        cron=freshness.cron,
        timezone=freshness.timezone or "UTC",
        max_age_ms=freshness.max_age_ms,
        partitions=freshness.partitions.latest if freshness.partitions else 1,
    )


def _backoff(workflow: Workflow) -> model.Backoff:
    return model.Backoff(**workflow.backoff.model_dump()) if workflow.backoff else model.Backoff()


def _quiet(hours: QuietHours) -> model.QuietHours:
    days = tuple(sorted({DAYS.index(day) for day in hours.days}))
    return model.QuietHours(start=hours.from_, end=hours.to, days=days, timezone=hours.timezone)
