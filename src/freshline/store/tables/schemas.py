"""The columns of a table whose partitions were written with different columns."""

from __future__ import annotations

from freshline.model.json import Json


def table_schema(before: Json, now: Json) -> Json:
    """Return the columns of the newest partition, then those that only older ones have. Names ignore case."""
    known = {field["name"].lower() for field in now.get("fields", ())}
    older = [field for field in before.get("fields", ()) if field["name"].lower() not in known]
    return {**now, "fields": [*now.get("fields", ()), *older]}
