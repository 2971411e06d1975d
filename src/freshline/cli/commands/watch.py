"""`freshline watch`: what is looked at to notice new data of sources."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from freshline.cli.app import App, json_option, pass_app, project_option
from freshline.cli.command import command, examples_text
from freshline.cli.render import output
from freshline.cli.render.format import moment
from freshline.cli.render.table import Column, Columns, Table
from freshline.cli.render.text import Text
from freshline.model.state import reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from freshline.model.documents.watch import Watch
    from freshline.model.watch import Found, Look

WATCHES: Columns = (
    "SOURCE",
    "KIND",
    Column("LAST LOOK", drop=2),
    Column("NEXT LOOK", drop=3),
    Column("REPORTED", drop=1),
    Column("WHAT IT SAW", wraps=24),
)
MOST_NAMED = 10
MOST_KEYS = 5
LATE = timedelta(seconds=10)


@click.group(
    "watch",
    epilog=examples_text(["freshline watch list", "freshline watch show landing.orders"]),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@project_option
def watch() -> None:
    """Show what Freshline looks at to notice new data of sources, and what it saw."""


@command("list", examples=["freshline watch list", "freshline watch list --json"])
@click.option("--limit", metavar="N", type=click.IntRange(1), default=100, show_default=True, help="At most this many.")
@json_option
@pass_app
def list_(app: App, *, limit: int, as_json: bool) -> None:
    """List the sources with `watch`: the last look, the next one, and what was seen."""
    with app.read_backend() as reader:
        found, now = reader.watches(limit), reader.now()
    if as_json:
        output.print_json({"watches": found})
    elif found:
        output.show(Table.of(WATCHES, [_cells(one, now) for one in found]))
    else:
        output.message(
            "no source has a watch; add `watch: { files: 'drop/*.csv' }` to one in sources/, then `freshline apply`"
        )


@command("show", examples=["freshline watch show landing.orders", "freshline watch show landing.orders --json"])
@click.argument("source")
@json_option
@pass_app
def show(app: App, *, source: str, as_json: bool) -> None:
    """Show what the last look at a source saw, when the next one is due, and why something was not reported."""
    with app.read_backend() as reader:
        found, now = reader.watch(source), reader.now()
    if as_json:
        output.print_json(found)
        return
    output.show(Text((source, "bold"), f"  {found['kind']}: {_subject(found)}"))
    output.show(f"last look   {_looked(found)}{_failing(found)}")
    output.show(f"next look   {_next(found, now)}")
    output.show(f"reported    {_reported(found)}")
    output.show(Text("saw         ", _saw(found)), hang=12)
    for conflict in found["conflicts"]:
        output.show(Text(("not delivered: ", "yellow"), f"{conflict['subject']}: {conflict['message']}"), hang=2)
    for consumer in found["failingConsumers"]:
        advice = f"; `freshline why {consumer['workflowSlug']}` says more"
        output.show(Text((f"{consumer['workflowSlug']} failed: ", "red"), consumer["error"] + advice), hang=2)


@command("check", examples=["freshline watch check landing.orders", "freshline watch check landing.orders --json"])
@click.argument("source")
@json_option
@pass_app
def check(app: App, *, source: str, as_json: bool) -> None:
    """Look at a source now, from this machine, and say what would be reported. Nothing is reported or stored.

    Files that have to stay unchanged for a while (`settle`) count as incomplete here.
    """
    with app.store() as store:
        from freshline.services.watcher import look_without_report  # noqa: PLC0415 - only here

        seen = look_without_report(store, source)
    if as_json:
        output.print_json(_document(source, seen))
        return
    output.show(seen.summary)
    for found in seen.found[:MOST_NAMED]:
        output.show(f"  would report {_named(source, found)}")
    if len(seen.found) > MOST_NAMED or seen.more:
        output.show(f"  and {'at least ' if seen.more else ''}{len(seen.found) - MOST_NAMED:,} more")
    for conflict in seen.conflicts:
        output.show(Text(("not delivered: ", "yellow"), f"{conflict.subject}: {conflict.message}"), hang=2)


def _document(source: str, seen: Look) -> dict[str, object]:
    return {
        "assetId": source,
        "summary": seen.summary,
        "found": [
            {"partitionKey": one.partition_key, "dataVersion": one.data_version, "payload": dict(one.payload)}
            for one in seen.found
        ],
        "more": seen.more,
        "conflicts": [{"subject": one.subject, "message": one.message} for one in seen.conflicts],
    }


def _named(source: str, found: Found) -> str:
    payload = dict(found.payload)
    if found.data_version is not None:
        of = f" of {reference(source, found.partition_key)}" if found.partition_key else ""
        return f"version {found.data_version}{of}"
    return f"a delivery of {payload['path']}" if "path" in payload else f"a delivery {payload}"


def _cells(one: Watch, now: datetime) -> list[str | Text]:
    return [one["assetId"], one["kind"], _looked(one), _next(one, now), f"{one['reported']:,}", _saw(one)]


def _looked(one: Watch) -> str:
    """Return when the last look that did not fail was."""
    if one["lookedAt"]:
        return moment(one["lookedAt"])
    return "none succeeded" if one["failures"] else "none yet"


def _failing(one: Watch) -> str:
    return f", failing since {moment(one['failingSince'])}" if one["failures"] and one["failingSince"] else ""


def _next(one: Watch, now: datetime) -> str:
    if one["looking"]:
        return "now"
    # A moment later than due is normal; more means that nobody looks.
    late = datetime.fromisoformat(one["nextAt"]) < now - LATE
    return f"{'due since ' if late else ''}{moment(one['nextAt'])}"


def _reported(one: Watch) -> str:
    if not one["reported"]:
        return "nothing yet"
    noun = "version" if one["mode"] == "snapshot" else "delivery"
    plural = noun if one["reported"] == 1 else {"version": "versions", "delivery": "deliveries"}[noun]
    last = f", the last one {moment(one['reportedAt'])}" if one["reportedAt"] else ""
    return f"{one['reported']:,} {plural}{last}{_partitions(one['reportedPartitions'])}"


def _partitions(keys: Sequence[str]) -> str:
    """Return the partitions of the last look that reported."""
    if not keys:
        return ""
    more = f" and {len(keys) - MOST_KEYS} more" if len(keys) > MOST_KEYS else ""
    return f", of {', '.join(keys[-MOST_KEYS:])}{more}"


def _saw(one: Watch) -> Text:
    if one["lookError"] is not None:
        times = "the last look" if one["failures"] == 1 else f"the last {one['failures']} looks"
        rarely = "; it is looked at rarely until one succeeds" if one["breakerOpenedAt"] else ""
        return Text((f"{times} failed: {one['lookError']}{rarely}", "red"))
    changed = sum(conflict["message"].startswith("changed") for conflict in one["conflicts"])
    conflicts = f" {changed} changed after {'its' if changed == 1 else 'their'} delivery." if changed else ""
    return Text(f"{one['summary'] or 'nothing yet; is `freshline materializer` running?'}{conflicts}")


def _subject(one: Watch) -> str:
    return str(one["watch"].get(one["kind"], "")).replace(os.linesep, " ")


watch.add_command(list_)
watch.add_command(show)
watch.add_command(check)
