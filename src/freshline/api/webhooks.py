"""`/webhooks`: subscriptions and deliveries. Reading needs the scope `read`, changes need `admin`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from freshline.api import models
from freshline.api.auth import RequireAdmin, RequireRead
from freshline.api.middleware import warn
from freshline.api.pagination import Limit, UnvalidatedRoute, page
from freshline.api.workflows import Key, StoreDep
from freshline.model.documents.installation import CreatedWebhook, Page, Redelivered, Webhook, WebhookDelivery
from freshline.store.operations.audit import acting
from freshline.store.store import Store
from freshline.unmatched import unmatched_filters
from freshline.webhooks.subscription import subscription

router = APIRouter(tags=["webhooks"], route_class=UnvalidatedRoute)
Name = Annotated[str, Path(max_length=200, description="Name of the webhook.")]
Position = Annotated[int | None, Query(ge=0, lt=2**63, description="The `next` of the previous page.")]


@router.get("/webhooks", response_model=models.Page[models.Webhook])
def list_webhooks(_: RequireRead, store: StoreDep) -> Page[Webhook]:
    """List webhooks by name, with their delivery status."""
    return {"items": store.reader.webhooks(), "next": None}


@router.post("/webhooks", response_model=models.CreatedWebhook, status_code=201)
def add_webhook(
    actor: RequireAdmin, request: Request, store: StoreDep, body: models.WebhookRequest, key: Key = None
) -> CreatedWebhook:
    """Add a webhook that sends events to a URL. A generated secret is returned only once, not in a repeated request.

    Filters that match no type or no asset are named in the header `Freshline-Warning`.
    """
    made, secret = subscription(
        body.url,
        allowed=store.settings.webhook_allow_private,
        name=body.name,
        kind=body.kind,
        types=body.types,
        assets=body.assets,
        secret=body.secret,
    )
    with acting(actor):
        new = store.webhooks.add(made, key=key, after=body.after)
    warn(request, unmatched_filters(made.types, made.assets, store.reader.names()))
    return {**_one(store, made.name), "secret": secret if new else None}


@router.get("/webhooks/{name}", response_model=models.Webhook)
def show_webhook(_: RequireRead, store: StoreDep, name: Name) -> Webhook:
    """Return one webhook, with its delivery status."""
    return _one(store, name)


@router.get("/webhooks/{name}/deliveries", response_model=models.Page[models.WebhookDelivery])
def list_webhook_deliveries(
    _: RequireRead, store: StoreDep, name: Name, limit: Limit = 50, after: Position = None
) -> Page[WebhookDelivery]:
    """List undelivered events in order: those that wait for a retry, and dead letters."""
    return page(limit, lambda most: store.reader.webhook_deliveries(name, most, after), "position")


@router.post("/webhooks/{name}/redeliver", response_model=models.Redelivered, status_code=202)
def redeliver_webhook(
    actor: RequireAdmin, store: StoreDep, name: Name, body: models.RedeliverRequest | None = None
) -> Redelivered:
    """Send all dead letters again, or the one of an event, with a new budget."""
    with acting(actor):
        number = store.webhooks.redeliver(name, body.event_id if body else None)
    return {"name": name, "redelivered": number}


@router.post("/webhooks/{name}/pause", response_model=models.Webhook)
def pause_webhook(actor: RequireAdmin, store: StoreDep, name: Name, _: models.EmptyBody | None = None) -> Webhook:
    """Pause deliveries; events wait until the webhook is resumed."""
    with acting(actor):
        store.webhooks.pause(name)
    return _one(store, name)


@router.post("/webhooks/{name}/resume", response_model=models.Webhook)
def resume_webhook(actor: RequireAdmin, store: StoreDep, name: Name, _: models.EmptyBody | None = None) -> Webhook:
    """Resume deliveries, and end the backoff after failures."""
    with acting(actor):
        store.webhooks.resume(name)
    return _one(store, name)


@router.delete("/webhooks/{name}", status_code=204)
def remove_webhook(actor: RequireAdmin, store: StoreDep, name: Name) -> None:
    """Remove a webhook and its pending deliveries."""
    with acting(actor):
        store.webhooks.remove(name)


def _one(store: Store, name: str) -> Webhook:
    (found,) = store.reader.webhooks(name)
    return found
