"""Causes in words: what is wrong, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from freshline.model.documents.overview import Action, ActionType, NextStep
from freshline.model.enums import Reason
from freshline.plural import counted
from freshline.store.read.report_command import report_command
from freshline.store.read.root_causes import Fact, Found, Root

LONGEST_ERROR = 500
_HOLDS = {
    Reason.DEBOUNCING: "waits until its inputs have stopped changing",
    Reason.MIN_INTERVAL: "waits for the shortest time between two runs",
    Reason.QUIET_HOURS: "waits for the end of its quiet hours",
    Reason.WAITING_FOR_ALL: "waits until all of its inputs have changed",
    Reason.WAITING_FOR_UPSTREAM: "waits for a workflow above it",
    Reason.INPUT_TOO_OLD: "waits for newer data of an input that is too old",
    Reason.INPUT_MISSING: "waits for an input that does not exist yet",
    Reason.INPUT_RETIRED: "is held: retention has removed rows that it would read",
    Reason.COOLING_DOWN: "waits before it is tried again",
    Reason.FROZEN: "is older than `frozenAfter`, so that only a backfill computes it",
}


@dataclass(frozen=True, slots=True)
class Source:
    """How a source is reported. `append`: each report names a path; `partitioned`: each names a partition."""

    append: bool = False
    partitioned: bool = False
    watched: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """What a text about a cause needs beside the cause. `readers`: how many workflows fail since an input changed."""

    fact: Fact | None = None
    source: Source = Source()
    run_id: str | None = None
    error: str | None = None
    unit: str = ""
    readers: int = 0
    made: str | None = None


def sentence(found: Found, words: Words) -> str:
    """Return what is wrong, as one sentence without its end."""
    root = found.first
    if root.soft:
        return _moving(found, root)
    if root.kind == "proposal":
        return f"a backfill of {words.made or 'an asset'} waits for an approval"
    return _of_asset(found, words) if root.node.type == "asset" else _of_workflow(root, words)


def _of_asset(found: Found, words: Words) -> str:
    name = found.first.node.name
    match found.first.kind:
        case "never-reported":
            return f"{name} was never reported"
        case "nothing-found" if not words.error:
            return f"the watcher of {name} has found nothing yet"
        case "nothing-found" | "watch-failing":
            return f"the watcher of {name} fails"
        case "overdue":
            return (
                f"{name} was not reported, and {counted(len(found.assets), 'asset')} made from it promised newer data"
            )
        case _:
            return f"{counted(words.readers, 'workflow')} that read {name} fail in the same way since it changed"


def _of_workflow(root: Root, words: Words) -> str:
    name = root.node.name
    match root.kind:
        case "failing":
            return f"{words.unit or name} fails{_besides(words.fact)}"
        case "overdue":
            return f"{name} has not made new data in the time that it promised"
        case "not-automatic":
            return f"{name} runs only when asked to"
        case "held":
            return f"{name} {_hold_words(root.reason)}"
        case kind:
            return f"{name} is {kind}"


def _besides(fact: Fact | None) -> str:
    """Return what else is to be known about a workflow that fails."""
    if fact is None:
        return ""
    breaker = ", and its breaker is open" if fact.breaker_at else ""
    paused = ", and it is paused" if fact.paused_at else ""
    return breaker + paused + (f", and a run of it is {fact.status}" if fact.status else "")


def _moving(found: Found, root: Root) -> str:
    one = len(found.roots) == 1
    who = root.node.name if one else f"{len(found.roots):,} workflows"
    verb = "is" if one else "are"
    match root.kind:
        case "running":
            return f"{who} {verb} running"
        case "queued":
            return f"{who} {verb} queued"
        case "due":
            return f"{who} {verb} about to be evaluated"
        case _:
            what = _hold_words(root.reason)
            return f"{who} {what}" if one else f"{who}: each {what}"


def _hold_words(reason: str) -> str:
    if not reason:
        return "is stale, and nothing has asked for a run"
    return _HOLDS.get(Reason(reason), f"is held: {reason.replace('-', ' ')}")


def next_step(found: Found, words: Words) -> NextStep:
    """Return what to do."""
    root = found.first
    name = root.node.name
    if root.soft:
        return _wait(found, root)
    if root.kind == "proposal":
        text = "See what would run, and approve or deny it"
        return _step(text, f"freshline backfill show {name}", "approve", name)
    return _for_asset(root, words) if root.node.type == "asset" else _for_workflow(root, words)


def _for_asset(root: Root, words: Words) -> NextStep:
    name = root.node.name
    match root.kind:
        case "never-reported":
            return _report("Report it when its data is there", name, words.source)
        case "overdue" if not words.source.watched:
            return _report("Report it, or find out why nobody does", name, words.source)
        case "failing":
            return _step("See what changed in it", f"freshline show {name}")
        case _:
            return _step("See what its watcher looks for", f"freshline watch show {name}")


def _for_workflow(root: Root, words: Words) -> NextStep:
    name = root.node.name
    match root.kind:
        case "failing":
            return _failing(name, words)
        case "paused":
            return _step("End the pause; one run catches up", f"freshline resume {name}", "resume", name)
        case "canceled":
            return _step("Let it run again", f"freshline reset {name}", "reset", name)
        case "not-automatic" | "overdue":
            return _step("Run it", f"freshline run {name}", "run", name)
        case _:
            return _step("See why", f"freshline why {name}")


def _failing(slug: str, words: Words) -> NextStep:
    fact = words.fact
    if fact is not None and fact.paused_at is not None:
        return _step("Correct its job, then end the pause", f"freshline resume {slug}", "resume", slug)
    if fact is not None and not fact.automatic:
        return _step("Correct its job, then run it", f"freshline run {slug}", "run", slug)
    return _step("Correct its job; a reset tries it again at once", f"freshline reset {slug}", "reset", slug)


def _wait(found: Found, root: Root) -> NextStep:
    many = len(found.roots) > 1
    match root.kind:
        case "running" | "queued":
            return _step("Nothing: wait for it", "freshline runs --status running" if many else None)
        case "stale":
            return _step("See why", f"freshline why {root.node.name}")
        case _ if many:
            return _step("Nothing: they run when the wait is over", "freshline decisions --outcome hold")
        case _:
            return _step("Nothing: it runs when the wait is over", f"freshline why {root.node.name}")


def _report(text: str, asset_id: str, source: Source) -> NextStep:
    command = report_command(asset_id, append=source.append, partitioned=source.partitioned)
    return _step(text, command, "report", asset_id)


def _step(text: str, command: str | None, action: ActionType | None = None, target: str = "") -> NextStep:
    found: Action | None = {"type": action, "target": target} if action else None
    return {"text": text, "command": command, "action": found}


def first_line(error: str | None) -> str | None:
    """Return the first line of an error, cut to a readable length."""
    line = next(iter((error or "").strip().splitlines()), "").rstrip(".")
    return (line if len(line) <= LONGEST_ERROR else line[: LONGEST_ERROR - 1] + "…") or None
