"""`freshline forget`: remove an asset that nobody uses any more."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from freshline.cli.app import App, json_option, pass_app
from freshline.cli.command import command
from freshline.cli.commands.table import own_warehouse
from freshline.cli.render import output
from freshline.cli.render.format import number, size
from freshline.errors import UsageError

if TYPE_CHECKING:
    from freshline.store.operations.forget import Forgotten


@command(
    "forget",
    examples=[
        "freshline forget orders.old",
        "freshline forget orders.old --yes       in scripts",
        "freshline status --all                  shows which assets are retired",
    ],
)
@click.argument("asset")
@click.option("--reported", is_flag=True, help="Also if it was reported since no workflow uses it.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@pass_app
def forget(app: App, *, asset: str, reported: bool, yes: bool, as_json: bool) -> None:
    """Remove a retired asset: all its versions with their files, its deliveries, and its name.

    An asset is retired when no workflow produces or reads it, no project declares it, and nobody has reported it since.
    Any other asset is refused, and so is one whose data a queued or running run uses. Runs, events, decisions and the
    audit stay. This cannot be undone.
    """
    with app.store() as store:
        found = store.operations.forgettable(asset, reported=reported)
        storage = own_warehouse(store) if found["table"] else None
        if not as_json:
            output.message(f"this drops {_contents(found)}; it cannot be undone")
        if not _agreed(asset, yes=yes):
            output.message("nothing was changed")
            return
        found = store.operations.forget(asset, reported=reported, storage=storage)
    if as_json:
        output.print_json(found)
    else:
        output.message(f"{asset} is forgotten")


def _contents(found: Forgotten) -> str:
    versions = "1 version" if found["versions"] == 1 else f"{number(found['versions'])} versions"
    rows = f" of a table with {number(found['rows'])} rows ({size(found['bytes'])}) and its files"
    table = rows if found["table"] else ""
    deliveries = f" and {number(found['deliveries'])} deliveries" if found["deliveries"] else ""
    return f"{found['assetId']}: {versions}{table}{deliveries}"


def _agreed(asset: str, *, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"no terminal can be asked; --yes forgets {asset}")
    return click.confirm(f"Forget {asset}?", err=True)
