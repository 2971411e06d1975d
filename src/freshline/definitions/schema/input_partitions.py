"""The `partitions` block of a consumed asset: which partitions of it are read, and how many of them must have data."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from freshline.definitions.schema.base import AsTuple, FieldError, Millis, Model
from freshline.definitions.schema.checks import Column
from freshline.definitions.schema.partitioning import about
from freshline.model.json import Json
from freshline.partitions import declaration, requirements
from freshline.partitions.declaration import MOST_LATEST, MOST_PICKED, MOST_SHIFT, Declaration
from freshline.suggest import suggestion

PLAIN = ("same", "overlap", "all")
_RULES = ("same", "overlap", "window", "all", "latest")
Yes = Literal[True]
Shift = Annotated[int, Field(ge=-MOST_SHIFT, le=MOST_SHIFT)]
Value = Annotated[str, Field(min_length=1, max_length=200)]
Values = Value | Annotated[tuple[Value, ...], AsTuple, Field(min_length=1, max_length=MOST_PICKED)]


class _OrText:
    """Says in the JSON Schema that a block with one rule may be written as a text: `same`."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Json:
        return {"anyOf": [{"enum": list(PLAIN)}, handler(schema)]}


def _written_out(value: Any) -> Any:
    """Return `{same: true}` for `same`."""
    if not isinstance(value, str):
        return value
    if value not in PLAIN:
        raise ValueError(
            f"'partitions' is {value[:80]!r}; allowed are {', '.join(PLAIN)} and blocks such as"
            f" {{window: {{from: -6, to: 0}}}}{suggestion(value, PLAIN)}"
        )
    return {value: True}


def _required(value: str | int) -> str | int:
    requirements.from_json(value)
    return value


class Window(Model):
    """A range of partitions around the consumer's window, counted in partitions of the input. Negative is before."""

    from_: Shift = Field(alias="from", description="The first one: -6 begins six partitions before the window.")
    to: Shift = Field(description="The last one: 0 ends with the window.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.from_ > self.to:
            raise FieldError("from", f"'from' is {self.from_}; allowed is {self.to} (to) or less")
        return self


class _Rule(Model):
    """One rule. No rule means the default."""

    same: Yes | None = Field(default=None, description="The partition with the same key. Default of equal partitions.")
    overlap: Literal[True, "whole"] | None = Field(
        default=None,
        description="Partitions that share time; default of partitions by time. whole: also where they do not nest, so "
        "that a partition of the input is read by several of the consumer.",
    )
    window: Window | None = Field(default=None, description="A range of partitions around the consumer's window.")
    all: Yes | None = Field(default=None, description="Every partition. Default of a consumer without partitions.")
    latest: Annotated[int, Field(ge=1, le=MOST_LATEST)] | None = Field(
        default=None, description="The newest partitions that have data, this many."
    )

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        given = [name for name in _RULES if getattr(self, name) is not None]
        if len(given) > 1 and given != ["overlap", "window"]:
            raise FieldError(
                given[1], f"'partitions' has {' and '.join(given)}; allowed is one of {', '.join((*_RULES, 'pick'))}"
            )
        return self


class DimensionRule(_Rule):
    """Which values of one dimension of the input are read."""

    pick: Values | None = Field(default=None, description="One value or a list of values.")

    @model_validator(mode="after")
    def _some_rule(self) -> Self:
        with about("pick"):
            declaration.rule_from_json(_dumped(self))
        return self


class InputPartitions(_Rule):
    """Which partitions of an input a partition of the consumer reads. An empty block means the defaults."""

    pick: dict[str, Values] | None = Field(
        default=None, description="Chosen values of dimensions, as in {region: eu}; the others follow their defaults."
    )
    dimensions: dict[str, Annotated[DimensionRule, BeforeValidator(_written_out), _OrText()]] | None = Field(
        default=None, description="A rule per dimension of the input, as in {day: {window: {from: -6, to: 0}}}."
    )
    affects: Literal["all", "latest", "none"] | None = Field(
        default=None,
        description="Of an input without partitions: which partitions its changes make stale. latest: the one that was "
        "the newest when the data was produced. Default: all.",
    )
    require: Annotated[str | int, AfterValidator(_required)] | None = Field(
        default=None,
        description="How many of the expected partitions must have data: all, any, a number, or a share such as 80%. "
        "Default: all, but any with all and latest.",
    )
    grace_ms: Millis | None = Field(
        default=None,
        description="How long after the end of its window a partition waits for those that are required; then it runs "
        "with what is there.",
    )
    time_column: Column | None = Field(
        default=None,
        description="The column of the input by which its rows are cut to the consumer's window. Partitions then need "
        "not nest.",
    )
    on_retire: Literal["keep", "recompute"] | None = Field(
        default=None,
        description="What happens to a partition when retention removes one that it read. Default: keep, but recompute "
        "with all and latest.",
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        with about("pick" if self.pick else "dimensions"):
            self.declared()
        return self

    def declared(self) -> Declaration:
        """Return what is said about the keys that are read."""
        return declaration.from_json(_dumped(self, "require", "grace_ms", "on_retire"))


DeclaredPartitions = Annotated[InputPartitions, BeforeValidator(_written_out), _OrText()]


def _dumped(block: _Rule, *without: str) -> Json:
    return block.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=set(without))


__all__ = ["DeclaredPartitions", "DimensionRule", "InputPartitions", "Window"]
