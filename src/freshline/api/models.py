"""What goes in and out, camelCase. What comes in is strict; what goes out has the fields of `--json`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

T = TypeVar("T")
Json = dict[str, Any]
RunStatus = Literal["queued", "running", "succeeded", "failed", "canceled"]
TriggerType = Literal["auto-materialize", "manual", "backfill"]
Outcome = Literal["run", "hold", "skip", "error"]
State = Literal["fresh", "stale", "running", "waiting", "failing", "missing", "source"]


class Asked(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(strict=True, extra="forbid", alias_generator=to_camel)


class Nothing(Asked):
    """An empty object, or no body."""


class RunAsked(Asked):
    """A manual run."""

    parameters: dict[str, JsonValue] = Field(default_factory=dict, description="They win over the workflow's own.")
    full_refresh: bool = Field(default=False, description="Write all outputs anew, also those that are appended to.")


class PauseAsked(Asked):
    """A pause."""

    until: Annotated[AwareDatetime | None, Field(strict=False, description="Its end, with a zone. None: no end.")] = (
        None
    )


class CancelAsked(Asked):
    """The end of a run."""

    reason: str = Field(default="canceled by a user", min_length=1, max_length=1000)


class ProducedAsked(Asked):
    """The outside changed a source (R3.3)."""

    data_version: str | None = Field(default=None, min_length=1, max_length=1000, description="None: always a change.")
    key: str | None = Field(default=None, min_length=1, max_length=200, description="As the header Idempotency-Key.")
    sequence: int | None = Field(default=None, ge=0, lt=2**63, description="A lower one than before is recorded only.")
    payload: JsonValue = Field(default=None, description="`path` says where this version's data is.")


class Told(BaseModel):
    """The body of an answer."""

    model_config = ConfigDict(extra="allow", alias_generator=to_camel, populate_by_name=True)


class Page(Told, Generic[T]):
    """A part of a listing. `next`: the value of `after` for the part that follows; none at the end."""

    items: list[T]
    next: str | None


class Problem(Told):
    """RFC 9457, with a stable code."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[Json] | None = None


class Step(Told):
    """One try of a step."""

    step_id: str
    attempt: int
    try_: Annotated[int, Field(alias="try")]
    status: str
    started_at: datetime
    finished_at: datetime | None
    metrics: Json | None
    error: Json | None


class Run(Told):
    """One execution of a workflow."""

    id: str
    workflow_slug: str
    partition_key: str
    status: RunStatus
    attempt: int
    trigger: Json
    priority: int
    mixed: bool
    parameters: Json
    workflow_version: int
    queued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error: Json | None
    result: Json | None
    progress: Json | None
    worker_id: str | None
    lease_until: datetime | None
    cancel_reason: str | None
    decision_id: str | None
    inputs: list[Json]
    steps: list[Step]


class RunDetail(Run):
    """A run with what it published."""

    outputs: list[Json]


class LogLine(Told):
    """A line that a run printed."""

    line: int
    at: datetime
    attempt: int
    step_id: str
    stream: str
    text: str


class Event(Told):
    """A fact."""

    id: str
    position: int | None
    type: str
    time: datetime
    subject: str
    data: Json


class EventDetail(Event):
    """An event and what became of it, for each workflow that it concerns."""

    consumers: int
    fates: list[Json]


class Decision(Told):
    """The outcome of looking at a workflow."""

    id: str
    workflow_slug: str
    partition_key: str
    workflow_version: int
    outcome: Outcome
    reason: str
    evidence: Json
    at: datetime
    last_at: datetime
    count: int
    run_id: str | None


class Hold(Told):
    """Why no automatic run starts now."""

    reason: str
    until: datetime | None
    blocker: str | None


class LastRun(Told):
    """The last automatic run."""

    run_id: str
    status: RunStatus
    finished_at: datetime | None
    reason: str | None


class AssetState(Told):
    """How an asset stands."""

    asset_id: str
    partition_key: str
    workflow_slug: str | None
    state: State
    produced_at: datetime | None
    expires_at: datetime | None
    expired: bool
    data_version: str | None
    version: int | None
    table_version: int | None
    rows: int | None
    bytes: int | None
    run_id: str | None
    last_auto_run: LastRun | None
    next_refresh_at: datetime | None
    hold: Hold | None


class Asset(AssetState):
    """An asset with what was declared about it."""

    freshness: Json | None
    auto_materialize: Json | None
    declaration: Json
    consumed_by: list[str]


class Snapshot(Told):
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
    parts: Any
    head: bool


class Cooldown(Told):
    """How failures stand."""

    failures: int
    next_eligible_at: datetime | None


class Breaker(Told):
    """Whether the failures were too many."""

    state: Literal["open", "closed"]
    opened_at: datetime | None


class Pause(Told):
    """Since when and until when."""

    since: datetime
    until: datetime | None


class WorkflowState(Told):
    """How a workflow stands."""

    slug: str
    version: int
    project: str
    automatic: bool
    paused: Pause | Literal[False]
    in_flight: str | None
    in_flight_status: RunStatus | None
    cooldown: Cooldown
    breaker: Breaker
    hold: Hold | None
    succeeded_at: datetime | None
    avoided: int


class Pool(Told):
    """How full a pool is."""

    name: str
    project: str
    slots: int
    running: int
    queued: int


class Status(Told):
    """How everything stands, or one asset or workflow and its own. `notes`: what keeps everything from moving."""

    at: datetime
    assets: list[AssetState]
    workflows: list[WorkflowState]
    pools: list[Pool]
    notes: list[str]


class About(Told):
    """What answers here: its version, the database's clock, and the position of the newest event."""

    version: str
    at: datetime
    position: int


class Workflow(Told):
    """A workflow's current definition, as declared."""

    slug: str
    version: int
    project: str
    automatic: bool
    applied_at: datetime
    retired_at: datetime | None
    fingerprint: str
    source_file: str | None
    definition: Json
    produces: list[str]
    consumes: list[str]


class InFlight(Told):
    """The active run."""

    run_id: str
    status: RunStatus


class NextRefresh(Told):
    """When it is looked at or run next by itself, for which asset, and why then."""

    at: datetime
    reason: str
    asset_id: str


class Lag(Told):
    """The age of an asset against what was promised."""

    age_ms: int | None
    max_age_ms: int | None
    overdue: bool


class PolicyAsset(Told):
    """One asset of a policy status."""

    asset_id: str
    partition_key: str
    state: State
    produced_at: datetime | None
    expires_at: datetime | None
    expired: bool
    next_refresh_at: datetime | None
    freshness: Json | None
    auto_materialize: Json | None
    lag: Lag


class PolicyStatus(Told):
    """How a workflow's automatic runs stand."""

    at: datetime
    slug: str
    version: int
    project: str
    automatic: bool
    paused: Pause | Literal[False]
    in_flight: InFlight | None
    cooldown: Cooldown
    breaker: Breaker
    hold: Hold | None
    succeeded_at: datetime | None
    last_auto_run: LastRun | None
    next_refresh: NextRefresh | None
    runs_avoided: int
    assets: list[PolicyAsset]


class Graph(Told):
    """Who makes and who reads which asset."""

    assets: list[Json]
    workflows: list[Json]
    edges: list[Json]


class Planned(Told):
    """What would run if the asset changed now."""

    asset: str
    assumes: list[str]
    active: list[str]
    runs: list[Json]
    held: list[Json]
    cut: list[Json]


class Reported(Told):
    """What a report led to."""

    asset_id: str
    sequence: int
    data_version: str
    changed: bool
    duplicate: bool
    moved_head: bool
    event_id: str


class Expired(Told):
    """An asset whose freshness has run out."""

    asset_id: str
    partition_key: str
    expires_at: datetime | None


class Worker(Told):
    """A process that announced itself."""

    id: str
    kind: Literal["materializer", "worker", "api"]
    host: str
    pid: int
    live: bool
    project: str | None
    code_hash: str | None
    info: Json
    started_at: datetime
    seen_at: datetime
    stopped_at: datetime | None
    runs: list[str]


class Change(Told):
    """An entry of the audit."""

    id: str
    at: datetime
    who: str
    token_id: str | None
    what: str
    subject: str
    before: Json | None
    after: Json | None


class HealthCheck(Told):
    """One thing that has to be so."""

    name: str
    ok: bool
    detail: str | None


class Health(Told):
    """Whether a process is there, and whether it can work. Checks after one that fails are not made."""

    status: Literal["ok", "unavailable"]
    checks: list[HealthCheck] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
