"""Rows of older code in appended and merged tables are never called fresh without a mark (docs/semantics.md#R9.9)."""

from __future__ import annotations

from typing import Any

import pytest

from freshline.errors import ConflictError, NotFoundError
from freshline.model.run import ClaimedRun, StagedOutput
from tests.store_harness import ON_UPDATE, Lab

FILES = {"assetId": "files", "mode": "append"}
SECONDS = 30


def loads(job: str = "work", *, mode: str = "append", source: str = "files", **table: Any) -> dict[str, Any]:
    """Return a workflow `load` that makes the table `orders` with the code `job`."""
    keys = {"keys": ["id"]} if mode == "merge" else {}
    produced = {"assetId": "orders", "autoMaterialize": ON_UPDATE, "table": {"mode": mode, **keys, **table}}
    step = {
        "id": "work",
        "job": {"kind": "spark.python", "entrypoint": f"jobs:{job}"},
        "consumes": [{"assetId": source, "rows": "new"}],
        "produces": [produced],
    }
    return {"slug": "load", "steps": [step]}


def staged(run: ClaimedRun, added: int = 100) -> list[StagedOutput]:
    """Return what a run stages: `added` rows per new delivery are appended or merged, or all are written again."""
    output = run.definition["steps"][0]["produces"][0]
    mode, head = output["table"]["mode"], run.inputs.get(output["assetId"])
    everything = head is None or bool(run.trigger.get("fullRefresh")) or run.rebuilt is not None
    read = run.positions.get("orders", {}).get("files")
    source = run.inputs[run.definition["steps"][0]["consumes"][0]["assetId"]]
    new = added if read is None or read.data_version != source.data_version else 0
    total = added * 2 if everything else (head.rows or 0 if head else 0) + new
    version = f"rows-{run.definition['steps'][0]['job']['entrypoint']}-{total}"
    return [
        StagedOutput(
            output["assetId"],
            "work",
            head.data_version if head and not everything and not new else version,
            {"format": "parquet", "paths": [f"orders/data/{run.id}-1-1"], "files": {}},
            rows=total,
            appended=mode == "append" and not everything,
            merged=mode == "merge" and not everything,
            based_on=head.sequence if head else 0,
        )
    ]


def work(lab: Lab) -> None:
    """Execute what is queued; each run takes a while."""
    for _ in range(20):
        lab.settle()
        run = lab.claim()
        if run is None:
            return
        lab.advance(seconds=SECONDS)
        lab.store.runs.publish(run, staged(run))
    raise AssertionError("it never stops running")


def undecided(lab: Lab, asset_id: str = "orders") -> Any:
    """Return the state of the asset, and what waits for a decision."""
    [one] = lab.store.reader.status(asset_id)["assets"]
    assert lab.store.reader.asset(asset_id)["needsDecision"] == one["needsDecision"]
    return one["state"], one["needsDecision"]


def begin(lab: Lab, **table: Any) -> None:
    """Load two deliveries with the first code: 200 rows at first, and 100 more."""
    lab.apply(loads(**table), sources=(FILES,))
    for number in ("1", "2"):
        lab.report("files", number)
        work(lab)


def test_fresh_data_with_rows_of_older_code_says_so(lab: Lab) -> None:
    """The increment runs with the new code at once. The rows before are counted until somebody decides."""
    begin(lab)
    assert undecided(lab) == ("fresh", None)
    lab.apply(loads("better"), sources=(FILES,))
    work(lab)
    lab.report("files", "3")
    work(lab)
    state, found = undecided(lab)
    assert state == "fresh"
    assert found == {
        "rows": 300,
        "exact": True,
        "versions": [1],
        "partitions": [],
        "partitionsTotal": 0,
        "rebuildMs": SECONDS * 1000 * 2,  # 400 rows, and the complete computation of 200 took this long
    }


def test_a_version_with_another_policy_is_no_other_code(lab: Lab) -> None:
    """Fingerprints of jobs are compared, not versions of the workflow."""
    begin(lab)
    lab.apply({**loads(), "maxConcurrency": 3}, sources=(FILES,))
    lab.report("files", "3")
    work(lab)
    assert undecided(lab) == ("fresh", None)


def test_code_that_comes_back_makes_its_rows_current(lab: Lab) -> None:
    """After a revert, the rows of the code in between are the older ones."""
    begin(lab)
    lab.apply(loads("better"), sources=(FILES,))
    lab.report("files", "3")
    work(lab)
    lab.apply(loads(), sources=(FILES,))
    work(lab)
    state, found = undecided(lab)
    assert (state, found["rows"], found["versions"]) == ("fresh", 100, [2])


def test_a_full_refresh_answers(lab: Lab) -> None:
    """Everything is of one code then."""
    begin(lab)
    lab.apply(loads("better"), sources=(FILES,))
    work(lab)
    assert undecided(lab)[1]["rows"] == 300
    lab.store.operations.request_run("load", full_refresh=True)
    work(lab)
    assert undecided(lab) == ("fresh", None)


def test_a_run_of_the_code_before_answers_nothing(lab: Lab) -> None:
    """A full refresh that was queued before the apply and ends after it computes rows of older code."""
    begin(lab)
    lab.store.operations.request_run("load", full_refresh=True)
    run = lab.start()
    lab.apply(loads("better"), sources=(FILES,))
    lab.store.runs.publish(run, staged(run))
    work(lab)
    state, found = undecided(lab)
    assert (state, found["rows"]) == ("fresh", 200)


def test_a_rollback_to_rows_of_older_code_shows_them_again(lab: Lab) -> None:
    """A version brings the code of its rows along."""
    begin(lab)
    lab.apply(loads("better"), sources=(FILES,))
    lab.store.operations.request_run("load", full_refresh=True)
    work(lab)
    assert undecided(lab)[1] is None
    lab.store.tables.rollback("orders", 1)
    assert undecided(lab)[1]["rows"] == 200


def test_no_rows_need_no_decision(lab: Lab) -> None:
    """Code that made nothing has left nothing behind."""
    lab.apply(loads(), sources=(FILES,))
    lab.report("files", "1")
    lab.settle()
    run = lab.start()
    lab.store.runs.publish(run, staged(run, 0))
    lab.apply(loads("better"), sources=(FILES,))
    lab.report("files", "2")
    work(lab)
    assert undecided(lab) == ("fresh", None)


def test_rows_of_a_merge_are_a_limit(lab: Lab) -> None:
    """A merge replaces rows, and nobody counts whose they were."""
    begin(lab, mode="merge")
    lab.apply(loads("better", mode="merge"), sources=(FILES,))
    lab.report("files", "3")
    work(lab)
    found = undecided(lab)[1]
    assert (found["rows"], found["exact"]) == (300, False)


def test_keep_accepts_rows_of_older_code(lab: Lab) -> None:
    """Whoever keeps is not asked, also when a later definition asks: it was accepted for this code."""
    begin(lab, onCodeChange="keep")
    lab.apply(loads("better", onCodeChange="keep"), sources=(FILES,))
    assert undecided(lab)[1] is None
    work(lab)
    assert undecided(lab) == ("fresh", None)
    lab.apply(loads("better"), sources=(FILES,))
    work(lab)
    assert undecided(lab) == ("fresh", None)
    lab.apply(loads("best"), sources=(FILES,))
    work(lab)
    assert undecided(lab)[1]["rows"] == 300


def test_rows_of_before_the_upgrade_count_as_current(lab: Lab) -> None:
    """Nobody knows which code made them, and nobody is asked because of the upgrade."""
    begin(lab)
    lab.rows("UPDATE snapshots SET code = NULL RETURNING 1")
    lab.apply(loads("better"), sources=(FILES,))
    lab.report("files", "3")
    work(lab)
    assert undecided(lab) == ("fresh", None)
    lab.apply(loads("best"), sources=(FILES,))
    work(lab)
    assert undecided(lab)[1]["rows"] == 100


def test_accepted_rows_are_asked_about_after_the_next_change(lab: Lab) -> None:
    """An answer is about one change. It goes with the rows, and a version from before it asks again."""
    begin(lab)
    lab.apply(loads("better"), sources=(FILES,))
    work(lab)
    accepted = lab.store.operations.accept("orders")
    assert accepted == {"assetId": "orders", "rows": 300, "partitions": 0}
    assert [one["data"]["rows"] for one in lab.events("asset.code.accepted")] == [300]
    assert undecided(lab)[1] is None
    lab.report("files", "3")
    work(lab)
    assert undecided(lab)[1] is None, "the answer goes with the rows"
    lab.apply(loads("best"), sources=(FILES,))
    work(lab)
    found = undecided(lab)[1]
    assert (found["rows"], found["versions"]) == (400, [1, 2])
    lab.apply(loads("better"), sources=(FILES,))
    work(lab)
    assert undecided(lab)[1] is None, "it was accepted for this code"
    lab.store.tables.rollback("orders", 1)
    assert undecided(lab)[1]["rows"] == 200


def test_an_answer_that_nobody_asked_for_is_refused(lab: Lab) -> None:
    """The error says why there is nothing to accept."""
    begin(lab)
    with pytest.raises(ConflictError, match="asset 'orders' needs no decision: no rows of older code wait"):
        lab.store.operations.accept("orders")
    with pytest.raises(ConflictError, match="asset 'files' is a source"):
        lab.store.operations.accept("files")
    with pytest.raises(NotFoundError, match="asset 'ordres' does not exist"):
        lab.store.operations.accept("ordres")
    lab.apply(loads("better"), sources=(FILES,))
    lab.store.operations.accept("orders")
    with pytest.raises(ConflictError, match="needs no decision"):
        lab.store.operations.accept("orders")
    lab.apply(loads("best", mode="overwrite"), sources=(FILES,))
    with pytest.raises(ConflictError, match="has table mode 'overwrite'"):
        lab.store.operations.accept("orders")


def test_a_baseline_accepts_also_what_did_not_change_now(lab: Lab) -> None:
    """`apply --baseline now` takes the data of the whole project as it is."""
    begin(lab)
    lab.apply(loads("better"), sources=(FILES,))
    work(lab)
    assert undecided(lab)[1] is not None
    lab.apply(loads("better"), sources=(FILES,), baseline=True)
    assert undecided(lab) == ("fresh", None)


def test_rebuild_computes_everything_again_once(lab: Lab) -> None:
    """The first success with the new code is a full refresh, also if it is a retry or a manual run."""
    begin(lab, onCodeChange="rebuild")
    lab.apply(loads("better", onCodeChange="rebuild"), sources=(FILES,))
    lab.settle()
    assert undecided(lab)[1] is None, "the next run does it by itself"
    run = lab.start()
    assert run.rebuilt == "orders"
    lab.fail(run)
    lab.store.operations.request_run("load")
    run = lab.start()
    assert run.rebuilt == "orders"
    lab.store.runs.publish(run, staged(run))
    assert undecided(lab) == ("fresh", None)
    assert lab.one("SELECT rows FROM snapshots WHERE asset_id = 'orders' ORDER BY sequence DESC LIMIT 1") == 200
    lab.report("files", "3")
    lab.settle()
    run = lab.start()
    assert run.rebuilt is None
    lab.store.runs.publish(run, staged(run))
    lab.store.tables.rollback("orders", 1)
    assert undecided(lab)[1]["rows"] == 200, "a rollback is asked about"
    lab.report("files", "4")
    lab.settle()
    assert lab.start().rebuilt is None


def test_only_the_current_code_rebuilds(lab: Lab) -> None:
    """A run of the code before, on a worker that still has it, must not replace rows of the new code."""
    begin(lab, onCodeChange="rebuild")
    lab.store.operations.request_run("load")
    lab.apply(loads("better", onCodeChange="rebuild"), sources=(FILES,))
    run = lab.start_of("load")
    assert (run.version, run.rebuilt) == (1, None)


def test_what_would_be_lost_is_not_rebuilt(lab: Lab) -> None:
    """Rows that the inputs do not hold any more are never dropped by themselves: the asset asks."""
    drop = {"assetId": "drop", "format": "csv", "path": "drop"}
    table = {"onReplacedInput": "append", "onCodeChange": "rebuild", "source": "drop"}
    lab.apply(loads(**table), sources=(drop,))
    for number in ("1", "2"):
        lab.report("drop", number)
        work(lab)
    lab.apply(loads("better", **table), sources=(drop,))
    lab.settle()
    run = lab.start()
    assert run.rebuilt is None
    lab.store.runs.publish(run, staged(run))
    assert undecided(lab)[1]["rows"] == 300


def test_one_output_is_answered_and_the_other_waits(lab: Lab) -> None:
    """Each table of a workflow has rows and an answer of its own."""

    def both(job: str) -> dict[str, Any]:
        flow = loads(job)
        flow["steps"].append({**flow["steps"][0], "id": "more", "produces": [
            {"assetId": "other", "table": {"mode": "append", "onCodeChange": "keep"}},
        ]})  # fmt: skip
        return flow

    def outputs(run: ClaimedRun) -> list[StagedOutput]:
        location = {"format": "parquet", "paths": [f"other/data/{run.id}-1-1"], "files": {}}
        added = "other" in run.inputs
        return [*staged(run), StagedOutput("other", "more", f"o-{run.id}", location, rows=5, appended=added)]

    lab.apply(both("work"), sources=(FILES,))
    lab.report("files", "1")
    lab.work_with(outputs)
    lab.apply(both("better"), sources=(FILES,))
    lab.work_with(outputs)
    assert undecided(lab)[1]["rows"] == 200
    assert undecided(lab, "other")[1] is None
    lab.store.operations.accept("orders")
    assert undecided(lab)[1] is None


@pytest.mark.parametrize("rename", [True, False])
def test_runs_may_be_forgotten(lab: Lab, *, rename: bool) -> None:
    """What the rows were made by does not depend on runs. A method of fingerprints that changes alone asks nobody."""
    begin(lab)
    lab.rows("UPDATE snapshots SET run_id = NULL, attempt = NULL RETURNING 1")
    lab.rows("DELETE FROM run_steps RETURNING 1")
    lab.rows("UPDATE decisions SET outcome = 'skip', run_id = NULL RETURNING 1")
    lab.rows("DELETE FROM runs RETURNING 1")
    if rename:  # what `apply` does for a job whose fingerprint another method computed (docs/adr/0031)
        lab.rows("UPDATE workflow_versions SET job_fingerprint = 'other' RETURNING 1")
        lab.rows("UPDATE workflows SET job_fingerprint = 'other' RETURNING 1")
        lab.rows("UPDATE workflow_partitions SET job_fingerprint = 'other' RETURNING 1")
        assert undecided(lab)[1] is None
    else:
        lab.apply(loads("better"), sources=(FILES,))
        work(lab)
        found = undecided(lab)[1]
        assert (found["rows"], found["rebuildMs"]) == (300, None)


def days(job: str = "work", **table: Any) -> dict[str, Any]:
    """Return the workflow with a partition per day."""
    flow = loads(job, source="raw", **table)
    flow["steps"][0]["produces"][0]["partitioning"] = {"time": "day", "start": "2026-01-03"}
    return flow


def test_partitions_are_counted_and_accepted_together(lab: Lab) -> None:
    """Each partition has a head of its own; one answer is about all of them."""

    def outputs(run: ClaimedRun) -> list[StagedOutput]:
        head = run.inputs.get("orders")
        rows = 100 + (head.rows or 0 if head else 0)
        location = {"format": "parquet", "paths": [f"orders/data/{run.id}-1-1"], "files": {}}
        version = f"{run.version}-{rows}-{run.partition_key}"
        return [StagedOutput("orders", "work", version, location, rows=rows, appended=head is not None)]

    source = {"assetId": "raw", "partitioning": {"time": "day", "start": "2026-01-03"}}
    lab.apply(days(onCodeChange="ask"), sources=(source,))
    for key in ("2026-01-03", "2026-01-04"):
        lab.report("raw", "1", partition_key=key)
    lab.work_with(outputs)
    assert undecided(lab)[1] is None
    lab.apply(days("better", onCodeChange="ask"), sources=(source,))
    lab.work_with(outputs)
    found = undecided(lab)[1]
    assert (found["rows"], found["partitions"], found["partitionsTotal"]) == (200, ["2026-01-04", "2026-01-03"], 2)
    assert lab.store.operations.accept("orders") == {"assetId": "orders", "rows": 200, "partitions": 2}
    assert undecided(lab)[1] is None
