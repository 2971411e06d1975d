"""Tokens over HTTP: listed, created and revoked by who has the scope `admin`."""

from __future__ import annotations

import pytest

from tests.api.conftest import Api

DAY = 86_400


def test_a_created_token_works_and_is_shown_once(closed: Api) -> None:
    """Its scope and its right to read rows are those that were asked for; the list has no secret."""
    admin = closed.token("admin")
    body = {"name": "analyst", "data": True, "expires": "2d"}
    answer = closed.client.post("/tokens", json=body, headers=admin)
    made = answer.json()
    assert (answer.status_code, answer.headers["cache-control"]) == (201, "no-store")
    assert (made["name"], made["scope"], made["data"], made["active"]) == ("analyst", "read", True, True)
    headers = {"Authorization": f"Bearer {made['token']}"}
    assert closed.get("/session", headers=headers)["scopes"] == ["read", "data"]
    assert closed.get("/tokens", headers=headers, expect=403)["code"] == "scope-needed"
    listed = closed.get("/tokens", headers=admin)["items"]
    assert {one["name"]: (one["scope"], one["data"]) for one in listed} == {
        "analyst": ("read", True),
        "admin": ("admin", False),
    }
    assert made["token"] not in str(listed)
    assert made["token"] not in str(closed.lab.everything())
    entry = closed.get("/audit", headers=admin)["items"][0]
    assert (entry["who"], entry["what"], entry["subject"]) == ("token:admin", "create_token", "analyst")


def test_a_revoked_token_is_refused_from_then_on(closed: Api) -> None:
    """A repetition changes nothing; its name is free again."""
    admin = closed.token("admin")
    made = closed.client.post("/tokens", json={"name": "ci", "scope": "operate"}, headers=admin).json()
    for _ in range(2):
        assert closed.client.delete("/tokens/ci", headers=admin).status_code == 204
    headers = {"Authorization": f"Bearer {made['token']}"}
    assert closed.get("/runs", headers=headers, expect=401)["code"] == "token-invalid"
    assert closed.client.post("/tokens", json={"name": "ci"}, headers=admin).status_code == 201
    answer = closed.client.delete("/tokens/cii", headers=admin)
    assert (answer.status_code, "did you mean 'ci'?" in answer.json()["detail"]) == (404, True)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "a/b"},
        {"name": "x", "scope": "root"},
        {"name": "x", "expires": "soon"},
        {"name": "x", "expires": "0s"},
        {"name": "x", "data": "yes"},
        {"name": "x", "secret": "y"},
    ],
)
def test_wrong_fields_are_refused(closed: Api, body: dict[str, object]) -> None:
    """Nothing is created."""
    answer = closed.client.post("/tokens", json=body, headers=closed.token("admin"))
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request")
    assert len(closed.lab.store.reader.tokens()) == 1


def test_a_name_that_is_taken_is_a_conflict(closed: Api) -> None:
    """The answer says what to do."""
    answer = closed.client.post("/tokens", json={"name": "admin"}, headers=closed.token("admin"))
    assert (answer.status_code, "freshline token revoke admin" in answer.json()["detail"]) == (409, True)


def test_tokens_need_a_token_on_loopback_too(api: Api) -> None:
    """Whoever is local could otherwise become an admin."""
    assert api.get("/tokens", expect=401)["code"] == "token-needed"
    assert api.post("/tokens", {"name": "x"}, expect=401)["code"] == "token-needed"
    assert api.client.delete("/tokens/x", headers={"Content-Type": "application/json"}).status_code == 401
