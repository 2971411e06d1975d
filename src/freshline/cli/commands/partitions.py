"""`freshline partitions`: the states of the partitions of an asset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from freshline.cli.app import App, json_option, limit_option, pass_app
from freshline.cli.command import command
from freshline.cli.render import output
from freshline.cli.render.partitions import summary_text
from freshline.cli.render.table import Columns, Table
from freshline.cli.render.text import Text
from freshline.errors import UsageError
from freshline.model.documents.partition import AssetPartitions, PartitionRange, WantedPartitions
from freshline.model.enums import PartitionState

if TYPE_CHECKING:
    from freshline.cli.backend.protocol import ReadOnlyBackend

STATES = [str(one) for one in PartitionState]
MOST_PAGES = 10  # of 10,000 keys
RANGES: Columns = ["STATE", "FROM", "TO", "PARTITIONS"]


@command(
    "partitions",
    examples=[
        "freshline partitions sales.daily",
        "freshline partitions sales.daily --state stale --from 2024-01-01",
        "freshline partitions sales.daily --json | jq .counts",
    ],
)
@click.argument("asset")
@click.option("--state", type=click.Choice(STATES), help="Only partitions in this state.")
@click.option("--from", "first", metavar="KEY", help="From this partition on; for partitions by time.")
@click.option("--to", "last", metavar="KEY", help="Up to this partition; for partitions by time.")
@limit_option(50)
@click.option("--after", metavar="KEY", help="Continue a listing after this partition.")
@json_option
@pass_app
def partitions(
    app: App,
    *,
    asset: str,
    state: str | None,
    first: str | None,
    last: str | None,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """List the partitions of an asset with their states, newest first. Equal states in a row are one line.

    States: running; failed (its last runs failed); missing (never produced); frozen (its inputs changed, but it is too
    old to run by itself); stale (its inputs changed, or it is queued or held); fresh.

    One call looks at no more than 100,000 partitions. It says after which one to continue, in --json as `next`.
    """
    wanted = WantedPartitions(first, last, PartitionState(state) if state else None, after)
    with app.read_backend() as reader:
        found = _read(reader, asset, wanted, limit)
    if found["partitioning"] is None:
        raise UsageError(f"asset '{asset}' has no partitions", hint=f"`freshline status {asset}` shows its state")
    if as_json:
        output.print_json(found)
        return
    output.show(summary_text(asset, found))
    if found["items"]:
        output.show(Table.of(RANGES, map(_cells, found["items"])))
    elif any((state, first, last, after)) and not found["next"]:
        output.message("nothing matches; leave out filters to see more")
    if found["next"]:
        few = len(found["items"]) < limit
        where = "; no more partitions were looked at, and --from and --to narrow it" if few else ""
        output.message(f"there are more: --after {found['next']} continues{where}")


def _read(reader: ReadOnlyBackend, asset: str, wanted: WantedPartitions, limit: int) -> AssetPartitions:
    """Read pages until there are `limit` entries. A page may have few, because it looks at a bounded number of keys.

    The number of pages is bounded too: equal states of a million partitions are one entry.
    """
    found = reader.partitions(asset, wanted, limit)
    for _ in range(MOST_PAGES - 1):
        if not found["next"] or len(found["items"]) >= limit:
            break
        following = wanted._replace(after=found["next"])
        more = reader.partitions(asset, following, limit - len(found["items"]))
        found = {**found, "items": _joined(found["items"], more["items"]), "next": more["next"]}
    return found


def _joined(before: list[PartitionRange], after: list[PartitionRange]) -> list[PartitionRange]:
    """Return the entries of two pages. A page may end within equal states."""
    if not before or not after or before[-1]["state"] != after[0]["state"]:
        return before + after
    last, first = before[-1], after[0]
    joined: PartitionRange = {**last, "from": first["from"], "count": last["count"] + first["count"]}
    return [*before[:-1], joined, *after[1:]]


def _cells(one: PartitionRange) -> list[str | Text]:
    return [output.coloured(one["state"]), one["from"], one["to"] if one["count"] > 1 else "", f"{one['count']:,}"]
