"""`freshline why`: the last decisions about an asset as sentences, with the versions that they were based on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from freshline.cli.app import App, json_option, limit_option, pass_app
from freshline.cli.command import command
from freshline.cli.render import output
from freshline.cli.render.decisions import sentence, vectors, when
from freshline.cli.render.format import differing, short
from freshline.cli.render.run import check_lines
from freshline.cli.render.status import root_cause, state_text
from freshline.cli.render.table import Column, Columns, Table
from freshline.cli.render.text import Text
from freshline.errors import NotFoundError
from freshline.model.enums import AssetState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from freshline.cli.backend.protocol import ReadOnlyBackend
    from freshline.model.documents.asset import Snapshot
    from freshline.model.documents.decision import Decision
    from freshline.model.documents.status import Status


EXPLAINED = 3  # decisions in an alert
HANG = 10  # second lines begin below the sentence
EVIDENCE: Columns = ["INPUT", Column("LAST READ", drop=2), Column("NOW", drop=1), ""]
NO_MATERIALIZER = (
    "no materializer is running, so nothing is decided and nothing runs by itself; "
    "start `freshline materializer`, or `freshline dev`"
)
ABOUT = """{question}

Every decision is stored with its reason and its evidence: the data versions of the inputs that the last success
read beside the current ones. Equal decisions in a row are counted.
"""


def _examples(name: str) -> list[str]:
    return [
        f"freshline {name} flights.delay.hourly",
        f"freshline {name} flights-delay --limit 3    a workflow, by its slug",
        f"freshline {name} flights.delay.hourly --json",
    ]


def _answer(app: App, name: str, limit: int, *, as_json: bool) -> None:
    with app.read_backend() as reader:
        decisions = reader.why(name, limit)
        if as_json:
            if not decisions:
                _print_none(reader, reader.status(name), name)
            output.print_json(decisions)
        else:
            print_answer(reader, name, decisions)


def print_answer(reader: ReadOnlyBackend, name: str, decisions: Sequence[Decision]) -> None:
    """Print the state of an asset or a workflow, its root causes, and the decisions about it."""
    status = reader.status(name)
    _print_state(reader, status)
    if not decisions:
        _print_none(reader, status, name)
    for decision in decisions:
        print_decision(decision)


def explain(reader: ReadOnlyBackend, name: str) -> str:
    """Return what `freshline why NAME --limit 3` prints into a pipe. Alerts contain it."""
    with output.captured() as text:
        print_answer(reader, name, reader.why(name, EXPLAINED))
    return text.getvalue()


def print_decision(decision: Decision) -> None:
    """Print one decision: the time, the sentence, and the versions of the inputs."""
    run = f"  (run {short(decision['runId'])})" if decision["runId"] else ""
    text = (sentence(decision), output.STATE_COLOURS[decision["outcome"]])
    output.show(Text((when(decision), "bold"), "  ", text, (run, "dim")), hang=HANG)
    if rows := vectors(decision):
        output.show(Table.of(EVIDENCE, rows, indent=4))


def _print_state(reader: ReadOnlyBackend, status: Status) -> None:
    for one in status["assets"]:
        article = "a " if one["state"] == AssetState.SOURCE else ""
        output.show(Text((one["assetId"], "bold"), f" is {article}", state_text(one)))
        if one["version"] is not None:
            _print_version(reader.snapshot(one["assetId"]))
    for workflow in status["workflows"]:
        _print_failure(reader, workflow["slug"])
    for warning in status["warnings"]:
        output.show(Text(("warning: ", "bold yellow"), warning), hang=2)
    for cause in status["rootCauses"]:
        output.show(Text(("root cause: ", "bold"), root_cause(cause)), hang=2)
    if not status["materializers"]:
        output.show(Text((NO_MATERIALIZER, "yellow")), hang=2)


def _print_version(snapshot: Snapshot) -> None:
    """Print how the current version differs from the one before, and its failed checks."""
    if snapshot["changed"] and snapshot["difference"]:
        output.show(f"version {snapshot['version']} differs by {differing(snapshot['difference'])}")
    for line in check_lines(snapshot["checks"] or ()):
        output.show(line)


def _print_failure(reader: ReadOnlyBackend, slug: str) -> None:
    """Print the checks that the last run failed."""
    for run in reader.runs(1, workflow=slug):
        error = run["error"]
        if error and (checks := error.get("checks")):
            output.show(f"the last run {short(run['id'])} published nothing:")
            for line in check_lines(checks):
                output.show(line)


def _watch(reader: ReadOnlyBackend, name: str) -> str | None:
    """Return what the last look at a source saw; None if it has no watch."""
    try:
        found = reader.watch(name)
    except NotFoundError:
        return None
    if found["lookError"] is not None:
        return f"the last look failed: {found['lookError']};"
    return found["summary"] or "nobody has looked yet;"


def _print_none(reader: ReadOnlyBackend, status: Status, name: str) -> None:
    """Print why nothing was decided about a name."""
    for one in status["assets"]:
        if one["state"] == AssetState.RETIRED:
            output.message(f"nobody produces, reads or reports {name} any more; `freshline forget {name}` removes it")
            return
        if one["workflowSlug"] is None:
            if watched := _watch(reader, name):
                output.message(f"{name} is a source with a watcher: {watched} `freshline watch show {name}` says more")
                return
            reported = "" if one["version"] is not None else "it was never reported; "
            output.message(
                f"{name} is a source: {reported}`freshline report {name}` reports its changes, and nothing is decided "
                "about it"
            )
            return
    output.message(f"nothing was decided about {name} yet")


@command(
    "why",
    help=ABOUT.format(question="Explain why an asset was, or was not, refreshed: the last decisions with evidence."),
    examples=_examples("why"),
)
@click.argument("name", metavar="ASSET|SLUG")
@limit_option(10)
@json_option
@pass_app
def why(app: App, *, name: str, limit: int, as_json: bool) -> None:
    """Answer for an asset or a workflow."""
    _answer(app, name, limit, as_json=as_json)


@command(
    "why-not",
    help=ABOUT.format(question="Explain why an asset was not refreshed: the same as `why`."),
    examples=_examples("why-not"),
)
@click.argument("name", metavar="ASSET|SLUG")
@limit_option(10)
@json_option
@pass_app
def why_not(app: App, *, name: str, limit: int, as_json: bool) -> None:
    """Answer for an asset or a workflow."""
    _answer(app, name, limit, as_json=as_json)
