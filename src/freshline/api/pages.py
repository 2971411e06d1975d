"""The OpenAPI document, `/docs`, and `/` where the page has not been built: small pages for a browser.

The pages load nothing, from no host, and run no script.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from freshline import __version__
from freshline.api import PREFIX
from freshline.api.access import access
from freshline.api.auth import RequireRead
from freshline.api.origins import check_local
from freshline.api.pagination import tagged
from freshline.api.problems import RequestError
from freshline.errors import FreshlineError
from freshline.model.documents.installation import Process
from freshline.model.json import Json

router = APIRouter(include_in_schema=False)
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } td, th { text-align: left; vertical-align: top; padding: .2rem 1rem .2rem 0; }
code { font-family: ui-monospace, monospace; }
"""
HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
LINKS = (
    ("/docs", "every operation of the API, with its parameters"),
    (f"{PREFIX}/status", "the state of every asset and workflow"),
    (f"{PREFIX}/runs", "runs, newest first"),
    (f"{PREFIX}/events", "events, newest first"),
    (f"{PREFIX}/decisions", "decisions with their reasons, newest first"),
    (f"{PREFIX}/openapi.json", "the OpenAPI document, for programs"),
    ("/metrics", "metrics for Prometheus"),
    ("/healthz", "whether this process is alive"),
    ("/readyz", "whether the installation is working"),
)
MOST_PROCESSES = 50
BUILD = (
    "<p>The page of Freshline is not part of this installation: in a clone, <code>make setup</code> builds it; the "
    "package from the registry contains it.</p>"
)


def home(request: Request) -> HTMLResponse:
    """Show what is running, if the request needs no token, and where everything is."""
    links = (_row(_link(path), escape(text)) for path, text in LINKS)
    return _page(
        "Freshline",
        f"<p>The HTTP API of Freshline {escape(__version__)}.</p>",
        BUILD,
        *_running(request),
        "<h2>Links</h2>",
        _table(links),
        "<p>In a terminal: <code>freshline status</code>, <code>freshline why ASSET</code>, "
        "<code>freshline --help</code>.</p>",
    )


@router.get(f"{PREFIX}/openapi.json")
def show_document(_: RequireRead, request: Request) -> Response:
    """Return the OpenAPI document."""
    return tagged(request, request.app.openapi())


@router.get("/docs")
def docs(_: RequireRead, request: Request) -> HTMLResponse:
    """Show the OpenAPI document as a page."""
    document: Json = request.app.openapi()
    programs = f"Programs read {_link(f'{PREFIX}/openapi.json')}."
    parts = [f"<p>Version {escape(document['info']['version'])}. {programs}</p>"]
    for tag, operations in _by_tag(document).items():
        parts += [f"<h2>{escape(tag)}</h2>", _table(_operation(*one) for one in operations)]
    return _page("Freshline API", f"<p>{_link('/', 'What is running')}</p>", *parts)


def _running(request: Request) -> Iterator[str]:
    """Yield what is running. Others than local users see it with a token only, through the API."""
    allowed = access(request)
    try:
        if not allowed.anonymous:
            return
        check_local(request)
        processes, notes = allowed.store.reader.workers(MOST_PROCESSES), allowed.store.reader.notes()
    except RequestError:
        return
    except FreshlineError as error:
        yield f"<p>The database does not answer: {escape(error.message)}</p>"
        return
    yield "<h2>Running</h2>"
    yield _table(map(_process, processes), ("process", "host", "since", "state"))
    yield from (f"<p>Note: {escape(note)}</p>" for note in notes)


def _process(one: Process) -> str:
    state = "live" if one["live"] else "silent"
    since = f"{one['startedAt'][:19].replace('T', ' ')} UTC"
    return _row(*(escape(text) for text in (one["kind"], one["host"], since, state)))


def _by_tag(document: Json) -> dict[str, list[tuple[str, str, Json]]]:
    found: dict[str, list[tuple[str, str, Json]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            found.setdefault(operation.get("tags", ["other"])[0], []).append((method, path, operation))
    return found


def _operation(method: str, path: str, operation: Json) -> str:
    named = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
    query = f"<br>Query: {', '.join(f'<code>{escape(name)}</code>' for name in named)}" if named else ""
    text = f"{_prose(operation.get('description') or operation.get('summary', ''))}{query}"
    return _row(f"<code>{escape(method.upper())}</code>", f"<code>{escape(path)}</code>", text)


def _link(path: str, text: str | None = None) -> str:
    return f'<a href="{escape(path)}">{escape(text or path)}</a>'


def _prose(text: str) -> str:
    """Return a description as HTML; what is between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _row(*cells: str) -> str:
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _table(rows: Iterable[str], heads: Iterable[str] = ()) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{''.join(rows)}</table>"


def _page(title: str, *parts: str) -> HTMLResponse:
    body = "\n".join(parts)
    text = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )
    headers: dict[str, Any] = {"Content-Security-Policy": POLICY}
    return HTMLResponse(text, headers=headers)
