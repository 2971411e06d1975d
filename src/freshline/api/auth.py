"""Who may do what: bearer tokens with scopes, and what is asked of a request that brings none.

On a loopback address people and programs of this machine need no token. A web page that one of them has open must not
profit from that, so such a request must name a loopback host (against DNS rebinding), and one that changes something
must be JSON and, if it names an origin, come from this very place (against cross-site requests).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated

from fastapi import Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes

from freshline.api.problems import Refusal
from freshline.api.stream import Streams
from freshline.store.operations.audit import Actor
from freshline.store.store import Store

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
LONGEST_TOKEN = 200
LOOPBACK_NAMES = frozenset({"localhost", "localhost.", "ip6-localhost"})
JSON_TYPE = "application/json"


class Scope(StrEnum):
    """What a token allows; each contains those before it."""

    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"


RANK = {scope: number for number, scope in enumerate(Scope)}
# Who comes without a token, where that is allowed, may operate and not administrate.
ANONYMOUS = Scope.OPERATE
LOOPBACK = Actor("loopback")


@dataclass(frozen=True, slots=True)
class Access:
    """What the routes need: the store, the streams on it, and whether requests without a token are served."""

    store: Store
    streams: Streams
    anonymous: bool


bearer = HTTPBearer(
    scheme_name="bearer",
    auto_error=False,
    description="A token of `freshline token create`; on loopback none is needed.",
)


def access(request: Request) -> Access:
    """What the application was made with."""
    found: Access = request.app.state.access
    return found


def authorize(
    request: Request,
    scopes: SecurityScopes,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)],
) -> Actor:
    """Who asks, if they may do what the route needs."""
    needed = Scope(scopes.scopes[0])
    allowed = access(request)
    if credentials is None:
        actor = _without_token(request, needed, anonymous=allowed.anonymous)
    else:
        actor = _with_token(allowed.store, credentials.credentials, needed)
    check_query(request)
    return actor


def check_query(request: Request) -> None:
    """A filter with a slip in its name, or given twice, must not be one that lets more through. No slip is repeated."""
    if not request.query_params:
        return
    known: list[str] = request.app.filters[request.scope["route"].name]
    for name in request.query_params:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(known) or 'none'}"
            raise Refusal(422, "invalid-request", f"a parameter of the query is not known here; {hint}")
        if len(request.query_params.getlist(name)) > 1:
            raise Refusal(422, "invalid-request", f"the parameter '{name}' is given more than once; give it once")


def _without_token(request: Request, needed: Scope, *, anonymous: bool) -> Actor:
    if not anonymous or "authorization" in request.headers:
        raise Refusal(401, "token-needed", "this needs a token: send it as `Authorization: Bearer TOKEN`")
    check_local(request)
    if RANK[needed] > RANK[ANONYMOUS]:
        raise Refusal(401, "token-needed", f"this needs a token with the scope '{needed}', here too")
    return LOOPBACK


def _with_token(store: Store, secret: str, needed: Scope) -> Actor:
    digest = hashlib.sha256(secret[:LONGEST_TOKEN].encode()).digest()
    found = store.reader.token(digest) if len(secret) <= LONGEST_TOKEN else None
    if found is None or not hmac.compare_digest(bytes(found["digest"]), digest):
        raise Refusal(401, "token-invalid", "the token is not known, revoked or expired; `freshline token list` tells")
    if RANK[Scope(found["scope"])] < RANK[needed]:
        raise Refusal(
            403, "scope-needed", f"this needs the scope '{needed}'; the token '{found['name']}' has '{found['scope']}'"
        )
    if found["stale"]:
        store.tokens.use(found["id"])
    return Actor(f"token:{found['name']}", found["id"])


def check_local(request: Request) -> None:
    """What a request without a token must be, so that no web page can make one for its visitor."""
    host = request.headers.get("host", "")
    if not is_loopback(host_name(host)):
        raise Refusal(
            403,
            "host-not-allowed",
            "without a token the Host must be a loopback address, such as 127.0.0.1 or localhost",
        )
    if request.method in SAFE:
        return
    origin = request.headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        raise Refusal(403, "origin-not-allowed", "without a token a change cannot be asked for by another site's page")
    if content_type(request) != JSON_TYPE:
        raise Refusal(415, "json-needed", f"without a token a change needs `Content-Type: {JSON_TYPE}`")


def content_type(request: Request) -> str:
    """The media type of the body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def is_loopback(name: str) -> bool:
    """Whether a name or an address is this machine's own, seen by nobody else."""
    if name.lower() in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


Reading = Annotated[Actor, Security(authorize, scopes=[Scope.READ.value])]
Operating = Annotated[Actor, Security(authorize, scopes=[Scope.OPERATE.value])]
Administrating = Annotated[Actor, Security(authorize, scopes=[Scope.ADMIN.value])]
