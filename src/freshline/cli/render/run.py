"""One run told in full: what it was for, how its steps went, what it made, and what the checks found."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from freshline.cli.render import output, rows, run_detail
from freshline.cli.render.format import between, moment, number, version
from freshline.cli.render.text import Text
from freshline.model.json import Json

LONGEST_VALUE = 100


def tell_run(run: Json) -> None:
    """The run, then its inputs, steps and outputs, then its error."""
    output.show(_headline(run))
    if run["inputs"]:
        read = [[one["assetId"], str(one["version"]), version(one["dataVersion"])] for one in run["inputs"]]
        output.show(output.table(["INPUT", "VERSION", "DATA"], read))
    if run["steps"]:
        output.show(run_detail.steps(run))
    if run["outputs"]:
        output.show(output.table(["OUTPUT", "VERSION", "DATA", "ROWS"], map(_output, run["outputs"])))
    for made in run["outputs"]:
        tell_checks(made["assetId"], made["checks"])
    tell_error(run)


def tell_error(run: Json) -> None:
    """What went wrong, with the user's own lines."""
    error = run["error"]
    if not error:
        return
    where = f"step {error['step']}: " if error.get("step") else ""
    output.show(Text((f"{where}{error.get('message', '')}", "red")))
    if error.get("traceback"):
        output.show(Text((error["traceback"].rstrip(), "dim")))
    for line in check_lines(error.get("checks") or ()):
        output.show(line)


def tell_checks(asset: str, checks: Sequence[Json] | None) -> None:
    """How the checks of an asset went; nothing if it has none."""
    if not checks:
        return
    output.show(f"{asset}: {summary(checks)}")
    for line in check_lines(checks):
        output.show(line)


def summary(checks: Sequence[Json]) -> str:
    """How many checks passed, and how many did not."""
    failed = sum(not one["passed"] for one in checks)
    noun = "check" if len(checks) == 1 else "checks"
    return f"{len(checks)} {noun}, all passed" if not failed else f"{failed} of {len(checks)} {noun} did not pass"


def check_lines(checks: Sequence[Json]) -> Iterator[Text]:
    """The checks that did not pass, each with what was observed."""
    for one in checks:
        if not one["passed"]:
            found = one.get("message") or f"observed {_value(one['observed'])}"
            style = "yellow" if one["severity"] == "warn" else "red"
            yield Text("  ", (one["severity"], style), f" {one['check']}: {found}")


def _headline(run: Json) -> Text:
    took = between(run["startedAt"], run["finishedAt"])
    told = f", took {took}" if run["finishedAt"] and run["startedAt"] else ""
    return Text(
        (f"run {run['id']}", "bold"),
        f" of {run['workflowSlug']} (version {run['workflowVersion']}) ",
        output.coloured(run["status"]),
        f", because {rows.cause(run)}, queued {moment(run['queuedAt'])}{told}",
    )


def _output(one: Json) -> list[str]:
    same = "" if one["changed"] else " (unchanged)"
    return [one["assetId"], str(one["version"]), version(one["dataVersion"]) + same, number(one["rows"])]


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
