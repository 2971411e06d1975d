"""`/status` and `/about`: how everything stands, and what answers here."""

from __future__ import annotations

from fastapi import APIRouter

from freshline import __version__
from freshline.api import models
from freshline.api.auth import Reading
from freshline.api.pagination import Name, Plain
from freshline.api.workflows import Stored
from freshline.model.json import Json
from freshline.store.read.look import plain

router = APIRouter(tags=["overview"], route_class=Plain)


@router.get("/status", response_model=models.Status)
def show_status(_: Reading, store: Stored, name: Name = None) -> Json:
    """All assets and workflows; with `name`, one asset or workflow and its own. An asset wins."""
    return store.reader.status(name)


@router.get("/about", response_model=models.About)
def show_about(_: Reading, store: Stored) -> Json:
    """What answers here, and the clock that counts: the database's."""
    reader = store.reader
    return {"version": __version__, "at": plain(reader.now()), "position": reader.position()}
