"""Partitions over HTTP: `partitionKey` in bodies and queries, and the states of partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import Api, serving
from tests.scenarios.test_partitions import HOURS, divided
from tests.store_harness import laboratory

DAYS = {"time": "day", "start": "2025-12-30"}
REGIONS = {"dimensions": {"day": {"time": "day", "start": "2025-12-30"}, "region": {"keys": ["eu", "us"]}}}


@pytest.fixture(scope="module")
def api(module_database_url: str) -> Iterator[Api]:
    """Yield an API with days of hours, and a source with two dimensions."""
    with laboratory(module_database_url) as lab:
        regions = {"assetId": "regions", "partitioning": REGIONS}
        lab.apply(divided("daily", {"raw": {"require": "any"}}, DAYS), sources=(HOURS, regions))
        lab.report("raw", "v1", partition_key="2025-12-31T05")
        lab.work()
        with serving(lab) as api:
            yield api


def test_partitions_have_states_counts_and_pages(api: Api) -> None:
    """Equal states in a row are one entry; `next` continues."""
    found = api.get("/assets/daily/partitions", limit=1)
    assert found["items"] == [{"state": "missing", "from": "2026-01-01", "to": "2026-01-04", "count": 4}]
    assert (found["total"], found["counts"]["fresh"], found["newest"]) == (6, 1, "2026-01-04")
    rest = api.get("/assets/daily/partitions", after=found["next"])
    assert [one["state"] for one in rest["items"]] == ["fresh", "missing"]
    assert api.get("/assets/daily/partitions", partitionKey="2025-12-31")["items"][0]["state"] == "fresh"
    ranged: dict[str, Any] = {"from": "2025-12-31", "to": "2026-01-01", "state": "missing"}
    assert [one["to"] for one in api.get("/assets/daily/partitions", **ranged)["items"]] == ["2026-01-01"]


def test_a_report_a_run_and_listings_take_a_key(api: Api) -> None:
    """In the body of a request, or in the query; never in a path."""
    answer = api.post("/assets/raw/produced", {"partitionKey": "2026-01-02T07", "dataVersion": "v1"}, expect=202)
    assert answer["version"] == 1
    api.lab.work()
    [run] = api.get("/runs", workflow="daily", partitionKey="2026-01-02")["items"]
    assert (run["partitionKey"], run["inputs"][0]["partitionKey"]) == ("2026-01-02", "2026-01-02T07")
    assert run["trigger"]["upstream"][0]["partitionKey"] == "2026-01-02T07"
    [decision] = api.get("/assets/daily/why", partitionKey="2026-01-02", limit=1)["items"]
    assert decision["partitionKey"] == "2026-01-02"
    assert {
        one["partitionKey"] for one in api.get("/decisions", asset="daily", partitionKey="2026-01-02")["items"]
    } == {"2026-01-02"}
    events = api.get("/events", asset="daily", partitionKey="2026-01-02")["items"]
    assert {one["data"]["partitionKey"] for one in events} == {"2026-01-02"}


def test_a_key_of_dimensions_may_be_an_object(api: Api) -> None:
    """The values are joined in the order of the definition."""
    key = {"region": "eu", "day": "2025-12-31"}
    event = api.post("/assets/regions/produced", {"partitionKey": key}, expect=202)["eventId"]
    assert api.get(f"/events/{event}")["data"]["partitionKey"] == "2025-12-31|eu"
    wrong = api.post("/assets/regions/produced", {"partitionKey": {"region": "eu"}}, expect=422)
    assert "day" in wrong["detail"]


@pytest.mark.parametrize(
    ("path", "query", "said"),
    [
        ("/assets/daily/partitions", {"partitionKey": "2026-01-05"}, "does not exist before"),
        ("/assets/daily/partitions", {"from": "x"}, "'x' is not"),
        ("/assets/daily/partitions", {"state": "rotten"}, "state"),
        ("/runs", {"partitionKey": "2025-12-31"}, "belongs to an asset or a workflow"),
        ("/runs", {"asset": "daily", "partitionKey": "x" * 201}, "partitionKey"),
        ("/events", {"asset": "daily", "partitionKey": "x"}, "'x' is not"),
        ("/decisions", {"workflow": "daily", "partitionKey": ""}, "partitionKey"),
    ],
)
def test_a_wrong_key_is_a_problem(api: Api, path: str, query: dict[str, Any], said: str) -> None:
    """It says what is allowed."""
    assert said in api.get(path, expect=422, **query)["detail"]


def test_a_stream_of_a_wrong_key_is_refused(api: Api) -> None:
    """The error is the answer, not the end of the stream."""
    headers = {"Accept": "text/event-stream"}
    assert "'x' is not" in api.get("/events", expect=422, headers=headers, asset="daily", partitionKey="x")["detail"]


def test_no_keys_are_not_all_partitions(api: Api) -> None:
    """A list that came out empty must not compute everything again."""
    api.post("/backfills/preview", {"assetId": "daily", "keys": []}, expect=422)
    assert api.post("/backfills/preview", {"assetId": "daily"})["partitions"] == 6
