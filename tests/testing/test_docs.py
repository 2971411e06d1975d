"""docs/testing.md shows what works."""

from __future__ import annotations

import re
from typing import Any

import pytest

from freshline.testing import Chain, ExpectationError, given
from tests.docs.pages import Page

PAGE = Page("docs/testing.md")


def run_examples() -> dict[str, Any]:
    """Return the definitions in the blocks of the page, in order."""
    names: dict[str, Any] = {}
    for block in PAGE.blocks("python"):
        exec(block, names)  # noqa: S102 - the page under test
    return names


EXAMPLES = {name: test for name, test in run_examples().items() if name.startswith("test_")}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_holds(name: str) -> None:
    """The tests on the page pass as they are."""
    EXAMPLES[name]()


def test_the_message_on_the_page_is_what_one_gets() -> None:
    """The shown failure is the text of a real one."""
    (shown,) = PAGE.blocks("text")
    with pytest.raises(ExpectationError) as error:
        given(run_examples()["ORDERS"]).report("orders.raw").expect_runs("orders.report")
    assert str(error.value) == shown.rstrip()


def test_every_step_and_expectation_is_on_the_page() -> None:
    """The two tables name the whole kit."""
    public = {name for name in vars(Chain) if not name.startswith("_")} - {"catalogue", "fresh", "steps"}
    named = set(re.findall(r"`(?:chain\.)?(\w+)[(`]", PAGE.text))
    assert public - named == set()
