"""States of assets, and root causes as sentences: what keeps an asset from being updated, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from freshline.cli.render import output
from freshline.cli.render.format import short
from freshline.cli.render.references import unit
from freshline.cli.render.text import Text
from freshline.model.enums import AssetState
from freshline.store.read.code_question import MARK
from freshline.store.read.report_command import report_command

if TYPE_CHECKING:
    from freshline.model.documents.status import AssetStatus, RootCause

LONGEST_ERROR = 500
# States in which a failure above an asset is worth mentioning.
_FAILING = ((", upstream failing", "red"),)
_AT_REST = frozenset({AssetState.FRESH, AssetState.STALE, AssetState.WAITING, AssetState.MISSING})


def state_text(one: AssetStatus) -> Text:
    """Return the state of an asset, whether it needs a decision, and whether a workflow above it fails."""
    failing = one["upstreamFailing"] and one["state"] in _AT_REST
    return Text(output.coloured(one["state"]), *decision_mark(one), *_FAILING[:failing])


def decision_mark(one: AssetStatus) -> list[tuple[str, str]]:
    """Return the mark of an asset with rows of older code about which nobody has decided."""
    return [(f", {MARK}", "yellow")] if one["needsDecision"] else []


def root_cause(cause: RootCause) -> str:
    """Return a root cause as one sentence with a command."""
    slug = cause["workflowSlug"]
    match cause["kind"]:
        case "never-reported":
            command = report_command(cause["assetId"] or "", append=cause["append"], partitioned=cause["partitioned"])
            return f"{cause['assetId']} was never reported; `{command}`"
        case "nothing-found":
            failed = f"looking at {cause['assetId']} fails: {_first_line(cause['error'])}" if cause["error"] else ""
            nothing = failed or f"{cause['assetId']} was never reported, because its watcher has found nothing yet"
            return f"{nothing}; `freshline watch show {cause['assetId']}` says more"
        case "failing":
            run = short(cause["runId"])
            return (
                f"run {run} of {unit(cause)} failed: {_first_line(cause['error'])}; `freshline runs {run}` shows more"
            )
        case "paused":
            return f"{slug} is paused; `freshline resume {slug}` ends that"
        case _:
            return f"{slug} was never run, and runs only when asked to; `freshline run {slug}`"


def _first_line(error: str | None) -> str:
    line = ((error or "").strip().splitlines() or ["no error was stored"])[0].rstrip(".")
    return line if len(line) <= LONGEST_ERROR else line[: LONGEST_ERROR - 1] + "…"
