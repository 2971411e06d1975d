"""`freshline plan`: the runs that a change of an asset would cause now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cli.conftest import Freshline
from tests.store_harness import Lab, laboratory, workflow

AUTO = {"onUpstreamUpdate": True}


@pytest.fixture
def graph(database_url: str, freshline: Freshline) -> Iterator[Lab]:
    """Yield a fresh diamond a -> b, c -> d, with workflows below d. The project's own files are not used."""
    assert freshline.project
    with laboratory(database_url) as lab:
        lab.apply(
            workflow("b", "a"),
            workflow("c", "a"),
            workflow("d", "b c"),
            workflow("late", "d", auto={**AUTO, "debounceMs": 600_000}),
            workflow("later", "late"),
            workflow("off", "d", auto={**AUTO, "enabled": False}),
            workflow("below", "off"),
            workflow("manual", "b", auto=None),
            workflow(
                "deaf", [{"assetId": "b", "autoMaterialize": {"onUpstreamUpdate": False}}], auto={"onMissing": True}
            ),
        )
        lab.report("a", "1")
        lab.work()
        lab.advance(hours=1)
        lab.work()
        yield lab


def test_the_order_of_runs_and_what_stays_behind(graph: Lab, freshline: Freshline) -> None:
    """A join comes once, after both branches; a debounce has its end; what cannot go on says where it is cut."""
    before = graph.everything()
    plan = freshline.json("plan", "a")
    assert sorted(run["workflowSlug"] for run in plan["runs"][:2]) == ["b", "c"]
    assert [(run["order"], run["workflowSlug"], run["upstream"]) for run in plan["runs"][2:]] == [
        (3, "d", ["b", "c"]),
        (4, "late", ["d"]),
        (5, "later", ["late"]),
    ]
    assert [run["notBefore"] is not None for run in plan["runs"]] == [False, False, False, True, True]
    assert {run["reason"] for run in plan["runs"]} == {"upstream-update"}
    held = {one["workflowSlug"]: (one["reason"], one["until"] is not None) for one in plan["held"]}
    assert held == {"below": ("input-missing", False)}
    assert {one["workflowSlug"]: (one["reason"], one["behind"]) for one in plan["cut"]} == {
        "manual": ("not-auto", []),
        "deaf": ("up-to-date", []),
        "off": ("policy-off", []),
    }
    assert graph.everything() == before


def test_the_table_says_the_same(graph: Lab, freshline: Freshline) -> None:
    """People get an ordered table, the holds and the cuts in words, and what was assumed."""
    assert graph
    answer = freshline("plan", "a")
    assert "if a changed now:" in answer.stdout
    assert "NOT BEFORE" in answer.stdout
    assert "its autoMaterialize is switched off" in answer.stdout
    assert "'off' does not exist yet" in answer.stdout
    assert "assumes that every run succeeds and changes its output" in answer.stderr


def test_an_asset_that_a_workflow_makes(graph: Lab, freshline: Freshline) -> None:
    """The change of an output goes down from there, and its maker does not run."""
    assert graph
    assert [run["workflowSlug"] for run in freshline.json("plan", "b")["runs"]] == ["d", "late", "later"]


def test_nobody_reads_it(graph: Lab, freshline: Freshline) -> None:
    """A leaf changes nothing."""
    assert graph
    assert freshline.json("plan", "later")["runs"] == []
    assert "no workflow reads later" in freshline("plan", "later").stderr


def test_an_unknown_asset_is_answered_with_the_nearest(applied: Callable[..., Any]) -> None:
    """As everywhere."""
    assert "did you mean 'shop.raw'" in applied("plan", "shop.row", code=1).stderr


def test_what_is_missing_now_is_seen(freshline: Freshline) -> None:
    """The plan starts from the database as it is: nothing was made yet."""
    freshline("apply", "--yes")
    runs = freshline.json("plan", "shop.raw")["runs"]
    assert [(run["workflowSlug"], run["reason"]) for run in runs] == [
        ("make-clean", "missing"),
        ("make-daily", "missing"),
    ]
