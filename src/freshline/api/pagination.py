"""What listings and documents share: cursors, periods, and tags for those who have the document already."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import Query, Request, Response
from fastapi.routing import APIRoute
from pydantic import BeforeValidator

from freshline.api import LONGEST_PAGE
from freshline.api.models import Moment
from freshline.model.json import Json
from freshline.store.read.reader import Period


def _flag(value: Any) -> Any:
    """`true` or `false`, and nothing that only looks like one of them."""
    if isinstance(value, str) and value not in {"true", "false"}:
        raise ValueError("allowed are true and false")
    return value


Flag = Annotated[bool, BeforeValidator(_flag)]
Limit = Annotated[int, Query(ge=1, le=LONGEST_PAGE, description="At most so many.")]
After = Annotated[str | None, Query(max_length=200, description="The `next` of the part before.")]
Since = Annotated[Moment | None, Query(description="From this time on.")]
Until = Annotated[Moment | None, Query(description="Before this time.")]
Name = Annotated[str | None, Query(max_length=200)]


class Plain(APIRoute):
    """A route whose answer is sent as it is.

    The models describe it; that it is so is shown by tests, and not looked at again with every request.
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
    """The document as JSON, as the command line has it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=str).encode()


def page(limit: int, read: Callable[[int], Sequence[Json]], key: str = "id") -> Json:
    """A part of a listing, with where the next one begins: one more than asked for is read to know that."""
    found = read(limit + 1)
    more = len(found) > limit
    return {"items": found[:limit], "next": str(found[limit - 1][key]) if more else None}


def period(since: Since = None, until: Until = None) -> Period:
    """The period that is asked for; open where nothing is said."""
    return since, until


def tagged(request: Request, document: Any) -> Response:
    """The document with its ETag, or 304 for those who have it."""
    body = encoded(document)
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    known = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)
