"""Problems of a definition: a path into the document and a message."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError

from freshline import duration
from freshline.definitions.schema.base import BadDuration, FieldError, Model, known_fields
from freshline.definitions.schema.watch import Watch
from freshline.errors import Place
from freshline.suggest import suggestion

Loc = tuple[str | int, ...]

_ALLOWED = {
    "int_type": "whole numbers",
    "int_from_float": "whole numbers",
    "float_type": "numbers",
    "finite_number": "finite numbers",
    "bool_type": "true and false",
    "string_type": "texts",
    "tuple_type": "lists",
    "list_type": "lists",
    "dict_type": "blocks of fields",
    "model_type": "blocks of fields",
    "model_attributes_type": "blocks of fields",
    "invalid-json-value": "texts, numbers, true, false, null, lists and blocks",
}
_ALLOWED_WITH = {
    "literal_error": "{expected}",
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "{le} or less",
    "greater_than": "more than {gt}",
    "less_than": "less than {lt}",
    "too_short": "{min_length} or more items",
    "too_long": "{max_length} or fewer items",
    "string_too_short": "{min_length} or more characters",
    "string_too_long": "{max_length} or fewer characters",
    "string_pattern_mismatch": "texts that match {pattern}",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake.

    `loc`: its path in the document. `see`: the path that it contradicts. `place`: set if it is in another file.
    """

    loc: Loc
    message: str
    see: Loc | None = None
    warning: bool = False
    place: Place | None = None


def explain(model: type[Model], error: ValidationError, data: object) -> list[Problem]:
    """Return the problems behind a validation error, in terms of the user's document."""
    details = error.errors(include_url=False)
    locs = [item["loc"] for item in details]
    problems: dict[tuple[Loc, str], list[str]] = {}
    for item in details:
        # A list whose items are wrong also counts as too short.
        if item["type"] == "too_short" and any(other[:-1][: len(item["loc"])] == item["loc"] for other in locs):
            continue
        loc, sentence, allowed = _explained(model, item, data)
        # A union reports once per member; the user made one mistake.
        alternatives = problems.setdefault((loc, sentence), [])
        if allowed and allowed not in alternatives:
            alternatives.append(allowed)
    return [Problem(loc, _sentence(sentence, allowed)) for (loc, sentence), allowed in problems.items()]


def subject(data: object, loc: Sequence[str | int]) -> str:
    """Return the subject of a location: `asset 'x'`, else `step 'x'`, else `workflow 'x'`, else an empty string."""
    found = ""
    for depth in range(len(loc) + 1):
        block = _at(data, loc[:depth])
        if isinstance(block, Mapping):
            for key, noun in (("slug", "workflow"), ("id", "step"), ("assetId", "asset")):
                if isinstance(block.get(key), str):
                    found = f"{noun} {block[key]!r}: "
    return found


def show(value: object) -> str:
    """Return a value as JSON, shortened."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004


def _sentence(sentence: str, allowed: list[str]) -> str:
    return f"{sentence}; allowed are {', '.join(allowed)}" if allowed else sentence


def _explained(model: type[Model], details: Mapping[str, Any], data: object) -> tuple[Loc, str, str]:
    """Return the location, the mistake, and what is allowed."""
    loc = _document_loc(details["loc"], data)
    kind, context, value = details["type"], details.get("ctx") or {}, details["input"]
    if isinstance(value, BadDuration):
        return (*loc, value.field), value.message, ""
    if kind == "value_error":
        wrong = context["error"]
        return (*loc, wrong.field) if isinstance(wrong, FieldError) else loc, str(wrong), ""
    if kind == "extra_forbidden":
        return loc, _unknown(str(details["loc"][-1]), _blocks_at(model, details["loc"][:-1])), ""
    if kind == "missing":
        return loc, f"field '{details['loc'][-1]}' is missing", ""
    if kind in {"union_tag_invalid", "union_tag_not_found"}:
        return (*loc, "kind"), _no_such_kind(details, context), ""
    if (text := _duration_text(details["loc"], data)) is not None:
        loc, value = (*loc, text), _at(data, (*loc, text))
        context = {name: duration.as_text(limit) for name, limit in context.items() if isinstance(limit, int)}
    allowed = _ALLOWED.get(kind) or _ALLOWED_WITH.get(kind, "").format(**context).replace("True", "true")
    unfamiliar = "" if allowed else f"; {details['msg']}"
    return loc, f"'{_field_name(loc)}' is {show(value)}{unfamiliar}", allowed


def _duration_text(loc: Sequence[str | int], data: object) -> str | None:
    """Return the field in which the user wrote a duration as text, if pydantic names the one in milliseconds."""
    name = str(loc[-1]) if loc else ""
    text = name.removesuffix("Ms")
    block = _at(data, _document_loc(loc[:-1], data))
    return text if text != name and isinstance(block, Mapping) and text in block and name not in block else None


def _no_such_kind(details: Mapping[str, Any], context: Mapping[str, Any]) -> str:
    kinds = ("spark.sql", "spark.python", "python")
    if "tag" not in context:
        return f"field 'kind' is missing; allowed are {', '.join(kinds)}"
    return (
        f"'kind' is {show(details['input']['kind'])}; allowed are {', '.join(kinds)}{suggestion(context['tag'], kinds)}"
    )


def _unknown(field: str, blocks: list[type[Model]]) -> str:
    known = list(dict.fromkeys(name for block in blocks for name in known_fields(block)))
    return f"unknown field {field!r}" + (suggestion(field, known) or f"; known are {', '.join(known)}")


def _field_name(loc: Loc) -> str:
    names = [part for part in loc if isinstance(part, str)]
    index = f"[{loc[-1]}]" if loc and isinstance(loc[-1], int) else ""
    return f"{names[-1]}{index}" if names else "the document"


def _blocks_at(model: type[Model], loc: Sequence[str | int]) -> list[type[Model]]:
    """Return the models that are allowed at a pydantic location, by walking the annotations."""
    blocks = [model]
    for part in loc:
        if isinstance(part, int):
            continue
        tagged = [b for b in blocks if part in _tags(b)]
        fields = [f for b in blocks for n, f in b.model_fields.items() if part in (n, f.alias)]
        # Keys of a mapping and tags of a union are not fields. They lead to the same models.
        blocks = tagged or [b for field in fields for b in _models_in(field.annotation)] or blocks
    return blocks


def _tags(block: type[Model]) -> tuple[object, ...]:
    """Return the tags that select this member of a union."""
    if issubclass(block, Watch):
        return (block.tag,)
    return get_args(block.model_fields["kind"].annotation) if "kind" in block.model_fields else ()


def _models_in(annotation: Any) -> list[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]


def _document_loc(loc: Sequence[str | int], data: object) -> Loc:
    """Return a pydantic location without the parts that are not in the document, such as union tags."""
    found: list[str | int] = []
    here = data
    for part in loc:
        below = _at(here, (part,))
        if below is not _NOTHING:
            found.append(part)
            here = below
    return tuple(found)


_NOTHING = object()


def _at(data: object, loc: Sequence[str | int]) -> object:
    for part in loc:
        try:
            data = data[part] if isinstance(data, dict | list | tuple) else _NOTHING  # type: ignore[index]
        except (LookupError, TypeError):
            return _NOTHING
    return data
