"""Consumed and produced assets of steps, and sources."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from freshline.definitions import names
from freshline.definitions.schema.base import AsTuple, FieldError, Millis, Model, PositiveMillis
from freshline.definitions.schema.checks import Check, Column, Columns
from freshline.definitions.schema.input_partitions import DeclaredPartitions
from freshline.definitions.schema.partitioning import Partitioning
from freshline.definitions.schema.timing import AutoMaterialize, Freshness, InputFreshness
from freshline.definitions.schema.watch import AnyWatch

AssetId = Annotated[str, AfterValidator(names.asset_id)]
AllowedPrefix = Annotated[str, Field(min_length=1, max_length=4_096), AfterValidator(names.allowed_prefix)]


class Consumes(Model):
    """One asset that a step reads as a view, named after the asset or by `as`."""

    asset_id: AssetId = Field(description="The asset to read.")
    as_: Annotated[str, AfterValidator(names.view)] | None = Field(
        default=None, alias="as", description="The view's name; default: the asset id with _ for other characters."
    )
    auto_materialize: AutoMaterialize | None = Field(default=None, description="onUpstreamUpdate of this input alone.")
    freshness: InputFreshness | None = Field(default=None, description="The maximum age for a run to start.")
    rows: Literal["all", "new"] = Field(
        default="all", description="new: the view has only rows that were appended since the last run."
    )
    partitions: DeclaredPartitions | None = Field(
        default=None,
        description="Which partitions of the asset a partition of this workflow reads; default: those that share time, "
        "or those with equal keys.",
    )


class Table(Model):
    """How the asset's table is written."""

    mode: Literal["overwrite", "append", "merge"] = Field(default="overwrite", description="merge needs keys.")
    partition_by: Annotated[tuple[Column, ...], AsTuple] = Field(
        default=(), description="Columns that split the files."
    )
    keys: Annotated[tuple[Column, ...], AsTuple] = Field(default=(), description="The columns that identify a row.")
    on_replaced_input: Literal["replace", "append"] = Field(
        default="replace", description="With mode append: what a run does if an input changed other than by append."
    )
    on_code_change: Literal["rebuild", "keep", "ask"] | None = Field(
        default=None,
        description="With mode append or merge: what happens to rows of older code when the job changes. rebuild: the "
        "first run with the new code is a full refresh. keep: they stay. ask: they stay until somebody decides. "
        "Default: ask, with partitions rebuild.",
    )
    parquet: Annotated[int, Field(ge=1, le=2)] | None = Field(
        default=None,
        description="The version of the Parquet encodings; default 2, but 1 with decimals of more than 18 digits.",
    )
    keep_versions: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="The minimum number of versions kept; default FRESHLINE_KEEP_VERSIONS."
    )
    keep_ms: Millis | None = Field(
        default=None,
        description="How long a version is kept after it was replaced; default FRESHLINE_KEEP_TABLES_MS.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.mode == "merge" and not self.keys:
            raise FieldError("mode", "table mode 'merge' needs 'keys': the columns that identify a row")
        if self.mode != "merge" and self.keys:
            raise FieldError(
                "keys", f"'keys' have no effect in table mode {self.mode!r}; use mode 'merge' or remove them"
            )
        if self.mode != "append" and self.on_replaced_input != "replace":
            raise FieldError(
                "onReplacedInput", f"'onReplacedInput' has no effect in table mode {self.mode!r}; remove it"
            )
        if self.mode == "overwrite" and self.on_code_change is not None:
            raise FieldError(
                "onCodeChange",
                "'onCodeChange' has no effect in table mode 'overwrite': every run computes all rows; use mode "
                "'append' or 'merge', or remove it",
            )
        for field, columns in (("partitionBy", self.partition_by), ("keys", self.keys)):
            if len({column.lower() for column in columns}) < len(columns):
                raise FieldError(field, f"'{field}' names a column twice: {', '.join(columns)}")
        return self


class DataVersion(Model):
    """The origin of the data version."""

    source: Literal["fingerprint", "reported", "none"] = Field(
        default="fingerprint", description="none: always changed."
    )
    exclude: Annotated[tuple[Column, ...], AsTuple] = Field(default=(), description="Columns that are ignored.")
    digits: Annotated[int, Field(ge=0, le=15)] | None = Field(
        default=None, description="Floats are rounded to this number of digits."
    )

    @model_validator(mode="after")
    def _fingerprint_only(self) -> Self:
        field = "exclude" if self.exclude else "digits"
        if self.source != "fingerprint" and (self.exclude or self.digits is not None):
            raise FieldError(
                field, f"'{field}' has no effect with source {self.source!r}; use 'fingerprint' or remove it"
            )
        return self


class Produces(Model):
    """One asset that a step produces."""

    asset_id: AssetId = Field(description="The asset to produce.")
    freshness: Freshness | None = Field(default=None, description="How long it stays fresh.")
    auto_materialize: AutoMaterialize | None = Field(
        default=None, description="No block: updates and expiry are ignored."
    )
    schema_: dict[str, JsonValue] | None = Field(default=None, alias="schema", description="Stored and shown.")
    schema_change: Literal["evolve", "strict"] = Field(
        default="evolve", description="strict: other columns fail the run."
    )
    checks: Annotated[tuple[Check, ...], AsTuple, Field(max_length=1_000)] = Field(
        default=(), description="Checked before anything is published."
    )
    table: Table | None = Field(default=None, description="How the table is written.")
    data_version: DataVersion | None = Field(default=None, description="The origin of the data version.")
    optional: bool = Field(default=False, description="A run may leave the asset out.")
    partitioning: Partitioning | None = Field(
        default=None, description="The partitions of the asset. All outputs of a workflow have the same."
    )
    retain_ms: PositiveMillis | None = Field(
        default=None, description="Partitions whose window ended longer ago are removed; their history stays."
    )
    frozen_after_ms: PositiveMillis | None = Field(
        default=None, description="Partitions whose window ended longer ago are not run automatically."
    )


class Source(Model):
    """An asset from outside, with the location of its data if Freshline reads it."""

    asset_id: AssetId = Field(description="The asset.")
    mode: Literal["snapshot", "append"] = Field(
        default="snapshot",
        description="snapshot: each report replaces the data. append: each report adds a delivery, such as a file, and "
        "every consumer reads every delivery once.",
    )
    format: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,99}$")] | None = Field(
        default=None, description="The name of the format in Spark: csv, json, parquet, delta, orc, text."
    )
    path: Annotated[str, Field(min_length=1, max_length=4_096)] | None = Field(
        default=None,
        description="A path relative to the project's root, absolute, or a URL. {partitionKey} in it is the key of a "
        "partition, percent-encoded.",
    )
    partitioning: Partitioning | None = Field(default=None, description="The partitions of the source.")
    allow: Annotated[tuple[AllowedPrefix, ...], AsTuple, Field(max_length=100)] | None = Field(
        default=None,
        description="Where `payload.path` of a report may lead besides `path`: directories, files and URLs. "
        "Default: only `path`; without one the project's directory.",
    )
    watch: AnyWatch | None = Field(
        default=None, description="What Freshline looks at to notice new data; without it others report the source."
    )
    schema_: dict[str, JsonValue] | None = Field(default=None, alias="schema", description="Stored and shown.")
    options: dict[str, str] = Field(default={}, description="Options of the Spark reader, as in header: 'true'.")
    description: Annotated[str, Field(max_length=10_000)] | None = None

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.format is None) != (self.path is None):
            given, absent = ("format", "path") if self.path is None else ("path", "format")
            raise FieldError(given, f"'{given}' is given without '{absent}'; allowed are both, or none of them")
        if self.options and self.path is None:
            raise FieldError("options", "'options' have no effect without 'format' and 'path'; add them or remove it")
        return self

    @model_validator(mode="after")
    def _deliveries_have_paths(self) -> Self:
        """Reject a watch whose deliveries name no file where the source has files: each report of it would fail."""
        kind = self.watch.kind if self.watch else None
        if self.mode == "append" and self.path is not None and kind not in {None, "files", "python"}:
            raise FieldError(
                "path",
                f"'path' of a source with 'mode: append' needs deliveries that name a file, and those of "
                f"'watch: {{{kind}: ...}}' name none; remove 'format' and 'path': jobs find the payload in "
                f"ctx.inputs['{self.asset_id}'].deliveries",
            )
        return self


__all__ = ["AssetId", "Columns", "Consumes", "DataVersion", "Produces", "Source", "Table"]
