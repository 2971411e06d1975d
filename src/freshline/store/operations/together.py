"""Writes reports that belong together: all of them, or none (docs/semantics.md#R4.7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

from freshline.errors import ConflictError, UsageError
from freshline.model.json import Json
from freshline.model.reports import SourceReport
from freshline.model.state import reference
from freshline.plural import counted
from freshline.store.db.database import Connection
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.operations import report
from freshline.store.operations.report import Report, Reported
from freshline.store.operations.targets import find_asset, reported_partition

SQL = load("operations")
FEWEST_MEMBERS, MOST_MEMBERS = 2, 100


class ReportedTogether(TypedDict):
    """The answer to reports that belong together, as JSON. `groupId`: None if they were reported before."""

    groupId: str | None
    duplicate: bool
    reports: list[Reported]


def prepare(given: Sequence[SourceReport], root: str | None) -> list[Report]:
    """Return the reports with the ids of their events. Raise UsageError if they cannot be a group."""
    if not FEWEST_MEMBERS <= len(given) <= MOST_MEMBERS:
        allowed = f"allowed are {FEWEST_MEMBERS} to {MOST_MEMBERS}"
        raise UsageError(f"{counted(len(given), 'source')} cannot be reported together; {allowed}")
    for one in given:
        report.check_payload(one.payload)
    return [
        Report(one.asset_id, one.partition_key, one.version, one.key, one.sequence, one.payload, new_id(), root)
        for one in given
    ]


def record(connection: Connection, group_id: str, reports: Sequence[Report], *, again: bool) -> ReportedTogether:
    """Record all reports, and that they are one generation. With `again` as in `report.record`.

    Assets are locked in the order of their ids, so that two calls cannot deadlock.
    """
    found = [_canonical(connection, one) for one in sorted(reports, key=lambda one: one.asset_id)]
    members = sorted(reference(one.asset_id, one.partition_key) for one in found)
    _refuse_twice(members)
    group: Json = {"id": group_id, "members": members}
    ordered = sorted(found, key=lambda one: (one.asset_id, one.partition_key))
    results = [report.record(connection, replace(one, group=group), again=again) for one in ordered]
    known = [one for one, result in zip(ordered, results, strict=True) if result["duplicate"]]
    if known and len(known) < len(ordered):
        _refuse_half(known[0], next(one for one in ordered if one not in known))
    if not known:
        connection.execute(SQL["add_report_group"], {"id": group_id, "members": members})
    return {"groupId": None if known else group_id, "duplicate": bool(known), "reports": results}


def _canonical(connection: Connection, one: Report) -> Report:
    asset = find_asset(connection, one.asset_id)
    return replace(one, partition_key=reported_partition(connection, asset, one.partition_key))


def _refuse_twice(members: Sequence[str]) -> None:
    twice = next((name for name, count in Counter(members).items() if count > 1), None)
    if twice is not None:
        raise UsageError(
            f"'{twice}' is named twice; nothing was stored", hint="a source or a partition is reported once per group"
        )


def _refuse_half(known: Report, other: Report) -> None:
    raise ConflictError(
        f"the key {known.key!r} of '{reference(known.asset_id, known.partition_key)}' was used before, but"
        f" '{reference(other.asset_id, other.partition_key)}' is new; nothing was stored",
        hint="a repeated report must be equal to the first; give a new one another key for all of its sources",
    )
