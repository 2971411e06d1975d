"""Updates: nothing is lost, nothing is doubled (docs/scenarios.md#updates)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from freshline.errors import KeyReusedError
from tests.store_harness import Lab, workflow

MINUTE = 60_000


def test_one_report_runs_each_descendant_once(lab: Lab) -> None:
    """A three-level graph: one report leads to exactly one automatic run per descendant, in order."""
    lab.apply(workflow("b", "a"), workflow("c", "b"), workflow("d", "c"))
    lab.report("a", "1")
    assert lab.work() == ["b", "c", "d"]
    assert lab.work() == []
    assert {run["trigger"]["type"] for run in lab.runs()} == {"auto-materialize"}
    lab.report("a", "2")
    assert lab.work() == ["b", "c", "d"]
    assert [run["trigger"]["reason"] for run in lab.runs()[3:]] == ["upstream-update"] * 3


def test_a_source_that_is_faster_than_a_chain_keeps_every_level_busy(lab: Lab) -> None:
    """While the source changes all the time, every level runs at its own pace.

    See docs/scenarios.md#scenario-0, docs/semantics.md#R4.2.
    """
    lab.apply(workflow("b", "a"), workflow("c", "b"), workflow("d", "c"))
    for version in range(12):
        lab.report("a", str(version))
        lab.settle()
        lab.advance(seconds=10)
        # Each round finishes one run of each level that has one, and the source has moved in the meantime.
        for run in [run for _ in range(3) if (run := lab.claim())]:
            lab.report("a", f"{version} during {run.slug}")
            lab.finish(run)
    assert {slug: len(lab.runs(slug)) for slug in "bcd"} == {"b": 12, "c": 11, "d": 10}
    assert not any(run["mixed"] for run in lab.runs())


def test_an_update_before_the_start_is_read_by_the_queued_run(lab: Lab) -> None:
    """A queued run that the materializer sees again takes the new version in; no follow-up.

    See docs/scenarios.md#scenario-1, docs/semantics.md#R6.3.
    """
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.settle()
    second = lab.report("a", "2")
    lab.settle()
    [run] = lab.runs("b")
    assert run["pins"]["a"] == {"sequence": 2, "dataVersion": "2"}
    assert lab.reason("b") == "in-flight"
    assert lab.decision("b")["evidence"]["renewed"] is True
    assert second["eventId"] in run["trigger"]["eventIds"]
    assert run["trigger"]["upstream"][0]["to"] == "2"
    assert lab.work() == ["b"]
    assert lab.state("b")["consumed_versions"]["a"]["dataVersion"] == "2"


def test_an_update_that_nobody_saw_before_the_start_gets_a_follow_up(lab: Lab) -> None:
    """The run starts on its pins; what came between queueing and start is not lost (docs/scenarios.md#scenario-1)."""
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.settle()
    lab.report("a", "2")
    run = lab.start()
    assert run.inputs["a"].data_version == "1"
    lab.settle()
    lab.finish(run)
    assert lab.work() == ["b"]
    assert lab.reads("b") == [{"a": "1"}, {"a": "2"}]


@pytest.mark.parametrize("updates", [1, 3])
@pytest.mark.parametrize("seen", [True, False], ids=["seen-during-the-run", "seen-with-its-end"])
def test_updates_during_a_run_get_one_follow_up(lab: Lab, updates: int, seen: bool) -> None:
    """One follow-up that reads all of them; then nothing more.

    See docs/scenarios.md#scenario-1, docs/scenarios.md#scenario-2.
    """
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.settle()
    run = lab.start()
    for number in range(updates):
        lab.advance(seconds=1)
        lab.report("a", f"1.{number}")
        if seen:
            lab.settle()
            assert lab.reason("b") == "in-flight"
    lab.finish(run)
    assert lab.work() == ["b"]
    assert lab.reads("b") == [{"a": "1"}, {"a": f"1.{updates - 1}"}]
    assert len(lab.runs("b")[1]["trigger"]["eventIds"]) == updates
    assert lab.work() == []


def test_many_sources_of_one_workflow_are_one_run(lab: Lab) -> None:
    """130 sources change within seconds; the debounced workflow runs once and has read them all.

    See docs/scenarios.md#scenario-3.
    """
    sources = [f"s{number}" for number in range(130)]
    lab.apply(workflow("b", list(sources), auto={"onUpstreamUpdate": True, "debounceMs": 10_000}))
    for name in sources:
        lab.report(name, "1")
    assert lab.work() == ["b"], "missing does not wait for the debounce (docs/semantics.md#R5.4)"
    for name in sources:
        lab.report(name, "2")
        lab.advance(seconds=0.1)
        if name.endswith("5"):
            lab.settle()
    assert lab.work() == []
    assert lab.reason("b") == "debouncing"
    lab.advance(seconds=10)
    assert lab.work() == ["b"]
    assert set(lab.reads("b")[1].values()) == {"2"}
    assert len(lab.runs("b")[1]["trigger"]["eventIds"]) == 40, "evidence is bounded"


def test_a_debounce_ends_with_its_longest_delay(lab: Lab) -> None:
    """Updates every 2 s for ever, debounce 10 s, max delay 60 s: a run every 60 s (docs/scenarios.md#scenario-4)."""
    lab.apply(workflow("b", "a", auto={"onUpstreamUpdate": True, "debounceMs": 10_000, "maxDelayMs": 60_000}))
    lab.report("a", "0")
    assert lab.work() == ["b"]
    starts = []
    for tick in range(1, 65):
        lab.advance(seconds=2)
        lab.report("a", str(tick))
        if lab.work():
            starts.append(2 * tick)
    # The first change after each run opens the next minute.
    assert starts == [62, 124]


def test_a_pause_keeps_what_is_pending(lab: Lab) -> None:
    """A pause ends the queued run, holds updates, and one run catches up after it.

    See docs/scenarios.md#scenario-5, docs/semantics.md#R8.3.
    """
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.settle()
    lab.store.operations.pause("b")
    lab.settle()
    [queued] = lab.runs("b")
    assert (queued["status"], queued["cancel_reason"]) == ("canceled", "paused")
    assert lab.reason("b") == "paused"
    for version in "234":
        lab.report("a", version)
    assert lab.work() == []
    assert lab.forgotten() == 0
    lab.store.operations.resume("b")
    assert lab.work() == ["b"]
    assert lab.reads("b")[-1] == {"a": "4"}
    assert lab.work() == []


def test_a_pause_with_an_end_ends_by_itself(lab: Lab) -> None:
    """Nobody has to resume a pause that has an end, and it is looked at exactly then (docs/semantics.md#R8.3)."""
    lab.apply(workflow("b", "a"))
    lab.store.operations.pause("b", lab.now + timedelta(hours=1))
    lab.report("a", "1")
    assert lab.work() == []
    lab.advance(minutes=59)
    assert lab.work() == []
    lab.advance(minutes=1)
    assert lab.work() == ["b"]


def test_quiet_hours_keep_what_is_pending(lab: Lab) -> None:
    """Updates in quiet hours lead to one run when they end (docs/scenarios.md#scenario-5)."""
    lab.apply(workflow("b", "a", quietHours=[{"from": "08:00", "to": "10:00"}]))
    for version in "123":
        lab.report("a", version)
        assert lab.work() == []
        lab.advance(minutes=15)
    assert lab.reason("b") == "quiet-hours"
    lab.advance(minutes=15)
    assert lab.work() == ["b"]
    assert lab.reads("b") == [{"a": "3"}]


def test_a_cooldown_keeps_what_is_pending(lab: Lab) -> None:
    """Updates in a cooldown do not shorten it and are all read by the retry (docs/scenarios.md#scenario-5)."""
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.settle()
    lab.fail(lab.start())
    for version in "234":
        lab.advance(seconds=30)
        lab.report("a", version)
        assert lab.work() == []
    assert lab.reason("b") == "cooling-down"
    lab.advance(minutes=1)
    assert lab.work() == ["b"]
    assert lab.reads("b")[-1] == {"a": "4"}


def test_an_open_breaker_keeps_what_is_pending(lab: Lab) -> None:
    """New data lets one probe through after maxMs; its success closes the breaker.

    See docs/scenarios.md#scenario-5, docs/semantics.md#R7.3.
    """
    backoff = {"baseMs": MINUTE, "maxMs": 10 * MINUTE, "budget": 2}
    lab.apply(workflow("b", "a", backoff=backoff))
    lab.report("a", "1")
    for _ in range(2):
        lab.settle()
        lab.fail(lab.start())
        lab.advance(minutes=3)
    lab.report("a", "2")
    assert lab.work() == []
    assert lab.reason("b") == "breaker-open"
    lab.advance(minutes=8)
    assert lab.work() == ["b"]
    assert lab.reads("b")[-1] == {"a": "2"}
    assert [len(lab.events(f"materializer.breaker.{what}")) for what in ("opened", "closed")] == [1, 1]


def test_a_reapplied_definition_still_fires(lab: Lab) -> None:
    """Changed policy, the same definition again, a renamed field: an update between them is not lost.

    See docs/scenarios.md#scenario-7.
    """
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    assert lab.work() == ["b"]
    lab.report("a", "2")
    lab.apply(workflow("b", "a", auto={"onUpstreamUpdate": True, "priority": 3}))
    assert lab.work() == ["b"], "policy edits cause no run of their own"
    lab.apply(workflow("b", "a", auto={"onUpstreamUpdate": True, "priority": 3}))
    assert lab.work() == []
    lab.report("a", "3")
    lab.settle()
    lab.apply(workflow("b", "a", auto={"onUpstreamUpdate": True, "priority": 4}))
    assert [run["status"] for run in lab.runs("b")] == ["succeeded", "succeeded", "canceled"]
    assert lab.work() == ["b"]
    lab.apply(workflow("b", "a", entrypoint="jobs:other"))
    assert lab.work() == ["b"]
    assert lab.runs("b")[-1]["trigger"]["reason"] == "definition-changed"
    assert lab.reads("b")[-1] == {"a": "3"}


def test_a_definition_that_changes_while_its_run_runs_is_run_again(lab: Lab) -> None:
    """A run of the old definition finishes, and the new one runs afterwards, on what came meanwhile."""
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.settle()
    run = lab.start()
    lab.report("a", "2")
    lab.apply(workflow("b", "a", entrypoint="jobs:other"))
    lab.settle()
    assert lab.reason("b") == "in-flight"
    lab.finish(run)
    assert lab.work() == ["b"]
    assert [run["version"] for run in lab.runs("b")] == [1, 2]
    assert lab.reads("b")[-1] == {"a": "2"}


def test_a_report_with_a_known_key_is_ignored(lab: Lab) -> None:
    """The same report delivered twice is one update (docs/scenarios.md#scenario-8)."""
    lab.apply(workflow("b", "a"))
    first = lab.report("a", key="k1")
    again = lab.report("a", key="k1")
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert again["eventId"] == first["eventId"]
    assert again["dataVersion"] == "seq:1"
    assert lab.work() == ["b"]
    lab.report("a", key="k1")
    assert lab.work() == []
    assert len(lab.events("asset.produced")) == 2


@pytest.mark.parametrize(
    ("first", "second", "differs"),
    [
        ({"version": "1"}, {"version": "2"}, "version"),
        ({"version": "1"}, {}, "version"),
        ({}, {"version": "1"}, "version"),
        ({"sequence": 1}, {"sequence": 2}, "sequence"),
        ({"sequence": 1}, {}, "sequence"),
        ({"payload": {"n": 1}}, {"payload": {"n": True}}, "payload"),
        ({"payload": {"n": 1}}, {}, "payload"),
        ({}, {"payload": {}}, "payload"),
        ({"version": "1", "payload": 1}, {"version": "2", "payload": 2}, "version and payload"),
    ],
)
def test_a_known_key_with_other_data_is_refused(
    lab: Lab, first: dict[str, Any], second: dict[str, Any], differs: str
) -> None:
    """Ignoring the second report would lose its update: it is an error that changes nothing."""
    lab.apply(workflow("b", "a"), workflow("c", "other"))
    told = lab.report("a", key="k", **first)
    with pytest.raises(KeyReusedError, match=f"'k' was used for version 1 of 'a' with another {differs}"):
        lab.report("a", key="k", **second)
    again = lab.report("a", key="k", **first)
    assert (again["duplicate"], again["eventId"]) == (True, told["eventId"])
    assert len(lab.events("asset.produced")) == 1
    assert lab.report("other", key="k", **second)["duplicate"] is False  # a key belongs to its asset


def test_a_key_is_compared_with_the_first_report_also_when_others_followed(lab: Lab) -> None:
    """A report without a version was stored as `seq:1`: a retry is its duplicate, whatever the head is now."""
    lab.apply(workflow("b", "a"))
    lab.report("a", key="k")
    lab.report("a", "2")
    assert lab.report("a", key="k")["duplicate"] is True
    with pytest.raises(KeyReusedError):
        lab.report("a", "2", key="k")


def test_a_late_report_is_recorded_and_moves_nothing(lab: Lab) -> None:
    """With `sequence` the order of the producer counts, not that of arrival.

    See docs/scenarios.md#scenario-8, docs/semantics.md#R3.3.
    """
    lab.apply(workflow("b", "a"))
    lab.report("a", "new", sequence=7)
    assert lab.work() == ["b"]
    late = lab.report("a", "old", sequence=6)
    assert (late["movedHead"], late["changed"]) == (False, False)
    assert lab.work() == []
    assert lab.head("a")["data_version"] == "new"
    lab.report("a", "newer", sequence=8)
    assert lab.work() == ["b"]
    assert lab.reads("b") == [{"a": "new"}, {"a": "newer"}]


def test_a_late_report_is_no_pending_change(lab: Lab) -> None:
    """Waits and delays count from the first real change, not from a late report before it.

    See docs/semantics.md#R4.5, docs/semantics.md#R5.4.
    """
    lab.apply(workflow("b", "a", auto={"onUpstreamUpdate": True, "debounceMs": 10_000, "maxDelayMs": 60_000}))
    lab.report("a", "1", sequence=2)
    assert lab.work() == ["b"]
    lab.report("a", "0", sequence=1)
    lab.advance(minutes=5)
    lab.report("a", "2", sequence=3)
    assert lab.work() == []
    assert lab.reason("b") == "debouncing"
    assert lab.decision("b")["evidence"]["until"] == (lab.now + timedelta(seconds=10)).isoformat().replace(
        "+00:00", "Z"
    )
    lab.advance(seconds=10)
    assert lab.work() == ["b"]


def test_an_update_that_was_taken_back_needs_no_run(lab: Lab) -> None:
    """A queued run whose cause is gone ends as superseded; nothing runs (docs/semantics.md#R6.3)."""
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    assert lab.work() == ["b"]
    lab.report("a", "2")
    lab.settle()
    lab.report("a", "1")
    assert lab.work() == []
    assert [(run["status"], run["cancel_reason"]) for run in lab.runs("b")] == [
        ("succeeded", None),
        ("canceled", "superseded"),
    ]
    assert lab.reason("b") == "up-to-date"
    assert len(lab.events("workflow.run.canceled")) == 1


def test_a_run_that_was_begun_keeps_its_pins(lab: Lab) -> None:
    """A run that was handed back goes on with what its first steps read; the update gets a run of its own.

    See docs/semantics.md#R6.3.
    """
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.settle()
    run = lab.start()
    lab.store.runs.hand_back(run.id, run.attempt)
    lab.report("a", "2")
    assert lab.work() == ["b", "b"]
    assert lab.reads("b") == [{"a": "1"}, {"a": "2"}]
    assert [run["attempt"] for run in lab.runs("b")] == [2, 1]


def test_equal_decisions_are_counted(lab: Lab) -> None:
    """The same answer again and again is one row with a count (docs/semantics.md#R5.5)."""
    lab.apply(workflow("b", "a x"))
    lab.report("a", "1")
    lab.settle()
    for _ in range(5):
        lab.advance(minutes=11)
        lab.settle()
    assert lab.one("SELECT count(*) FROM decisions") == 1
    decision = lab.decision("b")
    assert (decision["reason"], decision["outcome"]) == ("input-missing", "hold")
    assert decision["count"] >= 6
    assert decision["last_at"] == lab.now
    assert decision["evidence"] == {"missing": ["x"]}


def test_an_unversioned_report_always_changes(lab: Lab) -> None:
    """Without a version every report counts; an equal version does not.

    See docs/scenarios.md#scenario-33, docs/semantics.md#R3.3.
    """
    lab.apply(workflow("b", "a"))
    for _ in range(2):
        lab.report("a")
        assert lab.work() == ["b"]
    lab.report("a", "v")
    assert lab.work() == ["b"]
    assert lab.report("a", "v")["changed"] is False
    assert lab.work() == []
