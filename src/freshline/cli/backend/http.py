"""A connection to the HTTP API: sends requests, returns JSON, and raises our own errors.

It does not follow redirects, so that a token is sent only to the configured address.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from freshline import __version__
from freshline.api import PREFIX, VERSION
from freshline.errors import (
    AccessError,
    ApiError,
    ConfirmationError,
    ConflictError,
    DatabaseError,
    FreshlineError,
    KeyReusedError,
    NotFoundError,
    PartitionKeyError,
    SchemaError,
    UsageError,
)

TIMEOUT_S = 90.0  # longer than the 60 s that the API gives a statement
CONNECT_S = 10.0
# An error of the API becomes the error that the same command raises on a database.
ERRORS: Mapping[str, type[FreshlineError]] = {
    one.code: one
    for one in (
        *(NotFoundError, ConflictError, KeyReusedError, ConfirmationError),
        *(UsageError, PartitionKeyError, DatabaseError, SchemaError),
    )
}
BY_STATUS: Mapping[int, type[FreshlineError]] = {401: AccessError, 403: AccessError, 422: UsageError}
ADVICE = "set FRESHLINE_API_TOKEN to one of `freshline token create`"


class Connection:
    """One connection to an API, kept open for the next request."""

    def __init__(self, url: str, token: str | None, *, timeout_s: float | None = None) -> None:
        self.url = url
        self._connect_s, self._timeout_s = timeout_s or CONNECT_S, timeout_s or TIMEOUT_S
        self._token = token
        self._address = urlsplit(url)
        self._connection: http.client.HTTPConnection | None = None

    def get(self, *path: str, **params: Any) -> Any:
        """Send a GET and return the answer. Parameters that are None are left out."""
        given = {name: value for name, value in params.items() if value is not None}
        return self._ask("GET", _path(path) + (f"?{urlencode(given)}" if given else ""))

    def post(self, *path: str, **body: Any) -> Any:
        """Send a POST and return the answer. Fields that are None are left out."""
        return self._ask("POST", _path(path), {name: value for name, value in body.items() if value is not None})

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Accept": "application/json, application/problem+json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        sent = None if body is None else json.dumps(body).encode()
        try:
            return self._understand(*self._exchange(method, path, sent, headers))
        finally:
            if method != "GET":
                self.close()  # a change must not be sent on a connection that the server has closed meanwhile

    def _exchange(
        self, method: str, path: str, sent: bytes | None, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        kept = self._connection is not None
        try:
            return self._once(method, path, sent, headers)
        except (http.client.HTTPException, OSError) as error:
            self.close()
            if kept and method == "GET":  # the API closes idle connections
                return self._exchange(method, path, sent, headers)
            raise self._lost(error, method) from None

    def _once(
        self, method: str, path: str, sent: bytes | None, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request(method, self._address.path + PREFIX + path, body=sent, headers=dict(headers))
        answer = self._connection.getresponse()
        return answer, answer.read()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._address.scheme == "https":
            made: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=self._connect_s, context=ssl.create_default_context()
            )
        else:
            made = http.client.HTTPConnection(host, port, timeout=self._connect_s)
        try:
            made.connect()
        except OSError as error:
            reason = error.strerror or str(error)
            hint = "is `freshline api` running there? FRESHLINE_API_URL says where to look"
            raise ApiError(f"the API at {self.url} cannot be reached: {reason}", hint=hint) from None
        made.sock.settimeout(self._timeout_s)
        return made

    def _lost(self, error: Exception, method: str) -> ApiError:
        text = f"the API at {self.url} did not answer: {str(error) or type(error).__name__}"
        if method == "GET":
            return ApiError(text)
        return ApiError(text, hint="the change may have been made; check before you repeat it, or use --key")

    def _understand(self, answer: http.client.HTTPResponse, body: bytes) -> Any:
        self._check_version(answer)
        try:
            found = json.loads(body)
        except ValueError:
            raise ApiError(f"the API at {self.url} answered {answer.status} with something that is not JSON") from None
        if answer.status < http.HTTPStatus.BAD_REQUEST:
            return found
        raise _problem(answer.status, found)

    def _check_version(self, answer: http.client.HTTPResponse) -> None:
        theirs, ours = answer.getheader(VERSION), __version__
        if theirs is None:
            raise ApiError(
                f"what answers at {self.url} ({answer.status} {answer.reason}) is not the API of Freshline",
                hint="FRESHLINE_API_URL is its address without /api/v1",
            )
        if _series(theirs) != _series(ours):
            raise ApiError(
                f"the API at {self.url} is version {theirs}, this command is {ours}", hint=f"install freshline {theirs}"
            )


def _path(parts: tuple[str, ...]) -> str:
    return "".join(f"/{quote(one, safe='')}" for one in parts)


def _series(text: str) -> list[str]:
    """Return the part of a version that must be equal for two programs to work together."""
    return text.split(".")[:2]


def _problem(status: int, found: Any) -> FreshlineError:
    problem = found if isinstance(found, dict) else {}
    code, detail = str(problem.get("code", "")), str(problem.get("detail", f"the API answered {status}"))
    kind = ERRORS.get(code) or BY_STATUS.get(status, ApiError)
    return kind(detail, hint=ADVICE if status == http.HTTPStatus.UNAUTHORIZED else None)
