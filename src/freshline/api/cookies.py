"""The cookie of the page: a token that scripts cannot read, and that browsers do not send from other sites."""

from __future__ import annotations

from datetime import datetime

from fastapi import Request, Response

COOKIE = "freshline_token"


def set_cookie(request: Request, response: Response, secret: str, *, now: datetime, ends: datetime | None) -> None:
    """Set the cookie until the token ends."""
    left = None if ends is None else max(0, int((ends - now).total_seconds()))
    response.set_cookie(COOKIE, secret, max_age=left, secure=_encrypted(request), httponly=True, samesite="strict")


def remove_cookie(response: Response) -> None:
    """Remove the cookie."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


def _encrypted(request: Request) -> bool:
    """Return whether the browser uses https. It says so itself; a proxy with TLS hides it from the server."""
    said = (request.headers.get("origin", ""), f"{request.headers.get('x-forwarded-proto', '')}:")
    return request.url.scheme == "https" or any(one.startswith("https:") for one in said)
