"""`freshline why`: the last decisions about an asset as sentences, with the versions that they were based on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from freshline.cli.app import App, json_option, limit_option, pass_app
from freshline.cli.command import command
from freshline.cli.filters import partition_option
from freshline.cli.render import output
from freshline.cli.render.decisions import sentence, vectors, when
from freshline.cli.render.format import differing, short
from freshline.cli.render.partitions import counts_text
from freshline.cli.render.run import check_lines
from freshline.cli.render.status import root_cause, state_text
from freshline.cli.render.table import Column, Columns, Table
from freshline.cli.render.text import Text
from freshline.errors import NotFoundError
from freshline.model.documents.partition import WantedPartitions
from freshline.model.enums import AssetState
from freshline.model.state import reference
from freshline.store.read.code_question import question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from freshline.cli.backend.protocol import ReadOnlyBackend
    from freshline.model.documents.asset import Snapshot
    from freshline.model.documents.decision import Decision
    from freshline.model.documents.status import AssetStatus, RootCause, Status


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
        f"freshline {name} sales.daily --partition 2024-01-31",
        f"freshline {name} flights-delay --limit 3    a workflow, by its slug",
        f"freshline {name} flights.delay.hourly --json",
    ]


def _answer(app: App, name: str, limit: int, *, partition: str | None, as_json: bool) -> None:
    with app.read_backend() as reader:
        status = reader.status(name)
        key = partition if partition is not None else _newest(status)
        decisions = reader.why(name, limit, partition=key)
        if as_json:
            if not decisions:
                _print_none(reader, status, name)
            output.print_json(decisions)
        else:
            _print_all(reader, status, name, decisions, partition=partition)


def print_answer(reader: ReadOnlyBackend, name: str, decisions: Sequence[Decision]) -> None:
    """Print the state of an asset or a workflow, its root causes, and the decisions about it."""
    _print_all(reader, reader.status(name), name, decisions, partition=None)


def _newest(status: Status) -> str | None:
    """Return the newest partition of the named asset, or of the outputs of the named workflow; None without any."""
    return next((one["partitionKey"] or None for one in status["assets"] if one["partitions"]), None)


def _print_all(
    reader: ReadOnlyBackend, status: Status, name: str, decisions: Sequence[Decision], *, partition: str | None
) -> None:
    _print_state(reader, status, partition)
    if not decisions:
        _print_none(reader, status, name)
    for decision in decisions:
        print_decision(decision)


def explain(reader: ReadOnlyBackend, name: str) -> str:
    """Return what `freshline why NAME --limit 3` prints into a pipe. Alerts contain it."""
    with output.captured() as text:
        status = reader.status(name)
        _print_all(reader, status, name, reader.why(name, EXPLAINED, partition=_newest(status)), partition=None)
    return text.getvalue()


def print_decision(decision: Decision) -> None:
    """Print one decision: the time, the sentence, and the versions of the inputs."""
    run = f"  (run {short(decision['runId'])})" if decision["runId"] else ""
    text = (sentence(decision), output.STATE_COLOURS[decision["outcome"]])
    output.show(Text((when(decision), "bold"), "  ", text, (run, "dim")), hang=HANG)
    if rows := vectors(decision):
        output.show(Table.of(EVIDENCE, rows, indent=4))


def _print_state(reader: ReadOnlyBackend, status: Status, partition: str | None) -> None:
    for one in status["assets"]:
        if one["partitions"]:
            _print_partitions(reader, one, partition)
            _print_question(one)
            continue
        article = "a " if one["state"] == AssetState.SOURCE else ""
        output.show(Text((one["assetId"], "bold"), f" is {article}", state_text(one)))
        _print_question(one)
        if one["version"] is not None:
            _print_version(reader.snapshot(one["assetId"]))
    for workflow in status["workflows"]:
        _print_failure(reader, workflow["slug"])
    for warning in status["warnings"]:
        if not any(_repeats(warning, cause) for cause in status["rootCauses"]):
            output.show(Text(("warning: ", "bold yellow"), warning), hang=2)
    for cause in status["rootCauses"]:
        own = any(one["workflowSlug"] == cause["workflowSlug"] for one in status["assets"])
        if own and partition is not None and cause["partitionKey"] not in {"", partition}:
            continue  # the failure of another partition explains nothing about this one
        output.show(Text(("root cause: ", "bold"), root_cause(cause)), hang=2)
    if not status["materializers"]:
        output.show(Text((NO_MATERIALIZER, "yellow")), hang=2)


def _print_question(one: AssetStatus) -> None:
    """Print what waits for a decision: rows of older code, with the commands that answer."""
    if one["needsDecision"]:
        sentence = question(one["assetId"], one["workflowSlug"], one["needsDecision"])
        output.show(Text((sentence, "yellow")), hang=2)


def _repeats(warning: str, cause: RootCause) -> bool:
    """Return whether a warning says what a root cause says too: the same error of a look at the same source."""
    named = f"'{cause['assetId']}'" in warning
    return cause["kind"] == "nothing-found" and named and bool(cause["error"]) and str(cause["error"]) in warning


def _print_partitions(reader: ReadOnlyBackend, one: AssetStatus, partition: str | None) -> None:
    """Print the counts of the states of partitions, and the state of the one that is explained: the newest."""
    asset_id, partitions = one["assetId"], one["partitions"]
    if partitions is None:
        return
    counts = Text((asset_id, "bold"), ": ", counts_text(partitions))
    if partition is not None:
        [found] = reader.partitions(asset_id, WantedPartitions(key=partition))["items"]
        state = output.coloured(found["state"])
        output.show(counts, Text((reference(asset_id, found["to"]), "bold"), " is ", state))
    elif one["partitionKey"]:
        newest = (reference(asset_id, one["partitionKey"]), "bold")
        output.show(counts, Text("the newest is ", newest, "; --partition KEY explains another one"))
    else:
        output.show(counts)


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
    """Return what the last look at a source saw; None if it has no watch. The error of a look is in the warning."""
    try:
        found = reader.watch(name)
    except NotFoundError:
        return None
    if found["lookError"] is not None:
        return "the last look failed;"
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
@partition_option
@limit_option(10)
@json_option
@pass_app
def why(app: App, *, name: str, partition: str | None, limit: int, as_json: bool) -> None:
    """Answer for an asset or a workflow."""
    _answer(app, name, limit, partition=partition, as_json=as_json)


@command(
    "why-not",
    help=ABOUT.format(question="Explain why an asset was not refreshed: the same as `why`."),
    examples=_examples("why-not"),
)
@click.argument("name", metavar="ASSET|SLUG")
@partition_option
@limit_option(10)
@json_option
@pass_app
def why_not(app: App, *, name: str, partition: str | None, limit: int, as_json: bool) -> None:
    """Answer for an asset or a workflow."""
    _answer(app, name, limit, partition=partition, as_json=as_json)
