"""Pages of the documentation, parsed into code blocks, tables and commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Page:
    """One page, by its path from the project's root."""

    name: str

    @property
    def text(self) -> str:
        return (ROOT / self.name).read_text(encoding="utf-8")

    @property
    def prose(self) -> str:
        """Return the text without its code blocks."""
        return _FENCE.sub("", self.text)

    def blocks(self, *languages: str) -> list[str]:
        """Return the code blocks of these languages, in order."""
        return [code for language, code in _FENCE.findall(self.text) if language in languages]

    def section(self, title: str) -> str:
        """Return the text under a heading, up to the next heading."""
        _, found, rest = self.prose.partition(f"# {title}\n")
        assert found, f"{self.name} has no heading {title!r}"
        return rest[: following.start()] if (following := _SECTION.search(rest)) else rest

    def table(self, title: str) -> list[list[str]]:
        """Return the rows of the first table under a heading, cell by cell, without its head."""
        lines = [line for line in self.section(title).splitlines() if line.startswith("|")]
        return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]

    def commands(self) -> Iterator[list[str]]:
        """Return every `freshline ...` command of its shell blocks, as arguments."""
        for command in self.shell():
            words = shlex.split(command, comments=True)
            if words[:1] == ["freshline"]:
                yield words[1:]

    def shell(self) -> list[str]:
        """Return every command line: all lines of `sh` blocks, and those after the prompt in `console` blocks."""
        typed = [line for block in self.blocks("sh") for line in block.splitlines() if line.strip()]
        return typed + [command for block in self.blocks("console") for command, _ in session(block)]


def session(block: str) -> list[tuple[str, list[str]]]:
    """Parse a console block: each command with the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def codes(text: str) -> list[str]:
    """Return the texts in backquotes."""
    return _CODE.findall(text)


def code(cell: str) -> str:
    """Return the text of a cell, with or without backquotes."""
    return cell.strip("`")


README = Page("README.md")
ARCHITECTURE = Page("docs/architecture.md")
ASSETS = Page("docs/assets-overview.md")
CHECKS = Page("docs/checks.md")
CONFIGURATION = Page("docs/configuration.md")
DOCTOR = Page("docs/doctor.md")
PAGES = (README, ARCHITECTURE, ASSETS, CHECKS, CONFIGURATION, DOCTOR)
