"""Reads which assets have rows of older code that nobody has decided about (docs/semantics.md#R9.9)."""

from __future__ import annotations

from collections.abc import Sequence

from freshline.model.documents.status import OlderCode
from freshline.store.read.session import ReadSession

MOST_NAMED = 20


def read(session: ReadSession, assets: Sequence[str] | None) -> dict[str, OlderCode]:
    """Return what waits for a decision by asset: of these assets, or of all."""
    return {
        row["assetId"]: {
            "rows": row["rows"],
            "exact": row["counted"],
            "versions": sorted(row["versions"]),
            "partitions": [key for key in row["keys"] if key][:MOST_NAMED],
            "partitionsTotal": sum(key != "" for key in row["keys"]),
            "rebuildMs": row["ms"],
        }
        for row in session.rows("older_code", assets=assets)
    }
