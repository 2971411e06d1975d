"""Authorization: tokens with scopes, as a header or as the cookie of the page, and the rules for requests without one.

On a loopback address local users and programs need no token. A web page in a local browser must not be able to use
that, so a request without a token must name a loopback host (against DNS rebinding), and a change
must be JSON and, if it has an Origin header, come from the API's own origin (against cross-site requests). A change
with the cookie must come from the page (`origins`). A request with the header `Authorization` is judged by that alone.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes

from freshline.api.access import access
from freshline.api.cookies import COOKIE
from freshline.api.origins import SAFE, check_local, check_page
from freshline.api.problems import RequestError
from freshline.api.scopes import ANONYMOUS, Rights, Scope
from freshline.model.moment import parsed
from freshline.store.operations.audit import Actor
from freshline.store.store import Store
from freshline.suggest import did_you_mean

MAX_TOKEN_LENGTH = 200
LOOPBACK = Actor("loopback")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request, and what it may do. `name`: that of the token; None without one, which has no end."""

    actor: Actor
    rights: Rights
    name: str | None = None
    expires_at: datetime | None = None


bearer = HTTPBearer(
    scheme_name="bearer",
    auto_error=False,
    description="A token of `freshline token create`; not needed on loopback. The page sends it as a cookie.",
)


def identify(request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]) -> Caller:
    """Return who sent a request. The header comes before the cookie."""
    allowed = access(request)
    cookie = request.cookies.get(COOKIE)
    if credentials is not None:
        caller = caller_of(allowed.store, credentials.credentials)
    elif cookie is not None and "authorization" not in request.headers:
        request.state.cookie = True  # an invalid one is removed by the answer
        caller = caller_of(allowed.store, cookie)
        if request.method not in SAFE:
            check_page(request)
    else:
        caller = _without_token(request, anonymous=allowed.anonymous)
    request.state.actor = caller.actor.name  # for the log, also if it may not do this
    return caller


def authorize(request: Request, scopes: SecurityScopes, caller: Annotated[Caller, Security(identify)]) -> Actor:
    """Return the actor of a request, or raise if it may not use the route."""
    needed = [Scope(one) for one in scopes.scopes]
    missing = caller.rights.missing(needed)
    if missing is not None:
        raise _insufficient(caller, missing)
    check_query(request)
    return caller.actor


def check_query(request: Request) -> None:
    """Reject unknown query parameters, and repeated ones that are not lists.

    A misspelled filter would otherwise return too much. The error does not repeat the unknown name.
    """
    if not request.query_params:
        return
    known: dict[str, bool] = request.app.filters[request.scope["route"].name]
    for name in request.query_params:
        if name not in known:
            hint = did_you_mean(name, list(known)) or f"known are {', '.join(known) or 'none'}"
            raise RequestError(422, "invalid-request", f"unknown query parameter; {hint}")
        if len(request.query_params.getlist(name)) > 1 and not known[name]:
            raise RequestError(422, "invalid-request", f"the parameter '{name}' is given more than once; give it once")


def caller_of(store: Store, secret: str) -> Caller:
    """Return who has this token. Raise `RequestError` if it is not valid."""
    digest = hashlib.sha256(secret[:MAX_TOKEN_LENGTH].encode("utf-8", "replace")).digest()
    found = store.reader.token(digest) if len(secret) <= MAX_TOKEN_LENGTH else None
    if found is None or not hmac.compare_digest(bytes(found["digest"]), digest):
        raise RequestError(401, "token-invalid", "the token is unknown, revoked or expired; see `freshline token list`")
    if found["stale"]:
        store.tokens.use(found["id"])
    rights = Rights(Scope(found["scope"]), data=found["data"])
    return Caller(Actor(f"token:{found['name']}", found["id"]), rights, found["name"], parsed(found["expires_at"]))


def _without_token(request: Request, *, anonymous: bool) -> Caller:
    if not anonymous or "authorization" in request.headers:
        raise RequestError(401, "token-needed", "this needs a token: send it as `Authorization: Bearer TOKEN`")
    check_local(request)
    return Caller(LOOPBACK, ANONYMOUS)


def _insufficient(caller: Caller, missing: Scope) -> RequestError:
    if caller.name is None:
        return RequestError(401, "token-needed", f"this needs a token with the scope '{missing}', also on loopback")
    if missing is Scope.DATA:
        return RequestError(
            403,
            "data-needed",
            f"the token '{caller.name}' may not read rows; `freshline token create NAME --data` makes one that may",
        )
    return RequestError(
        403, "scope-needed", f"this needs the scope '{missing}'; the token '{caller.name}' has '{caller.rights.scope}'"
    )


RequireRead = Annotated[Actor, Security(authorize, scopes=[Scope.READ.value])]
RequireData = Annotated[Actor, Security(authorize, scopes=[Scope.DATA.value])]
RequireOperate = Annotated[Actor, Security(authorize, scopes=[Scope.OPERATE.value])]
RequireAdmin = Annotated[Actor, Security(authorize, scopes=[Scope.ADMIN.value])]
