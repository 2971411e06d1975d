"""`freshline simulate`: days of changes, recorded or made up, through the current and a proposed policy, in seconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from freshline.cli.app import App, json_option, pass_app
from freshline.cli.command import command
from freshline.cli.render import output
from freshline.cli.render.format import duration, number
from freshline.cli.render.table import Table
from freshline.cli.render.text import Text
from freshline.errors import UsageError
from freshline.model.json import Json
from freshline.plural import counted

if TYPE_CHECKING:
    from freshline.model.documents.simulation import Percentiles
    from freshline.simulation.recorded import Scenario
    from freshline.simulation.simulate import Result

MOST_ASSETS = 20
HELD = "held partitions wait for an approval (`freshline backfill approve`); a simulation approves nothing"
# A synthetic week is always the same week.
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def _length(_ctx: click.Context, _parameter: click.Parameter, value: str) -> timedelta:
    from freshline.duration import milliseconds  # noqa: PLC0415 - `--help` must not pay for it

    try:
        found = timedelta(milliseconds=milliseconds(value))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not found:
        raise click.BadParameter("must be longer than nothing")
    return found


@command(
    "simulate",
    examples=[
        "freshline simulate --since 7d                       replay the last week",
        "freshline simulate --since 7d --policy ../proposed  with another policy",
        "freshline simulate --load load.yaml --seed 7 --slots 8",
    ],
)
@click.option("--since", default="7d", show_default=True, callback=_length, help="How much time, e.g. 12h or 7d.")
@click.option(
    "--policy",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A project whose definitions are compared with the current ones.",
)
@click.option(
    "--load",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A synthetic load instead of the recorded history; needs no database.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same answer.")
@click.option("--slots", type=click.IntRange(1, 100_000), default=4, show_default=True, help="How many runs at once.")
@json_option
@pass_app
def simulate(
    app: App, *, since: timedelta, policy: Path | None, load: Path | None, seed: int, slots: int, as_json: bool
) -> None:
    """Simulate days of changes in virtual time: runs, holds, lag behind the sources, slot hours.

    Without `--load` the reports and runs of the database are replayed through the definitions that are applied; with
    it, the load is applied to the project's files. `--policy` simulates the same with another project and shows the
    difference.

    Everything is fresh at the beginning. docs/simulate.md says what is assumed and what is left out.
    """
    from freshline.cli.commands import scenario  # noqa: PLC0415 - `--help` must not pay for it

    if load is not None:
        chosen = scenario.synthetic(app, load, MONDAY, since, seed)
    else:
        chosen = scenario.recorded(app, since, seed)
    results = {"current": chosen.play(chosen.current, slots)}
    if policy is not None:
        results["proposed"] = chosen.play(scenario.project_catalogue(policy, chosen, app.settings), slots)
    if as_json:
        output.print_json(document(chosen, results, seed=seed, slots=slots))
        return
    if not chosen.reports:
        raise UsageError(f"nothing was reported {chosen.words}", hint="give a synthetic load with --load")
    _show(chosen, results, slots)


def document(chosen: Scenario, results: dict[str, Result], *, seed: int, slots: int) -> Json:
    """Return the answer as data."""
    answer: Json = {
        "start": chosen.start.isoformat(),
        "end": chosen.end.isoformat(),
        "seed": seed,
        "slots": slots,
        "reports": chosen.reports,
        **{name: result.as_json() for name, result in results.items()},
    }
    if "proposed" in results:
        rows = [row for row in summary(results) if None not in row]
        answer["difference"] = {name: round(after - before, 3) for name, before, after in rows}
    return answer


def summary(results: dict[str, Result]) -> list[tuple[str, Any, Any]]:
    """Return the figures that are compared: name, current, proposed (None without)."""
    both = (results["current"], results.get("proposed"))
    columns = [dict(_figures(one)) if one else {} for one in both]
    names = list(dict.fromkeys([*columns[0], *columns[1]]))
    holds = [name for name in names if name.startswith("held: ")]
    missing = dict.fromkeys(holds, 0) if len(results) > 1 else {}
    return [(name, columns[0].get(name, missing.get(name)), columns[1].get(name, missing.get(name))) for name in names]


def _figures(result: Result) -> list[tuple[str, Any]]:
    lag = result.lag
    return [
        ("runs", result.runs),
        ("failed", result.failed),
        ("mixed", result.mixed),
        ("runs avoided", result.runs_avoided),
        ("slot hours", result.slot_hours),
        ("pending at the end", result.pending),
        ("lag p50", lag and lag["p50"]),
        ("lag p95", lag and lag["p95"]),
        ("lag max", lag and lag["max"]),
        ("maxAge breaches", result.breaches),
        *([] if result.held_partitions is None else [("held partitions", result.held_partitions)]),
        *((f"held: {reason}", count) for reason, count in sorted(result.holds.items())),
    ]


def _show(chosen: Scenario, results: dict[str, Result], slots: int) -> None:
    output.show(Text((f"{counted(chosen.reports, 'report')} {chosen.words}, {counted(slots, 'slot')}", "bold")))
    columns = ["", "CURRENT", "PROPOSED", "DIFFERENCE"] if len(results) > 1 else ["", "CURRENT"]
    output.show(Table.of(columns, [_row(*row)[: len(columns)] for row in summary(results)]))
    divided = _partitions(results)
    if divided:
        output.show("", Table.of(["WORKFLOW", *columns[1:3]], divided, title="runs and partitions"))
    rows = _slowest(results)
    if rows:
        which = "slowest asset" if len(rows) == 1 else f"{len(rows)} slowest assets"
        title = f"lag of the {which} (p50 / p95 / max)"
        output.show("", Table.of(["ASSET", *columns[1:3]], rows, title=title))
    refused = [note for result in results.values() for note in result.refused]
    held = [HELD] if any(result.held_partitions for result in results.values()) else []
    for note in dict.fromkeys([*chosen.notes, *refused, *held]):
        output.message(note)


def _row(name: str, before: Any, after: Any) -> list[str]:
    difference = after - before if before is not None and after is not None else None
    sign = "" if difference is None else "+" if difference > 0 else "-" if difference < 0 else ""
    size = _figure(name, abs(difference)) if difference is not None else "-"
    return [name, _figure(name, before), _figure(name, after), sign + size]


def _figure(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name.startswith("lag"):
        return duration(value)
    return f"{value:,.1f}" if name == "slot hours" else number(value)


def _partitions(results: dict[str, Result]) -> list[list[str]]:
    """Return the runs of each workflow with partitions, and of how many partitions they were."""
    found = list(results.values())
    slugs = sorted({slug for result in found for slug, count in result.partitions_by_workflow.items() if count})
    busiest = sorted(slugs, key=lambda slug: -max(one.runs_by_workflow.get(slug, 0) for one in found))[:MOST_ASSETS]
    return [[slug, *(_runs(one, slug) for one in found)] for slug in busiest]


def _runs(result: Result, slug: str) -> str:
    partitions = result.partitions_by_workflow.get(slug, 0)
    return f"{counted(result.runs_by_workflow.get(slug, 0), 'run')} of {counted(partitions, 'partition')}"


def _slowest(results: dict[str, Result]) -> list[list[str]]:
    found = [result.lag_by_asset for result in results.values()]
    worst = {one: max(lags[one]["p95"] for lags in found if one in lags) for one in {*found[0], *found[-1]}}
    chosen = sorted(worst, key=lambda one: (-worst[one], one))[:MOST_ASSETS]
    return [[one, *(_lag(lags.get(one)) for lags in found)] for one in chosen]


def _lag(lag: Percentiles | None) -> str:
    return " / ".join(duration(one) for one in (lag["p50"], lag["p95"], lag["max"])) if lag else "-"
