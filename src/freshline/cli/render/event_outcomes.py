"""Outcomes of an event: one line per workflow that it concerns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from freshline.cli.render.decisions import sentence
from freshline.cli.render.format import moment, short
from freshline.cli.render.listing import event_subject, event_summary
from freshline.cli.render.output import coloured
from freshline.cli.render.references import unit
from freshline.cli.render.table import Column, Columns
from freshline.cli.render.text import Text
from freshline.model.documents.event import Event, EventDetail, WorkflowOutcome
from freshline.model.enums import EventOutcome, EventReason, EventType, Outcome, Reason
from freshline.plural import counted

COLUMNS: Columns = ["WORKFLOW", "OUTCOME", Column("", wraps=30)]
ABOUT_ASSETS: dict[str, str] = {
    EventType.ASSET_PRODUCED: "no workflow consumes it",
    EventType.ASSET_EXPIRED: "no workflow makes it",
}

_STARTED: dict[str | None, str] = {
    EventReason.MANUAL: "by hand",
    Reason.MISSING: "because an output was never produced",
    Reason.DEFINITION_CHANGED: "because its definition changed",
    Reason.UPSTREAM_UPDATE: "for another update",
    Reason.EXPIRED: "because its freshness ran out",
    Reason.BACKFILL: "for a backfill",
    Reason.RETRY: "after a failure",
}

_IGNORED: dict[str | None, str] = {
    EventReason.UNCHANGED: "the data is the same as before",
    EventReason.LATE: "it came late: a later one is the current version",
    EventReason.DOES_NOT_TRIGGER: "its policy lets this input, or the expiry of this output, cause no run",
    EventReason.BASELINE: "it was taken as read when the definition was applied",
    EventReason.CLOCK_RESET: "its freshness clock was reset",
    Reason.UP_TO_DATE: "the last success had read the same data",
    Reason.POLICY_OFF: "its autoMaterialize is switched off",
    Reason.NOT_AUTO: "it has no autoMaterialize block, so it runs only when asked to",
}

_PENDING: dict[str | None, str] = {
    EventReason.UNABSORBED: "it was not read yet; is `freshline materializer` (or `freshline dev`) running?",
    EventReason.DUE: "it is about to be considered",
}


def headline(event: Event) -> Text:
    """Return the event in one line."""
    subject = event_subject(event)
    parts = [moment(event["time"]), event["type"], subject, event_summary(event)]
    return Text.join("  ", [Text((part, "bold" if part == subject else "")) for part in parts if part])


def cells(fate: WorkflowOutcome) -> Sequence[str | Text]:
    """Return the cells of one workflow: its outcome, and a description."""
    return [unit(fate), coloured(fate["fate"]), outcome_text(fate)]


def outcome_text(fate: WorkflowOutcome) -> str:
    """Return an outcome as half a sentence."""
    return _TEXTS[EventOutcome(fate["fate"])](fate)


def no_outcome_text(event: Event) -> str:
    """Return why the event has no outcomes."""
    return ABOUT_ASSETS.get(event["type"], "this kind of event concerns no workflow: nothing runs because of it")


def more_text(event: EventDetail) -> str | None:
    """Return how many workflows are not listed; None if all are."""
    missing = event["consumers"] - len(event["fates"])
    if missing <= 0:
        return None
    more = counted(missing, "more workflow consumes", "more workflows consume")
    return f"{more} it; --limit shows more"


def _run(fate: WorkflowOutcome) -> str:
    return f"run {short(fate['runId'])}, which {_STATUS.get(fate['runStatus'], 'is ' + str(fate['runStatus']))}"


def _triggered(fate: WorkflowOutcome) -> str:
    return f"it started {_run(fate)}"


def _included(fate: WorkflowOutcome) -> str:
    if fate["reason"] == EventReason.RENEWED:
        return f"it is in {_run(fate)}: that run was queued already and was moved to it"
    return f"it is in {_run(fate)}: that run was started {_STARTED.get(fate['reason'], 'for ' + str(fate['reason']))}"


def _superseded(fate: WorkflowOutcome) -> str:
    newer = f"a newer one (event {short(fate['supersededBy'])})"
    return f"{newer} is in {_run(fate)}" if fate["runId"] else f"{newer} came before any run read it"


def _held(fate: WorkflowOutcome) -> str:
    outcome = Outcome.ERROR if fate["reason"] == Reason.EVALUATION_FAILED else Outcome.HOLD
    text = sentence(
        {
            "workflowSlug": fate["workflowSlug"],
            "partitionKey": fate["partitionKey"],
            "outcome": outcome,
            "reason": str(fate["reason"]),
            "evidence": fate["evidence"],
        }
    ).partition(": ")[2]
    failed = fate["runStatus"] in {"failed", "canceled"}
    return f"{text}; its run {short(fate['runId'])} {fate['runStatus']}" if failed else text


def _ignored(fate: WorkflowOutcome) -> str:
    return _IGNORED.get(fate["reason"], str(fate["reason"]))


def _pending(fate: WorkflowOutcome) -> str:
    return _PENDING.get(fate["reason"], str(fate["reason"]))


_STATUS: dict[str | None, str] = {"failed": "failed", "succeeded": "succeeded", "canceled": "was canceled"}

_TEXTS: dict[EventOutcome, Callable[[WorkflowOutcome], str]] = {
    EventOutcome.TRIGGERED: _triggered,
    EventOutcome.INCLUDED: _included,
    EventOutcome.SUPERSEDED: _superseded,
    EventOutcome.HELD: _held,
    EventOutcome.IGNORED: _ignored,
    EventOutcome.PENDING: _pending,
}
