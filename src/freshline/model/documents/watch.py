"""Watches of sources, as commands and the API show them."""

from __future__ import annotations

from typing import TypedDict

from freshline.model.json import Json


class WatchConflict(TypedDict):
    """Something that is not delivered: a delivered file that has changed, or a file that cannot be a delivery."""

    subject: str
    message: str


class Watch(TypedDict):
    """What Freshline looks at for a source, what the last look saw, and when the next one is due.

    `looking`: a process looks now; `nextAt` is then the end of its lease. `reported`: versions and deliveries so far.
    """

    assetId: str
    kind: str
    mode: str
    watch: Json
    looking: bool
    lookedAt: str | None
    nextAt: str
    summary: str | None
    reported: int
    reportedAt: str | None
    conflicts: list[WatchConflict]
    failures: int
    failingSince: str | None
    lookError: str | None
    breakerOpenedAt: str | None
