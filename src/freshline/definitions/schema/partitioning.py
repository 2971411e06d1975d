"""The `partitioning` block of produced assets and of sources: which partitions they have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, field_serializer, model_validator

from freshline import partitions
from freshline.definitions.schema.base import AsTuple, FieldError, Model
from freshline.definitions.schema.checks import Column
from freshline.definitions.schema.timing import Timezone
from freshline.errors import FreshlineError, PartitioningError, PartitionKeyError
from freshline.model.json import Json
from freshline.partitions.calendar import UTC_NAME
from freshline.partitions.dimensions import Dimension as CompiledDimension
from freshline.partitions.dimensions import Dimensions as CompiledDimensions
from freshline.partitions.key_partitionings import MOST_DYNAMIC_KEYS, MOST_FIXED_KEYS, DynamicKeys, FixedKeys
from freshline.partitions.time_partitioning import TimePartitioning

_KINDS = ("time", "keys", "dynamic", "dimensions")
_OF_TIME = ("start", "end", "timezone", "open")
GrainName = Literal["minute", "hour", "day", "week", "month", "year"]


def sentence(error: FreshlineError) -> str:
    """Return an error of the package `partitions` as one sentence."""
    return f"{error.message}; {error.hint}" if error.hint else error.message


@contextmanager
def about(field: str) -> Iterator[None]:
    """Attribute errors of the package `partitions` to a field, so that users see its line."""
    try:
        yield
    except (PartitioningError, PartitionKeyError) as error:
        raise FieldError(field, sentence(error)) from None


def _text(value: Any) -> Any:
    """Return a date of Python as YAML writes it, and a year as text."""
    if isinstance(value, date):  # also a time
        return value.isoformat()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class _Moment:
    """Says in the JSON Schema that a year may be a number."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Json:
        return {"anyOf": [handler(schema), {"type": "integer"}]}


Moment = Annotated[str, Field(min_length=1, max_length=100), BeforeValidator(_text), _Moment()]


class Dynamic(Model):
    """Keys that appear when they are reported or added, or when an input that is mapped `same` has them."""

    limit: Annotated[int, Field(ge=1, le=MOST_DYNAMIC_KEYS)] = Field(
        default=100_000, description="The maximum number of keys; a report of another key is an error."
    )


class Dimension(Model):
    """Partitions by `time`, by `keys`, or by `dynamic` keys."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["time"]}, {"required": ["keys"]}, {"required": ["dynamic"]}]}
    )

    time: GrainName | None = Field(default=None, description="One partition per minute, hour, day, ISO week, …")
    start: Moment | None = Field(
        default=None, description="With time, required: the first partition begins at this date or later."
    )
    end: Moment | None = Field(
        default=None, description="With time: the last partition ends at this date or earlier; default: no end."
    )
    timezone: Timezone | None = Field(
        default=None, description="With time day and longer: where days begin; default UTC."
    )
    open: bool = Field(
        default=False, description="With time: whether the running window may be produced before it ends."
    )
    keys: Annotated[tuple[str, ...], AsTuple, Field(min_length=1, max_length=MOST_FIXED_KEYS)] | None = Field(
        default=None, description="A fixed list of partitions."
    )
    dynamic: Dynamic | None = Field(default=None, description="Partitions that appear by themselves.")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        kinds = self._kinds()
        given = [kind for kind in kinds if getattr(self, kind) is not None]
        if not given:
            raise ValueError(f"a partitioning has one of {', '.join(kinds)}; here: none")
        if len(given) > 1:
            raise FieldError(given[1], f"a partitioning has one of {', '.join(kinds)}; here: {' and '.join(given)}")
        for field in _OF_TIME:
            if given[0] != "time" and field in self.model_fields_set:
                raise FieldError(field, f"'{field}' has no effect with '{given[0]}'; write 'time' or remove it")
        self.compiled()
        return self

    @classmethod
    def _kinds(cls) -> tuple[str, ...]:
        return tuple(kind for kind in _KINDS if kind in cls.model_fields)

    def compiled(self) -> partitions.Partitioning:
        """Return the partitioning. Raise `FieldError` with the field that is wrong."""
        return self._compiled_dimension()

    def _compiled_dimension(self) -> CompiledDimension:
        if self.time is not None:
            return self._by_time(partitions.Grain(self.time))
        if self.keys is not None:
            with about("keys"):
                return FixedKeys(self.keys)
        with about("dynamic"):
            return DynamicKeys(self.dynamic.limit) if self.dynamic else DynamicKeys()

    def _by_time(self, grain: partitions.Grain) -> TimePartitioning:
        timezone = self.timezone or UTC_NAME
        if self.start is None:
            raise FieldError(
                "time", f"partitions by {grain} need 'start', the date of the first one, such as start: 2024-01-01"
            )
        with about("timezone"):
            partitions.Calendar(grain, timezone)
        with about("start"):
            found = TimePartitioning(grain, self.start, timezone=timezone, open=self.open)
        if self.end is None:
            return found
        with about("end"):
            return TimePartitioning(grain, self.start, self.end, timezone, self.open)


class NamedDimension(Dimension):
    """A dimension in a list, as definitions are stored: the order of an object in JSON is not kept everywhere."""

    name: Annotated[str, Field(min_length=1, max_length=100)] = Field(description="Its name and column.")


_Dimensions = Annotated[
    Annotated[dict[str, Dimension], Tag("a block")]
    | Annotated[tuple[NamedDimension, ...], AsTuple, Field(max_length=10), Tag("a list")],
    Discriminator(lambda given: "a list" if isinstance(given, list | tuple) else "a block"),
]


class Partitioning(Dimension):
    """The partitions of an asset: by `time`, by `keys`, by `dynamic` keys, or by two or three `dimensions`."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [kind]} for kind in _KINDS]})

    dimensions: _Dimensions | None = Field(
        default=None,
        description="Two or three dimensions by name, as in {day: {time: day, start: 2024-01-01}, region: {keys: "
        "[eu, us]}}. Their names are columns of the table.",
    )
    column: Column | None = Field(
        default=None,
        description="The column of the table that has the partition; default: day, hour, … or partition_key.",
    )

    @model_validator(mode="after")
    def _one_column(self) -> Self:
        if self.column is not None and self.dimensions is not None:
            raise FieldError("column", "'column' has no effect with 'dimensions': their names are the columns")
        return self

    @field_serializer("dimensions")
    def _in_order(self, _: Any) -> list[Json] | None:
        if self.dimensions is None:
            return None
        return [
            {"name": name, **one.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"name"})}
            for name, one in self._named()
        ]

    def compiled(self) -> partitions.Partitioning:
        """Return the partitioning. Raise `FieldError` with the field that is wrong."""
        if self.dimensions is None:
            return self._compiled_dimension()
        with about("dimensions"):
            return CompiledDimensions(tuple((name, one._compiled_dimension()) for name, one in self._named()))  # noqa: SLF001

    def columns(self) -> tuple[partitions.Column, ...]:
        """Return the columns of the table that have the partition, with their types in Spark."""
        found = self.compiled().columns
        return found if self.column is None else (found[0]._replace(name=self.column),)

    def _named(self) -> list[tuple[str, Dimension]]:
        if isinstance(self.dimensions, dict):
            return list(self.dimensions.items())
        return [(one.name, one) for one in self.dimensions or ()]
