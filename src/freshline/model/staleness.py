"""What makes a partition stale, as versions that proposals list and users accept (docs/semantics.md#R14.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from freshline.model.json import Json
from freshline.model.moment import iso, parsed


class Counted(StrEnum):
    """How a stale partition counts for the flood guard (docs/semantics.md#R14.7).

    `shared`: what made it stale concerns every partition. `own`: it has a reason of its own. `listed`: an open proposal
    lists all of its reasons. `joined`: it is stale only by the apply that a proposal above lists.
    """

    SHARED = "shared"
    OWN = "own"
    LISTED = "listed"
    JOINED = "joined"


@dataclass(frozen=True, slots=True)
class Staleness:
    """The versions that differ from the last success.

    `inputs`: the data versions of changed inputs, by reference. `job`: the fingerprint of a job that did not make the
    outputs. `outputs`: the sequences of heads that others made. `expired_at`: of an output. `missing`: an output was
    never made.
    """

    inputs: Mapping[str, str] = field(default_factory=dict)
    job: str | None = None
    outputs: Mapping[str, int] = field(default_factory=dict)
    expired_at: datetime | None = None
    missing: bool = False

    def covers(self, other: Staleness) -> bool:
        """Return whether all of the other's versions are among these. An expiry covers earlier ones."""
        return (
            self.inputs.items() >= other.inputs.items()
            and other.job in {None, self.job}
            and self.outputs.items() >= other.outputs.items()
            and (self.missing or not other.missing)
            and self.ends(other.expired_at)
        )

    def ends(self, expired_at: datetime | None) -> bool:
        """Return whether an expiry is among these."""
        return expired_at is None or (self.expired_at is not None and expired_at <= self.expired_at)

    def with_(self, other: Staleness) -> Staleness:
        """Return both. Of an input or an output, the version of the other counts."""
        return Staleness(
            {**self.inputs, **other.inputs},
            other.job or self.job,
            {**self.outputs, **other.outputs},
            other.expired_at or self.expired_at,
            self.missing or other.missing,
        )

    def as_json(self) -> Json:
        """Return the stored form, without what does not differ."""
        found: Json = {
            "inputs": dict(self.inputs),
            "job": self.job,
            "outputs": dict(self.outputs),
            "expiredAt": iso(self.expired_at),
            "missing": self.missing,
        }
        return {name: value for name, value in found.items() if value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Staleness:
        """Return the record that was stored."""
        return cls(
            data.get("inputs", {}),
            data.get("job"),
            data.get("outputs", {}),
            parsed(data.get("expiredAt")),
            data.get("missing", False),
        )


NOTHING_STALE = Staleness()


class Listed(NamedTuple):
    """What a proposal lists about a partition. `approved`: it is an active backfill, and its turn comes."""

    backfill_id: str
    staleness: Staleness
    approved: bool = False


class FloodCounts(NamedTuple):
    """The partitions of a workflow that count, each up to one more than the limit.

    `stale`: those that are stale, that may be because they were not evaluated yet, or that started by themselves
    lately. `own`: of these, those without a reason of their own, and those that a proposal lists, do not count.
    """

    stale: int
    own: int
