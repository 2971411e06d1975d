"""Append sources: every delivery is read by every consumer exactly once, in order (docs/semantics.md#R3.4)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from freshline.definitions.schema.workflow import Workflow
from freshline.errors import ConflictError, KeyReusedError, NotFoundError, UsageError
from freshline.model.deliveries import Deliveries
from freshline.model.run import ClaimedRun
from freshline.store.operations.audit import Actor, acting
from freshline.worker.increments import plan_reading
from tests.store_harness import Lab, workflow

DROP = {"assetId": "drop", "mode": "append", "format": "csv", "path": "inbox", "allow": ["/in"]}


@pytest.fixture
def drop(lab: Lab) -> Lab:
    """Return a lab with an append source and one consumer."""
    lab.apply(workflow("load", "drop"), sources=(DROP,))
    return lab


def deliver(lab: Lab, name: str, **more: Any) -> int | None:
    """Report one file; return the number of its delivery."""
    return lab.report("drop", payload={"path": f"/in/{name}"}, **more)["delivery"]


def deliveries(lab: Lab, run: ClaimedRun, source: str = "drop") -> Deliveries:
    """Return the deliveries that a run reads, as its step loads them."""
    known = run.inputs[source].deliveries
    assert known is not None
    return Deliveries(known, partial(lab.store.runs.deliveries, source, ""))


def read(lab: Lab, run: ClaimedRun) -> list[str | None]:
    """Return the paths of all deliveries that a run reads."""
    return [one.path for one in deliveries(lab, run)]


def new(lab: Lab, run: ClaimedRun) -> list[str | None]:
    """Return the paths of the deliveries that are new to the run."""
    position = run.positions.get("load", {}).get("drop")
    return [one.path for one in deliveries(lab, run).after(position.table_version if position else None)]


def test_three_quick_reports_are_all_read(drop: Lab) -> None:
    """Reports that arrive while a run is queued or running add to each other: none supersedes another."""
    assert [deliver(drop, "1"), deliver(drop, "2")] == [1, 2]
    drop.settle()
    first = drop.start()
    assert deliver(drop, "3") == 3
    assert (read(drop, first), new(drop, first)) == (["/in/1", "/in/2"], ["/in/1", "/in/2"])
    drop.finish(first)
    drop.settle()
    second = drop.start()
    assert (read(drop, second), new(drop, second)) == (["/in/1", "/in/2", "/in/3"], ["/in/3"])
    drop.finish(second)
    assert drop.work() == []


def test_a_failed_run_reads_its_deliveries_again(drop: Lab) -> None:
    """A delivery counts as read only when the run that read it succeeds."""
    deliver(drop, "1")
    drop.settle()
    drop.fail(drop.start())
    deliver(drop, "2")
    drop.live(hours=1)
    assert new(drop, drop.start()) == ["/in/1", "/in/2"]


def test_an_output_that_moves_away_delivers_nothing_again(lab: Lab) -> None:
    """A run whose worker is lost goes on where its outputs are, although one of them has another owner now."""
    both = workflow("load", "drop", outputs=["load", "copy"])
    lab.apply(both, sources=(DROP,))
    deliver(lab, "1")
    lab.work()
    deliver(lab, "2")
    lab.settle()
    first = lab.start()
    lab.apply(workflow("load", "drop"), workflow("copy", "drop"), sources=(DROP,))
    lab.store.runs.hand_back(first.id, first.attempt)
    again = lab.start_of("load")
    step = Workflow.model_validate(again.definition).steps[0]
    reading = plan_reading(step, {"drop": again.inputs["drop"]}, again.positions)
    assert (reading.full_refresh_reason, reading.since) == (None, {"drop": 1})


def test_a_lower_sequence_is_delivered_too(drop: Lab) -> None:
    """Deliveries add to each other in the order in which they are reported."""
    assert deliver(drop, "2", sequence=2) == 1
    assert deliver(drop, "1", sequence=1) == 2
    drop.settle()
    assert read(drop, drop.start()) == ["/in/2", "/in/1"]


def test_a_key_removes_duplicates_for_ever(drop: Lab) -> None:
    """Also after the snapshot of the first report was forgotten; another file under the same key is an error."""
    assert deliver(drop, "1", key="k") == 1
    assert deliver(drop, "2") == 2
    drop.rows("DELETE FROM snapshots WHERE asset_id = 'drop' AND delivery = 1 RETURNING 1")
    again = drop.report("drop", payload={"path": "/in/1"}, key="k")
    assert (again["duplicate"], again["delivery"]) == (True, 1)
    with pytest.raises(KeyReusedError, match="with another payload"):
        deliver(drop, "3", key="k")
    with pytest.raises(KeyReusedError, match="with another version and sequence"):
        deliver(drop, "1", key="k", version="2", sequence=1)
    drop.settle()
    assert read(drop, drop.start()) == ["/in/1", "/in/2"]


def test_equal_versions_are_two_deliveries(drop: Lab) -> None:
    """A version names a delivery; it does not say that nothing was added."""
    deliver(drop, "1", version="monday")
    drop.work()
    deliver(drop, "2", version="monday")
    drop.settle()
    assert new(drop, drop.start()) == ["/in/2"]


def test_a_report_without_a_file_is_refused(drop: Lab) -> None:
    """The source has files, so the report must name what it adds."""
    with pytest.raises(UsageError, match="names no file; each report of a source with 'mode: append' adds one"):
        drop.report("drop")
    with pytest.raises(UsageError, match="is not allowed"):
        drop.report("drop", payload={"path": "/etc/passwd"})
    assert drop.rows("SELECT 1 FROM deliveries") == []


def test_a_source_without_files_delivers_batches(lab: Lab) -> None:
    """A delivery may be a batch id that only the job understands."""
    lab.apply(workflow("load", "queue"), sources=({"assetId": "queue", "mode": "append"},))
    lab.report("queue", "batch-1", payload={"rows": 3})
    lab.report("queue", "batch-2")
    lab.settle()
    found = deliveries(lab, lab.start(), "queue")
    assert [(one.number, one.version, one.payload) for one in found] == [
        (1, "batch-1", {"rows": 3}),
        (2, "batch-2", None),
    ]


def test_a_new_consumer_reads_everything(drop: Lab) -> None:
    """The list of deliveries belongs to the source, not to its consumers."""
    deliver(drop, "1")
    drop.work()
    deliver(drop, "2")
    drop.work()
    drop.apply(workflow("load", "drop"), workflow("late", "drop"), sources=(DROP,))
    drop.settle()
    assert read(drop, drop.start_of("late")) == ["/in/1", "/in/2"]


def test_a_skipped_delivery_is_left_out_and_its_consumers_try_again(drop: Lab) -> None:
    """Who skipped it and why is stored. It holds nobody any longer, not even until the end of the cooldown."""
    deliver(drop, "1")
    deliver(drop, "broken")
    drop.settle()
    drop.fail(drop.start())
    drop.settle()
    assert drop.claim() is None
    with acting(Actor("cli:ann@host")):
        skipped = drop.store.operations.skip_delivery("drop", 2, "truncated")
    assert (skipped["skipped"]["by"], skipped["skipped"]["reason"]) == ("cli:ann@host", "truncated")
    drop.settle()
    run = drop.start()
    assert read(drop, run) == ["/in/1"]
    drop.finish(run)
    deliver(drop, "3")
    drop.settle()
    assert new(drop, drop.start()) == ["/in/3"]
    assert [one["number"] for one in drop.store.reader.deliveries("drop")] == [3, 2, 1]


def test_a_skip_that_closes_a_breaker_says_so(lab: Lab) -> None:
    """Otherwise the next breaker would be reported twice in a row."""
    lab.apply(workflow("load", "drop", backoff={"budget": 1, "baseMs": 1_000}), sources=(DROP,))
    deliver(lab, "broken")
    lab.settle()
    lab.fail(lab.start())
    lab.settle()
    assert len(lab.events("materializer.breaker.opened")) == 1
    lab.store.operations.skip_delivery("drop", 1, "truncated")
    assert [one["subject"] for one in lab.events("materializer.breaker.closed")] == ["load"]


def test_only_a_delivery_can_be_skipped(drop: Lab) -> None:
    """A number that does not exist, and a source that has none."""
    deliver(drop, "1")
    with pytest.raises(NotFoundError, match="has no delivery 2"):
        drop.store.operations.skip_delivery("drop", 2, "x")
    drop.apply(workflow("load", "drop"), workflow("other", "plain"), sources=(DROP, "plain"))
    with pytest.raises(ConflictError, match="has no deliveries: it is not a source with 'mode: append'"):
        drop.store.operations.skip_delivery("plain", 1, "x")


def test_an_unknown_asset_gets_the_known_ones_and_an_ellipsis_only_if_there_are_more(drop: Lab) -> None:
    """Someone who reads the list must be able to tell whether it is complete."""
    with pytest.raises(NotFoundError) as few:
        drop.store.operations.skip_delivery("zzzzzz", 1, "damaged")
    assert few.value.hint == "known are drop, load"
    drop.apply(workflow("load", "drop"), *(workflow(f"w{number}", "drop") for number in range(4)), sources=(DROP,))
    with pytest.raises(NotFoundError) as many:
        drop.store.operations.skip_delivery("zzzzzz", 1, "damaged")
    assert many.value.hint == "known are drop, load, w0, w1, w2, …"


def test_every_delivery_is_included_in_a_run_and_none_is_superseded(drop: Lab) -> None:
    """The outcome of each report names the run that reads it, also of those that were reported close together."""
    deliver(drop, "0")
    drop.work()
    for name in ("1", "2", "3"):
        deliver(drop, name)
    drop.settle()
    assert fates(drop)[1:] == ["included", "included", "triggered"]
    run = drop.start()
    deliver(drop, "4")
    deliver(drop, "5")
    assert fates(drop)[4:] == ["pending", "pending"]
    drop.fail(run)
    drop.settle()
    assert fates(drop)[1:] == ["held"] * 5
    drop.live(hours=1)
    drop.finish(drop.start())
    assert {*fates(drop)} <= {"included", "triggered"}


def test_a_version_that_looks_like_a_delivery_is_none(lab: Lab) -> None:
    """Versions are texts of the reporter. What a source is, its declaration says."""
    lab.apply(workflow("load", "plain"), sources=("plain",))
    first = lab.report("plain", "delivery:7")
    lab.report("plain", "delivery:8")
    lab.work()
    assert lab.store.reader.event(first["eventId"])["fates"][0]["fate"] == "superseded"
    assert lab.store.reader.deliveries("plain") == []


def fates(lab: Lab) -> list[str]:
    """Return what became of each delivery for its consumer, oldest first."""
    found = lab.store.reader.deliveries("drop")[::-1]
    return [lab.store.reader.event(one["eventId"])["fates"][0]["fate"] for one in found]
