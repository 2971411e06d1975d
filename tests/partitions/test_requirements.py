"""How many keys of an input must have data, and what happens after the grace."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshline.errors import PartitioningError
from freshline.partitions.requirements import ALL, ANY, Readiness, Requirement, assess, from_json
from tests.partitions.strategies import core

ENDS = datetime(2024, 2, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
KEYS = ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("require", "expected", "needed"),
    [
        (None, 5, 5),
        ("all", 24, 24),
        ("all", 0, 0),
        ("any", 24, 1),
        ("any", 0, 1),
        (3, 24, 3),
        (3, 2, 2),
        ("80%", 24, 20),
        ("80%", 5, 4),
        ("80%", 3, 3),
        ("1%", 24, 1),
        ("100%", 25, 25),
        ("29%", 100, 29),
    ],
)
def test_how_many_are_needed(require: object, expected: int, needed: int) -> None:
    """Shares are rounded up; a number above what is expected asks for all."""
    assert from_json(require).needed(expected) == needed


@pytest.mark.parametrize(
    ("requirement", "present", "after", "outcome"),
    [
        (ALL, "abcde", 0 * HOUR, (Readiness.COMPLETE, "", None)),
        (ALL, "abde", 9 * HOUR, (Readiness.MISSING, "c", None)),
        (from_json("80%"), "abde", 0 * HOUR, (Readiness.COMPLETE, "c", None)),
        (from_json(None, "2h"), "abde", 1 * HOUR, (Readiness.MISSING, "c", ENDS + 2 * HOUR)),
        (from_json(None, "2h"), "abde", 2 * HOUR, (Readiness.PARTIAL, "c", None)),
        (from_json(None, "2h"), "", 2 * HOUR, (Readiness.MISSING, "abcde", None)),
        (from_json("80%", "2h"), "ab", 3 * HOUR, (Readiness.PARTIAL, "cde", None)),
        (from_json("80%", "2h"), "abcd", 3 * HOUR, (Readiness.COMPLETE, "e", None)),
        (ANY, "", 0 * HOUR, (Readiness.MISSING, "abcde", None)),
        (ANY, "e", 0 * HOUR, (Readiness.COMPLETE, "abcd", None)),
    ],
)
def test_readiness(
    requirement: Requirement, present: str, after: timedelta, outcome: tuple[Readiness, str, datetime | None]
) -> None:
    """Complete, partial once the grace has passed, or missing with the time to look again."""
    found = assess(requirement, KEYS, set(present), window_ends=ENDS, now=ENDS + after)
    assert (found.readiness, "".join(found.missing), found.grace_ends) == outcome


def test_what_is_outside_is_not_missing() -> None:
    """A partition before the start of the input does not wait for it."""
    assert assess(ANY, [], [], window_ends=ENDS, now=ENDS, outside=True).readiness is Readiness.COMPLETE
    assert assess(ALL, [], [], window_ends=ENDS, now=ENDS).readiness is Readiness.COMPLETE
    assert assess(ANY, [], [], window_ends=ENDS, now=ENDS).readiness is Readiness.MISSING


def test_a_partition_without_time_has_no_grace() -> None:
    """It waits for its keys."""
    found = assess(from_json(None, "2h"), KEYS, ["a"], window_ends=None, now=ENDS + 99 * HOUR)
    assert (found.readiness, found.grace_ends) == (Readiness.MISSING, None)


@given(
    st.builds(Requirement, st.integers(1, 100), st.just(0), st.none() | st.integers(1, 10**9))
    | st.builds(Requirement, st.just(0), st.integers(1, 1_000_000), st.none() | st.integers(1, 10**9))
)
@core
def test_a_requirement_survives_its_stored_form(requirement: Requirement) -> None:
    """As users write it."""
    stored = requirement.as_json()
    assert from_json(stored.get("require"), stored.get("grace")) == requirement


@pytest.mark.parametrize("require", ["some", "0%", "101%", "80", 0, -1, True, 1.5, []])
def test_a_wrong_requirement_is_refused(require: object) -> None:
    """The error says what is allowed."""
    with pytest.raises(PartitioningError, match=r"require is .*; allowed are all, any, a number from 1 on, and shares"):
        from_json(require)


def test_a_wrong_grace_is_refused() -> None:
    """The error says what is allowed."""
    with pytest.raises(PartitioningError, match="grace: 'soon' is not a duration; allowed are numbers with"):
        from_json(None, "soon")
    assert from_json(None, "2h", default=ANY) == Requirement(0, 1, 7_200_000)
