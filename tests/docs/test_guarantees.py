"""The page of guarantees names existing tests, and at least one for every guarantee."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT, Page

PAGE = Page("docs/guarantees.md")
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.text)))


def test_every_promise_has_a_proof() -> None:
    """Thirteen promises, in order, each with a test of its own row."""
    rows = re.findall(r"^\| (\d+) \|.*$", PAGE.text, re.MULTILINE)
    assert [int(number) for number in rows] == list(range(1, 14))
    lines = [line for line in PAGE.text.splitlines() if re.match(r"\| \d+ \|", line)]
    assert all(re.search(r"`tests/[\w/]+\.py::\w+`", line) for line in lines)


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_the_named_test_exists(file: str, name: str) -> None:
    """A test that was renamed is renamed on the page too."""
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")
