"""What changed from one version of a table to the next, for people: columns, their types, and whose values differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from freshline.model.run import StagedOutput

MOST = 100


def difference(before: Mapping[str, Any], now: StagedOutput) -> dict[str, Any] | None:
    """`{added, removed, retyped, order, rows, columns}`, each only if there is one; None: nothing is known.

    `columns` are those that both have and whose values are not the same: by their fingerprints, where both have them.
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
    """How a schema differs from the one before; the order of columns is no difference."""
    old, new = _columns(before), _columns(now)
    if not old or not new:
        return {}
    return {
        "added": [f"{name} {kind}" for name, kind in new.items() if name not in old],
        "removed": [f"{name} {kind}" for name, kind in old.items() if name not in new],
        "retyped": [f"{name} {old[name]} -> {kind}" for name, kind in new.items() if name in old and old[name] != kind],
    }


def _order(before: Any, now: Any) -> list[str]:
    """The columns as they are now, if those that both have stood in another order."""
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


def _values(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> list[str]:
    old, new = (((one or {}).get("fingerprint") or {}).get("columns") or {} for one in (before, now))
    return [name for name, seen in new.items() if name in old and old[name] != seen]
