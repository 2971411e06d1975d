"""Models of webhooks and deliveries."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from freshline.api.models.base import RequestBody, ResponseBody


class WebhookRequest(RequestBody):
    """The request of a new webhook."""

    url: str = Field(min_length=1, max_length=2000, description="The receiver, by https.")
    name: str | None = Field(default=None, min_length=1, max_length=100, description="None: the host of the URL.")
    kind: Literal["cloudevents", "openlineage"] = Field(default="cloudevents", description="The format of deliveries.")
    types: list[str] | None = Field(
        default=None, min_length=1, max_length=50, description="Patterns of event types. None: all."
    )
    assets: list[str] = Field(default=["*"], min_length=1, max_length=50, description="Patterns of asset ids.")
    secret: str | None = Field(
        default=None, max_length=1000, description="`whsec_` and Base64, or the API key. None: a new one, or none."
    )
    after: int | None = Field(default=None, ge=0, lt=2**63, description="Start after this position. None: now.")


class RedeliverRequest(RequestBody):
    """The dead letters to send again."""

    event_id: str | None = Field(
        default=None, min_length=1, max_length=100, description="The event of one dead letter. None: all dead letters."
    )


class Webhook(ResponseBody):
    """A webhook. The query string of its URL and its secret are not shown."""

    id: str
    name: str
    kind: str
    url: str
    types: list[str]
    assets: list[str]
    created_at: datetime
    paused: bool
    position: int
    delivered: int
    delivered_at: datetime | None
    failures: int
    trouble: str | None
    next_attempt_at: datetime | None
    waiting: int
    dead: int


class CreatedWebhook(Webhook):
    """A webhook with its secret, if it was created by this request."""

    secret: str | None


class WebhookDelivery(ResponseBody):
    """An undelivered event."""

    event_id: str
    position: int
    state: Literal["waiting", "dead"]
    attempts: int
    tried_at: datetime
    next_attempt_at: datetime | None
    dead_at: datetime | None
    trouble: str


class Redelivered(ResponseBody):
    """The number of dead letters that are sent again."""

    name: str
    redelivered: int
