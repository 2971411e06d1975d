"""The outcome of an event is derived at any time from rows that exist anyway (docs/semantics.md#R5.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from freshline.errors import NotFoundError
from tests.random_histories.simulation import reset
from tests.store_harness import MONDAY, Lab, laboratory, workflow

HOUR = 3_600_000


@pytest.fixture(scope="module")
def shared(module_database_url: str) -> Iterator[Lab]:
    """Yield one installation for all tests of this module: they are many and short."""
    with laboratory(module_database_url) as lab:
        yield lab


@pytest.fixture
def lab(shared: Lab) -> Iterator[Lab]:
    """Yield an empty installation."""
    shared.now = MONDAY
    yield shared
    reset(shared)


def began(lab: Lab, *workflows: dict[str, Any], **more: Any) -> None:
    """Apply these workflows and do their first run on version 1 of the source a."""
    lab.apply(*workflows, **more)
    lab.report("a", "1")
    lab.work()
    lab.advance(minutes=1)


def change(lab: Lab, version: str | None = None, asset_id: str = "a", **more: Any) -> str:
    """Report a change a second later, and return its event."""
    lab.advance(seconds=1)
    return str(lab.report(asset_id, version, **more)["eventId"])


def details(lab: Lab, event_id: str, slug: str = "b") -> dict[str, Any]:
    """Return the outcome of the event for the workflow, with all fields."""
    fates = lab.store.reader.event(event_id)["fates"]
    (found,) = [one for one in fates if one["workflowSlug"] == slug]
    return dict(found)


def outcome(lab: Lab, event_id: str, slug: str = "b") -> tuple[str, str | None]:
    """Return the outcome and the reason."""
    found = details(lab, event_id, slug)
    return found["fate"], found["reason"]


def last_run(lab: Lab, slug: str = "b") -> str:
    """Return the newest run's id."""
    return str(lab.runs(slug)[-1]["id"])


def expired(lab: Lab, asset_id: str = "b") -> str:
    """Expire the asset by hand, and return the event."""
    lab.advance(seconds=1)
    lab.store.operations.expire(asset_id)
    lab.store.evaluation.fire_timers(10)
    return str(lab.events("asset.expired")[-1]["id"])


class TestRead:
    """A run reads the change: triggered, or included."""

    def test_an_update_triggers_its_run(self, lab: Lab) -> None:
        """The run that it started is named while it is queued, running and succeeded."""
        began(lab, workflow("b", "a"))
        event = change(lab)
        seen = []
        lab.settle()
        seen.append(details(lab, event))
        run = lab.start()
        seen.append(details(lab, event))
        lab.finish(run)
        lab.settle()
        seen.append(details(lab, event))
        assert {(one["fate"], one["reason"], one["runId"]) for one in seen} == {
            ("triggered", "upstream-update", last_run(lab))
        }
        assert [one["runStatus"] for one in seen] == ["queued", "running", "succeeded"]
        assert seen[0]["decisionId"] == str(lab.runs("b")[-1]["decision_id"])

    def test_every_changed_input_of_a_wave_triggers(self, lab: Lab) -> None:
        """A join that ran for two inputs was started by both, and their makers by the source."""
        began(lab, workflow("b", "a"), workflow("c", "a"), workflow("d", "b c"))
        event = change(lab)
        lab.work()
        assert [outcome(lab, event, slug)[0] for slug in ("b", "c")] == ["triggered", "triggered"]
        for asset_id in ("b", "c"):
            produced = [one for one in lab.events("asset.produced") if one["subject"] == asset_id][-1]
            found = details(lab, str(produced["id"]), "d")
            assert (found["fate"], found["runId"]) == ("triggered", last_run(lab, "d"))

    def test_a_queued_run_that_is_renewed_includes_it(self, lab: Lab) -> None:
        """The run moves to the newer change; the older one is superseded (docs/semantics.md#R6.3)."""
        began(lab, workflow("b", "a"))
        older = change(lab)
        lab.settle()
        newer = change(lab)
        lab.settle()
        assert outcome(lab, newer) == ("included", "renewed")
        lab.work()
        assert outcome(lab, newer) == ("included", "renewed")
        found = details(lab, older)
        assert (found["fate"], found["runId"], found["supersededBy"]) == ("superseded", last_run(lab), newer)
        assert len(lab.runs("b")) == 2

    def test_a_renewal_in_the_same_instant_is_one(self, lab: Lab) -> None:
        """The first decision tells what the run was queued for, where times are equal."""
        began(lab, workflow("b", "a"))
        change(lab)
        lab.settle()
        newer = str(lab.report("a")["eventId"])
        lab.settle()
        assert outcome(lab, newer) == ("included", "renewed")

    @pytest.mark.parametrize("reason", ["missing", "definition-changed", "expired", "manual"])
    def test_a_run_that_was_started_for_something_else_includes_it(self, lab: Lab, reason: str) -> None:
        """The reason of that run is told."""
        side = {"assetId": "a", "autoMaterialize": {"onUpstreamUpdate": False}}
        one = workflow("b", [side])
        if reason == "missing":
            lab.apply(workflow("b", "a"))
            event = change(lab)
        else:
            began(lab, one)
            event = change(lab)
        if reason == "definition-changed":
            lab.apply(workflow("b", [side], entrypoint="jobs:other"))
        elif reason == "expired":
            expired(lab)
        elif reason == "manual":
            lab.store.operations.request_run("b")
        lab.work()
        found = details(lab, event)
        assert (found["fate"], found["reason"], found["runId"]) == ("included", reason, last_run(lab))

    def test_a_retry_is_triggered_by_what_it_retries_for(self, lab: Lab) -> None:
        """A run that failed settles nothing: the one that succeeds is named, and the hold between them."""
        began(lab, workflow("b", "a"))
        event = change(lab)
        lab.settle()
        failed = lab.start()
        lab.fail(failed)
        lab.settle()
        found = details(lab, event)
        assert (found["fate"], found["reason"], found["runId"]) == ("held", "cooling-down", failed.id)
        assert found["until"] == found["evidence"]["until"]
        assert found["runStatus"] == "failed"
        lab.advance(hours=1)
        lab.work()
        found = details(lab, event)
        assert (found["fate"], found["reason"], found["runId"]) == ("triggered", "retry", last_run(lab))

    def test_a_later_run_on_the_same_data_changes_nothing(self, lab: Lab) -> None:
        """The first success that reads it is its run, however many follow."""
        began(lab, workflow("b", "a"))
        event = change(lab)
        lab.work()
        first = last_run(lab)
        expired(lab)
        lab.work()
        assert last_run(lab) != first
        assert details(lab, event)["runId"] == first

    def test_old_decisions_are_not_needed(self, lab: Lab) -> None:
        """When the decisions are forgotten, runs and snapshots still tell."""
        began(lab, workflow("b", "a"))
        event = change(lab)
        lab.work()
        lab.rows("DELETE FROM decisions RETURNING id")
        assert outcome(lab, event) == ("triggered", "upstream-update")


class TestSuperseded:
    """A run reads a newer change instead."""

    def test_a_change_that_nobody_read_before_the_next(self, lab: Lab) -> None:
        """The newer event is named, also while it is held itself."""
        began(lab, workflow("b", "a"))
        lab.store.operations.pause("b")
        older, newer = change(lab), change(lab)
        lab.settle()
        found = details(lab, older)
        assert (found["fate"], found["runId"], found["supersededBy"]) == ("superseded", None, newer)
        assert outcome(lab, newer) == ("held", "paused")
        lab.store.operations.resume("b")
        lab.work()
        assert details(lab, older)["runId"] == details(lab, newer)["runId"] == last_run(lab)
        assert [outcome(lab, one) for one in (older, newer)] == [("superseded", None), ("triggered", "upstream-update")]

    def test_a_failed_run_has_not_read_it(self, lab: Lab) -> None:
        """It was read by a run that failed; the next one reads the newer change."""
        began(lab, workflow("b", "a"))
        older = change(lab)
        lab.settle()
        lab.fail(lab.start())
        newer = change(lab)
        lab.advance(hours=1)
        lab.work()
        found = details(lab, older)
        assert (found["fate"], found["supersededBy"], found["runId"]) == ("superseded", newer, last_run(lab))

    def test_a_change_that_is_taken_back(self, lab: Lab) -> None:
        """The way there is superseded, the way back finds what was read: nothing runs."""
        began(lab, workflow("b", "a"))
        there = change(lab, "2")
        lab.settle()
        back = change(lab, "1")
        lab.settle()
        assert details(lab, there)["supersededBy"] == back
        assert outcome(lab, there)[0] == "superseded"
        assert outcome(lab, back) == ("ignored", "up-to-date")
        assert lab.active() == []


class TestHeld:
    """No run reads it yet, and the last decision says why."""

    def test_behind_a_running_run(self, lab: Lab) -> None:
        """The run that is in the way is named; then it gets a run of its own."""
        began(lab, workflow("b", "a"))
        first = change(lab)
        lab.settle()
        run = lab.start()
        second = change(lab)
        lab.settle()
        found = details(lab, second)
        assert (found["fate"], found["reason"], found["runId"]) == ("held", "in-flight", run.id)
        assert (found["runStatus"], outcome(lab, first)[0]) == ("running", "triggered")
        lab.finish(run)
        lab.work()
        assert [outcome(lab, one)[0] for one in (first, second)] == ["triggered", "triggered"]
        assert details(lab, first)["runId"] == run.id != details(lab, second)["runId"]

    @pytest.mark.parametrize(
        ("auto", "more", "reason"),
        [
            ({"debounceMs": HOUR}, {}, "debouncing"),
            ({"minIntervalMs": HOUR}, {}, "min-interval"),
            ({}, {"quietHours": [{"from": "09:00", "to": "17:00"}]}, "quiet-hours"),
        ],
    )
    def test_until_a_known_time(self, lab: Lab, auto: dict[str, Any], more: dict[str, Any], reason: str) -> None:
        """The reason, its end, and the decision with its evidence."""
        began(lab, workflow("b", "a"))
        lab.apply(workflow("b", "a", auto={"onUpstreamUpdate": True, **auto}, **more))
        lab.settle()
        event = change(lab)
        lab.settle()
        found = details(lab, event)
        assert (found["fate"], found["reason"]) == ("held", reason)
        assert found["until"] is not None
        assert found["decisionId"] == str(lab.decision("b")["id"])
        assert found["evidence"] == lab.decision("b")["evidence"]

    def test_waiting_for_upstream_until_the_deadline(self, lab: Lab) -> None:
        """The end is the deadline of the wait."""
        began(lab, workflow("b", "a"), workflow("d", "a b"))
        event = change(lab)
        lab.settle()
        found = details(lab, event, "d")
        assert (found["fate"], found["reason"]) == ("held", "waiting-for-upstream")
        assert found["until"] == found["evidence"]["deadline"]

    def test_another_input_is_missing(self, lab: Lab) -> None:
        """Such a decision does not tell what it saw; it counts if nothing happened since."""
        lab.apply(workflow("b", "a c"))
        lab.settle()
        event = change(lab)
        assert outcome(lab, event) == ("pending", "unabsorbed")
        lab.settle()
        assert outcome(lab, event) == ("held", "input-missing")

    def test_an_evaluation_that_fails(self, lab: Lab) -> None:
        """An error holds it too."""
        began(lab, workflow("b", "a"))
        lab.rows('UPDATE workflows SET policy = policy || \'{"when": "odd"}\' RETURNING id')
        event = change(lab)
        lab.settle()
        found = details(lab, event)
        assert (found["fate"], found["reason"]) == ("held", "evaluation-failed")
        assert "odd" in found["evidence"]["error"]


class TestIgnored:
    """It causes no run, and the reason is given."""

    @pytest.mark.parametrize(
        ("auto", "reason"),
        [(None, "not-auto"), ({"enabled": False}, "policy-off"), ({"onUpstreamUpdate": False}, "does-not-trigger")],
    )
    def test_by_policy(self, lab: Lab, auto: dict[str, Any] | None, reason: str) -> None:
        """Not automatic, switched off, or not for updates; until a run reads it all the same."""
        lab.apply(workflow("b", "a", auto=auto))
        change(lab)
        lab.work()
        older, event = change(lab), change(lab)
        lab.settle()
        assert [outcome(lab, one) for one in (older, event)] == [("ignored", reason)] * 2
        lab.store.operations.request_run("b")
        lab.work()
        assert outcome(lab, event) == ("included", "manual")
        assert outcome(lab, older) == ("ignored", reason)

    def test_equal_data(self, lab: Lab) -> None:
        """The same version again is no change, whoever runs later."""
        began(lab, workflow("b", "a"))
        event = change(lab, "1")
        lab.settle()
        assert outcome(lab, event) == ("ignored", "unchanged")
        lab.store.operations.request_run("b")
        lab.work()
        assert outcome(lab, event) == ("ignored", "unchanged")

    def test_equal_data_that_completes_a_round(self, lab: Lab) -> None:
        """With `when: all` a production counts, changed or not (docs/semantics.md#R1.4)."""
        lab.apply(workflow("b", "a c", auto={"onUpstreamUpdate": True, "when": "all"}))
        for asset_id in ("a", "c"):
            change(lab, "1", asset_id)
        lab.work()
        changed = change(lab, "2")
        lab.settle()
        assert outcome(lab, changed) == ("held", "waiting-for-all")
        same = change(lab, "1", "c")
        assert lab.work() == ["b"]
        assert outcome(lab, changed) == ("triggered", "upstream-update")
        found = details(lab, same)
        assert (found["fate"], found["runId"]) == ("included", last_run(lab))

    def test_a_late_report(self, lab: Lab) -> None:
        """Recorded, and the head stays (docs/semantics.md#R3.3)."""
        began(lab, workflow("b", "a"))
        change(lab, "7", sequence=7)
        lab.work()
        late = change(lab, "5", sequence=5)
        lab.settle()
        assert outcome(lab, late) == ("ignored", "late")

    def test_a_duplicate_has_the_fate_of_the_first(self, lab: Lab) -> None:
        """A known key makes no event; the answer names the first one's (docs/semantics.md#R3.3)."""
        began(lab, workflow("b", "a"))
        first, again = change(lab, "2", key="k"), change(lab, "2", key="k")
        assert first == again
        lab.work()
        assert outcome(lab, again)[0] == "triggered"

    def test_what_was_accepted_as_fresh(self, lab: Lab) -> None:
        """`apply --baseline now` and `onMissing: false` take it as read."""
        began(lab, workflow("b", "a"))
        lab.store.operations.pause("b")
        event = change(lab)
        cautious = workflow("c", "a", auto={"onUpstreamUpdate": True, "onMissing": False})
        lab.apply(workflow("b", "a", entrypoint="jobs:other"), cautious, baseline=True)
        lab.store.operations.resume("b")
        assert lab.work() == []
        assert [outcome(lab, event, slug) for slug in ("b", "c")] == [("ignored", "baseline")] * 2

    def test_nobody_consumes_it(self, lab: Lab) -> None:
        """No consumer, no fate."""
        lab.apply(workflow("b", "a"), sources=("lonely",))
        found = lab.store.reader.event(change(lab, asset_id="lonely"))
        assert (found["consumers"], found["fates"]) == (0, [])


class TestPending:
    """It was not evaluated yet."""

    def test_unabsorbed_then_due(self, lab: Lab) -> None:
        """In the inbox, then noted, then decided."""
        began(lab, workflow("b", "a"))
        event = change(lab)
        assert outcome(lab, event) == ("pending", "unabsorbed")
        lab.store.evaluation.consume_inbox(10)
        assert outcome(lab, event) == ("pending", "due")
        lab.settle()
        assert outcome(lab, event) == ("triggered", "upstream-update")

    def test_the_last_decision_may_be_about_an_older_change(self, lab: Lab) -> None:
        """A hold counts only for what it saw, also if both fall in one instant."""
        began(lab, workflow("b", "a"))
        lab.store.operations.pause("b")
        change(lab)
        lab.settle()
        at_once = str(lab.report("a")["eventId"])
        lab.store.evaluation.consume_inbox(10)
        assert outcome(lab, at_once) == ("pending", "due")
        later = change(lab)
        lab.store.evaluation.consume_inbox(10)
        assert outcome(lab, later) == ("pending", "due")


class TestExpired:
    """An expiry concerns the workflow that produces the asset."""

    def test_triggers_its_run(self, lab: Lab) -> None:
        """By the clock: pending, then its run."""
        began(lab, workflow("b", "a", freshness={"ttlMs": HOUR}))
        lab.advance(hours=1)
        lab.store.evaluation.fire_timers(10)
        event = str(lab.events("asset.expired")[-1]["id"])
        assert outcome(lab, event) == ("pending", "unabsorbed")
        lab.store.evaluation.consume_inbox(10)
        assert outcome(lab, event) == ("pending", "due")
        lab.settle()
        assert outcome(lab, event) == ("triggered", "expired")
        lab.work()
        found = details(lab, event)
        assert (found["fate"], found["runId"], found["runStatus"]) == ("triggered", last_run(lab), "succeeded")

    def test_is_included_in_a_run_for_an_update(self, lab: Lab) -> None:
        """What is running makes the asset anew too."""
        began(lab, workflow("b", "a"))
        change(lab)
        lab.settle()
        run = lab.start()
        event = expired(lab)
        lab.settle()
        assert outcome(lab, event) == ("included", "upstream-update")
        lab.finish(run)
        assert lab.work() == []
        found = details(lab, event)
        assert (found["fate"], found["runId"]) == ("included", run.id)

    def test_is_superseded_by_a_later_expiry(self, lab: Lab) -> None:
        """Missed points collapse into one: the last one has the run (docs/semantics.md#R8.1)."""
        began(lab, workflow("b", "a", freshness={"cadenceMs": HOUR}))
        lab.store.operations.pause("b")
        for _ in range(2):
            lab.advance(hours=1)
            lab.settle()
        first, second = (str(one["id"]) for one in lab.events("asset.expired"))
        assert (details(lab, first)["fate"], details(lab, first)["supersededBy"]) == (
            "superseded",
            second,
        )
        assert outcome(lab, second) == ("held", "paused")
        lab.store.operations.resume("b")
        lab.work()
        assert outcome(lab, second) == ("triggered", "expired")
        assert details(lab, first)["runId"] == details(lab, second)["runId"] == last_run(lab)

    @pytest.mark.parametrize(("auto", "reason"), [(None, "not-auto"), ({"enabled": False}, "policy-off")])
    def test_is_ignored_without_a_block(self, lab: Lab, auto: dict[str, Any] | None, reason: str) -> None:
        """Until somebody runs it by hand (docs/semantics.md#R2.4)."""
        lab.apply(workflow("b", "a", auto=auto))
        lab.report("a", "1")
        lab.store.operations.request_run("b")
        lab.work()
        event = expired(lab)
        lab.settle()
        assert outcome(lab, event) == ("ignored", reason)
        lab.store.operations.request_run("b")
        lab.work()
        assert outcome(lab, event) == ("included", "manual")

    def test_an_output_without_a_block_beside_one_with(self, lab: Lab) -> None:
        """The block of another output is not its block."""
        one = workflow("b", "a", outputs=["x", "y"])
        del one["steps"][0]["produces"][1]["autoMaterialize"]
        began(lab, one)
        event = expired(lab, "y")
        lab.settle()
        assert outcome(lab, event) == ("ignored", "does-not-trigger")

    def test_the_clock_is_set_anew_without_data(self, lab: Lab) -> None:
        """`--baseline now` takes what is there as fresh."""
        began(lab, workflow("b", "a"))
        lab.store.operations.pause("b")
        event = expired(lab)
        lab.settle()
        assert outcome(lab, event) == ("held", "paused")
        lab.apply(workflow("b", "a", entrypoint="jobs:other"), baseline=True)
        lab.settle()
        assert outcome(lab, event) == ("ignored", "clock-reset")

    def test_nobody_makes_it_any_more(self, lab: Lab) -> None:
        """Its workflow was retired."""
        began(lab, workflow("b", "a"), workflow("c", "b"))
        event = expired(lab)
        lab.apply(workflow("c", "b"))
        assert lab.store.reader.event(event)["fates"] == []


class TestAsking:
    """How events are named, and the fields of the answer."""

    def test_the_answer_is_the_event_and_its_fates(self, lab: Lab) -> None:
        """The fields of the listing, how many workflows it concerns, and at most so many fates."""
        began(lab, *(workflow(f"w{number}", "a") for number in range(3)))
        event = change(lab)
        lab.work()
        found = lab.store.reader.event(event, limit=2)
        (listed,) = [one for one in lab.store.reader.events(limit=100) if one["id"] == event]
        assert {key: value for key, value in found.items() if key in listed} == listed
        assert (found["consumers"], [one["workflowSlug"] for one in found["fates"]]) == (3, ["w0", "w1"])

    def test_a_position_names_an_event_too(self, lab: Lab) -> None:
        """As in the listing."""
        began(lab, workflow("b", "a"))
        event = change(lab)
        lab.store.events.stamp_positions(100)
        position = lab.one("SELECT position FROM events WHERE id = %s", event)
        assert lab.store.reader.event(str(position))["id"] == event

    def test_an_unknown_event_is_an_error(self, lab: Lab) -> None:
        """With what to do."""
        with pytest.raises(NotFoundError, match="no event has the id or position '7'"):
            lab.store.reader.event("7")

    def test_other_events_concern_nobody(self, lab: Lab) -> None:
        """Ends of runs and the like are facts for people and programs."""
        began(lab, workflow("b", "a"))
        for type_ in ("workflow.run.succeeded", "workflow.definition.updated"):
            found = lab.store.reader.event(str(lab.events(type_)[-1]["id"]))
            assert (found["consumers"], found["fates"]) == (0, [])

    def test_asking_changes_nothing(self, lab: Lab) -> None:
        """It only reads."""
        began(lab, workflow("b", "a"))
        event = change(lab)
        before = lab.everything()
        details(lab, event)
        assert lab.everything() == before
