"""Takes screenshots of the page: `python -m scripts.screenshots` writes those of the docs into docs/img.

`python -m scripts.screenshots DIRECTORY` writes every view into DIRECTORY instead. Each is taken at three sizes in both
themes. The page must have been built; the scene is that of the tests, without hostile texts.
"""

from __future__ import annotations

import base64
import getpass
import logging
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from unittest.mock import patch

import structlog
from playwright.sync_api import Browser
from psycopg.conninfo import make_conninfo

from freshline.api.bundle import PAGE_FILES
from freshline.embedded_postgres.server import EmbeddedServer
from freshline.store.db import migrate
from freshline.store.processes import Processes
from tests.api.conftest import serving
from tests.databases import administer
from tests.page.harness import MIDDLE, PHONE, WIDE, Browsing, Screen, browser
from tests.page.scene import Scene, installed, secret
from tests.page.views import VIEWS

IMAGES = Path(__file__).parents[1] / "docs" / "img"
QUALITY = 78  # of WebP: the least at which small text has no visible noise
LARGEST = 90_000
TOTAL = 4_200_000
THEMES = ("light", "dark")
SIZES = {"wide": WIDE, "middle": MIDDLE, "phone": PHONE}
DOCS = {
    "overview": "",
    "graph": "graph?show=all",
    "assets": "assets",
    "asset": "assets/flights.clean?tab=versions&a=6&b=7",
    "workflow": "workflows/flights-clean",
    "runs": "runs",
    "run": "runs/{succeeded}",
    "why": "why/orders.report",
    "plan": "plan?asset=flights.raw",
    "simulate": "plan?tab=simulate&workflow=flights-report&since=24h&flights-report.minInterval=3h&play=1",
    "backfills": "backfills",
    "backfill": "backfills/{backfill}",
    "events": "events",
    "decisions": "decisions",
    "workers": "workers",
    "sources": "sources",
    "webhooks": "webhooks",
    "alerts": "alerts",
    "tokens": "tokens",
    "audit": "audit",
}
PICTURES = (DOCS, SIZES, THEMES)
QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}
HOST = "data-1"
PIDS = {"materializer": 1204, "worker": 1207, "api": 1209}
DRAWN = """() => [...document.querySelectorAll('.chart-box')].every((one) => one.querySelector('canvas'))
  && [...document.querySelectorAll('.asset-age')].every((one) => one.textContent !== '…')
  && document.querySelector('[aria-busy=true]') === null"""
# Below the content there is nothing to see.
END = """() => {
  const main = document.querySelector('main')
  const bottom = Math.max(...[...main.children].map((one) => one.getBoundingClientRect().bottom))
  return main.classList.contains('content-full') ? innerHeight : Math.min(innerHeight, Math.ceil(bottom) + 24)
}"""


class Camera:
    """Takes pictures of the views of a scene. `sizes`: the bytes of each picture."""

    def __init__(self, browser: Browser, url: str, scene: Scene) -> None:
        self._browser = browser
        self._url = url
        self._scene = scene
        self.sizes: dict[str, int] = {}

    def shoot(self, views: Mapping[str, str], size: str, theme: str, into: Path, *, guarded: bool = True) -> None:
        """Write a picture of each view at a size in a theme: `page-NAME-SIZE-THEME.webp`.

        `guarded`: none of them may tell on which machine it was taken.
        """
        browsing = Browsing(self._browser)
        context = browsing.context(viewport=SIZES[size], color_scheme=theme, timezone_id="UTC")
        context.add_cookies([{"name": "freshline_token", "value": secret("chief"), "url": self._url}])
        screen = browsing.screen(self._url, context)
        screen.open()
        screen.live()
        # A headless browser has no scroll bars, so it needs no room for them.
        screen.page.evaluate("document.documentElement.style.scrollbarGutter = 'auto'")
        for name, address in views.items():
            screen.go(self._scene.address(address))
            screen.settled()
            screen.page.wait_for_function(DRAWN)
            told = machine().findall(screen.text())
            if told and guarded:
                sys.exit(f"the picture of {name} would tell of this machine: {told}")
            picture = into / f"page-{name}-{size}-{theme}.webp"
            picture.write_bytes(taken(screen))
            self.sizes[picture.name] = picture.stat().st_size
        browsing.close()


def taken(screen: Screen) -> bytes:
    """Return a picture of the window as WebP, which Playwright itself cannot write."""
    session = screen.page.context.new_cdp_session(screen.page)
    width, height = screen.page.evaluate("innerWidth"), screen.page.evaluate(END)
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    answer = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY, "clip": clip})
    session.detach()
    return base64.b64decode(answer["data"])


def machine() -> re.Pattern[str]:
    """Return what would say on which machine a picture was taken."""
    names = {socket.gethostname(), getpass.getuser(), str(Path.home()), tempfile.gettempdir(), str(IMAGES.parents[1])}
    return re.compile("|".join(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])" for name in sorted(names)))


@contextmanager
def masked() -> Iterator[None]:
    """Give the processes of the scene the host, the ids and the address of an example."""
    register = Processes.register

    def registered(
        self: Processes, worker_id: str, kind: str, *, info: Mapping[str, object], **more: str | None
    ) -> None:
        if "address" in info:
            info = {**info, "address": f"http://{HOST}:8080"}
        with patch.object(os, "getpid", lambda: PIDS[kind]), patch.object(socket, "gethostname", lambda: HOST):
            register(self, worker_id, kind, info=info, project=more["project"], code_hash=more["code_hash"])

    with patch.object(Processes, "register", registered):
        yield


@contextmanager
def scenery() -> Iterator[tuple[Scene, str]]:
    """Yield the scene of the tests without hostile texts, and the address of its page."""
    with (
        tempfile.TemporaryDirectory(prefix="freshline-") as home,
        tempfile.TemporaryDirectory(prefix="freshline-") as tables,
        EmbeddedServer(Path(home), options=QUICK) as url,
    ):
        administer(url, "CREATE DATABASE {}", "scene")
        database = make_conninfo(url, dbname="scene")
        migrate.upgrade(database)
        with (
            masked(),
            installed(database, Path(tables), hostile=False) as scene,
            serving(scene.lab, page_files=PAGE_FILES) as api,
        ):
            yield scene, api.server.url


def every_view() -> dict[str, str]:
    """Return the addresses of all views by the names of their pictures."""
    return {re.sub(r"\W+", "-", one.address or "overview").strip("-"): one.address for one in VIEWS}


def main(arguments: Sequence[str]) -> int:
    """Write the pictures; say how large they are."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    docs = not arguments
    views, into = (DOCS, IMAGES) if docs else (every_view(), Path(arguments[0]))
    into.mkdir(parents=True, exist_ok=True)
    with scenery() as (scene, url), browser() as started:
        camera = Camera(started, url, scene)
        for size, theme in product(SIZES, THEMES):
            camera.shoot(views, size, theme, into)
    for name, bytes_ in camera.sizes.items():
        if bytes_ > LARGEST:
            print(f"{name} has {bytes_:,} bytes; allowed are {LARGEST:,}", file=sys.stderr)
    total = sum(camera.sizes.values())
    print(f"wrote {len(camera.sizes)} pictures of {total:,} bytes into {into}")
    return int(docs and (max(camera.sizes.values()) > LARGEST or total > TOTAL))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
