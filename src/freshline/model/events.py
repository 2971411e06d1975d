"""Events as CloudEvents 1.0. HTTP, server-sent events, webhooks and Redis use the same form."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from freshline.model.documents.event import Event

SPECVERSION = "1.0"
CONTENT = "application/json"
MEDIA = "application/cloudevents+json"


def cloud_event(row: Mapping[str, Any]) -> Event:
    """Return the event in the JSON format of CloudEvents.

    `position` is an extension attribute. It is null until the event is numbered.
    """
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
    """Format a time in UTC, with microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
