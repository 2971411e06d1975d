"""Models of assets, snapshots and reports."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, JsonValue

from freshline.api.models.base import PartitionKey, PartitionState, RequestBody, ResponseBody, State
from freshline.api.models.run import LastRun
from freshline.model.json import Json


class ReportRequest(RequestBody):
    """A report that a source asset changed."""

    data_version: str | None = Field(
        default=None, min_length=1, max_length=1000, description="The new data version. None: every report is a change."
    )
    key: str | None = Field(
        default=None, min_length=1, max_length=200, description="Same as the header Idempotency-Key."
    )
    sequence: int | None = Field(
        default=None,
        ge=0,
        lt=2**63,
        description="Out-of-order reports, with a lower sequence, are stored but do not become current.",
    )
    payload: JsonValue = Field(default=None, description="Metadata; `path` is the location of this version's data.")
    partition_key: PartitionKey = ""


class MemberRequest(ReportRequest):
    """A report of one of several sources."""

    asset_id: str = Field(min_length=1, max_length=200, description="The source.")


class ReportsRequest(RequestBody):
    """Reports of several sources that are one generation."""

    reports: list[MemberRequest] = Field(description="2 to 100, one per source or partition.")


class ExpireRequest(RequestBody):
    """What expires."""

    partition_key: PartitionKey = ""


class NamedThing(ResponseBody):
    """The name of an asset or a workflow."""

    kind: str
    name: str


class Hold(ResponseBody):
    """The reason why no automatic run starts now."""

    reason: str
    until: datetime | None
    blocker: str | None


class PartitionSummary(ResponseBody):
    """How many partitions of an asset exist, and how many are in which state."""

    total: int
    counts: dict[str, int]


class PartitionRange(ResponseBody):
    """Partitions in a row with equal states."""

    state: PartitionState
    from_: Annotated[str, Field(alias="from")]
    to: str
    count: int


class AssetPartitions(PartitionSummary):
    """A page of the states of an asset's partitions, newest first."""

    asset_id: str
    at: datetime
    partitioning: Json | None
    newest: str | None
    items: list[PartitionRange]
    next: str | None


class OlderCode(ResponseBody):
    """Rows of the current version that older code made, and about which nobody has decided."""

    rows: int | None
    exact: bool
    versions: list[int]
    partitions: list[str]
    partitions_total: int
    rebuild_ms: int | None


class Accepted(ResponseBody):
    """Rows of older code that were accepted as they are."""

    asset_id: str
    rows: int | None
    partitions: int


class AssetState(ResponseBody):
    """The state of an asset."""

    asset_id: str
    project: str | None
    partition_key: str
    workflow_slug: str | None
    state: State
    upstream_failing: bool
    needs_decision: OlderCode | None
    produced_at: datetime | None
    expires_at: datetime | None
    expired: bool
    data_version: str | None
    version: int | None
    table_version: int | None
    rows: int | None
    bytes: int | None
    mixed: bool
    mixed_upstream: bool
    run_id: str | None
    last_auto_run: LastRun | None
    next_refresh_at: datetime | None
    hold: Hold | None
    partitions: PartitionSummary | None


class Asset(AssetState):
    """An asset with its state and its declaration."""

    freshness: Json | None
    auto_materialize: Json | None
    declaration: Json
    consumed_by: list[str]


class CodePart(ResponseBody):
    """The rows of one job."""

    workflow: int
    workflow_version: int
    rows: int | None
    parts: int
    for_workflow: int | None = None
    for_version: int | None = None


class Snapshot(ResponseBody):
    """One materialization of an asset."""

    asset_id: str
    partition_key: str
    version: int
    data_version: str
    changed: bool
    table_version: int | None
    location: Json | None
    schema_: Annotated[Any, Field(alias="schema")]
    rows: int | None
    bytes: int | None
    checks: Any
    workflow_slug: str | None
    run_id: str | None
    attempt: int | None
    step_id: str | None
    produced_at: datetime
    expires_at: datetime | None
    inputs: Json
    sources: Json
    payload: Any
    gone_at: datetime | None
    difference: Any
    code: list[CodePart] | None
    parts: Any
    head: bool


class RowColumn(ResponseBody):
    """A column of a preview."""

    name: str
    type: str


class Rows(ResponseBody):
    """The first rows of a version of a table."""

    asset_id: str
    partition_key: str
    version: int
    table_version: int | None
    columns: list[RowColumn]
    rows: list[list[str | None]]
    truncated: bool
    cut: bool


class Graph(ResponseBody):
    """Producers and consumers of assets."""

    assets: list[Json]
    workflows: list[Json]
    edges: list[Json]


class Plan(ResponseBody):
    """The runs that a change of the asset would cause now."""

    asset_id: str
    assumes: list[str]
    active: list[str]
    runs: list[Json]
    held: list[Json]
    cut: list[Json]


class Reported(ResponseBody):
    """The result of a report."""

    asset_id: str
    partition_key: str
    version: int
    data_version: str
    changed: bool
    duplicate: bool
    moved_head: bool
    delivery: int | None
    event_id: str
    warnings: list[str]


class ReportedTogether(ResponseBody):
    """The results of reports that are one generation."""

    group_id: str | None
    duplicate: bool
    reports: list[Reported]


class SkipRequest(RequestBody):
    """Why a delivery is left out."""

    reason: str = Field(min_length=1, max_length=1000, description="Stored with the delivery, and shown.")


class Skipped(ResponseBody):
    """Who left a delivery out, when and why."""

    by: str | None
    at: str
    reason: str


class Delivery(ResponseBody):
    """One report of a source with `mode: append`."""

    number: int
    path: str | None
    data_version: str | None
    payload: Any
    version: int
    report_sequence: int | None = None
    key: str | None
    reported_at: str
    event_id: str
    skipped: Skipped | None = None


class WatchConflict(ResponseBody):
    """Something that a watcher does not deliver."""

    subject: str
    message: str


class FailingConsumer(ResponseBody):
    """A workflow that reads a source and whose last run failed."""

    workflow_slug: str
    run_id: str
    error: str


class Watch(ResponseBody):
    """What is looked at for a source, and what the last look saw."""

    asset_id: str
    kind: str
    mode: str
    watch: Json
    looking: bool
    looked_at: datetime | None
    next_at: datetime
    summary: str | None
    reported: int
    reported_at: datetime | None
    reported_partitions: list[str]
    conflicts: list[WatchConflict]
    failures: int
    failing_since: datetime | None
    look_error: str | None
    breaker_opened_at: datetime | None
    failing_consumers: list[FailingConsumer]


class Expired(ResponseBody):
    """An expired asset."""

    asset_id: str
    partition_key: str
    expires_at: datetime | None
