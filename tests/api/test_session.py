"""Logging in and out of the page: a token becomes a cookie."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from http.cookies import SimpleCookie
from typing import Any

import httpx
import pytest

from freshline.api.attempts import MOST_ADDRESSES, MOST_ATTEMPTS, WINDOW_S, Attempts
from freshline.model.moment import iso
from tests.api.conftest import HOUR, JSON, Api, serving
from tests.store_harness import Lab

PAGE = {**JSON, "Freshline-Request": "page"}


def log_in(api: Api, token: str, **headers: str) -> httpx.Response:
    """Log in with a token; the client does not keep the cookie."""
    answer = api.client.post("/session", json={"token": token}, headers={**PAGE, **headers})
    api.client.cookies.clear()
    return answer


def cookie(answer: httpx.Response) -> Any:
    """Return the cookie of an answer, with its attributes."""
    return SimpleCookie(answer.headers["set-cookie"])["freshline_token"]


def with_cookie(secret: str, **headers: str) -> dict[str, str]:
    """Return the headers of a browser that has logged in."""
    return {"Cookie": f"freshline_token={secret}", **headers}


def test_a_token_becomes_a_cookie_that_authorizes(closed: Api) -> None:
    """No script can read it, no other site's request has it, and it ends with the token."""
    closed.token("operate")
    answer = log_in(closed, " freshline_operate\n")
    assert answer.status_code == 200
    made = cookie(answer)
    assert (made.value, made["path"], made["samesite"].lower(), made["httponly"]) == (
        "freshline_operate",
        "/",
        "strict",
        True,
    )
    assert (made["secure"], made["domain"], made["max-age"]) == ("", "", str(HOUR // 1000))
    session = {
        "actor": "token:operate",
        "name": "operate",
        "scope": "operate",
        "scopes": ["read", "operate"],
        "anonymous": False,
        "expiresAt": iso(closed.lab.later(hours=1)),
    }
    assert answer.json() == session
    assert closed.get("/session", headers=with_cookie(made.value)) == session
    assert closed.get("/status", headers=with_cookie(made.value))["assets"]
    paused = closed.client.post("/workflows/b/pause", json={}, headers=with_cookie(made.value, **PAGE))
    assert paused.status_code == 200
    assert closed.lab.one("SELECT who FROM audit WHERE what = 'pause'") == "token:operate"
    assert closed.get("/audit", headers=with_cookie(made.value), expect=403)["code"] == "scope-needed"


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://freshline.example", "Host": "freshline.example"}, {"X-Forwarded-Proto": "https"}]
)
def test_with_https_the_cookie_is_never_sent_without(closed: Api, headers: dict[str, str]) -> None:
    """Behind a proxy with TLS: the browser says so by its origin, or the proxy does."""
    closed.token("read")
    answer = log_in(closed, "freshline_read", **headers)
    assert answer.status_code == 200
    assert cookie(answer)["secure"] is True


def test_logging_out_removes_the_cookie_and_keeps_the_token(closed: Api) -> None:
    """Also with a cookie that is not valid: nobody is kept in a session."""
    closed.token("read")
    for secret in ("freshline_read", "wrong"):
        answer = closed.client.request("DELETE", "/session", headers=with_cookie(secret, **PAGE))
        assert answer.status_code == 204
        assert (cookie(answer).value, cookie(answer)["max-age"]) == ("", "0")
    assert closed.get("/status", headers={"Authorization": "Bearer freshline_read"})


def test_without_a_token_a_local_client_is_who_it_was(api: Api) -> None:
    """Loopback: no login is needed, and it may do what the API allows there."""
    found = api.get("/session")
    assert found == {
        "actor": "loopback",
        "name": None,
        "scope": "operate",
        "scopes": ["read", "data", "operate"],
        "anonymous": True,
        "expiresAt": None,
    }
    api.token("admin")
    answer = log_in(api, "freshline_admin")
    assert answer.json()["scopes"] == ["read", "data", "operate", "admin"]
    assert api.get("/audit", headers=with_cookie("freshline_admin"))


def test_where_a_token_is_needed_the_session_says_so(closed: Api) -> None:
    """The page asks this first, and shows the form."""
    answer = closed.client.get("/session")
    assert (answer.status_code, answer.json()["code"]) == (401, "token-needed")
    assert "set-cookie" not in answer.headers


def test_a_cookie_that_is_not_valid_any_more_is_removed(closed: Api) -> None:
    """Revoked, expired or never known: 401 from the next request on, and the browser forgets it."""
    closed.token("read")
    closed.get("/session", headers=with_cookie("freshline_read"))
    closed.lab.store.tokens.revoke("read")
    for secret in ("freshline_read", "x" * 500, "", "\xe9"):
        headers = httpx.Headers([(b"Cookie", f"freshline_token={secret}".encode("latin-1"))])
        answer = closed.client.get("/status", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, "token-invalid"), secret
        assert cookie(answer)["max-age"] == "0"
    header = closed.client.get("/status", headers={"Authorization": "Bearer wrong"})
    assert "set-cookie" not in header.headers


def test_bad_tokens_are_counted_and_the_address_has_to_wait(closed: Api) -> None:
    """After ten in a minute no token is looked at, not even a good one; who is logged in notices nothing."""
    closed.token("read")
    for _ in range(MOST_ATTEMPTS):
        assert log_in(closed, "wrong").json()["code"] == "token-invalid"
    for token in ("wrong", "freshline_read"):
        answer = log_in(closed, token)
        assert (answer.status_code, answer.json()["code"]) == (429, "too-many-attempts")
        assert "10 bad tokens came from this address within a minute; try again in" in answer.json()["detail"]
        assert 0 < int(answer.headers["retry-after"]) <= WINDOW_S
        assert "set-cookie" not in answer.headers
    assert closed.get("/session", headers=with_cookie("freshline_read"))["name"] == "read"


def test_attempts_are_forgotten_after_a_minute_and_do_not_fill_the_memory() -> None:
    """Each address has its own; of too many the oldest are dropped."""
    now = 0.0
    attempts = Attempts(lambda: now)
    for _ in range(MOST_ATTEMPTS):
        assert attempts.wait("one") == 0
        attempts.failed("one")
    assert (attempts.wait("one"), attempts.wait("two")) == (60, 0)
    now = 59.5
    assert attempts.wait("one") == 1
    now = 60.0
    assert attempts.wait("one") == 0
    for number in range(MOST_ADDRESSES + 5):
        attempts.failed(str(number))
    assert len(attempts._failed) == MOST_ADDRESSES


def test_a_stream_works_with_the_cookie(closed: Api) -> None:
    """A browser's event source sends the cookie and no other header."""
    closed.token("read")
    headers = with_cookie("freshline_read", Accept="text/event-stream", **{"Last-Event-ID": "0"})
    with closed.client.stream("GET", "/events", headers=headers) as answer:
        assert answer.status_code == 200
        assert next(answer.iter_text()).startswith("retry:")
    refused = closed.client.get("/events", headers={**headers, **with_cookie("wrong")})
    assert refused.status_code == 401


def test_the_data_scope_is_shown(closed: Api) -> None:
    """A token that may read rows says so."""
    digest = hashlib.sha256(b"rows").digest()
    closed.lab.store.tokens.create("rows", "read", digest, lifetime_ms=HOUR, data=True)
    assert log_in(closed, "rows").json()["scopes"] == ["read", "data"]


def test_the_cookie_ends_with_the_token(lab: Lab) -> None:
    """The browser forgets it when it expires, by the clock of the database."""
    lab.store.tokens.create("short", "read", hashlib.sha256(b"short").digest(), lifetime_ms=90_000)
    lab.now += timedelta(seconds=30)
    with serving(lab, auth="token") as api:
        assert cookie(log_in(api, "short"))["max-age"] == "60"


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        (JSON, 403, "page-header-needed"),
        ({**PAGE, "Freshline-Request": "form"}, 403, "page-header-needed"),
        ({**PAGE, "Origin": "http://evil.example"}, 403, "origin-not-allowed"),
        ({**PAGE, "Origin": "null"}, 403, "origin-not-allowed"),
        ({**PAGE, "Content-Type": "application/x-www-form-urlencoded"}, 415, "json-needed"),
        ({**PAGE, "Content-Type": "text/plain"}, 415, "json-needed"),
    ],
)
def test_a_page_of_another_site_cannot_use_the_cookie(
    closed: Api, headers: dict[str, str], status: int, code: str
) -> None:
    """Browsers send the cookie by themselves, so a change needs what only the page can send."""
    closed.token("operate")
    sent = with_cookie("freshline_operate", **headers)
    answer = closed.client.post("/workflows/b/pause", content=b"{}", headers=sent)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    (state,) = closed.get("/status", name="b", headers=with_cookie("freshline_operate"))["workflows"]
    assert state["paused"] is False


def test_the_page_changes_something_with_its_cookie(closed: Api) -> None:
    """With its header and its own origin, also behind a proxy with TLS that passes the host."""
    closed.token("operate")
    host = closed.client.base_url.netloc.decode()
    for more in ({}, {"Origin": f"http://{host}"}, {"Origin": f"https://{host}"}):
        sent = with_cookie("freshline_operate", **PAGE, **more)
        assert closed.client.post("/workflows/b/pause", json={}, headers=sent).status_code == 200, more
