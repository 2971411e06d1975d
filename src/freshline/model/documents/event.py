"""Events in the form of CloudEvents, and their outcomes."""

from __future__ import annotations

from typing import TypedDict

from freshline.model.documents.decision import Evidence
from freshline.model.json import Json


class Event(TypedDict):
    """An event as a CloudEvent 1.0. `position` is None until the event is numbered. `data` depends on the type."""

    specversion: str
    id: str
    source: str
    type: str
    subject: str
    time: str
    datacontenttype: str
    position: int | None
    data: Json


class WorkflowOutcome(TypedDict):
    """The outcome of an event for one workflow."""

    workflowSlug: str
    partitionKey: str
    fate: str
    reason: str | None
    until: str | None
    runId: str | None
    runStatus: str | None
    supersededBy: str | None
    decisionId: str | None
    evidence: Evidence


class EventOutcomes(TypedDict):
    """The number of workflows that an event affects, and the outcome for the first of them by slug."""

    consumers: int
    fates: list[WorkflowOutcome]


class EventDetail(Event, EventOutcomes):
    """An event with its outcomes."""
