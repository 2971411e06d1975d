"""The model of a workflow, behind YAML, JSON and the Python decorators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, JsonValue, Tag, model_validator

from freshline.definitions import names
from freshline.definitions.schema.assets import AssetId, Consumes, DataVersion, Produces, Source, Table
from freshline.definitions.schema.base import AsTuple, FieldError, Model, PositiveMillis
from freshline.definitions.schema.checks import Accepted, Check, CheckKind, FreshRows, Range
from freshline.definitions.schema.spark import Spark
from freshline.definitions.schema.timing import AutoMaterialize, Backoff, Freshness, InputFreshness, QuietHours, Retry
from freshline.model.json import Json

__all__ = [
    "Accepted",
    "AutoMaterialize",
    "Backoff",
    "Check",
    "CheckKind",
    "Consumes",
    "DataVersion",
    "FreshRows",
    "Freshness",
    "InputFreshness",
    "Job",
    "Produces",
    "Python",
    "Query",
    "QuietHours",
    "Range",
    "Retry",
    "Source",
    "Spark",
    "SparkPython",
    "SparkSql",
    "SqlFile",
    "Step",
    "Table",
    "Workflow",
    "source_json",
    "workflow_json",
]

Sql = Annotated[str, Field(min_length=1, max_length=500_000)]
SqlPath = Annotated[str, Field(min_length=1, max_length=1_000)]
Entrypoint = Annotated[str, AfterValidator(names.entrypoint)]
Parameters = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Query:
    """A query, and its file relative to the root of the project, if it was read from a file."""

    text: str
    file: str | None = None


class SqlFile(Model):
    """A query in a separate file."""

    model_config = ConfigDict(json_schema_extra={"not": {"required": ["sql"]}})

    sql_file: SqlPath = Field(description="A path relative to the file of this definition.")
    sql: Sql | None = Field(default=None, description="The content of the file when the definition was applied.")


Output = Annotated[
    Annotated[Sql, Tag("a text")] | Annotated[SqlFile, Tag("a block")],
    Discriminator(lambda given: "a block" if isinstance(given, dict | SqlFile) else "a text"),
]


class SparkSql(Model):
    """One Spark SQL query for the only output of the step, or `outputs` with a query per asset."""

    # A stored definition has the content of the file in `sql`, next to `sqlFile`: a run executes what was applied, even
    # if the file has changed since. Users write one of them. The loader rejects both.
    model_config = ConfigDict(json_schema_extra={"not": {"required": ["sql", "sqlFile"]}})

    kind: Literal["spark.sql"]
    sql: Sql | None = Field(default=None, description="The query of the only output of the step.")
    sql_file: SqlPath | None = Field(
        default=None, description="The same in a file, relative to the file of this definition."
    )
    outputs: dict[AssetId, Output] | None = Field(default=None, description="A query per produced asset.")
    parameters: Parameters = Field(default={}, description="Named parameters of the query, :name.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        one = self.sql is not None or self.sql_file is not None
        if one == (self.outputs is not None):
            raise FieldError(
                "outputs" if self.outputs else "kind",
                f"a spark.sql job has one of 'sql', 'sqlFile' and 'outputs'; here: {'two' if one else 'none'}",
            )
        return self

    def queries(self, step: Step) -> dict[str, Query]:
        """Return the query of each produced asset."""
        if self.outputs is not None:
            return {asset_id: _query(given) for asset_id, given in self.outputs.items()}
        return {produced.asset_id: Query(self.sql or "", self.sql_file) for produced in step.produces[:1]}


def _query(given: str | SqlFile) -> Query:
    return Query(given) if isinstance(given, str) else Query(given.sql or "", given.sql_file)


class SparkPython(Model):
    """A Python function that gets Spark DataFrames."""

    kind: Literal["spark.python"]
    entrypoint: Entrypoint = Field(description="package.module:function, from the project's root.")
    parameters: Parameters = Field(default={}, description="Seen as ctx.parameters, beside the workflow's.")


class Python(Model):
    """A Python function that needs no Spark."""

    kind: Literal["python"]
    entrypoint: Entrypoint = Field(description="package.module:function, from the project's root.")
    parameters: Parameters = Field(default={}, description="Seen as ctx.parameters, beside the workflow's.")


Job = Annotated[SparkSql | SparkPython | Python, Field(discriminator="kind")]


class Step(Model):
    """One job with its inputs and outputs."""

    id: Annotated[str, AfterValidator(names.step_id)] = Field(description="Unique in the workflow.")
    type: Literal["job"] = Field(default="job", description="The only type of step.")
    job: Job = Field(description="The job to run.")
    consumes: Annotated[tuple[Consumes, ...], AsTuple, Field(max_length=1_000)] = Field(
        default=(), description="The assets that the step reads."
    )
    produces: Annotated[tuple[Produces, ...], AsTuple, Field(max_length=1_000)] = Field(
        default=(), description="The assets that the step produces."
    )
    depends_on: Annotated[tuple[str, ...], AsTuple] = Field(
        default=(), description="Steps of this workflow that come first."
    )
    retry: Retry | None = Field(default=None, description="Tries within a run; default 3.")
    timeout_ms: PositiveMillis | None = Field(default=None, description="A try that takes longer fails.")
    batch: bool = Field(default=False, description="One run may compute several partitions of the output together.")


class Workflow(Model):
    """A versioned definition: a slug and a graph of steps."""

    slug: Annotated[str, AfterValidator(names.slug)] = Field(description="The name, unique over all projects.")
    description: Annotated[str, Field(max_length=10_000)] | None = Field(default=None, description="For people.")
    steps: Annotated[tuple[Step, ...], AsTuple, Field(min_length=1, max_length=1_000)] = Field(description="The steps.")
    parameters: Parameters = Field(default={}, description="Defaults of the parameters of runs.")
    pool: Annotated[str, AfterValidator(names.pool)] | None = Field(
        default=None, description="Runs take a slot of this pool in freshline.toml."
    )
    max_concurrency: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None, description="The maximum number of concurrent runs, over all partitions."
    )
    backoff: Backoff | None = Field(default=None, description="Delays after failed automatic runs.")
    quiet_hours: Annotated[tuple[QuietHours, ...], AsTuple, Field(max_length=100)] = Field(
        default=(), description="Windows in which no automatic run starts."
    )
    secrets: Annotated[tuple[Annotated[str, AfterValidator(names.secret)], ...], AsTuple, Field(max_length=100)] = (
        Field((), description="Names of environment variables of the worker; values are never stored or shown.")
    )
    publish_parameters: bool = Field(default=False, description="Whether events carry the parameters.")
    spark: Spark | None = Field(default=None, description="Spark settings, and whether runs need a separate Spark.")


def workflow_json(workflow: Workflow) -> Json:
    """Return the declared fields in camelCase, durations in milliseconds. `Workflow.model_validate` reads them."""
    return workflow.model_dump(mode="json", by_alias=True, exclude_unset=True)


def source_json(source: Source) -> Json:
    """Return the declared fields in camelCase."""
    return source.model_dump(mode="json", by_alias=True, exclude_unset=True)
