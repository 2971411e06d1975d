"""Which partitions are older than a moment (docs/semantics.md#R13.14)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from freshline.partitions import Dimensions, FixedKeys, Grain, Partitioning, TimePartitioning
from freshline.partitions.selection import EVERYTHING

NOW = datetime(2024, 4, 20, 12, tzinfo=UTC)
DAYS = TimePartitioning(Grain.DAY, "2024-03-20", timezone="Europe/Berlin")
KINDS: list[Partitioning] = [
    TimePartitioning(Grain.HOUR, "2024-03-30", "2024-04-02"),
    DAYS,
    TimePartitioning(Grain.DAY, "2024-03-20", "2024-04-05", timezone="Asia/Kolkata", open=True),
    TimePartitioning(Grain.WEEK, "2024-01-01"),
    TimePartitioning(Grain.MONTH, "2024-01-01", timezone="America/New_York"),
    Dimensions((("region", FixedKeys(("eu", "us"))), ("day", DAYS))),
]
MOMENTS = [datetime(2024, 3, 20, tzinfo=UTC) + timedelta(hours=5 * step, minutes=step % 2) for step in range(200)]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_windows_that_end_after_a_moment(kind: Partitioning) -> None:
    """The selections and the next end agree with the windows of all keys, also at the instant at which one ends."""
    ends = {key: window.ends for key in kind.keys(EVERYTHING, NOW) if (window := kind.window(key)) is not None}
    assert ends
    for at in [*MOMENTS, *ends.values()]:
        later = {key for key, end in ends.items() if end > at}
        assert set(kind.keys(kind.ending_after(at), NOW)) == later
        if later:
            assert kind.next_end_after(at) == min(ends[key] for key in later)
        since = at - timedelta(days=3)
        assert set(kind.keys(kind.ended(since, at), NOW)) == {key for key, end in ends.items() if since <= end <= at}


def test_keys_without_time_have_no_age() -> None:
    """All of them are kept, and none is ever too old."""
    keys = FixedKeys(("eu", "us"))
    assert keys.ending_after(NOW) is EVERYTHING
    assert keys.next_end_after(NOW) is None
    assert keys.ended(NOW, NOW).is_empty
