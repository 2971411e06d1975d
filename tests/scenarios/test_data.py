"""Data and owners: versions, moved assets, several projects.

See docs/scenarios.md#scenario-33, docs/scenarios.md#scenario-35, docs/scenarios.md#scenario-37,
docs/scenarios.md#scenario-38.
"""

from __future__ import annotations

import threading

import pytest

from freshline.errors import ConflictError, FreshlineError, NotFoundError, UsageError
from freshline.model.run import StagedOutput
from freshline.store.operations.audit import Actor, acting
from tests.store_harness import Lab, workflow


def test_identical_content_stops_the_wave(lab: Lab) -> None:
    """A producer that runs again with the same result wakes nobody (docs/scenarios.md#scenario-33)."""
    lab.apply(workflow("b", "a"), workflow("c", "b"))
    lab.report("a", "1")
    assert lab.work(b="same") == ["b", "c"]
    decisions = lab.one("SELECT sum(count) FROM decisions d JOIN workflows w ON w.id = workflow_id WHERE slug = 'c'")
    lab.report("a", "2")
    assert lab.work(b="same") == ["b"]
    head = lab.head("b")
    assert (head["sequence"], head["data_version"]) == (2, "same")
    assert lab.one("SELECT changed FROM snapshots WHERE asset_id = 'b' AND sequence = 2") is False
    assert lab.state("b")["runs_avoided"] == 1
    looks = lab.one("SELECT sum(count) FROM decisions d JOIN workflows w ON w.id = workflow_id WHERE slug = 'c'")
    assert looks == decisions, "c was not even looked at (docs/semantics.md#R9.3)"


def test_an_unchanged_output_keeps_the_heads_table(lab: Lab) -> None:
    """An equal output keeps the directory and the table version; a changed one gets the next.

    See docs/semantics.md#R9.3.
    """
    lab.apply(workflow("b", "a"))
    seen = []
    for number, version in enumerate(["x", "x", "y"]):
        lab.report("a", str(number))
        lab.settle()
        output = StagedOutput("b", "work", version, location={"format": "parquet", "paths": [f"b/data/{number}"]})
        lab.store.runs.publish(lab.start(), [output])
        row = lab.rows("SELECT * FROM snapshots WHERE asset_id = 'b' ORDER BY sequence DESC LIMIT 1")[0]
        seen.append((row["location"]["paths"], row["table_version"], row["changed"]))
    assert seen == [(["b/data/0"], 0, True), (["b/data/0"], 0, False), (["b/data/2"], 1, True)]


def test_an_output_without_a_version_counts_as_changed(lab: Lab) -> None:
    """A missing data version is never taken for an equal one (docs/scenarios.md#scenario-33)."""
    lab.apply(workflow("b", "a"), workflow("c", "b"))
    for version in "12":
        lab.report("a", version)
        lab.settle()
        lab.store.runs.publish(lab.start(), [StagedOutput("b", "work", None)])
        assert lab.work() == ["c"]


def test_partition_keys_are_refused_without_partitions(lab: Lab) -> None:
    """A key of something without partitions is refused with a sentence. See docs/scenarios.md#scenario-35."""
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    with pytest.raises(UsageError, match=r"asset 'a' has no partitions, so it has no partition '2013-01-01'"):
        lab.report("a", "2", partition_key="2013-01-01")
    for ask in (
        lambda: lab.store.operations.expire("b", partition_key="2013-01-01"),
        lambda: lab.store.operations.request_run("b", partition_key="2013-01-01"),
    ):
        with pytest.raises(UsageError, match=r"'b' has no partitions, so it has no partition '2013-01-01'"):
            ask()
    assert lab.work() == ["b"]


def test_a_snapshot_says_what_it_stems_from(lab: Lab) -> None:
    """Each snapshot stores its inputs and the versions of the sources behind them (docs/semantics.md#R4.6)."""
    lab.apply(workflow("b", "a"), workflow("c", "x"), workflow("d", "b c"))
    lab.report("a", "1")
    lab.report("x", "7")
    lab.work()
    row = lab.rows("SELECT inputs, sources FROM snapshots WHERE asset_id = 'd'")[0]
    assert set(row["inputs"]) == {"b", "c"}
    assert row["sources"] == {
        "a": {"sequence": 1, "dataVersion": "1"},
        "x": {"sequence": 1, "dataVersion": "7"},
    }


def test_an_asset_that_moved_is_not_published_by_its_former_owner(lab: Lab) -> None:
    """A running run finishes, but what its workflow no longer owns stays untouched.

    See docs/scenarios.md#scenario-37, docs/semantics.md#R10.2.
    """
    lab.apply(workflow("old", "a", outputs=["kept", "moved"]))
    lab.report("a", "1")
    lab.work()
    lab.report("a", "2")
    lab.settle()
    run = lab.start()
    lab.apply(workflow("old", "a", outputs=["kept"]), workflow("new", "a", outputs=["moved"]))
    before = lab.head("moved")
    assert lab.store.runs.publish(run, [StagedOutput(one, "work", "late") for one in ("kept", "moved")]) == ["kept"]
    assert lab.head("moved") == before
    assert lab.head("kept")["data_version"] == "late"
    assert lab.work() == ["new"]
    assert lab.head("moved")["sequence"] == before["sequence"] + 1


def test_a_retired_workflow_publishes_nothing(lab: Lab) -> None:
    """Its running run ends, its asset becomes a source with its last head, and may be reported.

    See docs/semantics.md#R10.2.
    """
    lab.apply(workflow("b", "a"), workflow("c", "b"))
    lab.report("a", "1")
    lab.work()
    lab.report("a", "2")
    lab.settle()
    run = lab.start()
    with pytest.raises(ConflictError, match="produced by workflow 'b'"):
        lab.report("b", "x")
    lab.apply(workflow("c", "b"))
    lab.finish(run)
    assert lab.work() == []
    assert lab.head("b")["sequence"] == 1
    lab.report("b", "from-outside")
    assert lab.work() == ["c"]


def test_a_slug_that_comes_back_keeps_its_history(lab: Lab) -> None:
    """A re-added workflow knows what it has read, and runs only if that is out of date (docs/semantics.md#R10.2)."""
    lab.apply(workflow("b", "a"), workflow("c", "a"))
    lab.report("a", "1")
    lab.work()
    lab.apply(workflow("c", "a"))
    assert lab.work() == []
    lab.apply(workflow("b", "a"), workflow("c", "a"))
    assert lab.work() == []
    assert lab.reason("b") == "up-to-date"
    lab.apply(workflow("c", "a"))
    lab.report("a", "2")
    assert lab.work() == ["c"]
    lab.apply(workflow("b", "a"), workflow("c", "a"))
    assert lab.work() == ["b"]
    assert [run["version"] for run in lab.runs("b")] == [1, 3]


def test_two_applies_at_once_leave_one_owner(lab: Lab) -> None:
    """Two projects claim one asset at the same time: one wins, the other is refused as a whole.

    See docs/scenarios.md#scenario-37.
    """
    lab.apply(workflow("root", "a"))
    outcomes: list[object] = []

    def apply(name: str) -> None:
        try:
            outcomes.append(lab.apply(workflow(name, "a", outputs=["shared"]), workflow(f"{name}-2"), name=name).added)
        except FreshlineError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=apply, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [text for text in outcomes if isinstance(text, str)]
    assert len(refused) == 1
    assert "asset 'shared' is produced by workflow" in refused[0]
    assert lab.one("SELECT count(*) FROM workflows") == 3
    lab.report("a", "1")
    lab.work()


def test_projects_leave_each_other_alone(lab: Lab) -> None:
    """Team B's apply retires nothing of team A, and waves cross projects.

    See docs/scenarios.md#scenario-38, docs/semantics.md#R10.1.
    """
    lab.apply(workflow("b", "a"), name="team-a", sources=("a",))
    plan = lab.apply(workflow("c", "b"), name="team-b")
    assert (plan.added, plan.retired) == (["c"], [])
    lab.report("a", "1")
    lab.settle()
    run = lab.claim(name="team-a")
    assert run is not None
    lab.finish(run)
    lab.settle()
    assert lab.claim(name="team-a") is None
    run = lab.claim(name="team-b")
    assert run is not None
    lab.finish(run)
    assert lab.apply(name="team-b").retired == ["c"]
    assert lab.one("SELECT retired_at FROM workflows WHERE slug = 'b'") is None


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"workflows": [workflow("b", "x")]}, "workflow 'b' belongs to project 'team-a'"),
        (
            {"workflows": [workflow("z", "x", outputs=["b"])]},
            "asset 'b' is produced by workflow 'b' of project 'team-a'",
        ),
        (
            {"workflows": [workflow("z", "x", outputs=["B"])]},
            "asset 'B' differs from the stored asset 'b' only in case",
        ),
        ({"workflows": [workflow("z", "B")]}, "asset 'B' differs from the stored asset 'b' only in case"),
        ({"sources": ("A",)}, "asset 'A' differs from the stored asset 'a' only in case"),
        ({"sources": ("b",)}, "asset 'b' is produced by workflow 'b' of project 'team-a'"),
        ({"sources": ("a",)}, "source 'a' is declared by project 'team-a'"),
        ({"workflows": [workflow("z", outputs=["a"])]}, "source 'a' is declared by project 'team-a'"),
    ],
)
def test_clashes_with_another_project_are_refused(lab: Lab, second: dict[str, object], message: str) -> None:
    """Slugs and asset ids are global; a clash is refused with who has it, and nothing is stored.

    See docs/semantics.md#R10.1.
    """
    lab.apply(workflow("b", "a"), name="team-a", sources=("a",))
    before = lab.rows("SELECT * FROM assets ORDER BY id")
    workflows = second.pop("workflows", [])
    with pytest.raises(FreshlineError, match=message):
        lab.apply(*workflows, name="team-b", **second)  # type: ignore[misc, arg-type]
    assert lab.rows("SELECT * FROM assets ORDER BY id") == before


def test_a_renamed_project_goes_on(lab: Lab) -> None:
    """Queued and running runs continue under the new name, nothing else runs, and the history stays.

    See docs/semantics.md#R10.1.
    """
    pooled = [workflow("b", "a", pool="p"), workflow("c", "b", pool="p"), workflow("d", "a", pool="p")]
    lab.apply(*pooled, sources=("a",), pools={"p": 1})
    lab.apply(*pooled[:2], sources=("a",), pools={"p": 1})
    lab.report("a", "1")
    assert lab.work() == ["b", "c"]
    lab.report("a", "2")
    lab.settle()
    running = lab.start_of("b")
    manual = lab.store.operations.request_run("c")
    with acting(Actor("cli:ann@here")):
        renamed = lab.store.apply.rename("lab", "other")
    assert renamed == {"before": "lab", "project": "other", "workflows": 2, "pools": 1, "sources": 1, "runs": 2}
    assert lab.claim(name="other") is None, "the pool is full: the slot of the running run counts"
    lab.finish(running)
    lab.settle()
    assert lab.claim() is None, "a worker with the old name takes no more runs"
    assert (lab.store.apply.renamed_to("lab"), lab.store.apply.renamed_to("other")) == ("other", None)
    run = lab.claim(name="other")
    assert run is not None
    assert run.id == manual
    lab.finish(run)
    lab.settle()
    while run := lab.claim(name="other"):
        lab.finish(run)
        lab.settle()
    plan = lab.apply(*pooled[:2], name="other", sources=("a",), pools={"p": 1})
    assert plan.empty
    lab.settle()
    assert lab.active() == []
    assert lab.head("c")["sequence"] == 3
    assert [row["name"] for row in lab.rows("SELECT name FROM projects")] == ["other"]
    assert lab.rows("SELECT * FROM workflows WHERE project <> 'other'") == []
    assert lab.apply(*pooled, name="other", sources=("a",), pools={"p": 1}).added == ["d"], "retired ones move too"


def test_a_run_that_is_queued_beside_a_rename_has_the_new_name(lab: Lab) -> None:
    """Whatever is decided after the rename, also by a reconciler that knew the project by its old name."""
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.work()
    lab.store.apply.rename("lab", "other")
    lab.report("a", "2")
    lab.settle()
    assert lab.claim() is None
    assert lab.claim(name="other") is not None


def test_a_source_that_others_still_consume_can_be_given_up(lab: Lab) -> None:
    """A project that no longer declares a source leaves the asset to whoever declares it next.

    See docs/semantics.md#R3.
    """
    lab.apply(workflow("b", "a"), name="team-a", sources=("a",))
    lab.apply(workflow("b", "a"), name="team-a")
    lab.apply(name="team-b", sources=("a",))
    assert lab.one("SELECT source_project FROM assets WHERE id = 'a'") == "team-b"
    lab.report("a", "1")
    run = None
    lab.settle()
    run = lab.claim(name="team-a")
    assert run is not None
    lab.finish(run)


def test_unknown_names_get_a_hint(lab: Lab) -> None:
    """Errors say what there is."""
    lab.apply(workflow("orders", "sales"))
    with pytest.raises(NotFoundError, match="asset 'sale' does not exist") as asset:
        lab.report("sale")
    assert asset.value.hint == "did you mean 'sales'?"
    with pytest.raises(NotFoundError, match="workflow 'order' does not exist"):
        lab.store.operations.pause("order")
    with pytest.raises(ConflictError, match="is a source and has no freshness"):
        lab.store.operations.expire("sales")
    with pytest.raises(UsageError, match="allowed are"):
        lab.report("sales", payload={"much": "x" * 300_000})
