"""A validator for JSON Schema, for the words that our schemas use. A word that it does not know is an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from freshline.model.json import Json

SILENT = {"$schema", "$id", "$defs", "title", "description", "example", "examples", "default", "$comment"}
TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
FORMATS: Mapping[str, Callable[[str], object]] = {
    "date-time": lambda text: datetime.fromisoformat(text).tzinfo,
    "uuid": UUID,
    "uri": lambda text: urlsplit(text).scheme,
    "uri-reference": lambda text: urlsplit(text).path,
}


def violations(value: Any, schema: Json, documents: Mapping[str, Json] | None = None) -> list[str]:
    """Where and how the value breaks the schema; nothing if it fits. `documents`: other schemas, by their `$id`."""
    known = {schema.get("$id", ""): schema, **(documents or {})}
    return list(Check(schema, known).of(value, schema, "$"))


class Check:
    """References are looked up in the document in which they stand."""

    def __init__(self, document: Json, documents: Mapping[str, Json]) -> None:
        self._document = document
        self._documents = documents
        self._words: dict[str, Callable[[Any, Any, Json, str], Iterator[str]]] = {
            "$ref": self._ref,
            "type": self._type,
            "const": lambda value, wanted, _, at: problem(value == wanted, f"{at}: {value!r} is not {wanted!r}"),
            "enum": lambda value, wanted, _, at: problem(value in wanted, f"{at}: {value!r} is none of {wanted}"),
            "required": self._required,
            "properties": self._properties,
            "additionalProperties": self._additional,
            "items": self._items,
            "allOf": self._all,
            "anyOf": lambda value, wanted, _, at: problem(self._fitting(value, wanted, at) > 0, f"{at}: nothing fits"),
            "oneOf": lambda value, wanted, _, at: problem(self._fitting(value, wanted, at) == 1, f"{at}: not one fits"),
            "not": lambda value, wanted, _, at: problem(
                not self._fitting(value, [wanted], at), f"{at}: it must not fit"
            ),
            "minLength": lambda value, wanted, _, at: problem(len(value) >= wanted, f"{at}: shorter than {wanted}"),
            "pattern": lambda value, wanted, _, at: problem(bool(re.search(wanted, value)), f"{at}: unlike {wanted}"),
            "format": self._format,
        }

    def of(self, value: Any, schema: Json | bool, at: str) -> Iterator[str]:
        """Yield the problems."""
        if isinstance(schema, bool):
            yield from problem(schema, f"{at}: nothing is allowed here")
            return
        for word, wanted in schema.items():
            if word not in SILENT:
                yield from self._words[word](value, wanted, schema, at)

    def _ref(self, value: Any, wanted: str, _: Json, at: str) -> Iterator[str]:
        name, pointer = wanted.split("#")
        document = self._documents[name] if name else self._document
        found: Any = document
        for part in filter(None, pointer.split("/")):
            found = found[part]
        yield from Check(document, self._documents).of(value, found, at)

    def _type(self, value: Any, wanted: str | list[str], _: Json, at: str) -> Iterator[str]:
        names = [wanted] if isinstance(wanted, str) else wanted
        yield from problem(any(TYPES[name](value) for name in names), f"{at}: {value!r} is not a {wanted}")

    def _required(self, value: Any, wanted: list[str], _: Json, at: str) -> Iterator[str]:
        if isinstance(value, dict):
            yield from (f"{at}: {name} is missing" for name in wanted if name not in value)

    def _properties(self, value: Any, wanted: Json, _: Json, at: str) -> Iterator[str]:
        for name, schema in wanted.items():
            if isinstance(value, dict) and name in value:
                yield from self.of(value[name], schema, f"{at}.{name}")

    def _additional(self, value: Any, wanted: Json | bool, schema: Json, at: str) -> Iterator[str]:
        more = value.keys() - schema.get("properties", {}).keys() if isinstance(value, dict) else ()
        for name in more:
            yield from self.of(value[name], wanted, f"{at}.{name}")

    def _items(self, value: Any, wanted: Json, _: Json, at: str) -> Iterator[str]:
        for number, one in enumerate(value if isinstance(value, list) else ()):
            yield from self.of(one, wanted, f"{at}[{number}]")

    def _all(self, value: Any, wanted: list[Json], _: Json, at: str) -> Iterator[str]:
        for one in wanted:
            yield from self.of(value, one, at)

    def _fitting(self, value: Any, wanted: list[Json], at: str) -> int:
        return sum(not list(self.of(value, one, at)) for one in wanted)

    def _format(self, value: Any, wanted: str, _: Json, at: str) -> Iterator[str]:
        try:
            right = not isinstance(value, str) or bool(FORMATS[wanted](value))
        except ValueError:
            right = False
        yield from problem(right, f"{at}: {value!r} is not a {wanted}")


def problem(right: bool, sentence: str) -> Iterator[str]:
    """Yield the sentence if the condition does not hold."""
    if not right:
        yield sentence
