"""`/status` and `/about`: the state of the installation, and the version of the API."""

from __future__ import annotations

from fastapi import APIRouter

from freshline import __version__
from freshline.api import models
from freshline.api.auth import RequireRead
from freshline.api.pagination import Name, UnvalidatedRoute
from freshline.api.workflows import StoreDep
from freshline.model.documents.installation import About
from freshline.model.documents.status import Status
from freshline.store.read.session import json_value

router = APIRouter(tags=["overview"], route_class=UnvalidatedRoute)


@router.get("/status", response_model=models.Status)
def show_status(_: RequireRead, store: StoreDep, name: Name = None) -> Status:
    """Return all assets and workflows; with `name`, one asset or workflow. An asset takes precedence."""
    return store.reader.status(name)


@router.get("/about", response_model=models.About)
def show_about(_: RequireRead, store: StoreDep) -> About:
    """Return the version of the API and the time of the database."""
    reader = store.reader
    return {"version": __version__, "at": json_value(reader.now()), "position": reader.position()}
