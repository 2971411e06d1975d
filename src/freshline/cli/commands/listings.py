"""The listings: runs, events, decisions, workers. Newest first, in pages; with `--follow` as they happen."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

import click

from freshline.cli.app import App, json_option, limit_option, pass_app
from freshline.cli.command import command
from freshline.cli.filters import (
    of_option,
    partition_option,
    period,
    refuse_patterns,
    refuse_period,
    since_option,
    until_option,
)
from freshline.cli.follow import DecisionFollower, EventFollower, Follower, RunFollower, WatchedRuns, entries
from freshline.cli.render import event_outcomes, listing, output
from freshline.cli.render.pages import asked, several, show, show_page
from freshline.cli.render.progress import HANG, progress
from freshline.cli.render.run import print_run
from freshline.cli.render.table import Table
from freshline.errors import NotFoundError, UsageError
from freshline.model.documents.event import EventDetail
from freshline.model.documents.listing import About
from freshline.model.documents.run import RunDetail
from freshline.model.enums import Outcome, RunStatus, TriggerType
from freshline.unmatched import unknown_types

if TYPE_CHECKING:
    from freshline.cli.backend.protocol import ReadOnlyBackend


T = TypeVar("T")

STATUSES = [str(one) for one in RunStatus]
TRIGGERS = [str(one) for one in TriggerType]
OUTCOMES = [str(one) for one in Outcome]

NO_RUNS = "there are no runs yet; `freshline run SLUG` makes one, `freshline report ASSET` says that a source changed"
NO_EVENTS = "there are no events yet; `freshline apply` stores a project, `freshline report ASSET` reports a change"
NO_DECISIONS = (
    "there are no decisions yet; a running materializer makes them: `freshline dev` or `freshline materializer`"
)
NO_WORKERS = "nothing is running; `freshline dev` starts everything, `freshline workers --all` lists what stopped"
NO_CHANGES = "there are no changes yet; everything that a user changes is listed here"

after_option = click.option("--after", metavar="ID", help="Continue a listing after this entry.")
follow_option = click.option(
    "--follow", "-f", is_flag=True, help="Keep printing what happens (JSON lines with --json)."
)


@command(
    "runs",
    examples=[
        "freshline runs",
        "freshline runs --state failed --workflow flights-delay --since 7d",
        "freshline runs --asset flights.clean --trigger manual",
        "freshline runs --asset sales.daily --partition 2024-01-31",
        "freshline runs --asset 'core__*' --state failed",
        "freshline runs --json --limit 1000 | jq '.[] | select(.mixed) | .id'",
        "freshline runs --follow",
        "freshline runs 5f0c11aa           one run in full",
    ],
)
@click.argument("run", metavar="[RUN]", required=False)
@limit_option(20)
@after_option
@since_option
@until_option
@click.option("--state", "--status", "status", type=click.Choice(STATUSES), help="Only runs in this state.")
@click.option("--trigger", type=click.Choice(TRIGGERS), help="Only runs with this cause.")
@click.option("--workflow", metavar="SLUG", help="Only runs of this workflow, or of those that a pattern matches.")
@click.option("--asset", metavar="ASSET", help="Only runs of the workflows that produce this asset, or a pattern's.")
@of_option
@partition_option
@follow_option
@json_option
@pass_app
def runs(
    app: App,
    *,
    run: str | None,
    limit: int,
    after: str | None,
    since: str | None,
    until: str | None,
    status: str | None,
    trigger: str | None,
    workflow: str | None,
    asset: str | None,
    owner: str | None,
    partition: str | None,
    follow: bool,
    as_json: bool,
) -> None:
    """List runs, newest first, or show one in full.

    With a pattern such as 'core__*', or with --of, the first line counts the runs of all pages by their state.

    The short id in the table is the end of the full one; commands take either.

    With a RUN: what it read, the tries of its steps with rows and bytes read and written, tasks, shuffle and spill,
    what it published, the checks that did not pass and what they observed, and its error with the lines of your own
    code.

    With --follow, a terminal shows a bar for every run that is running.
    """
    _refuse_both(workflow, asset)
    with app.read_backend() as reader:
        if run is not None:
            _refuse_run_filters(after, since, until, status, trigger, workflow, asset, owner, partition, follow=follow)
            _show_run(reader.run(run), as_json=as_json)
            return
        if follow:
            _refuse_after(after)
            refuse_period(since, until)
            refuse_patterns(owner, workflow, asset)
            slug = _producer(reader, asset, "run") if asset else workflow
            names = {"workflow": slug, "partition": partition}
            follower = RunFollower(reader, limit=limit, **names, status=status, trigger=trigger)
            _follow_runs(follower, as_json=as_json)
        within = period(reader, since, until)
        about = About(workflow, asset, owner, partition)
        found = reader.runs(
            asked(limit, as_json=as_json),
            *(after, status, workflow),
            asset=asset,
            project=owner,
            partition=partition,
            trigger=trigger,
            period=within,
        )
        counted = None if as_json or not several(about) else reader.run_tally(status, trigger, about, period=within)
        filtered = any((after, since, until, status, trigger, workflow, asset, owner))
        show_page(found, listing.RUNS, NO_RUNS, limit, counted, filtered=filtered, as_json=as_json)


@command(
    "events",
    examples=[
        "freshline events --limit 50",
        "freshline events --type asset --subject flights.clean",
        "freshline events --follow --json",
        "freshline events 4711             the outcomes of one: an id or a position",
    ],
)
@click.argument("event", metavar="[EVENT]", required=False)
@limit_option(20)
@after_option
@click.option(
    "--type", "kind", metavar="NAME", help="Only this type, or those that begin with it (asset, workflow.run)."
)
@click.option("--subject", metavar="NAME", help="Only about this asset or workflow, or those that a pattern matches.")
@click.option("--asset", metavar="ASSET", help="Only about this asset, or a pattern's, and their workflows.")
@of_option
@partition_option
@since_option
@until_option
@follow_option
@json_option
@pass_app
def events(
    app: App,
    *,
    event: str | None,
    limit: int,
    after: str | None,
    kind: str | None,
    subject: str | None,
    asset: str | None,
    owner: str | None,
    partition: str | None,
    since: str | None,
    until: str | None,
    follow: bool,
    as_json: bool,
) -> None:
    """List events, newest first, or show the outcomes of one. `--after` takes an id or a position.

    With an EVENT, an id or a position: its outcome for each workflow that it concerns, with the reason. It triggered a
    run, is included in one, was superseded by a newer one, is held, was ignored, or is pending.

    With --follow, events come in the order of their positions, which a running materializer assigns; then --after
    continues after the given one, so that a program can resume where it stopped.
    """
    if subject and asset:
        raise UsageError("--subject and --asset exclude each other; give one of them")
    with app.read_backend() as reader:
        if event is not None:
            _refuse_filters(after, kind, subject, asset, owner, partition, since, until, follow=follow)
            _show_outcomes(reader.event(event, limit), as_json=as_json)
            return
        output.warn(unknown_types([kind] if kind else ()))
        if follow:
            refuse_period(since, until)
            refuse_patterns(owner)
            names = {"subject": subject, "asset": asset, "partition": partition}
            follower = EventFollower(reader, limit=limit, after=after, type=kind, **names)
            _follow(follower, listing.EVENTS, as_json=as_json)
        within = period(reader, since, until)
        names = {"asset": asset, "project": owner, "partition": partition}
        found = reader.events(asked(limit, as_json=as_json), after, kind, subject, period=within, **names)
        about = About(subject, asset, owner, partition)
        counted = None
        if several(about) and not as_json:
            counted = reader.event_tally(kind, subject, about, period=within)
        filtered = any((after, kind, subject, asset, owner, since, until))
        show_page(found, listing.EVENTS, NO_EVENTS, limit, counted, filtered=filtered, as_json=as_json)


@command(
    "decisions",
    examples=[
        "freshline decisions",
        "freshline decisions --workflow flights-delay --json",
        "freshline decisions --asset flights.clean --outcome hold --since 1d",
        "freshline decisions --follow",
    ],
)
@limit_option(20)
@after_option
@click.option("--workflow", metavar="SLUG", help="Only about this workflow, or those that a pattern matches.")
@click.option("--asset", metavar="ASSET", help="Only about the workflows that produce this asset, or a pattern's.")
@of_option
@partition_option
@click.option("--outcome", type=click.Choice(OUTCOMES), help="Only with this outcome.")
@since_option
@until_option
@follow_option
@json_option
@pass_app
def decisions(
    app: App,
    *,
    limit: int,
    after: str | None,
    workflow: str | None,
    asset: str | None,
    owner: str | None,
    partition: str | None,
    outcome: str | None,
    since: str | None,
    until: str | None,
    follow: bool,
    as_json: bool,
) -> None:
    """List decisions, newest first: run, hold, skip or error, with the reason and the evidence.

    Equal decisions in a row are one entry with a count.
    """
    _refuse_both(workflow, asset)
    with app.read_backend() as reader:
        if follow:
            _refuse_after(after)
            refuse_period(since, until)
            refuse_patterns(owner, workflow, asset)
            slug = _producer(reader, asset, "decision") if asset else workflow
            follower = DecisionFollower(reader, limit=limit, workflow=slug, partition=partition, outcome=outcome)
            _follow(follower, listing.DECISIONS, as_json=as_json)
        within = period(reader, since, until)
        names = {"project": owner, "partition": partition, "outcome": outcome}
        found = reader.decisions(asked(limit, as_json=as_json), after, workflow, asset, period=within, **names)
        about = About(workflow, asset, owner, partition)
        counted = None if as_json or not several(about) else reader.decision_tally(outcome, about, period=within)
        filtered = any((after, workflow, asset, owner, outcome, since, until))
        show_page(found, listing.DECISIONS, NO_DECISIONS, limit, counted, filtered=filtered, as_json=as_json)


@command(
    "workers",
    examples=[
        "freshline workers",
        "freshline workers --all --json",
    ],
)
@limit_option(100)
@click.option("--all", "stopped", is_flag=True, help="Those that stopped too.")
@json_option
@pass_app
def workers(app: App, *, limit: int, stopped: bool, as_json: bool) -> None:
    """List the materializers and workers that announced themselves, and the runs that they hold.

    A process that did not announce itself for a while is `silent`: it was killed or cut off.
    """
    with app.read_backend() as reader:
        found = reader.workers(limit, stopped=stopped)
    show(found, listing.WORKERS, NO_WORKERS, filtered=False, as_json=as_json)


@command(
    "audit",
    examples=[
        "freshline audit",
        "freshline audit flights-delay     who paused it?",
        "freshline audit --limit 1000 --json",
    ],
)
@click.argument("subject", required=False)
@limit_option(20)
@after_option
@json_option
@pass_app
def audit(app: App, *, subject: str | None, limit: int, after: str | None, as_json: bool) -> None:
    """List who changed what, newest first, with the values before and after. SUBJECT is a workflow, an asset or a run.

    The audit has every change that was made over HTTP, Redis or the command line. Automatic changes are in `events` and
    `decisions`. On the command line the actor is FRESHLINE_ACTOR, else your user and host.
    """
    with app.read_backend() as reader:
        found = reader.audit(limit, after, subject)
    show(found, listing.AUDIT, NO_CHANGES, filtered=any((after, subject)), as_json=as_json)


def _refuse_both(workflow: str | None, asset: str | None) -> None:
    if workflow and asset:
        raise UsageError("--workflow and --asset exclude each other; give one of them")


def _producer(reader: ReadOnlyBackend, asset: str, what: str) -> str:
    found = reader.find(asset)
    if "slug" in found:
        raise NotFoundError(f"asset {asset!r} does not exist", hint=f"--workflow {asset} names the workflow")
    if found["workflowSlug"] is None:
        raise UsageError(f"asset {asset!r} is a source; there is no {what} about a source")
    return found["workflowSlug"]


def _refuse_after(after: str | None) -> None:
    if after is not None:
        raise UsageError("--after goes back to older entries and --follow waits for newer ones; give one of them")


def _refuse_filters(*filters: str | None, follow: bool) -> None:
    if follow or any(one is not None for one in filters):
        raise UsageError("an EVENT is one event; filters and --follow are for the listing")


def _refuse_run_filters(*filters: str | None, follow: bool) -> None:
    if follow or any(one is not None for one in filters):
        raise UsageError("a RUN is one run; filters and --follow are for the listing")


def _show_run(run: RunDetail, *, as_json: bool) -> None:
    if as_json:
        output.print_json(run)
    else:
        print_run(run)


def _show_outcomes(event: EventDetail, *, as_json: bool) -> None:
    if as_json:
        output.print_json(event)
        return
    output.show(event_outcomes.headline(event))
    if event["fates"]:
        output.show(Table.of(event_outcomes.COLUMNS, [event_outcomes.cells(one) for one in event["fates"]]))
    if note := event_outcomes.more_text(event) if event["fates"] else event_outcomes.no_outcome_text(event):
        output.message(note)


def _follow(follower: Follower[T], kind: listing.Listing[T], *, as_json: bool) -> None:
    """Print until the user interrupts."""
    for one in entries(follower):
        if as_json:
            output.print_json(one, line=True)
        else:
            output.show(kind.line(one), hang=HANG)


def _follow_runs(follower: RunFollower, *, as_json: bool) -> None:
    """Print runs until the user interrupts, and show the progress of those that are running."""
    if as_json:
        _follow(follower, listing.RUNS, as_json=True)
    with progress(sys.stdout) as shown:
        for one in entries(WatchedRuns(follower, shown)):
            shown.print(listing.RUNS.line(one))
