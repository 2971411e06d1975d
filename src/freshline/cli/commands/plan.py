"""`freshline plan`, and the wave of `freshline apply`: what would run, in which order, and what would not and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from freshline.cli.app import App, json_option, pass_app
from freshline.cli.command import command
from freshline.cli.render import output
from freshline.cli.render.decisions import sentence
from freshline.cli.render.format import moment
from freshline.cli.render.references import unit
from freshline.cli.render.table import Column, Columns, Table
from freshline.cli.render.text import Text
from freshline.model.documents.decision import PlannedHold, PlannedRun, Wave
from freshline.model.state import reference

MOST_SHOWN = 20
WAVE: Columns = [
    "",
    "WORKFLOW",
    Column("ASSETS", wraps=20, drop=1),
    Column("REASON", drop=2),
    Column("BECAUSE OF", wraps=24),
]
LEFT_OUT: Columns = ["WORKFLOW", Column("ASSETS", wraps=20, drop=1), Column("WHY", wraps=30)]


@command(
    "plan",
    examples=[
        "freshline plan orders.raw",
        "freshline plan orders.raw --partition 2024-01-31T05",
        "freshline plan orders.raw --json",
    ],
)
@click.argument("asset")
@click.option("--partition", metavar="KEY", help="The partition that would change, such as 2024-01-31.")
@json_option
@pass_app
def plan(app: App, *, asset: str, partition: str | None, as_json: bool) -> None:
    """Show what would run, in which order, if ASSET changed now, what would be held, and where it would stop.

    It starts from the current state of the database and changes nothing. It assumes that runs succeed at once and
    change their output. A run whose output stays equal stops the wave there. What runs when a debounce ends has a time.
    """
    with app.read_backend() as reader:
        made = reader.plan(asset, app.settings, partition=partition)
    read = bool(made["runs"] or made["held"] or made["cut"])
    if not read:
        output.message(f"no workflow reads {asset}, so nothing would run")
    if as_json:
        output.print_json(made)
    elif read:
        output.show(Text((f"if {reference(asset, partition or '')} changed now:", "bold")))
        show_wave(made)


def show_wave(made: Wave) -> None:
    """Print what runs, what is held and where it stops, each list up to a readable length."""
    later = any(one["notBefore"] for one in made["runs"])
    if made["runs"]:
        columns: Columns = [WAVE[0], "NOT BEFORE", *WAVE[1:]] if later else WAVE
        _show(columns, (_run(one, later=later) for one in made["runs"]))
    else:
        output.show("nothing would run at once")
    for title, rows in (("held", made["held"]), ("not by itself", made["cut"])):
        if rows:
            output.show("")
            _show(LEFT_OUT, map(_left, rows), title=title)
    if made["runs"]:
        output.message(
            "assumes that every run succeeds and changes its output; a run whose output stays equal stops the wave"
        )
    if made["active"]:
        output.message(f"already queued or running, assumed to be done: {_some(made['active'])}")


def _show(columns: Columns, rows: Iterable[list[str]], title: str | None = None) -> None:
    every = list(rows)
    output.show(Table.of(columns, every[:MOST_SHOWN], title=title))
    if len(every) > MOST_SHOWN:
        output.show(Text((f"and {len(every) - MOST_SHOWN} more, {len(every)} in all; --json has all", "dim")))


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_SHOWN
    return ", ".join(names[:MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _run(one: PlannedRun, *, later: bool) -> list[str]:
    mixed = " (may read a mix)" if one["mixed"] else ""
    because = ", ".join(one["upstream"])
    when = [moment(one["notBefore"]) if one["notBefore"] else "-"] if later else []
    return [str(one["order"]), *when, unit(one), ", ".join(one["assets"]), f"{one['reason']}{mixed}", because]


def _left(one: PlannedHold) -> list[str]:
    if one["behind"]:
        why = f"it reads nothing new: {', '.join(one['behind'])} would not run"
    elif one["reason"] == "up-to-date":
        why = "nothing that may trigger it would change"
    else:
        why = sentence(one).partition(": ")[2]
    return [unit(one), ", ".join(one["assets"]), why]
