"""Builds a webhook from user input, the same for commands and HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from freshline.settings import Network
from freshline.store.webhooks.subscriptions import EVERYTHING, RUNS, Webhook
from freshline.webhooks.egress_policy import check_url
from freshline.webhooks.signature import new_secret, read_key, read_secret

SIGNED = "cloudevents"


def subscription(
    url: str,
    *,
    allowed: Sequence[Network],
    name: str | None = None,
    kind: str = SIGNED,
    types: Sequence[str] | None = None,
    assets: Sequence[str] | None = None,
    secret: str | None = None,
) -> tuple[Webhook, str | None]:
    """Return the webhook, and its secret if it was generated here, to be shown once.

    An error contains no part of a secret.
    """
    check_url(url, allowed)
    signs = kind == SIGNED
    new = new_secret() if signs and secret is None else None
    given = secret or new or ""
    webhook = Webhook(
        name=name or urlsplit(url).hostname or "",
        url=url,
        secret=read_secret(given) if signs else read_key(given),
        kind=kind,
        types=tuple(types or (EVERYTHING if signs else RUNS)),
        assets=tuple(assets or EVERYTHING),
    )
    return webhook, new
