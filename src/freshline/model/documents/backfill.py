"""Backfills, as the command line and the API show them."""

from __future__ import annotations

from typing import TypedDict

from freshline.model.documents.partition import PartitionRange
from freshline.model.json import Json


class BackfillProgress(TypedDict):
    """How many partitions are in which state. `rest`: those whose turn has not come."""

    total: int
    done: int
    failed: int
    refused: int
    running: int
    queued: int
    waiting: int
    rest: int


class BackfillPart(BackfillProgress):
    """The part of one workflow. `selection`: its partitions; `first` and `last`: the oldest and the newest key."""

    workflowSlug: str
    workflowVersion: int
    selection: Json | str
    states: list[PartitionRange]


class Backfill(TypedDict):
    """A backfill. `etaMs`: how long the rest takes at the pace so far; None if nothing ended yet or nothing runs."""

    id: str
    project: str
    assetId: str
    status: str
    requestedBy: str | None
    requestedAt: str
    selection: Json | str
    upstream: bool
    downstream: bool
    only: str
    batch: int
    concurrency: int
    order: str
    notBefore: str | None
    duringQuietHours: bool
    priority: int
    partial: bool
    revision: int
    reasons: list[Json] | None
    progressedAt: str | None
    endedAt: str | None
    progress: BackfillProgress
    etaMs: int | None


class FailedPartition(TypedDict):
    """A partition that failed too often, or was refused."""

    workflowSlug: str
    partitionKey: str
    state: str


class PreviewPart(TypedDict):
    """What a backfill would compute of one workflow: how many partitions, and the first and the last of them.

    `frozen` ones run for it although they do not run by themselves. `sealed` ones are refused, unless it is `partial`.
    `outside` were selected too, and retention has removed them. `p50Ms`, `p95Ms`: measured durations of its runs; None
    without any. `rows`, `bytes`: of the current versions.
    """

    workflowSlug: str
    partitions: int
    runs: int
    first: str
    last: str
    frozen: int
    sealed: int
    outside: int
    p50Ms: int | None
    p95Ms: int | None
    rows: int | None
    bytes: int | None


class Downstream(TypedDict):
    """A workflow that reads partitions of a backfill and is not part of it: it runs if its inputs change."""

    workflowSlug: str
    partitions: int


class BackfillPreview(TypedDict):
    """What a backfill would compute, and what runs because of it."""

    assetId: str
    partitions: int
    parts: list[PreviewPart]
    downstream: list[Downstream]


class BackfillDetail(Backfill):
    """A backfill with its parts, ancestors first, and the first partitions that failed or were refused.

    `cost`: of a proposal, what it would compute.
    """

    parts: list[BackfillPart]
    failures: list[FailedPartition]
    cost: BackfillPreview | None
