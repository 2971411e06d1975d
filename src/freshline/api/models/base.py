"""Base classes of requests and responses, pages and problems."""

from __future__ import annotations

import re
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from freshline.api.models.fields import describe
from freshline.model.json import Json

T = TypeVar("T")
RunStatus = Literal["queued", "running", "succeeded", "failed", "canceled"]
TriggerType = Literal["auto-materialize", "manual", "backfill"]
Outcome = Literal["run", "hold", "skip", "error"]
WRITTEN = re.compile(r"\d{4}-\d\d-\d\d[Tt ]", re.ASCII)
PartitionState = Literal["running", "failed", "missing", "frozen", "stale", "fresh"]
State = Literal["fresh", "stale", "running", "waiting", "failing", "missing", "source", "retired"]


def _written(value: Any) -> Any:
    """Reject numbers, which pydantic would read as seconds."""
    if isinstance(value, str) and WRITTEN.match(value):
        return value
    raise ValueError("a time is written as 2026-01-05T09:00:00Z")


Moment = Annotated[AwareDatetime, BeforeValidator(_written), Field(strict=False)]


class RequestBody(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(strict=True, extra="forbid", alias_generator=to_camel)


def _key_text(value: Any) -> Any:
    """Accept a key as text, or the values of several dimensions as an object of texts."""
    if isinstance(value, dict) and not all(isinstance(one, str) for one in value.values()):
        raise ValueError("the values of dimensions are texts")
    return value


PartitionKey = Annotated[
    Annotated[str, Field(max_length=200)] | dict[str, str],
    BeforeValidator(_key_text),
    Field(
        description="The partition: a key, or the value of each dimension. Empty for an asset without partitions.",
    ),
]


class EmptyBody(RequestBody):
    """An empty object, or no body."""


class ResponseBody(BaseModel):
    """The body of a response."""

    model_config = ConfigDict(
        extra="allow", alias_generator=to_camel, populate_by_name=True, json_schema_extra=describe
    )


class Page(ResponseBody, Generic[T]):
    """A page of a listing. `next` is the value of `after` for the following page, or null on the last page."""

    items: list[T]
    next: str | None


class Problem(ResponseBody):
    """An error as RFC 9457 problem details, with a stable code."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[Json] | None = None
