"""What requests find in their state: the store, its event streams, the page, and the rule about tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastapi import Request

from freshline.api.attempts import Attempts
from freshline.api.bundle import Bundle
from freshline.api.stream import Streams
from freshline.store.store import Store


@dataclass(frozen=True, slots=True)
class Access:
    """The state of the application. `anonymous`: local requests need no token. `attempts`: logins with bad tokens."""

    store: Store
    streams: Streams
    anonymous: bool
    page: Bundle
    attempts: Attempts = field(default_factory=Attempts)


def access(request: Request) -> Access:
    """Return the state of the application that a request is for."""
    found: Access = request.state.access
    return found
