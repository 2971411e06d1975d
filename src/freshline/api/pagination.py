"""Cursors and periods of listings, and ETags of documents."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query, Request, Response
from fastapi.routing import APIRoute
from pydantic import BeforeValidator

from freshline.api import MAX_PAGE
from freshline.api.models import Moment
from freshline.model.documents.installation import Page
from freshline.store.read.history import Period

T = TypeVar("T", bound=Mapping[str, object])


def _strict_flag(value: Any) -> Any:
    """Accept only `true` and `false`, not other values that pydantic would convert."""
    if isinstance(value, str) and value not in {"true", "false"}:
        raise ValueError("allowed are true and false")
    return value


Flag = Annotated[bool, BeforeValidator(_strict_flag), Query(description="Whether to include them.")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Maximum number of entries.")]
After = Annotated[str | None, Query(max_length=200, description="The `next` of the previous page.")]
Since = Annotated[Moment | None, Query(description="Start of the period, inclusive.")]
Until = Annotated[Moment | None, Query(description="End of the period, exclusive.")]
Partition = Annotated[
    str | None,
    Query(alias="partitionKey", min_length=1, max_length=200, description="A partition; default: all of them."),
]
Project = Annotated[str | None, Query(max_length=200, description="Only what belongs to this project; default: all.")]
Pattern = Annotated[
    str | None, Query(max_length=200, description="A name, or a pattern such as `sales.*`; default: all.")
]
Name = Annotated[str | None, Query(max_length=200, description="An id or a name; default: all.")]


class UnvalidatedRoute(APIRoute):
    """A route whose result is sent without validation.

    The response models describe it, and tests check that; validating every response would cost time.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, _plain(endpoint, options.get("status_code") or 200), **options)


def _plain(endpoint: Callable[..., Any], status: int) -> Callable[..., Any]:
    @functools.wraps(endpoint)
    def answer(**given: Any) -> Response:
        found = endpoint(**given)
        if isinstance(found, Response):
            return found
        if found is None:  # 204: a body would break the connection
            return Response(status_code=status)
        return Response(encoded(found), status, media_type="application/json")

    return answer


def encoded(document: Any) -> bytes:
    """Return a document as JSON, as the command line prints it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=str).encode()


def page(limit: int, read: Callable[[int], list[T]], key: str = "id") -> Page[T]:
    """Return one page of a listing. It reads one entry more, to know whether there is another page."""
    found = read(limit + 1)
    more = len(found) > limit
    return {"items": found[:limit], "next": str(found[limit - 1][key]) if more else None}


def period(since: Since = None, until: Until = None) -> Period:
    """Return the requested period; a missing bound is open."""
    return since, until


Within = Annotated[Period, Depends(period)]


def tagged(request: Request, document: Any) -> Response:
    """Return a document with its ETag, or 304 if the client has it."""
    body = encoded(document)
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    known = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)
