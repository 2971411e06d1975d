"""The base class of all models of definitions: strict, closed, frozen, camelCase, with durations as text."""

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

from freshline import duration
from freshline.model.json import Json

Millis = Annotated[int, Field(ge=0, le=duration.LONGEST_MS)]
PositiveMillis = Annotated[int, Field(ge=1, le=duration.LONGEST_MS)]
# YAML gives lists, and frozen models have tuples. The items stay strict.
AsTuple = Strict(False)  # noqa: FBT003


class Model(BaseModel):
    """A block of a definition. Every field `xMs` may also be written as `x: 1h30m`, but not both."""

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
    def _durations_as_text(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        given = [name for name in duration_fields(cls) if name in data]
        return _with_milliseconds(data, given) if given else data

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        shape = handler.resolve_ref_schema(handler(schema))
        for name in duration_fields(cls):
            text = {"type": "string", "pattern": duration.PATTERN, "description": "A duration such as 90s or 1h30m."}
            shape.get("properties", {})[name] = text
        return shape


def duration_fields(cls: type[Model]) -> list[str]:
    """Return the fields of a block that take a duration as text: `ttl` for `ttlMs`."""
    return [to_camel(name.removesuffix("_ms")) for name in cls.model_fields if name.endswith("_ms")]


def known_fields(cls: type[Model]) -> list[str]:
    """Return all fields of a block, as users write them."""
    return [field.alias or name for name, field in cls.model_fields.items()] + duration_fields(cls)


class FieldError(ValueError):
    """A mistake in one field, found by a validator of the whole block."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class BadDuration:
    """A placeholder in `xMs` for an invalid duration. It fails there, so that the rest of the block is checked too."""

    field: str
    message: str


def _with_milliseconds(data: Json, given: list[str]) -> Json:
    result = {key: value for key, value in data.items() if key not in given}
    for name in given:
        result[f"{name}Ms"] = _milliseconds(data, name)
    return result


def _milliseconds(data: Json, name: str) -> int | BadDuration:
    if f"{name}Ms" in data:
        return BadDuration(name, f"both '{name}' and '{name}Ms' are given; keep one of them")
    try:
        return duration.milliseconds(data[name])
    except ValueError as error:
        return BadDuration(name, f"'{name}' {error}")
