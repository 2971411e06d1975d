"""Runs, events, decisions and workers as lines: cells of a table, or one line as things happen."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from freshline.cli.render.decisions import sentence, when
from freshline.cli.render.format import between, moment, short, version
from freshline.cli.render.output import coloured
from freshline.cli.render.text import Text
from freshline.model.json import Json

Cells = Sequence[str | Text]

LONGEST_ERROR = 100
LONGEST_FACT = 40


class Listing(NamedTuple):
    """How one kind of entry is shown."""

    columns: list[str]
    cells: Callable[[Json], Cells]


def run_cells(one: Json) -> Cells:
    """A run: which, what for, how it went."""
    status = coloured(one["status"])
    if one["mixed"]:
        status = Text(status, (" mixed", "yellow"))
    tries = f"{one['attempt']}" if one["attempt"] else "-"
    took = between(one["startedAt"], one["finishedAt"])
    return [
        short(one["id"]),
        one["workflowSlug"],
        status,
        cause(one),
        moment(one["queuedAt"]),
        took,
        tries,
        ending(one),
    ]


def cause(run: Json) -> str:
    """Why a run exists."""
    trigger = run["trigger"]
    if trigger["type"] != "auto-materialize":
        return str(trigger["type"])
    changed = [one["assetId"] for one in trigger.get("upstream") or ()]
    return f"{trigger.get('reason')}: {', '.join(changed[:3])}" if changed else str(trigger.get("reason"))


def ending(run: Json) -> str:
    """What went wrong with a run or a step, in a line."""
    if run["status"] == "canceled":
        return run["cancelReason"] or ""
    return first_line(run["error"]) if run["error"] else ""


def first_line(error: Any) -> str:
    """A stored error, cut to what fits beside other things."""
    text = str(error.get("message", error)) if isinstance(error, dict) else str(error)
    line = (text.strip().splitlines() or [""])[0]
    return line if len(line) <= LONGEST_ERROR else line[: LONGEST_ERROR - 1] + "…"


def event_cells(one: Json) -> Cells:
    """An event: when, what, about what."""
    position = "-" if one["position"] is None else str(one["position"])
    return [position, moment(one["time"]), one["type"], one["subject"], event_words(one)]


def event_words(event: Json) -> str:
    """The part of an event's data that people look for."""
    data = event["data"]
    told = []
    if event["type"] == "asset.produced":
        told.append(version(data.get("dataVersion")) + ("" if data.get("changed", True) else " (unchanged)"))
    if data.get("reason"):
        told.append(str(data["reason"]))
    if data.get("runId"):
        told.append(f"run {short(data['runId'])}")
    return ", ".join(told)


def decision_cells(one: Json) -> Cells:
    """A decision: when, about what, the sentence."""
    return [when(one), one["workflowSlug"], coloured(one["outcome"]), one["reason"], sentence(one), short(one["runId"])]


def worker_cells(one: Json) -> Cells:
    """A process: what it is, where, whether it is there."""
    state = "stopped" if one["stoppedAt"] else "live" if one["live"] else "silent"
    runs = ", ".join(short(run) for run in one["runs"]) or "-"
    where = f"{one['host']}:{one['pid']}"
    styled = Text((state, {"live": "green", "silent": "red"}.get(state, "dim")))
    seen = moment(one["seenAt"])
    return [short(one["id"]), one["kind"], where, styled, one["project"] or "-", moment(one["startedAt"]), seen, runs]


def change_cells(one: Json) -> Cells:
    """A change: when, who, what, and which facts are others now."""
    return [moment(one["at"]), one["who"], one["what"], one["subject"], _difference(one["before"], one["after"])]


def _difference(before: Json | None, after: Json | None) -> str:
    old, new = before or {}, after or {}
    told = [f"{name}: {_fact(old.get(name))} -> {_fact(new.get(name))}" for name in new if old.get(name) != new[name]]
    return "; ".join(told)


def _fact(value: Any) -> str:
    text = "-" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_FACT else text[: LONGEST_FACT - 1] + "…"


RUNS = Listing(["RUN", "WORKFLOW", "STATUS", "BECAUSE", "QUEUED", "TOOK", "TRY", ""], run_cells)
EVENTS = Listing(["POSITION", "TIME", "TYPE", "SUBJECT", ""], event_cells)
DECISIONS = Listing(["TIME", "WORKFLOW", "OUTCOME", "REASON", "", "RUN"], decision_cells)
AUDIT = Listing(["TIME", "WHO", "WHAT", "SUBJECT", ""], change_cells)
WORKERS = Listing(["ID", "KIND", "WHERE", "STATE", "PROJECT", "STARTED", "SEEN", "RUNS"], worker_cells)


def line(listing: Listing, one: Json) -> Text:
    """One entry on one line, for followers."""
    cells = [cell if isinstance(cell, Text) else Text(cell) for cell in listing.cells(one)]
    return Text.join("  ", [cell for cell in cells if cell.plain])
