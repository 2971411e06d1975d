"""docs/scenarios.md names existing tests for every scenario, and references to scenarios are links to it."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT, Page
from tests.docs.test_semantics import TEST, files

PAGE = Page("docs/scenarios.md")
NUMBERS = [int(number) for number in re.findall(r'<a id="scenario-(\d+)"></a>', PAGE.text)]
REFERENCE = re.compile(r"docs/scenarios\.md#scenario-(\d+)")
BARE = re.compile(r"\b[Ss]cenarios? \d")


def test_the_scenarios_are_numbered_without_gaps() -> None:
    """Numbers are permanent: references rely on them."""
    assert list(range(42)) == NUMBERS


@pytest.mark.parametrize("number", NUMBERS)
def test_a_scenario_names_existing_tests(number: int) -> None:
    """A scenario without a test would only be a story."""
    text = PAGE.text.partition(f'<a id="scenario-{number}"></a>')[2].partition("<a id=")[0]
    named = TEST.findall(text.partition("*Tests:* ")[2])
    assert named
    for name, file in named:
        assert re.search(rf"^ *def {name}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE), f"{file} has no {name}"


@pytest.mark.parametrize("folder", ["src", "tests", "bench", "docs", "scripts"])
def test_references_are_links_to_scenarios(folder: str) -> None:
    """A reference has an anchor to arrive at, and no scenario is cited by its number alone."""
    for path in files(ROOT / folder):
        text = path.read_text(encoding="utf-8")
        assert {int(number) for number in REFERENCE.findall(text)} <= set(NUMBERS), path
        assert not BARE.search(text), path
