"""Arbitrary requests to every route: no answer is a server error, and every answer fits the document."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freshline.api.app import document
from tests.api.conftest import Api
from tests.api.documents import Operation, operations

DOCUMENT = document()
OPERATIONS = operations(DOCUMENT)
FEW, MANY = 8, 200

ANY = st.text(max_size=20) | st.sampled_from(
    ["", "0", "-1", "9" * 30, "\x00", "null", "é" * 300, "2026-01-01T00:00:00Z"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | ANY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KNOWN = {"name": ["hook"], "slug": ["b", "c"], "assetId": ["a", "b"], "runId": [], "eventId": []}


def texts(name: str, schema: dict[str, Any]) -> st.SearchStrategy[str]:
    """Return values for a path, a query or a header; many are valid, so that calls get past validation."""
    right = [*KNOWN.get(name, ())]
    for one in schema.get("anyOf", [schema]):
        right += one.get("enum", [])
        right += ["1", "2"] if one.get("type") == "integer" else []
    return ANY | st.sampled_from(right) if right else ANY


def bodies(operation: Operation) -> st.SearchStrategy[Any]:
    """Return JSON values; many are objects with the documented names."""
    described = operation.described.get("requestBody", {}).get("content", {}).get("application/json", {})
    refs = [one["$ref"] for one in described.get("schema", {}).get("anyOf", []) if "$ref" in one]
    names = {name for ref in refs for name in DOCUMENT["components"]["schemas"][ref.rpartition("/")[2]]["properties"]}
    return VALUES | st.fixed_dictionaries({}, optional=dict.fromkeys(sorted(names), VALUES)) if names else VALUES


@st.composite
def requests(draw: st.DrawFn, operation: Operation) -> dict[str, Any]:
    """Return requests to an operation."""
    path, query, headers = {}, {}, {}
    for one in operation.described.get("parameters", ()):
        value = draw(texts(one["name"], one["schema"]))
        if one["in"] == "path":
            path[one["name"]] = quote(value or "x", safe="")
        elif one["in"] == "query" and draw(st.booleans()):
            query[one["name"]] = value
        elif one["in"] == "header" and draw(st.booleans()):
            headers[one["name"]] = value.encode("utf-8", "replace").replace(b"\x00", b"").replace(b"\n", b"").strip()
    return {"url": operation.url(path), "params": query, "headers": headers, "json": draw(bodies(operation))}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one.method} {one.path}")
def test_no_request_finds_a_fault(shared: Api, operation: Operation) -> None:
    """Each answer has a status that the document names; what is no success is a problem with a code."""
    fuzz(shared, operation, FEW)


@pytest.mark.full
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one.method} {one.path}")
def test_no_request_of_many_finds_a_fault(shared: Api, operation: Operation) -> None:
    """The same with more of them."""
    fuzz(shared, operation, MANY)


def fuzz(shared: Api, operation: Operation, cases: int) -> None:
    """Send this number of requests to one operation."""

    @settings(max_examples=cases, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(asked=requests(operation))
    def ask(asked: dict[str, Any]) -> None:
        body = None if operation.method == "get" else asked["json"]
        try:
            answer = shared.client.request(
                operation.method,
                shared.server.url + asked["url"],
                params=asked["params"],
                headers={"Content-Type": "application/json", **asked["headers"]},
                content=None if operation.method == "get" else dumps(body),
            )
        except (UnicodeEncodeError, httpx.LocalProtocolError):
            return  # the client refuses to send half a surrogate pair in an address, or a line break in a header
        assert answer.status_code < 500, (asked, answer.text)
        assert str(answer.status_code) in {*operation.described["responses"], "404", "405"}, (asked, answer.text)
        if answer.status_code >= 400:
            assert answer.json()["code"], asked

    ask()


def dumps(value: Any) -> bytes:
    """Return JSON as careless clients write it: with NaN, and with half a surrogate pair as an escape."""
    return json.dumps(value).encode()
