"""`/healthz` and `/readyz`: for those who restart processes or send them requests. They need no token."""

from __future__ import annotations

from fastapi import APIRouter, Response

from freshline.api import models
from freshline.api.problems import log
from freshline.api.workflows import Stored
from freshline.errors import FreshlineError
from freshline.model.json import Json
from freshline.store.doctor import readiness
from freshline.store.store import Store

router = APIRouter(tags=["health"])


@router.get("/healthz", response_model=models.Health)
def healthz() -> Json:
    """The process is there. It says nothing about the database: to restart the API would not mend that."""
    return {"status": "ok"}


@router.get("/readyz", response_model=models.Health, responses={503: {"model": models.Health}})
def readyz(store: Stored, response: Response) -> Json:
    """The database answers, its schema fits, and changes are taken up in time; `checks` says which of it is not so."""
    found = readiness.checks(store)
    told = {"status": "ok", "checks": [one.as_json() for one in found]}
    if all(one.ok for one in found):
        return {**told, "notes": _notes(store)}
    log.warning("not_ready", check=found[-1].name, detail=found[-1].detail)
    response.status_code = 503
    return {**told, "status": "unavailable", "notes": [one.detail for one in found if not one.ok]}


def _notes(store: Store) -> list[str]:
    try:
        return store.reader.notes()
    except FreshlineError:  # it went between two looks; who asks again will be told
        return []
