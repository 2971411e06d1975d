"""The compiled policy of one workflow, as `decide` and the services use it (docs/semantics.md#R2.1).

`definitions.policy` compiles it from a definition. The store keeps it as JSON in the row of the workflow.
Durations are whole milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from freshline.model.enums import Beyond, OnRetire, When
from freshline.model.json import Json


@dataclass(frozen=True, slots=True)
class Freshness:
    """How long an asset stays fresh (docs/semantics.md#R8.1). The limit that is reached first counts.

    `partitions`: of how many partitions, from the newest on.
    """

    ttl_ms: int | None = None
    cadence_ms: int | None = None
    offset_ms: int = 0
    cron: str | None = None
    timezone: str = "UTC"
    max_age_ms: int | None = None
    partitions: int = 1


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
class InputPartitions:
    """What a workflow declares about the partitions of an input.

    `mapping`: the stored form of a `partitions.Declaration`. `require`: how many partitions must have data, as users
    write it. None for `require` and `on_retire` is the default of the mapping, which follows from both partitionings.
    """

    mapping: Json = field(default_factory=dict)
    require: str | int | None = None
    grace_ms: int | None = None
    on_retire: OnRetire | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> InputPartitions:
        """Return the record that was stored as JSON."""
        on_retire = data.get("on_retire")
        return cls(**{**data, "on_retire": None if on_retire is None else OnRetire(on_retire)})


@dataclass(frozen=True, slots=True)
class InputPolicy:
    """One consumed asset. `triggers`: whether its change may cause a run (docs/semantics.md#R2.3).

    `partitions`: None if the definition says nothing about them.
    """

    asset_id: str
    triggers: bool
    max_age_ms: int | None = None
    partitions: InputPartitions | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> InputPolicy:
        """Return the record that was stored as JSON."""
        declared = data.get("partitions")
        return cls(**{**data, "partitions": None if declared is None else InputPartitions.from_json(declared)})


@dataclass(frozen=True, slots=True)
class OutputPolicy:
    """One produced asset.

    `enabled`: the output has an enabled `autoMaterialize` block, so its expiry causes a run (docs/semantics.md#R2.4).
    """

    asset_id: str
    enabled: bool
    optional: bool = False
    freshness: Freshness = Freshness()


@dataclass(frozen=True, slots=True)
class Flood:
    """How many old partitions may be recomputed without an approval, and what happens to more."""

    limit: int = 100
    beyond: Beyond = Beyond.PROPOSE


@dataclass(frozen=True)
class Policy:
    """The merged policy of a workflow.

    `declared`: an output has an `autoMaterialize` block, or an input triggers.
    `automatic`: at least one of these blocks is enabled.
    `partitioning`: of all outputs, in the stored form of the package `partitions`; None without partitions.
    `predecessors`: outputs of which a partition reads earlier partitions. They are not among `inputs`.
    `retain_ms`, `frozen_after_ms`: how long after its window a partition is kept, and run automatically.
    `batch`: a run may compute several partitions.
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
    partitioning: Json | None = None
    predecessors: tuple[InputPolicy, ...] = ()
    flood: Flood = Flood()
    retain_ms: int | None = None
    frozen_after_ms: int | None = None
    batch: bool = False

    # Every decision needs these sets: they are computed once per policy.

    @cached_property
    def triggering(self) -> frozenset[str]:
        """Inputs whose change may cause a run."""
        return frozenset(i.asset_id for i in (*self.inputs, *self.predecessors) if i.triggers)

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
        """Return plain data for the store.

        Fields about partitions are left out where they say nothing: a process of an older version does not know them.
        """
        data = asdict(self)
        _leave_out(data, _NO_PARTITIONS)
        for item in (*data["inputs"], *data.get("predecessors", ())):
            _leave_out(item, {"partitions": None})
        for output in data["outputs"]:
            _leave_out(output["freshness"], {"partitions": 1})
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Policy:
        """Return the policy that `as_json` was called on. Fields that an older version did not store have defaults."""
        rest = {key: value for key, value in data.items() if key not in _NESTED}
        flood = data.get("flood")
        return cls(
            **rest,
            when=When(data["when"]),
            backoff=Backoff(**data["backoff"]),
            quiet_hours=tuple(QuietHours(**{**q, "days": tuple(q["days"])}) for q in data["quiet_hours"]),
            inputs=tuple(InputPolicy.from_json(i) for i in data["inputs"]),
            outputs=tuple(OutputPolicy(**{**o, "freshness": Freshness(**o["freshness"])}) for o in data["outputs"]),
            predecessors=tuple(InputPolicy.from_json(i) for i in data.get("predecessors", ())),
            flood=Flood(flood["limit"], Beyond(flood["beyond"])) if flood else Flood(),
        )


_NESTED = frozenset({"backoff", "quiet_hours", "inputs", "outputs", "when", "predecessors", "flood"})
_NO_PARTITIONS: Json = {
    "partitioning": None,
    "predecessors": (),
    "flood": asdict(Flood()),
    "retain_ms": None,
    "frozen_after_ms": None,
    "batch": False,
}


def _leave_out(data: Json, defaults: Json) -> None:
    for name, value in defaults.items():
        if data[name] == value:
            del data[name]
