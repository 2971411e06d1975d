"""Models of events and decisions."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict

from freshline.api.models.base import Outcome, ResponseBody
from freshline.model.json import Json


class Event(ResponseBody):
    """An event, as a CloudEvent 1.0."""

    model_config = ConfigDict(extra="allow")  # the attributes of CloudEvents are lower case

    specversion: Literal["1.0"]
    id: str
    source: str
    type: str
    subject: str
    time: datetime
    datacontenttype: Literal["application/json"]
    position: int | None
    data: Json


class EventDetail(Event):
    """An event with its outcome for each affected workflow."""

    consumers: int
    fates: list[Json]


class Decision(ResponseBody):
    """The result of evaluating a workflow."""

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
