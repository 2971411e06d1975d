"""Partitions in the store: which partitions run, how often, and what they wait for (docs/semantics.md#R13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from freshline.errors import PartitionKeyError, UsageError
from freshline.store.evaluation import load_state, partitions
from tests.store_harness import Lab, workflow

HOURS: dict[str, Any] = {"assetId": "raw", "partitioning": {"time": "hour", "start": "2025-12-01"}}
DAYS: dict[str, Any] = {"time": "day", "start": "2025-12-30"}
MONTHS: dict[str, Any] = {"time": "month", "start": "2025-12"}


def divided(
    slug: str, consumes: Mapping[str, Any], partitioning: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """Return a workflow with partitions. `consumes`: what it declares about the partitions of each input."""
    inputs = [{"assetId": one, **({"partitions": declared} if declared else {})} for one, declared in consumes.items()]
    found = workflow(slug, inputs, **more)
    if partitioning:
        found["steps"][0]["produces"][0]["partitioning"] = dict(partitioning)
    return found


def ran(lab: Lab) -> list[tuple[str, str]]:
    """Settle and execute until nothing is left to do; return the partitions that ran, in order."""
    before = len(lab.runs())
    lab.work()
    return [(run["slug"], run["partition_key"]) for run in lab.runs()[before:]]


def sales(lab: Lab) -> None:
    """Hours, their days, windows of three days, months, and a total."""
    lab.apply(
        divided("daily", {"raw": {"require": "any"}}, DAYS),
        divided("window", {"daily": {"window": {"from": -2, "to": 0}, "require": "any"}}, DAYS),
        divided("monthly", {"daily": {"require": "any"}}, MONTHS),
        divided("total", {"monthly": None}),
        sources=(HOURS,),
    )


def test_an_hour_runs_what_depends_on_it(lab: Lab) -> None:
    """Its day, the windows of three days that hold it, its month, and the total, once each."""
    sales(lab)
    assert ran(lab) == []
    lab.report("raw", "v1", partition_key="2025-12-31T05")
    once = [
        ("daily", "2025-12-31"),
        ("monthly", "2025-12"),
        ("total", ""),
        ("window", "2025-12-31"),
        ("window", "2026-01-01"),
        ("window", "2026-01-02"),
    ]
    assert sorted(ran(lab)) == once
    [total] = lab.runs("total")
    assert set(total["pins"]) == {"monthly@2025-12"}
    lab.report("raw", "v2", partition_key="2025-12-31T05")
    assert sorted(ran(lab)) == once
    lab.report("raw", "v2", partition_key="2025-12-31T05")
    assert ran(lab) == []
    assert not any(run["mixed"] for run in lab.runs())


def test_data_that_is_there_when_the_workflow_comes(lab: Lab) -> None:
    """An apply evaluates the partitions that exist: those with data run, the newest first."""
    lab.apply(sources=(HOURS,))
    for hour in ("2025-12-30T01", "2026-01-02T03", "2026-01-02T04"):
        lab.report("raw", "v1", partition_key=hour)
    lab.settle()
    lab.apply(divided("daily", {"raw": {"require": "any"}}, DAYS), sources=(HOURS,))
    assert sorted(ran(lab)) == [("daily", "2025-12-30"), ("daily", "2026-01-02")]
    [_, run] = sorted(lab.runs("daily"), key=lambda run: run["partition_key"])
    assert set(run["pins"]) == {"raw@2026-01-02T03", "raw@2026-01-02T04"}


def test_a_month_waits_for_its_days(lab: Lab) -> None:
    """Three late days, one after the other: the month runs once, on all of them."""
    sales(lab)
    for day in ("2025-12-30", "2025-12-31"):
        lab.report("raw", "v1", partition_key=f"{day}T05")
    lab.settle()
    lab.finish(lab.start_of("daily"))
    lab.settle()
    assert lab.reason("monthly") == "waiting-for-upstream"
    lab.advance(seconds=30)
    assert ("monthly", "2025-12") in ran(lab)
    [monthly] = lab.runs("monthly")
    assert set(monthly["pins"]) == {"daily@2025-12-30", "daily@2025-12-31"}
    assert len(lab.runs("total")) == 1


def test_a_chain_of_partitions_runs_in_order(lab: Lab) -> None:
    """A balance reads that of the day before: a late day runs the rest of the chain, each day once."""
    source = {"assetId": "raw", "partitioning": {"time": "day", "start": "2025-12-30"}}
    own = {"balance": {"window": {"from": -1, "to": -1}}}
    lab.apply(divided("balance", {"raw": None, **own}, DAYS), sources=(source,))
    days = [f"2025-12-{day}" for day in (30, 31)] + [f"2026-01-0{day}" for day in range(1, 5)]
    for day in days:
        lab.report("raw", "v1", partition_key=day)
    assert ran(lab) == [("balance", day) for day in days]
    lab.report("raw", "v2", partition_key="2026-01-03")
    lab.report("raw", "v2", partition_key="2026-01-01")
    assert ran(lab) == [("balance", day) for day in days[2:]]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("", "asset 'raw' has partitions, and none is named; the newest is 2026-01-05T08"),
        ("2025-12-31", "is not a hour|is not an hour"),
        ("2025-11-30T23", "asset 'raw': partition key '2025-11-30T23' is before the first"),
        ("2026-01-05T10", "has not begun: its window begins at 2026-01-05T10:00:00"),
        ("2999-12-31T23", "has not begun"),
        ("yesterday", "allowed are keys such as"),
    ],
)
def test_a_report_of_a_wrong_partition_stores_nothing(lab: Lab, key: str, words: str) -> None:
    """The error says what is allowed."""
    sales(lab)
    before = lab.everything()
    with pytest.raises((PartitionKeyError, UsageError), match=words):
        lab.report("raw", "v1", partition_key=key)
    assert lab.everything() == before


def test_an_asset_without_partitions_has_no_keys(lab: Lab) -> None:
    """A key is refused."""
    lab.apply(workflow("b", "a"))
    with pytest.raises(UsageError, match="asset 'a' has no partitions"):
        lab.report("a", "v1", partition_key="2025-12-31")


def test_an_event_that_nobody_has_consumed_moves_the_rest_of_the_chain(lab: Lab) -> None:
    """The total waits for the next day of the chain, also before anybody has noted that it must run."""
    source = {"assetId": "raw", "partitioning": {"time": "day", "start": "2025-12-30"}}
    own = {"balance": {"window": {"from": -1, "to": -1}}}
    lab.apply(divided("balance", {"raw": None, **own}, DAYS), divided("total", {"balance": None}), sources=(source,))
    for day in ("2025-12-30", "2025-12-31"):
        lab.report("raw", "v1", partition_key=day)
    ran(lab)
    lab.report("raw", "v2", partition_key="2025-12-30")
    lab.settle()
    lab.finish(lab.start_of("balance"))
    graph = lab.store.evaluation._graph
    assert graph is not None
    with lab.database.connection() as connection:
        total = lab.one("SELECT id FROM workflows WHERE slug = 'total'")
        found = load_state.read(connection, graph, {(total, ""): 0})
    blockers = found.walk(graph).blockers(total, ["balance@2025-12-30"])
    assert ("balance", "unabsorbed", True) in [(one.slug, one.motion, one.mixes) for one in blockers]


@pytest.mark.parametrize("most", [1_000, 0])
def test_a_partition_that_nobody_starts_makes_a_mix(lab: Lab, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """A join below a branch that users start says so if that branch is behind in what the join reads, and only then."""
    monkeypatch.setattr(partitions, "MOST_LISTED", most)
    lab.apply(
        divided("left", {"raw": {"require": "any"}}, DAYS),
        divided("right", {"raw": {"require": "any"}, "fx": None}, DAYS, auto=None),
        divided("whole", {"raw": None}, auto=None),
        divided("join", {"left": None, "right": None}, DAYS),
        divided("total", {"left": None, "whole": None}),
        sources=(HOURS,),
    )
    lab.report("fx", "v1")
    for day in ("2025-12-31", "2026-01-02"):
        lab.report("raw", "v1", partition_key=f"{day}T05")
        lab.store.operations.request_run("right", partition_key=day)
    lab.store.operations.request_run("whole")
    ran(lab)
    ran(lab)
    assert not any(run["mixed"] for run in lab.runs("join") + lab.runs("total"))
    lab.report("raw", "v2", partition_key="2025-12-31T05")
    ran(lab)
    lab.store.operations.request_run("left", partition_key="2026-01-02")
    lab.store.operations.request_run("join", partition_key="2026-01-02")
    ran(lab)
    assert [run["mixed"] for run in lab.runs("join")][2:] == [True, False]
    assert [run["partition_key"] for run in lab.runs("join")][2:] == ["2025-12-31", "2026-01-02"]
    assert lab.runs("total")[-1]["mixed"]


def test_an_input_without_partitions_is_read_once(lab: Lab) -> None:
    """A total of days that also reads an asset without partitions: it is named once, and so are its events."""
    lab.apply(
        divided("daily", {"raw": {"require": "any"}}, DAYS),
        divided("total", {"daily": None, "rates": None}),
        sources=(HOURS, "rates"),
    )
    lab.report("raw", "v1", partition_key="2025-12-31T05")
    lab.report("rates", "v1")
    ran(lab)
    [total] = lab.runs("total")
    read = [(one["assetId"], one["partitionKey"]) for one in total["trigger"]["upstream"]]
    assert read == [("daily", "2025-12-31"), ("rates", "")]
    assert len(set(total["trigger"]["eventIds"])) == len(total["trigger"]["eventIds"])
