"""The base of all models of what users write: strict, closed, frozen, camelCase, with durations in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    Strict,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue

from freshline.definitions import duration

Millis = Annotated[int, Field(ge=0, le=duration.LONGEST_MS)]
PositiveMillis = Annotated[int, Field(ge=1, le=duration.LONGEST_MS)]
# A YAML list is a list, a frozen model holds tuples; the items stay strict.
AsTuple = Strict(False)  # noqa: FBT003


class Model(BaseModel):
    """A block of a definition. Every field `xMs` may also be written as `x: 1h30m`; both at once is an error."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        alias_generator=to_camel,
        hide_input_in_errors=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _durations_in_words(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        spoken = [name for name in duration_words(cls) if name in data]
        return _with_milliseconds(data, spoken) if spoken else data

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        shape = handler.resolve_ref_schema(handler(schema))
        for word in duration_words(cls):
            text = {"type": "string", "pattern": duration.PATTERN, "description": "A duration such as 90s or 1h30m."}
            shape.get("properties", {})[word] = text
        return shape


def duration_words(cls: type[Model]) -> list[str]:
    """The fields of a block that take a duration in words: `ttl` for `ttlMs`."""
    return [to_camel(name.removesuffix("_ms")) for name in cls.model_fields if name.endswith("_ms")]


def known_fields(cls: type[Model]) -> list[str]:
    """All names that a block takes, as users write them."""
    return [field.alias or name for name, field in cls.model_fields.items()] + duration_words(cls)


class FieldError(ValueError):
    """A mistake in one field of a block, found when the whole block was looked at."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class BadDuration:
    """Stands in `xMs` for a duration that cannot be read: it fails there, and the rest of the block is checked too."""

    field: str
    message: str


def _with_milliseconds(data: dict[str, Any], spoken: list[str]) -> dict[str, Any]:
    result = {key: value for key, value in data.items() if key not in spoken}
    for word in spoken:
        result[f"{word}Ms"] = _milliseconds(data, word)
    return result


def _milliseconds(data: dict[str, Any], word: str) -> int | BadDuration:
    if f"{word}Ms" in data:
        return BadDuration(word, f"both '{word}' and '{word}Ms' are given; keep one of them")
    try:
        return duration.milliseconds(data[word])
    except ValueError as error:
        return BadDuration(word, f"'{word}' {error}")
