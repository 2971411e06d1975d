"""`/tokens`: who may use the API. Everything needs the scope `admin`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from freshline.api import models
from freshline.api.auth import RequireAdmin
from freshline.api.pagination import UnvalidatedRoute
from freshline.api.problems import RequestError
from freshline.api.workflows import StoreDep
from freshline.credentials import new_token
from freshline.duration import milliseconds
from freshline.model.documents.installation import CreatedToken, Page, Token
from freshline.store.operations.audit import acting

router = APIRouter(tags=["tokens"], route_class=UnvalidatedRoute)
Name = Annotated[str, Path(max_length=200, description="Name of the token.")]


@router.get("/tokens", response_model=models.Page[models.Token])
def list_tokens(_: RequireAdmin, store: StoreDep) -> Page[Token]:
    """List the tokens, newest first, also those that have ended. No secret is known."""
    return {"items": store.reader.tokens(), "next": None}


@router.post("/tokens", response_model=models.CreatedToken, status_code=201)
def create_token(actor: RequireAdmin, store: StoreDep, body: models.TokenRequest) -> CreatedToken:
    """Create a token. The answer is the only one that contains it: only its digest is stored."""
    lifetime = _lifetime(body.expires)
    secret, digest = new_token()
    with acting(actor):
        store.tokens.create(body.name, body.scope, digest, lifetime_ms=lifetime, data=body.data)
    (made,) = [one for one in store.reader.tokens() if one["name"] == body.name and one["revokedAt"] is None]
    return {**made, "token": secret}


@router.delete("/tokens/{name}", status_code=204)
def revoke_token(actor: RequireAdmin, store: StoreDep, name: Name) -> None:
    """Revoke a token, from the next request on. A repetition changes nothing."""
    with acting(actor):
        store.tokens.revoke(name)


def _lifetime(text: str) -> int:
    try:
        found = milliseconds(text)
    except ValueError as error:
        raise RequestError(422, "invalid-request", f"expires: {error}") from None
    if not found:
        raise RequestError(422, "invalid-request", "expires: it must be longer than nothing")
    return found
