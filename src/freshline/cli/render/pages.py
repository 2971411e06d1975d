"""Prints pages of listings: a count of all entries, the entries, and how to see more."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from freshline.cli.render import listing, output
from freshline.model.documents.installation import Tally
from freshline.model.documents.listing import About
from freshline.unmatched import is_pattern

T = TypeVar("T")


def several(about: About) -> bool:
    """Return whether filters stand for several workflows, whose entries are counted."""
    return about.project is not None or any(name is not None and is_pattern(name) for name in about[:2])


def asked(limit: int, *, as_json: bool) -> int:
    """Return how many entries `show_page` needs: one more than it prints, to know whether there are others."""
    return limit if as_json else limit + 1


def show_page(
    found: list[T],
    kind: listing.Listing[T],
    advice: str,
    limit: int,
    counted: Tally | None,
    *,
    filtered: bool,
    as_json: bool,
) -> None:
    """Print a page of entries. `found`: at most `asked(limit)` of them."""
    page = found if as_json else found[:limit]
    if counted is not None:
        output.show(counted["sentence"], "")
    show(page, kind, advice, filtered=filtered, as_json=as_json)
    if len(page) < len(found):
        total = f" of {counted['total']:,}{'' if counted['complete'] else ' or more'}" if counted else ""
        last = cast("Any", page[-1])["id"]
        output.message(f"the newest {len(page):,}{total}; `--limit N` shows more, `--after {last}` continues")


def show(found: list[T], kind: listing.Listing[T], advice: str, *, filtered: bool, as_json: bool) -> None:
    """Print entries. An empty listing says what to do next: `advice`, or to look without the filters."""
    if as_json:
        output.print_json(found)
    elif found:
        output.show(kind.table(found))
    else:
        output.message("nothing matches; leave out filters to see more" if filtered else advice)
