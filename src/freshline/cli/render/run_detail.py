"""One run in detail: its tries of steps with what each read, wrote, shuffled and spilled, and what was published."""

from __future__ import annotations

from freshline.cli.render import progress, rows
from freshline.cli.render.format import between, duration, number, size
from freshline.cli.render.output import coloured, table
from freshline.cli.render.text import Table, Text
from freshline.model.json import Json

COLUMNS = [
    "STEP",
    "TRY",
    "STATUS",
    "TOOK",
    "ROWS IN",
    "READ",
    "ROWS OUT",
    "WRITTEN",
    "TASKS",
    "SHUFFLED",
    "SPILLED",
    "",
]


def steps(run: Json) -> Table:
    """A row per try of a step."""
    return table(COLUMNS, [_cells(run, one) for one in run["steps"]])


def output_words(made: Json) -> str:
    """A published version, as `version 3 (1,204 rows, unchanged)`."""
    same = "" if made["changed"] else ", unchanged"
    return f"version {made['version']} ({number(made['rows'])} rows{same})"


def _cells(run: Json, step: Json) -> list[str | Text]:
    known = step["metrics"] or {}
    took = (
        duration(known["durationMs"] / 1000)
        if "durationMs" in known
        else between(step["startedAt"], step["finishedAt"])
    )
    return [
        step["stepId"],
        f"{step['attempt']}.{step['try']}",
        coloured(step["status"]),
        took,
        number(known.get("rowsIn")),
        size(known.get("bytesIn")),
        number(known.get("rowsOut")),
        size(known.get("bytesOut")),
        number(known.get("tasks")),
        size(known.get("shuffleWriteBytes")),
        size(known.get("diskSpilledBytes")),
        _last_words(run, step, known),
    ]


def _last_words(run: Json, step: Json, known: Json) -> str:
    """How far it is, what the job said of itself last, or why it failed."""
    if step["status"] == "running" and run["status"] == "running":
        return progress.standing(run).words
    if step["error"]:
        return rows.first_line(step["error"])
    return progress.standing({"progress": {"job": known.get("progress")}}).words
