"""A workflow as users write it: the one model behind YAML, JSON and the Python decorators."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from freshline.definitions import names
from freshline.definitions.assets import AssetId, Consumes, DataVersion, Produces, Source, Table
from freshline.definitions.base import AsTuple, FieldError, Model, PositiveMillis
from freshline.definitions.checks import Accepted, Check, CheckKind, FreshRows, Range
from freshline.definitions.spark import Spark
from freshline.definitions.timing import AutoMaterialize, Backoff, Freshness, InputFreshness, QuietHours, Retry

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
    "QuietHours",
    "Range",
    "Retry",
    "Source",
    "Spark",
    "SparkPython",
    "SparkSql",
    "Step",
    "Table",
    "Workflow",
    "source_json",
    "workflow_json",
]

Sql = Annotated[str, Field(min_length=1, max_length=500_000)]
Entrypoint = Annotated[str, AfterValidator(names.entrypoint)]
Parameters = dict[str, JsonValue]


class SparkSql(Model):
    """One Spark SQL query for the step's one output, or `outputs` with a query per asset."""

    kind: Literal["spark.sql"]
    sql: Sql | None = Field(default=None, description="The query of the step's one output.")
    outputs: dict[AssetId, Sql] | None = Field(default=None, description="A query per produced asset.")
    parameters: Parameters = Field(default={}, description="Named parameters of the query, :name.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.sql is None) == (self.outputs is None):
            said = "none" if self.sql is None else "both"
            raise FieldError(
                "outputs" if self.outputs else "kind", f"a spark.sql job has 'sql' or 'outputs'; here: {said}"
            )
        return self

    def queries(self, step: Step) -> dict[str, str]:
        """The query of each produced asset."""
        if self.outputs is not None:
            return dict(self.outputs)
        return {produced.asset_id: self.sql or "" for produced in step.produces[:1]}


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
    """One job, what it consumes and what it produces."""

    id: Annotated[str, AfterValidator(names.step_id)] = Field(description="Unique in the workflow.")
    type: Literal["job"] = Field(default="job", description="The only type of step.")
    job: Job = Field(description="What runs.")
    consumes: Annotated[tuple[Consumes, ...], AsTuple, Field(max_length=1_000)] = Field(
        default=(), description="What it reads."
    )
    produces: Annotated[tuple[Produces, ...], AsTuple, Field(max_length=1_000)] = Field(
        default=(), description="What it makes."
    )
    depends_on: Annotated[tuple[str, ...], AsTuple] = Field(
        default=(), description="Steps of this workflow that come first."
    )
    retry: Retry | None = Field(default=None, description="Tries within a run; default 3.")
    timeout_ms: PositiveMillis | None = Field(default=None, description="A try that takes longer fails.")


class Workflow(Model):
    """A versioned definition: a slug and a graph of steps."""

    slug: Annotated[str, AfterValidator(names.slug)] = Field(description="Its name, unique over all projects.")
    description: Annotated[str, Field(max_length=10_000)] | None = Field(default=None, description="For people.")
    steps: Annotated[tuple[Step, ...], AsTuple, Field(min_length=1, max_length=1_000)] = Field(description="Its steps.")
    parameters: Parameters = Field(default={}, description="Defaults of the parameters of its runs.")
    pool: Annotated[str, AfterValidator(names.pool)] | None = Field(
        default=None, description="Its runs take a slot of this pool of freshline.toml."
    )
    max_concurrency: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None, description="How many of its runs may run at once, over all partitions."
    )
    backoff: Backoff | None = Field(default=None, description="After failed automatic runs.")
    quiet_hours: Annotated[tuple[QuietHours, ...], AsTuple, Field(max_length=100)] = Field(
        default=(), description="When no automatic run starts."
    )
    secrets: Annotated[tuple[Annotated[str, AfterValidator(names.secret)], ...], AsTuple, Field(max_length=100)] = (
        Field((), description="Names of environment variables of the worker; values are never stored or shown.")
    )
    publish_parameters: bool = Field(default=False, description="Whether events carry the parameters.")
    spark: Spark | None = Field(default=None, description="Settings of Spark, and whether a run needs one of its own.")


def workflow_json(workflow: Workflow) -> dict[str, Any]:
    """The definition as declared, camelCase, durations in milliseconds; `Workflow.model_validate` is the inverse."""
    return workflow.model_dump(mode="json", by_alias=True, exclude_unset=True)


def source_json(source: Source) -> dict[str, Any]:
    """The source as declared, camelCase."""
    return source.model_dump(mode="json", by_alias=True, exclude_unset=True)
