"""`freshline report` and `expire`: what the outside says about assets."""

from __future__ import annotations

import json
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from freshline.cli.app import App, json_option, pass_app
from freshline.cli.command import command
from freshline.cli.render import output
from freshline.errors import UsageError
from freshline.model.state import reference

if TYPE_CHECKING:
    from freshline.store.operations.report import Reported  # it loads the driver


@command(
    "report",
    examples=[
        "freshline report flights.raw",
        "freshline report flights.raw --data-version 2013-01-04 --key upload-17",
        "freshline report orders.raw --partition 2024-01-31T05",
        """freshline report flights.raw --payload '{"path": "data/2013-01-04.parquet"}'""",
    ],
)
@click.argument("asset")
@click.option("--partition", metavar="KEY", default="", help="The partition that changed, such as 2024-01-31.")
@click.option(
    "--data-version",
    "--version",
    "data_version",
    metavar="V",
    help="The new data version. If it is the same as before, nothing changed.",
)
@click.option("--key", metavar="K", help="The same report with a known key is ignored; another one is an error.")
@click.option(
    "--sequence",
    metavar="N",
    type=click.IntRange(0),
    help="A report out of order is stored but does not become current.",
)
@click.option(
    "--payload",
    metavar="JSON",
    help="Data of the report; `path` is the location of this version's data, which the source must allow.",
)
@json_option
@pass_app
def report(
    app: App,
    *,
    asset: str,
    partition: str,
    data_version: str | None,
    key: str | None,
    sequence: int | None,
    payload: str | None,
    as_json: bool,
) -> None:
    """Report that a source asset changed. Freshline does the rest.

    Without --data-version every report counts as a change. Assets that a workflow produces cannot be reported.
    """
    data = _payload(payload)
    with app.backend() as store:
        found = store.operations.report(
            asset, version=data_version, key=key, sequence=sequence, payload=data, partition_key=partition
        )
    if as_json:
        output.print_json(found)
    else:
        output.message(_result_text(reference(asset, partition), found))
        output.warn(found["warnings"])


@command(
    "expire",
    examples=[
        "freshline expire flights.delay.hourly",
        "freshline expire sales.daily --partition 2024-01-31",
        "freshline expire flights.delay.hourly --json",
    ],
)
@click.argument("asset")
@click.option("--partition", metavar="KEY", default="", help="The partition to expire, such as 2024-01-31.")
@json_option
@pass_app
def expire(app: App, *, asset: str, partition: str, as_json: bool) -> None:
    """Expire an asset now: with an enabled autoMaterialize block it is refreshed."""
    with app.backend() as store:
        found = store.operations.expire(asset, partition)
    if as_json:
        output.print_json(found)
    else:
        shown = f"{asset} --partition {quote(partition)}" if partition else asset
        output.message(f"{reference(asset, partition)} is expired; `freshline why {shown}` shows what follows")


def _payload(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"--payload is not JSON: {error.msg} at character {error.pos + 1} of {text!r}") from None


def _result_text(asset: str, found: Reported) -> str:
    what = f"{asset} version {found['version']} ({found['dataVersion']})"
    if found["delivery"] is not None:
        what = f"delivery {found['delivery']} of {asset}"
    if found["duplicate"]:
        return f"{what} was reported before with this key; nothing was done"
    if not found["movedHead"]:
        return f"{what} is recorded; a later one is the current version"
    return f"{what} is reported" + ("" if found["changed"] else "; its content did not change")
