"""Compiles the blocks of outputs and inputs into the policy of a workflow (docs/semantics.md#R2.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from freshline.definitions.schema.timing import DAYS
from freshline.definitions.schema.workflow import AutoMaterialize, Consumes, Freshness, Produces, QuietHours, Workflow
from freshline.definitions.steps import external_inputs, produced
from freshline.definitions.validation.problems import Loc, Problem
from freshline.errors import DefinitionError
from freshline.model import policy as model
from freshline.model.enums import When

# The blocks of a workflow must have equal values for these fields, if they set them.
AGREED = (
    "when",
    "wait_for_upstream",
    "max_wait_ms",
    "debounce_ms",
    "max_delay_ms",
    "min_interval_ms",
    "parameter_defaults",
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
                    f"'{field}' is {value!r}, but {other!r} for asset {other_asset!r}; "
                    "the outputs of a workflow must agree",
                    see=other_loc,
                )


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
    if "when" in stated:
        stated["when"] = When(stated["when"])
    return stated


def _input(item: Consumes, *, updates: bool) -> model.InputPolicy:
    stated = stated_trigger(item)
    return model.InputPolicy(
        asset_id=item.asset_id,
        triggers=updates if stated is None else stated,
        max_age_ms=item.freshness.max_age_ms if item.freshness else None,
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
    )


def _backoff(workflow: Workflow) -> model.Backoff:
    return model.Backoff(**workflow.backoff.model_dump()) if workflow.backoff else model.Backoff()


def _quiet(hours: QuietHours) -> model.QuietHours:
    days = tuple(sorted({DAYS.index(day) for day in hours.days}))
    return model.QuietHours(start=hours.from_, end=hours.to, days=days, timezone=hours.timezone)
