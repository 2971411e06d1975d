"""Publishing: all outputs at once or none, with their events, timers and consumed versions (docs/semantics.md#R9)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from freshline import failpoints
from freshline.model.run import ClaimedRun, StagedOutput
from freshline.store.db.database import LostConnectionError
from tests.store_harness import Lab, laboratory, workflow

HOUR = 3_600_000
PRODUCED = {
    "assetId",
    "partitionKey",
    "workflowSlug",
    "workflowId",
    "runId",
    "stepId",
    "producedAt",
    "freshness",
    "dataVersion",
    "changed",
    "rows",
    "bytes",
    "payload",
}


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a lab with a workflow that reads a and has two outputs."""
    with laboratory(database_url) as lab:
        lab.apply(workflow("w", "a", outputs=["x", "y"], freshness={"ttlMs": HOUR, "maxAgeMs": 2 * HOUR}))
        lab.report("a", "1")
        yield lab
        assert lab.forgotten() == 0


def running(lab: Lab) -> ClaimedRun:
    """Claim the run."""
    lab.settle()
    return lab.start()


def outputs(version: str = "v1") -> list[StagedOutput]:
    """Return the outputs of the run."""
    return [StagedOutput(one, "work", version, rows=3, bytes=10, payload={"of": one}) for one in ("y", "x")]


def test_everything_of_a_run_appears_at_once(lab: Lab) -> None:
    """Snapshots, heads, events, timers, vector and the run's end carry the same moment (docs/semantics.md#R9.1)."""
    run = running(lab)
    lab.advance(minutes=7)
    assert lab.store.runs.publish(run, outputs(), metrics={"seconds": 1}) == ["x", "y"]
    moments = lab.rows("SELECT produced_at, expires_at FROM snapshots WHERE run_id = %s", run.id)
    assert [(row["produced_at"], row["expires_at"]) for row in moments] == [(lab.now, lab.now + timedelta(hours=1))] * 2
    assert {row["time"] for row in lab.events("asset.produced")[1:]} == {lab.now}
    due = {(row["asset_id"], row["kind"]): row["due_at"] for row in lab.rows("SELECT * FROM timers")}
    assert due == {
        (asset, kind): lab.now + timedelta(hours=hours)
        for asset in "xy"
        for kind, hours in (("expiry", 1), ("overdue", 2))
    }
    state = lab.state("w")
    assert state["consumed_versions"] == {"a": {"sequence": 1, "dataVersion": "1"}}
    job = lab.one("SELECT job_fingerprint FROM workflows WHERE id = %s", run.workflow_id)
    assert (state["succeeded_at"], state["job_fingerprint"]) == (lab.now, job)
    row = lab.runs("w")[0]
    assert (row["status"], row["finished_at"], row["lease_until"]) == ("succeeded", lab.now, None)
    assert row["result"] == {"assets": ["x", "y"], "unchanged": [], "metrics": {"seconds": 1}}


def test_the_produced_event_has_the_fields_of_the_design(lab: Lab) -> None:
    """Exactly these fields; parameters only if the workflow says so."""
    lab.store.runs.publish(running(lab), outputs())
    events = {event["subject"]: event["data"] for event in lab.events("asset.produced")}
    assert set(events["x"]) == set(events["a"]) == PRODUCED
    assert events["x"]["workflowSlug"] == "w"
    assert (events["x"]["rows"], events["x"]["bytes"], events["x"]["payload"]) == (3, 10, {"of": "x"})
    assert events["x"]["freshness"] == {"ttlMs": HOUR, "maxAgeMs": 2 * HOUR}
    assert events["a"]["workflowSlug"] is None
    lab.store.operations.request_run("w", {"secret": 1})
    lab.store.runs.publish(running(lab), outputs("v2"), publish_parameters=True)
    assert lab.events("asset.produced")[-1]["data"]["parameters"] == {"secret": 1}


def test_the_produced_event_tells_the_checks(lab: Lab) -> None:
    """Label, severity, outcome and what was observed: failed ones first, and a limit; the snapshot has them all."""
    passed = [{"check": f"c{n}", "severity": "error", "passed": True, "observed": n} for n in range(60)]
    warned = {"check": "w", "severity": "warn", "passed": False, "observed": {"count": 1}, "message": "one is wrong"}
    made = [StagedOutput("x", "work", "v1", checks=[*passed, warned]), StagedOutput("y", "work", "v1", checks=[])]
    lab.store.runs.publish(running(lab), made)
    events = {event["subject"]: event["data"] for event in lab.events("asset.produced")}
    assert events["x"]["checks"] == [{k: v for k, v in warned.items() if k != "message"}, *passed[:49]]
    assert events["y"]["checks"] == []
    assert lab.one("SELECT checks FROM snapshots WHERE asset_id = 'x'") == [*passed, warned]


def test_one_bad_output_publishes_none(lab: Lab) -> None:
    """An error in the last row takes back all the others, and the run may still be failed."""
    run, before = running(lab), lab.everything()
    bad = [*outputs()[1:], StagedOutput("y", "work", "v1", rows=2**70)]
    with pytest.raises(psycopg.DataError):
        lab.store.runs.publish(run, bad)
    assert lab.everything() == before
    lab.fail(run)


def test_an_output_of_nobody_is_not_published(lab: Lab) -> None:
    """What the workflow does not own is left out, without an error (docs/semantics.md#R10.2)."""
    assert lab.store.runs.publish(running(lab), [*outputs(), StagedOutput("stray", "work", "v")]) == ["x", "y"]
    assert lab.rows("SELECT * FROM assets WHERE id = 'stray'") == []


def test_a_commit_whose_answer_got_lost_is_looked_up(lab: Lab) -> None:
    """Unknown is not failed: the run is looked up by its id, and the worker goes on as if it had heard.

    Also if it could not be looked up at once: publishing again finds that this attempt has published.
    """
    run = running(lab)
    with failpoints.armed_with("publish_run:after", failpoints.drop):
        assert sorted(lab.store.runs.publish(run, outputs())) == ["x", "y"]
    assert sorted(lab.store.runs.publish(run, outputs())) == ["x", "y"]
    assert lab.head("x")["sequence"] == 1


def test_a_commit_that_never_came_is_an_error(lab: Lab) -> None:
    """The same loss before the commit is told, and trying again publishes once."""
    run = running(lab)
    with failpoints.armed_with("publish_run:before", failpoints.drop), pytest.raises(LostConnectionError):
        lab.store.runs.publish(run, outputs())
    assert lab.store.runs.publish(run, outputs()) == ["x", "y"]
    assert lab.head("x")["sequence"] == 1


def test_freshness_that_the_job_returned_wins(lab: Lab) -> None:
    """`result.assets[].freshness` speaks for this production."""
    named = [StagedOutput("x", "work", "v1", freshness={"ttlMs": 60_000}), *outputs()[:1]]
    lab.store.runs.publish(running(lab), named)
    due = {row["asset_id"]: row["due_at"] for row in lab.rows("SELECT * FROM timers WHERE kind = 'expiry'")}
    assert due == {"x": lab.now + timedelta(minutes=1), "y": lab.now + timedelta(hours=1)}
    told = {event["subject"]: event["data"]["freshness"] for event in lab.events("asset.produced")}
    assert told["x"] == {"ttlMs": 60_000}
    lab.apply({**lab.applied["w"], "description": "edited"})
    again = {row["asset_id"]: row["due_at"] for row in lab.rows("SELECT * FROM timers WHERE kind = 'expiry'")}
    assert again == due, "an edit of something else leaves it"


def test_a_job_without_freshness_has_no_clock(lab: Lab) -> None:
    """A production by a definition without any freshness removes the clocks of the one before."""
    lab.store.runs.publish(running(lab), outputs())
    lab.apply(workflow("w", "a", outputs=["x", "y"]))
    assert lab.rows("SELECT * FROM timers") == []
    lab.report("a", "2")
    lab.store.runs.publish(running(lab), outputs("v2"))
    assert lab.rows("SELECT * FROM timers") == []


def test_publishing_touches_no_consideration(lab: Lab) -> None:
    """It only appends; the absorber notes who has to look (docs/semantics.md#R9.2)."""
    run = running(lab)
    lab.store.runs.publish(run, outputs())
    assert lab.rows("SELECT * FROM considerations") == []
    kinds = lab.rows("SELECT kind, count(*) AS count FROM inbox GROUP BY kind ORDER BY kind")
    assert kinds == [{"kind": "changed", "count": 2}, {"kind": "ended", "count": 1}]


def test_logs_are_numbered_and_bounded(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines keep their order over calls and attempts, up to the limit of a run."""
    monkeypatch.setattr("freshline.store.runs.runs.MOST_LOG_LINES", 5)
    run = running(lab)
    for part in range(3):
        lines = [{"step_id": "work", "stream": "stdout", "text": f"{part}.{line}"} for line in range(2)]
        lab.store.runs.append_logs(run.id, run.attempt, lines, after=2 * part)
    found = lab.rows("SELECT line, text FROM run_logs ORDER BY line")
    assert [(row["line"], row["text"]) for row in found] == [
        (1, "0.0"),
        (2, "0.1"),
        (3, "1.0"),
        (4, "1.1"),
        (5, "2.0"),
    ]
