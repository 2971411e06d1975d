"""`freshline status`: how fresh everything is, and what each workflow is up to."""

from __future__ import annotations

import sys
from datetime import datetime

import click

from freshline.cli.app import App, json_option, pass_app
from freshline.cli.command import command
from freshline.cli.render import output
from freshline.cli.render.decisions import hold_text
from freshline.cli.render.format import distance, moment, number, parse_time, short, size, version
from freshline.cli.render.partitions import counts_text
from freshline.cli.render.status import decision_mark, root_cause, state_text
from freshline.cli.render.table import Column, Columns, Table
from freshline.cli.render.text import Text
from freshline.cli.status_watch import watch
from freshline.model.documents.status import AssetStatus, Pool, Status, StatusSummary, WantedStatus, WorkflowStatus
from freshline.model.enums import AssetState
from freshline.unmatched import is_pattern

ASSETS: Columns = [
    "ASSET",
    Column("STATE", wraps=16),
    "AGE",
    Column("EXPIRES", drop=1),
    Column("VERSION", drop=2),
    Column("ROWS", drop=3),
    Column("DATA", drop=4),
    Column("WAITS FOR", wraps=20),
]
AT_REST = (AssetState.FRESH, AssetState.SOURCE, AssetState.RETIRED)
USUAL, MOST = 100, 100_000
NOTHING = "nothing is applied yet; `freshline apply` stores a project's definitions"
DETAILS: Columns = ["", Column("", wraps=20)]
WORKFLOWS: Columns = [
    "WORKFLOW",
    Column("V", drop=4),
    "RUN",
    "FAILURES",
    Column("BREAKER", drop=1),
    Column("PAUSED", drop=2),
    "SUCCEEDED",
    Column("AVOIDED", drop=3),
]


@command(
    "status",
    examples=[
        "freshline status",
        "freshline status flights.delay.hourly",
        "freshline status 'flights.*' --watch",
        "freshline status 'core__*' --state stale --state failing",
        "freshline status --limit 500 --after flights.delay",
        "freshline status --all        with assets that nobody uses any more",
        "freshline status --json | jq '.assets[] | select(.expired) | .assetId'",
    ],
)
@click.argument("name", metavar="[ASSET|SLUG|PATTERN]", required=False)
@click.option("--watch", "-w", "live", is_flag=True, help="Keep showing it; in a pipe, print what changes.")
@click.option("--all", "everything", is_flag=True, help="Also show retired assets.")
@click.option(
    "--state",
    "states",
    type=click.Choice([str(one) for one in AssetState]),
    multiple=True,
    help="Only assets in this state.",
)
@click.option("--of", "owner", metavar="PROJECT", help="Only assets of this project, if the database has several.")
@click.option(
    "--limit", type=click.IntRange(1, MOST), help=f"The most assets to list. Default: {USUAL}; with --json all."
)
@click.option("--after", metavar="ASSET", help="Continue a listing after this asset.")
@json_option
@pass_app
def status(
    app: App,
    *,
    name: str | None,
    live: bool,
    everything: bool,
    states: tuple[str, ...],
    owner: str | None,
    limit: int | None,
    after: str | None,
    as_json: bool,
) -> None:
    """Show freshness, last automatic run, next refresh, cooldown, breaker and holds.

    The first line says how many assets are fresh, and how many causes explain the others. Then follow, by name, the
    assets and the workflows that produce them. Without a name: all. With an asset or a workflow's slug: that one in
    detail. With a pattern such as 'sales.*': the assets that it matches.

    States: source (made outside), running, failing (its last runs failed), missing (never produced),
    waiting (queued or held), stale (its inputs changed or it expired), fresh; retired (nobody produces, reads or
    reports it any more). "upstream failing" means that a workflow above it fails, so newer data may not arrive.

    "needs decision" means that the job of a table that is appended to or merged changed, and rows of the older code are
    still in it: compute them again, or `freshline accept` them.

    An asset with partitions shows how many of them are in which state. The rest of its line is about the newest one;
    `freshline partitions ASSET` lists all.
    """
    # Programs get all assets: a change of one that is left out would be missed.
    drawn = not as_json and not (live and not sys.stdout.isatty())
    most = USUAL if limit is None and drawn else limit
    wanted = WantedStatus(everything, frozenset(map(AssetState, states)), owner, after, most)
    with app.read_backend() as reader:
        if live:
            watch(lambda: reader.status(name, wanted), _watched_parts, as_json=as_json)
        found = reader.status(name, wanted)
    if as_json:
        output.print_json(found)
    elif name is None or is_pattern(name):
        _overview(found)
    else:
        _detail(found)


def _overview(found: Status) -> None:
    if not found["summary"]["counts"]:
        output.message(NOTHING)
    else:
        output.show(*_parts(found))
    if found["next"]:
        output.message(_left_out(found))
    elif not found["summary"]["matched"] and found["summary"]["counts"]:
        output.message("no asset is in such a state now")
    if found["retired"]:
        hidden = "1 retired asset is" if found["retired"] == 1 else f"{found['retired']} retired assets are"
        output.message(f"{hidden} hidden; `freshline status --all` shows all, `freshline forget ASSET` removes one")
    _print_notes(found)


def _left_out(found: Status) -> str:
    """Return how many assets are not shown, and how to see them."""
    return (
        f"{len(found['assets']):,} of {found['summary']['matched']:,} assets; `--limit N` shows more, "
        f"`--after {found['next']}` continues, and `--state` and patterns such as 'sales.*' choose"
    )


def _watched_parts(found: Status) -> list[str | Table]:
    """Return what a live view draws."""
    return [*_parts(found), "", _left_out(found)] if found["next"] else _parts(found)


def _parts(found: Status) -> list[str | Table]:
    """Return the summary and the tables of an overview."""
    if not found["summary"]["counts"]:
        return [NOTHING]
    now = parse_time(found["at"])
    parts: list[str | Table] = [_summary_line(found["summary"])]
    if found["assets"]:
        parts += ["", asset_table(found["assets"], now)]
    if found["workflows"]:
        parts += ["", workflow_table(found["workflows"], now)]
    return [*parts, "", _pool_table(found["pools"])] if found["pools"] else parts


def _summary_line(summary: StatusSummary) -> str:
    """Return how many assets are fresh, why the others are not, and in which states these are."""
    counts = summary["counts"]
    others = [f"{counts[one]:,} {one}" for one in AssetState if one not in AT_REST and counts.get(one)]
    return summary["sentence"] + (f" ({', '.join(others)})" if others else "")


def asset_table(assets: list[AssetStatus], now: datetime) -> Table:
    """Return the assets, one row each."""
    return Table.of(ASSETS, [_asset_row(one, now) for one in assets])


def workflow_table(workflows: list[WorkflowStatus], now: datetime) -> Table:
    """Return the workflows, one row each."""
    return Table.of(WORKFLOWS, [_workflow_row(one, now) for one in workflows])


def _pool_table(pools: list[Pool]) -> Table:
    columns = ["POOL", "PROJECT", "RUNNING", "SLOTS", "QUEUED"]
    return Table.of(columns, [_pool_row(one) for one in pools])


def _pool_row(one: Pool) -> list[str]:
    return [one["name"], one["project"], str(one["running"]), str(one["slots"]), str(one["queued"])]


def _asset_row(one: AssetStatus, now: datetime) -> list[str | Text]:
    expires = Text(("expired", "dark_orange")) if one["expired"] else distance(one["expiresAt"], now)
    return [
        one["assetId"],
        _state(one),
        distance(one["producedAt"], now).removesuffix(" ago"),
        expires,
        number(one["version"]),
        number(one["rows"]),
        version(one["dataVersion"]),
        hold_text(one["hold"]),
    ]


def _state(one: AssetStatus) -> Text:
    """Return the state of an asset, or how many of its partitions are in which state."""
    return Text(counts_text(one["partitions"]), *decision_mark(one)) if one["partitions"] else state_text(one)


def _workflow_row(one: WorkflowStatus, now: datetime) -> list[str | Text]:
    run = f"{short(one['inFlight'])} {one['inFlightStatus']}" if one["inFlight"] else "-"
    return [
        one["slug"],
        str(one["workflowVersion"]),
        run,
        _failures(one, now),
        output.coloured(one["breaker"]["state"]),
        _paused(one),
        distance(one["succeededAt"], now),
        number(one["runsAvoided"]),
    ]


def _failures(one: WorkflowStatus, now: datetime) -> str:
    cooldown = one["cooldown"]
    if not cooldown["failures"]:
        return "-"
    return f"{cooldown['failures']}, again {distance(cooldown['nextEligibleAt'], now)}"


def _paused(one: WorkflowStatus) -> str:
    if not one["paused"]:
        return "-"
    return f"until {moment(one['paused']['until'])}" if one["paused"]["until"] else "yes"


def _detail(found: Status) -> None:
    now = parse_time(found["at"])
    for one in found["assets"]:
        output.show(Text((one["assetId"], "bold")), Table.of(DETAILS, _asset_lines(one, now)), "")
    for workflow in found["workflows"]:
        title = Text((f"workflow {workflow['slug']}", "bold"))
        output.show(title, Table.of(DETAILS, _workflow_lines(workflow, now)), "")
    for cause in found["rootCauses"]:
        output.show(Text(("root cause: ", "bold"), root_cause(cause)), hang=2)
    for one in found["assets"][:1]:
        more = f", `freshline partitions {one['assetId']}` lists partitions" if one["partitions"] else ""
        output.message(f"`freshline why {one['assetId']}` shows the last decisions{more}")
    _print_notes(found)


def _asset_lines(one: AssetStatus, now: datetime) -> list[tuple[str, str | Text]]:
    last = one["lastAutoRun"]
    run = f"{short(last['runId'])} {last['status']} ({last['reason']})" if last else "-"
    summary = one["partitions"]
    counts: list[tuple[str, str | Text]] = []
    if summary:
        counts = [("partitions", counts_text(summary)), ("newest partition", one["partitionKey"] or "-")]
    return [
        ("state", state_text(one)),
        *counts,
        ("held", hold_text(one["hold"]) or "-"),
        ("produced", _time(one["producedAt"], now)),
        ("expires", _time(one["expiresAt"], now)),
        ("next refresh", _time(one["nextRefreshAt"], now)),
        ("version", number(one["version"])),
        ("data version", one["dataVersion"] or "-"),
        ("rows, size", f"{number(one['rows'])}, {size(one['bytes'])}"),
        ("last automatic run", run),
        ("made by", one["workflowSlug"] or _outside(one)),
    ]


def _outside(one: AssetStatus) -> str:
    return "nobody any more" if one["state"] == AssetState.RETIRED else "the outside (a source)"


def _time(text: str | None, now: datetime) -> str:
    return "-" if text is None else f"{moment(text)}  {distance(text, now)}"


def _workflow_lines(one: WorkflowStatus, now: datetime) -> list[tuple[str, str | Text]]:
    opened = one["breaker"]["openedAt"]
    return [
        ("definition", f"version {one['workflowVersion']} of project {one['project']}"),
        ("automatic", "yes" if one["automatic"] else "no"),
        ("run", f"{one['inFlight']} {one['inFlightStatus']}" if one["inFlight"] else "-"),
        ("held", hold_text(one["hold"]) or "-"),
        ("paused", _paused(one)),
        ("failures", _failures(one, now)),
        ("breaker", f"open since {moment(opened)}" if opened else "closed"),
        ("last success", _time(one["succeededAt"], now)),
        ("runs avoided", number(one["runsAvoided"])),
    ]


def _print_notes(found: Status) -> None:
    for note in found["notes"]:
        output.message(f"note: {note}")
