"""How the outcome of an event is rendered."""

from __future__ import annotations

from typing import Any

import pytest

from freshline.cli.render.event_outcomes import no_outcome_text, outcome_text
from freshline.model.documents.event import WorkflowOutcome
from freshline.model.enums import EventOutcome, EventReason, EventType, Reason
from freshline.services.reconciler import Reconciler
from freshline.store.store import Store
from tests.cli.conftest import Freshline

RUN = "0198c000-0000-7000-8000-0000000000aa"
EVENT = "0198c000-0000-7000-8000-0000000000ee"


def answer(fate: str, reason: str | None, **more: Any) -> Any:
    """Return an event outcome as the reader returns it."""
    fields: dict[str, Any] = {
        "workflowSlug": "w",
        "partitionKey": "",
        "until": None,
        "runId": None,
        "runStatus": None,
        "supersededBy": None,
        "evidence": {},
    }
    return {**fields, "fate": fate, "reason": reason, **more}


WORDS = [
    (
        answer("triggered", "upstream-update", runId=RUN, runStatus="running"),
        "it started run 000000aa, which is running",
    ),
    (
        answer("included", "renewed", runId=RUN, runStatus="queued"),
        "it is in run 000000aa, which is queued: that run was queued already and was moved to it",
    ),
    (
        answer("included", "manual", runId=RUN, runStatus="succeeded"),
        "it is in run 000000aa, which succeeded: that run was started by hand",
    ),
    (
        answer("superseded", None, runId=RUN, runStatus="succeeded", supersededBy=EVENT),
        "a newer one (event 000000ee) is in run 000000aa, which succeeded",
    ),
    (answer("superseded", None, supersededBy=EVENT), "a newer one (event 000000ee) came before any run read it"),
    (answer("held", "paused"), "it is paused without an end; `freshline resume w` ends that"),
    (
        answer("held", "cooling-down", evidence={"failures": 1}, runId=RUN, runStatus="failed"),
        "it cools down after 1 failure; its run 000000aa failed",
    ),
    (
        answer("held", "in-flight", evidence={"runId": RUN, "runStatus": "running"}, runId=RUN, runStatus="running"),
        "its run 000000aa is already running",
    ),
    (answer("held", "evaluation-failed", evidence={"error": "odd"}), "it could not be decided: odd"),
    (answer("ignored", "unchanged"), "the data is the same as before"),
    (answer("pending", "due"), "it is about to be considered"),
]


@pytest.mark.parametrize(("fate", "wanted"), WORDS)
def test_every_fate_has_words(fate: WorkflowOutcome, wanted: str) -> None:
    """What it means, with the run or the newer event."""
    assert outcome_text(fate) == wanted


def test_no_fate_is_left_without_words() -> None:
    """All of them are in the examples above."""
    assert {fate["fate"] for fate, _ in WORDS} == set(EventOutcome)


@pytest.mark.parametrize(
    ("fate", "reason"),
    [
        *(("ignored", one) for one in (*list(EventReason)[2:7], Reason.UP_TO_DATE, Reason.POLICY_OFF, Reason.NOT_AUTO)),
        *(("pending", one) for one in (EventReason.UNABSORBED, EventReason.DUE)),
        *(("included", one) for one in (*list(EventReason)[:2], *list(Reason)[:5])),
    ],
)
def test_every_reason_has_words(fate: str, reason: str) -> None:
    """None is shown as its code."""
    assert reason not in outcome_text(answer(fate, reason, runId=RUN, runStatus="queued")).split()


def test_a_reason_of_a_later_version_is_shown_as_it_is() -> None:
    """An unknown code is told, not hidden."""
    for fate in ("included", "ignored", "pending"):
        assert "moon-phase" in outcome_text(answer(fate, "moon-phase", runId=RUN, runStatus="queued"))


def event(type_: EventType) -> Any:
    """Return the field of an event that matters here."""
    return {"type": type_}


def test_events_that_concern_nobody_say_so() -> None:
    """By their kind."""
    assert no_outcome_text(event(EventType.ASSET_PRODUCED)) == "no workflow consumes it"
    assert no_outcome_text(event(EventType.ASSET_EXPIRED)) == "no workflow makes it"
    assert "concerns no workflow" in no_outcome_text(event(EventType.RUN_QUEUED))


def test_the_command_tells_what_became_of_an_event(applied: Freshline, store: Store) -> None:
    """The event and its fate, by id and by position, in words and as one document."""
    reported = applied.json("report", "shop.raw")["eventId"]
    assert "it was not read yet" in applied("events", reported).stdout
    store.evaluation.consume_inbox(10)
    Reconciler(store).run_once()
    store.events.stamp_positions(10)
    (run,) = applied.json("runs")
    found = applied.json("events", reported)
    (listed,) = applied.json("events", "--type", "asset.produced")
    assert {key: found[key] for key in listed} == listed
    assert found["consumers"] == 1
    (fate,) = found["fates"]
    wanted = {"workflowSlug": "make-clean", "partitionKey": "", "fate": "included", "reason": "missing"}
    assert fate.items() >= (wanted | {"runId": run["id"], "runStatus": "queued"}).items()
    text = applied("events", str(found["position"])).stdout
    for part in ("asset.produced", "shop.raw", "make-clean", "included", run["id"][-8:]):
        assert part in text


def test_a_source_without_consumers_and_other_kinds(applied: Freshline) -> None:
    """No workflow is concerned, and that is said."""
    (updated, *_) = applied.json("events", "--type", "workflow.definition.updated")
    told = applied("events", updated["id"])
    assert "concerns no workflow" in told.stderr
    assert updated["subject"] in told.stdout


def test_more_consumers_than_asked_for(applied: Freshline) -> None:
    """The rest is counted."""
    second = (applied.project / "workflows" / "w0.yaml").read_text()
    second = second.replace("make-clean", "make-more").replace("shop.clean", "shop.more")
    (applied.project / "workflows" / "w2.yaml").write_text(second)
    applied("apply", "--yes")
    reported = applied.json("report", "shop.raw")["eventId"]
    told = applied("events", reported, "--limit", "1")
    assert "make-more" not in told.stdout
    assert "1 more workflow consumes it" in told.stderr


@pytest.mark.parametrize(
    "words", [["--follow"], ["--after", "1"], ["--type", "asset"], ["--subject", "a"]], ids=lambda words: words[0]
)
def test_one_event_is_no_listing(freshline: Freshline, words: list[str]) -> None:
    """Options of the listing are refused with it."""
    assert "an EVENT is one event" in freshline("events", "1", *words, code=2).stderr


def test_an_unknown_event_is_an_error(freshline: Freshline) -> None:
    """With what to do, and no traceback."""
    assert "`freshline events` lists them" in freshline("events", "4711", code=1).stderr
