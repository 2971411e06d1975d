"""What requests and answers share: strictness, names, pages, problems."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

T = TypeVar("T")
Json = dict[str, Any]
RunStatus = Literal["queued", "running", "succeeded", "failed", "canceled"]
TriggerType = Literal["auto-materialize", "manual", "backfill"]
Outcome = Literal["run", "hold", "skip", "error"]
State = Literal["fresh", "stale", "running", "waiting", "failing", "missing", "source"]


class Asked(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(strict=True, extra="forbid", alias_generator=to_camel)


class Nothing(Asked):
    """An empty object, or no body."""


class Told(BaseModel):
    """The body of an answer."""

    model_config = ConfigDict(extra="allow", alias_generator=to_camel, populate_by_name=True)


class Page(Told, Generic[T]):
    """A part of a listing. `next`: the value of `after` for the part that follows; none at the end."""

    items: list[T]
    next: str | None


class Problem(Told):
    """RFC 9457, with a stable code."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[Json] | None = None
