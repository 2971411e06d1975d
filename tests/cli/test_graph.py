"""`freshline graph`."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Freshline
from tests.rows import Rows


@pytest.fixture
def diamond(rows: Rows) -> Rows:
    """Insert a source, two branches, a join that only one branch triggers, and an unrelated workflow."""
    rows.source("raw")
    rows.workflow("left", ["l"], ["raw"])
    rows.workflow("right", ["r"], ["raw"])
    rows.workflow("join", ["top"], {"l": True, "r": False})
    rows.workflow("after", ["beyond"], ["top"])
    rows.workflow("alone", ["island"])
    return rows


def test_the_tree_draws_each_asset_once(freshline: Freshline, diamond: Rows) -> None:
    """A second way to an asset refers to the first; what has no inputs is a root."""
    lines = freshline("graph").stdout.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith((" ", "├", "└", "│"))] == ["island", "raw"]
    tops = [line for line in lines if "top" in line]
    assert len(tops) == 2
    assert [line.endswith("(above)") for line in tops] == [False, True]
    assert "missing" in tops[0]
    assert len([line for line in lines if "beyond" in line]) == 1


def test_around_an_asset(freshline: Freshline, diamond: Rows) -> None:
    """Only ancestors and descendants."""
    text = freshline("graph", "l").stdout
    assert "raw" in text
    assert "top" in text
    assert "island" not in text
    assert "right" not in text


def test_dot_and_json(freshline: Freshline, diamond: Rows) -> None:
    """DOT for drawings, JSON for programs; an input that may not trigger is marked."""
    dot = freshline("graph", "--format", "dot").stdout
    assert dot.startswith("digraph freshline {")
    assert '"r" -> "top" [label="join", style=dotted];' in dot
    found = freshline.json("graph")
    assert found == freshline.json("graph", "--format", "json")
    assert {"from": "l", "to": "top", "workflowSlug": "join", "triggers": True} in found["edges"]
    assert {one["assetId"] for one in found["assets"] if one["source"]} == {"raw"}


def test_a_long_chain_is_no_problem(freshline: Freshline, rows: Rows) -> None:
    """Deeper than Python's recursion would go."""
    rows.source("a0")
    for number in range(1, 60):
        rows.workflow(f"w{number}", [f"a{number}"], [f"a{number - 1}"])
    assert "a59" in freshline("graph").stdout


def test_nothing_applied(freshline: Freshline) -> None:
    """An empty graph says what to do."""
    assert "freshline apply" in freshline("graph").stderr
