"""The merged policy of a workflow (docs/semantics.md#R2)."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshline.definitions.policy import compile_policy
from freshline.definitions.schema.workflow import Workflow
from freshline.errors import DefinitionError
from freshline.model.enums import When
from freshline.model.policy import Backoff, Freshness, Policy, QuietHours
from tests.definitions.projects import mistakes


def workflow(*outputs: dict[str, Any] | None, inputs: dict[str, Any] | None = None, **fields: Any) -> Workflow:
    """Return a workflow with one output per block, and inputs by name with their blocks."""
    produces = [_asset(f"o{number}", block) for number, block in enumerate(outputs)]
    consumes = [_asset(name, block) for name, block in (inputs or {}).items()]
    step = {"id": "x", "job": {"kind": "python", "entrypoint": "m:f"}, "produces": produces, "consumes": consumes}
    return Workflow.model_validate({"slug": "w", "steps": [step], **fields})


def _asset(name: str, block: dict[str, Any] | None) -> dict[str, Any]:
    return {"assetId": name} if block is None else {"assetId": name, "autoMaterialize": block}


def test_defaults_of_a_block() -> None:
    """An empty block is enabled, runs what is missing, and waits for upstream up to an hour.

    See docs/semantics.md#R2.2.
    """
    policy = compile_policy(workflow({}, inputs={"i": None}))
    assert (policy.declared, policy.automatic, policy.on_missing, policy.priority) == (True, True, True, 100)
    assert (policy.when, policy.wait_for_upstream, policy.max_wait_ms) == (When.ANY, True, 3_600_000)
    assert (policy.debounce_ms, policy.max_delay_ms, policy.min_interval_ms) == (0, None, 0)
    assert [one.triggers for one in policy.inputs] == [False]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (workflow(None, inputs={"i": None}), (False, False, False)),
        (workflow({"enabled": False}, inputs={"i": None}), (True, False, False)),
        (workflow({"enabled": False}, {}, inputs={"i": None}), (True, True, True)),
        (workflow(None, inputs={"i": {"onUpstreamUpdate": True}}), (True, True, False)),
        (workflow(None, inputs={"i": {"onUpstreamUpdate": False}}), (False, False, False)),
        (workflow({"onMissing": False}, inputs={"i": None}), (True, True, False)),
        (workflow({"onMissing": False}, {"onMissing": True}), (True, True, True)),
    ],
)
def test_declared_automatic_and_on_missing(made: Workflow, expected: tuple[bool, bool, bool]) -> None:
    """No block is not-auto, disabled blocks are policy-off, an input that says so makes a workflow automatic.

    See docs/semantics.md#R2.1.
    """
    policy = compile_policy(made)
    assert (policy.declared, policy.automatic, policy.on_missing) == expected


def test_inputs_override_whether_they_trigger() -> None:
    """An input's own word wins over the outputs'; one that says nothing follows them (docs/semantics.md#R2.3)."""
    blocks = {"a": None, "b": {"onUpstreamUpdate": False}, "c": {"onUpstreamUpdate": True}, "d": {"priority": 3}}
    for merged in (True, False):
        policy = compile_policy(workflow({"onUpstreamUpdate": merged}, inputs=blocks))
        assert {one.asset_id: one.triggers for one in policy.inputs} == {
            "a": merged,
            "b": False,
            "c": True,
            "d": merged,
        }


def test_everything_declared_reaches_the_policy() -> None:
    """Freshness, ages, quiet hours, backoff and waits arrive in milliseconds and words of the model."""
    step = {
        "id": "x",
        "job": {"kind": "python", "entrypoint": "m:f"},
        "consumes": [{"assetId": "i", "freshness": {"maxAge": "2h"}}],
        "produces": [
            {
                "assetId": "o",
                "optional": True,
                "freshness": {"cadence": "15m", "offset": "1m", "cron": "0 6 * * *", "timezone": "Europe/Vienna"},
                "autoMaterialize": {"when": "all", "waitForUpstream": False, "maxWait": "1m", "debounce": "10s"}
                | {"maxDelay": "60s", "minInterval": "5s", "parameterDefaults": {"a": [1]}},
            }
        ],
    }
    quiet = [{"from": "22:00", "to": "06:00", "days": ["sun", "mon"], "timezone": "Europe/Vienna"}]
    policy = compile_policy(
        Workflow.model_validate(
            {"slug": "w", "steps": [step], "quietHours": quiet, "backoff": {"base": "1s", "budget": 2}}
        )
    )
    assert policy.inputs[0].max_age_ms == 7_200_000
    assert policy.outputs[0].optional
    assert policy.outputs[0].freshness == Freshness(None, 900_000, 60_000, "0 6 * * *", "Europe/Vienna", None)
    assert (policy.when, policy.wait_for_upstream, policy.max_wait_ms) == (When.ALL, False, 60_000)
    assert (policy.debounce_ms, policy.max_delay_ms, policy.min_interval_ms) == (10_000, 60_000, 5_000)
    assert policy.parameter_defaults == {"a": [1]}
    assert policy.quiet_hours == (QuietHours("22:00", "06:00", (0, 6), "Europe/Vienna"),)
    assert policy.backoff == Backoff(base_ms=1_000, budget=2)


def test_steps_that_consume_one_asset_speak_together() -> None:
    """The strictest age and the stated trigger of several steps count once."""
    job = {"kind": "python", "entrypoint": "m:f"}
    steps = [
        {"id": "a", "job": job, "consumes": [{"assetId": "i", "freshness": {"maxAge": "2h"}}]},
        {"id": "b", "job": job, "consumes": [{"assetId": "i", "autoMaterialize": {"onUpstreamUpdate": True}}]},
        {"id": "c", "job": job, "consumes": [{"assetId": "i", "freshness": {"maxAge": "1h"}}]},
    ]
    policy = compile_policy(Workflow.model_validate({"slug": "w", "steps": steps}))
    assert [(one.triggers, one.max_age_ms) for one in policy.inputs] == [(True, 3_600_000)]


@pytest.mark.parametrize(
    ("field", "one", "other"),
    [
        ("when", "any", "all"),
        ("waitForUpstream", True, False),
        ("maxWaitMs", 1, 2),
        ("debounceMs", 1, 2),
        ("maxDelayMs", 1, 2),
        ("minIntervalMs", 1, 2),
        ("parameterDefaults", {}, {"a": 1}),
    ],
)
def test_blocks_that_disagree_are_refused(field: str, one: object, other: object) -> None:
    """Waits, delays and `when` must agree where two enabled blocks state them, and only there.

    See docs/semantics.md#R2.1.
    """
    with pytest.raises(DefinitionError, match=f"'{field}' is .*the outputs of a workflow must agree"):
        compile_policy(workflow({field: one}, {field: other}))
    compile_policy(workflow({field: one}, {field: other, "enabled": False}))
    compile_policy(workflow({field: one}, {}, {field: one}))


def test_a_disagreement_shows_both_places(tmp_path: Path) -> None:
    """The loader names the lines of both blocks, and inputs that two steps treat differently."""
    text = """
        slug: w
        steps:
          - id: a
            job: {kind: python, entrypoint: "jobs:run"}
            consumes: [{assetId: i, autoMaterialize: {onUpstreamUpdate: true}}]
            produces:
              - {assetId: x, autoMaterialize: {debounce: 1s}}
              - {assetId: y, autoMaterialize: {debounceMs: 2000}}
          - id: b
            job: {kind: python, entrypoint: "jobs:run"}
            consumes: [{assetId: i, autoMaterialize: {onUpstreamUpdate: false}}]
    """
    assert mistakes(tmp_path, {"workflows/w.yaml": text, "jobs.py": "def run(ctx): ..."}) == [
        (
            "workflows/w.yaml:9: asset 'y': 'debounceMs' is 2000, but 1000 for asset 'x'; "
            "the outputs of a workflow must agree (see workflows/w.yaml:8)"
        ),
        (
            "workflows/w.yaml:12: asset 'i': steps disagree about 'onUpstreamUpdate' of one input; use one value "
            "(see workflows/w.yaml:6)"
        ),
    ]


BLOCKS = st.lists(
    st.none()
    | st.fixed_dictionaries(
        {},
        optional={
            "enabled": st.booleans(),
            "onUpstreamUpdate": st.booleans(),
            "onMissing": st.booleans(),
            "priority": st.integers(0, 200),
        },
    ),
    min_size=1,
    max_size=4,
)


@given(BLOCKS, st.randoms())
def test_merging_is_the_same_in_every_order(blocks: list[dict[str, Any] | None], random: Random) -> None:
    """OR, smallest and agreement do not depend on the order of outputs; disabled blocks change nothing else."""
    shuffled = random.sample(blocks, len(blocks))
    enabled = [block for block in blocks if block is not None and block.get("enabled", True)]
    one, other = (compile_policy(workflow(*order, inputs={"i": None})) for order in (blocks, shuffled))
    for policy in (one, other):
        assert policy.declared == any(block is not None for block in blocks)
        assert policy.automatic == bool(enabled)
        assert policy.on_missing == any(block.get("onMissing", True) for block in enabled)
        assert policy.priority == min((block.get("priority", 100) for block in enabled), default=100)
        assert policy.inputs[0].triggers == any(block.get("onUpstreamUpdate", False) for block in enabled)


@given(BLOCKS)
def test_a_policy_survives_the_store(blocks: list[dict[str, Any] | None]) -> None:
    """What the store keeps as JSON gives the same policy back."""
    policy = compile_policy(workflow(*blocks, inputs={"i": None}))
    assert Policy.from_json(policy.as_json()) == policy
