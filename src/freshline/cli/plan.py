"""`freshline plan`: what would run, in which order, if an asset changed now, and what would not and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from freshline.cli import output
from freshline.cli.app import App, json_option, pass_app
from freshline.cli.command import command
from freshline.cli.sentences import sentence

if TYPE_CHECKING:
    from freshline.world.planning import Plan, Planned

Json = dict[str, Any]


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
        moment = reader.below(asset)
    from freshline.world.planning import plan as make_plan  # noqa: PLC0415 - `--help` must not pay for it
    from freshline.world.restoring import restore  # noqa: PLC0415

    known = [(one.policy, one.state) for one in moment.loaded if not one.retired]
    if not known:
        output.say(f"no workflow reads {asset}, so nothing would run")
    made = make_plan(restore(known, moment.now, settings), asset) if known else None
    if as_json:
        output.print_json(document(made, asset))
    elif made is not None:
        _show(made)


def document(made: Plan | None, asset: str) -> Json:
    """The answer as data."""
    from freshline.world.planning import ASSUMES  # noqa: PLC0415 - `--help` must not pay for it

    parts = {"runs": made.runs, "held": made.held, "cut": made.cut} if made else {"runs": (), "held": (), "cut": ()}
    lists = {name: [one.as_json() for one in found] for name, found in parts.items()}
    return {"asset": asset, "assumes": list(ASSUMES), "active": list(made.active) if made else [], **lists}


def _show(made: Plan) -> None:
    output.show(Text(f"if {made.asset_id} changed now:", style="bold"))
    if made.runs:
        output.show(output.table(["", "WORKFLOW", "ASSETS", "REASON", "BECAUSE OF"], map(_run, made.runs)))
    else:
        output.show(Text("nothing would run at once"))
    for title, rows in (("held", made.held), ("not by itself", made.cut)):
        if rows:
            output.show(Text(""), output.table(["WORKFLOW", "ASSETS", "WHY"], map(_left, rows), title=title))
    output.say("every run is taken to succeed and to change its output; one whose output stays equal stops the wave")
    if made.active:
        output.say(f"already queued or running, taken to be done: {', '.join(made.active)}")


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
