"""HTTP POST to untrusted receivers. Only the status of a reply is used."""

from __future__ import annotations

import http.client
from collections.abc import Mapping

from freshline.errors import FreshlineError
from freshline.webhooks.exchange import Exchange

MAX_REPLY_BYTES = 64 * 1024
SUCCESS = range(200, 300)
REDIRECTS = range(300, 400)


class PostError(FreshlineError):
    """A POST that failed. The text contains nothing that the receiver sent."""

    code = "webhook"


class InterruptedPostError(PostError):
    """A POST that this process interrupted; whether it arrived is unknown."""


class Post(Exchange):
    """Sends requests to one URL, one at a time. Another thread may interrupt it."""

    peer = "the receiver"
    failure = PostError
    interruption = InterruptedPostError

    def send(self, body: bytes, headers: Mapping[str, str]) -> int:
        """Send a request and return the status of success. Raise `PostError` or `AddressError` otherwise."""
        status = self._request("POST", body, headers, _status)
        if status not in SUCCESS:
            more = ", and redirects are not followed" if status in REDIRECTS else ""
            raise PostError(f"the receiver answered {status}{more}")
        return status


def _status(reply: http.client.HTTPResponse) -> int:
    reply.read(MAX_REPLY_BYTES)
    return reply.status
