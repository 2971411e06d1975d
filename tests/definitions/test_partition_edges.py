"""Every edge of partitions is resolved from both of its sides, also across projects."""

from __future__ import annotations

from typing import Any

import pytest

from freshline.definitions.partition_edges import PartitionEdge, edge_between, resolve
from freshline.definitions.policy import compile_policy
from freshline.definitions.schema.workflow import Workflow
from freshline.model.enums import OnRetire
from freshline.model.policy import InputPartitions
from freshline.partitions import Partitioning, Requirement, Unpartitioned, from_json

HOURS = from_json({"time": "hour", "start": "2024-01-01"})
DAYS = from_json({"time": "day", "start": "2024-01-01"})
MONTHS = from_json({"time": "month", "start": "2024-01-01"})
BOTH = from_json({"dimensions": {"day": {"time": "day", "start": "2024-01-01"}, "region": {"keys": ["eu", "us"]}}})
NONE = Unpartitioned()


def workflow(slug: str, partitioning: dict[str, Any] | None, *consumes: dict[str, Any]) -> Workflow:
    """Return a workflow that produces an asset with its slug as id."""
    produces = {"assetId": slug, **({"partitioning": partitioning} if partitioning else {})}
    step = {"id": "x", "job": {"kind": "python", "entrypoint": "m:f"}, "consumes": consumes, "produces": [produces]}
    return Workflow.model_validate({"slug": slug, "steps": [step]})


def resolved(known: dict[str, Partitioning], *workflows: Workflow) -> dict[tuple[str, str], PartitionEdge]:
    """Return the edges; none may be refused."""
    edges = resolve({one.slug: compile_policy(one) for one in workflows}, known)
    assert edges.refused == ()
    return dict(edges.resolved)


def test_each_side_has_its_own_partitions() -> None:
    """A day reads its hours, and an hour is read by its day: the input and the consumer are not interchanged."""
    mapping = edge_between(HOURS, DAYS, None).mapping
    hours = mapping.up("2024-01-02")
    assert [HOURS.select([key]).intersection(hours).is_empty for key in ("2024-01-02T00", "2024-01-03T00")] == [
        False,
        True,
    ]
    assert mapping.down("2024-01-02T23") == DAYS.select(["2024-01-02"])
    assert (mapping.input, mapping.consumer) == (HOURS, DAYS)


def test_edges_of_a_graph() -> None:
    """Edges to and from partitions are resolved; those without any, and those of unknown assets, are left out."""
    day = {"time": "day", "start": "2024-01-01"}
    edges = resolved(
        {"hours": HOURS, "days": DAYS, "plain": NONE, "rates": NONE},
        workflow("days", day, {"assetId": "hours"}, {"assetId": "rates"}, {"assetId": "unknown"}),
        workflow("total", None, {"assetId": "days"}, {"assetId": "rates"}),
        workflow("plain", None, {"assetId": "rates"}),
    )
    assert set(edges) == {("hours", "days"), ("rates", "days"), ("days", "total")}


def test_an_edge_to_the_own_output() -> None:
    """It is resolved too, and must lead to earlier partitions."""
    day = {"time": "day", "start": "2024-01-01"}
    earlier = {"assetId": "days", "partitions": {"window": {"from": -1, "to": -1}}}
    (edge,) = resolved({"days": DAYS}, workflow("days", day, earlier)).values()
    assert edge.mapping.up("2024-01-03") == DAYS.select(["2024-01-02"])
    refused = resolve({"days": compile_policy(workflow("days", day, {"assetId": "days"}))}, {"days": DAYS}).refused
    assert [(one.edge, one.field) for one in refused] == [(("days", "days"), None)]


def test_an_input_of_another_project() -> None:
    """A mapping that is unknown when a project is loaded is refused once the partitions of the input are known."""
    policies = {
        "months": compile_policy(workflow("months", {"time": "month", "start": "2024-01-01"}, {"assetId": "weeks"}))
    }
    assert resolve(policies, {}) == resolve(policies, {"other": NONE})
    (one,) = resolve(policies, {"weeks": from_json({"time": "week", "start": "2024-01-01"})}).refused
    assert one.message.startswith("months in UTC do not consist of whole weeks in UTC")
    assert one.hint is not None


@pytest.mark.parametrize(
    ("read", "consumer", "declared", "requirement", "on_retire"),
    [
        (HOURS, DAYS, {}, Requirement(), "keep"),
        (DAYS, NONE, {}, Requirement(percent=0, count=1), "recompute"),
        (DAYS, DAYS, {"mapping": {"latest": 2}}, Requirement(percent=0, count=1), "recompute"),
        (BOTH, DAYS, {}, Requirement(), "keep"),
        (NONE, DAYS, {}, Requirement(), "keep"),
        (HOURS, DAYS, {"require": "80%", "grace_ms": 5}, Requirement(percent=80, grace_ms=5), "keep"),
        (DAYS, NONE, {"require": "all", "on_retire": OnRetire.KEEP}, Requirement(), "keep"),
        (HOURS, DAYS, {"on_retire": OnRetire.RECOMPUTE}, Requirement(), "recompute"),
    ],
)
def test_what_is_required(
    read: Partitioning, consumer: Partitioning, declared: dict[str, Any], requirement: Requirement, on_retire: str
) -> None:
    """All keys by default, but one for `all` and `latest`; those are recomputed when a key is retired."""
    edge = edge_between(read, consumer, InputPartitions(**declared))
    assert (edge.requirement, edge.on_retire) == (requirement, on_retire)


def test_the_time_column_lets_partitions_overlap() -> None:
    """With it, days that begin within an hour can be made of hours."""
    kolkata = from_json({"time": "day", "start": "2024-01-01", "timezone": "Asia/Kolkata"})
    assert edge_between(HOURS, kolkata, InputPartitions({"timeColumn": "t"})).time_column == "t"
