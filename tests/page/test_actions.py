"""What operators do from the page, each after a question that says what will happen, and the keyboard."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from playwright.sync_api import expect

from tests.api.conftest import Api
from tests.page.conftest import Site
from tests.page.harness import Browsing
from tests.store_harness import workflow
from tests.waiting import wait_until

pytestmark = pytest.mark.full
MANY = 1_280


class Action(NamedTuple):
    """An action: where its button is, what is asked, the command that is shown, and what the audit has afterwards."""

    view: str
    button: str
    asked: str
    command: str
    verb: str
    change: tuple[str, str]


ASSET, RUN, FAILED = "assets/flights.clean", "runs/{queued}", "runs/{failed}"
PROPOSAL, BACKFILL = "backfills/{proposal}", "backfills/{backfill}"
ACTIONS = (
    Action("assets/stock.raw", "Report…", "A new version", "report stock.raw", "Report", ("report", "stock.raw")),
    Action(ASSET, "Run…", "A run is queued", "run flights-clean", "Run", ("request_run", "flights-clean")),
    Action(ASSET, "Expire…", "expired", "expire flights.clean", "Expire", ("expire", "flights.clean")),
    Action(ASSET, "Pause…", "No automatic run", "pause flights-clean --until", "Pause", ("pause", "flights-clean")),
    Action("assets/planes.known", "Resume…", "The pause ends", "resume planes", "Resume", ("resume", "planes")),
    Action("assets/orders.clean", "Reset…", "cooldown ends", "reset orders-clean", "Reset", ("reset", "orders-clean")),
    Action(RUN, "Cancel", "It is queued and ends at once", "cancel", "Cancel the run", ("cancel", "{queued}")),
    Action(FAILED, "Run again", "current versions", "run orders-clean", "Run it", ("request_run", "orders-clean")),
    Action(PROPOSAL, "Approve…", "6 partitions", "backfill approve", "Approve", ("approve_backfill", "web.daily")),
    Action(PROPOSAL, "Deny…", "", "backfill deny", "Deny", ("deny_backfill", "web.daily")),
    Action(BACKFILL, "Pause…", "", "backfill pause", "Pause", ("pause_backfill", "sales.daily")),
    Action(BACKFILL, "Cancel…", "", "backfill cancel", "Cancel the backfill", ("cancel_backfill", "sales.daily")),
)


def audited(site: Site) -> list[tuple[str, str, str]]:
    """Return who changed what by the page, oldest first; what the scene did itself is left out."""
    rows = site.scene.lab.rows("SELECT who, what, subject FROM audit WHERE who = 'token:operator' ORDER BY id")
    return [(row["who"], row["what"], row["subject"]) for row in rows]


@pytest.mark.parametrize("action", ACTIONS, ids=lambda one: f"{one.verb} {one.view}")
def test_an_action_is_asked_for_and_does_what_the_command_does(own: Site, browsing: Browsing, action: Action) -> None:
    """Nothing happens before yes; then it is in the store, and the audit says who did it."""
    screen = own.screen(browsing, "operator")
    screen.open(own.scene.address(action.view))
    screen.loaded()
    screen.button(action.button).first.click()
    dialog = screen.page.get_by_role("dialog")
    expect(dialog).to_contain_text(action.asked)
    expect(dialog.locator("code").last).to_contain_text(f"freshline {action.command}")
    assert screen.accessibility() == []
    screen.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert audited(own) == []
    screen.button(action.button).first.click()
    dialog.get_by_role("button", name=action.verb, exact=True).click()
    expect(dialog).to_have_count(0)
    what, subject = action.change
    expected = ("token:operator", what, own.scene.address(subject))
    assert wait_until(lambda: audited(own)) == [expected]


def test_a_refused_action_says_why_in_its_question(own: Site, browsing: Browsing) -> None:
    """Somebody else was faster: the question stays, with the reason."""
    screen = own.screen(browsing, "operator")
    screen.allow("status of 4")
    screen.open(own.scene.address("backfills/{proposal}"))
    screen.button("Approve…").first.click()
    own.scene.lab.store.backfills.deny(own.scene.proposal, revision=1)
    dialog = screen.page.get_by_role("dialog")
    dialog.get_by_role("button", name="Approve", exact=True).click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    expect(dialog).to_have_count(1)


def test_keys_search_help_and_move(site: Site, browsing: Browsing) -> None:
    """`/` searches, arrows choose, Enter opens, Escape closes, `?` helps, and `g` with a letter goes to a page."""
    screen = site.screen(browsing)
    keys = screen.page.keyboard
    screen.open()
    screen.heading("5 of 13 fresh")
    keys.press("/")
    field = screen.page.get_by_role("combobox", name=re.compile("Search"))
    expect(field).to_be_focused()
    keys.type("orders")
    options = screen.page.get_by_role("option")
    expect(options.first).to_contain_text("orders")
    assert screen.accessibility() == []
    keys.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    chosen = options.nth(1).locator(".palette-label").inner_text()
    keys.press("Enter")
    screen.heading(chosen)
    expect(screen.page.get_by_role("heading", level=1)).to_be_focused()
    keys.press("?")
    expect(screen.page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    assert screen.accessibility() == []
    keys.press("Escape")
    expect(screen.page.get_by_role("dialog")).to_have_count(0)
    keys.press("g")
    keys.press("r")
    screen.heading("Runs")
    screen.page.get_by_role("searchbox", name="Workflow").focus()
    keys.type("/?")
    expect(screen.page.get_by_role("dialog")).to_have_count(0)


def test_arrows_move_in_the_graph(site: Site, browsing: Browsing) -> None:
    """From asset to asset along the edges; Enter opens the one that is selected."""
    screen = site.screen(browsing)
    screen.open("graph?show=all")
    screen.loaded()
    graph = screen.page.get_by_role("application")
    graph.focus()
    screen.page.keyboard.press("ArrowRight")
    wait_until(lambda: "focus=" in screen.view, what="a selection in the address")
    screen.page.keyboard.press("Enter")
    wait_until(lambda: screen.view.startswith("assets/"), what="the selected asset")
    expect(screen.page.get_by_role("heading", level=1)).to_be_visible()


def test_many_assets_are_listed_and_searched(chain: Api, browsing: Browsing) -> None:
    """1,280 of them: few rows exist at a time, the last one is reached by scrolling, and the search finds any."""
    many = [workflow(f"w{number}", "a", outputs=[f"many.n{number:04}"]) for number in range(MANY)]
    chain.lab.apply(*many, name="many")
    screen = browsing.screen(chain.server.url)
    screen.open("assets")
    screen.sees(re.compile("1,28[0-9] assets"))
    rows = screen.page.locator(".asset-row")
    assert rows.count() < 200
    screen.page.keyboard.press("End")
    screen.page.evaluate("document.scrollingElement.scrollTo(0, document.scrollingElement.scrollHeight)")
    expect(screen.link(f"many.n{MANY - 1:04}")).to_be_visible()
    screen.page.keyboard.press("/")
    screen.page.keyboard.type("many.n0777")
    found = screen.page.get_by_role("listbox", name="Found")
    expect(found.get_by_role("option").first).to_contain_text("many.n0777")
    screen.page.keyboard.press("Enter")
    screen.heading("many.n0777")
