"""docs/policies.md shows the output of `freshline apply` before a policy is turned on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from freshline.cli.commands.project import show_flood, show_plan
from tests.docs.pages import Page, session
from tests.store_harness import Lab, laboratory, project, workflow

SHOWN = [session(block)[0] for block in Page("docs/policies.md").blocks("console") if "apply --dry-run" in block]


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield the page's diamond, with `mail` below it: `report` was off while `orders` changed."""
    with laboratory(database_url) as lab:
        definitions = workflow("clean", "orders"), workflow("report", "orders clean"), workflow("mail", "report")
        lab.apply(*definitions, name="shop")
        lab.report("orders")
        run_all(lab)
        lab.apply(definitions[0], workflow("report", "orders clean", auto=None), definitions[2], name="shop")
        lab.report("orders")
        run_all(lab)
        lab.store.operations.pause("mail")
        yield lab


def run_all(lab: Lab) -> None:
    """Do all runs until nothing is left to do."""
    lab.settle()
    while (run := lab.claim(name="shop")) is not None:
        lab.finish(run)
        lab.settle()


@pytest.mark.parametrize(("command", "lines"), SHOWN)
def test_the_example_is_real(command: str, lines: list[str], lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """Word by word, with a baseline and without one."""
    wanted = project(
        workflow("clean", "orders"), workflow("report", "orders clean"), workflow("mail", "report"), name="shop"
    )
    plan = lab.store.apply.diff(wanted)
    capsys.readouterr()
    show_plan(plan)
    show_flood(plan, lab.store.apply.preview(wanted, baseline="--baseline" in command))
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == lines
