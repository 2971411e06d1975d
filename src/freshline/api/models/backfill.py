"""Models of backfills."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from freshline.api.models.asset import PartitionRange
from freshline.api.models.base import Moment, RequestBody, ResponseBody
from freshline.model import backfill as model
from freshline.model.json import Json

BackfillStatus = Literal["proposed", "active", "paused", "finished", "canceled", "denied"]
Text = Annotated[str, Field(min_length=1, max_length=200)]
MOST_KEYS = 10_000


class BackfillRequest(RequestBody):
    """The request of a backfill."""

    asset_id: Text = Field(description="The asset whose partitions are computed again.")
    from_: Text | None = Field(default=None, alias="from", description="The first partition, for times.")
    to: Text | None = Field(default=None, description="The last partition, included, for times.")
    keys: list[Text] = Field(
        default_factory=list, min_length=1, max_length=MOST_KEYS, description="Partitions instead of a range."
    )
    only: Literal["missing", "failed", "stale", "all"] = Field(default="all", description="Which of them.")
    upstream: bool = Field(default=False, description="Also the partitions that these are computed from.")
    downstream: bool = Field(default=False, description="Also the partitions that are computed from these.")
    batch: int = Field(default=1, ge=1, le=model.MOST_CONCURRENCY, description="Partitions per run.")
    concurrency: int = Field(
        default=model.DEFAULT_CONCURRENCY, ge=1, le=model.MOST_CONCURRENCY, description="Queued and running runs."
    )
    order: Literal["newest", "oldest"] = Field(default="newest", description="Which partitions come first.")
    not_before: Moment | None = Field(default=None, description="Start then, with a time zone.")
    during_quiet_hours: bool = Field(default=False, description="Run in quiet hours too.")
    priority: int = Field(default=model.DEFAULT_PRIORITY, ge=0, le=1_000_000, description="Among backfills.")
    partial: bool = Field(default=False, description="Leave input partitions out that are missing or were removed.")
    key: str | None = Field(
        default=None, min_length=1, max_length=200, description="Same as the header Idempotency-Key."
    )

    def as_request(self) -> model.BackfillRequest:
        """Return the request as the store takes it."""
        policy = model.BackfillPolicy(
            only=model.Only(self.only),
            batch=self.batch,
            concurrency=self.concurrency,
            newest_first=self.order == "newest",
            not_before=self.not_before,
            during_quiet_hours=self.during_quiet_hours,
            priority=self.priority,
            partial=self.partial,
        )
        return model.BackfillRequest(
            self.asset_id, self.from_, self.to, tuple(self.keys), self.upstream, self.downstream, policy
        )


class BackfillRevision(RequestBody):
    """The approval or the denial of a proposal."""

    revision: int = Field(ge=1, description="The revision of the proposal that was shown.")


class CancelBackfill(RequestBody):
    """The end of a backfill."""

    kill: bool = Field(default=False, description="Stop running runs too.")


class BackfillProgress(ResponseBody):
    """How many partitions are in which state."""

    total: int
    done: int
    failed: int
    refused: int
    running: int
    queued: int
    waiting: int
    rest: int


class BackfillPart(BackfillProgress):
    """The part of one workflow."""

    workflow_slug: str
    workflow_version: int
    selection: Any
    states: list[PartitionRange]


class Backfill(ResponseBody):
    """A backfill."""

    id: str
    project: str
    asset_id: str
    status: BackfillStatus
    requested_by: str | None
    requested_at: datetime
    selection: Any
    upstream: bool
    downstream: bool
    only: str
    batch: int
    concurrency: int
    order: str
    not_before: datetime | None
    during_quiet_hours: bool
    priority: int
    partial: bool
    revision: int
    reasons: list[Json] | None
    progressed_at: datetime | None
    ended_at: datetime | None
    progress: BackfillProgress
    eta_ms: int | None


class BackfillPreview(ResponseBody):
    """What a backfill would compute, and what that costs."""

    asset_id: str
    partitions: int
    parts: list[Json]
    downstream: list[Json]


class BackfillDetail(Backfill):
    """A backfill with its parts and what failed. `cost`: of a proposal, what it would compute."""

    parts: list[BackfillPart]
    failures: list[Json]
    cost: BackfillPreview | None
