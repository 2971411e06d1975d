"""Which changes of an input concern the partition that was the newest (docs/semantics.md#R13.17)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from freshline.decide.newness import Produced, concerns
from freshline.model.state import Head, Input, Version
from freshline.partitions.dimensions import Dimensions
from freshline.partitions.grain import Grain
from freshline.partitions.key_partitionings import FixedKeys
from freshline.partitions.partitioning import Newness, Partitioning
from freshline.partitions.selection import EVERYTHING
from freshline.partitions.time_partitioning import TimePartitioning
from tests.partitions.strategies import core

NOW = datetime(2024, 11, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
BERLIN = TimePartitioning(Grain.DAY, "2024-10-20", end="2024-11-03", timezone="Europe/Berlin")
KINDS: list[Partitioning] = [
    BERLIN,
    TimePartitioning(Grain.DAY, "2024-10-20", timezone="Europe/Berlin", open=True),
    TimePartitioning(Grain.HOUR, "2024-10-26T20", end="2024-10-27T06"),
    TimePartitioning(Grain.WEEK, "2024-10-01", timezone="America/New_York"),
    TimePartitioning(Grain.MONTH, "2024-01-01"),
    Dimensions((("day", BERLIN), ("region", FixedKeys(("eu", "us"))))),
    Dimensions((("region", FixedKeys(("eu", "us"))), ("day", BERLIN))),
    FixedKeys(("eu", "us")),
]


@given(st.sampled_from(KINDS), st.integers(-60 * 24 * 30, 60 * 24 * 30))
@settings(core, max_examples=200)
def test_the_times_of_newness_are_those_of_the_newest(partitioning: Partitioning, minutes: int) -> None:
    """At every time, a partition is among the newest if and only if the time is in its own."""
    at = NOW + timedelta(minutes=minutes)
    newest = partitioning.newest(at)
    for key in partitioning.keys(EVERYTHING, NOW + timedelta(days=40)):
        since, until = partitioning.newness(key)
        inside = (since is None or since <= at) and (until is None or at < until)
        assert inside == newest.has(partitioning.point(key)), (key, at)


def test_a_day_is_the_newest_from_its_end_to_the_end_of_the_next() -> None:
    """Also when the clocks change: the 27th of October has 25 hours in Berlin. The last day stays the newest."""
    assert BERLIN.newness("2024-10-26") == Newness(
        datetime(2024, 10, 26, 22, tzinfo=UTC), datetime(2024, 10, 27, 23, tzinfo=UTC)
    )
    assert BERLIN.newness("2024-11-02").until is None


def produced(sequence: int, version: str, hours: int) -> Produced:
    """Return a snapshot."""
    return Produced(sequence, version, NOW + hours * HOUR)


def test_the_last_change_of_its_time_concerns_a_partition() -> None:
    """What was consumed is another version, and not a later one."""
    day = Newness(NOW, NOW + 24 * HOUR)
    assert concerns(Version(1, "a"), produced(2, "b", 23), day)
    assert not concerns(Version(2, "b"), produced(2, "b", 23), day)
    assert not concerns(Version(1, "a"), produced(3, "a", 23), day)  # it returned to what was read
    assert not concerns(Version(5, "e"), produced(2, "b", 23), day)  # it ran later, for another reason
    assert not concerns(Version(1, "a"), None, day)


def test_a_change_that_was_committed_late_concerns_who_read_less() -> None:
    """It was produced before the partition came, and the partition was computed before it could be seen."""
    assert concerns(Version(1, "a"), produced(2, "b", -1), Newness(NOW, None))


def test_an_input_that_was_never_read_concerns_by_its_time() -> None:
    """A change from before the partition came is no reason; one of its time is."""
    day = Newness(NOW, NOW + 24 * HOUR)
    assert not concerns(None, produced(1, "a", -1), day)
    assert concerns(None, produced(1, "a", 0), day)
    assert concerns(None, produced(1, "a", -1), Newness())


def test_a_change_that_concerns_others_is_none() -> None:
    """A head that returned to what was read is no change either."""
    head = Head(3, "c", NOW)
    assert Input("rates", head, Version(1, "a")).changed
    assert not Input("rates", head, Version(1, "a"), concerns=False).changed
    assert not Input("rates", Head(3, "a", NOW), Version(1, "a")).changed
    assert Input("rates", head, Version(1, "a"), concerns=False).newer  # a run reads another generation
