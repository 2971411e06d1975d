"""The compiled policy of one workflow, as `decide` and the services use it (docs/semantics.md#R2.1).

`definitions.policy` compiles it from a definition. The store keeps it as JSON in the row of the workflow.
Durations are whole milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from freshline.model.enums import When
from freshline.model.json import Json


@dataclass(frozen=True, slots=True)
class Freshness:
    """How long an asset stays fresh (docs/semantics.md#R8.1). The limit that is reached first counts."""

    ttl_ms: int | None = None
    cadence_ms: int | None = None
    offset_ms: int = 0
    cron: str | None = None
    timezone: str = "UTC"
    max_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class QuietHours:
    """A window in which no automatic run starts. `days`: the days on which the window begins (0 = Monday)."""

    start: str  # "22:00"
    end: str  # "06:00"; a window that ends before it starts crosses midnight
    days: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays after failures (docs/semantics.md#R7.2). None: the setting of the materializer."""

    base_ms: int | None = None
    max_ms: int | None = None
    budget: int = 5
    probe_ms: int = 6 * 3_600_000


@dataclass(frozen=True, slots=True)
class InputPolicy:
    """One consumed asset. `triggers`: whether its change may cause a run (docs/semantics.md#R2.3)."""

    asset_id: str
    triggers: bool
    max_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class OutputPolicy:
    """One produced asset.

    `enabled`: the output has an enabled `autoMaterialize` block, so its expiry causes a run (docs/semantics.md#R2.4).
    """

    asset_id: str
    enabled: bool
    optional: bool = False
    freshness: Freshness = Freshness()


@dataclass(frozen=True)
class Policy:
    """The merged policy of a workflow.

    `declared`: an output has an `autoMaterialize` block, or an input triggers.
    `automatic`: at least one of these blocks is enabled.
    """

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
    parameter_defaults: Json = field(default_factory=dict)
    inputs: tuple[InputPolicy, ...] = ()
    outputs: tuple[OutputPolicy, ...] = ()

    # Every decision needs these sets: they are computed once per policy.

    @cached_property
    def triggering(self) -> frozenset[str]:
        """Inputs whose change may cause a run."""
        return frozenset(i.asset_id for i in self.inputs if i.triggers)

    @cached_property
    def age_limits(self) -> Mapping[str, int]:
        """The maximum age in milliseconds of each input that has one."""
        return {i.asset_id: i.max_age_ms for i in self.inputs if i.max_age_ms is not None}

    @cached_property
    def expiring(self) -> frozenset[str]:
        """Outputs whose expiry causes a run."""
        return frozenset(o.asset_id for o in self.outputs if o.enabled)

    @cached_property
    def optional(self) -> frozenset[str]:
        """Outputs that a successful run may leave out (docs/semantics.md#R7.4)."""
        return frozenset(o.asset_id for o in self.outputs if o.optional)

    def as_json(self) -> Json:
        """Return plain data for the store."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Policy:
        """Return the policy that `as_json` was called on."""
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
