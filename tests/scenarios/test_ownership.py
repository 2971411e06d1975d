"""Workflows that are removed, added again, renamed or given other outputs, while runs are queued and running.

An output counts as fresh only if its own workflow made it, from the versions that count as consumed
(docs/semantics.md#R1.1, docs/semantics.md#R10.2).
"""

from __future__ import annotations

import pytest

from freshline.model.run import StagedOutput
from tests.store_harness import ON_UPDATE, Lab, workflow

KEEP = workflow("other", "z")  # stays in the project while others leave it


def produced_from(lab: Lab, asset_id: str) -> dict[str, str]:
    """Return the data versions of the inputs from which the head of an asset was made."""
    row = lab.one(
        "SELECT s.inputs FROM heads h JOIN snapshots s USING (asset_id, partition_key, sequence) WHERE asset_id = %s",
        asset_id,
    )
    return {one: pin["dataVersion"] for one, pin in row.items()}


def test_a_workflow_that_is_removed_and_added_while_it_runs_loses_no_update(lab: Lab) -> None:
    """The run's output is dropped, so the versions that it read are not consumed."""
    lab.apply(workflow("b", "a"), KEEP)
    lab.report("a", "0")
    lab.work()
    lab.report("a", "1")
    lab.settle()
    run = lab.start()
    lab.apply(KEEP)
    lab.finish(run)
    lab.settle()
    assert lab.runs("b")[-1]["result"]["assets"] == []
    lab.apply(workflow("b", "a"), KEEP)
    assert lab.work() == ["b"]
    assert produced_from(lab, "b") == {"a": "1"}
    assert lab.forgotten() == 0


def test_the_run_of_a_removed_workflow_consumes_nothing(lab: Lab) -> None:
    """Its output was dropped, so the versions that it read stay pending."""
    lab.apply(workflow("b", "a"), KEEP)
    lab.report("a", "0")
    lab.work()
    lab.report("a", "1")
    lab.settle()
    run = lab.start()
    lab.apply(KEEP)
    lab.finish(run)
    assert lab.state("b")["consumed_versions"]["a"]["dataVersion"] == "0"


def test_a_run_that_ends_after_its_workflow_came_back_publishes(lab: Lab) -> None:
    """Between removal and return nothing was lost, so the run's data is as good as any."""
    lab.apply(workflow("b", "a"), KEEP)
    lab.report("a", "1")
    lab.settle()
    run = lab.start()
    lab.apply(KEEP)
    lab.apply(workflow("b", "a"), KEEP)
    lab.finish(run)
    assert lab.work() == []
    assert produced_from(lab, "b") == {"a": "1"}


@pytest.mark.parametrize("kind", ["automatic", "manual"])
def test_queued_runs_of_a_removed_workflow_end(lab: Lab, kind: str) -> None:
    """No worker may take them, and the update that they were for is not lost."""
    lab.apply(workflow("b", "a"), KEEP)
    lab.report("a", "0")
    lab.work()
    lab.report("a", "1")
    if kind == "automatic":
        lab.settle()
    else:
        lab.store.operations.request_run("b")
    lab.apply(KEEP)
    assert lab.claim() is None
    assert [(run["status"], run["cancel_reason"]) for run in lab.runs("b")[1:]] == [("canceled", "definition-changed")]
    lab.apply(workflow("b", "a"), KEEP)
    assert lab.work() == ["b"]
    assert produced_from(lab, "b") == {"a": "1"}


@pytest.mark.parametrize("kind", ["automatic", "manual"])
def test_a_run_that_lost_its_worker_ends_with_its_workflow(lab: Lab, kind: str) -> None:
    """A run of a removed workflow is not queued again when its worker dies or leaves."""
    lab.apply(workflow("b", "a"), KEEP)
    lab.report("a", "1")
    if kind == "automatic":
        lab.settle()
    else:
        lab.store.operations.request_run("b")
    run = lab.start()
    lab.apply(KEEP)
    lab.store.runs.hand_back(run.id, run.attempt)
    assert lab.runs("b")[-1]["status"] == "canceled"
    assert lab.claim() is None


def test_a_retired_workflow_is_not_claimed(lab: Lab) -> None:
    """The claim itself checks: a queued run of a retired workflow is not executed, however it came to be."""
    lab.apply(workflow("b", "a"), KEEP)
    lab.report("a", "1")
    lab.settle()
    lab.rows("UPDATE workflows SET retired_at = now() WHERE slug = 'b' RETURNING id")
    assert lab.claim() is None


def test_data_of_others_is_not_fresh(lab: Lab) -> None:
    """A workflow that comes back replaces what was reported in its absence (docs/semantics.md#R1.1)."""
    lab.apply(workflow("b", "a"), KEEP)
    lab.report("a", "1")
    lab.work()
    lab.apply(KEEP)
    lab.report("b", "from-outside")
    lab.settle()
    lab.apply(workflow("b", "a"), KEEP)
    assert lab.work() == ["b"]
    decision = lab.rows("SELECT * FROM decisions WHERE outcome = 'run' ORDER BY at DESC, id DESC LIMIT 1")[0]
    assert decision["reason"] == "definition-changed"
    assert decision["evidence"]["foreign"] == [{"assetId": "b", "madeBy": None, "dataVersion": "from-outside"}]
    assert lab.work() == []
    assert lab.reason("b") == "up-to-date"


@pytest.mark.parametrize("auto", [ON_UPDATE, {}, {"onMissing": True, "onUpstreamUpdate": False}])
def test_a_renamed_workflow_makes_its_data_again(lab: Lab, auto: dict[str, bool]) -> None:
    """The new slug is another workflow, and the head was made by the former one."""
    lab.apply(workflow("b", "a"), KEEP)
    lab.report("a", "1")
    lab.work()
    lab.apply(workflow("c", "a", outputs=["b"], auto=auto, entrypoint="jobs:other"), KEEP)
    assert lab.work() == ["c"]
    assert lab.rows("SELECT evidence FROM decisions WHERE outcome = 'run' ORDER BY at DESC, id DESC LIMIT 1")[0][
        "evidence"
    ]["foreign"] == [
        {
            "assetId": "b",
            "madeBy": "b",
            "dataVersion": lab.one("SELECT data_version FROM snapshots WHERE asset_id = 'b' AND sequence = 1"),
        }
    ]
    assert lab.work() == []


def test_a_baseline_accepts_data_of_others(lab: Lab) -> None:
    """`--baseline now` accepts the head as it is; the next update runs as usual."""
    lab.apply(workflow("b", "a"), KEEP)
    lab.report("a", "1")
    lab.work()
    lab.apply(workflow("c", "a", outputs=["b"]), KEEP, baseline=True)
    assert lab.work() == []
    assert lab.forgotten() == 0
    assert lab.reason("c") == "up-to-date"
    lab.report("a", "2")
    assert lab.work() == ["c"]
    assert lab.forgotten() == 0


def test_an_accepted_head_is_accepted_once(lab: Lab) -> None:
    """What was reported after the baseline is not part of it."""
    lab.apply(workflow("c", "a", outputs=["b"]), KEEP)
    lab.report("a", "1")
    lab.work()
    lab.apply(KEEP)
    lab.report("b", "mine")
    lab.apply(workflow("c", "a", outputs=["b"]), KEEP, baseline=True)
    assert lab.work() == []
    lab.apply(KEEP)
    lab.report("b", "theirs")
    lab.apply(workflow("c", "a", outputs=["b"]), KEEP)
    assert lab.work() == ["c"]


def test_existing_data_is_adopted_when_missing_data_is_no_cause(lab: Lab) -> None:
    """With `onMissing: false` a new workflow takes over what is there (docs/semantics.md#R8.2)."""
    quiet = {"onUpstreamUpdate": True, "onMissing": False}
    lab.apply(KEEP, sources=("a", "b"))
    lab.report("a", "1")
    lab.report("b", "by-hand")
    lab.apply(workflow("c", "a", outputs=["b"], auto=quiet), KEEP, sources=("a",))
    assert lab.work() == []
    assert lab.forgotten() == 0
    lab.report("a", "2")
    assert lab.work() == ["c"]


def test_an_adopting_workflow_that_comes_back_loses_no_update(lab: Lab) -> None:
    """Data is adopted at the first apply only: coming back is not a reason to accept what was missed."""
    quiet = {"onUpstreamUpdate": True, "onMissing": False}
    lab.apply(KEEP, sources=("a", "b"))
    lab.report("a", "1")
    lab.report("b", "by-hand")
    lab.apply(workflow("c", "a", outputs=["b"], auto=quiet), KEEP, sources=("a",))
    assert lab.work() == []
    lab.apply(KEEP)
    lab.report("a", "2")
    lab.settle()
    lab.apply(workflow("c", "a", outputs=["b"], auto=quiet), KEEP)
    assert lab.work() == ["c"]


def test_a_rollback_is_not_data_of_others(lab: Lab) -> None:
    """A user rolled back on purpose; nothing runs until an input changes."""
    lab.apply(workflow("b", "a"), KEEP)
    for number in "123":
        lab.report("a", number)
        lab.settle()
        location = {"format": "parquet", "paths": [f"b/data/{number}"], "files": {f"b/data/{number}/x": 1}}
        lab.store.runs.publish(lab.start(), [StagedOutput("b", "work", f"v{number}", location=location)])
    lab.settle()
    lab.store.tables.rollback("b", 1)
    assert lab.work() == []
    assert lab.forgotten() == 0
    lab.apply(workflow("b", "a", auto={**ON_UPDATE, "priority": 5}), KEEP)
    assert lab.work() == []


def test_an_output_that_comes_back_is_made_again(lab: Lab) -> None:
    """An output that another version of the workflow made from older inputs is not fresh."""
    both = workflow("w", "a", outputs=["x", "y"])
    lab.apply(both, KEEP)
    lab.report("a", "1")
    lab.work()
    lab.apply(workflow("w", "a", outputs=["x"]), KEEP)
    lab.report("a", "2")
    assert lab.work() == ["w"]
    lab.apply(both, KEEP)
    assert lab.work() == ["w"]
    assert produced_from(lab, "y") == {"a": "2"}
    assert lab.forgotten() == 0


def test_an_output_that_comes_back_under_another_job_is_made_again(lab: Lab) -> None:
    """The inputs did not change, but the job did while the output was away."""
    lab.apply(workflow("w", "a", outputs=["x", "y"]), KEEP)
    lab.report("a", "1")
    lab.work()
    lab.apply(workflow("w", "a", outputs=["x"], entrypoint="jobs:better"), KEEP)
    assert lab.work() == ["w"]
    lab.apply(workflow("w", "a", outputs=["x", "y"], entrypoint="jobs:better"), KEEP)
    assert lab.work() == ["w"]


def test_an_optional_output_that_comes_back_is_made_again(lab: Lab) -> None:
    """An optional output may be older than the last success, but not because it belonged to nobody."""

    def declared(*outputs: str) -> dict[str, object]:
        flow = workflow("w", "a", outputs=list(outputs))
        for one in flow["steps"][0]["produces"]:
            one["optional"] = one["assetId"] == "y"
        return flow

    lab.apply(declared("x", "y"), KEEP)
    lab.report("a", "1")
    lab.work()
    lab.apply(declared("x"), KEEP)
    lab.report("a", "2")
    assert lab.work() == ["w"]
    lab.apply(declared("x", "y"), KEEP)
    assert lab.work() == ["w"]


def test_an_optional_output_that_was_left_out_is_not_behind(lab: Lab) -> None:
    """The job decided not to make it; nothing runs because of it."""
    flow = workflow("w", "a", outputs=["x", "y"])
    flow["steps"][0]["produces"][1]["optional"] = True
    lab.apply(flow, KEEP)
    lab.report("a", "1")
    lab.work()
    lab.report("a", "2")
    lab.settle()
    lab.finish(lab.start(), without=["y"])
    assert lab.work() == []
    assert lab.forgotten() == 0
    lab.apply({**flow, "description": "other words"}, KEEP)
    assert lab.work() == []


def test_an_optional_output_of_others_is_replaced_once(lab: Lab) -> None:
    """The workflow gets one run to replace it. If the job leaves the output out, the data of others stays."""
    flow = workflow("w", "a", outputs=["x", "y"])
    flow["steps"][0]["produces"][1]["optional"] = True
    lab.apply(KEEP, sources=("a", "y"))
    lab.report("a", "1")
    lab.report("y", "by-hand")
    lab.apply(flow, KEEP, sources=("a",))
    lab.settle()
    lab.finish(lab.start(), without=["y"])
    assert lab.work() == []
    assert lab.reason("w") == "up-to-date"
    assert lab.forgotten() == 0


def test_an_output_that_was_added_during_a_run_is_still_made(lab: Lab) -> None:
    """A run of the former version neither made nor left out the new output."""
    flow = workflow("w", "a", outputs=["x", "y"])
    flow["steps"][0]["produces"][1]["optional"] = True
    lab.apply(workflow("w", "a", outputs=["x"]), KEEP, sources=("a", "y"))
    lab.report("a", "1")
    lab.report("y", "by-hand")
    lab.settle()
    run = lab.start()
    lab.apply(flow, KEEP, sources=("a",))
    lab.finish(run)
    assert lab.work() == ["w"]


def test_a_later_attempt_reads_what_the_first_one_read(lab: Lab) -> None:
    """Its definition is that of its version, whatever the workflow has lost or gained since (docs/semantics.md#R6.1).

    A lost output that the job reads would look as if it had never been produced, also after its new owner made it.
    """
    lab.apply(workflow("w", "a", outputs=["kept", "lost"]), workflow("v", "a", outputs=["gained"]), KEEP)
    lab.report("a", "1")
    lab.work()
    lab.report("a", "2")
    lab.settle()
    first = lab.start_of("w")
    assert first.inputs.keys() == {"a", "kept", "lost"}
    lab.apply(workflow("w", "a", outputs=["kept", "gained"]), workflow("v", "a", outputs=["lost"]), KEEP)
    assert lab.work() == ["v"]
    assert lab.head("lost")["sequence"] == first.inputs["lost"].sequence + 1
    lab.store.runs.hand_back(first.id, first.attempt)
    again = lab.start_of("w")
    assert (again.id, again.attempt) == (first.id, 2)
    assert again.inputs == first.inputs
    assert again.positions == first.positions


def test_the_sweep_compares_what_heads_were_made_from(lab: Lab) -> None:
    """Consumed versions that are ahead of the data do not hide an update from the sweep."""
    lab.apply(workflow("b", "a"), KEEP)
    lab.report("a", "1")
    lab.work()
    lab.report("a", "2")
    lab.settle()
    run = lab.start()
    lab.rows(  # as if an older version had recorded a success without its output
        'UPDATE workflow_partitions SET consumed_versions = \'{"a": {"sequence": 2, "dataVersion": "2"}}\''
        " WHERE workflow_id = (SELECT id FROM workflows WHERE slug = 'b') RETURNING 1"
    )
    lab.rows(
        "UPDATE runs SET status = 'canceled', finished_at = now(), lease_until = NULL WHERE id = %s RETURNING 1", run.id
    )
    lab.rows("DELETE FROM inbox RETURNING 1")
    lab.rows("DELETE FROM considerations WHERE workflow_id = (SELECT id FROM workflows WHERE slug = 'b') RETURNING 1")
    assert lab.forgotten() == 1
    assert lab.work() == ["b"]
    assert produced_from(lab, "b") == {"a": "2"}
