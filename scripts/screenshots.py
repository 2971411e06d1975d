"""Takes screenshots of the page: `python -m scripts.screenshots` writes those of the docs into docs/img.

`python -m scripts.screenshots DIRECTORY` writes every view at three sizes in both themes into DIRECTORY instead. The
page must have been built; the scene is that of the tests.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from playwright.sync_api import Browser
from psycopg.conninfo import make_conninfo

from freshline.api.bundle import PAGE_FILES
from freshline.embedded_postgres.server import EmbeddedServer
from freshline.store.db import migrate
from tests.api.conftest import serving
from tests.databases import administer
from tests.page.harness import MIDDLE, PHONE, WIDE, Browsing, browser
from tests.page.scene import Scene, installed, secret
from tests.page.views import VIEWS

IMAGES = Path(__file__).parents[1] / "docs" / "img"
LARGEST = 150_000
THEMES = ("light", "dark")
SIZES = {"wide": WIDE, "middle": MIDDLE, "phone": PHONE}
DOCS = {
    "overview": "",
    "graph": "graph?show=all",
    "asset": "assets/flights.clean?tab=versions&a=1&b=2",
    "run": "runs/{succeeded}",
    "why": "why/orders.report",
    "backfill": "backfills/{backfill}",
}
QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}


class Camera:
    """Takes pictures of the views of a scene."""

    def __init__(self, browser: Browser, url: str, scene: Scene) -> None:
        self._browser = browser
        self._url = url
        self._scene = scene
        self.largest = 0

    def shoot(self, views: dict[str, str], size: str, theme: str, into: Path, tail: str) -> None:
        """Write a picture of each view at a size in a theme: `page-NAME-TAIL.png`."""
        browsing = Browsing(self._browser)
        context = browsing.context(viewport=SIZES[size], color_scheme=theme, timezone_id="UTC")
        context.add_cookies([{"name": "freshline_token", "value": secret("chief"), "url": self._url}])
        screen = browsing.screen(self._url, context)
        screen.open()
        screen.live()
        for name, address in views.items():
            screen.go(self._scene.address(address))
            screen.settled()
            self.largest = max(self.largest, len(screen.page.screenshot(path=into / f"page-{name}-{tail}.png")))
        browsing.close()


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
        with installed(database, Path(tables), hostile=False) as scene, serving_page(scene) as page:
            yield scene, page


@contextmanager
def serving_page(scene: Scene) -> Iterator[str]:
    """Yield the address of the page of a scene."""
    with serving(scene.lab, page_files=PAGE_FILES) as api:
        yield api.server.url


def every_view() -> dict[str, str]:
    """Return the addresses of all views by the names of their pictures."""
    return {re.sub(r"\W+", "-", one.address or "overview").strip("-"): one.address for one in VIEWS}


def main(arguments: Sequence[str]) -> int:
    """Write the pictures; say how large the largest is."""
    docs = not arguments
    views, sizes, into = (DOCS, ["wide"], IMAGES) if docs else (every_view(), list(SIZES), Path(arguments[0]))
    into.mkdir(parents=True, exist_ok=True)
    with scenery() as (scene, url), browser() as started:
        camera = Camera(started, url, scene)
        for size, theme in product(sizes, THEMES):
            camera.shoot(views, size, theme, into, theme if docs else f"{size}-{theme}")
    print(
        f"wrote {len(views) * len(sizes) * len(THEMES)} pictures into {into}, the largest of {camera.largest:,} bytes"
    )
    return int(docs and camera.largest > LARGEST)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
