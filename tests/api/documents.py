"""The operations of the OpenAPI document, and checks of answers against it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SCOPES = ("read", "operate", "admin")


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    described: dict[str, Any]

    @property
    def scope(self) -> str | None:
        """Return the scope that it needs; None for an operation without authentication."""
        found = [scope for one in self.described.get("security", ()) for scope in one["bearer"]]
        assert len(found) <= 1
        return found[0] if found else None

    def url(self, names: dict[str, str]) -> str:
        """Return its path with the parameters filled in."""
        return self.path.format(**names)


def body(operation: Operation) -> dict[str, Any]:
    """Return a valid body."""
    bodies: dict[str, dict[str, Any]] = {
        "alerts": {"name": "more", "on": ["failing"], "to": ["json://h/"]},
        "approve": {"revision": 1},
        "backfills": {"assetId": "b"},
        "deny": {"revision": 1},
        "preview": {"assetId": "b"},
        "reports": {"reports": [{"assetId": "a"}, {"assetId": "b"}]},
        "skip": {"reason": "damaged"},
        "tokens": {"name": "more"},
        "webhooks": {"url": "https://hooks.example/more"},
    }
    return bodies.get(operation.path.rpartition("/")[2], {})


def operations(document: dict[str, Any]) -> list[Operation]:
    """Return every documented operation."""
    return [
        Operation(method, path, described)
        for path, methods in document["paths"].items()
        for method, described in methods.items()
    ]


def undocumented(value: Any, schema: dict[str, Any], document: dict[str, Any], at: str = "$") -> Iterator[str]:
    """Yield the paths of fields that the schema does not name, in objects whose properties it lists."""
    for one in schema.get("anyOf", (schema,)):
        named = document["components"]["schemas"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one
        if isinstance(value, dict) and "properties" in named:
            yield from (f"{at}.{name}" for name in value.keys() - named["properties"].keys())
            for name, part in named["properties"].items():
                if name in value:
                    yield from undocumented(value[name], part, document, f"{at}.{name}")
        if isinstance(value, list) and "items" in named:
            for number, item in enumerate(value):
                yield from undocumented(item, named["items"], document, f"{at}[{number}]")
