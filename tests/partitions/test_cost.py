"""The cost of one key does not depend on how many keys there are. Calls are counted, because time depends on others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from types import FrameType

import pytest

from freshline.partitions import (
    EVERYTHING,
    Around,
    Declaration,
    Dimensions,
    FixedKeys,
    Grain,
    Partitioning,
    TimePartitioning,
    mapping_between,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def calls(function: Callable[[], object]) -> int:
    """Return how many functions are called, in Python and in C."""
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    function()  # what is remembered from now on was found before
    sys.setprofile(counted)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def hours(start: str) -> TimePartitioning:
    """Return hours from a start on."""
    return TimePartitioning(Grain.HOUR, start)


def days(start: str) -> TimePartitioning:
    """Return local days from a start on."""
    return TimePartitioning(Grain.DAY, start, timezone="Europe/Berlin")


def one_key(start: str) -> int:
    """Return the cost of a key from its text to its neighbours in the graph."""
    source, consumer = hours(start), days(start)
    daily = mapping_between(source, consumer)
    weekly = mapping_between(consumer, consumer, Declaration(Around(-6, 0)))

    def follow() -> None:
        key = source.parse("2025-10-26T00")
        changed = weekly.down_all(daily.down(key))
        assert changed.contains("2025-10-27", consumer)
        assert weekly.up("2025-10-27").contains("2025-10-26", consumer)
        assert consumer.exists("2025-10-27", NOW)
        assert consumer.count(NOW) > 80
        assert consumer.newest_key(NOW) == "2025-12-31"
        assert consumer.next_key_at(NOW) is not None

    return calls(follow)


def test_the_cost_of_a_key_does_not_depend_on_the_range() -> None:
    """Three months or 125 years of hours: the same calls, and few of them."""
    short, long = one_key("2025-10-01"), one_key("1900-04-01")
    assert long <= short + 5
    assert long < 1_200  # nine questions


@pytest.mark.parametrize(
    "partitioning",
    [
        hours("2000-01-01"),
        days("1990-01-01"),
        TimePartitioning(Grain.DAY, "1990-01-01", timezone="Pacific/Apia"),
        Dimensions((("region", FixedKeys(("eu", "us"))), ("day", days("1990-01-01")))),
    ],
)
def test_keys_are_listed_at_the_cost_of_each(partitioning: Partitioning) -> None:
    """A list of 10,000 keys is made lazily, with a few calls for each."""
    few, many = (
        calls(lambda limit=limit: list(islice(partitioning.keys(EVERYTHING, NOW), limit)))  # type: ignore[misc]
        for limit in (10, 10_000)
    )
    assert few < 500
    assert many < 20 * 10_000
