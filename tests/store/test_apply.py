"""Apply: the plan describes the changes, and they happen in one transaction (docs/semantics.md#R10)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from freshline import failpoints
from freshline.failpoints import FailpointError
from freshline.settings import Settings
from freshline.store.store import Store
from tests.databases import KeptDatabase
from tests.store_harness import Lab, laboratory, project, workflow

HOUR = 3_600_000


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a fresh installation; at the end no stale workflow may be forgotten."""
    with laboratory(database_url) as lab:
        yield lab
        assert lab.forgotten() == 0


def epoch(lab: Lab) -> int:
    """Return the definitions epoch."""
    return int(lab.one("SELECT epoch FROM installation"))


def test_a_plan_says_what_apply_does(lab: Lab) -> None:
    """Added, changed, unchanged, retired; assets that come and go; and what will run because of it."""
    lab.apply(workflow("b", "a"), workflow("c", "b"), workflow("d", "c"))
    lab.report("a", "1")
    lab.work()
    wanted = project(
        workflow("b", "a", entrypoint="jobs:other"),
        workflow("c", "b", auto={"onUpstreamUpdate": True, "priority": 1}),
        workflow("e", "c"),
    )
    before = lab.everything()
    plan = lab.store.apply.diff(wanted)
    assert lab.everything() == before, "a plan changes nothing"
    assert plan.as_json() == {
        "project": "lab",
        "added": ["e"],
        "changed": ["b", "c"],
        "retired": ["d"],
        "unchanged": [],
        "assetsAdded": ["e"],
        "assetsRemoved": ["d"],
        "changes": {
            "b": ["steps[0].job.entrypoint"],
            "c": ["steps[0].produces[0].autoMaterialize.priority"],
        },
        "pools": [],
        "reported": [],
        "partitions": {},
        "alerts": {"added": [], "changed": [], "removed": []},
        "warnings": [],
    }
    assert lab.store.apply.commit(wanted) == plan
    assert sorted(lab.work()) == ["b", "e"]


def test_an_apply_without_any_change_does_nothing(lab: Lab) -> None:
    """The same definitions again: no version, no consideration, no run, no event."""
    definitions = workflow("b", "a"), workflow("c", "b")
    lab.apply(*definitions)
    lab.report("a", "1")
    lab.work()
    events = lab.one("SELECT count(*) FROM events")
    plan = lab.apply(*definitions)
    assert plan.empty
    assert plan.unchanged == ["b", "c"]
    assert lab.rows("SELECT * FROM considerations") == []
    assert lab.one("SELECT count(*) FROM events") == events
    assert lab.work() == []


def test_an_apply_is_told(lab: Lab) -> None:
    """Every added, changed and retired workflow is an event, and the epoch moves so that graphs are read again."""
    first = epoch(lab)
    lab.apply(workflow("b", "a"), workflow("c", "b"))
    lab.apply(workflow("b", "a", entrypoint="jobs:other"))
    told = [(event["data"]["change"], event["subject"]) for event in lab.events("workflow.definition.updated")]
    assert sorted(told) == [("added", "b"), ("added", "c"), ("changed", "b"), ("retired", "c")]
    assert epoch(lab) == first + 2


def test_an_apply_that_fails_leaves_the_old_definitions(lab: Lab) -> None:
    """One transaction: with the last statement gone, all is as before."""
    lab.apply(workflow("b", "a", freshness={"ttlMs": HOUR}))
    lab.report("a", "1")
    lab.work()
    before = lab.everything()

    def crash() -> None:
        raise FailpointError("planted")

    with failpoints.armed("apply:before", crash), pytest.raises(FailpointError):
        lab.apply(workflow("n", "a", outputs=["b"]))
    assert lab.everything() == before


def test_retiring_takes_everything_that_would_act(lab: Lab) -> None:
    """Queued runs, timers and considerations go; versions, runs, snapshots and decisions stay.

    See docs/semantics.md#R10.2.
    """
    lab.apply(workflow("b", "a", freshness={"cadenceMs": HOUR}), workflow("c", "b"))
    lab.report("a", "1")
    lab.work()
    lab.report("a", "2")
    lab.settle()
    lab.apply(workflow("c", "b"))
    assert lab.rows("SELECT * FROM timers") == []
    assert lab.active() == []
    assert lab.one("SELECT count(*) FROM edges e JOIN workflows w ON w.id = workflow_id WHERE slug = 'b'") == 0
    assert lab.one("SELECT count(*) FROM snapshots WHERE asset_id = 'b'") == 1
    lab.advance(hours=5)
    assert lab.work() == []
    assert lab.one("SELECT producer_id FROM assets WHERE id = 'b'") is None


def test_queued_runs_of_unchanged_workflows_stay(lab: Lab) -> None:
    """Apply ends only the queued automatic runs of what changed; manual ones stay as they were asked for.

    See docs/semantics.md#R10.2.
    """
    lab.apply(workflow("b", "a"), workflow("c", "a"))
    lab.report("a", "1")
    lab.settle()
    asked = lab.store.operations.request_run("b")
    lab.apply(workflow("b", "a", auto={"onUpstreamUpdate": True, "priority": 1}), workflow("c", "a"))
    assert lab.active() == ["b", "c"]
    lab.settle()
    runs = {str(run["id"]): run for run in lab.runs("b")}
    assert runs[asked]["status"] == "queued"
    assert runs[asked]["version"] == 1


def test_sources_keep_their_declaration_until_it_is_removed(lab: Lab) -> None:
    """A declared source belongs to its project; a consumed name alone declares nothing (docs/semantics.md#R3)."""
    lab.apply(workflow("b", "a x"), sources=("a",))
    owners = {row["id"]: row["source_project"] for row in lab.rows("SELECT id, source_project FROM assets")}
    assert owners == {"a": "lab", "b": None, "x": None}
    lab.apply(workflow("b", "a x"))
    assert lab.one("SELECT source_project FROM assets WHERE id = 'a'") is None


def test_an_edited_input_is_an_edge_of_the_new_version(lab: Lab) -> None:
    """A workflow that consumes something else is looked at for that, and no longer for the old input."""
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.work()
    lab.apply(workflow("b", "x"), sources=("a",))
    lab.report("a", "2")
    assert lab.work() == []
    assert lab.reason("b") == "input-missing"
    lab.report("x", "1")
    assert lab.work() == ["b"]
    assert lab.state("b")["consumed_versions"] == {"x": {"sequence": 1, "dataVersion": "1"}}


def test_one_apply_has_one_time(database_url: str) -> None:
    """It is the origin of what the apply makes stale, by which a proposal knows what belongs together."""
    database = KeptDatabase(database_url)
    database.open()
    try:
        store = Store(database, Settings(project=Path("/nowhere")))
        store.apply.commit(project(*(workflow(f"w{number}", "a") for number in range(50))))
        with database.connection() as connection:
            times = connection.execute("SELECT DISTINCT applied_at FROM workflows").fetchall()
    finally:
        database.close()
    assert len(times) == 1
