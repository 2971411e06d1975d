"""`freshline plan` in a graph with partitions: exactly what would run is planned, and nothing is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from freshline.model.documents.decision import Plan
from tests.scenarios.test_partitions import DAYS, HOURS, divided, ran, sales
from tests.store_harness import Lab, laboratory

HOUR = "2025-12-31T05"


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield an empty lab at 2026-01-05 09:00."""
    with laboratory(database_url) as lab:
        yield lab


def planned(lab: Lab, asset: str, key: str | None = None) -> Plan:
    """Return a plan, which changes nothing."""
    before = lab.everything()
    found = lab.store.reader.plan(asset, lab.settings, partition=key)
    assert lab.everything() == before
    return found


def units(entries: Any) -> list[tuple[str, str]]:
    """Return the partitions of a plan."""
    return [(one["workflowSlug"], one["partitionKey"]) for one in entries]


def test_what_is_planned_is_what_runs(lab: Lab) -> None:
    """A late hour, and the same hour again: its day, its windows, its month and the total, ancestors first."""
    sales(lab)
    for version in ("v1", "v2"):
        made = planned(lab, "raw", HOUR)
        assert units(made["runs"])[0] == ("daily", "2025-12-31")
        assert made["runs"][0]["upstream"] == [f"raw@{HOUR}"]
        assert [one["order"] for one in made["runs"]] == [1, 2, 3, 4, 5, 6]
        lab.report("raw", version, partition_key=HOUR)
        assert sorted(units(made["runs"])) == sorted(ran(lab))


def test_a_partition_that_still_misses_an_input_is_held(lab: Lab) -> None:
    """One hour of 24 is no day; the last one is."""
    lab.apply(divided("daily", {"raw": None}, DAYS), divided("total", {"daily": None}), sources=(HOURS,))
    made = planned(lab, "raw", HOUR)
    assert (units(made["runs"]), units(made["held"])) == ([], [("daily", "2025-12-31"), ("total", "")])
    assert made["held"][0]["reason"] == "input-missing"
    assert units(made["cut"]) == []
    for hour in range(24):
        if hour != 5:
            lab.report("raw", "v1", partition_key=f"2025-12-31T{hour:02}")
    lab.settle()
    assert units(planned(lab, "raw", HOUR)["runs"]) == [("daily", "2025-12-31"), ("total", "")]


def test_a_chain_is_planned_to_its_end(lab: Lab) -> None:
    """Each day reads the balance of the day before."""
    source = {"assetId": "raw", "partitioning": DAYS}
    lab.apply(divided("balance", {"raw": None, "balance": {"window": {"from": -1, "to": -1}}}, DAYS), sources=(source,))
    days = ["2025-12-30", "2025-12-31", "2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"]
    for day in days:
        lab.report("raw", "v1", partition_key=day)
    ran(lab)
    made = planned(lab, "raw", "2026-01-02")
    assert units(made["runs"]) == [("balance", day) for day in days[3:]]


def test_what_runs_already_is_assumed_to_be_done(lab: Lab) -> None:
    """It is named, and what reads it is planned."""
    sales(lab)
    lab.report("raw", "v1", partition_key=HOUR)
    lab.settle()
    lab.start_of("daily")
    made = planned(lab, "raw", HOUR)
    assert made["active"] == ["daily@2025-12-31"]
    assert units(made["runs"])[0] == ("daily", "2025-12-31")
    assert ("total", "") in units(made["runs"])


@pytest.mark.parametrize("affects", ["latest", "none"])
def test_a_change_concerns_the_newest_partition_or_none(affects: str, lab: Lab) -> None:
    """What is planned of an input that affects only the newest partition is what runs when it changes."""
    inputs = {"raw": {"require": "any"}, "rates": {"affects": affects}}
    lab.apply(divided("daily", inputs, DAYS), divided("total", {"daily": None}), sources=(HOURS, {"assetId": "rates"}))
    lab.report("rates", "r1")
    for day in ("2026-01-03", "2026-01-04"):
        lab.report("raw", "v1", partition_key=f"{day}T05")
    ran(lab)
    made = planned(lab, "rates")
    assert units(made["runs"]) == ([("daily", "2026-01-04"), ("total", "")] if affects == "latest" else [])
    lab.report("rates", "r2")
    assert sorted(units(made["runs"])) == sorted(ran(lab))


def test_a_debounce_and_a_workflow_that_is_not_automatic(lab: Lab) -> None:
    """The one has a time, the other is listed as not running by itself."""
    patient = divided(
        "patient", {"raw": {"require": "any"}}, DAYS, auto={"onUpstreamUpdate": True, "debounceMs": 60_000}
    )
    lab.apply(patient, divided("manual", {"raw": {"require": "any"}}, DAYS, auto=None), sources=(HOURS,))
    lab.report("raw", "v1", partition_key=HOUR)
    ran(lab)
    lab.advance(minutes=5)
    ran(lab)
    made = planned(lab, "raw", HOUR)
    assert units(made["runs"]) == [("patient", "2025-12-31")]
    assert made["runs"][0]["notBefore"] is not None
    assert units(made["cut"]) == [("manual", "2025-12-31")]
