"""An event as others get it: a CloudEvent 1.0, the same over HTTP, as a server-sent event, in webhooks and in Redis."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

SPECVERSION = "1.0"
CONTENT = "application/json"
MEDIA = "application/cloudevents+json"


def cloud_event(row: Mapping[str, Any]) -> dict[str, Any]:
    """The event in the JSON format of CloudEvents; `position`, an extension attribute, is null until it has one."""
    return {
        "specversion": SPECVERSION,
        "id": str(row["id"]),
        "source": row["source"],
        "type": row["type"],
        "subject": row["subject"],
        "time": rfc3339(row["time"]),
        "datacontenttype": CONTENT,
        "position": row["position"],
        "data": row["data"],
    }


def rfc3339(moment: datetime) -> str:
    """A time in UTC, with microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
