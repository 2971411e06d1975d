"""Runs are sent as OpenLineage events that fit the published schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from freshline.errors import UsageError
from freshline.model.run import ClaimedRun, StagedOutput
from freshline.services.webhook_sender import WebhookSender, try_out
from freshline.store.webhooks.subscriptions import RUNS, Webhook
from freshline.webhooks.openlineage import FACETS, SPEC
from tests.scenarios.test_partitions import divided
from tests.store_harness import Lab
from tests.webhooks.receiver import Receiver
from tests.webhooks.schemas import violations

DOCUMENTS = {
    one["$id"]: one
    for one in (json.loads(file.read_text("utf-8")) for file in Path(__file__).parent.glob("openlineage/*.json"))
}
EVENT = DOCUMENTS[f"{SPEC}/2-0-2/OpenLineage.json"]
COLUMNS = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": False, "metadata": {}},
        {"name": "place", "type": {"type": "struct", "fields": [{"name": "city", "type": "string"}]}},
        {"name": "tags", "type": {"type": "array", "elementType": "string", "containsNull": True}},
    ],
}
CHECKS = [
    {"check": "notNull: id", "severity": "error", "passed": True, "observed": 0},
    {"check": "minRows: 9", "severity": "warn", "passed": False, "observed": 3, "message": "3 rows"},
]


def outputs(run: ClaimedRun) -> list[StagedOutput]:
    """Return a table with columns, rows and checks."""
    return [StagedOutput(run.slug, "work", f"v:{run.id}", schema=COLUMNS, rows=3, bytes=99, checks=CHECKS)]


@pytest.fixture
def lineage_events(lab: Lab, receiver: Receiver) -> list[dict[str, Any]]:
    """Return the events of a run that succeeded, one that lost its worker and failed, and canceled ones."""
    lab.store.webhooks.add(Webhook("lineage", receiver.url, b"key-4711", "openlineage", RUNS))
    lab.report("a", "1")
    lab.work_with(outputs)
    lab.report("a", "2")
    lab.settle()
    lab.start()
    lab.advance(minutes=5)
    lab.store.runs.rescue(10)
    lab.fail(lab.start())
    lab.store.operations.cancel(lab.store.operations.request_run("b"))
    lab.store.operations.request_run("b")
    running = lab.start()
    lab.store.operations.cancel(running.id)
    lab.store.runs.cancel(running.id, running.attempt)
    lab.store.events.stamp_positions(1000)
    sender = WebhookSender(lab.store)
    while sender.run_once():
        pass
    return [one.event for one in receiver.received]


def test_every_event_fits_the_published_schema(lineage_events: list[dict[str, Any]]) -> None:
    """The event as a whole, and each facet by the schema that it names; a broken one does not."""
    assert len(lineage_events) >= 7
    for one in lineage_events:
        assert violations(one, EVENT, DOCUMENTS) == []
        for name, facet in facets(one):
            document, pointer = facet["_schemaURL"].split("#")
            assert violations(facet, {"$ref": f"{document}#{pointer}"}, DOCUMENTS) == [], name
    assert {name for one in lineage_events for name, _ in facets(one)} == set(FACETS)
    assert violations({**lineage_events[0], "eventType": "BEGIN"}, EVENT, DOCUMENTS)
    assert violations({**lineage_events[0], "run": {"runId": "1"}}, EVENT, DOCUMENTS)


def facets(event: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """All of them, with their names."""
    for thing in (event["run"], event["job"], *event["inputs"], *event["outputs"]):
        yield from thing["facets"].items()
        yield from thing.get("outputFacets", {}).items()


def test_every_run_begins_once_and_ends_once(lineage_events: list[dict[str, Any]]) -> None:
    """One START, RUNNING for each worker that took over, one end; a run that never started has no event."""
    runs: dict[str, list[str]] = {}
    for one in lineage_events:
        runs.setdefault(one["run"]["runId"], []).append(one["eventType"])
    assert list(runs.values()) == [["START", "COMPLETE"], ["START", "RUNNING", "FAIL"], ["START", "ABORT"]]


def test_data_is_told_with_its_version_columns_and_quality(lab: Lab, lineage_events: list[dict[str, Any]]) -> None:
    """Inputs as they were pinned; outputs with what was published, or as what would be."""
    start, complete = lineage_events[:2]
    namespace = f"freshline://{lab.store.warehouse_id}"
    assert (start["job"]["namespace"], start["job"]["name"]) == (namespace, "b")
    (read,) = start["inputs"]
    assert (read["namespace"], read["name"]) == (namespace, "a")
    assert read["facets"]["version"]["datasetVersion"] == "1"
    assert [one["name"] for one in start["outputs"]] == ["b"]
    assert start["run"]["facets"]["nominalTime"]["nominalStartTime"] == "2026-01-05T09:00:00.000000Z"
    (made,) = complete["outputs"]
    assert made["facets"]["version"]["datasetVersion"] == f"v:{complete['run']['runId']}"
    assert made["facets"]["schema"]["fields"] == [
        {"name": "id", "ordinal_position": 1, "type": "long"},
        {
            "name": "place",
            "ordinal_position": 2,
            "type": "struct",
            "fields": [{"name": "city", "ordinal_position": 1, "type": "string"}],
        },
        {"name": "tags", "ordinal_position": 3, "type": "array"},
    ]
    assert made["facets"]["dataQualityAssertions"]["assertions"] == [
        {"assertion": "notNull: id", "success": True, "severity": "error"},
        {"assertion": "minRows: 9", "success": False, "severity": "warn"},
    ]
    statistics = made["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"]) == (3, 99)
    (failed,) = [one for one in lineage_events if one["eventType"] == "FAIL"]
    assert failed["run"]["facets"]["errorMessage"]["message"] == "boom"


@pytest.mark.usefixtures("lineage_events")
def test_the_api_key_is_sent_and_told_nowhere(lab: Lab, receiver: Receiver) -> None:
    """It is a bearer token; there is no signature, because the receiver could not verify one."""
    headers = receiver.received[0].headers
    assert headers["authorization"] == "Bearer key-4711"
    assert "webhook-signature" not in headers
    assert headers["content-type"] == "application/json"
    assert "key-4711" not in str(lab.store.reader.webhooks())
    with pytest.raises(UsageError, match="a run that never was"):
        try_out(lab.store, "lineage")


def test_a_run_that_is_not_kept_is_told_without_its_data(lab: Lab, receiver: Receiver) -> None:
    """An event may outlive its run."""
    lab.store.webhooks.add(Webhook("lineage", receiver.url, b"", "openlineage"))
    lab.report("a", "1")
    lab.settle()
    lab.fail(lab.start())
    lab.store.events.stamp_positions(100)
    lab.rows("DELETE FROM decisions RETURNING 1")
    lab.rows("DELETE FROM runs RETURNING 1")
    sender = WebhookSender(lab.store)
    while sender.run_once():
        pass
    assert [one.event["eventType"] for one in receiver.received] == ["START", "FAIL"]
    for one in receiver.received:
        assert violations(one.event, EVENT, DOCUMENTS) == []
        assert "authorization" not in one.headers


def test_partitions_are_told_with_their_dataset(lab: Lab, receiver: Receiver) -> None:
    """An asset is one dataset, whatever the number of its partitions, and its version stands for all that were read."""
    days = {"time": "day", "start": "2026-01-01", "end": "2026-01-03"}
    source = {"assetId": "raw", "partitioning": days}
    lab.apply(divided("daily", {"raw": None}, days), divided("total", {"daily": None}), sources=(source,))
    for key in ("2026-01-01", "2026-01-02"):
        lab.report("raw", "v1", partition_key=key)
    lab.store.webhooks.add(Webhook("lineage", receiver.url, b"", "openlineage"))
    lab.work()
    lab.store.events.stamp_positions(1000)
    sender = WebhookSender(lab.store)
    while sender.run_once():
        pass
    ends = [one.event for one in receiver.received if one.event["eventType"] == "COMPLETE"]
    daily = {
        one["run"]["facets"]["freshline_partition"]["partitionKey"]: one for one in ends if "daily" in str(one["job"])
    }
    assert sorted(daily) == ["2026-01-01", "2026-01-02"]
    [read], [made] = daily["2026-01-01"]["inputs"], daily["2026-01-01"]["outputs"]
    assert (read["name"], read["facets"]["freshline_partitions"]["partitionKeys"]) == ("raw", ["2026-01-01"])
    assert (made["name"], made["facets"]["freshline_partitions"]["partitionKeys"]) == ("daily", ["2026-01-01"])
    total = [one for one in ends if "total" in str(one["job"])][-1]
    [read] = total["inputs"]
    assert read["facets"]["freshline_partitions"]["partitionKeys"] == ["2026-01-01", "2026-01-02"]
    assert read["facets"]["version"]["datasetVersion"].startswith("partitions:")
    assert "freshline_partition" not in total["run"]["facets"]
    for one in receiver.received:
        assert violations(one.event, EVENT, DOCUMENTS) == []
