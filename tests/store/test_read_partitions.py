"""Partitions as readers see them: states, counts, pages, filters, and the outcomes of an event per partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from freshline.errors import NotFoundError, PartitionKeyError, UsageError
from freshline.model.documents.partition import WantedPartitions
from freshline.model.enums import PartitionState
from freshline.store.evaluation import partitions
from tests.scenarios.test_partitions import HOURS, MONTHS, divided, sales
from tests.store_harness import Lab, laboratory

DAYS: dict[str, Any] = {"time": "day", "start": "2025-12-28"}
MINUTES: dict[str, Any] = {"assetId": "minutes", "partitioning": {"time": "minute", "start": "2024-01-01"}}


@pytest.fixture(scope="module")
def lab(module_database_url: str) -> Iterator[Lab]:
    """Yield a lab with days in several states. The tests only read."""
    with laboratory(module_database_url) as lab:
        days(lab)
        yield lab


@pytest.fixture
def other(database_url: str) -> Iterator[Lab]:
    """Yield an empty lab at 2026-01-05 09:00."""
    with laboratory(database_url) as lab:
        yield lab


def days(lab: Lab) -> None:
    """Three days have data: one is fresh, one failed, one is stale. The total is not partitioned."""
    lab.apply(
        divided("daily", {"raw": {"require": "any"}}, DAYS),
        divided("total", {"daily": None}),
        sources=(HOURS, MINUTES),
    )
    for key in ("2025-12-30T01", "2025-12-31T01", "2025-12-31T02", "2026-01-02T01"):
        lab.report("raw", "v1", partition_key=key)
    lab.work()
    lab.report("raw", "v2", partition_key="2025-12-31T01")
    lab.settle()
    lab.fail(lab.start_of("daily"))
    lab.report("raw", "v2", partition_key="2025-12-30T01")
    lab.settle()


def listed(lab: Lab, **wanted: Any) -> list[tuple[str, str, str, int]]:
    """Return the ranges of a page."""
    found = lab.store.reader.partitions("daily", WantedPartitions(**wanted))["items"]
    return [(one["state"], one["from"], one["to"], one["count"]) for one in found]


def test_equal_states_in_a_row_are_one_entry(lab: Lab) -> None:
    """The newest first; what was never produced is missing."""
    assert listed(lab) == [
        ("missing", "2026-01-03", "2026-01-04", 2),
        ("fresh", "2026-01-02", "2026-01-02", 1),
        ("missing", "2026-01-01", "2026-01-01", 1),
        ("failed", "2025-12-31", "2025-12-31", 1),
        ("stale", "2025-12-30", "2025-12-30", 1),
        ("missing", "2025-12-28", "2025-12-29", 2),
    ]


def test_the_counts_are_about_all_partitions(lab: Lab) -> None:
    """A filter does not change them, and they are those of `status`."""
    found = lab.store.reader.partitions("daily", WantedPartitions(state=PartitionState.FAILED))
    counts = {"running": 0, "failed": 1, "missing": 5, "frozen": 0, "stale": 1, "fresh": 1}
    assert (found["total"], found["counts"], found["newest"]) == (8, counts, "2026-01-04")
    assert [one["to"] for one in found["items"]] == ["2025-12-31"]
    [status] = lab.store.reader.status("daily")["assets"]
    assert (status["partitions"], status["state"]) == ({"total": 8, "counts": counts}, "failing")
    assert status["partitionKey"] == "2026-01-04"


def test_a_range_a_state_and_one_key_can_be_chosen(lab: Lab) -> None:
    """Both ends are included."""
    assert listed(lab, first="2025-12-30", last="2026-01-01") == [
        ("missing", "2026-01-01", "2026-01-01", 1),
        ("failed", "2025-12-31", "2025-12-31", 1),
        ("stale", "2025-12-30", "2025-12-30", 1),
    ]
    assert listed(lab, key="2025-12-31") == [("failed", "2025-12-31", "2025-12-31", 1)]
    assert listed(lab, first="2026-01-03", state=PartitionState.STALE) == []


def test_pages_continue_after_the_last_key(lab: Lab) -> None:
    """Together they are the whole list."""
    pages, after = [], None
    while True:
        page = lab.store.reader.partitions("daily", WantedPartitions(after=after), 2)
        pages.append([one["state"] for one in page["items"]])
        after = page["next"]
        if after is None:
            break
    assert pages == [["missing", "fresh"], ["missing", "failed"], ["stale", "missing"]]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"key": "2026-01-05"}, "does not exist before 2026-01-06T00:00:00Z; the newest is '2026-01-04'"),
        ({"key": "2025-12-27"}, "is before the first; allowed are 2025-12-28 and later"),
        ({"first": "January"}, "'January' is not"),
        ({"after": "x"}, "'x' is not"),
    ],
)
def test_a_key_that_does_not_exist_is_an_error(lab: Lab, wanted: dict[str, str], words: str) -> None:
    """It says which keys exist."""
    with pytest.raises(PartitionKeyError, match=words):
        listed(lab, **wanted)


def test_an_asset_without_partitions_is_one(lab: Lab) -> None:
    """It has an empty key. An unknown name is an error."""
    found = lab.store.reader.partitions("total")
    assert (found["partitioning"], found["items"][0]["to"], found["total"]) == (None, "", 1)
    with pytest.raises(NotFoundError, match="asset 'dayly' does not exist"):
        lab.store.reader.partitions("dayly")


def test_a_page_of_a_million_partitions_looks_at_few(lab: Lab) -> None:
    """The minutes of two years: a page has a bound, the counts are right."""
    lab.report("minutes", "v1", partition_key="2026-01-05T07:30")
    lab.report("minutes", "v1", partition_key="2024-01-01T00:00")
    found = lab.store.reader.partitions("minutes")
    assert found["total"] == 1_058_940
    assert (found["counts"]["fresh"], found["counts"]["missing"]) == (2, 1_058_938)
    assert [(one["state"], one["count"]) for one in found["items"]] == [
        ("missing", 89),
        ("fresh", 1),
        ("missing", 9_910),
    ]
    assert found["next"] == found["items"][-1]["from"]


def test_keys_that_are_not_times_have_states_too(other: Lab) -> None:
    """A key that left the definition does not count. Dynamic keys exist once they were seen."""
    source = {"assetId": "raw", "partitioning": {"dynamic": {}}}
    regions = {"keys": ["eu", "us", "asia"]}
    other.apply(
        divided("by_key", {"fixed": None}, regions), sources=(source, {"assetId": "fixed", "partitioning": regions})
    )
    for key in ("eu", "us", "asia"):
        other.report("raw", "v1", partition_key=key)
        other.report("fixed", "v1", partition_key=key)
    other.work()
    other.report("fixed", "v2", partition_key="us")
    found = other.store.reader.partitions("by_key")
    assert {one["to"]: one["state"] for one in found["items"]} == {"eu": "fresh", "us": "stale", "asia": "fresh"}
    assert found["counts"] == {"running": 0, "failed": 0, "missing": 0, "frozen": 0, "stale": 1, "fresh": 2}
    seen = other.store.reader.partitions("raw")
    assert [(one["state"], one["from"], one["to"], one["count"]) for one in seen["items"]] == [
        ("fresh", "asia", "us", 3)
    ]
    fewer = {"keys": ["eu", "us"]}
    other.apply(
        divided("by_key", {"fixed": None}, fewer), sources=(source, {"assetId": "fixed", "partitioning": fewer})
    )
    assert sum(other.store.reader.partitions("by_key")["counts"].values()) == 2


def test_listings_are_about_one_partition(lab: Lab) -> None:
    """Runs, decisions, events and reasons; a key needs an asset or a workflow."""
    reader = lab.store.reader
    assert [run["partitionKey"] for run in reader.runs(asset="daily", partition="2026-01-02")] == ["2026-01-02"]
    [run] = reader.runs(workflow="daily", partition="2026-01-02")
    assert run["inputs"][0] | {"dataVersion": "v1", "version": 1} == {
        "assetId": "raw",
        "partitionKey": "2026-01-02T01",
        "dataVersion": "v1",
        "version": 1,
    }
    assert [one["partitionKey"] for one in reader.run(run["id"])["outputs"]] == ["2026-01-02"]
    assert {one["partitionKey"] for one in reader.decisions(asset="daily", partition="2025-12-31")} == {"2025-12-31"}
    assert {one["partitionKey"] for one in reader.why("daily", partition="2025-12-31")} == {"2025-12-31"}
    about = reader.events(asset="daily", partition="2025-12-31")
    assert {one["data"]["partitionKey"] for one in about} == {"2025-12-31"}
    assert "workflow.run.failed" in {one["type"] for one in about}
    with pytest.raises(UsageError, match="belongs to an asset or a workflow"):
        reader.runs(partition="2026-01-02")
    with pytest.raises(PartitionKeyError, match="'today' is not"):
        reader.decisions(workflow="daily", partition="today")
    with pytest.raises(UsageError, match="asset 'total' has no partitions, so it has no partition '2026-01-02'"):
        reader.runs(asset="total", partition="2026-01-02")


def outcomes(lab: Lab, event_id: str) -> list[tuple[str, str, str]]:
    """Return the outcomes of an event."""
    return [
        (one["workflowSlug"], one["partitionKey"], one["fate"]) for one in lab.store.reader.event(event_id)["fates"]
    ]


def test_an_event_has_an_outcome_for_each_partition_that_reads_it(other: Lab) -> None:
    """An hour concerns its day; a day concerns its month and the windows that hold it."""
    sales(other)
    other.report("raw", "v1", partition_key="2025-12-31T05")
    other.work()
    report = other.report("raw", "v2", partition_key="2025-12-31T05")
    other.work()
    assert outcomes(other, report["eventId"]) == [("daily", "2025-12-31", "triggered")]
    produced = [one for one in other.events("asset.produced") if one["subject"] == "daily"][-1]
    assert outcomes(other, str(produced["id"])) == [
        ("monthly", "2025-12", "triggered"),
        ("window", "2026-01-02", "triggered"),
        ("window", "2026-01-01", "triggered"),
        ("window", "2025-12-31", "triggered"),
    ]
    assert other.store.reader.event(str(produced["id"]))["consumers"] == 4


def test_a_held_partition_holds_its_own_event(other: Lab) -> None:
    """The outcome of an hour is the hold of its month, which has not seen the next hour yet."""
    auto = {"onUpstreamUpdate": True, "debounceMs": 600_000}
    other.apply(divided("monthly", {"raw": {"require": "any"}}, MONTHS, auto=auto), sources=(HOURS,))
    for hour in ("05", "06"):
        other.report("raw", "v1", partition_key=f"2025-12-31T{hour}")
    other.work()
    first = other.report("raw", "v2", partition_key="2025-12-31T05")
    other.settle()
    second = other.report("raw", "v2", partition_key="2025-12-31T06")
    assert outcomes(other, first["eventId"]) == [("monthly", "2025-12", "held")]
    assert outcomes(other, second["eventId"]) == [("monthly", "2025-12", "pending")]


def test_an_event_has_an_outcome_where_very_many_partitions_are_read_as_one(
    other: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pin of the run is the number of a change: it holds the versions that were current then."""
    monkeypatch.setattr(partitions, "MOST_LISTED", 1)
    other.apply(divided("total", {"raw": None}), sources=(HOURS,))
    first = other.report("raw", "v1", partition_key="2025-12-31T05")
    other.report("raw", "v1", partition_key="2025-12-31T06")
    other.work()
    second = other.report("raw", "v2", partition_key="2025-12-31T06")
    assert outcomes(other, second["eventId"]) == [("total", "", "pending")]
    other.work()
    assert outcomes(other, second["eventId"]) == [("total", "", "triggered")]
    assert outcomes(other, first["eventId"]) == [("total", "", "included")]


@pytest.mark.parametrize("most", [1_000, 1])
def test_a_later_input_makes_a_partition_stale_that_nobody_starts(
    other: Lab, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """No evaluation looks at it, so its inputs are compared; also if it reads all partitions as one."""
    monkeypatch.setattr(partitions, "MOST_LISTED", most)
    other.apply(
        divided("daily", {"raw": {"require": "any"}, "regions": {"all": True, "require": "any"}}, DAYS, auto=None),
        sources=(HOURS, {"assetId": "regions", "partitioning": {"keys": ["eu", "us", "asia"]}}),
    )
    for key in ("2025-12-30T01", "2026-01-02T01"):
        other.report("raw", "v1", partition_key=key)
    for region in ("eu", "us"):
        other.report("regions", "v1", partition_key=region)
    for day in ("2025-12-30", "2026-01-02"):
        other.store.operations.request_run("daily", partition_key=day)
    other.work()
    assert states(other) == {"fresh": 2, "missing": 6}
    other.report("raw", "v1", partition_key="2025-12-30T07")
    other.settle()
    assert states(other) == {"fresh": 1, "stale": 1, "missing": 6}
    assert ("stale", "2025-12-30", "2025-12-30", 1) in listed(other)
    other.report("regions", "v1", partition_key="asia")
    other.settle()
    assert states(other) == {"stale": 2, "missing": 6}


def states(lab: Lab) -> dict[str, int]:
    """Return how many partitions are in which state, without those that none is in."""
    found = lab.store.reader.partitions("daily", WantedPartitions())["counts"]
    return {state: count for state, count in found.items() if count}
