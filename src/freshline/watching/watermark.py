"""A watermark: one value that changes when a source has new data. What a new one means for the source is decided here.

Pure. A number, a date or a time has an order. An append source whose watermark went back gets nothing: its position
stays, because rows that were delivered would be delivered again when the watermark rises.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from freshline.model.json import Json
from freshline.watching.look import Conflict, Found, Look, LookContext, LookError, Mode

MAX_CHARS = 500
Order = Literal["number", "time", "none"]
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)?)?")


@dataclass(frozen=True, slots=True)
class Watermark:
    """A value as text. `order`: how two of them are compared; `none`: they are equal or different."""

    text: str
    order: Order = "none"

    def is_before(self, other: Watermark) -> bool:
        """Return whether this value is lower. False for values that cannot be compared."""
        if self.order != other.order or self.order == "none":
            return False
        if self.order == "number":
            return Decimal(self.text) < Decimal(other.text)
        mine, others = datetime.fromisoformat(self.text), datetime.fromisoformat(other.text)
        return (mine.tzinfo is None) == (others.tzinfo is None) and mine < others


def watermark_of(value: Any) -> Watermark:
    """Return the watermark of a value from a database. Raise `LookError` for NULL, a list and the like."""
    if value is None:
        raise LookError(
            "the watermark is NULL",
            hint="the table may be empty; give it a start, as in SELECT coalesce(max(id), 0) FROM orders",
        )
    found = _converted(value)
    if found is None:
        raise LookError(
            f"the watermark has the type {type(value).__name__}; allowed are numbers, texts, dates, times, UUIDs "
            "and bytes",
            hint="convert it in the query, as in CAST(... AS varchar)",
        )
    if len(found.text) > MAX_CHARS:
        raise LookError(
            f"the watermark has {len(found.text):,} characters; allowed are {MAX_CHARS}",
            hint="return its digest, as in SELECT md5(...)",
        )
    return found


def _converted(value: Any) -> Watermark | None:
    match value:
        case bool():
            return Watermark(str(value).lower())
        case int():
            return Watermark(str(value), "number")
        case Decimal() if value.is_finite():
            return Watermark(str(value), "number")
        case float() if math.isfinite(value):
            return Watermark(repr(value), "number")
        case datetime():
            # In UTC: the same moment has the same text in every session.
            return Watermark((value.astimezone(UTC) if value.tzinfo else value).isoformat(), "time")
        case date():
            return Watermark(value.isoformat(), "time")
        case str():
            return Watermark(value, "time" if _is_time(value) else "none")
        case UUID():
            return Watermark(str(value))
        case bytes() | bytearray() | memoryview():
            return Watermark(bytes(value).hex())
    return None


def _is_time(text: str) -> bool:
    """Return whether a text is a date or a time: SQLite, and many tables, hold times as texts."""
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def compare(mode: Mode, position: Json | None, now: Watermark, context: LookContext, *, noun: str) -> Look:
    """Return the result of a look that found this value: nothing, a new version, or a delivery."""
    if position is None:
        return _changed(mode, None, now, {"since": context.now.isoformat(), "number": 0}, noun)
    before = Watermark(position["watermark"], position["order"])
    if now == before:
        return Look((), position, f"The {noun} is {now.text}, as before.")
    if mode == "append" and now.is_before(before):
        message = (
            f"The {noun} went back from {before.text} to {now.text}. Nothing is delivered until it is above "
            f"{before.text}, because rows that were delivered would be delivered again."
        )
        return Look((), position, f"The {noun} went back to {now.text}.", (Conflict(noun, message),))
    return _changed(mode, before.text, now, position, noun)


def _changed(mode: Mode, before: str | None, now: Watermark, position: Json, noun: str) -> Look:
    number = position["number"] + 1
    kept = {**position, "watermark": now.text, "order": now.order, "number": number}
    summary = f"The {noun} is {now.text}" + (f"; it was {before}." if before is not None else ".")
    if mode == "append":
        payload: Json = {"from": before, "to": now.text}
        return Look((Found(key(number, before, now.text), None, payload),), kept, summary)
    # A version that comes back is a change again: the number and the start of the watch make its key a new one.
    identity = key(number, position["since"], now.text)
    return Look((Found(identity, now.text, {noun: now.text}),), kept, summary)


def key(number: int, *parts: str | None) -> str:
    """Return a key that is equal only for an equal number and equal parts."""
    return f"{number}:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]}"
