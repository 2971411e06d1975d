"""Every view in a real browser: what it shows, its address, its command, what a screen reader finds, hostile texts."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Route, expect

from tests.page.conftest import Site
from tests.page.harness import DARK_PHONE, PHONE, Browsing, Screen, shows_markup
from tests.page.scene import MARKUP
from tests.page.views import VIEWS, View
from tests.waiting import wait_until

MOST_CLICKS = 3
MOST_SCRIPT = 200_000  # bytes of all scripts, compressed


LOOKS = {"dark": {"color_scheme": "dark"}, "phone": {"viewport": PHONE}, "dark phone": DARK_PHONE}
NAMES = [one.address or "overview" for one in VIEWS]


@pytest.fixture(scope="module")
def tour(site: Site, chromium: Browser) -> Iterator[Screen]:
    """Yield one tab for the tests that go from view to view."""
    browsing = Browsing(chromium)
    screen = site.screen(browsing)
    screen.open()
    screen.live()
    yield screen
    browsing.close()


def shows(screen: Screen, view: View, *, narrow: bool = False) -> None:
    """Wait for the heading of a view, its facts and its command. A narrow window may fold some of them away."""
    screen.heading(view.heading)
    command = screen.page.locator(".cli code").filter(has_text=view.command).first
    if narrow:
        for fact in view.facts:
            expect(screen.page.get_by_text(fact).first).to_be_attached()
        expect(command).to_be_attached()
        return
    screen.sees(*view.facts)
    expect(command).to_be_visible()


@pytest.mark.parametrize("view", VIEWS, ids=NAMES)
def test_a_view_shows_its_data_and_command_and_is_the_same_after_a_reload(tour: Screen, site: Site, view: View) -> None:
    """What is asked for is in the address alone, and axe finds nothing serious."""
    address = site.scene.address(view.address)
    tour.go(address)
    shows(tour, view)
    tour.loaded()
    assert tour.accessibility() == []
    before = tour.view
    tour.page.reload()
    shows(tour, view)
    assert tour.view == before
    tour.check()


CHARTS = {
    "assets/flights.clean?tab=versions": {
        "Rows": "2 versions, all 3 rows",
        "Size": "2 versions, all 2.0 KB",
        "Run time": "2 succeeded, all 1m",
    },
    "workflows/orders-clean": {"Run time": "1 failed, 1m"},
}


@pytest.mark.parametrize("address", CHARTS)
def test_a_chart_is_drawn_and_says_its_values(tour: Screen, address: str) -> None:
    """A canvas with a size, its values as text, and above each chart of a view the value under the cursor."""
    tour.go(address)
    for label, values in CHARTS[address].items():
        picture = tour.page.get_by_role("img", name=f"{label}: {values}", exact=True)
        canvas = picture.locator("canvas")
        expect(canvas).to_be_visible()
        assert canvas.evaluate("one => one.width > 200 && one.height > 50")
        drawn = "one => one.getContext('2d').getImageData(0, 0, one.width, one.height).data.some((byte) => byte > 0)"
        assert canvas.evaluate(drawn)
    heads = tour.page.locator(".chart-head")
    expect(heads).to_contain_text(["last"] * len(CHARTS[address]))
    tour.page.locator(".u-over").first.hover()
    expect(heads).to_contain_text(["at "] * len(CHARTS[address]))
    tour.page.mouse.move(0, 0)
    expect(heads).to_contain_text(["last"] * len(CHARTS[address]))
    tour.check()


SIMULATION = "plan?tab=simulate&workflow=flights-report&since=24h&flights-report.minInterval=3h&play=1"
PIXELS = """(canvas, name) => {
  const probe = document.createElement('canvas').getContext('2d')
  probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`)
  probe.fillRect(0, 0, 1, 1)
  const wanted = probe.getImageData(0, 0, 1, 1).data
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
  let found = 0
  for (let at = 0; at < data.length; at += 4) {
    if ([0, 1, 2].every((part) => data[at + part] === wanted[part]) && data[at + 3] === 255) found += 1
  }
  return found
}"""


def test_a_simulation_is_drawn_over_time_with_both_policies(tour: Screen) -> None:
    """Runs, their time and the lag: a line for each policy, and both values under the cursor."""
    tour.go(SIMULATION)
    tour.sees("Over time")
    for label in ("Runs", "Time of runs", "Lag, median", "Lag, p95"):
        name = re.compile(f"^{label}: .+ as applied, .+; .+ with the change, ")
        canvas = tour.page.get_by_role("img", name=name).locator("canvas")
        expect(canvas).to_be_visible()
        assert canvas.evaluate(PIXELS, "accent") > 10  # also the lag, of two single intervals
    head = tour.page.locator(".chart-head").first
    expect(head).to_contain_text(re.compile("runs? as applied and .+ with the change"))
    tour.page.locator(".u-over").first.hover()
    expect(tour.page.locator(".chart-head")).to_contain_text(["from ", "from "])
    tour.page.mouse.move(0, 0)
    tour.check()


def test_a_simulation_is_asked_by_its_address_and_not_by_editing_a_field(site: Site, browsing: Browsing) -> None:
    """A link asks, also on the same view; an edited question keeps the last answer, and says so until it is asked."""
    screen = site.screen(browsing)
    screen.open("plan?tab=simulate&since=24h")
    screen.sees("What a simulation says")
    screen.go(SIMULATION)
    screen.sees("With the change:", re.compile(", 4 slots"))
    slots = screen.page.get_by_label("Slots")
    slots.fill("2")
    slots.blur()
    screen.sees("The question has changed since this answer.", re.compile(", 4 slots"))
    assert "play=" not in screen.view
    screen.button("Replay").first.click()
    screen.sees(re.compile(", 2 slots"))
    expect(screen.page.get_by_text("The question has changed")).to_have_count(0)
    assert "play=1" in screen.view


def test_the_list_of_backfills_does_not_move_when_proposals_arrive(site: Site, browsing: Browsing) -> None:
    """They are above it, so it is shown when they are known."""
    screen = site.screen(browsing)
    held: list[Route] = []

    def hold(request: Route) -> None:
        held.append(request)

    screen.page.route(re.compile(r"/backfills\?.*status=proposed"), hold)
    with screen.page.expect_response(re.compile(r"/backfills\?(?!.*status=)")):
        screen.open("backfills")
    expect(screen.page.locator(".skeleton")).to_be_visible()
    expect(screen.page.get_by_role("heading", name="Requests")).to_have_count(0)
    wait_until(lambda: screen.page.evaluate("true") and held)  # a call lets the browser tell of requests
    held.pop(0).continue_()
    screen.sees("1 proposal waits for an answer", "Requests", "6 partitions, if it is approved")
    for one in held:
        one.continue_()
    screen.page.unroute_all(behavior="ignoreErrors")


def test_a_view_without_figures_has_no_chart_and_loads_none(site: Site, browsing: Browsing) -> None:
    """The library comes with the first chart; a source has versions, but no rows that anybody counted."""
    screen = site.screen(browsing)
    loaded: list[str] = []
    screen.page.on("request", lambda request: loaded.append(request.url))
    screen.open("assets/flights.raw?tab=versions")
    screen.sees("Over time")
    screen.settled()
    expect(screen.page.locator("canvas")).to_have_count(0)
    assert [one for one in loaded if "chart-plot" in one] == []


def test_the_scripts_are_small(page_files: Path) -> None:
    """All of them together, as they are sent."""
    sizes = [len(gzip.compress(one.read_bytes())) for one in page_files.rglob("*.js")]
    assert sizes
    assert sum(sizes) <= MOST_SCRIPT


@pytest.mark.full
@pytest.mark.parametrize("view", VIEWS, ids=NAMES)
@pytest.mark.parametrize(
    "options", [{"color_scheme": "dark"}, {"viewport": PHONE}, DARK_PHONE], ids=["dark", "phone", "dark phone"]
)
def test_a_view_can_be_read_in_the_dark_and_on_a_phone(
    site: Site, browsing: Browsing, view: View, options: dict[str, Any]
) -> None:
    """Contrasts hold, and nothing is wider than the screen."""
    screen = site.screen(browsing, **options)
    screen.open(site.scene.address(view.address))
    shows(screen, view, narrow="viewport" in options)
    screen.loaded()
    assert screen.accessibility() == []
    assert screen.overflow() <= 0


class Walk:
    """Clicks from the first page, which are counted."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.clicks = 0
        screen.open()
        screen.heading("5 of 13 fresh")

    def cause(self, sentence: str) -> Locator:
        """Return what the first page says about one cause."""
        return self.screen.page.locator("li.cause").filter(has=self.screen.page.get_by_role("heading", name=sentence))

    def click(self, what: Locator) -> None:
        """Click once more; three times are enough for everything."""
        self.clicks += 1
        assert self.clicks <= MOST_CLICKS
        what.click()


def test_what_is_not_fresh_is_one_click_away(site: Site, browsing: Browsing) -> None:
    """The first page names the causes and numbers; a number leads to its assets."""
    screen = site.screen(browsing)
    walk = Walk(screen)
    expect(walk.cause("orders-clean fails")).to_contain_text("orders.clean, orders.daily, orders.report")
    walk.click(screen.link("2 failing"))
    screen.heading("Assets")
    expect(screen.link("orders.clean")).to_be_visible()
    assert screen.view == "assets?state=failing"


@pytest.mark.parametrize("asset", ["orders.clean", "orders.report"])
def test_why_an_asset_is_not_fresh_is_two_clicks_away(site: Site, browsing: Browsing, asset: str) -> None:
    """Also of one that has not failed itself: the answer names the run that did, and its error."""
    screen = site.screen(browsing)
    walk = Walk(screen)
    walk.click(walk.cause("orders-clean fails").get_by_role("link", name=asset, exact=True))
    screen.heading(asset)
    walk.click(screen.link("Why?"))
    screen.heading(asset)
    assert screen.view.startswith(f"why/{asset}")
    screen.sees("Where it begins", re.compile("of orders-clean failed: ValueError: no column"))


def test_since_when_is_on_the_first_page(site: Site, browsing: Browsing) -> None:
    """A pause and a failure with their ages; a click leads to the time of the failure in full."""
    screen = site.screen(browsing)
    walk = Walk(screen)
    for cause in ("orders-clean fails", "planes is paused"):
        expect(walk.cause(cause).locator("time").first).to_have_attribute("datetime", re.compile("2026-01-05T"))
    walk.click(walk.cause("orders-clean fails").get_by_title(re.compile("^run ")))
    screen.heading("orders-clean")
    expect(screen.page.locator("time").first).to_have_attribute("title", re.compile(r"2026-01-05 \d\d:\d\d:\d\d"))


def test_what_happens_next_is_two_clicks_away(site: Site, browsing: Browsing) -> None:
    """When it is tried again is on the first page; its workflow says when, and the plan what a change would cause."""
    screen = site.screen(browsing)
    walk = Walk(screen)
    expect(walk.cause("orders-clean fails")).to_contain_text("until")
    walk.click(walk.cause("stock.raw was never reported").get_by_role("link", name="stock.raw", exact=True))
    screen.heading("stock.raw")
    walk.click(screen.link("What would run?"))
    screen.sees("What would run, in order", "stock-level")


def test_what_to_do_is_one_click_away(site: Site, browsing: Browsing) -> None:
    """Each cause has a sentence, a command and a button; the button says what will happen before it happens."""
    screen = site.screen(browsing)
    walk = Walk(screen)
    for cause, command, verb in (
        ("orders-clean fails", "freshline reset orders-clean", "Reset"),
        ("stock.raw was never reported", "freshline report stock.raw", "Report"),
        ("planes is paused", "freshline resume planes", "Resume"),
    ):
        expect(walk.cause(cause).locator("code")).to_have_text(command)
        expect(walk.cause(cause).get_by_role("button", name=re.compile(verb))).to_be_enabled()
    expect(
        walk.cause("a backfill of web.daily waits for an approval").get_by_role("link", name=re.compile("Review"))
    ).to_be_visible()
    walk.click(walk.cause("planes is paused").get_by_role("button", name=re.compile("^Resume")))
    dialog = screen.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Automatic runs of planes start again")
    expect(dialog).to_contain_text("freshline resume planes")
    screen.button("Do nothing").click()
    expect(dialog).to_have_count(0)
    assert site.scene.lab.one("SELECT count(*) FROM audit WHERE what = 'resume'") == 0


HOSTILE_VIEWS = (
    "",
    "runs",
    "runs/{failed}",
    "runs/{succeeded}?find=WARN",
    "assets/flights.clean?tab=checks",
    "assets/flights.clean?tab=rows",
    "workflows/flights-clean",
    "why/orders.report",
    "events?type=workflow.run.failed",
    "events/{event}",
    "workers",
    "sources?watch=failing",
    "sources?source=landing.files",
)
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("template", HOSTILE_VIEWS)
def test_what_users_wrote_is_text(tour: Screen, site: Site, template: str) -> None:
    """Markup is shown letter by letter, control characters and direction marks as signs, and nothing is executed."""
    tour.go(site.scene.address(template))
    tour.loaded()
    shows_markup(tour)
    assert CONTROLS.findall(tour.text()) == []
    tour.check()


ADDRESSES = {
    f"assets/{quote(MARKUP, safe='')}": "There is no asset",
    f"why/{quote(MARKUP, safe='')}": "There is no asset or workflow",
    f"runs?workflow={quote(MARKUP)}": "does not exist",
    "assets/%zz": "There is no asset",
    "assets/__proto__": "There is no asset",
    "runs/__proto__": "is not a run id",
    "constructor": "Not found",
    "x/y/z": "Not found",
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_not_trusted(site: Site, browsing: Browsing, address: str) -> None:
    """A link from somebody is text too, and leads to a page that says what is wrong."""
    screen = site.screen(browsing)
    screen.allow("status of 4")
    screen.open(address)
    screen.loaded()
    expect(screen.page.get_by_role("heading", level=1)).to_be_visible()
    screen.sees(re.compile(ADDRESSES[address]))
    expect(screen.page.locator("img, script:not([src])")).to_have_count(0)


def test_a_copied_command_is_one_line(site: Site, browsing: Browsing) -> None:
    """A name with a line break and quotes cannot end the command that somebody pastes into a shell."""
    screen = site.screen(browsing)
    screen.allow("status of 4")  # there is no such workflow
    screen.open("runs?workflow=" + quote("x'; rm -rf /\nreboot"))
    expect(screen.page.locator(".cli code").first).to_have_text(
        "freshline runs --workflow 'x'\\''; rm -rf /\u240areboot'"
    )
