"""YAML and JSON files as plain data, with the lines of nodes for error messages.

YAML 1.2: `22:00` and `yes` are texts, `3_600_000` is a number. The module converts composed nodes to plain data itself:
that is several times faster than a round-trip parse, and it limits size, depth and aliases.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from freshline.definitions.validation.problems import Loc
from freshline.errors import DefinitionError, Place
from freshline.model.json import Json

MAX_NODES = 100_000
MAX_DEPTH = 60
_TAG = "tag:yaml.org,2002:"
_TRUE = frozenset({"true", "yes", "on", "y"})


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file."""

    file: str
    text: str
    index: int
    data: Any
    line: int = 1

    def place(self, loc: Loc = ()) -> Place:
        """Return the place of a node, or of the nearest enclosing one that exists."""
        if not loc:
            return Place(self.file, self.line)
        return Place(self.file, _line(_nodes(self.text)[self.index], loc))


def parse(text: str, file: str) -> list[Document]:
    """Return the documents of a YAML or JSON file without empty ones. Raise `DefinitionError` with the line."""
    data = _plain_json(text) if file.endswith(".json") else None
    if data is not None:
        return [Document(file, text, 0, data)]
    found = []
    for index, node in enumerate(_composed(text, file)):
        data = _Builder(file).build(node)
        if data is not None:
            found.append(Document(file, text, index, data, node.start_mark.line + 1))
    return found


def _plain_json(text: str) -> Any:
    """Parse strict JSON, fast. Return None if there is any mistake: the YAML parser then reports it with its line."""
    try:
        data = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_refuse)
        json.dumps(data, ensure_ascii=False).encode()
        simple = "\\u0000" not in text and len(text) <= MAX_NODES and _depth(data) <= MAX_DEPTH
    except (ValueError, RecursionError):
        return None
    return data if simple else None


def _depth(data: object) -> int:
    children = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return 1 + max(map(_depth, children), default=0)


def _refuse(value: str) -> float:
    raise ValueError(value)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> Json:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("duplicate")
    return result


def _composed(text: str, file: str) -> list[Node]:
    try:
        return _nodes(text)
    except YAMLError as error:
        raise _json_error(text, file) or _yaml_error(error, file) from None
    except RecursionError:
        raise DefinitionError(f"is nested deeper than {MAX_DEPTH} levels", place=Place(file)) from None


def _yaml_error(error: YAMLError, file: str) -> DefinitionError:
    if not isinstance(error, MarkedYAMLError):
        return DefinitionError(f"cannot be read as YAML: {str(error).splitlines()[0]}", place=Place(file))
    mark = error.problem_mark or error.context_mark
    reason = " ".join(str(part) for part in (error.context, error.problem) if part)
    return DefinitionError(f"cannot be read as YAML: {reason}", place=Place(file, mark.line + 1 if mark else None))


def _json_error(text: str, file: str) -> DefinitionError | None:
    try:
        if file.endswith(".json"):
            json.loads(text)
    except json.JSONDecodeError as error:
        return DefinitionError(f"cannot be read as JSON: {error.msg}", place=Place(file, error.lineno))
    except RecursionError:
        return None
    return None


@lru_cache(maxsize=4)
def _nodes(text: str) -> list[Node]:
    return [node for node in YAML(typ="safe", pure=True).compose_all(text.lstrip("\ufeff")) if node is not None]


def _line(node: Node, loc: Loc) -> int:
    line = node.start_mark.line
    for part in loc:
        child = _child(node, part)
        if child is None:
            break
        line, node = child
    return int(line) + 1


def _child(node: Node, part: str | int) -> tuple[int, Node] | None:
    if isinstance(node, MappingNode):
        fields = {key.value: (key.start_mark.line, value) for key, value in reversed(node.value)}
        # A problem names `ttlMs`, also where the user wrote `ttl`.
        return fields.get(part) or fields.get(str(part).removesuffix("Ms"))
    if isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark.line, node.value[part]
    return None


class _Builder:
    """Converts the nodes of one document to plain data, with a limit on expanded aliases."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._count = 0

    def build(self, node: Node, depth: int = 0) -> Any:
        self._count += 1
        if self._count > MAX_NODES:
            raise self._error(node, f"holds more than {MAX_NODES} values, aliases unfolded; split it")
        if depth > MAX_DEPTH:
            raise self._error(node, f"is nested deeper than {MAX_DEPTH} levels")
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if isinstance(node, MappingNode):
            return self._mapping(node, depth)
        return [self.build(item, depth + 1) for item in node.value]

    def _mapping(self, node: MappingNode, depth: int) -> Json:
        result: Json = {}
        merged: Json = {}
        for key, value in node.value:
            if str(key.tag) == f"{_TAG}merge":
                merged = {**self._merged(value, depth), **merged}
                continue
            name = self._key(key)
            if name in result:
                raise self._error(key, f"field {name!r} is given twice; keep one")
            result[name] = self.build(value, depth + 1)
        return {**merged, **result}

    def _merged(self, node: Node, depth: int) -> Json:
        blocks = self.build(node, depth + 1)
        result: Json = {}
        for block in blocks if isinstance(blocks, list) else [blocks]:
            if not isinstance(block, dict):
                raise self._error(node, "'<<' takes a block of fields or a list of them")
            result = {**block, **result}
        return result

    def _key(self, node: Node) -> str:
        if not isinstance(node, ScalarNode):
            raise self._error(node, "the name of a field must be a text")
        return self._text(node)

    def _scalar(self, node: ScalarNode) -> Any:
        tag, text = str(node.tag).removeprefix(_TAG), node.value
        if tag in {"str", "timestamp", "value"}:
            return self._text(node)
        if tag == "null":
            return None
        if tag == "bool":
            return text.lower() in _TRUE
        if tag in {"int", "float"}:
            return self._number(node, tag)
        raise self._error(node, f"the tag {tag!r} is not known here; remove it")

    def _number(self, node: ScalarNode, tag: str) -> int | float:
        text = node.value.replace("_", "").lower()
        try:
            number = float(text) if tag == "float" else _integer(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self._error(node, f"{node.value[:80]!r} is not a finite number; allowed are numbers that JSON has")
        return number

    def _text(self, node: ScalarNode) -> str:
        text = str(node.value)
        # PostgreSQL cannot store them.
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise self._error(node, "a text holds the character NUL or half a surrogate pair; remove it")
        return text

    def _error(self, node: Node, message: str) -> DefinitionError:
        return DefinitionError(message, place=Place(self._file, node.start_mark.line + 1))


def _integer(text: str) -> int:
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    base = {"0x": 16, "0o": 8, "0b": 2}.get(digits[:2], 10)
    return sign * int(digits if base == 10 else digits[2:], base)  # noqa: PLR2004
