"""The result of `decide`: an outcome, its reason, the evidence, and the changes to write."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from freshline.model.backfill import PartitionState
from freshline.model.documents.decision import Evidence, Trigger
from freshline.model.enums import Outcome, Reason
from freshline.model.json import Json
from freshline.model.staleness import Counted, Staleness
from freshline.model.state import Version, Window

MINUTES = len("2026-01-05T09:30")


@dataclass(frozen=True, slots=True)
class NewRun:
    """An automatic run to queue.

    `cause`: a hash of the cause and of the versions. It detects endless repetition (docs/semantics.md#R1.5).
    `origin`: when the root of what it computes happened (docs/semantics.md#R13.5).
    `round`: with `when: all`, the sequences of the sources; what moves later belongs to the next round.
    `urgency`: the priority among all runs; those of backfills are behind others (docs/semantics.md#R14.4).
    `counted`: how it counts for the flood guard, for 24 hours (docs/semantics.md#R14.7).
    """

    trigger: Trigger
    pins: Mapping[str, Version]
    priority: int
    parameters: Json
    cause: str
    mixed: bool
    mixed_upstream: bool = False
    round: Mapping[str, int] = field(default_factory=dict)
    quiet: Window | None = None
    origin: datetime | None = None
    urgency: int | None = None
    counted: Counted | None = None


@dataclass(frozen=True, slots=True)
class Renewal:
    """New pins and a new trigger for a queued run (docs/semantics.md#R6.3)."""

    run_id: str
    trigger: Trigger
    pins: Mapping[str, Version]
    cause: str
    mixed: bool
    mixed_upstream: bool = False
    round: Mapping[str, int] = field(default_factory=dict)
    origin: datetime | None = None
    urgency: int | None = None


class QuietRun(NamedTuple):
    """The quiet hours of a queued run, if they are not those that are stored."""

    run_id: str
    quiet: Window | None


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about one workflow partition.

    `next_evaluation`: when to evaluate again, at the latest; None: at the next event. Every hold has one, except that
    of a partition that misses an input without a grace (docs/semantics.md#R13.2).
    `blocker_id`, `blocker_key`: the ancestor that the workflow waits for, and its partition.
    `blocks_until`: the known end of the hold. `origin`: when the root of the cause happened.
    `superseded`: the id of a queued automatic run that ends: its cause is gone, or quiet hours began.
    `urgency`: the priority of the cause among all causes. `demands`: backfills whose demands have ended, and how.
    `counted`: how a held partition counts for the flood guard. `staleness`: what a proposal has to list about it.
    """

    outcome: Outcome
    reason: Reason
    evidence: Evidence = field(default_factory=Evidence)
    next_evaluation: datetime | None = None
    blocker_id: int | None = None
    blocks_until: datetime | None = None
    run: NewRun | None = None
    renewal: Renewal | None = None
    superseded: str | None = None
    quiet_run: QuietRun | None = None
    blocker_key: str = ""
    origin: datetime | None = None
    urgency: int | None = None
    demands: tuple[tuple[str, PartitionState], ...] = ()
    counted: Counted | None = None
    staleness: Staleness | None = None

    @property
    def hold(self) -> Reason:
        """The reason for which the workflow is not evaluated before `next_evaluation`."""
        return Reason.IN_FLIGHT if self.outcome is Outcome.RUN else self.reason

    @property
    def rests(self) -> bool:
        """Whether the workflow comes to rest, so that waiting descendants can be woken (docs/semantics.md#R11.4)."""
        moving = self.outcome is Outcome.RUN or self.reason in {Reason.IN_FLIGHT, Reason.WAITING_FOR_UPSTREAM}
        return not moving and self.blocks_until is None

    @property
    def digest(self) -> str:
        """A hash of the content. Equal decisions are counted, not stored again (docs/semantics.md#R5.5)."""
        content: Json = {key: value for key, value in self.evidence.items() if key not in {"blockers", "deadline"}}
        # A deadline moves by the delay of each evaluation, until it is another minute.
        content["deadline"] = self.evidence.get("deadline", "")[:MINUTES]
        # The motion of a blocker changes often and does not matter to the reader.
        content["blockers"] = [blocker["workflowSlug"] for blocker in self.evidence.get("blockers", ())]
        return short_hash(json.dumps([self.outcome, self.reason, content], sort_keys=True, default=str))


def short_hash(text: str) -> str:
    """Return the first 128 bits of a hash, as hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
