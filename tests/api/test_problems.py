"""Errors are RFC 9457 problems with a stable code and a sentence."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from freshline.api import middleware
from freshline.api.middleware import MAX_BODY_BYTES
from tests.api.conftest import JSON, Api

BAD: list[tuple[str, str, Any, int, str]] = [
    ("get", "/workflows/nobody", None, 404, "not-found"),
    ("get", "/assets/nobody/why", None, 404, "not-found"),
    ("get", "/nowhere", None, 404, "not-found"),
    ("get", "/runs/zzz", None, 422, "usage"),
    ("get", "/runs?limit=0", None, 422, "invalid-request"),
    ("get", "/runs?limit=1001", None, 422, "invalid-request"),
    ("get", "/runs?since=yesterday", None, 422, "invalid-request"),
    ("get", "/runs?since=2026-01-01T00:00:00", None, 422, "invalid-request"),
    ("get", "/runs?status=sleeping", None, 422, "invalid-request"),
    ("get", "/assets/a/history?after=x", None, 422, "invalid-request"),
    ("get", "/events?after=x", None, 422, "usage"),
    ("get", "/events/99999999999999999999", None, 404, "not-found"),
    ("get", "/workflows/%00", None, 400, "bad-value"),
    ("delete", "/workflows/b", None, 405, "method-not-allowed"),
    ("post", "/workflows/b/run", {"parameter": {}}, 422, "invalid-request"),
    ("post", "/workflows/b/run", {"fullRefresh": "yes"}, 422, "invalid-request"),
    ("post", "/workflows/b/pause", {"until": "2026-01-01T00:00:00"}, 422, "invalid-request"),
    ("post", "/assets/a/produced", {"sequence": -1}, 422, "invalid-request"),
    ("post", "/assets/a/produced", {"payload": "\x00"}, 400, "bad-value"),
    ("post", "/assets/a/produced", {"payload": "x" * 300_000}, 422, "usage"),
    ("post", "/assets/a/produced", {"payload": "x" * MAX_BODY_BYTES}, 413, "too-large"),
]


@pytest.mark.parametrize("case", BAD, ids=lambda case: f"{case[1][:40]}-{case[4]}")
def test_a_mistake_is_told(shared: Api, case: tuple[str, str, Any, int, str]) -> None:
    """Status, code, type, title and a detail, as application/problem+json."""
    method, path, body, status, code = case
    answer = shared.client.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert (told["status"], told["code"], told["type"]) == (status, code, f"urn:freshline:problem:{code}")
    assert told["title"]
    assert told["detail"]


def test_a_body_that_is_no_json_is_told(shared: Api) -> None:
    """Also half a surrogate pair, and a body whose length nobody said."""
    assert shared.client.post("/assets/a/produced", content=b"{", headers=JSON).json()["code"] == "invalid-request"
    half = shared.client.post("/assets/a/produced", content=b'{"payload": "\\ud800"}', headers=JSON)
    assert half.status_code in {400, 422}
    long = (b"x" * 65536 for _ in range(40))
    assert shared.client.post("/assets/a/produced", content=long, headers=JSON).json()["code"] == "too-large"


def test_a_body_that_does_not_arrive_is_not_waited_for(shared: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sends slowly is told so, and holds no thread meanwhile."""
    monkeypatch.setattr(middleware, "BODY_S", 0.2)
    head = b"POST /api/v1/assets/a/produced HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    with socket.create_connection(shared.server.address, timeout=30) as slow:
        slow.sendall(head)
        assert b" 408 " in slow.recv(65536).split(b"\r\n")[0]


def test_a_wrong_value_is_not_repeated(shared: Api) -> None:
    """What somebody sent by mistake may be a secret."""
    answer = shared.client.post("/assets/a/produced", json={"sequence": "hunter2"})
    assert answer.status_code == 422
    assert "hunter2" not in answer.text


def test_without_a_database_it_is_there_and_not_ready(api: Api) -> None:
    """`/healthz` goes on, `/readyz` says no, everything else is 503 with a hint when to come back."""
    assert api.get("/readyz")["status"] == "ok"
    api.lab.database.close()
    assert api.get("/healthz") == {"status": "ok", "checks": [], "notes": []}
    gone = api.get("/readyz", expect=503)
    assert (gone["status"], [one["name"] for one in gone["checks"] if not one["ok"]]) == ("unavailable", ["database"])
    away = api.client.get("/runs")
    assert (away.status_code, away.json()["code"], away.headers["retry-after"]) == (503, "database", "2")


def test_it_is_not_ready_while_changes_wait_too_long(api: Api) -> None:
    """The check that fails is named, with how long; when the change is absorbed all is well again."""
    api.lab.report("a", "2")
    api.lab.advance(seconds=60)
    assert [one["ok"] for one in api.get("/readyz")["checks"]] == [True, True, True]
    api.lab.advance(seconds=30)
    late = api.get("/readyz", expect=503)
    assert [(one["name"], one["ok"]) for one in late["checks"]] == [
        ("database", True),
        ("schema", True),
        ("absorber", False),
    ]
    assert late["notes"] == ["the oldest change has waited for 1.5 min to be processed; allowed are 1.0 min"]
    api.lab.settle()
    assert api.get("/readyz")["status"] == "ok"


def test_a_schema_that_does_not_fit_is_named(api: Api) -> None:
    """It is one that only a newer Freshline understands."""
    api.lab.rows("INSERT INTO freshline_migrations (version, name, breaking) VALUES (99, 'x', true) RETURNING 1")
    late = api.get("/readyz", expect=503)
    assert [(one["name"], one["ok"]) for one in late["checks"]] == [("database", True), ("schema", False)]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("stauts=failed", "did you mean 'status'?"),
        ("limit=3&canary=1", "known are limit, after"),
        ("=1", "known are"),
    ],
)
def test_a_filter_with_a_slip_in_its_name_is_refused(shared: Api, query: str, told: str) -> None:
    """Otherwise it would let everything through; the slip is not repeated."""
    answer = shared.client.get(f"/runs?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request")
    assert told in answer.json()["detail"]
    assert "canary" not in answer.text
