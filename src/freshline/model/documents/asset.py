"""Assets with their declarations and snapshots, and the graph of assets."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict, final

from freshline.model.documents.run import Check
from freshline.model.documents.status import AssetStatus
from freshline.model.json import Json


class Column(TypedDict):
    """A column of a table. `type` is the name of a type of Spark, or the JSON form of a nested one."""

    name: str
    type: Any


class Schema(TypedDict):
    """The columns of a table, in the JSON form of Spark."""

    type: str
    fields: list[Column]


class Skipped(TypedDict):
    """Who left a delivery out, when and why."""

    by: str | None
    at: str
    reason: str


class Delivery(TypedDict):
    """One report of a source with `mode: append`.

    `version` is that of the asset that includes it, `reportSequence` the number that the reporter gave it.
    """

    number: int
    path: str | None
    dataVersion: str | None
    payload: Any
    version: int
    reportSequence: NotRequired[int | None]
    key: str | None
    reportedAt: str
    eventId: str
    skipped: NotRequired[Skipped]


class StoredDelivery(TypedDict):
    """A delivery as it is stored. `version` is the data version that was reported, if any.

    `sequence` is the version of the asset that includes it, `reportSequence` the number that the reporter gave it.
    """

    number: int
    path: str | None
    version: str | None
    payload: Any
    sequence: int
    reportSequence: NotRequired[int | None]
    key: str | None
    reportedAt: str
    eventId: str
    skipped: NotRequired[Skipped]


class Location(TypedDict):
    """Where the data of a snapshot is: `paths` in the warehouse, or the `path` of a source."""

    format: str
    paths: NotRequired[list[str]]
    path: NotRequired[str]
    files: NotRequired[dict[str, int]]
    fingerprint: NotRequired[Json]
    parquet: NotRequired[str | None]
    partitionBy: NotRequired[list[str]]


class CodePart(TypedDict):
    """The rows of one job.

    `workflowVersion`: the first version of the workflow with it, 0 of jobs that are one entry by now. `rows`: at most
    so many of a merged table; None if they were not counted. `forWorkflow` and `forVersion`: the job for which they
    were accepted as they are.
    """

    workflow: int
    workflowVersion: int
    rows: int | None
    parts: int
    forWorkflow: NotRequired[int]
    forVersion: NotRequired[int]


class Snapshot(TypedDict):
    """One materialization of an asset. `parts`: directories of a table that is appended to, with their versions.

    `code`: which code made the rows; None if nobody knows.
    """

    assetId: str
    partitionKey: str
    version: int
    dataVersion: str
    changed: bool
    tableVersion: int | None
    location: Location | None
    schema: Schema | None
    rows: int | None
    bytes: int | None
    checks: list[Check] | None
    workflowSlug: str | None
    runId: str | None
    attempt: int | None
    stepId: str | None
    producedAt: str
    expiresAt: str | None
    inputs: Json
    sources: Json
    payload: Any
    goneAt: str | None
    difference: dict[str, list[str]] | None
    code: list[CodePart] | None
    parts: list[tuple[int, str]] | None
    head: bool


class DeclaredPolicy(TypedDict):
    """The freshness policy and the `autoMaterialize` block of an asset, as declared."""

    freshness: Json | None
    autoMaterialize: Json | None


class AssetDeclaration(DeclaredPolicy):
    """The declaration of an asset, and the workflows that consume it."""

    declaration: Json
    consumedBy: list[str]


class Asset(AssetStatus, AssetDeclaration):
    """An asset with its status and its declaration."""


# Final, so that mypy tells it from `FoundWorkflow` by its keys.
@final
class FoundAsset(TypedDict):
    """An asset that a user named. `workflowSlug` is None for a source."""

    assetId: str
    workflowSlug: str | None


class ResolvedAsset(TypedDict):
    """An asset with the slug and the id of its producer; None for a source."""

    assetId: str
    workflowSlug: str | None
    stepId: str | None
    workflowId: int | None
    declaration: Json
    partitioning: Json | None


class Name(TypedDict):
    """The name of an asset or a workflow."""

    kind: Literal["asset", "workflow"]
    name: str


class FoundWorkflow(TypedDict):
    """A workflow that a user named."""

    slug: str


class StoredAsset(DeclaredPolicy):
    """An asset with its producer. `workflowSlug` is None for a source."""

    assetId: str
    workflowSlug: str | None
    stepId: str | None


class GraphAsset(StoredAsset):
    """An asset of the graph. `consumes`: the assets that its workflow reads."""

    source: bool
    consumes: list[str]
    consumedBy: list[str]


class ConsumedAsset(TypedDict):
    """An asset that a workflow reads. `triggers`: whether a change of it may start a run."""

    assetId: str
    triggers: bool


class Consumption(ConsumedAsset):
    """An asset and a workflow that reads it."""

    workflowSlug: str


class GraphWorkflow(TypedDict):
    """A workflow of the graph."""

    slug: str
    consumes: list[ConsumedAsset]
    produces: list[str]


GraphEdge = TypedDict("GraphEdge", {"from": str, "to": str, "workflowSlug": str, "triggers": bool})


class Graph(TypedDict):
    """Assets and the workflows between them. An edge leads from a consumed asset to a produced one."""

    assets: list[GraphAsset]
    workflows: list[GraphWorkflow]
    edges: list[GraphEdge]


class RowColumn(TypedDict):
    """A column of a preview, with its type in DuckDB."""

    name: str
    type: str


class Rows(TypedDict):
    """The first rows of a version of a table, as texts. `truncated`: there are more rows; `cut`: more of these rows."""

    assetId: str
    partitionKey: str
    version: int
    tableVersion: int | None
    columns: list[RowColumn]
    rows: list[list[str | None]]
    truncated: bool
    cut: bool
