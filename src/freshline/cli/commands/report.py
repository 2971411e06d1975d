"""`freshline report` and `expire`: what the outside says about assets."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from freshline.cli.app import App, json_option, pass_app
from freshline.cli.command import command
from freshline.cli.render import output
from freshline.cli.report_input import named, read
from freshline.errors import UsageError
from freshline.model.state import reference

if TYPE_CHECKING:
    from freshline.model.reports import SourceReport
    from freshline.store.operations.report import Reported  # it loads the driver


@command(
    "report",
    examples=[
        "freshline report flights.raw",
        "freshline report flights.raw --data-version 2013-01-04 --key upload-17",
        "freshline report orders.raw --partition 2024-01-31T05",
        """freshline report flights.raw --payload '{"path": "data/2013-01-04.parquet"}'""",
        "freshline report --together orders=v7 lineitem=v7",
        "freshline report --together --file reports.json",
    ],
)
@click.argument("assets", nargs=-1, metavar="ASSET...")
@click.option("--together", is_flag=True, help="The sources are one generation: all are stored, or none.")
@click.option(
    "--file",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="With --together: the reports as JSON, as in the body of `POST /reports`.",
)
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
    help="Data of the report; `path` is the location of this version's data, which the source must allow."
    " With --together: an object of payloads by source.",
)
@json_option
@pass_app
def report(
    app: App,
    *,
    assets: tuple[str, ...],
    together: bool,
    file: Path | None,
    partition: str,
    data_version: str | None,
    key: str | None,
    sequence: int | None,
    payload: str | None,
    as_json: bool,
) -> None:
    """Report that a source asset changed, or several together. Freshline does the rest.

    Without --data-version every report counts as a change. Assets that a workflow produces cannot be reported.
    With --together a source is ASSET or ASSET=VERSION, and no workflow below reads only some of the changes.
    """
    data = _payload(payload)
    if together:
        if data_version is not None or sequence is not None:
            raise UsageError(
                "--data-version and --sequence are about one source, and --together is about several",
                hint="name versions as ASSET=VERSION, or give a --file",
            )
        if file is not None and (assets or data is not None or key is not None or partition):
            raise UsageError("with --file, the file names everything; leave the other arguments out")
        given = named(assets, data, key=key, partition=partition) if file is None else read(file)
        _report_together(app, given, as_json=as_json)
        return
    asset = _only(assets, file)
    with app.backend() as store:
        found = store.operations.report(
            asset, version=data_version, key=key, sequence=sequence, payload=data, partition_key=partition
        )
    if as_json:
        output.print_json(found)
    else:
        output.message(_result_text(reference(asset, partition), found))
        output.warn(found["warnings"])


def _report_together(app: App, given: list[SourceReport], *, as_json: bool) -> None:
    with app.backend() as store:
        found = store.operations.report_together(given)
    if as_json:
        output.print_json(found)
        return
    for one in found["reports"]:
        output.message(_result_text(reference(one["assetId"], one["partitionKey"]), one))
        output.warn(one["warnings"])
    if not found["duplicate"]:
        output.message(
            f"{len(given)} sources were reported together: no join below them reads only some of the changes"
        )


def _only(assets: tuple[str, ...], file: Path | None) -> str:
    """Return the only source of a report without --together."""
    if file is not None:
        raise UsageError("--file needs --together", hint="freshline report --together --file reports.json")
    if not assets:
        raise UsageError("no source is named", hint="freshline report ASSET")
    if len(assets) > 1:
        raise UsageError(
            f"{len(assets)} sources are named: {', '.join(assets[:5])}{', …' if len(assets) > 5 else ''}",  # noqa: PLR2004
            hint="sources that changed together: freshline report --together ASSET=VERSION ASSET=VERSION",
        )
    return assets[0]


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
