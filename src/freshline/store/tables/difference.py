"""Describes the difference between two versions of a table: columns, types, row counts, changed values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from freshline.model.json import Json
from freshline.model.run import StagedOutput
from freshline.store.db.database import Row

MOST = 100


def difference(before: Row, now: StagedOutput) -> Json | None:
    """Return `{added, removed, retyped, order, rows, columns}` without empty entries, or None if nothing is known.

    `columns` are the common columns whose fingerprints differ.
    """
    found = {
        **columns_changed(before["schema"], now.schema),
        "order": _order(before["schema"], now.schema),
        "rows": _rows(before["rows"], now.rows),
        "columns": _values(before["location"], now.location),
    }
    shown = {name: names[:MOST] for name, names in found.items() if names}
    return shown or None


def columns_changed(before: Any, now: Any) -> dict[str, list[str]]:
    """Return the added, removed and retyped columns. The order of columns does not count."""
    old, new = _columns(before), _columns(now)
    if not old or not new:
        return {}
    return {
        "added": [f"{name} {kind}" for name, kind in new.items() if name not in old],
        "removed": [f"{name} {kind}" for name, kind in old.items() if name not in new],
        "retyped": [f"{name} {old[name]} -> {kind}" for name, kind in new.items() if name in old and old[name] != kind],
    }


def _order(before: Any, now: Any) -> list[str]:
    """Return the new columns if the common ones have another order, else nothing."""
    old, new = list(_columns(before)), list(_columns(now))
    stayed = [name for name in new if name in old]
    return [] if stayed == [name for name in old if name in new] else new


def _rows(before: int | None, now: int | None) -> list[str]:
    return [] if before is None or now is None or before == now else [f"{before} -> {now}"]


def _columns(schema: Any) -> dict[str, str]:
    if not isinstance(schema, Mapping) or schema.get("type") != "struct":
        return {}
    return {field["name"]: _kind(field["type"]) for field in schema["fields"]}


def _kind(kind: Any) -> str:
    match kind:
        case {"type": "struct", "fields": fields}:
            inner = ",".join(f"{field['name']}:{_kind(field['type'])}" for field in fields)
            return f"struct<{inner}>"
        case {"type": "array", "elementType": element}:
            return f"array<{_kind(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{_kind(key)},{_kind(value)}>"
        case {"type": other}:
            return str(other)
    return str(kind)


def _values(before: Row | None, now: Row | None) -> list[str]:
    old, new = (((one or {}).get("fingerprint") or {}).get("columns") or {} for one in (before, now))
    return [name for name, seen in new.items() if name in old and old[name] != seen]
