"""Events and decisions."""

from __future__ import annotations

from datetime import datetime

from freshline.api.models.base import Json, Outcome, Told


class Event(Told):
    """A fact."""

    id: str
    position: int | None
    type: str
    time: datetime
    subject: str
    data: Json


class EventDetail(Event):
    """An event and what became of it, for each workflow that it concerns."""

    consumers: int
    fates: list[Json]


class Decision(Told):
    """The outcome of looking at a workflow."""

    id: str
    workflow_slug: str
    partition_key: str
    workflow_version: int
    outcome: Outcome
    reason: str
    evidence: Json
    at: datetime
    last_at: datetime
    count: int
    run_id: str | None
