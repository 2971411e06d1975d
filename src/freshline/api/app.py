"""The application: routes, error handlers and limits."""

from __future__ import annotations

from copy import deepcopy
from functools import cache, cached_property
from pathlib import Path

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from freshline import __version__
from freshline.api import (
    PREFIX,
    alerts,
    assets,
    backfills,
    graph,
    health,
    history,
    metrics,
    models,
    overview,
    page,
    pages,
    problems,
    rows,
    session,
    simulate,
    tokens,
    webhooks,
    workflows,
)
from freshline.api.access import Access
from freshline.api.bundle import PAGE_FILES, Bundle
from freshline.api.middleware import ApiMiddleware
from freshline.api.stream import Streams
from freshline.model.json import Json
from freshline.store.store import Store

ROUTES = (
    session,
    overview,
    workflows,
    simulate,
    graph,
    assets,
    rows,
    backfills,
    history,
    webhooks,
    alerts,
    tokens,
)
PROBLEM = {"schema": {"$ref": "#/components/schemas/Problem"}}
PROBLEMS: dict[int | str, Json] = {
    status: {"description": problems.TITLES[status], "content": {problems.MEDIA: PROBLEM}}
    for status in (400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 503)
}


class Api(FastAPI):
    """A FastAPI application whose OpenAPI document defines problems once."""

    def openapi(self) -> Json:
        """Return the OpenAPI document."""
        made = super().openapi()
        if "Problem" not in made["components"]["schemas"]:
            made["components"]["schemas"]["Problem"] = models.Problem.model_json_schema()
        return made

    @cached_property
    def filters(self) -> dict[str, dict[str, bool]]:
        """Return the query parameters of each operation, by operation id, and whether they may be repeated."""
        operations = [operation for methods in self.openapi()["paths"].values() for operation in methods.values()]
        return {
            operation["operationId"]: {
                parameter["name"]: _is_list(parameter["schema"])
                for parameter in operation.get("parameters", ())
                if parameter["in"] == "query"
            }
            for operation in operations
        }


def _is_list(schema: Json) -> bool:
    return any(one.get("type") == "array" for one in (schema, *schema.get("anyOf", ())))


class StoreApp:
    """The application with the access of one store, which requests find in their state."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        scope.setdefault("state", {})["access"] = self._access
        await self._app(scope, receive, send)


def create_app(
    store: Store, *, anonymous: bool, streams: Streams | None = None, page_files: Path = PAGE_FILES
) -> StoreApp:
    """Create the API of a store. `anonymous`: local requests need no token. `page_files`: the bundle of the page."""
    settings = store.settings
    streams = streams or Streams(store.reader, poll_s=settings.poll_ms / 1000, per_token=settings.api_streams_per_token)
    return StoreApp(_routes(), Access(store, streams, anonymous, Bundle(page_files)))


def document() -> Json:
    """Return the OpenAPI document; this needs no store."""
    return deepcopy(_routes().openapi())


@cache
def _routes() -> Api:
    """Return the application without a store: it is the same for all of them, and takes half a second to build."""
    app = Api(
        title="Freshline",
        summary="Keeps data assets fresh, and explains every decision.",
        version=__version__,
        openapi_url=None,  # `pages` serves the document, and a page of it, to whoever may read
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    for part in (*ROUTES, metrics):
        app.include_router(part.router, prefix=PREFIX, responses=PROBLEMS)
    app.include_router(health.router, prefix=PREFIX)
    for part in (health, metrics):  # also at the root, where probes and Prometheus expect them
        app.include_router(part.router, include_in_schema=False)
    for part in (page, pages):
        app.include_router(part.router)
    problems.install(app)
    app.add_middleware(ApiMiddleware)
    app.openapi()  # FastAPI builds its routes on first use, which is not thread-safe
    return app
