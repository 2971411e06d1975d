"""One run in full: its inputs, the tries of its steps, its outputs, its checks and its error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from freshline.cli.render import listing, output
from freshline.cli.render.format import between, duration, moment, number, size, version
from freshline.cli.render.progress import standing
from freshline.cli.render.references import few, named, unit
from freshline.cli.render.table import Column, Columns, Table
from freshline.cli.render.text import Text
from freshline.model.documents.run import Check, Run, RunDetail, RunOutput, Step, StepMetrics
from freshline.model.enums import Reason
from freshline.plural import counted

LONGEST_VALUE = 100
BECAUSE: dict[str | None, str] = {  # by the reason of an automatic run, else by the trigger
    "manual": "started by hand",
    "backfill": "started for a backfill",
    Reason.MISSING: "started because an output was never produced",
    Reason.DEFINITION_CHANGED: "started because its definition changed",
    Reason.EXPIRED: "started because its freshness ran out",
}
MOST_INPUTS = 31  # the days of a month
INPUTS = ["INPUT", "VERSION", "DATA"]
OUTPUTS = ["OUTPUT", "VERSION", "DATA", "ROWS"]
STEPS: Columns = [
    "STEP",
    "TRY",
    "STATUS",
    "TOOK",
    Column("ROWS IN", drop=3),
    Column("READ", drop=4),
    Column("ROWS OUT", drop=1),
    Column("WRITTEN", drop=2),
    Column("TASKS", drop=5),
    Column("SHUFFLED", drop=6),
    Column("SPILLED", drop=7),
    Column("", wraps=20),
]


def print_run(run: RunDetail) -> None:
    """Print the run, then its inputs, steps and outputs, then its error."""
    output.show(_headline(run))
    if run["inputs"]:
        shown = run["inputs"][:MOST_INPUTS]
        read = [[named(one), str(one["version"]), version(one["dataVersion"])] for one in shown]
        output.show(Table.of(INPUTS, read))
        if more := len(run["inputs"]) - len(shown):
            output.show(Text((f"and {counted(more, 'more input partition')}; --json has all", "dim")))
    if run["steps"]:
        output.show(Table.of(STEPS, [_step_cells(run, one) for one in run["steps"]]))
    if run["outputs"]:
        output.show(Table.of(OUTPUTS, map(_output_cells, run["outputs"])))
    for made in run["outputs"]:
        print_checks(named(made), made["checks"])
    print_error(run)


def print_error(run: Run) -> None:
    """Print what went wrong, with the lines of the user's own code."""
    error = run["error"]
    if not error:
        return
    where = f"step {error['step']}: " if error.get("step") else ""
    output.show(Text((f"{where}{error.get('message', '')}", "red")))
    if traceback := error.get("traceback"):
        output.write_line(Text((traceback.rstrip(), "dim")), sys.stdout)
    for line in check_lines(error.get("checks") or ()):
        output.show(line)


def print_checks(asset: str, checks: Sequence[Check] | None) -> None:
    """Print how the checks of an asset went; nothing if it has none."""
    if not checks:
        return
    output.show(f"{asset}: {check_summary(checks)}")
    for line in check_lines(checks):
        output.show(line)


def check_summary(checks: Sequence[Check]) -> str:
    """Return how many checks passed, and how many did not."""
    failed = sum(not one["passed"] for one in checks)
    noun = "check" if len(checks) == 1 else "checks"
    return f"{len(checks)} {noun}, all passed" if not failed else f"{failed} of {len(checks)} {noun} did not pass"


def check_lines(checks: Sequence[Check]) -> Iterator[Text]:
    """Yield the checks that did not pass, each with the value that was observed."""
    for one in checks:
        if not one["passed"]:
            found = one.get("message") or f"observed {_value(one['observed'])}"
            style = "yellow" if one["severity"] == "warn" else "red"
            yield Text("  ", (one["severity"], style), f" {one['check']}: {found}")


def output_text(made: RunOutput) -> str:
    """Return a published version as `version 3 (1,204 rows, unchanged)`."""
    about = [] if made["rows"] is None else [counted(made["rows"], "row")]
    about += [] if made["changed"] else ["unchanged"]
    return f"version {made['version']}" + (f" ({', '.join(about)})" if about else "")


def _because(run: Run) -> str:
    trigger = run["trigger"]
    reason = trigger.get("reason") if trigger["type"] == "auto-materialize" else trigger["type"]
    return BECAUSE.get(reason) or f"because {listing.cause(run)}"


def _headline(run: Run) -> Text:
    took = between(run["startedAt"], run["finishedAt"])
    ended = f", took {took}" if run["finishedAt"] and run["startedAt"] else ""
    return Text(
        (f"run {run['id']}", "bold"),
        f" of {unit(run)} (version {run['workflowVersion']}) ",
        listing.status(run),
        f", {_because(run)}, queued {moment(run['queuedAt'])}{ended}{_batch(run)}",
    )


def _batch(run: Run) -> str:
    """Return with which partitions the run is computed together."""
    if run["batchId"] is None:
        return ""
    if run["batchId"] != run["id"]:
        return f", in the batch of run {run['batchId']}, which has the steps and the log"
    keys = run["partitionKeys"]
    return f", in one batch of {counted(len(keys), 'partition')}: {', '.join(few(keys))}"


def _step_cells(run: Run, step: Step) -> list[str | Text]:
    known = step["metrics"] or {}
    took = (
        duration(known["durationMs"] / 1000)
        if "durationMs" in known
        else between(step["startedAt"], step["finishedAt"])
    )
    return [
        step["stepId"],
        f"{step['attempt']}.{step['try']}",
        output.coloured(step["status"]),
        took,
        number(known.get("rowsIn")),
        size(known.get("bytesIn")),
        number(known.get("rowsOut")),
        size(known.get("bytesOut")),
        number(known.get("tasks")),
        size(known.get("shuffleWriteBytes")),
        size(known.get("diskSpilledBytes")),
        _step_text(run, step, known),
    ]


def _step_text(run: Run, step: Step, known: StepMetrics) -> str:
    """Return the progress of a running step, the error of a failed one, else the last progress that was reported."""
    if step["status"] == "running" and run["status"] == "running":
        return standing(run).text
    if step["error"]:
        return listing.first_line(step["error"])
    return standing({"progress": {"job": known.get("progress")}}).text


def _output_cells(one: RunOutput) -> list[str]:
    same = "" if one["changed"] else " (unchanged)"
    return [named(one), str(one["version"]), version(one["dataVersion"]) + same, number(one["rows"])]


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
