"""`/healthz` and `/readyz`: for those who restart processes or send them requests. They need no token."""

from __future__ import annotations

from fastapi import APIRouter, Response

from freshline.api import models
from freshline.api.models import Json
from freshline.api.problems import log
from freshline.api.workflows import Stored
from freshline.errors import FreshlineError

router = APIRouter(tags=["health"])


@router.get("/healthz", response_model=models.Health)
def healthz() -> Json:
    """The process is there. It says nothing about the database: to restart the API would not mend that."""
    return {"status": "ok"}


@router.get("/readyz", response_model=models.Health, responses={503: {"model": models.Health}})
def readyz(store: Stored, response: Response) -> Json:
    """The database answers, its schema fits, and nothing waits for a process that is not there."""
    try:
        store.require_schema()
        late = store.reader.notes()
    except FreshlineError as error:
        log.warning("not_ready", error=str(error))
        response.status_code = 503
        # Without the error's words: who asks here has shown no token.
        return {"status": "unavailable", "notes": [f"the {error.code} cannot be used; the log of the API tells more"]}
    return {"status": "ok", "notes": late}
