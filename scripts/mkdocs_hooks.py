"""Hooks of mkdocs: pages outside docs/ such as README, decision records in the navigation, links that leave docs/.

Links to files outside docs/, such as ../src/freshline/graph.py, work in a repository browser. The site has no such
pages: with a `repo_url` these links lead to the repository, and without one they become plain code.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
RECORDS = "adr/"  # stands in mkdocs.yml for one entry per record
FROM_ROOT = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "code-of-conduct.md": "CODE_OF_CONDUCT.md",
    "reporting-vulnerabilities.md": "SECURITY.md",
}
FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
MERMAID = re.compile(r"^```mermaid\n.*?^```\n+", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put every decision record into the navigation."""
    for group in config.nav or []:
        for entries in group.values():
            for entry in entries if isinstance(entries, list) else []:
                _expand_records(entry, Path(config.docs_dir))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are outside docs/."""
    for page, name in FROM_ROOT.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Rewrite links that leave docs/, and drop diagrams whose library is loaded from another host."""
    source = FROM_ROOT.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    kept = MERMAID.sub("", markdown)  # the pages have the same as a table
    return _outside_fences(kept, lambda text: LINK.sub(lambda link: rewrite(link, source, config.repo_url), text))


def rewrite(link: re.Match[str], source: str, repository: str | None) -> str:
    """Return a link of the file `source` as the site has to have it."""
    target, _, anchor = link["target"].partition("#")
    if not target or re.match(r"[a-z]+:", target):
        return link[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if (ROOT / path / "README.md").exists():
        path = f"{path}/README.md"  # a repository browser shows it for the directory
    place = {file: page for page, file in FROM_ROOT.items()}.get(path)
    if place is None and path.startswith("docs/"):
        place = path.removeprefix("docs/")
    if place is not None:
        start = posixpath.dirname(source).removeprefix("docs").removeprefix("/")
        relative = posixpath.relpath(place, start or ".")
        return f"{link['image']}[{link['text']}]({relative}{'#' + anchor if anchor else ''})"
    if repository:
        return f"[{link['text']}]({repository.rstrip('/')}/blob/main/{path})"
    return link["text"] if "`" in link["text"] else f"{link['text']} (`{path}`)"


def _expand_records(entry: Any, docs: Path) -> None:
    for title, target in entry.items() if isinstance(entry, dict) else ():
        if target == RECORDS:
            records = sorted((docs / RECORDS).glob("[0-9]*.md"))
            entry[title] = [f"{RECORDS}README.md", *(f"{RECORDS}{record.name}" for record in records)]


def _outside_fences(text: str, change: Callable[[str], str]) -> str:
    parts: list[str] = []
    end = 0
    for fence in FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(text[end:])])
