"""How many partitions of an asset are in which state, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from freshline.cli.render import output
from freshline.cli.render.text import Text
from freshline.model.enums import PartitionState

if TYPE_CHECKING:
    from freshline.model.documents.partition import AssetPartitions, PartitionSummary

_OTHERS = [one for one in PartitionState if one is not PartitionState.FRESH]


def counts_text(summary: PartitionSummary) -> Text:
    """Return `362 of 365 fresh, 2 stale, 1 failed`."""
    counts = summary["counts"]
    if not summary["total"]:
        return Text("no partition exists yet")
    parts = [Text(f"{counts[PartitionState.FRESH]:,} of {summary['total']:,} ", output.coloured(PartitionState.FRESH))]
    others = [one for one in sorted(_OTHERS, key=lambda one: -counts[one]) if counts[one]]
    return Text.join(", ", [*parts, *(Text(f"{counts[one]:,} ", output.coloured(one)) for one in others)])


def summary_text(asset_id: str, found: AssetPartitions) -> Text:
    """Return the line above a list of partitions."""
    newest = f"; the newest is {found['newest']}" if found["newest"] else ""
    return Text((asset_id, "bold"), ": ", counts_text(found), newest)
