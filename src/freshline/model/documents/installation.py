"""Processes, audit entries, tokens, webhooks and deliveries."""

from __future__ import annotations

from typing import Generic, Literal, TypedDict, TypeVar

from freshline.model.json import Json

T = TypeVar("T")


class Page(TypedDict, Generic[T]):
    """A page of a listing. `next` is the value of `after` for the following page; None on the last page."""

    items: list[T]
    next: str | None


class Tally(TypedDict):
    """How many entries a listing has on all of its pages: `total`, and by kind.

    `complete`: whether all were counted. If not, `total` and `counts` are about the newest ones.
    """

    sentence: str
    total: int
    complete: bool
    counts: dict[str, int]


class Process(TypedDict):
    """A registered process. `live` is false without a recent heartbeat. `runs`: the runs that it executes."""

    id: str
    kind: str
    host: str
    pid: int
    project: str | None
    codeHash: str | None
    startedAt: str
    seenAt: str
    stoppedAt: str | None
    info: Json
    live: bool
    runs: list[str]


class AuditEntry(TypedDict):
    """A change made by a user, with the state before and after."""

    id: str
    at: str
    who: str
    tokenId: str | None
    what: str
    subject: str
    before: Json | None
    after: Json | None


class Token(TypedDict):
    """An API token. `data`: it may read rows. `active`: neither revoked nor expired."""

    id: str
    name: str
    scope: str
    data: bool
    createdAt: str
    expiresAt: str
    revokedAt: str | None
    usedAt: str | None
    active: bool


class ValidToken(TypedDict):
    """A valid token as authentication needs it. `stale`: its last recorded use is more than a minute ago."""

    id: str
    name: str
    scope: str
    data: bool
    expires_at: str
    digest: bytes
    stale: bool


class CreatedToken(Token):
    """A new token with its secret."""

    token: str


class Session(TypedDict):
    """Who sent a request, and what it may do. `name`: that of the token; None for a local client without one."""

    actor: str
    name: str | None
    scope: str
    scopes: list[str]
    anonymous: bool
    expiresAt: str | None


class Webhook(TypedDict):
    """A webhook and its delivery state, without its secret."""

    id: str
    name: str
    kind: str
    url: str
    types: list[str]
    assets: list[str]
    createdAt: str
    paused: bool
    position: int
    delivered: int
    deliveredAt: str | None
    failures: int
    trouble: str | None
    nextAttemptAt: str | None
    waiting: int
    dead: int


class CreatedWebhook(Webhook):
    """A new webhook with its secret, if it was generated."""

    secret: str | None


class WebhookDelivery(TypedDict):
    """An undelivered event of a webhook."""

    eventId: str
    position: int
    state: Literal["waiting", "dead"]
    attempts: int
    triedAt: str
    nextAttemptAt: str | None
    deadAt: str | None
    trouble: str


class Redelivered(TypedDict):
    """The number of dead letters that are sent again."""

    name: str
    redelivered: int


class About(TypedDict):
    """The version of the API, the time of the database, and the position of the newest event."""

    version: str
    at: str
    position: int
