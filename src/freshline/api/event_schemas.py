"""Models of event data: the source of docs/events.md and of the JSON Schema of events. Tests validate events."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.alias_generators import to_camel

from freshline.model.enums import EventType
from freshline.model.json import Json

SCHEMA_ID = "urn:freshline:events:1"


class EventData(BaseModel):
    """The data of an event."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)


class AboutAsset(EventData):
    """Data about an asset as it was last produced."""

    asset_id: str = Field(description="the asset; also the event's `subject`")
    partition_key: str = Field(description="empty for an asset without partitions")
    workflow_slug: str | None = Field(description="the workflow that produces it; null for a source")
    workflow_id: int | None = Field(description="the number of that workflow")
    run_id: str | None = Field(description="the run that produced it; null for a report or a rollback")
    step_id: str | None = Field(description="the step of that run")
    produced_at: datetime | None = Field(description="time of production; null if it was never produced")
    freshness: Json | None = Field(description="the freshness policy, as declared or as returned by the job")
    data_version: str | None = Field(description="changes if and only if the content does")
    changed: bool = Field(description="whether the content differs from the previous version")
    rows: int | None = Field(description="number of rows, if known")
    bytes: int | None = Field(description="size of its files, if known")
    payload: Any = Field(description="metadata from the reporter or the job")
    checks: list[Json] = Field(
        default=[], description="results of data checks: `check`, `severity`, `passed`, `observed`"
    )
    parameters: Json = Field(default={}, description="parameters of the run, with `publishParameters: true`")


class AssetProduced(AboutAsset):
    """An asset has a new snapshot: a run published it, it was reported, or the asset was rolled back."""

    rolled_back_to: int = Field(default=0, description="the version whose rows are current again, after a rollback")
    group: Json = Field(
        default={},
        description="of a report with others: the `id` of the group, and its `members`, as `asset` or `asset@key`",
    )


class AssetExpired(AboutAsset):
    """An asset expired."""

    expires_at: datetime = Field(description="time of expiry")
    reason: Literal["ttl", "cadence", "cron", "manual"] = Field(description="cause of the expiry")


class AssetOverdue(AboutAsset):
    """An asset is older than its `maxAgeMs`; emitted once until it recovers."""

    expires_at: datetime = Field(description="time at which it became too old")
    reason: Literal["max-age"] = Field(description="always `max-age`")


class AssetRecovered(AboutAsset):
    """An overdue asset was produced."""


class PartitionRetired(EventData):
    """Retention removed the data of a partition. Its history stays."""

    asset_id: str = Field(description="the asset; also the event's `subject`")
    partition_key: str = Field(description="the partition")
    workflow_slug: str | None = Field(description="the workflow that produces it")
    data_version: str = Field(description="its last data version, which counts as consumed")
    retired_at: datetime = Field(description="time of the removal")
    retain_ms: int = Field(description="how long after its window a partition is kept")


class CodeAccepted(EventData):
    """Somebody accepted the rows that older code made in a table that is appended to or merged."""

    asset_id: str = Field(description="the asset; also the event's `subject`")
    workflow_slug: str | None = Field(description="the workflow that produces it")
    workflow_id: int | None = Field(description="the number of that workflow")
    rows: int | None = Field(description="how many rows; of a merged table at most so many")
    partitions: int = Field(description="in how many partitions; 0 of an asset without partitions")


class DefinitionUpdated(EventData):
    """A definition was applied."""

    workflow_slug: str = Field(description="the workflow; also the event's `subject`")
    project: str = Field(description="the project of the definition")
    change: Literal["added", "changed", "retired"] = Field(description="kind of change")


class AboutRun(EventData):
    """Data about a run of a workflow."""

    workflow_slug: str = Field(description="the workflow; also the event's `subject`")
    workflow_id: int = Field(description="the number of that workflow")
    run_id: str = Field(description="the run")
    partition_key: str = Field(description="empty for a workflow without partitions")
    trigger: Json = Field(
        description="cause of the run: `type`, and for automatic runs `reason`, `upstream`, `decisionId`"
    )


class RunQueued(AboutRun):
    """A run was queued."""


class RunStarted(AboutRun):
    """A worker claimed a run. Emitted again, with the next attempt, after the worker was lost."""

    attempt: int = Field(description="number of the attempt, starting at 1")


class RunSucceeded(AboutRun):
    """All outputs of a run are published."""

    attempt: int = Field(description="the attempt that published")
    result: Json = Field(description="`assets`, the `unchanged` ones among them, and `metrics`")


class RunFailed(AboutRun):
    """A run failed; it published nothing."""

    attempt: int = Field(description="the attempt that failed")
    error: Json = Field(description="`code`, `message` and further details")


class RunCanceled(AboutRun):
    """A run was canceled."""

    attempt: int = Field(default=0, description="the attempt that was canceled; absent if no worker had claimed it")
    reason: str = Field(description="text from a user, or `paused`, `superseded`, `definition-changed`")


class AboutBreaker(EventData):
    """Data about the breaker of a workflow."""

    workflow_slug: str = Field(description="the workflow; also the event's `subject`")
    workflow_id: int = Field(description="the number of that workflow")
    partition_key: str = Field(description="empty for a workflow without partitions")


class BreakerOpened(AboutBreaker):
    """A workflow failed too often; only probes run."""


class BreakerClosed(AboutBreaker):
    """The breaker of a workflow closed; automatic runs continue."""

    by: Literal["reset", "definition"] = Field(default="reset", description="what closed it; absent after a success")


class BackfillProgress(EventData):
    """How many partitions of a backfill are in which state."""

    total: int = Field(description="all partitions")
    done: int = Field(description="done")
    failed: int = Field(description="failed too often")
    refused: int = Field(
        description="refused: their workflow is gone, their run was canceled, or retention removed their inputs"
    )
    running: int = Field(description="running")
    queued: int = Field(description="queued")
    waiting: int = Field(description="held, or about to be evaluated")
    rest: int = Field(description="their turn has not come")


class AboutBackfill(EventData):
    """Data about a backfill."""

    backfill_id: str = Field(description="the backfill")
    asset_id: str = Field(description="the asset that it was requested for; also the event's `subject`")
    progress: BackfillProgress = Field(description="how many of its partitions are in which state")


class BackfillProposed(AboutBackfill):
    """More old partitions are stale than may run by themselves, or a proposal grew: it waits for an approval."""

    revision: int = Field(description="the revision to approve or deny")
    reasons: list[Json] = Field(description="what made the partitions stale, per workflow")


class BackfillStarted(AboutBackfill):
    """A backfill was requested, or a proposal approved."""


class BackfillProgressed(AboutBackfill):
    """Another tenth of the partitions of a backfill is done."""


class BackfillFinished(AboutBackfill):
    """Each partition of a backfill is done, failed too often, or was refused."""


class BackfillCanceled(AboutBackfill):
    """A user canceled a backfill, or nothing is left of a proposal."""


EVENT_DATA: dict[EventType, type[EventData]] = {
    EventType.ASSET_PRODUCED: AssetProduced,
    EventType.ASSET_EXPIRED: AssetExpired,
    EventType.ASSET_OVERDUE: AssetOverdue,
    EventType.ASSET_RECOVERED: AssetRecovered,
    EventType.PARTITION_RETIRED: PartitionRetired,
    EventType.CODE_ACCEPTED: CodeAccepted,
    EventType.DEFINITION_UPDATED: DefinitionUpdated,
    EventType.RUN_QUEUED: RunQueued,
    EventType.RUN_STARTED: RunStarted,
    EventType.RUN_SUCCEEDED: RunSucceeded,
    EventType.RUN_FAILED: RunFailed,
    EventType.RUN_CANCELED: RunCanceled,
    EventType.BREAKER_OPENED: BreakerOpened,
    EventType.BREAKER_CLOSED: BreakerClosed,
    EventType.BACKFILL_PROPOSED: BackfillProposed,
    EventType.BACKFILL_STARTED: BackfillStarted,
    EventType.BACKFILL_PROGRESSED: BackfillProgressed,
    EventType.BACKFILL_FINISHED: BackfillFinished,
    EventType.BACKFILL_CANCELED: BackfillCanceled,
}


class Attributes(BaseModel):
    """The context attributes of CloudEvents 1.0, and our extension attribute `position`."""

    model_config = ConfigDict(extra="forbid")

    specversion: Literal["1.0"]
    id: str = Field(min_length=1)
    source: str = Field(min_length=1, json_schema_extra={"format": "uri-reference"})
    subject: str = Field(min_length=1)
    time: datetime
    datacontenttype: Literal["application/json"]
    position: int | None


def schema() -> Json:
    """Return the JSON Schema of all events: one of the types, each with its data."""
    models = [_event(type_, fact) for type_, fact in EVENT_DATA.items()]
    definitions: Json = {}
    for model in models:
        made = model.model_json_schema(ref_template="#/$defs/{model}")
        definitions |= made.pop("$defs")
        definitions[model.__name__] = made
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "Events of Freshline",
        "description": "CloudEvents 1.0 in JSON.",
        "oneOf": [{"$ref": f"#/$defs/{model.__name__}"} for model in models],
        "$defs": dict(sorted(definitions.items())),
    }


def _event(type_: EventType, fact: type[EventData]) -> type[BaseModel]:
    fields: Json = {"type": (Literal[type_.value], ...), "data": (fact, ...)}
    return create_model(f"{fact.__name__}Event", __base__=Attributes, __doc__=fact.__doc__, **fields)
