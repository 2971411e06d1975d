"""The documentation as a site, as `make docs` builds it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import docs, mkdocs_hooks

LOADED = re.compile(r"<(?:script|link|img|iframe|source|video|audio|embed|object)\b[^>]*>")
ADDRESS = re.compile(r"(?:src|href|data|srcset)=[\"']?((?:https?:)?//[^\"'\s>]+)")
STYLE = re.compile(r"(?:url\(\s*[\"']?|@import\s+[\"'])((?:https?:)?//[^\"')\s]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site strictly; a broken link, a broken anchor or a page outside the navigation fails the build."""
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)]
    built = subprocess.run(command, cwd=docs.ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stderr
    return target


def test_every_page_is_in_the_site(site: Path) -> None:
    """Each page of docs/ and the pages beside it are in the site, and the search index knows them."""
    sources = [page.relative_to(docs.ROOT / "docs") for page in (docs.ROOT / "docs").rglob("*.md")]
    names = {source.with_suffix(".html").as_posix().replace("README", "index") for source in sources}
    assert {name for name in names if not (site / name).exists()} == set()
    assert {name for name in mkdocs_hooks.FROM_ROOT if not (site / name).with_suffix(".html").exists()} == set()
    assert '"location":"cli.html' in (site / "search" / "search_index.json").read_text(encoding="utf-8")


def test_the_pages_load_nothing_from_other_origins(site: Path) -> None:
    """Scripts, style sheets, images and fonts come from the site itself."""
    found = []
    for file in [*site.rglob("*.html"), *site.rglob("*.css"), *site.rglob("*.svg")]:
        text = file.read_text(encoding="utf-8")
        found += [address for tag in LOADED.findall(text) for address in ADDRESS.findall(tag)]
        found += STYLE.findall(text)
    assert found == []


def test_the_theme_has_no_reason_to_load_a_script(site: Path) -> None:
    """Material's script loads Mermaid for diagrams and asks GitHub about a repository; no page has either."""
    for file in site.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        assert 'class="mermaid"' not in text
        assert 'data-md-component="source"' not in text


@pytest.mark.parametrize(
    ("source", "text", "repository", "expected"),
    [
        ("docs/a.md", "[b](b.md#c)", None, "[b](b.md#c)"),
        ("docs/adr/0001.md", "[b](../b.md#c)", None, "[b](../b.md#c)"),
        ("docs/a.md", "[code](../src/x.py)", None, "code (`src/x.py`)"),
        ("docs/a.md", "[`x.py`](../src/x.py)", None, "`x.py`"),
        ("docs/adr/0001.md", "[code](../../src/x.py)", "https://host/r/", "[code](https://host/r/blob/main/src/x.py)"),
        ("README.md", "![picture](docs/img/a.svg)", None, "![picture](img/a.svg)"),
        ("docs/a.md", "[start](../README.md#two)", None, "[start](index.md#two)"),
        ("docs/a.md", "[away](https://example.org/x)", None, "[away](https://example.org/x)"),
    ],
)
def test_links_that_leave_docs_are_rewritten(source: str, text: str, repository: str | None, expected: str) -> None:
    """They lead to the repository, or become code; links between pages keep their target."""
    link = mkdocs_hooks.LINK.fullmatch(text)
    assert link is not None
    assert mkdocs_hooks.rewrite(link, source, repository) == expected
