"""Apply warns when an ancestor's runs take longer than a workflow waits for it (docs/semantics.md#R4.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.store_harness import ON_UPDATE, Lab, laboratory, project, workflow

MINUTE = 60_000


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a diamond a -> b, c -> d whose wait is a minute, beside a chain b -> e."""
    with laboratory(database_url) as lab:
        lab.apply(*diamond())
        yield lab


def diamond(**of_d: Any) -> list[dict[str, Any]]:
    """Return the definitions; `of_d` changes the policy of the join."""
    waits = {**ON_UPDATE, "maxWaitMs": MINUTE, **of_d}
    return [workflow("b", "a"), workflow("c", "a"), workflow("d", "b c", auto=waits), short("e", "b")]


def short(slug: str, inputs: str, **more: Any) -> dict[str, Any]:
    """Return a workflow that waits for a minute."""
    return workflow(slug, inputs, auto={**ON_UPDATE, "maxWaitMs": MINUTE}, **more)


def run(lab: Lab, slug: str, *, minutes: float, times: int = 1) -> None:
    """Do manual runs of this duration."""
    for _ in range(times):
        lab.store.operations.request_run(slug)
        claimed = lab.start_of(slug)
        lab.advance(minutes=minutes)
        lab.finish(claimed)


def warnings(lab: Lab, *workflows: dict[str, Any]) -> list[str]:
    """Return the warnings of `freshline apply`."""
    return lab.store.apply.diff(project(*workflows)).warnings


def test_the_warning_names_both_and_what_to_do(lab: Lab) -> None:
    """The workflow with its file, its wait, the ancestor, how long that takes and what would help."""
    lab.report("a", "1")
    assert warnings(lab, *diamond()) == []
    run(lab, "b", minutes=3, times=2)
    (warning,) = warnings(lab, *diamond())
    assert warning == (
        "workflows/d.yaml:1: workflow 'd' waits for its ancestors for at most 60 s (maxWaitMs 60000), but 'b' takes up"
        " to 180 s (the 95th percentile of its last 2 successful runs); it would run without it and could read a mix;"
        " raise maxWaitMs above 180000, or make 'b' faster"
    )


@pytest.mark.parametrize("policy", [{"maxWaitMs": 3 * MINUTE}, {"waitForUpstream": False}, {"enabled": False}])
def test_a_policy_that_waits_long_enough_or_never_is_fine(lab: Lab, policy: dict[str, Any]) -> None:
    """The warning disappears with what it was about."""
    lab.report("a", "1")
    run(lab, "b", minutes=3)
    assert len(warnings(lab, *diamond())) == 1
    assert warnings(lab, *diamond(**policy)) == []


def test_most_runs_count_and_only_the_last_ones(lab: Lab) -> None:
    """One slow run in twenty is no habit, two are; and what was long ago is forgotten."""
    lab.report("a", "1")
    run(lab, "b", minutes=3)
    run(lab, "b", minutes=0.1, times=19)
    assert warnings(lab, *diamond()) == []
    run(lab, "b", minutes=2)
    assert "'b' takes up to 120 s" in warnings(lab, *diamond())[0]
    lab.rows(
        "INSERT INTO runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', freshline_id(), 'queued_at',"
        " r.queued_at + interval '1 day'))).* FROM runs r, generate_series(1, 10) WHERE r.finished_at - r.started_at"
        " < interval '1 minute' RETURNING id"
    )
    assert warnings(lab, *diamond()) == []


def test_the_slowest_is_named(lab: Lab) -> None:
    """One warning for a workflow, however many ancestors are slow."""
    lab.report("a", "1")
    run(lab, "b", minutes=3)
    run(lab, "c", minutes=4)
    (warning,) = warnings(lab, *diamond())
    assert "'c' takes up to 240 s" in warning


def test_only_those_that_it_could_wait_for_count(lab: Lab) -> None:
    """A chain never waits, nor a join of what has no root in common; what expires waits for everybody.

    See docs/semantics.md#R4.2, docs/semantics.md#R4.3.
    """
    lab.report("a", "1")
    run(lab, "b", minutes=3)
    apart = [workflow("b", "a"), short("chain", "b"), short("apart", "b z")]
    assert warnings(lab, *apart) == []
    expiring = short("chain", "b", freshness={"ttlMs": 60 * MINUTE})
    assert "workflow 'chain' waits" in warnings(lab, workflow("b", "a"), expiring)[0]


def test_an_ancestor_of_another_project_counts(lab: Lab) -> None:
    """Who waits does not ask who made it."""
    lab.report("a", "1")
    run(lab, "b", minutes=3)
    mine = project(short("f", "a b"), name="other")
    assert "workflow 'f' waits" in lab.store.apply.diff(mine).warnings[0]


def test_an_edge_that_is_only_proposed_counts(lab: Lab) -> None:
    """The topology is the one that apply would leave."""
    lab.report("a", "1")
    run(lab, "b", minutes=3)
    without = [one for one in diamond() if one["slug"] != "d"]
    assert warnings(lab, *without) == []
    assert "workflow 'g' waits" in warnings(lab, *without, short("g", "a e"))[0]
