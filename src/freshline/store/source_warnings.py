"""Warnings about sources that lose data: each report replaces the data, but the consumers seem to expect additions.

See docs/semantics.md#R3.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.operations.deliveries import is_append
from freshline.store.read.session import ReadSession

SQL = load("operations")
NAMED = 3
RECENT = 100  # deliveries among which a repeated path is noticed
ADVICE = "if each report adds data, declare `mode: append` for the source and run `freshline apply`"


class Replaced(NamedTuple):
    """A version of a source that is replaced before somebody has read it."""

    asset_id: str
    version: int
    path: str


def of_report(connection: Connection, asset: Row, head: Row | None, path: str | None) -> list[str]:
    """Return the warnings about a new version of a source, before it replaces the head."""
    if head is None or asset["source_project"] is None or is_append(asset["declaration"]):
        return []
    where = {"asset": asset["id"], "sequence": head["sequence"], "partition": "", "limit": NAMED + 1}
    increments = [row["slug"] for row in connection.execute(SQL["increment_consumers"], where).fetchall()]
    warnings = [rows_new(asset["id"], increments)] if increments else []
    before = connection.execute(SQL["reported_path"], where).fetchone()
    if before and path and before["path"] not in {None, path}:
        unread = [row["slug"] for row in connection.execute(SQL["unread_consumers"], where).fetchall()]
        if unread:
            warnings.append(replaced([Replaced(asset["id"], head["sequence"], before["path"])], unread))
    return warnings


def of_delivery(connection: Connection, asset_id: str, number: int, path: str | None) -> list[str]:
    """Return the warning about a delivery with the path of another one. Only the last ones are looked at."""
    where = {"asset": asset_id, "partition": "", "first": max(1, number - RECENT), "number": number, "path": path}
    known = connection.execute(SQL["same_path"], where).fetchone() if path else None
    if known is None:
        return []
    again = (
        f"{path} was delivered before as delivery {known['number']}: its rows are read again; a report with --key is "
        f"ignored when it is repeated; `freshline delivery skip {asset_id} {number} --reason TEXT` leaves this one out"
    )
    return [again]


def of_names(session: ReadSession, assets: Sequence[str], slugs: Sequence[str]) -> list[str]:
    """Return the warnings about the sources among these assets, and about the inputs of these workflows."""
    asked = {"assets": list(assets), "slugs": list(slugs)}
    warnings = [rows_new(row["asset_id"], row["slugs"]) for row in session.rows("read_in_increments", **asked)]
    for row in session.rows("never_read", **asked):
        lost = [Replaced(row["asset_id"], one["version"], one["path"]) for one in row["versions"]]
        warnings.append(replaced(lost, [row["slug"]], past=True))
    return warnings + [_watch(row) for row in session.rows("failing_watches", **asked)]


def _watch(row: Row) -> str:
    """Return the warning about a source that is not looked at, or has something that is not delivered."""
    asset_id, show = row["asset_id"], f"`freshline watch show {row['asset_id']}`"
    if row["error"] is None:
        what = "one thing" if row["conflicts"] == 1 else f"{row['conflicts']} things"
        first = row["first"]
        such = f", such as {first['subject']}: {first['message']}" if first else ""
        return f"the watcher of '{asset_id}' saw {what} that it does not deliver{such}; {show} lists them"
    times = "look" if row["failures"] == 1 else f"{row['failures']} looks"
    rarely = " and it looks rarely now" if row["open"] else ""
    return f"the watcher of '{asset_id}' notices nothing: the last {times} failed{rarely}: {row['error']} ({show})"


def rows_new(asset_id: str, slugs: Sequence[str]) -> str:
    """Return the warning about consumers that read increments of a source that has none."""
    reads = "reads" if len(slugs) == 1 else "read"
    return (
        f"{_named(slugs)} {reads} '{asset_id}' with `rows: new`, but each report of this source replaces its data: all "
        f"rows are new every time, and a version that is replaced before a run reads it is lost; {ADVICE}"
    )


def replaced(versions: Sequence[Replaced], slugs: Sequence[str], *, past: bool = False) -> str:
    """Return the warning about versions that consumers have not read and will not read."""
    first, more = versions[0], len(versions) - 1
    shown = f"version {first.version} of '{first.asset_id}' ({first.path})" + (f" and {more} more" if more else "")
    were = ("were" if more else "was") if past else "is"
    never = "its data" if not more else "their data"
    return f"{shown} {were} replaced before {_named(slugs)} read it; {never} will not be read; {ADVICE}"


def _named(slugs: Sequence[str]) -> str:
    names = ", ".join(f"'{slug}'" for slug in slugs[:NAMED])
    return f"{names} and others" if len(slugs) > NAMED else names
