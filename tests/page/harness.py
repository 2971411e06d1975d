"""A real browser on the page, and what must never happen in it: errors, other origins, violations of the policy.

Waits are Playwright's: `expect` and `wait_for` return as soon as it is true.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Request, expect, sync_playwright

from scripts import chromium
from tests.page.scene import MARKUP

ROOT = Path(__file__).parents[2]
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WIDE = {"width": 1280, "height": 800}
MIDDLE = {"width": 768, "height": 1024}
PHONE = {"width": 390, "height": 844}
DARK_PHONE = {"viewport": PHONE, "color_scheme": "dark"}
PATIENCE_MS = 15_000  # of one expectation, on a machine that also runs other tests
REPORT_VIOLATIONS = """
addEventListener('securitypolicyviolation', (one) => {
  console.error(`policy: ${one.violatedDirective} ${one.blockedURI}`)
})
"""
FIND_TROUBLE = """
axe.run(document, {resultTypes: ['violations'], preload: false}).then((found) => found.violations
  .filter((one) => ['serious', 'critical'].includes(one.impact))
  .map((one) => `${one.id}: ${one.nodes.slice(0, 4).map((node) => node.html.slice(0, 160)).join(' | ')}`))
"""
STANDING = "() => document.fonts.ready.then(() => document.getAnimations().length === 0)"
# What a token that is missing or wrong, or a server that is away, makes a browser write.
REFUSED = r"status of 40[13]"
AWAY = r"ERR_(CONNECTION|EMPTY|INCOMPLETE|NETWORK|SOCKET)"


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a Chromium. One for each file: while it runs, nothing else in this thread can use asyncio."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium.find(), args=FLAGS)
        yield started
        started.close()


class Screen:
    """A tab on the page of one server. `troubles`: what happened in it and must not."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url.rstrip("/")
        self.troubles: list[str] = []
        self._allowed: list[str] = []
        page.add_init_script(REPORT_VIOLATIONS)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.troubles.append(f"an error was thrown: {error}"))
        page.on("request", self._requested)
        page.set_default_timeout(PATIENCE_MS)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.troubles.append(f"{message.type} in the console: {message.text}")

    def _requested(self, request: Request) -> None:
        origin = re.match(r"\w+://[^/]+", self.url)
        assert origin is not None
        if not request.url.startswith((f"{origin[0]}/", "data:", "blob:")):
            self.troubles.append(f"a request to another origin: {request.url}")

    def allow(self, pattern: str) -> None:
        """Let what matches happen: a test refuses something on purpose."""
        self._allowed.append(pattern)

    def check(self) -> None:
        """Fail if something happened that must not, or if a hostile text was executed."""
        found = [one for one in self.troubles if not any(re.search(allowed, one) for allowed in self._allowed)]
        assert found == []
        assert self.page.evaluate("window.__hacked") is None

    def open(self, view: str = "") -> None:
        """Load the page at a view: `assets/flights.clean?tab=rows`."""
        self.page.goto(f"{self.url}/#/{view}")

    def go(self, view: str) -> None:
        """Go to a view without loading the page again, as a link does."""
        self.page.evaluate("(hash) => { location.hash = hash }", f"#/{view}")

    @property
    def view(self) -> str:
        """Return what the address says after `#/`."""
        return self.page.url.partition("#/")[2]

    def find(self, text: str | re.Pattern[str]) -> Locator:
        """Return the first place with a text that can be seen."""
        return self.page.get_by_text(text).locator("visible=true").first

    def sees(self, *texts: str | re.Pattern[str]) -> None:
        """Wait until each text is on the screen."""
        for text in texts:
            expect(self.find(text)).to_be_visible()

    def heading(self, text: str | re.Pattern[str]) -> None:
        """Wait for the main heading."""
        expect(self.page.get_by_role("heading", level=1)).to_contain_text(text)

    def button(self, name: str | re.Pattern[str]) -> Locator:
        """Return the button with a name, as a screen reader says it."""
        return self.page.get_by_role("button", name=name)

    def link(self, name: str | re.Pattern[str]) -> Locator:
        """Return the first link with a name."""
        return self.page.get_by_role("link", name=name).first

    def live(self) -> None:
        """Wait until events arrive."""
        expect(self.page.locator(".connection")).to_contain_text("Live")

    def loaded(self) -> None:
        """Wait until nothing is a placeholder."""
        expect(self.page.locator(".skeleton, .starting")).to_have_count(0)

    def settled(self) -> None:
        """Wait until a view shows its data and nothing moves."""
        self.loaded()
        self.page.wait_for_function(STANDING)

    def text(self) -> str:
        """Return the text of the whole page."""
        return self.page.locator("body").inner_text()

    def accessibility(self) -> list[str]:
        """Return what axe finds that is serious or critical, once nothing moves."""
        self.page.wait_for_function(STANDING)
        self.page.evaluate(_axe())
        found: list[str] = self.page.evaluate(FIND_TROUBLE)
        return found

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def shows_markup(screen: Screen, within: Locator | None = None) -> None:
    """Check that the markup of a hostile text is on the screen as text, and that there is no element of it."""
    place = within or screen.page.locator("body")
    expect(place).to_contain_text(MARKUP)
    expect(screen.page.locator("img, script:not([src])")).to_have_count(0)


class Browsing:
    """A browser for the tests of one file; each test has contexts of its own, which share no cookies."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._screens: list[Screen] = []

    def context(self, **options: Any) -> BrowserContext:
        """Return a new context, in light and 1280 pixels wide unless told."""
        made = self._browser.new_context(
            **{"viewport": WIDE, "color_scheme": "light", "reduced_motion": "reduce", **options}
        )
        self._contexts.append(made)
        return made

    def screen(self, url: str, context: BrowserContext | None = None, **options: Any) -> Screen:
        """Return a new tab for the page of a server."""
        screen = Screen((context or self.context(**options)).new_page(), url)
        self._screens.append(screen)
        return screen

    def close(self) -> None:
        """Close all tabs; fail if something happened that must not."""
        try:
            for screen in self._screens:
                if not screen.page.is_closed():
                    screen.check()
        finally:
            for context in self._contexts:
                context.close()


@cache
def _axe() -> str:
    return (ROOT / "page" / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
