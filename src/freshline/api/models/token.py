"""Models of the tokens of the API."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from freshline.api.models.base import RequestBody, ResponseBody

TokenScope = Literal["read", "operate", "admin"]


class TokenRequest(RequestBody):
    """The request of a new token."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$", description="The name, unique while it is valid.")
    scope: TokenScope = Field(default="read", description="What it may do.")
    data: bool = Field(default=False, description="Whether it may also read the rows of tables.")
    expires: str = Field(default="90d", min_length=1, max_length=100, description="How long it is valid, as in 30d.")


class Token(ResponseBody):
    """A token, without its secret."""

    id: str
    name: str
    scope: TokenScope
    data: bool
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    used_at: datetime | None
    active: bool


class CreatedToken(Token):
    """A new token, with its secret."""

    token: str
