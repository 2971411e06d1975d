"""The style sheets of the page."""

from __future__ import annotations

import re
from collections import defaultdict

from tests.page.harness import ROOT

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
SELECTORS = re.compile(r"([^{};]+)\{")
# A class alone, with or without states: `.chip`, `.chip:hover`.
CLASS = re.compile(r"\.([\w-]+)(?:::?[\w-]+(?:\([^)]*\))?)*")


def test_a_class_is_styled_in_one_file() -> None:
    """A style sheet stays when its view is left, so two views with the same class would change each other."""
    places = defaultdict(set)
    for file in (ROOT / "page" / "src").rglob("*.css"):
        for selectors in SELECTORS.findall(COMMENT.sub("", file.read_text(encoding="utf-8"))):
            for selector in selectors.split(","):
                if found := CLASS.fullmatch(selector.strip()):
                    places[found[1]].add(file.name)
    assert len(places) > 100
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
