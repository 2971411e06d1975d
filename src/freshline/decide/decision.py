"""What `decide` returns: an outcome, its reason, the evidence, and what has to be written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from freshline.model.enums import Outcome, Reason
from freshline.model.state import Version


@dataclass(frozen=True, slots=True)
class NewRun:
    """An automatic run to queue. `cause` identifies why and on which versions, for the safety net of R1.5."""

    trigger: Mapping[str, Any]
    pins: Mapping[str, Version]
    priority: int
    parameters: Mapping[str, Any]
    cause: str
    mixed: bool


@dataclass(frozen=True, slots=True)
class Renewal:
    """A queued run that reads newer heads when it starts, and says so (R6.3)."""

    run_id: str
    trigger: Mapping[str, Any]
    pins: Mapping[str, Version]
    cause: str
    mixed: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of looking at one workflow partition.

    `next_evaluation` None: there is nothing to look at until something happens. Every hold has one (R11.4).
    `superseded`: a queued automatic run whose cause is gone.
    """

    outcome: Outcome
    reason: Reason
    evidence: dict[str, Any] = field(default_factory=dict)
    next_evaluation: datetime | None = None
    blocker_id: int | None = None
    blocks_until: datetime | None = None
    run: NewRun | None = None
    renewal: Renewal | None = None
    superseded: str | None = None

    @property
    def rests(self) -> bool:
        """Whether the workflow stays where it is: whoever waits for it need not wait any longer (R11.4)."""
        moves = self.outcome is Outcome.RUN or self.reason is Reason.IN_FLIGHT
        return not moves and self.blocks_until is None and self.blocker_id is None

    @property
    def digest(self) -> str:
        """Equal for decisions that say the same; those are counted, not repeated (R5.5)."""
        said = {key: value for key, value in self.evidence.items() if key != "blockers"}
        said["blockers"] = [blocker["workflowSlug"] for blocker in self.evidence.get("blockers", ())]
        return short_hash(json.dumps([self.outcome, self.reason, said], sort_keys=True, default=str))


def short_hash(text: str) -> str:
    """Enough of a hash to tell texts apart."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
