"""The result of `decide`: an outcome, its reason, the evidence, and the changes to write."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from freshline.model.documents.decision import Evidence, Trigger
from freshline.model.enums import Outcome, Reason
from freshline.model.json import Json
from freshline.model.state import Version


@dataclass(frozen=True, slots=True)
class NewRun:
    """An automatic run to queue.

    `cause`: a hash of the cause and of the versions. It detects endless repetition (docs/semantics.md#R1.5).
    """

    trigger: Trigger
    pins: Mapping[str, Version]
    priority: int
    parameters: Json
    cause: str
    mixed: bool


@dataclass(frozen=True, slots=True)
class Renewal:
    """New pins and a new trigger for a queued run (docs/semantics.md#R6.3)."""

    run_id: str
    trigger: Trigger
    pins: Mapping[str, Version]
    cause: str
    mixed: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about one workflow partition.

    `next_evaluation`: when to evaluate again, at the latest; None: at the next event. Every hold has one.
    `blocker_id`: the ancestor that the workflow waits for. `blocks_until`: the known end of the hold.
    `superseded`: the id of a queued automatic run whose cause is gone.
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

    @property
    def rests(self) -> bool:
        """Whether the workflow comes to rest, so that waiting descendants can be woken (docs/semantics.md#R11.4)."""
        moves = self.outcome is Outcome.RUN or self.reason is Reason.IN_FLIGHT
        return not moves and self.blocks_until is None and self.blocker_id is None

    @property
    def digest(self) -> str:
        """A hash of the content. Equal decisions are counted, not stored again (docs/semantics.md#R5.5)."""
        content: Json = {key: value for key, value in self.evidence.items() if key != "blockers"}
        # The motion of a blocker changes often and does not matter to the reader.
        content["blockers"] = [blocker["workflowSlug"] for blocker in self.evidence.get("blockers", ())]
        return short_hash(json.dumps([self.outcome, self.reason, content], sort_keys=True, default=str))


def short_hash(text: str) -> str:
    """Return the first 128 bits of a hash, as hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
