"""`freshline delivery`: what was added to a source with `mode: append`."""

from __future__ import annotations

import json

import click

from freshline.cli.app import App, json_option, pass_app, project_option
from freshline.cli.command import command, examples_text
from freshline.cli.render import output
from freshline.cli.render.format import moment
from freshline.cli.render.table import Column, Columns, Table
from freshline.model.documents.asset import Delivery

DELIVERIES: Columns = ("NUMBER", "REPORTED", Column("WHAT", wraps=20), Column("", wraps=20))

MOST_PAYLOAD = 200  # characters


@click.group(
    "delivery",
    epilog=examples_text(["freshline delivery list landing.orders", "freshline delivery skip landing.orders 7"]),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@project_option
def delivery() -> None:
    """List or skip the deliveries of a source with `mode: append`. Each report adds one."""


@command("list", examples=["freshline delivery list landing.orders", "freshline delivery list landing.orders --json"])
@click.argument("source")
@click.option("--limit", metavar="N", type=click.IntRange(1), default=20, show_default=True, help="At most this many.")
@json_option
@pass_app
def list_(app: App, *, source: str, limit: int, as_json: bool) -> None:
    """List the deliveries of a source, newest first."""
    with app.backend() as store:
        found = store.reader.deliveries(source, limit)
    if as_json:
        output.print_json({"assetId": source, "deliveries": found})
    elif found:
        output.show(Table.of(DELIVERIES, [_cells(one) for one in found]))
    else:
        output.message(f"{source} has no deliveries; each report of a source with `mode: append` is one")


@command("skip", examples=["freshline delivery skip landing.orders 7 --reason truncated"])
@click.argument("source")
@click.argument("number", type=click.IntRange(1))
@click.option("--reason", metavar="TEXT", required=True, help="Why it is left out; stored and shown.")
@json_option
@pass_app
def skip(app: App, *, source: str, number: int, reason: str, as_json: bool) -> None:
    """Leave a delivery out for all consumers that have not read it, for example because its file is damaged.

    Consumers that have read it keep its rows. Who skipped it, when and why is stored. Its consumers try again at once.
    """
    with app.backend() as store:
        found = store.operations.skip_delivery(source, number, reason)
    if as_json:
        output.print_json(found)
        return
    skipped = found.get("skipped")
    if skipped and skipped["reason"] != reason:  # the first reason stays
        who = skipped["by"] or "somebody"
        output.message(f"delivery {number} of {source} was skipped before, by {who}: {skipped['reason']}")
    else:
        kept = "consumers that have read it keep its rows"
        output.message(f"delivery {number} of {source} is skipped; {kept}; `freshline delivery list {source}` shows it")


def _cells(one: Delivery) -> list[str]:
    what = ", ".join(text for text in (one["dataVersion"], one["path"]) if text) or _payload(one)
    skipped = one.get("skipped")
    said = f"skipped by {skipped['by'] or 'somebody'}: {skipped['reason']}" if skipped else ""
    return [str(one["number"]), moment(one["reportedAt"]), what, said]


def _payload(one: Delivery) -> str:
    """Return the payload of a delivery that has neither a version nor a path, as those of queries and topics."""
    text = "" if one["payload"] is None else json.dumps(one["payload"], ensure_ascii=False, sort_keys=True)
    return text if len(text) <= MOST_PAYLOAD else f"{text[:MOST_PAYLOAD]}..."


delivery.add_command(list_)
delivery.add_command(skip)
