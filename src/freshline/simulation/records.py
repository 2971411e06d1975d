"""The rows of an in-memory simulator, as the store has them: assets with their clocks, considerations, runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from freshline.model.enums import ExpiryReason, Reason, RunStatus, TriggerType
from freshline.model.state import ActiveRun, Expiry, Head, Input, Output, Pending, Version

# Kept per asset before what every reader has consumed is forgotten.
MOST_CHANGES = 256


@dataclass(slots=True)
class Asset:
    """One asset: its head, when it changed, and its two clocks."""

    id: str
    head: Head | None = None
    sequences: list[int] = field(default_factory=list)  # of the snapshots that changed it, and when those came
    times: list[datetime] = field(default_factory=list)
    due_at: datetime | None = None
    due_reason: ExpiryReason | None = None
    expired: Expiry | None = None
    overdue_at: datetime | None = None
    overdue: bool = False

    def append(self, version: str, now: datetime, run_id: str | None) -> bool:
        """A new snapshot becomes the head; returns whether the content changed (R9.3)."""
        changed = self.head is None or self.head.data_version != version
        self.head = Head(self.head.sequence + 1 if self.head else 1, version, now, run_id)
        if changed:
            self.sequences.append(self.head.sequence)
            self.times.append(now)
        return changed

    def input(self, consumed: Version | None) -> Input:
        """As a workflow sees it whose last success read `consumed`."""
        head = self.head
        if head is None or (consumed is not None and consumed.data_version == head.data_version):
            return Input(self.id, head, consumed)
        behind = consumed.sequence if consumed else 0
        first = bisect_right(self.sequences, behind)
        if first == len(self.times):
            return Input(self.id, head, consumed)
        return Input(self.id, head, consumed, Pending(self.times[first], self.times[-1], head.sequence - behind))

    def output(self) -> Output:
        """As its producer sees it."""
        return Output(self.id, self.head, self.expired)

    def forget(self, consumed: int) -> None:
        """Drop the changes up to `consumed`, which everybody who ever read has read; the first one stays."""
        keep = bisect_right(self.sequences, consumed)
        del self.sequences[1:keep], self.times[1:keep]


@dataclass(slots=True)
class Consideration:
    """Where and when to look."""

    at: datetime
    hold: Reason | None = None
    blocker_id: int | None = None
    evaluations: int = 0
    first_look: datetime | None = None


@dataclass(slots=True)
class Run:
    """One automatic run."""

    id: str
    workflow_id: int
    slug: str
    version: int
    trigger: Mapping[str, Any]
    pins: Mapping[str, Version]
    cause: str
    mixed: bool
    queued_at: datetime
    status: RunStatus = RunStatus.QUEUED
    attempt: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    job_fingerprint: str | None = None  # of the definition that it is pinned to; None: the current one

    @property
    def reason(self) -> str:
        """Why it exists."""
        return str(self.trigger["reason"])

    @property
    def read(self) -> Mapping[str, str]:
        """The data versions of its pins."""
        return {asset_id: pin.data_version for asset_id, pin in self.pins.items()}

    def active(self) -> ActiveRun:
        """As `decide` sees it."""
        return ActiveRun(self.id, self.status, TriggerType.AUTO, self.attempt, self.version, self.pins)
