"""Parses heads, pins and consumed versions."""

from __future__ import annotations

from datetime import datetime

from freshline.model.moment import parsed
from freshline.model.state import Head, Version
from freshline.store.db.database import Row


def head_of(data: Row) -> Head | None:
    """Parse a head with its snapshot; None: there is none."""
    if data["sequence"] is None:
        return None
    return Head(
        data["sequence"],
        data["data_version"],
        datetime.fromisoformat(data["produced_at"]),
        data.get("run_id"),
        bool(data.get("mixed")),
        parsed(data.get("origin")),
        columns=data.get("column_versions") or {},
    )


def version(data: Row) -> Version:
    """Parse one entry of pins."""
    return Version(data["sequence"], data["dataVersion"])


def consumed_version(data: Row) -> Version:
    """Parse one entry of consumed versions, with the version of the columns that were read."""
    return Version(data["sequence"], data["dataVersion"], columns=data.get("columns") or {})
