"""The state that a decision reads does not depend on the query: by ancestors, or by everything in motion."""

from __future__ import annotations

from freshline.decide.motion import Moving
from freshline.services.reconciler import Reconciler
from freshline.store.apply.stored_graph import read_graph
from freshline.store.evaluation import load_state
from freshline.store.evaluation.load_state import FEW
from tests.store.transaction_cases import key_of
from tests.store_harness import Lab, laboratory, workflow


def motion_of(lab: Lab, slug: str, above: list[str] | None) -> tuple[dict[int, Moving], bool]:
    """Return the motion above this workflow, and whether the state is calm."""
    ids = None if above is None else [key_of(lab, one)[0] for one in above]
    with lab.database.connection() as connection:
        moment = load_state.read(connection, read_graph(connection), {key_of(lab, slug): 0}, ids)
    return dict(moment.motion), moment.calm


def test_little_motion_is_told_whole(database_url: str) -> None:
    """What moves among the ancestors is the same in both answers."""
    with laboratory(database_url) as lab:
        lab.apply(workflow("b", "a"), workflow("c", "b"), workflow("d", "c"), workflow("other", "x"))
        lab.report("a", "1")
        lab.report("x", "1")
        lab.store.evaluation.consume_inbox(10)
        listed, calm = motion_of(lab, "d", ["b", "c"])
        everything, _ = motion_of(lab, "d", None)
        assert calm
        ids = {slug: key_of(lab, slug)[0] for slug in ("b", "c", "other")}
        assert {one: everything.get(one) for one in (ids["b"], ids["c"])} == {
            one: listed.get(one) for one in (ids["b"], ids["c"])
        }
        assert ids["b"] in listed
        assert ids["other"] in everything
        assert ids["other"] not in listed


def test_a_crowd_is_no_calm(database_url: str) -> None:
    """Then ancestors are asked for by number, and nobody reads the whole crowd twice; a diamond still waits."""
    with laboratory(database_url) as lab:
        lab.apply(
            workflow("left", "a"),
            workflow("right", "a"),
            workflow("join", "left right"),
            *(workflow(f"w{number:03}", "x") for number in range(FEW)),
        )
        lab.store.evaluation.consume_inbox(1_000)
        for slug in ("a", "x"):
            lab.report(slug, "1")
        lab.store.evaluation.consume_inbox(10)
        assert motion_of(lab, "join", None)[1] is False
        reconciler = Reconciler(lab.store)
        reconciler.run_once()
        assert lab.store.evaluation._calm is False
        lab.settle()
        assert len(lab.active()) == FEW + 2, "join waits for both"
