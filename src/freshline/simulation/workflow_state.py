"""The state of one workflow in a simulation: consumed versions, failures, pause and cancellation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from freshline.model.policy import Backoff
from freshline.model.staleness import NOTHING_STALE, Staleness
from freshline.model.state import Canceled, Failures, Input, Output, State, Version
from freshline.partitions.declaration import Affects
from freshline.reading import Expected
from freshline.simulation.catalogue import Member
from freshline.simulation.records import Asset, Run

NO_FAILURES = Failures()


@dataclass(slots=True)
class WorkflowState:
    """The facts about a workflow that the store keeps, without its assets."""

    applied_at: datetime
    consumed_versions: Mapping[str, Version] = field(default_factory=dict)
    fingerprint: str | None = None
    succeeded_at: datetime | None = None
    started_at: datetime | None = None
    success_cause: str | None = None
    cause_repeats: int = 0
    mixed: bool = False
    runs_avoided: int = 0
    failures: Failures = NO_FAILURES
    canceled: Canceled | None = None
    paused: bool = False
    paused_until: datetime | None = None
    round: Mapping[str, int] = field(default_factory=dict)
    waited: timedelta = timedelta(0)  # for ancestors, before runs since the last success
    declined: Staleness | None = None  # what the flood guard ignored since the last success

    def input(self, asset: Asset, expected: Expected) -> Input:
        """Return a partition of an input as the workflow finds it."""
        consumed = self.consumed_versions.get(asset.id)
        latest = expected.affects is Affects.LATEST
        found = asset.input_of_newest(consumed, expected.newness) if latest else asset.input(consumed)
        return found if self.declined is None else found.accepting(self.declined.inputs.get(asset.id))

    def succeed(
        self, run: Run, fingerprint: str, now: datetime, runs_avoided: int, read: Mapping[str, Version]
    ) -> None:
        """Record a success: the versions that the run read are consumed."""
        self.cause_repeats = self.cause_repeats + 1 if self.success_cause == run.cause else 1
        self.success_cause, self.consumed_versions, self.mixed = run.cause, read, run.mixed
        self.fingerprint, self.succeeded_at, self.round = fingerprint, now, run.round
        self.failures, self.canceled, self.waited = NO_FAILURES, None, timedelta(0)
        self.declined = None
        self.runs_avoided += runs_avoided

    def fail(self, run: Run, backoff: Backoff, now: datetime, jitter: float) -> None:
        """Record a failure: the cooldown starts, and the breaker opens when the budget is used up."""
        before = self.failures
        cooldown = min(backoff.max_ms or 0, (backoff.base_ms or 0) * 2 ** min(before.count, 40)) * jitter
        opened = now if before.count + 1 >= backoff.budget else None
        self.failures = Failures(
            before.count + 1, now, now + timedelta(milliseconds=cooldown), before.breaker_at or opened, run.read
        )

    def decline(self, staleness: Staleness) -> None:
        """Accept versions beside the consumed ones: they cause nothing, and any other version does."""
        self.declined = (self.declined or NOTHING_STALE).with_(staleness)
        self.mixed = True

    def cancel(self, run: Run) -> None:
        """Record a cancellation: no run is queued with the same versions (docs/semantics.md#R5.3)."""
        expiry = run.trigger.get("expiry")
        expired_at = datetime.fromisoformat(expiry["expiresAt"]) if expiry else None
        self.canceled = Canceled(run.version, run.read, expired_at, run.backfill_id)

    def forget_failures(self) -> None:
        """Record a success that published nothing: what it read is not consumed."""
        self.failures = NO_FAILURES

    def reset(self) -> None:
        """Clear failures, breaker and cancellation."""
        self.failures, self.canceled = NO_FAILURES, None
        self.cause_repeats, self.success_cause = 0, None

    def state(self, member: Member, outputs: tuple[Output, ...], run: Run | None, evaluations: int) -> State:
        """Return the state that `decide` takes, without inputs."""
        return State(
            workflow_id=member.workflow_id,
            slug=member.slug,
            partition_key=member.partition_key,
            version=member.version,
            job_fingerprint=member.job_fingerprint,
            applied_at=self.applied_at,
            outputs=outputs,
            succeeded_fingerprint=self.fingerprint,
            succeeded_at=self.succeeded_at,
            started_at=self.started_at,
            success_cause=self.success_cause,
            cause_repeats=self.cause_repeats,
            mixed=self.mixed,
            active=run.active() if run else None,
            paused=self.paused,
            paused_until=self.paused_until,
            failures=self.failures,
            canceled=self.canceled,
            evaluations=evaluations,
        )
