"""Enums, and the state machine of a run."""

from __future__ import annotations

from enum import StrEnum


class RunStatus(StrEnum):
    """The states of a run."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


class StepStatus(StrEnum):
    """The states of a try of a step. `lost`: its worker, its Spark or the warehouse was lost."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    LOST = "lost"


ACTIVE = frozenset({RunStatus.QUEUED, RunStatus.RUNNING})

# The only definition of the state machine. SQL constraints and the chart in the docs are tested against it.
TRANSITIONS: dict[RunStatus, dict[RunStatus, str]] = {
    RunStatus.QUEUED: {
        RunStatus.RUNNING: "a worker claims it",
        RunStatus.CANCELED: "a user, a pause, a new definition, or its cause is gone",
    },
    RunStatus.RUNNING: {
        RunStatus.QUEUED: "its worker died or handed it back",
        RunStatus.SUCCEEDED: "all outputs are published",
        RunStatus.FAILED: "a step failed, a check failed, or it killed its worker too often",
        RunStatus.CANCELED: "a user canceled it",
    },
    RunStatus.SUCCEEDED: {},
    RunStatus.FAILED: {},
    RunStatus.CANCELED: {},
}


class TriggerType(StrEnum):
    """Why a run exists."""

    AUTO = "auto-materialize"
    MANUAL = "manual"
    BACKFILL = "backfill"

    @property
    def decided(self) -> bool:
        """Whether a decision made it: for indexes, failures, renewal and supersession both kinds are one."""
        return self is not TriggerType.MANUAL


class Outcome(StrEnum):
    """The outcome of a decision."""

    RUN = "run"
    HOLD = "hold"
    SKIP = "skip"
    ERROR = "error"


class Reason(StrEnum):
    """The reason codes of decisions (docs/semantics.md#R5.1)."""

    MISSING = "missing"
    RETRY = "retry"
    DEFINITION_CHANGED = "definition-changed"
    UPSTREAM_UPDATE = "upstream-update"
    EXPIRED = "expired"
    BACKFILL = "backfill"

    INPUT_MISSING = "input-missing"
    INPUT_RETIRED = "input-retired"
    FROZEN = "frozen"
    IN_FLIGHT = "in-flight"
    PAUSED = "paused"
    BREAKER_OPEN = "breaker-open"
    COOLING_DOWN = "cooling-down"
    CANCELED = "canceled"
    BACKFILL_PROPOSED = "backfill-proposed"
    QUIET_HOURS = "quiet-hours"
    INPUT_TOO_OLD = "input-too-old"
    WAITING_FOR_ALL = "waiting-for-all"
    WAITING_FOR_UPSTREAM = "waiting-for-upstream"
    DEBOUNCING = "debouncing"
    MIN_INTERVAL = "min-interval"

    UP_TO_DATE = "up-to-date"
    POLICY_OFF = "policy-off"
    NOT_AUTO = "not-auto"

    EVALUATION_FAILED = "evaluation-failed"


class EventOutcome(StrEnum):
    """The outcome of an event for one affected workflow (docs/semantics.md#R5.5)."""

    TRIGGERED = "triggered"
    INCLUDED = "included"
    SUPERSEDED = "superseded"
    HELD = "held"
    IGNORED = "ignored"
    PENDING = "pending"


class EventReason(StrEnum):
    """Reasons that only event outcomes have. All other reasons come from the decision or from the run's trigger."""

    RENEWED = "renewed"
    MANUAL = "manual"

    UNCHANGED = "unchanged"
    LATE = "late"
    DOES_NOT_TRIGGER = "does-not-trigger"
    BASELINE = "baseline"
    CLOCK_RESET = "clock-reset"

    UNABSORBED = "unabsorbed"
    DUE = "due"


# Holds with a known end. Descendants wait for an ancestor that is held like this (docs/semantics.md#R4.4).
BLOCKING_HOLDS = frozenset(
    {Reason.DEBOUNCING, Reason.MIN_INTERVAL, Reason.COOLING_DOWN, Reason.QUIET_HOURS, Reason.PAUSED}
)


class ExpiryReason(StrEnum):
    """Why an asset's freshness ran out."""

    TTL = "ttl"
    CADENCE = "cadence"
    CRON = "cron"
    MANUAL = "manual"


class When(StrEnum):
    """How many inputs must have a new snapshot before an update counts (docs/semantics.md#R1.4)."""

    ANY = "any"
    ALL = "all"


class Beyond(StrEnum):
    """What happens to more partitions than a workflow may recompute by itself."""

    PROPOSE = "propose"
    IGNORE = "ignore"


class OnRetire(StrEnum):
    """What happens to a partition when retention removes a partition that it read."""

    KEEP = "keep"
    RECOMPUTE = "recompute"


class AssetState(StrEnum):
    """`status.state`. The first match in this order wins (docs/semantics.md#R5.2)."""

    RETIRED = "retired"
    SOURCE = "source"
    RUNNING = "running"
    FAILING = "failing"
    MISSING = "missing"
    WAITING = "waiting"
    STALE = "stale"
    FRESH = "fresh"


class PartitionState(StrEnum):
    """The state of one partition. The first match in this order wins.

    `stale`: also one that is queued or held. `frozen`: its inputs changed, and it is too old to run by itself.
    """

    RUNNING = "running"
    FAILED = "failed"
    MISSING = "missing"
    FROZEN = "frozen"
    STALE = "stale"
    FRESH = "fresh"


class JobKind(StrEnum):
    """What a step runs."""

    SPARK_SQL = "spark.sql"
    SPARK_PYTHON = "spark.python"
    PYTHON = "python"


class EventType(StrEnum):
    """Event types, by their CloudEvents names."""

    ASSET_PRODUCED = "asset.produced"
    ASSET_EXPIRED = "asset.expired"
    ASSET_OVERDUE = "asset.overdue"
    ASSET_RECOVERED = "asset.recovered"
    PARTITION_RETIRED = "asset.partition.retired"
    CODE_ACCEPTED = "asset.code.accepted"
    DEFINITION_UPDATED = "workflow.definition.updated"
    RUN_QUEUED = "workflow.run.queued"
    RUN_STARTED = "workflow.run.started"
    RUN_SUCCEEDED = "workflow.run.succeeded"
    RUN_FAILED = "workflow.run.failed"
    RUN_CANCELED = "workflow.run.canceled"
    BREAKER_OPENED = "materializer.breaker.opened"
    BREAKER_CLOSED = "materializer.breaker.closed"
    BACKFILL_PROPOSED = "backfill.proposed"
    BACKFILL_STARTED = "backfill.started"
    BACKFILL_PROGRESSED = "backfill.progressed"
    BACKFILL_FINISHED = "backfill.finished"
    BACKFILL_CANCELED = "backfill.canceled"
