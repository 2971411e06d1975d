"""Errors as RFC 9457 problem details, each with a stable code. No problem carries more than a sentence of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from freshline.errors import (
    ConflictError,
    DatabaseError,
    FreshlineError,
    NotFoundError,
    SchemaError,
    UsageError,
)

log = structlog.get_logger("freshline.api")
MEDIA = "application/problem+json"
STATUS: Sequence[tuple[type[FreshlineError], int]] = (
    (NotFoundError, 404),
    (ConflictError, 409),
    (UsageError, 422),
    (DatabaseError, 503),
    (SchemaError, 503),
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
    500: "Internal error",
    503: "Unavailable",
}
CODES = {404: "not-found", 405: "method-not-allowed"}
RETRY_AFTER_S = "2"


class Refusal(Exception):
    """A request that is not let through."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail

    def response(self) -> JSONResponse:
        """The answer."""
        return problem(self.status, self.code, self.detail)


def problem(status: int, code: str, detail: str, **more: Any) -> JSONResponse:
    """One problem; `more` are its extension members."""
    content = {
        "type": f"urn:freshline:problem:{code}",
        "title": TITLES.get(status, "Error"),
        "status": status,
        "detail": detail,
        "code": code,
        **more,
    }
    headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": RETRY_AFTER_S}}.get(status)
    return JSONResponse(content, status_code=status, media_type=MEDIA, headers=headers)


def install(app: FastAPI) -> None:
    """Every error of the application becomes a problem."""
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(FreshlineError, _told)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(psycopg.Error, _database)
    app.add_exception_handler(UnicodeEncodeError, _unstorable)


def unexpected(request_path: str, error: Exception) -> JSONResponse:
    """A fault of ours: told without its words, which may be anything; the log has its kind."""
    log.error("request_failed", path=request_path, error=type(error).__name__, exc_info=error)
    return problem(500, "internal", "something went wrong here; the log of the API tells more")


def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)  # noqa: S101 - it is registered for these alone
    return error.response()


def _told(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, FreshlineError)  # noqa: S101 - it is registered for these alone
    for kind, status in STATUS:
        if isinstance(error, kind):
            return problem(status, error.code, str(error))
    return unexpected(request.url.path, error)


def _invalid(_: Request, error: Exception) -> JSONResponse:
    """What is wrong and where; never the value, which may be a secret in a wrong place."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - it is registered for these alone
    found = [{"at": ".".join(map(str, one["loc"])), "message": one["msg"]} for one in error.errors()]
    first = f"{found[0]['at']}: {found[0]['message']}" if found else "the request is not valid"
    return problem(422, "invalid-request", first, errors=found)


def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for these alone
    told = problem(error.status_code, CODES.get(error.status_code, "bad-request"), str(error.detail))
    told.headers.update(error.headers or {})  # which methods are allowed, say
    return told


def _database(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, psycopg.errors.DataError):
        return problem(400, "bad-value", "a value cannot be stored: a NUL character, or a number that is too large")
    if isinstance(error, psycopg.OperationalError):
        log.warning("database_busy", path=request.url.path, error=type(error).__name__)
        return problem(503, "database", "the database is busy or away; try again")
    return unexpected(request.url.path, error)


def _unstorable(_: Request, __: Exception) -> JSONResponse:
    return problem(400, "bad-value", "a text is not valid Unicode: it has half of a surrogate pair")
