"""Reads what is wrong: failing workflows, late assets, watches that fail, proposals that wait."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from freshline.alerts.records import Node, Trouble
from freshline.model.alerts import AlertKind
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load

SQL = load("alerts")
FAILED_LOOKS = 3  # in a row: one may be an accident
_EXCEPTION = re.compile(r"(?:\S{1,500}:\d+: )?([A-Za-z_][\w.]{0,199}):")  # after the place in the user's files


def read_troubles(connection: Connection) -> list[Trouble]:
    """Return everything that is wrong."""
    watched = connection.execute(SQL["watch_troubles"], {"failures": FAILED_LOOKS})
    return [
        *(_trouble(row) for row in connection.execute(SQL["troubles"])),
        *(_watch_trouble(row) for row in watched),
        *(_proposal(row) for row in connection.execute(SQL["proposals"])),
    ]


def _watch_trouble(row: Row) -> Trouble:
    return Trouble(
        node=Node("asset", row["asset_id"]),
        since=row["since"],
        assets={AlertKind.WATCH_FAILED: (row["asset_id"],)},
        project=row["project"],
        failures=row["failures"],
        error=row["error"],
    )


def _proposal(row: Row) -> Trouble:
    return Trouble(
        node=Node("backfill", row["id"]),
        since=row["since"],
        assets={AlertKind.BACKFILL_PROPOSED: (row["asset_id"], *row["others"])},
        project=row["project"],
        error=f"{row['partitions']:,} old partitions would run",
    )


def _trouble(row: Row) -> Trouble:
    return Trouble(
        node=Node("workflow", row["slug"]),
        since=row["since"],
        assets=dict(_kinds(row)),
        workflow_id=row["id"],
        project=row["project"],
        run_id=row["run_id"],
        failures=row["failures"],
        error_code=_code(row),
        error=row["message"],
        good=_changed(row["consumed"] or {}, row["pins"] or {}, row["outputs"]),
        produced_at=row["produced_at"],
    )


def _kinds(row: Row) -> Iterator[tuple[AlertKind, tuple[str, ...]]]:
    """Yield what is wrong with a workflow, and the affected assets."""
    outputs = tuple(row["outputs"])
    if row["failures"]:
        yield AlertKind.FAILING, outputs
        if row["broken"]:
            yield AlertKind.BREAKER, outputs
        if row["checks"]:
            yield AlertKind.CHECK_FAILED, outputs
    if row["late"]:
        yield AlertKind.OVERDUE, tuple(row["late"])


def _code(row: Row) -> str | None:
    """Return what kind of error it is: its code, and the class of the exception if the message begins with it."""
    found = _EXCEPTION.match(row["message"] or "")
    return f"{row['code']} {found[1]}" if found else row["code"]


def _changed(consumed: Mapping[str, Any], pins: Mapping[str, Any], own: Sequence[str]) -> dict[str, str | None]:
    """Return the inputs of the failed run that are not those of the last success, with the version of the success."""
    good = {asset_id: (consumed.get(asset_id) or {}).get("dataVersion") for asset_id in pins if asset_id not in own}
    return {asset_id: version for asset_id, version in good.items() if version != pins[asset_id].get("dataVersion")}


def read_reported(connection: Connection, sources: Sequence[str]) -> dict[str, datetime]:
    """Return when these sources were reported last."""
    if not sources:
        return {}
    return {
        row["asset_id"]: row["produced_at"] for row in connection.execute(SQL["reported_at"], {"assets": list(sources)})
    }
