"""Inputs of very many partitions are read as one, by a digest and a number of changes (docs/semantics.md#R13.4)."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from freshline.store.doctor import examine
from freshline.store.evaluation import partitions
from tests.scenarios.test_partitions import divided, ran
from tests.store_harness import Lab

DAYS: dict[str, Any] = {"assetId": "raw", "partitioning": {"time": "day", "start": "2025-12-01"}}
KEYS = [f"2025-12-{day:02}" for day in range(1, 32)]


@pytest.fixture
def large(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Three partitions are many. A total reads all days."""
    monkeypatch.setattr(partitions, "MOST_LISTED", 3)
    lab.apply(divided("total", {"raw": None}), sources=(DAYS,))
    return lab


def report(lab: Lab, *days: int, version: str = "v1") -> None:
    """Report days of December."""
    for day in days:
        lab.report("raw", version, partition_key=KEYS[day])


def read(lab: Lab) -> dict[str, str]:
    """Claim the next run, publish it, and return the data versions that it was pinned to, by reference."""
    run = lab.claim()
    assert run is not None
    found = {name: one.data_version for name, one in run.inputs.items() if one.asset_id == "raw"}
    lab.finish(run)
    return found


def test_very_many_partitions_are_read_as_one(large: Lab) -> None:
    """One entry in the consumed versions, whatever the number of partitions; a run per change, and none without one."""
    report(large, 0, 1)
    assert ran(large) == [("total", "")]
    [run] = large.runs("total")
    assert set(run["pins"]) == {f"raw@{KEYS[0]}", f"raw@{KEYS[1]}"}
    report(large, 2, 3, 4)
    assert ran(large) == [("total", "")]
    last = large.runs("total")[-1]
    assert set(last["pins"]) == {"raw@"}
    assert last["pins"]["raw@"]["sequence"] == 5
    assert ran(large) == []
    report(large, 3)  # the same data again
    assert ran(large) == []
    report(large, 3, version="v2")
    report(large, 3, version="v1")  # and back
    assert ran(large) == []
    report(large, 0, version="v2")
    assert ran(large) == [("total", "")]
    assert large.forgotten() == 0


def test_a_pin_is_the_number_of_a_change(large: Lab) -> None:
    """A run reads the heads of the time when it was decided, also when newer data arrives before it starts."""
    report(large, 0, 1, 2, 3)
    large.settle()
    queued = dict.fromkeys((f"raw@{KEYS[day]}" for day in range(4)), "v1")
    report(large, 1, version="v2")
    report(large, 4)
    assert read(large) == queued
    large.settle()
    assert read(large) == queued | {f"raw@{KEYS[1]}": "v2", f"raw@{KEYS[4]}": "v1"}


def test_an_input_that_was_read_as_one_stays_one(large: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two forms cannot be compared: a change between them would look like a change of the data."""
    report(large, 0, 1, 2, 3)
    assert ran(large) == [("total", "")]
    monkeypatch.setattr(partitions, "MOST_LISTED", 100)
    large.store.operations.reset("total")  # it is evaluated
    assert ran(large) == []
    report(large, 0, version="v2")
    assert ran(large) == [("total", "")]
    assert set(large.runs("total")[-1]["pins"]) == {"raw@"}


def test_a_requirement_counts_the_partitions_with_data(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """All days that have ended must have data."""
    monkeypatch.setattr(partitions, "MOST_LISTED", 3)
    source = {"assetId": "raw", "partitioning": {"time": "day", "start": "2025-12-01", "end": "2025-12-07"}}
    lab.apply(divided("total", {"raw": {"require": "all"}}), sources=(source,))
    report(lab, 0, 1, 2, 3, 4)
    assert ran(lab) == []
    assert lab.reason("total") == "input-missing"
    report(lab, 5)
    assert ran(lab) == [("total", "")]


def test_the_digest_is_that_of_the_heads(large: Lab) -> None:
    """Whatever is reported, in whatever order: late reports do not count."""
    chance = random.Random(5)  # noqa: S311 - a reproducible order
    for number in range(60):
        key = chance.choice(KEYS[:8])
        large.report("raw", f"v{chance.randrange(3)}", partition_key=key, sequence=chance.randrange(number + 1))
    (row,) = large.rows("SELECT change, keys FROM asset_digests")
    heads = large.rows("SELECT partition_key FROM heads WHERE asset_id = 'raw'")
    assert row["keys"] == len(heads)
    assert row["change"] < 60, "a late report moved the head"
    findings = {one.check.id: one for one in examine.examine(large.store, 10).findings}
    assert findings["digest-differs"].count == 0


def test_writers_of_one_asset_number_their_changes_in_order(large: Lab) -> None:
    """Two writers of different partitions neither deadlock nor use a number twice."""
    failures: list[BaseException] = []

    def write(days: range) -> None:
        try:
            for number in range(10):
                report(large, *days, version=f"v{number}")
        except BaseException as error:  # noqa: BLE001 - the test fails with it
            failures.append(error)

    writers = [threading.Thread(target=write, args=(range(first, first + 3),)) for first in (0, 3)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert failures == []
    changes = [
        row["change"] for row in large.rows("SELECT change FROM snapshots WHERE asset_id = 'raw' ORDER BY change")
    ]
    assert changes == list(range(1, 61))
    (row,) = large.rows("SELECT change, keys FROM asset_digests")
    assert (row["change"], row["keys"]) == (60, 6)
