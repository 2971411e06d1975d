"""`/session`: who the caller is; a token becomes a cookie of the page, and the cookie is removed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from freshline.api import models
from freshline.api.access import access
from freshline.api.attempts import MOST_ATTEMPTS
from freshline.api.auth import Caller, RequireRead, caller_of, check_query, identify
from freshline.api.cookies import remove_cookie, set_cookie
from freshline.api.origins import check_page
from freshline.api.pagination import UnvalidatedRoute, encoded
from freshline.api.problems import RequestError
from freshline.api.scopes import Rights
from freshline.api.workflows import StoreDep
from freshline.model.documents.installation import Session
from freshline.store.read.session import json_value

router = APIRouter(tags=["session"], route_class=UnvalidatedRoute)
Who = Annotated[Caller, Depends(identify)]


def _check(request: Request) -> None:
    check_page(request)
    check_query(request)


FromPage = Annotated[None, Depends(_check)]


@router.get("/session", response_model=models.Session)
def show_session(_: RequireRead, caller: Who) -> Session:
    """Return who the caller is, and what it may do."""
    return _document(caller)


@router.post("/session", response_model=models.Session)
def log_in(_: FromPage, request: Request, store: StoreDep, body: models.LoginRequest) -> Response:
    """Log in: put the token into a cookie that the browser sends from then on and that no script can read.

    Needs the header `Freshline-Request: page`. After ten bad tokens in a minute, an address has to wait.
    """
    address = request.client.host if request.client else ""
    attempts = access(request).attempts
    if wait := attempts.wait(address):
        raise RequestError(
            429,
            "too-many-attempts",
            f"{MOST_ATTEMPTS} bad tokens came from this address within a minute; try again in {wait} s",
            retry_after_s=wait,
        )
    try:
        caller = caller_of(store, body.token.strip())
    except RequestError:
        attempts.failed(address)
        raise
    request.state.actor = caller.actor.name
    response = Response(encoded(_document(caller)), media_type="application/json")
    set_cookie(request, response, body.token.strip(), now=store.reader.now(), ends=caller.expires_at)
    return response


@router.delete("/session", status_code=204)
def log_out(_: FromPage) -> Response:
    """Log out: remove the cookie. The token stays valid; `freshline token revoke` ends it.

    Needs the header `Freshline-Request: page`, and no valid token.
    """
    response = Response(status_code=204)
    remove_cookie(response)
    return response


def _document(caller: Caller) -> Session:
    rights: Rights = caller.rights
    return {
        "actor": caller.actor.name,
        "name": caller.name,
        "scope": rights.scope.value,
        "scopes": [one.value for one in rights.all()],
        "anonymous": caller.name is None,
        "expiresAt": json_value(caller.expires_at),
    }
