"""Webhooks, and what they did not take."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from freshline.api.models.base import Asked, Told


class WebhookAsked(Asked):
    """Events for a URL."""

    url: str = Field(min_length=1, max_length=2000, description="Where they are sent, by https.")
    name: str | None = Field(default=None, min_length=1, max_length=100, description="None: the host of the URL.")
    kind: Literal["cloudevents", "openlineage"] = Field(default="cloudevents", description="What is sent.")
    types: list[str] | None = Field(default=None, min_length=1, max_length=50, description="Patterns. None: all.")
    assets: list[str] = Field(default=["*"], min_length=1, max_length=50, description="Patterns of asset ids.")
    secret: str | None = Field(
        default=None, max_length=1000, description="`whsec_` and Base64, or the API key. None: a new one, or none."
    )
    after: int | None = Field(default=None, ge=0, lt=2**63, description="Begin after this position. None: now.")


class RedeliverAsked(Asked):
    """Which dead letters."""

    event_id: str | None = Field(default=None, min_length=1, max_length=100, description="None: all of them.")


class Webhook(Told):
    """Who is told about events. The query of an address is not shown, and its secret never."""

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


class WebhookMade(Webhook):
    """A webhook with its secret, if that was made just now."""

    secret: str | None


class Delivery(Told):
    """An event that a webhook did not take."""

    event_id: str
    position: int
    state: Literal["waiting", "dead"]
    attempts: int
    tried_at: datetime
    next_attempt_at: datetime | None
    dead_at: datetime | None
    trouble: str


class Redelivered(Told):
    """Dead letters that are sent again."""

    name: str
    redelivered: int
