"""The pictures of the docs, and the script that takes them."""

from __future__ import annotations

import os
import re
import socket
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from scripts import screenshots
from tests.page.conftest import Site
from tests.page.harness import ROOT
from tests.page.views import VIEWS
from tests.store_harness import laboratory

SMALLEST = 2_000  # bytes of a picture that shows something
NAMES = [f"page-{name}-{size}-{theme}.webp" for name, size, theme in product(*screenshots.PICTURES)]
LINK = re.compile(r"!\[[^\]]+\]\(img/(page-[\w-]+\.webp)#gh-(light|dark)-mode-only\)")


def width(picture: Path) -> int:
    """Return the width of a WebP, which Chromium writes with an extended header for its colour profile."""
    data = picture.read_bytes()
    assert (data[:4], data[8:16]) == (b"RIFF", b"WEBPVP8X")
    return int.from_bytes(data[24:27], "little") + 1


def test_every_page_has_pictures_at_three_sizes_in_both_themes() -> None:
    """They are all there and nothing else, are as wide as the window that they show, and are not large."""
    found = {one.name: one for one in screenshots.IMAGES.iterdir() if one.name.startswith("page-")}
    assert set(found) == set(NAMES)
    for size, theme in product(screenshots.SIZES, screenshots.THEMES):
        for name in screenshots.DOCS:
            assert width(found[f"page-{name}-{size}-{theme}.webp"]) == screenshots.SIZES[size]["width"]
    sizes = [one.stat().st_size for one in found.values()]
    assert min(sizes) > SMALLEST
    assert max(sizes) <= screenshots.LARGEST
    assert sum(sizes) <= screenshots.TOTAL


def test_the_docs_show_every_picture() -> None:
    """One page has each view in both themes, the gallery the smaller sizes; each theme for its readers."""
    pages = {
        page: LINK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
        for page in ("page.md", "page-gallery.md")
    }
    assert {name for name, _ in pages["page.md"]} == {one for one in NAMES if "-wide-" in one}
    assert {name for name, _ in pages["page-gallery.md"]} == {one for one in NAMES if "-wide-" not in one}
    assert [name for links in pages.values() for name, theme in links if not name.endswith(f"-{theme}.webp")] == []


def test_a_picture_does_not_tell_where_it_was_taken(database_url: str) -> None:
    """Processes have the host, the id and the address of an example; a text of this machine would be found."""
    with laboratory(database_url) as lab, screenshots.masked():
        info = {"address": "http://127.0.0.1:43210"}
        lab.store.processes.register(lab.worker, "api", project=None, code_hash=None, info=info)
        (row,) = lab.rows("SELECT host, pid, info FROM workers WHERE id = %s", lab.worker)
    shown = f"{row['host']}:{row['pid']} {row['info']}"
    assert shown == f"data-1:{screenshots.PIDS['api']} {{'address': 'http://data-1:8080'}}"
    assert screenshots.machine().findall(shown) == []
    told = f"at {socket.gethostname()}:{os.getpid()} in {Path.home()}"
    assert set(screenshots.machine().findall(told)) >= {socket.gethostname(), str(Path.home())}


@pytest.mark.full
@pytest.mark.parametrize("theme", screenshots.THEMES)
@pytest.mark.parametrize("size", screenshots.SIZES)
def test_every_view_has_a_picture(site: Site, chromium: Browser, tmp_path: Path, size: str, theme: str) -> None:
    """At each size in each theme; none of them is as good as empty."""
    views = screenshots.every_view()
    screenshots.Camera(chromium, site.url, site.scene).shoot(views, size, theme, tmp_path, guarded=False)
    pictures = list(tmp_path.glob(f"page-*-{size}-{theme}.webp"))
    assert len(pictures) == len(views) == len(VIEWS)
    assert [one.name for one in pictures if one.stat().st_size < SMALLEST] == []
