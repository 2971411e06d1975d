"""A simulation over time: buckets add up to the totals, and a change is where it happened, not where it arrived."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshline.simulation.series import MOST_BUCKETS, Series, bucket_seconds, percentiles

START = datetime(2026, 1, 5, tzinfo=UTC)
MINUTE, HOUR, DAY = 60, 3_600, 86_400


def at(minutes: float) -> datetime:
    """Return a time after the start."""
    return START + timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("played", "bucket"),
    [
        (0, 1),
        (100, 1),
        (HOUR, MINUTE),
        (12 * HOUR, 10 * MINUTE),
        (DAY, 15 * MINUTE),
        (7 * DAY, 2 * HOUR),
        (31 * DAY, 12 * HOUR),
        (100 * DAY, DAY),
        (101 * DAY, 2 * DAY),
        (36_500 * DAY, 365 * DAY),
    ],
)
def test_buckets_have_usual_lengths(played: float, bucket: int) -> None:
    """A week has buckets of two hours."""
    assert bucket_seconds(played) == bucket


@given(st.floats(min_value=0, max_value=100 * 365 * DAY))
def test_there_are_never_more_than_a_hundred(played: float) -> None:
    """Whatever time is played."""
    series = Series(START, START + timedelta(seconds=played)).document()
    lengths = {len(series["runs"]), len(series["slotHours"]), len(series["lagSeconds"])}
    assert len(lengths) == 1
    assert 1 <= lengths.pop() <= MOST_BUCKETS


def test_a_run_counts_where_it_starts_and_costs_where_it_runs() -> None:
    """A run of an hour over three buckets, and one that has no duration."""
    series = Series(START, at(24 * 60))
    series.ran(at(20), at(80))
    series.ran(at(24 * 60), at(24 * 60))
    found = series.document()
    assert found["bucketSeconds"] == 15 * MINUTE
    assert (found["runs"][1], found["runs"][-1], sum(found["runs"])) == (1, 1, 2)
    assert [round(one * 60, 3) for one in found["slotHours"][:7]] == [0, 10, 15, 15, 15, 5, 0]


def test_a_lag_is_where_its_change_happened() -> None:
    """Two changes arrive together, hours after they happened; a change at the end is in the last bucket."""
    series = Series(START, at(24 * 60))
    series.arrived([at(5).timestamp(), at(31).timestamp()], at(180).timestamp())
    series.arrived([at(24 * 60).timestamp()], at(24 * 60).timestamp())
    found = series.document()["lagSeconds"]
    assert found[0] == dict.fromkeys(("p50", "p95", "max"), 175 * MINUTE)
    assert found[1] is None
    assert found[2] == dict.fromkeys(("p50", "p95", "max"), 149 * MINUTE)
    assert found[-1] == dict.fromkeys(("p50", "p95", "max"), 0)


def test_percentiles_are_of_the_nearest_rank() -> None:
    """Of a hundred values."""
    assert percentiles(range(101)) == {"p50": 50, "p95": 95, "max": 100}
