"""Rows of older code as sentences: what waits for a decision, what it costs, and the commands that answer."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from freshline.duration import in_words
from freshline.plural import counted

if TYPE_CHECKING:
    from freshline.model.documents.status import OlderCode
    from freshline.store.operations.accept import Accepted

MARK = "needs decision"


def question(asset_id: str, slug: str | None, found: OlderCode) -> str:
    """Return what was made by older code, and the two commands that answer."""
    keys = found["partitions"]
    named = f" --partition {quote(keys[0])}" if keys else ""
    what = "that partition" if len(keys) > 1 else "them"
    return (
        f"{asset_id} needs a decision: {rows_of(found)}; `freshline run {slug}{named} --full-refresh` computes {what} "
        f"again ({cost(found)}), `freshline accept {asset_id}` keeps them as they are"
    )


def rows_of(found: OlderCode) -> str:
    """Return how many rows are of older code, and where."""
    number = found["rows"]
    rows = "rows are" if number is None else f"{counted(number, 'row')} {'is' if number == 1 else 'are'}"
    limit = "" if found["exact"] or number is None else "up to "
    where = f" in {counted(found['partitionsTotal'], 'partition')}" if found["partitionsTotal"] else ""
    return f"{limit}{rows} of older code{where}"


def cost(found: OlderCode) -> str:
    """Return what computing everything again costs."""
    took = found["rebuildMs"]
    every = " for all" if found["partitionsTotal"] > 1 else ""
    return f"nobody knows the cost{every} yet" if took is None else f"about {in_words(took / 1000)}{every}"


def accepted(found: Accepted) -> str:
    """Return what was accepted."""
    rows = "rows" if found["rows"] is None else counted(found["rows"], "row")
    where = f" in {counted(found['partitions'], 'partition')}" if found["partitions"] else ""
    return f"{rows} of older code{where} accepted as they are"
