"""Conflicts that a look cannot see a second time: they are kept with the position, and shown for a week."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypedDict

from freshline.watching.look import Conflict, LookContext

SHOWN = timedelta(days=7)
MOST_NOTES = 20


class Note(TypedDict):
    """A conflict with the time of its look."""

    at: str
    subject: str
    message: str


def note(subject: str, message: str, context: LookContext) -> Note:
    """Return a conflict of this look."""
    return {"at": context.now.isoformat(), "subject": subject, "message": message}


def kept(notes: Sequence[Note], context: LookContext) -> list[Note]:
    """Return the newest notes of the last week."""
    return [one for one in notes[-MOST_NOTES:] if context.now - datetime.fromisoformat(one["at"]) < SHOWN]


def conflicts(notes: Iterable[Note]) -> tuple[Conflict, ...]:
    """Return what a look returns of them."""
    return tuple(Conflict(one["subject"], one["message"]) for one in notes)
