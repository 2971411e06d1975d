"""Authorization: bearer tokens with scopes, and the rules for requests without a token.

On a loopback address local users and programs need no token. A web page in a local browser must not be able to use
that, so a request without a token must name a loopback host (against DNS rebinding), and a change
must be JSON and, if it has an Origin header, come from the API's own origin (against cross-site requests).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from fastapi import Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes

from freshline.api.problems import RequestError
from freshline.api.stream import Streams
from freshline.store.operations.audit import Actor
from freshline.store.store import Store
from freshline.suggest import did_you_mean

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_TOKEN_LENGTH = 200
LOOPBACK_NAMES = frozenset({"localhost", "localhost.", "ip6-localhost"})
JSON_TYPE = "application/json"


class Scope(StrEnum):
    """The scope of a token; each includes the previous ones."""

    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"


RANK = {scope: number for number, scope in enumerate(Scope)}
# The scope of requests without a token, where they are allowed.
ANONYMOUS = Scope.OPERATE
LOOPBACK = Actor("loopback")


@dataclass(frozen=True, slots=True)
class Access:
    """The state of the application: the store, its event streams, and whether requests without a token are served."""

    store: Store
    streams: Streams
    anonymous: bool


bearer = HTTPBearer(
    scheme_name="bearer",
    auto_error=False,
    description="A token of `freshline token create`; not needed on loopback.",
)


def access(request: Request) -> Access:
    """Return the store that a request is for, with its streams and its rule about tokens."""
    found: Access = request.state.access
    return found


def authorize(
    request: Request,
    scopes: SecurityScopes,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)],
) -> Actor:
    """Return the actor of a request, or raise if its scope is insufficient for the route."""
    needed = Scope(scopes.scopes[0])
    allowed = access(request)
    if credentials is None:
        actor = _without_token(request, needed, anonymous=allowed.anonymous)
    else:
        actor = _with_token(request, allowed.store, credentials.credentials, needed)
    request.state.actor = actor.name
    check_query(request)
    return actor


def check_query(request: Request) -> None:
    """Reject unknown and repeated query parameters.

    A misspelled filter would otherwise return too much. The error does not repeat the unknown name.
    """
    if not request.query_params:
        return
    known: list[str] = request.app.filters[request.scope["route"].name]
    for name in request.query_params:
        if name not in known:
            hint = did_you_mean(name, known) or f"known are {', '.join(known) or 'none'}"
            raise RequestError(422, "invalid-request", f"unknown query parameter; {hint}")
        if len(request.query_params.getlist(name)) > 1:
            raise RequestError(422, "invalid-request", f"the parameter '{name}' is given more than once; give it once")


def _without_token(request: Request, needed: Scope, *, anonymous: bool) -> Actor:
    if not anonymous or "authorization" in request.headers:
        raise RequestError(401, "token-needed", "this needs a token: send it as `Authorization: Bearer TOKEN`")
    check_local(request)
    if RANK[needed] > RANK[ANONYMOUS]:
        raise RequestError(401, "token-needed", f"this needs a token with the scope '{needed}', also on loopback")
    return LOOPBACK


def _with_token(request: Request, store: Store, secret: str, needed: Scope) -> Actor:
    digest = hashlib.sha256(secret[:MAX_TOKEN_LENGTH].encode()).digest()
    found = store.reader.token(digest) if len(secret) <= MAX_TOKEN_LENGTH else None
    if found is None or not hmac.compare_digest(bytes(found["digest"]), digest):
        raise RequestError(401, "token-invalid", "the token is unknown, revoked or expired; see `freshline token list`")
    actor = Actor(f"token:{found['name']}", found["id"])
    request.state.actor = actor.name  # for the log, also if it may not do this
    if RANK[Scope(found["scope"])] < RANK[needed]:
        raise RequestError(
            403, "scope-needed", f"this needs the scope '{needed}'; the token '{found['name']}' has '{found['scope']}'"
        )
    if found["stale"]:
        store.tokens.use(found["id"])
    return actor


def check_local(request: Request) -> None:
    """Reject a request without a token that a web page could have caused."""
    host = request.headers.get("host", "")
    if not is_loopback(host_name(host)):
        raise RequestError(
            403,
            "host-not-allowed",
            "without a token the Host must be a loopback address, such as 127.0.0.1 or localhost",
        )
    if request.method in SAFE:
        return
    origin = request.headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        raise RequestError(
            403, "origin-not-allowed", "without a token a change cannot be requested by a page of another site"
        )
    if content_type(request) != JSON_TYPE:
        raise RequestError(415, "json-needed", f"without a token a change needs `Content-Type: {JSON_TYPE}`")


def content_type(request: Request) -> str:
    """Return the media type of the body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def host_name(host: str) -> str:
    """Return the name in a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def is_loopback(name: str) -> bool:
    """Return whether a name or an address is a loopback address."""
    if name.lower() in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


RequireRead = Annotated[Actor, Security(authorize, scopes=[Scope.READ.value])]
RequireOperate = Annotated[Actor, Security(authorize, scopes=[Scope.OPERATE.value])]
RequireAdmin = Annotated[Actor, Security(authorize, scopes=[Scope.ADMIN.value])]
