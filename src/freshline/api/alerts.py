"""`/alerts`: rules, incidents and messages. Reading needs the scope `read`, changes need `admin`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from freshline.api import models
from freshline.api.auth import RequireAdmin, RequireRead
from freshline.api.middleware import warn
from freshline.api.pagination import After, Flag, Limit, UnvalidatedRoute, page
from freshline.api.workflows import Key, StoreDep
from freshline.definitions.alerts import read_rule
from freshline.errors import UsageError
from freshline.model.documents.alert import Alert, AlertIncident, AlertMessage
from freshline.model.documents.installation import Page
from freshline.store.operations.audit import acting
from freshline.store.store import Store
from freshline.unmatched import unmatched_filters

router = APIRouter(tags=["alerts"], route_class=UnvalidatedRoute)
Name = Annotated[str, Path(max_length=200, description="Name of the alert.")]
Number = Annotated[int | None, Query(ge=0, lt=2**63, description="The `next` of the previous page.")]


@router.get("/alerts", response_model=models.Page[models.Alert])
def list_alerts(_: RequireRead, store: StoreDep) -> Page[Alert]:
    """List alerts by name, with their open incidents and the state of their messages."""
    return {"items": store.reader.alerts.rules(), "next": None}


@router.post("/alerts", response_model=models.Alert, status_code=201)
def add_alert(
    actor: RequireAdmin, request: Request, store: StoreDep, body: models.AlertRequest, key: Key = None
) -> Alert:
    """Add an alert that reports what is wrong through Apprise.

    Patterns that match no asset are named in the header `Freshline-Warning`.
    """
    given = body.model_dump(by_alias=True, exclude_none=True)
    name = given.pop("name")
    try:
        rule = read_rule(name, given)
    except ValueError as error:
        raise UsageError(str(error)) from None
    with acting(actor):
        store.alerts.add(rule, key=key)
    warn(request, unmatched_filters((), rule.policy.assets, store.reader.names()))
    return _one(store, name)


@router.get("/alerts/{name}", response_model=models.Alert)
def show_alert(_: RequireRead, store: StoreDep, name: Name) -> Alert:
    """Return one alert."""
    return _one(store, name)


@router.get("/alerts/{name}/incidents", response_model=models.Page[models.AlertIncident])
def list_alert_incidents(
    _: RequireRead,
    store: StoreDep,
    name: Name,
    limit: Limit = 50,
    after: After = None,
    only_open: Annotated[Flag, Query(alias="open", description="Only those that have not ended.")] = False,
) -> Page[AlertIncident]:
    """List the incidents of an alert, newest first."""
    return page(limit, lambda most: store.reader.alerts.incidents(name, most, after, only_open=only_open))


@router.get("/alerts/{name}/messages", response_model=models.Page[models.AlertMessage])
def list_alert_messages(
    _: RequireRead, store: StoreDep, name: Name, limit: Limit = 50, after: Number = None
) -> Page[AlertMessage]:
    """List the messages of an alert, newest first: one per address."""
    return page(limit, lambda most: store.reader.alerts.messages(name, most, after), "number")


@router.post("/alerts/{name}/pause", response_model=models.Alert)
def pause_alert(actor: RequireAdmin, store: StoreDep, name: Name, _: models.EmptyBody | None = None) -> Alert:
    """Send nothing until the alert is resumed."""
    with acting(actor):
        store.alerts.pause(name)
    return _one(store, name)


@router.post("/alerts/{name}/resume", response_model=models.Alert)
def resume_alert(actor: RequireAdmin, store: StoreDep, name: Name, _: models.EmptyBody | None = None) -> Alert:
    """End a pause, and the wait after failures."""
    with acting(actor):
        store.alerts.resume(name)
    return _one(store, name)


@router.delete("/alerts/{name}", status_code=204)
def remove_alert(actor: RequireAdmin, store: StoreDep, name: Name) -> None:
    """Remove an alert that was added by a command or a request, with its incidents and messages."""
    with acting(actor):
        store.alerts.remove(name)


def _one(store: Store, name: str) -> Alert:
    (found,) = store.reader.alerts.rules(name)
    return found
