"""`/webhooks`: who is told about events over HTTP. To look needs `read`, to change anything `admin`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from freshline.api import models
from freshline.api.auth import Administrating, Reading
from freshline.api.pagination import Limit, Plain, page
from freshline.api.workflows import Key, Stored
from freshline.model.json import Json
from freshline.store.operations.audit import acting
from freshline.store.store import Store
from freshline.webhooks.subscription import subscription

router = APIRouter(tags=["webhooks"], route_class=Plain)
Name = Annotated[str, Path(max_length=200)]
Position = Annotated[int | None, Query(ge=0, lt=2**63, description="The `next` of the part before.")]


@router.get("/webhooks", response_model=models.Page[models.Webhook])
def list_webhooks(_: Reading, store: Stored) -> Json:
    """All of them by name, and how their deliveries go."""
    return {"items": store.reader.webhooks(), "next": None}


@router.post("/webhooks", response_model=models.WebhookMade, status_code=201)
def add_webhook(actor: Administrating, store: Stored, asked: models.WebhookAsked, key: Key = None) -> Json:
    """Send events to a URL. A secret that is not given is made, and told this once: a repetition has none."""
    made, secret = subscription(
        asked.url,
        allowed=store.settings.webhook_allow_private,
        name=asked.name,
        kind=asked.kind,
        types=asked.types,
        assets=asked.assets,
        secret=asked.secret,
    )
    with acting(actor):
        new = store.webhooks.add(made, key=key, after=asked.after)
    return {**_one(store, made.name), "secret": secret if new else None}


@router.get("/webhooks/{name}", response_model=models.Webhook)
def show_webhook(_: Reading, store: Stored, name: Name) -> Json:
    """One webhook, and how its deliveries go."""
    return _one(store, name)


@router.get("/webhooks/{name}/deliveries", response_model=models.Page[models.Delivery])
def list_deliveries(_: Reading, store: Stored, name: Name, limit: Limit = 50, after: Position = None) -> Json:
    """What it did not take, in the order of events: letters that wait to be tried again, and dead ones."""
    return page(limit, lambda most: store.reader.deliveries(name, most, after), "position")


@router.post("/webhooks/{name}/redeliver", response_model=models.Redelivered, status_code=202)
def redeliver_webhook(
    actor: Administrating, store: Stored, name: Name, asked: models.RedeliverAsked | None = None
) -> Json:
    """Send dead letters again, all or that about one event, with a new budget."""
    with acting(actor):
        number = store.webhooks.redeliver(name, asked.event_id if asked else None)
    return {"name": name, "redelivered": number}


@router.post("/webhooks/{name}/pause", response_model=models.Webhook)
def pause_webhook(actor: Administrating, store: Stored, name: Name, _: models.Nothing | None = None) -> Json:
    """Send nothing until it is resumed; events wait."""
    with acting(actor):
        store.webhooks.pause(name)
    return _one(store, name)


@router.post("/webhooks/{name}/resume", response_model=models.Webhook)
def resume_webhook(actor: Administrating, store: Stored, name: Name, _: models.Nothing | None = None) -> Json:
    """End a pause, and the wait after failures."""
    with acting(actor):
        store.webhooks.resume(name)
    return _one(store, name)


@router.delete("/webhooks/{name}", status_code=204)
def remove_webhook(actor: Administrating, store: Stored, name: Name) -> None:
    """Send nothing any more, and forget what waited."""
    with acting(actor):
        store.webhooks.remove(name)


def _one(store: Store, name: str) -> Json:
    (found,) = store.reader.webhooks(name)
    return found
