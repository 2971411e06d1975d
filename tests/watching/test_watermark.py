"""What a watermark means: which values are one, how they are compared, what a change is for each mode of a source."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from freshline.model.json import Json
from freshline.watching.look import Look, LookError, Mode
from freshline.watching.watermark import MAX_CHARS, compare, watermark_of
from tests.watching.looks import NOW, context

MOMENT = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)


def seen(mode: Mode, *values: Any) -> list[Look]:
    """Return the looks that see these values one after the other."""
    looks: list[Look] = []
    for value in values:
        position = looks[-1].position if looks else None
        looks.append(compare(mode, position, watermark_of(value), context(), noun="watermark"))
    return looks


@pytest.mark.parametrize(
    ("value", "text", "order"),
    [
        (7, "7", "number"),
        (Decimal("7.50"), "7.50", "number"),
        (0.1, "0.1", "number"),
        (MOMENT, "2026-01-05T09:30:00+00:00", "time"),
        (MOMENT.astimezone(timezone(timedelta(hours=2))), "2026-01-05T09:30:00+00:00", "time"),
        (MOMENT.replace(tzinfo=None), "2026-01-05T09:30:00", "time"),
        (date(2026, 1, 5), "2026-01-05", "time"),
        ("2026-01-05 09:30:00", "2026-01-05 09:30:00", "time"),
        ("2026-13-05", "2026-13-05", "none"),
        ("v7", "v7", "none"),
        (True, "true", "none"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007", "none"),
        (b"\x00\x07", "0007", "none"),
    ],
)
def test_a_value_becomes_a_text(value: Any, text: str, order: str) -> None:
    """Equal moments have equal texts, whatever the time zone of the session."""
    found = watermark_of(value)
    assert (found.text, found.order) == (text, order)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "the watermark is NULL"),
        ([1], "the watermark has the type list; allowed are numbers"),
        (float("nan"), "the watermark has the type float"),
        (Decimal("Infinity"), "the watermark has the type Decimal"),
        ("x" * (MAX_CHARS + 1), "the watermark has 501 characters; allowed are 500"),
    ],
)
def test_other_values_are_errors(value: Any, message: str) -> None:
    """They say what was found and what is allowed, and never show the value."""
    with pytest.raises(LookError) as raised:
        watermark_of(value)
    assert message in str(raised.value)
    assert "xxx" not in str(raised.value)


def test_an_append_source_gets_one_delivery_per_change() -> None:
    """Each begins where the last one ended; a look without a change finds nothing and keeps the position."""
    looks = seen("append", 3, 3, 5, 8)
    assert [[one.payload for one in look.found] for look in looks] == [
        [{"from": None, "to": "3"}],
        [],
        [{"from": "3", "to": "5"}],
        [{"from": "5", "to": "8"}],
    ]
    assert all(one.data_version is None for look in looks for one in look.found)
    assert looks[1].position == looks[0].position


def test_a_repeated_look_finds_the_same_key() -> None:
    """A look whose result was not stored is repeated from the same position."""
    first = seen("append", 3)[0]
    again = [compare("append", first.position, watermark_of(5), context(), noun="watermark") for _ in range(2)]
    assert again[0].found[0].key == again[1].found[0].key
    assert first.found[0].key != again[0].found[0].key


@pytest.mark.parametrize(("high", "low"), [(10, 7), ("2026-01-05", "2026-01-04"), (MOMENT, MOMENT - timedelta(1))])
def test_an_append_source_that_goes_back_gets_nothing(high: Any, low: Any) -> None:
    """Its position stays: otherwise the rows between the two would be delivered again."""
    first, back, again = seen("append", high, low, high)
    assert back.found == again.found == ()
    assert back.position == first.position
    (conflict,) = back.conflicts
    assert "went back from" in conflict.message
    assert again.conflicts == ()


def test_a_text_has_no_order() -> None:
    """Any other text is a change, also one that was there before; its key is a new one."""
    looks = seen("append", "b", "a", "b", "a")
    assert [look.found[0].payload["to"] for look in looks] == ["b", "a", "b", "a"]
    assert len({look.found[0].key for look in looks}) == 4


def test_a_snapshot_source_gets_every_version() -> None:
    """Also one that comes back: the data is what it was, and consumers must read it."""
    looks = seen("snapshot", 10, 7, 7, 10)
    assert [[one.data_version for one in look.found] for look in looks] == [["10"], ["7"], [], ["10"]]
    assert len({look.found[0].key for look in looks if look.found}) == 3
    assert all(not look.conflicts for look in looks)


def test_a_watch_that_was_removed_and_declared_again_reports_what_is_there() -> None:
    """A snapshot source has its new version even if an earlier watch reported the same version before others."""
    first = seen("snapshot", 10)[0]
    later = compare("snapshot", None, watermark_of(10), context(now=NOW + timedelta(days=1)), noun="watermark")
    assert later.found[0].key != first.found[0].key


def test_times_with_and_without_a_zone_are_not_compared() -> None:
    """A column that got a time zone is a change, not an error."""
    position: Json = seen("append", MOMENT.replace(tzinfo=None))[0].position
    look = compare("append", position, watermark_of(MOMENT - timedelta(1)), context(), noun="watermark")
    assert len(look.found) == 1
