"""`/` and `/page/…`: the page. It uses the JSON API like any other client, and loads nothing from other hosts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from fastapi import Path as PathParameter

from freshline.api import pages
from freshline.api.access import access
from freshline.api.bundle import FOLDER, INDEX, File
from freshline.api.problems import RequestError

router = APIRouter(include_in_schema=False)
POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
A_YEAR = "public, max-age=31536000, immutable"
Name = Annotated[str, PathParameter(max_length=300)]


@router.get("/")
def home(request: Request) -> Response:
    """Return the page; without a bundle, a small page with links."""
    found = access(request).page.file(INDEX)
    if found is None:
        return pages.home(request)
    return _answer(request, found, "no-store")


@router.get("/page/{name:path}")
def page_file(request: Request, name: Name) -> Response:
    """Return a file of the page."""
    found = access(request).page.file(f"{FOLDER}/{name}")
    if found is None:
        raise RequestError(404, "not-found", "the page has no such file; reload it, it may have been updated")
    return _answer(request, found, A_YEAR if found.lasting else "no-cache")


def _answer(request: Request, found: File, caching: str) -> Response:
    headers = {"Cache-Control": caching, "Content-Security-Policy": POLICY, "Vary": "Accept-Encoding"}
    if caching != "no-store":
        headers["ETag"] = found.tag
        if found.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
    content = found.content
    if found.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        content = found.compressed
        headers["Content-Encoding"] = "gzip"
    return Response(content, media_type=found.type, headers=headers)
