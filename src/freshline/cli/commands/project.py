"""`freshline init`, `validate` and `apply`: from a directory to stored definitions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from freshline.cli.app import App, json_option, pass_app
from freshline.cli.command import command
from freshline.cli.commands.plan import show_wave
from freshline.cli.render import output
from freshline.cli.render.format import moment
from freshline.cli.render.table import Column, Table
from freshline.cli.render.text import Text
from freshline.errors import DefinitionError, DefinitionErrors, UsageError
from freshline.model.json import Json
from freshline.plural import counted

if TYPE_CHECKING:
    from freshline.definitions.loading.project import Project
    from freshline.simulation.plan import Plan
    from freshline.store.apply.diff import ApplyPlan
    from freshline.store.store import Store


directory_argument = click.argument("directory", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
strict_option = click.option(
    "--strict",
    is_flag=True,
    help="An input that is neither produced nor declared as a source is an error, not a warning.",
)


@command("init", examples=["freshline init shop", "freshline init shop && cd shop && freshline dev"])
@directory_argument
@pass_app
def init(app: App, *, directory: Path | None) -> None:
    """Create a small working project: one source, two assets, a test of the policy.

    DIR is created; it must not be a project already. Without it the project goes to the current directory.
    """
    from freshline.definitions.template import write_template  # noqa: PLC0415 - imported on demand

    target = (directory or app.project or Path()).expanduser()
    for path in write_template(target):
        output.message(f"wrote {path}")
    where = "" if target == Path() else f"cd {target} && "
    output.message(f"next: {where}freshline dev")


@command(
    "validate", examples=["freshline validate", "freshline validate pipelines --strict", "freshline validate --json"]
)
@directory_argument
@strict_option
@json_option
@pass_app
def validate(app: App, *, directory: Path | None, strict: bool, as_json: bool) -> None:
    """Check the definitions of a project and report all errors at once, each with its file and line.

    Needs no database and changes nothing. DIR defaults to the project.
    """
    from freshline.definitions.loading.project import load_project  # noqa: PLC0415 - imported on demand

    root = app.at(directory).project
    try:
        project = load_project(root, strict=strict)
    except DefinitionErrors as errors:
        if not as_json:
            raise
        output.print_json({"valid": False, "errors": [_error(one) for one in errors.errors], "warnings": []})
        raise SystemExit(errors.exit_code) from None
    if as_json:
        output.print_json({"valid": True, "errors": [], "warnings": list(project.warnings), **_contents(project)})
        return
    _warn(project.warnings)
    found = _contents(project)
    counts = ", ".join(_count(len(found[many]), many) for many in ("workflows", "sources"))
    output.message(f"{root} is valid: {counts}")


@command(
    "apply",
    examples=[
        "freshline apply                     show the plan and ask",
        "freshline apply pipelines --yes     in scripts",
        "freshline apply --dry-run --json",
        "freshline apply --baseline now      accept the data that is there",
    ],
)
@directory_argument
@click.option("--dry-run", is_flag=True, help="Show the plan and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@strict_option
@click.option("--baseline", type=click.Choice(["now"]), help="Treat existing data as made by the new definitions.")
@json_option
@pass_app
def apply(
    app: App, *, directory: Path | None, dry_run: bool, yes: bool, strict: bool, baseline: str | None, as_json: bool
) -> None:
    """Validate a project, show what would change and what would run because of it, and store the definitions.

    What would run is shown as in `freshline plan`: the whole wave in order, what would be held, and where it stops.
    With --baseline now only what is missing runs. A new source whose files are there is reported once.

    One transaction: all or nothing. Workflows whose files are gone are retired; their history stays. Only workflows of
    this project are touched. Without a terminal, --yes is needed. DIR defaults to the project.
    """
    from freshline.definitions.loading.project import load_project  # noqa: PLC0415 - imported on demand

    settings = app.at(directory)
    project = load_project(settings.project, strict=strict)
    with app.store(settings) as store:
        plan = store.apply.diff(project)
        wave = _flood(store, project, plan, baseline=baseline is not None)
        if not as_json:
            show_plan(plan)
            show_flood(plan, wave)
        applied = not dry_run and _agreed(plan, yes=yes) and _apply(store, project, baseline=baseline is not None)
    if as_json:
        expiries = [{"assetId": asset_id, "expiresAt": at} for asset_id, at in wave.expiries.items()]
        output.print_json(
            {
                **plan.as_json(),
                "expiries": expiries,
                "flood": wave.as_json(),
                "partitionRuns": list(wave.partitions),
                "needsDecision": dict(wave.undecided),
                "applied": applied,
            }
        )
    elif not plan.empty:
        output.message("applied" if applied else "nothing was changed")


def _flood(store: Store, project: Project, plan: ApplyPlan, *, baseline: bool) -> Plan:
    """Return what would run because of the plan; nothing if the plan is empty."""
    from freshline.simulation.plan import Plan  # noqa: PLC0415 - `--help` must not pay for it

    return Plan() if plan.empty else store.apply.preview(project, baseline=baseline)


def show_flood(plan: ApplyPlan, wave: Plan) -> None:
    """Print which data would expire when, what would run because of the plan, and what would not and why."""
    for asset_id, at in wave.expiries.items():
        output.show(f"{asset_id} would expire at {moment(at)}" if at else f"{asset_id} would no longer expire")
    for sentence in (*wave.partitions, *wave.questions):
        output.show(sentence, hang=2)
    if wave.runs or wave.held or wave.cut:
        output.show("", Text(("because of it:", "bold")))
        show_wave(wave.as_json())
    elif not plan.empty and not wave.partitions:
        output.show("nothing would run because of it")


def _apply(store: Store, project: Project, *, baseline: bool) -> bool:
    store.apply.commit(project, baseline=baseline)
    return True


def _agreed(plan: ApplyPlan, *, yes: bool) -> bool:
    if yes or plan.empty:
        return True
    if not _on_a_terminal():
        raise UsageError("no terminal can be asked; --yes applies the plan, --dry-run only shows it")
    return click.confirm("Apply this?", err=True)


def _on_a_terminal() -> bool:
    return sys.stdin.isatty()


def show_plan(plan: ApplyPlan) -> None:
    """Print the plan as a table."""
    _warn(plan.warnings)
    if plan.empty:
        output.message(
            f"project {plan.project}: no workflow changes ({counted(len(plan.unchanged), 'workflow')} as before); "
            "sources are stored as they are declared"
        )
        return
    rows = [_plan_row(slug, kind, plan) for kind, slugs in _kinds(plan) for slug in slugs]
    if rows:
        output.show(Table.of(["", "WORKFLOW", Column("WHAT", wraps=30)], rows, title=f"project {plan.project}"))
    else:
        output.show(Text((f"project {plan.project}", "bold")))
    for name, (before, after) in plan.pools.items():
        output.show(f"pool {name}: {_limit(before)} -> {_limit(after)}")
    for verb, names in (("add", plan.alerts.added), ("change", plan.alerts.changed), ("remove", plan.alerts.removed)):
        if names:
            output.show(f"{verb} alert{'s' if len(names) > 1 else ''}: {', '.join(names)}")
    for verb, assets in (("new", plan.assets_added), ("no longer produced", plan.assets_removed)):
        if assets:
            output.show(f"{verb}: {', '.join(assets)}")
    for asset_id, change in plan.partitions.items():
        output.show(f"partitions of {asset_id}: {change}")
    if plan.reported:
        output.show(f"reported once, because the data is there: {', '.join(plan.reported)}")


def _limit(slots: int | None) -> str:
    return "none" if slots is None else _count(slots, "slots")


def _kinds(plan: ApplyPlan) -> list[tuple[str, list[str]]]:
    return [("add", plan.added), ("change", plan.changed), ("retire", plan.retired)]


def _plan_row(slug: str, kind: str, plan: ApplyPlan) -> list[str | Text]:
    style = {"add": "green", "change": "yellow", "retire": "red"}[kind]
    return [Text((kind, style)), slug, ", ".join(plan.changes.get(slug, ()))]


def _warn(warnings: Any) -> None:
    for warning in warnings:
        output.message(f"warning: {warning}")


def _contents(project: Project) -> Json:
    return {
        "project": project.name,
        "workflows": [one.definition.slug for one in project.workflows],
        "sources": [one.definition.asset_id for one in project.sources],
    }


def _count(number: int, many: str) -> str:
    return f"{number} {many.removesuffix('s') if number == 1 else many}"


def _error(error: DefinitionError) -> Json:
    place = error.place
    return {
        "message": error.message,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "hint": error.hint,
        "code": error.code,
    }
