"""The application: routes, errors and limits put together."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import FastAPI

from freshline.api import assets, health, history, models, problems, workflows
from freshline.api.gate import Gate
from freshline.api.guard import Access
from freshline.store.facade import Store

PREFIX = "/api/v1"
MEDIA: dict[str, Any] = {problems.MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": problems.TITLES[status], "model": models.Problem}
    for status in (400, 401, 403, 404, 408, 409, 413, 415, 422, 500, 503)
}


def create_app(store: Store, *, anonymous: bool) -> FastAPI:
    """The API on a store. `anonymous`: requests of this machine are served without a token."""
    app = FastAPI(
        title="Freshline",
        summary="Keeps data assets fresh by itself, and can say why.",
        version=version("freshline"),
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.access = Access(store, anonymous)
    for part in (workflows, assets, history):
        app.include_router(part.router, prefix=PREFIX, responses=PROBLEMS)
    app.include_router(health.router, prefix=PREFIX)
    app.include_router(health.router, include_in_schema=False)  # where those who ask for it usually look
    problems.install(app)
    app.add_middleware(Gate)
    return app
