"""Errors as RFC 9457 problem details with stable codes. Problems contain only texts of Freshline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from freshline.api.cookies import remove_cookie
from freshline.errors import (
    ConflictError,
    DatabaseError,
    FreshlineError,
    NotFoundError,
    SchemaError,
    UsageError,
    WarehouseError,
)

log = structlog.get_logger("freshline.api")
MEDIA = "application/problem+json"
STATUS: Sequence[tuple[type[FreshlineError], int]] = (
    (NotFoundError, 404),
    (ConflictError, 409),
    (UsageError, 422),
    (DatabaseError, 503),
    (SchemaError, 503),
    (WarehouseError, 503),
)
TITLES = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timed out",
    409: "Conflict",
    413: "Request too large",
    415: "Unsupported media type",
    422: "Invalid request",
    429: "Too many requests",
    500: "Internal error",
    503: "Unavailable",
}
CODES = {404: "not-found", 405: "method-not-allowed"}
RETRY_AFTER_S = "2"


class RequestError(Exception):
    """A rejected request."""

    def __init__(self, status: int, code: str, detail: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.retry_after_s = retry_after_s

    def response(self) -> JSONResponse:
        """Return the response."""
        response = problem(self.status, self.code, self.detail)
        if self.retry_after_s is not None:
            response.headers["Retry-After"] = str(self.retry_after_s)
        return response


def problem(status: int, code: str, detail: str, **more: Any) -> JSONResponse:
    """Return a problem as a response; `more` are its extension members."""
    content = {
        "type": f"urn:freshline:problem:{code}",
        "title": TITLES.get(status, "Error"),
        "status": status,
        "detail": detail,
        "code": code,
        **more,
    }
    later = {"Retry-After": RETRY_AFTER_S}
    headers = {401: {"WWW-Authenticate": "Bearer"}, 429: later, 503: later}.get(status)
    return JSONResponse(content, status_code=status, media_type=MEDIA, headers=headers)


def install(app: FastAPI) -> None:
    """Register handlers that turn every error of the application into a problem."""
    app.add_exception_handler(RequestError, _request_error)
    app.add_exception_handler(FreshlineError, _known)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(psycopg.Error, _database)
    app.add_exception_handler(UnicodeEncodeError, _unstorable)


def unexpected(request_path: str, error: Exception) -> JSONResponse:
    """Log an unexpected error and return a problem without its text, which may contain anything."""
    log.error("request_failed", path=request_path, error=type(error).__name__, exc_info=error)
    return problem(500, "internal", "internal error; see the log of the API")


def _request_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestError)  # noqa: S101 - registered only for this type
    response = error.response()
    if error.code == "token-invalid" and getattr(request.state, "cookie", False):
        remove_cookie(response)
    return response


def _known(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, FreshlineError)  # noqa: S101 - registered only for this type
    for kind, status in STATUS:
        if isinstance(error, kind):
            return problem(status, error.code, str(error))
    return unexpected(request.url.path, error)


def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Report each invalid field without its value, which may be a misplaced secret."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered only for this type
    found = [{"at": ".".join(map(str, one["loc"])), "message": one["msg"]} for one in error.errors()]
    first = f"{found[0]['at']}: {found[0]['message']}" if found else "the request is invalid"
    return problem(422, "invalid-request", first, errors=found)


def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered only for this type
    response = problem(error.status_code, CODES.get(error.status_code, "bad-request"), str(error.detail))
    response.headers.update(error.headers or {})  # such as Allow
    return response


def _database(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, psycopg.errors.DataError):
        return problem(400, "bad-value", "a value cannot be stored: a NUL character, or a number that is too large")
    if isinstance(error, psycopg.OperationalError):
        log.warning("database_busy", path=request.url.path, error=type(error).__name__)
        return problem(503, "database", "the database is busy or unavailable; try again")
    return unexpected(request.url.path, error)


def _unstorable(_: Request, __: Exception) -> JSONResponse:
    return problem(400, "bad-value", "a text is not valid Unicode: it contains an unpaired surrogate")
