"""Checks of the data that a step wrote. They run before the data is published."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from freshline.definitions.schema.base import AsTuple, FieldError, Model, PositiveMillis

Column = Annotated[str, Field(min_length=1, max_length=200)]
Columns = Annotated[tuple[Column, ...], AsTuple, Field(min_length=1)]
Scalar = bool | int | float | str
Bound = int | float | str
VIEW = "output"  # the view of the new data in SQL checks
Rows = Annotated[int, Field(ge=0)]
CheckKind = Literal["notNull", "unique", "minRows", "maxRows", "accepted", "range", "sql", "freshRows"]


class Accepted(Model):
    """All values of a column are among these; nulls pass."""

    column: Column
    values: Annotated[tuple[Scalar, ...], AsTuple, Field(min_length=1)]


class Range(Model):
    """All values of a column lie between `min` and `max`, both included; nulls pass."""

    column: Column
    min: Bound | None = None
    max: Bound | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.min is None and self.max is None:
            raise FieldError("column", "a range needs 'min' or 'max' or both")
        if self.min is not None and self.max is not None:
            _ordered(self.min, self.max)
        return self


class FreshRows(Model):
    """The newest value of a timestamp or date column is at most this old."""

    column: Column
    max_age_ms: PositiveMillis


class Check(Model):
    """One check of exactly one kind, and the severity of a violation.

    `sql` is a query (it starts with SELECT or WITH) that must return no row and reads the new data as the view
    `output`; or an expression over the new data: with an aggregate function it must be true, without one it must be
    true in every row. Null counts as true, as in a CHECK constraint.
    """

    not_null: Columns | None = Field(default=None, description="No nulls in these columns.")
    unique: Columns | None = Field(default=None, description="No two rows have equal values in all these columns.")
    min_rows: Rows | None = Field(default=None, description="The minimum number of rows.")
    max_rows: Rows | None = Field(default=None, description="The maximum number of rows.")
    accepted: Accepted | None = Field(default=None, description="Only these values in a column.")
    range: Range | None = Field(default=None, description="Only values between min and max in a column.")
    sql: Annotated[str, Field(min_length=1, max_length=100_000)] | None = Field(
        default=None,
        description="An expression that must hold, or a query on the view `output` that must return no row.",
    )
    fresh_rows: FreshRows | None = Field(default=None, description="The newest row is at most this old.")
    severity: Literal["error", "warn"] = Field(
        default="error", description="error: nothing is published; warn: the violation is recorded."
    )
    name: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="Shown in results."
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        kinds = self._given()
        if len(kinds) != 1:
            given = ", ".join(kinds) or "none"
            raise FieldError(
                kinds[-1] if kinds else "name", f"a check has exactly one of {', '.join(_KINDS)}; here: {given}"
            )
        return self

    @property
    def kind(self) -> CheckKind:
        """The kind of the check."""
        return self._given()[0]

    @property
    def label(self) -> str:
        """The name, or the kind and the columns."""
        columns = ", ".join(self.not_null or self.unique or ())
        return self.name or (f"{self.kind}({columns})" if columns else self.kind)

    @property
    def is_query(self) -> bool:
        """Whether `sql` is a query that must return no row, rather than an expression."""
        words = (self.sql or "").split(maxsplit=1)
        return bool(words) and words[0].lower() in {"select", "with"}

    def _given(self) -> list[CheckKind]:
        return [kind for kind, name in _KINDS.items() if getattr(self, name) is not None]


_KINDS: dict[CheckKind, str] = {
    "notNull": "not_null",
    "unique": "unique",
    "minRows": "min_rows",
    "maxRows": "max_rows",
    "accepted": "accepted",
    "range": "range",
    "sql": "sql",
    "freshRows": "fresh_rows",
}


def _ordered(low: Bound, high: Bound) -> None:
    if isinstance(low, str) != isinstance(high, str):
        raise FieldError("min", f"'min' is {low!r} and 'max' is {high!r}; allowed are two numbers or two texts")
    if low > high:  # type: ignore[operator]  # both are numbers or both are texts
        raise FieldError("min", f"'min' is {low!r}; allowed is {high!r} (max) or less")
