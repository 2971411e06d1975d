"""The compiled policy, the fingerprints and the values for `@asset` of workflows with partitions."""

from __future__ import annotations

import copy
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import freshline
from freshline import (
    affects,
    all_partitions,
    by_dimension,
    daily,
    dimensions,
    dynamic,
    hourly,
    keys,
    latest,
    minutely,
    monthly,
    overlap,
    pick,
    same,
    ttl,
    weekly,
    window,
    yearly,
)
from freshline.definitions.fingerprint import job_fingerprint
from freshline.definitions.policy import compile_policy
from freshline.definitions.schema.partitioning import Partitioning
from freshline.definitions.schema.workflow import Workflow, workflow_json
from freshline.errors import DefinitionError
from freshline.model.enums import Beyond, OnRetire
from freshline.model.policy import Flood, InputPartitions, Policy
from tests.definitions.projects import always, loaded, mistakes

DAY = {"time": "day", "start": "2024-01-01"}
SALES: dict[str, Any] = {
    "slug": "sales",
    "steps": [
        {
            "id": "x",
            "job": {"kind": "python", "entrypoint": "m:f"},
            "batch": True,
            "consumes": [
                {"assetId": "hours", "partitions": {"require": "80%", "grace": "2h", "onRetire": "keep"}},
                {"assetId": "sales", "partitions": {"window": {"from": -1, "to": -1}}},
            ],
            "produces": [
                {
                    "assetId": "sales",
                    "partitioning": {**DAY, "timezone": "Europe/Berlin"},
                    "autoMaterialize": {"onUpstreamUpdate": True, "partitions": {"limit": 5, "beyond": "ignore"}},
                    "freshness": {"ttl": "1d", "partitions": {"latest": 3}},
                    "retain": "730d",
                    "frozenAfter": "90d",
                }
            ],
        }
    ],
}


def edited(path: str, value: object) -> Workflow:
    """Return the workflow with one changed field."""
    data = copy.deepcopy(SALES)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    block: Any = data
    for part in parents:
        block = block.setdefault(part, {}) if isinstance(block, dict) else block[part]
    block[last] = value
    return Workflow.model_validate(data)


def test_the_policy_has_everything_about_partitions() -> None:
    """What `decide`, the store and the graph need is in the policy, also after it was stored."""
    policy = compile_policy(Workflow.model_validate(SALES))
    assert policy.partitioning == {"time": "day", "start": "2024-01-01", "timezone": "Europe/Berlin"}
    assert (policy.flood, policy.retain_ms, policy.frozen_after_ms) == (
        Flood(5, Beyond.IGNORE),
        730 * 86_400_000,
        90 * 86_400_000,
    )
    assert [(one.asset_id, one.triggers) for one in (*policy.inputs, *policy.predecessors)] == [
        ("hours", True),
        ("sales", True),
    ]
    assert policy.inputs[0].partitions == InputPartitions({}, "80%", 7_200_000, OnRetire.KEEP)
    assert policy.predecessors[0].partitions == InputPartitions({"window": {"from": -1, "to": -1}})
    assert (policy.outputs[0].freshness.partitions, policy.batch) == (3, True)
    assert Policy.from_json(json.loads(json.dumps(policy.as_json()))) == policy


def test_a_policy_without_partitions_is_stored_as_before() -> None:
    """Nothing is added to it: a process of an older version reads it, and an upgrade changes no stored policy."""
    data = copy.deepcopy(SALES)
    step = data["steps"][0]
    step.update(consumes=[{"assetId": "hours"}], produces=[{"assetId": "sales"}], batch=False)
    stored = compile_policy(Workflow.model_validate(data)).as_json()
    assert not {"partitioning", "predecessors", "flood", "retain_ms", "frozen_after_ms", "batch"} & stored.keys()
    assert stored["inputs"][0].keys() == {"asset_id", "triggers", "max_age_ms"}
    assert "partitions" not in stored["outputs"][0]["freshness"]
    assert Policy.from_json(stored).flood == Flood()


def test_the_order_of_dimensions_is_stored() -> None:
    """PostgreSQL sorts the fields of an object; the order of the values in a key must not follow that."""
    block = {"dimensions": {"region": {"keys": ["eu"]}, "day": DAY}}
    workflow = edited("steps/0/produces/0/partitioning", block)
    stored = Workflow.model_validate(json.loads(json.dumps(workflow_json(workflow), sort_keys=True)))
    made = stored.steps[0].produces[0].partitioning
    assert made is not None
    assert made.compiled().example == "eu|2024-01-01"
    assert compile_policy(stored) == compile_policy(workflow)


PARTITIONING = "steps/0/produces/0/partitioning"
MAPPING = "steps/0/consumes/0/partitions"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{PARTITIONING}/time", "month"),
        (f"{PARTITIONING}/timezone", "Europe/Lisbon"),
        (f"{PARTITIONING}/column", "business_day"),
        (PARTITIONING, {"keys": ["eu"]}),
        (PARTITIONING, {"dimensions": {"day": DAY, "region": {"keys": ["eu"]}}}),
        (PARTITIONING, None),
        (MAPPING, {"window": {"from": -6, "to": 0}}),
        (MAPPING, {"latest": 1}),
        (MAPPING, "all"),
        (MAPPING, {"pick": {"region": "eu"}}),
        (f"{MAPPING}/timeColumn", "t"),
        ("steps/0/consumes/1/partitions/window", {"from": -2, "to": -1}),
    ],
)
def test_what_changes_the_job(path: str, value: object) -> None:
    """A changed grain, zone, column or mapping changes what a run reads or writes, so every partition is stale."""
    assert job_fingerprint(edited("slug", "sales"), always("")) != job_fingerprint(edited(path, value), always(""))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{PARTITIONING}/start", "2023-01-01"),
        (f"{PARTITIONING}/end", "2025-01-01"),
        (f"{PARTITIONING}/open", True),
        (f"{PARTITIONING}/column", "day"),
        (MAPPING, {}),
        (MAPPING, None),
        (MAPPING, "overlap"),
        (MAPPING, {"window": {"from": 0, "to": 0}}),
        (f"{MAPPING}/require", "all"),
        (f"{MAPPING}/grace", "5h"),
        (f"{MAPPING}/onRetire", "recompute"),
        ("steps/0/produces/0/retain", "100d"),
        ("steps/0/produces/0/frozenAfter", "80d"),
        ("steps/0/produces/0/freshness/partitions", {"latest": 9}),
        ("steps/0/produces/0/autoMaterialize/partitions", {"limit": 7}),
        ("steps/0/batch", False),
    ],
)
def test_what_does_not_change_the_job(path: str, value: object) -> None:
    """Which partitions exist, are required, kept or recomputed says nothing about what is in them."""
    assert job_fingerprint(edited("slug", "sales"), always("")) == job_fingerprint(edited(path, value), always(""))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"keys": ["eu"]}, {"keys": ["eu", "us"]}),
        ({"dynamic": {}}, {"dynamic": {"limit": 5}}),
        ({"keys": ["eu"]}, {"dynamic": {}}),
    ],
)
def test_more_keys_do_not_change_the_job(one: dict[str, Any], other: dict[str, Any]) -> None:
    """A longer list or a higher limit adds partitions, and leaves the others as they are."""
    first, second = edited(PARTITIONING, one), edited(PARTITIONING, other)
    assert job_fingerprint(first, always("")) == job_fingerprint(second, always(""))


def test_all_is_the_default_of_a_consumer_without_partitions() -> None:
    """Writing it out changes nothing there."""
    plain = {"assetId": "total"}
    step = {"id": "x", "job": {"kind": "python", "entrypoint": "m:f"}, "produces": [plain]}
    data: dict[str, Any] = {"slug": "total", "steps": [{**step, "consumes": [{"assetId": "days"}]}]}
    written = {"slug": "total", "steps": [{**step, "consumes": [{"assetId": "days", "partitions": "all"}]}]}
    assert job_fingerprint(Workflow.model_validate(data), always("")) == job_fingerprint(
        Workflow.model_validate(written), always("")
    )


@pytest.mark.parametrize(
    ("made", "written"),
    [
        (minutely("2024-01-01"), {"time": "minute", "start": "2024-01-01"}),
        (hourly("2024-01-01", open=True), {"time": "hour", "start": "2024-01-01", "open": True}),
        (daily(date(2024, 1, 1), timezone="Europe/Berlin"), {**DAY, "timezone": "Europe/Berlin"}),
        (daily("2024-01-01", column="d", end="2025-01-01"), {**DAY, "column": "d", "end": "2025-01-01"}),
        (weekly("2024-01-01"), {"time": "week", "start": "2024-01-01"}),
        (monthly("2024-01-01"), {"time": "month", "start": "2024-01-01"}),
        (yearly("2024"), {"time": "year", "start": 2024}),
        (keys("eu", "us"), {"keys": ["eu", "us"]}),
        (dynamic(limit=5), {"dynamic": {"limit": 5}}),
        (dynamic(), {"dynamic": {}}),
        (
            dimensions(day=daily("2024-01-01"), region=keys("eu")),
            {"dimensions": {"day": DAY, "region": {"keys": ["eu"]}}},
        ),
    ],
)
def test_partitionings_in_python(made: Partitioning, written: dict[str, Any]) -> None:
    """Each value is what YAML would say."""
    expected = Partitioning.model_validate(written)
    assert (made.compiled(), made.columns()) == (expected.compiled(), expected.columns())


@pytest.mark.parametrize(
    ("made", "written"),
    [
        (same("a"), {"same": True}),
        (overlap("a", whole=True), {"overlap": "whole"}),
        (
            window("a", -6, 0, require="80%", grace="2h"),
            {"window": {"from": -6, "to": 0}, "require": "80%", "graceMs": 7_200_000},
        ),
        (all_partitions("a", on_retire="keep"), {"all": True, "onRetire": "keep"}),
        (latest("a", 3, time_column="t"), {"latest": 3, "timeColumn": "t"}),
        (pick("a", region="eu"), {"pick": {"region": "eu"}}),
        (
            by_dimension("a", day={"latest": 1}, region="all"),
            {"dimensions": {"day": {"latest": 1}, "region": {"all": True}}},
        ),
        (affects("a", "latest"), {"affects": "latest"}),
    ],
)
def test_mappings_in_python(made: dict[str, Any], written: dict[str, Any]) -> None:
    """Each value is a `consumes` block."""
    assert made == {"assetId": "a", "partitions": written}


def test_decorated_functions_have_partitions(tmp_path: Path) -> None:
    """`@asset` takes them, and a mistake has the line of the user's file."""
    text = (
        "from freshline import asset, daily, window\n\n"
        "@asset('week', partitioning=daily('2024-01-01'), inputs={'s': window('days', -6, 0)}, retain='90d',\n"
        "       frozen_after='9d', batch=False)\n"
        "def week(ctx, s): ...\n"
    )
    sources = {"sources/days.yaml": "assetId: days\npartitioning: {time: day, start: 2024-01-01}\n"}
    (found,) = loaded(tmp_path, {**sources, "workflows/week.py": text}).workflows
    assert (found.policy.partitioning, found.policy.frozen_after_ms) == (DAY, 9 * 86_400_000)
    assert found.policy.inputs[0].partitions == InputPartitions({"window": {"from": -6, "to": 0}})
    wrong = mistakes(tmp_path, {**sources, "workflows/week.py": text.replace("-6, 0", "1, 0")})
    assert wrong == ["workflows/week.py:3: 'from' is 1; allowed is 0 (to) or less"]


def test_values_name_what_is_wrong() -> None:
    """Without a project a value raises the same sentence."""
    with pytest.raises(DefinitionError, match="'Europe/Berln' is not a time zone"):
        daily("2024-01-01", timezone="Europe/Berln")
    assert ttl(hours=1, latest=3).partitions is not None
    assert {"daily", "window", "by_dimension"} <= set(freshline.__all__)
