"""Decisions as sentences: the outcome, the reason, until when, and what ends it."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from freshline.cli.render.format import duration, moment, short, version
from freshline.cli.render.references import MOST_NAMED, few, few_partitions, named, unit
from freshline.model.enums import Outcome, Reason
from freshline.model.state import reference
from freshline.plural import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from freshline.model.documents.decision import (
        BlockerEvidence,
        Conclusion,
        Decision,
        Evidence,
        ForeignHead,
        InputEvidence,
    )
    from freshline.model.documents.status import Hold

    Describe = Callable[[Conclusion, Evidence], str]

MOST_PARTITIONS = 5  # rows of one input
_MOTIONS = {
    "running": "which is running",
    "queued": "which is queued",
    "due": "which is about to be considered",
    "unabsorbed": "whose inputs have just changed",
    "timer": "whose freshness has just run out",
    "stale": "which did not read the current data and is not automatic",
}


def sentence(decision: Conclusion) -> str:
    """Return one decision as one sentence, e.g. `held: waiting for upstream workflow 'b', which is running`."""
    describe = _SENTENCES.get(decision["reason"])
    evidence = decision["evidence"]
    text = describe(decision, evidence) if describe else decision["reason"]
    return f"{_VERBS.get(decision['outcome'], decision['outcome'])}: {text}{_also(evidence)}"


def when(decision: Decision) -> str:
    """Return the time of a decision, and how often it was repeated."""
    return moment(decision["at"]) + repetitions(decision)


def repetitions(decision: Decision) -> str:
    """Return how often a decision was repeated, as ` (3x, last 12:00:00)`; empty if it was not."""
    count = decision.get("count", 1)
    last = decision.get("lastAt")
    return f" ({count}x, last {moment(last)})" if count > 1 and last else ""


def vectors(decision: Decision) -> list[tuple[str, str, str, str]]:
    """Return the evidence per input: asset, version that the last success read, current version, and the difference.

    Of many partitions of an input, those that changed come first, and the rest is one row.
    """
    found: dict[str, list[InputEvidence]] = {}
    for one in decision["evidence"].get("inputs", ()):
        found.setdefault(one["assetId"], []).append(one)
    return [row for asset_id, inputs in found.items() for row in _vectors(asset_id, inputs)]


def _vectors(asset_id: str, inputs: list[InputEvidence]) -> list[tuple[str, str, str, str]]:
    few = inputs if len(inputs) <= MOST_PARTITIONS else [one for one in inputs if one["changed"]][:MOST_PARTITIONS]
    rows = [(named(one), version(one.get("from")), version(one.get("to")), _meaning(one)) for one in few]
    rest = [one for one in inputs if one not in few]
    if rest:
        changed = sum(one["changed"] for one in rest)
        what = f"{changed} of them changed" if changed else "the same"
        rows.append((f"{counted(len(rest), 'more partition')} of {asset_id}" if few else _all_of(rest), "", "", what))
    return rows


def _all_of(inputs: list[InputEvidence]) -> str:
    return f"{counted(len(inputs), 'partition')} of {inputs[0]['assetId']}"


def hold_text(hold: Hold | None) -> str:
    """Return a hold of `status` in a few words."""
    if hold is None:
        return ""
    blocker = f" {hold['blocker']}" if hold.get("blocker") else ""
    until = f" until {moment(hold['until'])}" if hold.get("until") else ""
    return f"{hold['reason'].replace('-', ' ')}{blocker}{until}"


def _meaning(one: InputEvidence) -> str:
    if one.get("retired"):
        return "removed by retention"
    if one.get("unread"):
        return "changed, not in the columns that it reads"
    if not one.get("changed"):
        return "the same"
    return "changed" if one.get("triggers") else "changed, may not trigger"


def _missing(decision: Conclusion, evidence: Evidence) -> str:
    return f"{_output(decision, evidence)} was never produced"


def _retry(decision: Conclusion, evidence: Evidence) -> str:
    cause = _CAUSES.get(evidence.get("cause", ""), _definition_changed)
    return f"tried again after a failure; {cause(decision, evidence)}"


def _definition_changed(_decision: Conclusion, evidence: Evidence) -> str:
    foreign = evidence.get("foreign", ())
    if not foreign:
        changes = evidence.get("changes", ())
        return "its definition changed since the last success" + (f": {', '.join(changes)}" if changes else "")
    return _list([_made_by_others(one) for one in foreign])


def _made_by_others(one: ForeignHead) -> str:
    who = f"made by workflow {one['madeBy']!r}" if one["madeBy"] else "reported from outside"
    return f"the current data of {one['assetId']!r} was {who}"


def _upstream_update(_decision: Conclusion, evidence: Evidence) -> str:
    changed = [i for i in evidence.get("inputs", ()) if i.get("changed") and i.get("triggers")]
    if len(changed) <= MOST_NAMED:
        moves = [_moved(i) for i in changed]
        return _list(moves) or "an input changed"
    return _list([f"{name} changed" for name in few_partitions(changed)])


def _moved(one: InputEvidence) -> str:
    if one.get("retired"):
        return f"retention has removed {named(one)!r}"
    return f"{named(one)!r} changed ({version(one.get('from'))} -> {version(one.get('to'))})"


def _expired(decision: Conclusion, evidence: Evidence) -> str:
    expiry, asset = evidence.get("expiry"), _output(decision, evidence)
    if not expiry:
        return f"the freshness of {asset} ran out (unknown)"
    at = f" at {moment(expiry['expiresAt'])}" if expiry.get("expiresAt") else ""
    if expiry.get("reason") == "manual":
        return f"{asset} was expired by hand{at}"
    return f"the freshness of {asset} ran out{at} ({expiry.get('reason', 'unknown')})"


def _backfill(decision: Conclusion, evidence: Evidence) -> str:
    return f"backfill {evidence.get('backfillId', '')} demands {_output(decision, evidence)}".replace("  ", " ")


def _input_missing(_decision: Conclusion, evidence: Evidence) -> str:
    missing = evidence.get("missing", [])
    verb = "does not exist yet" if len(missing) == 1 else "do not exist yet"
    return f"{_list(few([repr(one) for one in missing])) or 'an input'} {verb}"


def _input_retired(_decision: Conclusion, evidence: Evidence) -> str:
    gone = evidence.get("retired", [])
    more = evidence.get("retiredCount", len(gone)) - len(gone)
    what = _list([*few([repr(one) for one in gone]), *([f"{more:,} more"] if more > 0 else [])]) or "an input"
    return (
        f"retention has removed {what}, and a run would lack these rows;"
        " `freshline backfill ASSET --keys KEY --partial` computes it from what is left"
    )


def _frozen(_decision: Conclusion, evidence: Evidence) -> str:
    since = f" since {moment(evidence['frozenAt'])}" if evidence.get("frozenAt") else ""
    return (
        f"it is frozen{since}: it is older than `frozenAfter`, so that only a backfill or `freshline run` computes it"
    )


def _in_flight(_decision: Conclusion, evidence: Evidence) -> str:
    renewed = "; that run will read the new data" if evidence.get("renewed") else ""
    return f"its run {short(evidence.get('runId'))} is already {evidence.get('runStatus', 'there')}{renewed}"


def _paused(decision: Conclusion, evidence: Evidence) -> str:
    until = f"until {moment(evidence['until'])}" if evidence.get("until") else "without an end"
    return f"it is paused {until}; `freshline resume {decision['workflowSlug']}` ends that"


def _breaker_open(decision: Conclusion, evidence: Evidence) -> str:
    probe = (
        f"the next try is at {moment(evidence['nextProbeAt'])}" if evidence.get("nextProbeAt") else "it tries seldom"
    )
    return (
        f"its breaker is open after {_times(evidence.get('failures'))}; {probe}; "
        f"`freshline reset {decision['workflowSlug']}` closes it"
    )


def _cooling_down(_decision: Conclusion, evidence: Evidence) -> str:
    return f"it cools down after {_times(evidence.get('failures'))}{_until(evidence)}"


def _canceled(decision: Conclusion, _evidence: Evidence) -> str:
    slug = decision["workflowSlug"]
    return (
        "a run with exactly these versions was canceled; "
        f"new data, `freshline run {slug}` or `freshline reset {slug}` ends that"
    )


def _quiet_hours(_decision: Conclusion, evidence: Evidence) -> str:
    return f"it has quiet hours{_until(evidence)}"


def _input_too_old(_decision: Conclusion, evidence: Evidence) -> str:
    limit = evidence.get("maxAgeMs")
    allowed = f"; at most {duration(limit / 1000)} are allowed" if limit is not None else ""
    return f"its input {_asset(evidence)} is too old (produced {moment(evidence.get('producedAt'))}{allowed})"


def _waiting_for_all(_decision: Conclusion, evidence: Evidence) -> str:
    return f"it runs when all inputs moved; {_names(evidence.get('waitingFor', [])) or 'some'} did not yet"


def _waiting_for_upstream(_decision: Conclusion, evidence: Evidence) -> str:
    blockers = few([_blocker(one) for one in evidence.get("blockers", ())])
    end = evidence.get("deadline") or evidence.get("until")
    latest = f", until {moment(end)} at the latest" if end else ""
    return f"waiting for upstream {_list(blockers) or 'workflows'}{latest}"


def _debouncing(_decision: Conclusion, evidence: Evidence) -> str:
    return f"it lets updates settle{_until(evidence)}"


def _min_interval(_decision: Conclusion, evidence: Evidence) -> str:
    return f"it ran a short time ago; not again{_until(evidence, 'before')}"


def _up_to_date(decision: Conclusion, evidence: Evidence) -> str:
    gone = (
        f"; its queued run {short(evidence['superseded'])} is not needed any more" if evidence.get("superseded") else ""
    )
    if evidence.get("accepted"):
        key = f" --partition {quote(decision['partitionKey'])}" if decision["partitionKey"] else ""
        return (
            "its changes were denied with a proposal, or ignored beyond the limit, and only other changes run it;"
            f" `freshline run {decision['workflowSlug']}{key}` runs it anyway{gone}"
        )
    if evidence.get("retiredAt"):
        return f"retention has removed its data, which was kept until {moment(evidence['retiredAt'])}{gone}"
    if any(one.get("unread") and one.get("triggers") for one in evidence.get("inputs", ())):
        return f"only columns changed that it does not read{gone}"
    return f"it was computed from exactly the current inputs{gone}"


def _policy_off(_decision: Conclusion, _evidence: Evidence) -> str:
    return "its autoMaterialize is switched off"


def _not_auto(_decision: Conclusion, _evidence: Evidence) -> str:
    return "it has no autoMaterialize block, so it runs only when asked to"


def _backfill_proposed(decision: Conclusion, evidence: Evidence) -> str:
    limit = evidence.get("limit")
    more = "more" if limit is None else f"more than {counted(limit, 'old partition')}"
    cause = _CAUSES.get(evidence.get("cause", ""))
    stale = f"{cause(decision, evidence)}; " if cause else ""
    if not evidence.get("backfillId"):
        # Decided while others were still counted: since then a proposal may list it.
        return (
            f"{stale}it is held, because {more} may run; `freshline backfill list` shows the proposal once there is one"
        )
    number = short(evidence["backfillId"])
    return f"{stale}it waits for an approval, because {more} would run; `freshline backfill show {number}` shows it"


def _evaluation_failed(_decision: Conclusion, evidence: Evidence) -> str:
    return f"it could not be decided: {evidence.get('error', 'no error was stored')}"


def _also(evidence: Evidence) -> str:
    passed = _list(few([_blocker(one) for one in evidence.get("waitedOut", ())]))
    others = [reason.replace("-", " ") for reason in evidence.get("alsoHeldBy", ())]
    mixed = f"; it did not wait any longer for {passed}, so it may read a mix" if passed else ""
    return mixed + (f"; also held by {_list(others)}" if others else "")


def _blocker(one: BlockerEvidence) -> str:
    motion = one.get("motion", "")
    until = f" until {moment(one['until'])}" if one.get("until") else ""
    state = _MOTIONS.get(
        motion, f"which is held: {motion.replace('-', ' ')}" if motion in _HOLDS else "which is moving"
    )
    return f"workflow {unit(one)!r}, {state}{until}{_together(one)}"


def _together(one: BlockerEvidence) -> str:
    """Return why a mix would be half of a group of reports (docs/semantics.md#R4.7)."""
    members = one.get("together", [])
    return f" ({_list(few([repr(name) for name in members]))} were reported together)" if members else ""


def _until(evidence: Evidence, word: str = "until") -> str:
    return f" {word} {moment(evidence['until'])}" if evidence.get("until") else ""


def _output(decision: Conclusion, evidence: Evidence) -> str:
    """Return the output that is a cause, of a decision about a partition with the partition."""
    asset_id = evidence.get("assetId")
    return repr(reference(asset_id, decision["partitionKey"])) if asset_id else "an output"


def _asset(evidence: Evidence) -> str:
    return repr(evidence["assetId"]) if evidence.get("assetId") else "an output"


def _times(failures: int | None) -> str:
    return "failures" if failures is None else counted(failures, "failure")


def _names(ids: list[str]) -> str:
    return _list([repr(one) for one in ids])


def _list(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


_VERBS: dict[str, str] = {
    Outcome.RUN: "run",
    Outcome.HOLD: "held",
    Outcome.SKIP: "nothing to do",
    Outcome.ERROR: "error",
}

_CAUSES: dict[str, Describe] = {
    Reason.MISSING: _missing,
    Reason.DEFINITION_CHANGED: _definition_changed,
    Reason.UPSTREAM_UPDATE: _upstream_update,
    Reason.EXPIRED: _expired,
    Reason.BACKFILL: _backfill,
}

_HOLDS: dict[str, Describe] = {
    Reason.INPUT_MISSING: _input_missing,
    Reason.INPUT_RETIRED: _input_retired,
    Reason.FROZEN: _frozen,
    Reason.IN_FLIGHT: _in_flight,
    Reason.PAUSED: _paused,
    Reason.BREAKER_OPEN: _breaker_open,
    Reason.COOLING_DOWN: _cooling_down,
    Reason.CANCELED: _canceled,
    Reason.BACKFILL_PROPOSED: _backfill_proposed,
    Reason.QUIET_HOURS: _quiet_hours,
    Reason.INPUT_TOO_OLD: _input_too_old,
    Reason.WAITING_FOR_ALL: _waiting_for_all,
    Reason.WAITING_FOR_UPSTREAM: _waiting_for_upstream,
    Reason.DEBOUNCING: _debouncing,
    Reason.MIN_INTERVAL: _min_interval,
}

_SENTENCES: dict[str, Describe] = {
    **_CAUSES,
    **_HOLDS,
    Reason.RETRY: _retry,
    Reason.UP_TO_DATE: _up_to_date,
    Reason.POLICY_OFF: _policy_off,
    Reason.NOT_AUTO: _not_auto,
    Reason.EVALUATION_FAILED: _evaluation_failed,
}
