"""How durations, times and sizes are parsed and formatted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from freshline.cli.render import format as formatting
from freshline.errors import UsageError
from freshline.plural import counted

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (9.94, "9.9 s"), (59, "59 s"), (61, "1.0 min"), (7200, "2.0 h"), (86400 * 40, "40 d")],
)
def test_durations_have_two_digits(seconds: float, text: str) -> None:
    """Enough to judge, not more."""
    assert formatting.duration(seconds) == text


def test_distances_look_both_ways() -> None:
    """Ahead and back, and nothing for nothing."""
    assert formatting.distance((NOW + timedelta(minutes=5)).isoformat(), NOW) == "in 5.0 min"
    assert formatting.distance((NOW - timedelta(seconds=3)).isoformat(), NOW) == "3.0 s ago"
    assert formatting.distance(None, NOW) == "-"


def test_moments_show_the_date_only_when_it_is_not_today() -> None:
    """A time of day is enough for today."""
    assert formatting.moment(NOW.isoformat(), today=NOW) == NOW.astimezone().strftime("%H:%M:%S")
    assert formatting.moment(NOW.isoformat(), today=NOW + timedelta(days=2)).startswith("2026-01-05 ")
    assert formatting.moment(None) == "-"


@pytest.mark.parametrize(
    ("count", "text"), [(None, "-"), (999, "999 B"), (1500, "1.5 KB"), (2_000_000, "2.0 MB"), (3 * 10**15, "3000.0 TB")]
)
def test_sizes(count: int | None, text: str) -> None:
    """Bytes with a unit."""
    assert formatting.size(count) == text


def test_versions_are_cut_where_it_helps() -> None:
    """A short one is whole."""
    assert formatting.version("seq:12") == "seq:12"
    assert formatting.version("x" * 32) == "x" * 12 + "…"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2h", NOW + timedelta(hours=2)),
        ("1h 30m", NOW + timedelta(minutes=90)),
        ("2026-01-06T00:00:00Z", datetime(2026, 1, 6, tzinfo=UTC)),
        ("2026-01-06", datetime(2026, 1, 6).astimezone()),
    ],
)
def test_ends_may_be_times_or_durations(text: str, wanted: datetime) -> None:
    """A time without a zone is a time here."""
    assert formatting.parse_when(text, NOW) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("soon", "is not a time"),
        ("", "is not a time"),
        ("2h!", "is not a time"),
        ("2025-01-01", "not in the future"),
        ("99999w", "is not a time"),
    ],
)
def test_bad_ends_are_refused(text: str, message: str) -> None:
    """Texts that are not times, and a time that has passed."""
    with pytest.raises(UsageError, match=message):
        formatting.parse_when(text, NOW)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((0, "row"), "0 rows"),
        ((1, "row"), "1 row"),
        ((1204, "row"), "1,204 rows"),
        ((1, "delivery", "deliveries"), "1 delivery"),
        ((2, "workflow has", "workflows have"), "2 workflows have"),
    ],
)
def test_counts_agree_with_their_nouns(words: tuple[int, str] | tuple[int, str, str], text: str) -> None:
    """One of something is not several."""
    assert counted(*words) == text
