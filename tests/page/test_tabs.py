"""Several tabs of one browser: they share one event stream, and none of them misses an event."""

from __future__ import annotations

from functools import partial

import pytest
from playwright.sync_api import Request

from tests.api.conftest import Api
from tests.page.harness import Browsing, Screen
from tests.page.scene import number
from tests.waiting import wait_until

TABS = 8
pytestmark = pytest.mark.full


class Tabs:
    """Eight tabs that show the source a, and which of them asked for a stream, in order."""

    def __init__(self, api: Api, browsing: Browsing) -> None:
        self.api = api
        self.leaders: list[Screen] = []
        self.reports = 0
        context = browsing.context()
        self.screens = [browsing.screen(api.server.url, context) for _ in range(TABS)]
        for screen in self.screens:
            self._follow(screen)
            screen.open("assets/a")
            screen.live()

    def _follow(self, screen: Screen) -> None:
        def requested(request: Request) -> None:
            if request.headers.get("accept") == "text/event-stream":
                self.leaders.append(screen)

        screen.page.on("request", requested)

    def leaders_are(self, count: int) -> bool:
        """Return whether so many tabs have asked for a stream, once the browser has said what it did."""
        self.screens[0].page.title()
        return len(self.leaders) == count

    def report(self) -> None:
        """Report the source once more."""
        self.reports += 1
        self.api.lab.report("a", f"report {self.reports}")
        number(self.api.lab)

    def see(self) -> None:
        """Wait until every tab shows the last report."""
        for screen in self.screens:
            screen.sees(f"report {self.reports}")

    def close(self, screen: Screen) -> None:
        """Close a tab, after checking it."""
        screen.check()
        screen.page.close()
        self.screens.remove(screen)

    def streams_are(self, count: int) -> bool:
        """Return whether the server has so many event streams."""
        return self.api.server._streams._slots._taken.total() == count


def test_eight_tabs_share_one_stream(chain: Api, browsing: Browsing) -> None:
    """A browser has six connections for an origin: each tab is told everything, and one of them holds one."""
    tabs = Tabs(chain, browsing)
    assert len(tabs.leaders) == 1
    for _ in range(3):
        tabs.report()
        tabs.see()
    assert tabs.streams_are(1)
    assert len(tabs.leaders) == 1


def test_when_the_tab_with_the_stream_is_closed_another_continues(chain: Api, browsing: Browsing) -> None:
    """What happens in between is told to all that are left; at the end one tab has the stream for itself."""
    tabs = Tabs(chain, browsing)
    while len(tabs.screens) > 1:
        known = len(tabs.leaders)
        tabs.report()
        tabs.close(tabs.leaders[-1])
        tabs.report()
        tabs.see()
        wait_until(partial(tabs.leaders_are, known + 1), what="a new leader")
        wait_until(partial(tabs.streams_are, 1), what="one stream")
    assert len(tabs.leaders) == TABS


def test_a_tab_that_is_opened_later_shares_too(chain: Api, browsing: Browsing) -> None:
    """It reads what is there, and is told what comes; closing it changes nothing for the others."""
    tabs = Tabs(chain, browsing)
    tabs.report()
    late = browsing.screen(chain.server.url, tabs.screens[0].page.context)
    late.open("assets/a")
    late.live()
    late.sees(f"report {tabs.reports}")
    tabs.report()
    late.sees(f"report {tabs.reports}")
    late.page.close()
    tabs.report()
    tabs.see()
    assert tabs.streams_are(1)
