"""What each event says: the models behind docs/events.md and the JSON Schema of events. Tests hold events to them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.alias_generators import to_camel

from freshline.model.enums import EventType
from freshline.model.json import Json

SCHEMA_ID = "urn:freshline:events:1"


class Fact(BaseModel):
    """The data of an event."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)


class AboutAsset(Fact):
    """An asset, as it was produced last."""

    asset_id: str = Field(description="the asset; also the event's `subject`")
    partition_key: str = Field(description="empty for an asset without partitions")
    workflow_slug: str | None = Field(description="who makes it; null for a source")
    workflow_id: int | None = Field(description="the same, by number")
    run_id: str | None = Field(description="the run that made it; null for a report or a rollback")
    step_id: str | None = Field(description="the step of that run")
    produced_at: datetime | None = Field(description="when; null for what was never produced")
    freshness: Json | None = Field(description="what was promised, as declared or as the job returned it")
    data_version: str | None = Field(description="changes if and only if the content does")
    changed: bool = Field(description="whether the content differs from the version before")
    rows: int | None = Field(description="how many rows, where that is known")
    bytes: int | None = Field(description="how large its files are, where that is known")
    payload: Any = Field(description="what the reporter or the job said about it")
    checks: list[Json] = Field(
        default=[], description="results of data checks: `check`, `severity`, `passed`, `observed`"
    )
    parameters: Json = Field(default={}, description="of the run, with `publishParameters: true`")


class AssetProduced(AboutAsset):
    """There is a new snapshot of an asset: a run published it, the outside reported it, or it was rolled back."""

    rolled_back_to: int = Field(default=0, description="the version whose rows are current again, after a rollback")


class AssetExpired(AboutAsset):
    """The freshness of an asset ran out."""

    expires_at: datetime = Field(description="when it ran out")
    reason: Literal["ttl", "cadence", "cron", "manual"] = Field(description="why then")


class AssetOverdue(AboutAsset):
    """An asset is older than its `maxAgeMs`; told once until it recovers."""

    expires_at: datetime = Field(description="when it became too old")
    reason: Literal["max-age"] = Field(description="always `max-age`")


class AssetRecovered(AboutAsset):
    """An overdue asset was produced."""


class DefinitionUpdated(Fact):
    """A definition was applied."""

    workflow_slug: str = Field(description="the workflow; also the event's `subject`")
    project: str = Field(description="whose definition it is")
    change: Literal["added", "changed", "retired"] = Field(description="what became of it")


class AboutRun(Fact):
    """A run of a workflow."""

    workflow_slug: str = Field(description="the workflow; also the event's `subject`")
    workflow_id: int = Field(description="the same, by number")
    run_id: str = Field(description="the run")
    partition_key: str = Field(description="empty for a workflow without partitions")
    trigger: Json = Field(
        description="why the run exists: `type`, and for automatic runs `reason`, `upstream`, `decisionId`"
    )


class RunQueued(AboutRun):
    """A run waits for a worker."""


class RunStarted(AboutRun):
    """A worker claimed a run; again after its worker was lost, with the next attempt."""

    attempt: int = Field(description="which attempt it is, from 1 on")


class RunSucceeded(AboutRun):
    """Everything that a run made is published."""

    attempt: int = Field(description="the attempt that published")
    result: Json = Field(description="`assets`, those of them that are `unchanged`, and `metrics`")


class RunFailed(AboutRun):
    """A run failed; nothing of it is published."""

    attempt: int = Field(description="the attempt that failed")
    error: Json = Field(description="`code`, `message` and what else is known")


class RunCanceled(AboutRun):
    """A run was ended before it was done."""

    attempt: int = Field(default=0, description="the attempt that was ended; absent where nobody had claimed it")
    reason: str = Field(description="a user's words, or `paused`, `superseded`, `definition-changed`")


class AboutBreaker(Fact):
    """The breaker of a workflow."""

    workflow_slug: str = Field(description="the workflow; also the event's `subject`")
    workflow_id: int = Field(description="the same, by number")
    partition_key: str = Field(description="empty for a workflow without partitions")


class BreakerOpened(AboutBreaker):
    """A workflow failed so often that only probes run."""


class BreakerClosed(AboutBreaker):
    """Automatic runs go on."""

    by: Literal["reset", "definition"] = Field(default="reset", description="what closed it; absent after a success")


FACTS: dict[EventType, type[Fact]] = {
    EventType.ASSET_PRODUCED: AssetProduced,
    EventType.ASSET_EXPIRED: AssetExpired,
    EventType.ASSET_OVERDUE: AssetOverdue,
    EventType.ASSET_RECOVERED: AssetRecovered,
    EventType.DEFINITION_UPDATED: DefinitionUpdated,
    EventType.RUN_QUEUED: RunQueued,
    EventType.RUN_STARTED: RunStarted,
    EventType.RUN_SUCCEEDED: RunSucceeded,
    EventType.RUN_FAILED: RunFailed,
    EventType.RUN_CANCELED: RunCanceled,
    EventType.BREAKER_OPENED: BreakerOpened,
    EventType.BREAKER_CLOSED: BreakerClosed,
}


class Attributes(BaseModel):
    """The context attributes of CloudEvents 1.0, and `position`, our extension."""

    model_config = ConfigDict(extra="forbid")

    specversion: Literal["1.0"]
    id: str = Field(min_length=1)
    source: str = Field(min_length=1, json_schema_extra={"format": "uri-reference"})
    subject: str = Field(min_length=1)
    time: datetime
    datacontenttype: Literal["application/json"]
    position: int | None


def schema() -> Json:
    """The JSON Schema of all events: one of the types, each with its data."""
    models = [_event(type_, fact) for type_, fact in FACTS.items()]
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


def _event(type_: EventType, fact: type[Fact]) -> type[BaseModel]:
    fields: dict[str, Any] = {"type": (Literal[type_.value], ...), "data": (fact, ...)}
    return create_model(f"{fact.__name__}Event", __base__=Attributes, __doc__=fact.__doc__, **fields)
