"""Authentication and scopes, and protection against requests from web pages."""

from __future__ import annotations

import hashlib
import logging
from json import dumps

import httpx
import pytest

from freshline.api import PREFIX
from freshline.api.app import document
from freshline.api.scopes import Rights, Scope
from freshline.api.server import Server
from freshline.errors import UsageError
from tests.api.conftest import JSON, Api, serving
from tests.api.documents import SCOPES, body, operations
from tests.api.test_routes import names
from tests.store_harness import Lab

OPEN = {("get", f"{PREFIX}/healthz"), ("get", f"{PREFIX}/readyz")}
LOGIN = {("post", f"{PREFIX}/session"), ("delete", f"{PREFIX}/session")}  # they have rules of their own: test_session


def test_every_route_has_a_decision() -> None:
    """Each operation needs one scope, but for those that are open; what changes something needs more than `read`."""
    described = operations(document())
    assert {(one.method, one.path) for one in described if one.scope is None} == OPEN | LOGIN
    outside = (f"{PREFIX}/webhooks", f"{PREFIX}/alerts", f"{PREFIX}/tokens")  # who reads or gets what
    changes = [one for one in described if one.method != "get" and one.scope is not None]
    assert {one.scope for one in changes if one.path.startswith(outside)} == {"admin"}
    assert {one.scope for one in changes if not one.path.startswith(outside)} == {"operate"}
    admin = {one.path for one in described if one.scope == "admin" and one.method == "get"}
    assert admin == {f"{PREFIX}/audit", f"{PREFIX}/tokens"}
    assert {one.path for one in described if one.scope == "data"} == {f"{PREFIX}/assets/{{assetId}}/rows"}


def test_every_route_is_described(closed: Api) -> None:
    """Nothing is served beside the document but the document, the open routes at the root, and the two pages.

    Who may read gets the document and its page.
    """
    headers = closed.token("read")
    for path in ("/docs", f"{PREFIX}/openapi.json"):
        assert httpx.get(closed.server.url + path, trust_env=False).status_code == 401
        assert httpx.get(closed.server.url + path, headers=headers, trust_env=False).status_code == 200
    document = closed.get("/openapi.json", headers=headers)
    for path in ("/redoc", "/openapi.json", "/api", "/api/v1", "/api/v1/", "/docs/", "/docs/x", "/index.html"):
        assert httpx.get(closed.server.url + path, trust_env=False).status_code == 404
    for path in ("/healthz", "/readyz"):
        assert httpx.get(closed.server.url + path, trust_env=False).status_code == 200
    assert len(document["paths"]) >= 26


def test_the_matrix_of_routes_and_scopes(closed: Api) -> None:
    """Every operation with no token, a wrong one, and one of each scope: refused below its own, served from it on."""
    tokens = {scope: closed.token(scope) for scope in SCOPES}
    paths = names(closed)
    # Deletions come last: the other operations need the rows.
    for one in sorted(operations(document()), key=lambda one: one.method == "delete"):
        url = closed.server.url + one.url(paths)
        content = None if one.method == "get" else dumps(body(one))

        def ask(
            headers: dict[str, str], method: str = one.method, url: str = url, content: str | None = content
        ) -> int:
            return closed.client.request(method, url, headers={**JSON, **headers}, content=content).status_code

        if one.scope is None:
            assert ask({}) == (403 if (one.method, one.path) in LOGIN else 200)
            continue
        assert ask({}) == 401, one
        assert ask({"Authorization": "Bearer wrong"}) == 401, one
        assert ask({"Authorization": "Basic d3Jvbmc="}) == 401, one
        for scope in SCOPES:
            status = ask(tokens[scope])
            if not Rights(Scope(scope)).has(Scope(one.scope)):
                assert status == 403, (one, scope)
            else:
                assert status in {200, 201, 202, 204, 409}, (one, scope, status)


def test_a_token_ends_and_is_revoked(closed: Api) -> None:
    """From the next request on; its last use is remembered, to the minute."""
    headers = closed.token("read")
    closed.get("/runs", headers=headers)
    used = closed.lab.one("SELECT used_at FROM api_tokens")
    assert used == closed.lab.now
    closed.lab.advance(seconds=30)
    closed.get("/runs", headers=headers)
    assert closed.lab.one("SELECT used_at FROM api_tokens") == used
    closed.lab.advance(seconds=31)
    closed.get("/runs", headers=headers)
    assert closed.lab.one("SELECT used_at FROM api_tokens") == closed.lab.now
    closed.lab.advance(hours=1)
    assert closed.get("/runs", headers=headers, expect=401)["code"] == "token-invalid"
    closed.lab.store.tokens.revoke("read")
    again = closed.token("operate")
    closed.get("/runs", headers=again)
    closed.lab.store.tokens.revoke("operate")
    assert closed.get("/runs", headers=again, expect=401)["code"] == "token-invalid"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", "", "[::2]:1"]
)
def test_a_name_that_was_bound_to_loopback_later_is_refused(shared: Api, host: str) -> None:
    """DNS rebinding: the page's own name stands in Host, so without a token nothing is told and nothing done."""
    headers = {"Host": host}
    assert shared.client.get("/runs", headers=headers).status_code in {400, 403}
    answer = shared.client.post("/workflows/b/pause", json={}, headers=headers)
    assert answer.status_code in {400, 403}
    assert shared.get("/workflows/b/auto-materialize")["paused"] is False


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "127.9.9.9:80", "[::1]:8080", "LOCALHOST"])
def test_names_of_this_machine_are_served(shared: Api, host: str) -> None:
    """However they are written."""
    shared.get("/runs", headers={"Host": host})


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"])
def test_another_sites_page_changes_nothing(shared: Api, origin: str) -> None:
    """A cross-site request names its origin."""
    assert shared.post("/workflows/b/pause", expect=403, Origin=origin)["code"] == "origin-not-allowed"
    assert shared.get("/workflows/b/auto-materialize")["paused"] is False


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
def test_what_a_form_can_send_changes_nothing(shared: Api, kind: str | None) -> None:
    """A form needs no permission to be sent across sites, but it cannot be JSON; neither can an empty request."""
    headers = {"Content-Type": kind} if kind else {}
    answer = shared.client.post("/workflows/b/pause", content=b"{}" if kind else None, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (415, "json-needed")


def test_a_page_gets_no_permission_to_ask(shared: Api) -> None:
    """A preflight is answered without any of the headers that would allow the request."""
    asking = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answer = shared.client.options("/workflows/b/pause", headers=asking)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_our_own_origin_is_served(api: Api) -> None:
    """A page that this API itself serves may use it."""
    assert api.post("/workflows/b/pause", Origin=api.server.url)["paused"]


def test_a_wrong_token_is_no_loopback(api: Api) -> None:
    """Who brings a token is judged by it, here too; and nobody is admin without one."""
    assert api.get("/runs", headers={"Authorization": "Bearer wrong"}, expect=401)["code"] == "token-invalid"
    assert api.get("/runs", headers={"Authorization": "Basic x"}, expect=401)["code"] == "token-needed"
    assert api.get("/audit", expect=401)["code"] == "token-needed"
    api.get("/audit", headers=api.token("admin"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])  # noqa: S104 - it must be refused
def test_another_address_than_loopback_needs_a_token_to_start(lab: Lab, host: str) -> None:
    """The refusal says what to do; with a token it starts, and then every request needs one."""
    with pytest.raises(UsageError, match=r"no token exists.*`freshline token create NAME`, or listen on 127.0.0.1"):
        Server(lab.store, host=host, port=0)


def test_on_another_address_everybody_needs_a_token(lab: Lab) -> None:
    """Also those who come from this machine."""
    lab.store.tokens.create("x", "read", hashlib.sha256(b"secret").digest(), lifetime_ms=1000)
    with serving(lab, host="0.0.0.0") as api:  # noqa: S104 - that is what is tested
        assert api.get("/runs", expect=401)["code"] == "token-needed"
        api.get("/runs", headers={"Authorization": "Bearer secret", "Host": "freshline.example"})
        api.get("/healthz", headers={"Host": "10.1.2.3"})


def test_changes_are_in_the_audit(api: Api) -> None:
    """Who, what, before and after, for every change; looking and what failed leave no trace."""
    operator, admin = api.token("operate"), api.token("admin")
    api.post("/workflows/b/pause", Authorization=operator["Authorization"])
    api.post("/workflows/b/resume")
    api.post("/workflows/nobody/pause", expect=404)
    api.post("/assets/a/produced", {"dataVersion": "9"}, expect=202)
    api.post("/assets/b/expire", expect=202)
    run = api.post("/workflows/c/run", expect=202, Idempotency_Key="k")
    api.post("/workflows/c/run", expect=202, Idempotency_Key="k")
    api.post(f"/runs/{run['id']}/cancel", expect=202)
    api.post("/workflows/b/reset")
    found = api.get("/audit", headers=admin)["items"][::-1]
    shown = [(one["who"], one["what"], one["subject"]) for one in found]
    assert shown == [
        ("token:operate", "pause", "b"),
        ("loopback", "resume", "b"),
        ("loopback", "report", "a"),
        ("loopback", "expire", "b"),
        ("loopback", "request_run", "c"),
        ("loopback", "cancel", run["id"]),
        ("loopback", "reset", "b"),
    ]
    pause, _, report, _, asked, cancel, _ = found
    assert (pause["before"]["pausedAt"], pause["after"]["pausedAt"] is not None) == (None, True)
    assert (report["before"]["dataVersion"], report["after"]["dataVersion"]) == ("1", "9")
    assert (asked["before"], asked["after"]["status"]) == (None, "queued")
    assert (cancel["before"]["status"], cancel["after"]["status"]) == ("queued", "canceled")


def test_no_secret_is_told_anywhere(
    lab: Lab, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A canary as a token, in the database's password and in wrong places comes back in no answer and no log."""
    canary = "canary-4711"
    lab.store.tokens.create("x", "read", hashlib.sha256(canary.encode()).digest(), lifetime_ms=1000)
    headers = {"Authorization": f"Bearer {canary}"}
    seen: list[str] = []
    with caplog.at_level(logging.DEBUG), serving(lab, auth="token") as api:
        paths = names(api)
        described = operations(document())
        lab.database.url += f" password={canary}"
        for sent in (headers, {"Authorization": f"Bearer {canary}x"}, {"Authorization": canary}):
            for one in described:
                answer = api.client.request(one.method, api.server.url + one.url(paths), headers={**JSON, **sent})
                seen.append(answer.text + str(answer.headers))
        for wrong in ({"secret": canary}, {"url": f"https://x:{canary}@hooks.example"}, {"url": f"https://{canary}\n"}):
            sent = {"url": "https://hooks.example/", **wrong}
            seen.append(api.client.post("/webhooks", json=sent, headers=api.token("admin")).text)
            lab.store.tokens.revoke("admin")
        lab.database.close()
        seen.append(api.client.get("/runs", headers=headers).text)
        seen.append(api.client.get("/readyz").text)
    out, err = capfd.readouterr()
    assert len(seen) > 70
    assert canary not in "".join([*seen, out, err, caplog.text])
