"""The kind `http`: the version of what a URL has.

It is the ETag, else Last-Modified, else a digest of the body; or a value of a JSON body. The egress policy is that of
webhooks. A request is conditional where the server gave a validator, so that an unchanged file is not sent again.
Errors contain nothing that the server sent.
"""

from __future__ import annotations

import hashlib
import http.client
import json
from dataclasses import dataclass
from typing import Any

from freshline.definitions.schema.watch import HttpWatch
from freshline.errors import UsageError
from freshline.model.json import Json
from freshline.watching.json_pointer import value_at
from freshline.watching.look import Look, LookContext, LookError, Mode
from freshline.watching.watermark import MAX_CHARS, Watermark, compare, watermark_of
from freshline.webhooks.egress_policy import WATCHERS
from freshline.webhooks.exchange import Exchange

MAX_BODY_BYTES = 10 * 1024 * 1024
OK, NOT_MODIFIED = 200, 304
REDIRECTS = range(300, 400)
ADVICE = {
    401: "name a header with the credentials, as in headers: {Authorization: {env: TOKEN}}",
    403: "name a header with the credentials, as in headers: {Authorization: {env: TOKEN}}",
    429: "look less often: raise 'every'",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """What counts of a reply. `body`: None if it was not read, because a header has the version."""

    status: int
    etag: str | None
    modified: str | None
    encoding: str | None
    body: bytes | None


class Fetch(Exchange):
    """A GET. `wants_body`: the body has the version, whatever the headers say."""

    peer = "the server"
    purpose = WATCHERS
    failure = LookError
    interruption = LookError

    def get(self, headers: dict[str, str], *, wants_body: bool) -> Reply:
        """Send the request. Raise `LookError` or `AddressError` if nothing answers."""

        def read(reply: http.client.HTTPResponse) -> Reply:
            etag, modified = reply.getheader("ETag"), reply.getheader("Last-Modified")
            needed = reply.status == OK and (wants_body or not (etag or modified))
            body = reply.read(MAX_BODY_BYTES + 1) if needed else None
            if body is not None and len(body) <= MAX_BODY_BYTES and reply.length:
                raise LookError("the server's answer ended early")  # the digest would be that of a part
            return Reply(reply.status, etag, modified, reply.getheader("Content-Encoding"), body)

        return self._request("GET", None, headers, read)


def look(spec: HttpWatch, mode: Mode, position: Json | None, context: LookContext) -> Look:
    """Request the URL and compare its version with the last one."""
    asked = hashlib.sha256(f"{spec.http}\n{spec.pointer}".encode()).hexdigest()[:32]
    known = position if position is not None and position["asked"] == asked else None
    fetch = Fetch(spec.http, allowed=context.private_networks, timeout_s=context.timeout_s)
    try:
        reply = fetch.get(_headers(spec, known, context), wants_body=spec.pointer is not None)
    except UsageError as error:  # the egress policy
        raise LookError(error.message, hint=error.hint) from None
    if position is not None and known is not None and reply.status == NOT_MODIFIED:
        return Look((), position, f"The version is {position['watermark']}; the server answered 304, not modified.")
    _check_status(reply)
    found = compare(mode, position, _version(spec, reply), context, noun="version")
    validators = {"asked": asked, "etag": _short(reply.etag), "modified": _short(reply.modified)}
    return Look(found.found, {**found.position, **validators}, found.summary, found.conflicts)


def _headers(spec: HttpWatch, known: Json | None, context: LookContext) -> dict[str, str]:
    # A compressed body may have another ETag, and would need a limit on what it grows to.
    headers = {"Accept-Encoding": "identity"}
    for name, variable in spec.headers.items():
        value = context.secret(variable, f"headers.{name}")
        if not value.isascii() or not value.isprintable():
            raise LookError(f"the value of {variable.env} cannot be a header; allowed are printable ASCII characters")
        headers[name] = value
    if known is not None and known["etag"]:
        headers["If-None-Match"] = known["etag"]
    if known is not None and known["modified"]:
        headers["If-Modified-Since"] = known["modified"]
    return headers


def _check_status(reply: Reply) -> None:
    if reply.status != OK:
        more = ", and redirects are not followed" if reply.status in REDIRECTS else ""
        raise LookError(f"the server answered {reply.status}{more}; expected is 200", hint=ADVICE.get(reply.status))


def _version(spec: HttpWatch, reply: Reply) -> Watermark:
    if spec.pointer is not None:
        return _text(value_at(_document(reply), spec.pointer))
    named = reply.etag or reply.modified
    if named:
        return Watermark(named if len(named) <= MAX_CHARS and named.isprintable() else _digest(named.encode()))
    return Watermark(_digest(_body(reply)))


def _text(value: Any) -> Watermark:
    """Return a value of a JSON document as a version. Texts have no order here: any change is a change."""
    if value is None:
        raise LookError("the value at the pointer is null; expected is a version")
    if isinstance(value, str):
        return Watermark(watermark_of(value).text)
    text = json.dumps(value, sort_keys=True)
    return Watermark(text if len(text) <= MAX_CHARS and not isinstance(value, dict | list) else _digest(text.encode()))


def _document(reply: Reply) -> Any:
    if reply.encoding not in {None, "", "identity"}:
        raise LookError("the server sent a compressed body although the request asked for a plain one")
    try:
        return json.loads(_body(reply))
    except (ValueError, RecursionError):
        raise LookError("the body is not JSON, and 'pointer' needs a JSON document") from None


def _body(reply: Reply) -> bytes:
    body = reply.body or b""
    if len(body) > MAX_BODY_BYTES:
        raise LookError(
            f"the body has more than {MAX_BODY_BYTES // 1024**2} MiB; larger ones need an ETag or Last-Modified header",
            hint="watch a small file that names the version",
        )
    return body


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _short(validator: str | None) -> str | None:
    """Return a validator that may be sent back; a long or strange one is not."""
    if validator is None or len(validator) > MAX_CHARS or not validator.isascii() or not validator.isprintable():
        return None
    return validator
