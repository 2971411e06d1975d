"""Models of alerts, their incidents and messages."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from freshline.api.models.base import RequestBody, ResponseBody
from freshline.model.json import Json


class AlertVariable(RequestBody):
    """An address that a variable holds."""

    env: str = Field(min_length=1, max_length=200, description="The materializer's variable.")


class AlertRequest(RequestBody):
    """The request of a new alert. It covers the assets of all projects."""

    name: str = Field(min_length=1, max_length=100, description="The name of the alert.")
    on: list[str] = Field(min_length=1, max_length=50, description="What is reported: failing, overdue and others.")
    to: list[str | AlertVariable] = Field(
        min_length=1, max_length=20, description="Addresses of Apprise, or variables that hold them."
    )
    assets: list[str] = Field(default=["*"], min_length=1, max_length=50, description="Patterns of asset ids.")
    after: str | None = Field(default=None, max_length=100, description="Report what is wrong for this long, as in 5m.")
    clear_after: str | None = Field(
        default=None, max_length=100, description="How long all must be fine before the all-clear. None: 1m."
    )
    quiet: list[str] | None = Field(
        default=None, max_length=50, description="Times in which messages wait: 22:00-07:00."
    )
    timezone: str | None = Field(default=None, max_length=100, description="The time zone of `quiet` and `digest`.")
    digest: str | None = Field(default=None, max_length=100, description="The times of summaries, as in daily 08:00.")
    title: str | None = Field(default=None, max_length=4_000, description="A template of the title.")
    body: str | None = Field(default=None, max_length=4_000, description="A template of the text.")


class Alert(ResponseBody):
    """An alert and its state. Addresses are not shown."""

    id: str
    name: str
    project: str | None
    on: list[str]
    assets: list[str]
    to: list[str]
    after_ms: int
    clear_after_ms: int
    quiet: list[Json]
    digest: Json | None
    title_template: str | None
    body_template: str | None
    created_at: datetime
    paused: bool
    open: int
    waiting: int
    dead: int
    sent: int
    trouble: str | None


class AlertIncident(ResponseBody):
    """One thing that was wrong: one cause, with everything below it."""

    id: str
    root_type: Literal["workflow", "asset"]
    root: str
    kinds: list[str]
    assets: list[str]
    affected: int
    members: int
    error: str | None
    run_id: str | None
    opened_at: datetime
    recovered_at: datetime | None
    closed_at: datetime | None
    closing: Literal["recovered", "removed", "unmatched"] | None
    alerted_at: datetime | None
    cleared_at: datetime | None


class AlertMessage(ResponseBody):
    """A message to one address."""

    number: int
    kind: Literal["alert", "clear", "summary"]
    to: str | None
    title: str | None
    state: Literal["waiting", "sent", "dead"]
    incidents: list[str]
    created_at: datetime
    attempts: int
    next_attempt_at: datetime | None
    sent_at: datetime | None
    trouble: str | None
