"""Options of the listings that limit them to a period, and their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from freshline.cli.render.format import from_duration, from_iso
from freshline.errors import UsageError
from freshline.unmatched import is_pattern

if TYPE_CHECKING:
    from datetime import datetime

    from freshline.cli.backend.protocol import Period, ReadOnlyBackend

TIME = "T"
partition_option = click.option("--partition", metavar="KEY", help="Only this partition, such as 2024-01-31.")
of_option = click.option(
    "--of", "owner", metavar="PROJECT", help="Only what belongs to this project, if the database has several."
)
since_option = click.option(
    "--since", metavar=TIME, help="Only since then: an ISO time (here, if it has no zone), or a duration ago (2h, 7d)."
)
until_option = click.option("--until", metavar=TIME, help="Only before then, in the same form.")


def period(reader: ReadOnlyBackend, since: str | None, until: str | None) -> Period:
    """Return the period that the options name. Durations count back from the time of the database."""
    if since is None and until is None:
        return None, None
    now = reader.now()
    first, last = (None if text is None else _time(text, now) for text in (since, until))
    if first is not None and last is not None and first >= last:
        raise UsageError(f"--since {since} is {first.isoformat()}, which is not before --until {until}")
    return first, last


def refuse_period(since: str | None, until: str | None) -> None:
    """Reject a period for a listing that does not end."""
    if since is not None or until is not None:
        raise UsageError("--follow shows what happens from now on; --since and --until are for the listing")


def refuse_patterns(owner: str | None, *names: str | None) -> None:
    """Reject filters that stand for several workflows, for a listing that does not end."""
    found = next((one for one in names if one is not None and is_pattern(one)), None)
    if owner is not None or found is not None:
        what = f"{found!r} is a pattern" if found else "--of is for the listing"
        raise UsageError(f"--follow follows one workflow, or everything; {what}")


def _time(text: str, now: datetime) -> datetime:
    ahead = from_duration(text, now)
    found = from_iso(text) if ahead is None else now - (ahead - now)
    if found is None:
        raise UsageError(
            f"{text!r} is not a time; allowed are ISO times (2026-01-31T18:00) and durations ago (30m, 2h, 7d)"
        )
    return found
