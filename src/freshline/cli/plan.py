"""`freshline plan`, and the wave of `freshline apply`: what would run, in which order, and what would not and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click
from rich.text import Text

from freshline.cli import output
from freshline.cli.app import App, json_option, pass_app
from freshline.cli.command import command
from freshline.cli.sentences import sentence

if TYPE_CHECKING:
    from freshline.world.planning import Plan, Planned

MOST_SHOWN = 20


@command("plan", examples=["freshline plan orders.raw", "freshline plan orders.raw --json"])
@click.argument("asset")
@json_option
@pass_app
def plan(app: App, *, asset: str, as_json: bool) -> None:
    """What would run, in which order, if ASSET changed now; what would be held, until when; and where it would stop.

    It starts from the database as it is now and changes nothing. Runs are taken to succeed at once and to change
    their output: a run whose output stays equal stops the wave there.
    """
    settings = app.settings
    with app.reader(settings) as reader:
        facts = reader.below(asset)
    from freshline.world import planning  # noqa: PLC0415 - `--help` must not pay for it
    from freshline.world.restoring import restore  # noqa: PLC0415

    if not facts.known:
        output.say(f"no workflow reads {asset}, so nothing would run")
    made = planning.plan(restore(facts, settings), asset) if facts.known else planning.Plan()
    if as_json:
        output.print_json({"asset": asset, **made.as_json()})
    elif facts.known:
        output.show(Text(f"if {asset} changed now:", style="bold"))
        show_wave(made)


def show_wave(made: Plan) -> None:
    """What runs, what is held and where it stops, each list up to a length that can be read."""
    if made.runs:
        _show(["", "WORKFLOW", "ASSETS", "REASON", "BECAUSE OF"], map(_run, made.runs))
    else:
        output.show(Text("nothing would run at once"))
    for title, rows in (("held", made.held), ("not by itself", made.cut)):
        if rows:
            output.show(Text(""))
            _show(["WORKFLOW", "ASSETS", "WHY"], map(_left, rows), title=title)
    if made.runs:
        output.say(
            "every run is taken to succeed and to change its output; one whose output stays equal stops the wave"
        )
    if made.active:
        output.say(f"already queued or running, taken to be done: {_some(made.active)}")


def _show(columns: list[str], rows: Iterable[list[str]], title: str | None = None) -> None:
    every = list(rows)
    output.show(output.table(columns, every[:MOST_SHOWN], title=title))
    if len(every) > MOST_SHOWN:
        output.show(
            Text(f"and {len(every) - MOST_SHOWN} more, {len(every)} in all; --json tells every one", style="dim")
        )


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_SHOWN
    return ", ".join(names[:MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _run(one: Planned) -> list[str]:
    told = one.as_json()
    mixed = " (may read a mix)" if told["mixed"] else ""
    return [str(one.order), one.member.slug, _assets(one), f"{told['reason']}{mixed}", ", ".join(told["upstream"])]


def _left(one: Planned) -> list[str]:
    if one.behind:
        why = f"it reads nothing new: {', '.join(one.behind)} would not run"
    elif one.decision.reason == "up-to-date":
        why = "nothing that may trigger it would change"
    else:
        told = {"outcome": one.decision.outcome, "reason": one.decision.reason, "evidence": one.decision.evidence}
        why = sentence({**told, "workflowSlug": one.member.slug}).partition(": ")[2]
    return [one.member.slug, _assets(one), why]


def _assets(one: Planned) -> str:
    return ", ".join(one.member.outputs)
