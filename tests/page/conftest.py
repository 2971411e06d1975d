"""Fixtures: a browser for each file, tabs for each test, and the scene behind an API on a real port."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from freshline.api.bundle import PAGE_FILES
from tests.api.conftest import WORKFLOWS, Api, serving
from tests.page import harness
from tests.page.harness import Browsing, Screen
from tests.page.scene import Scene, installed, number, secret
from tests.store_harness import laboratory


@dataclass(frozen=True, slots=True)
class Site:
    """The scene, and the API that serves it with the page."""

    scene: Scene
    api: Api

    @property
    def url(self) -> str:
        """Return where the page is."""
        return self.api.server.url

    def screen(self, browsing: Browsing, name: str = "chief", **options: Any) -> Screen:
        """Return a tab of somebody who is logged in with a token of the scene."""
        context = browsing.context(**options)
        context.add_cookies([{"name": "freshline_token", "value": secret(name), "url": self.url}])
        return browsing.screen(self.url, context)


@pytest.fixture(scope="session")
def page_files() -> Path:
    """Return the directory of the bundle, which `make test` builds before."""
    assert (PAGE_FILES / "index.html").exists(), "the page is not built; run `make page`"
    return PAGE_FILES


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Yield a browser for the tests of a module."""
    with harness.browser() as browser:
        yield browser


@pytest.fixture
def browsing(chromium: Browser) -> Iterator[Browsing]:
    """Yield tabs for a test; at its end nothing may have gone wrong in them."""
    browsing = Browsing(chromium)
    yield browsing
    browsing.close()


@pytest.fixture(scope="module")
def site(
    module_database_url: str, page_files: Path, tmp_path_factory: pytest.TempPathFactory, _enterable: None
) -> Iterator[Site]:
    """Yield the scene for the tests of a module; they must not change anything."""
    home = tmp_path_factory.mktemp("scene")
    with installed(module_database_url, home) as scene, serving(scene.lab, page_files=page_files) as api:
        yield Site(scene, api)


@pytest.fixture
def guarded(site: Site, page_files: Path) -> Iterator[Site]:
    """Yield the scene behind an API where every request needs a token."""
    with serving(site.scene.lab, auth="token", page_files=page_files) as api:
        yield Site(site.scene, api)


@pytest.fixture
def own(database_url: str, page_files: Path, tmp_path: Path) -> Iterator[Site]:
    """Yield the scene for one test, which may change it."""
    with installed(database_url, tmp_path) as scene, serving(scene.lab, page_files=page_files) as api:
        yield Site(scene, api)


@pytest.fixture
def chain(database_url: str, page_files: Path) -> Iterator[Api]:
    """Yield a source a -> b -> c, all fresh, behind an API that notices events at once."""
    with laboratory(database_url, poll_ms=50) as lab, serving(lab, page_files=page_files) as api:
        lab.apply(*WORKFLOWS)
        lab.report("a", "1")
        lab.work()
        number(lab)
        yield api
