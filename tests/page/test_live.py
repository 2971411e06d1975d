"""The page while something happens: a wave, a server that goes away, logging in and out, other sites."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from freshline.api.server import Server
from tests.api.conftest import Api
from tests.page.conftest import Site
from tests.page.harness import AWAY, REFUSED, Browsing, Screen
from tests.page.proxy import other_site, under_prefix
from tests.page.scene import number, secret
from tests.store_harness import Lab

SOON_MS = 30_000  # the page tries again after up to 10 s


def row(screen: Screen, asset: str) -> Locator:
    """Return the state of an asset in the list of assets."""
    rows = screen.page.get_by_role("row")
    return rows.filter(has=screen.page.get_by_role("link", name=asset, exact=True)).locator(".state-name").first


def settle(lab: Lab) -> None:
    """Let everything that is due be decided, and told to the streams."""
    lab.settle()
    number(lab)


def mark(screen: Screen) -> None:
    """Leave a mark in the document, which a reload would remove."""
    screen.page.evaluate("window.__same = true")


def is_marked(screen: Screen) -> bool:
    """Return whether it is the same document."""
    return screen.page.evaluate("window.__same") is True


def test_a_report_is_seen_as_a_wave(chain: Api, browsing: Browsing) -> None:
    """Each asset waits, runs and is fresh again while somebody looks, without a reload; so does the first page."""
    screen = browsing.screen(chain.server.url)
    screen.open("assets")
    screen.live()
    mark(screen)
    for asset in "bc":
        expect(row(screen, asset)).to_have_text("fresh")
    chain.lab.report("a", "2")
    settle(chain.lab)
    expect(row(screen, "b")).to_have_text("waiting")
    for asset in "bc":
        run = chain.lab.start_of(asset)
        number(chain.lab)
        expect(row(screen, asset)).to_have_text("running")
        chain.lab.finish(run)
        settle(chain.lab)
        expect(row(screen, asset)).to_have_text("fresh")
    screen.go("")
    screen.heading("2 of 2 fresh")
    chain.lab.report("a", "3")
    settle(chain.lab)
    screen.heading("1 of 2 fresh")
    assert is_marked(screen)


def test_a_server_that_comes_back_is_noticed_without_a_reload_and_without_a_gap(
    chain: Api, browsing: Browsing, page_files: Path
) -> None:
    """That it is away is said. What happened meanwhile is shown, every event once."""
    screen = browsing.screen(chain.server.url)
    screen.allow(AWAY)
    screen.open("events")
    screen.live()
    mark(screen)
    screen.sees("workflow.run.succeeded")
    host, port = chain.server.address
    chain.server.stop()
    expect(screen.page.locator(".connection")).to_contain_text("Lost")
    screen.sees("Lost the connection; trying again")
    for version in range(20):
        chain.lab.report("a", f"away {version}")
    settle(chain.lab)
    again = Server(chain.lab.store, host=host, port=port, page_files=page_files)
    again.start()
    try:
        expect(screen.page.locator(".connection")).to_contain_text("Live", timeout=SOON_MS)
        screen.button(re.compile("new.*show")).click()
        wanted = [str(one["position"]) for one in chain.lab.rows("SELECT position FROM events ORDER BY position DESC")]
        positions = screen.page.locator("tbody td:first-child a")
        expect(positions).to_have_text(wanted)
        expect(screen.page.get_by_text("Lost the connection")).to_have_count(0)
        assert is_marked(screen)
    finally:
        screen.page.close()
        again.stop()


def log_in(screen: Screen, token: str) -> None:
    """Fill in the form and send it."""
    screen.heading("Log in")
    screen.page.get_by_label("Token").fill(token)
    screen.button("Log in").click()


def test_a_token_becomes_a_cookie_that_no_script_can_read(guarded: Site, browsing: Browsing) -> None:
    """A wrong one is explained. The token is not kept in the page; logging out removes the cookie."""
    screen = browsing.screen(guarded.url)
    screen.allow(REFUSED)
    screen.open("runs?state=failed")
    log_in(screen, "freshline_wrong")
    expect(screen.page.get_by_role("alert").filter(has_text="token")).to_be_visible()
    assert screen.accessibility() == []
    log_in(screen, secret("operator"))
    screen.heading("Runs")
    screen.sees("orders-clean")
    assert screen.view == "runs?state=failed"
    [cookie] = screen.page.context.cookies()
    assert (cookie["name"], cookie["value"]) == ("freshline_token", secret("operator"))
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    kept = screen.page.evaluate("document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)")
    assert "freshline_" not in kept
    screen.page.reload()
    screen.heading("Runs")
    screen.live()
    screen.button(re.compile("^You: operator")).click()
    screen.button("Log out").click()
    screen.heading("Log in")
    assert screen.page.context.cookies() == []


@pytest.mark.parametrize(("name", "allowed"), [("reader", False), ("operator", True)])
def test_who_may_only_read_is_offered_no_action(guarded: Site, browsing: Browsing, name: str, allowed: bool) -> None:
    """Buttons that would be refused are absent or cannot be pressed."""
    screen = guarded.screen(browsing, name)
    screen.open()
    screen.heading("5 of 13 fresh")
    for button in screen.page.locator(".cause-action button").all():
        assert button.is_enabled() is allowed
    for view, verb in (("assets/planes.known", "Run…"), ("workflows/planes", "Resume…"), ("runs/{queued}", "Cancel")):
        screen.go(guarded.scene.address(view))
        screen.heading(re.compile("planes|by-hand"))
        screen.loaded()
        expect(screen.button(verb)).to_have_count(1 if allowed else 0)


@pytest.mark.parametrize(("name", "allowed"), [("operator", False), ("analyst", True)])
def test_rows_need_the_scope_data(guarded: Site, browsing: Browsing, name: str, allowed: bool) -> None:
    """Without it the page does not ask for them, and says which token would do."""
    screen = guarded.screen(browsing, name)
    asked: list[str] = []
    screen.page.on("request", lambda request: asked.append(request.url))
    screen.open("assets/flights.clean?tab=rows")
    screen.sees("All 3 rows of version 2" if allowed else "freshline token create NAME --data")
    assert any("/rows" in one for one in asked) is allowed


def test_the_page_works_under_a_prefix_behind_a_proxy(guarded: Site, browsing: Browsing) -> None:
    """Everything that it asks for is below the prefix: files, data, the stream, logging in."""
    with under_prefix(guarded.url, "tools/freshline") as url:
        screen = browsing.screen(url)
        screen.allow(REFUSED)
        asked: list[str] = []
        screen.page.on("request", lambda request: asked.append(request.url))
        screen.open("assets/flights.clean")
        log_in(screen, secret("operator"))
        screen.heading("flights.clean")
        screen.live()
        screen.link("Versions").click()
        screen.sees("Over time")
        screen.page.reload()
        screen.sees("Over time")
        assert [one for one in asked if not one.startswith(f"{url}/")] == []
        screen.page.close()


TRIES = """
async (url) => {
  const target = `${url}/api/v1/workflows/flights-clean/pause`
  const read = `${url}/api/v1/status`
  const tries = [
    [target, {method: 'POST', credentials: 'include', mode: 'no-cors', body: '{}'}],
    [target, {method: 'POST', credentials: 'include', headers: {'Content-Type': 'application/json'}, body: '{}'}],
    [target, {method: 'POST', credentials: 'include', headers: {'Freshline-Request': 'page'}, body: '{}'}],
    [read, {credentials: 'include'}],
  ]
  const answers = []
  for (const [to, how] of tries) {
    answers.push(await fetch(to, how).then((one) => one.type === 'opaque' ? 'opaque' : 'read', () => 'refused'))
  }
  return answers
}
"""
FORM = """
(url) => {
  const form = document.createElement('form')
  form.method = 'post'
  form.enctype = 'text/plain'
  form.action = `${url}/api/v1/workflows/flights-clean/pause`
  form.innerHTML = '<input name="{" value="}">'
  document.body.append(form)
  form.submit()
}
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_of_another_origin_cannot_act(guarded: Site, browsing: Browsing, host: str) -> None:
    """Of the same site too, where the browser sends the cookie: no request with it changes or reads anything."""
    screen = guarded.screen(browsing, "chief")
    screen.open()
    screen.heading("5 of 13 fresh")
    with other_site() as port:
        other: Page = screen.page.context.new_page()
        other.goto(f"http://{host}:{port}/")
        assert other.evaluate(TRIES, guarded.url) == ["opaque", "refused", "refused", "refused"]
        with other.expect_navigation():
            other.evaluate(FORM, guarded.url)
        expect(other.locator("body")).to_contain_text(re.compile("page-header-needed|origin-not-allowed|token-needed"))
        other.goto(f"http://{host}:{port}/")
        other.evaluate(
            "(url) => document.body.append(Object.assign(document.createElement('iframe'), {src: url}))", guarded.url
        )
        other.wait_for_function("frames.length === 1")
        other.close()
    assert guarded.scene.lab.one("SELECT count(*) FROM audit WHERE what = 'pause' AND subject = 'flights-clean'") == 0
