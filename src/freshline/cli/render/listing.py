"""Rows of the listings: runs, events, decisions, changes and workers, as cells of a table or as one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from freshline.cli.render.decisions import repetitions, sentence
from freshline.cli.render.format import between, moment, short, version
from freshline.cli.render.output import coloured
from freshline.cli.render.references import few_partitions, unit
from freshline.cli.render.table import Column, Columns, Table
from freshline.cli.render.text import Text
from freshline.model.documents.decision import Decision
from freshline.model.documents.event import Event
from freshline.model.documents.installation import AuditEntry, Process
from freshline.model.documents.run import Run
from freshline.model.enums import Reason
from freshline.model.json import Json
from freshline.model.state import reference

T = TypeVar("T")
Cells = Sequence[str | Text]

LONGEST_ERROR = 100
LONGEST_VALUE = 40
MOST_CHANGED = 5
NO_VALUE = {"", "-"}


class Listing(NamedTuple, Generic[T]):
    """The columns and cells of one kind of entry."""

    columns: Columns
    cells: Callable[[T], Cells]

    def table(self, entries: Iterable[T]) -> Table:
        """Return the entries as a table."""
        return Table.of(self.columns, [self.cells(one) for one in entries])

    def line(self, entry: T) -> Text:
        """Return one entry as one line, for followers. A cell without a value is left out: no heading explains it."""
        cells = [cell if isinstance(cell, Text) else Text(cell) for cell in self.cells(entry)]
        return Text.join("  ", [cell for cell in cells if cell.plain not in NO_VALUE])


def run_cells(one: Run) -> Cells:
    """Return the cells of a run."""
    tries = f"{one['attempt']}" if one["attempt"] else "-"
    took = between(one["startedAt"], one["finishedAt"])
    return [
        short(one["id"]),
        unit(one),
        status(one),
        cause(one),
        moment(one["queuedAt"]),
        took,
        tries,
        ending(one),
    ]


def status(run: Run) -> Text:
    """Return the status of a run, and whether it may have read a mix of generations."""
    found = coloured(run["status"])
    if run["mixed"] or run["mixedUpstream"]:
        return Text(found, (" mixed" if run["mixed"] else " mixed upstream", "yellow"))
    return found


def cause(run: Run) -> str:
    """Return why a run exists."""
    trigger = run["trigger"]
    if trigger["type"] != "auto-materialize":
        return str(trigger["type"])
    reason = trigger.get("reason")
    # "missing: orders.raw" would read as if the input were missing, and not an output.
    changed = [] if reason == Reason.MISSING else few_partitions(trigger.get("upstream") or ())
    return f"{reason}: {', '.join(changed[:3])}" if changed else str(reason)


def ending(run: Run) -> str:
    """Return the error or the reason of the cancellation of a run or a step, in one line."""
    if run["status"] == "canceled":
        return run["cancelReason"] or ""
    return first_line(run["error"]) if run["error"] else ""


def first_line(error: Any) -> str:
    """Return the first line of a stored error, shortened."""
    text = str(error.get("message", error)) if isinstance(error, dict) else str(error)
    line = (text.strip().splitlines() or [""])[0]
    return line if len(line) <= LONGEST_ERROR else line[: LONGEST_ERROR - 1] + "…"


def event_cells(one: Event) -> Cells:
    """Return the cells of an event."""
    position = "-" if one["position"] is None else str(one["position"])
    return [position, moment(one["time"]), one["type"], event_subject(one), event_summary(one)]


def event_subject(event: Event) -> str:
    """Return the asset or workflow that an event is about, with its partition."""
    return reference(event["subject"], str(event["data"].get("partitionKey") or ""))


def event_summary(event: Event) -> str:
    """Return the part of an event's data that people look for."""
    data = event["data"]
    parts = []
    if event["type"] == "asset.produced":
        parts.append(version(data.get("dataVersion")) + ("" if data.get("changed", True) else " (unchanged)"))
    if event["type"] == "asset.partition.retired":
        parts.append(str(data["partitionKey"]))
    if event["type"].startswith("backfill."):
        parts.append(f"{data['progress']['done']} of {data['progress']['total']} done")
    if data.get("reason"):
        parts.append(str(data["reason"]))
    if data.get("runId"):
        parts.append(f"run {short(data['runId'])}")
    return ", ".join(parts)


def decision_cells(one: Decision) -> Cells:
    """Return the cells of a decision."""
    text = sentence(one) + repetitions(one)
    run = short(one["runId"])
    return [moment(one["at"]), unit(one), coloured(one["outcome"]), one["reason"], text, run]


def worker_cells(one: Process) -> Cells:
    """Return the cells of a process."""
    state = "stopped" if one["stoppedAt"] else "live" if one["live"] else "silent"
    runs = ", ".join(short(run) for run in one["runs"]) or "-"
    where = f"{one['host']}:{one['pid']}"
    styled = Text((state, {"live": "green", "silent": "red"}.get(state, "dim")))
    seen = moment(one["seenAt"])
    return [short(one["id"]), one["kind"], where, styled, one["project"] or "-", moment(one["startedAt"]), seen, runs]


def change_cells(one: AuditEntry) -> Cells:
    """Return the cells of a change: when, who, what, and which values differ."""
    return [moment(one["at"]), one["who"], one["what"], one["subject"], _difference(one["before"], one["after"])]


def _difference(before: Json | None, after: Json | None) -> str:
    old, new = before or {}, after or {}
    parts = [f"{name}: {_some(value)}" for name, value in new.items() if _is_some(value) and value["count"]]
    for name, value in new.items():
        if not _is_some(value) and old.get(name) != value:
            was = "" if before is None else f"{_value(old.get(name))} -> "
            parts.append(f"{name}: {was}{_value(value)}")
    return "; ".join(parts)


def _is_some(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"count", "first"}


def _some(value: Json) -> str:
    """Return `12 (a, b, c, …)` for a number of names and the first of them, as an apply stores them."""
    shown = value["first"][:MOST_CHANGED]
    more = ", …" if value["count"] > len(shown) else ""
    return f"{value['count']:,} ({', '.join(shown)}{more})"


def _value(value: Any) -> str:
    text = "-" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


RUNS = Listing(
    [
        "RUN",
        "WORKFLOW",
        "STATUS",
        Column("BECAUSE", wraps=20),
        Column("QUEUED", drop=2),
        Column("TOOK", drop=1),
        Column("TRY", drop=3),
        Column("ERROR", wraps=20),
    ],
    run_cells,
)
EVENTS = Listing(
    [Column("POSITION", drop=1), "TIME", "TYPE", "SUBJECT", Column("DETAILS", wraps=24)],
    event_cells,
)
DECISIONS = Listing(
    [
        "TIME",
        "WORKFLOW",
        Column("OUTCOME", drop=1),
        Column("REASON", drop=3),
        Column("DECISION", wraps=40),
        Column("RUN", drop=2),
    ],
    decision_cells,
)
AUDIT = Listing(["TIME", Column("WHO", drop=1), "WHAT", "SUBJECT", Column("CHANGE", wraps=30)], change_cells)
WORKERS = Listing(
    [
        Column("ID", drop=3),
        "KIND",
        "WHERE",
        "STATE",
        Column("PROJECT", drop=2),
        Column("STARTED", drop=4),
        Column("SEEN", drop=1),
        Column("RUNS", wraps=8),
    ],
    worker_cells,
)
