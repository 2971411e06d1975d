"""The application: routes, errors and limits put together."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from fastapi import FastAPI

from freshline import __version__
from freshline.api import PREFIX, assets, health, history, metrics, models, overview, problems, webhooks, workflows
from freshline.api.auth import Access
from freshline.api.middleware import Gate
from freshline.api.stream import Streams
from freshline.store.store import Store

PROBLEM = {"schema": {"$ref": "#/components/schemas/Problem"}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": problems.TITLES[status], "content": {problems.MEDIA: PROBLEM}}
    for status in (400, 401, 403, 404, 408, 409, 413, 415, 422, 500, 503)
}


class Api(FastAPI):
    """An application whose document describes problems once."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        made = super().openapi()
        if "Problem" not in made["components"]["schemas"]:
            made["components"]["schemas"]["Problem"] = models.Problem.model_json_schema()
        return made

    @cached_property
    def filters(self) -> dict[str, list[str]]:
        """What each operation takes in its query."""
        described = [one for methods in self.openapi()["paths"].values() for one in methods.values()]
        return {
            one["operationId"]: [two["name"] for two in one.get("parameters", ()) if two["in"] == "query"]
            for one in described
        }


def create_app(store: Store, *, anonymous: bool, streams: Streams | None = None) -> Api:
    """The API on a store. `anonymous`: requests of this machine are served without a token."""
    app = _routes()
    streams = streams or Streams(store.reader, poll_s=store.settings.poll_ms / 1000)
    app.state.access = Access(store, streams, anonymous)
    app.openapi()  # FastAPI builds its routes when it is first asked, which no two threads may do at once
    return app


def document() -> dict[str, Any]:
    """The OpenAPI document; it needs no store."""
    return _routes().openapi()


def _routes() -> Api:
    app = Api(
        title="Freshline",
        summary="Keeps data assets fresh by itself, and can say why.",
        version=__version__,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    for part in (overview, workflows, assets, history, webhooks, metrics):
        app.include_router(part.router, prefix=PREFIX, responses=PROBLEMS)
    app.include_router(health.router, prefix=PREFIX)
    for part in (health, metrics):  # where those who ask for them usually look
        app.include_router(part.router, include_in_schema=False)
    problems.install(app)
    app.add_middleware(Gate)
    return app
