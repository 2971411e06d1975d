"""`/healthz` and `/readyz`: liveness and readiness probes, without a token."""

from __future__ import annotations

from fastapi import APIRouter, Response

from freshline.api import models
from freshline.api.problems import log
from freshline.api.workflows import StoreDep
from freshline.errors import FreshlineError
from freshline.model.json import Json
from freshline.store.doctor import readiness
from freshline.store.store import Store

router = APIRouter(tags=["health"])


@router.get("/healthz", response_model=models.Health)
def healthz() -> Json:
    """Report that the process is alive. The database is not checked: restarting the API would not repair it."""
    return {"status": "ok"}


@router.get("/readyz", response_model=models.Health, responses={503: {"model": models.Health}})
def readyz(store: StoreDep, response: Response) -> Json:
    """Report whether the database responds, its schema matches, and changes are processed in time.

    `checks` lists the results.
    """
    found = readiness.checks(store)
    body = {"status": "ok", "checks": [one.as_json() for one in found]}
    if all(one.ok for one in found):
        return {**body, "notes": _notes(store)}
    log.warning("not_ready", check=found[-1].name, detail=found[-1].detail)
    response.status_code = 503
    return {**body, "status": "unavailable", "notes": [one.detail for one in found if not one.ok]}


def _notes(store: Store) -> list[str]:
    try:
        return store.reader.notes()
    except FreshlineError:  # the database went away after the checks; the next probe reports it
        return []
