"""What is known about one workflow partition at one moment: the facts that `decide` decides on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from freshline.model.enums import ExpiryReason, RunStatus, TriggerType


@dataclass(frozen=True, slots=True)
class Version:
    """One snapshot of an asset partition, by sequence number and data version."""

    sequence: int
    data_version: str

    def as_json(self) -> dict[str, Any]:
        """As pins and vectors keep it."""
        return {"sequence": self.sequence, "dataVersion": self.data_version}


@dataclass(frozen=True, slots=True)
class Head(Version):
    """The current snapshot."""

    produced_at: datetime
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """The changes of one input that the last success did not read; ids of the first and last 20 events (R5.5)."""

    first_at: datetime
    last_at: datetime
    count: int
    event_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Input:
    """One consumed asset: where its head is, and what the last success read."""

    asset_id: str
    head: Head | None = None
    consumed: Version | None = None
    pending: Pending | None = None

    @property
    def changed(self) -> bool:
        """Versions are compared, never times (design 3)."""
        if self.head is None:
            return False
        return self.consumed is None or self.consumed.data_version != self.head.data_version

    @property
    def newer(self) -> bool:
        """There is a later snapshot, changed or not (R1.4)."""
        return self.head is not None and (self.consumed is None or self.head.sequence > self.consumed.sequence)


@dataclass(frozen=True, slots=True)
class Expiry:
    """An output's freshness ran out."""

    at: datetime
    reason: ExpiryReason
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """One produced asset."""

    asset_id: str
    head: Head | None = None
    expired: Expiry | None = None


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """The queued or running run of the workflow partition that matters most (running before queued)."""

    id: str
    status: RunStatus
    trigger_type: TriggerType
    attempt: int
    version: int
    pins: Mapping[str, Version]


@dataclass(frozen=True, slots=True)
class Failures:
    """Consecutive failed automatic runs (R7)."""

    count: int = 0
    last_at: datetime | None = None
    eligible_at: datetime | None = None
    breaker_at: datetime | None = None
    probed_versions: Mapping[str, str] | None = None  # the data versions that the last failed run read


@dataclass(frozen=True, slots=True)
class Canceled:
    """A run with these versions was canceled; it is not asked for again (R5.3)."""

    version: int
    pins: Mapping[str, str]
    expired_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Blocker:
    """An ancestor in motion whose result could make a run read a mix (R4.2). `until`: end of its hold; None: active."""

    workflow_id: int
    slug: str
    motion: str
    until: datetime | None = None
    cannot_run: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """All facts about one workflow partition."""

    workflow_id: int
    slug: str
    partition_key: str
    version: int
    job_fingerprint: str
    applied_at: datetime
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    succeeded_fingerprint: str | None = None  # of the last success; None: never
    succeeded_at: datetime | None = None
    started_at: datetime | None = None  # of the last automatic run
    success_cause: str | None = None
    cause_repeats: int = 0
    mixed: bool = False  # what the last success read may be of several generations (ADR 0004)
    active: ActiveRun | None = None
    paused: bool = False
    paused_until: datetime | None = None
    failures: Failures = Failures()
    canceled: Canceled | None = None
    blockers: tuple[Blocker, ...] = ()
    evaluations: int = 0
