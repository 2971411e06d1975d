"""Watches of sources, as commands and the API show them."""

from __future__ import annotations

from typing import TypedDict

from freshline.model.json import Json


class WatchConflict(TypedDict):
    """Something that is not delivered: a file that has changed, that cannot be a delivery, or that has no partition."""

    subject: str
    message: str


class FailingConsumer(TypedDict):
    """A workflow that reads a source and whose last run failed. `error`: its message."""

    workflowSlug: str
    runId: str
    error: str


class Watch(TypedDict):
    """What Freshline looks at for a source, what the last look saw, and when the next one is due.

    `looking`: a process looks now; `nextAt` is then the end of its lease. `reported`: versions and deliveries so far.
    `reportedPartitions`: of the last look that reported, at most 20 and the newest last; none without partitions.
    `failingConsumers`: at most 20 workflows, by slug.
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
    reportedPartitions: list[str]
    conflicts: list[WatchConflict]
    failures: int
    failingSince: str | None
    lookError: str | None
    breakerOpenedAt: str | None
    failingConsumers: list[FailingConsumer]
