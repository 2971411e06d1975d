"""The policy of one workflow, as `decide` and the services use it: frozen, merged (R2), free of the user's syntax.

`definitions.policy` makes it from a definition; the store keeps it as JSON beside the workflow.
Durations are whole milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from freshline.model.enums import When


@dataclass(frozen=True, slots=True)
class Freshness:
    """How long an asset stays fresh (R8.1). Any subset may be set; the first to run out counts."""

    ttl_ms: int | None = None
    cadence_ms: int | None = None
    offset_ms: int = 0
    cron: str | None = None
    timezone: str = "UTC"
    max_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class QuietHours:
    """No automatic run starts in this window. `days` name the day on which the window begins (0 = Monday)."""

    start: str  # "22:00"
    end: str  # "06:00"; not after start: the window crosses midnight
    days: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Backoff:
    """What happens after failures (R7). None: the materializer's own setting."""

    base_ms: int | None = None
    max_ms: int | None = None
    budget: int = 5
    probe_ms: int = 6 * 3_600_000


@dataclass(frozen=True, slots=True)
class InputPolicy:
    """One consumed asset. `triggers`: whether its change may cause a run (R2.3)."""

    asset_id: str
    triggers: bool
    max_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class OutputPolicy:
    """One produced asset. `enabled`: it has an enabled autoMaterialize block, so its expiry causes a run (R2.4)."""

    asset_id: str
    enabled: bool
    optional: bool = False
    freshness: Freshness = Freshness()


@dataclass(frozen=True)
class Policy:
    """The merged policy of a workflow (R2.1). `declared`: some output has a block, or some input triggers."""

    declared: bool
    automatic: bool
    on_missing: bool = True
    when: When = When.ANY
    priority: int = 100
    wait_for_upstream: bool = True
    max_wait_ms: int = 3_600_000
    debounce_ms: int = 0
    max_delay_ms: int | None = None
    min_interval_ms: int = 0
    backoff: Backoff = Backoff()
    quiet_hours: tuple[QuietHours, ...] = ()
    parameter_defaults: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[InputPolicy, ...] = ()
    outputs: tuple[OutputPolicy, ...] = ()

    # What every decision asks, found once for each policy.

    @cached_property
    def triggering(self) -> frozenset[str]:
        """Inputs whose change may cause a run (R2.3)."""
        return frozenset(i.asset_id for i in self.inputs if i.triggers)

    @cached_property
    def age_limits(self) -> Mapping[str, int]:
        """Inputs that must not be older than so many milliseconds."""
        return {i.asset_id: i.max_age_ms for i in self.inputs if i.max_age_ms is not None}

    @cached_property
    def expiring(self) -> frozenset[str]:
        """Outputs whose expiry causes a run (R2.4)."""
        return frozenset(o.asset_id for o in self.outputs if o.enabled)

    @cached_property
    def optional(self) -> frozenset[str]:
        """Outputs that a success may leave out (R7.4)."""
        return frozenset(o.asset_id for o in self.outputs if o.optional)

    def as_json(self) -> dict[str, Any]:
        """Plain data for the store."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Policy:
        """The inverse of `as_json`."""
        rest = {
            key: value
            for key, value in data.items()
            if key not in {"backoff", "quiet_hours", "inputs", "outputs", "when"}
        }
        return cls(
            **rest,
            when=When(data["when"]),
            backoff=Backoff(**data["backoff"]),
            quiet_hours=tuple(QuietHours(**{**q, "days": tuple(q["days"])}) for q in data["quiet_hours"]),
            inputs=tuple(InputPolicy(**i) for i in data["inputs"]),
            outputs=tuple(OutputPolicy(**{**o, "freshness": Freshness(**o["freshness"])}) for o in data["outputs"]),
        )
