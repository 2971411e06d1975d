"""What each success has read of append sources: every delivery is in exactly one increment, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from freshline.definitions.schema.workflow import Workflow
from freshline.model.deliveries import Deliveries, position_of
from freshline.model.run import ClaimedRun, PinnedInput
from freshline.worker.increments import plan_reading
from tests.store_harness import Lab

SKIPPED = """
SELECT (i.item ->> 'number')::bigint AS number FROM deliveries d, jsonb_array_elements(d.items) AS i (item)
 WHERE d.asset_id = %s AND i.item ? 'skipped' ORDER BY 1
"""
SNAPSHOTS = """
SELECT asset_id, sequence, run_id::text AS run_id, attempt, inputs FROM snapshots
 WHERE run_id IS NOT NULL OR delivery IS NULL ORDER BY asset_id, sequence
"""


@dataclass(frozen=True, slots=True)
class Increment:
    """What one attempt has read of a source. `full`: everything, because of a full refresh."""

    full: bool
    numbers: tuple[int, ...]
    skipped: frozenset[int]


@dataclass
class Increments:
    """The increments of all attempts. What was published says which of them count."""

    lab: Lab
    read: dict[tuple[str, int], dict[str, Increment]] = field(default_factory=dict)

    def claimed(self, run: ClaimedRun) -> None:
        """Check that a claim leaves out exactly what is skipped now."""
        for pinned in _delivering(run):
            assert pinned.deliveries is not None
            skipped = [row["number"] for row in self.lab.rows(SKIPPED, pinned.asset_id)]
            wanted = [number for number in skipped if number <= pinned.deliveries.last]
            assert list(pinned.deliveries.skipped) == wanted, f"{run.slug} does not leave out {wanted}"

    def note(self, run: ClaimedRun) -> None:
        """Read what is new, as a step does."""
        (step,) = Workflow.model_validate(run.definition).steps
        consumed = {item.asset_id for item in step.consumes}
        inputs = {asset_id: pinned for asset_id, pinned in run.inputs.items() if asset_id in consumed}
        reading = plan_reading(step, inputs, run.positions)
        found: dict[str, Increment] = {}
        for pinned in _delivering(run):
            assert pinned.deliveries is not None
            known = Deliveries(pinned.deliveries, partial(self.lab.store.runs.deliveries, pinned.asset_id, ""))
            new = known.after(reading.since.get(pinned.asset_id))
            full = reading.full_refresh_reason is not None
            skipped = frozenset(pinned.deliveries.skipped)
            found[pinned.asset_id] = Increment(full, tuple(one.number for one in new), skipped)
        self.read[run.id, run.attempt] = found

    def wrong(self) -> list[str]:
        """Return the versions whose increments do not hold each delivery once, in order."""
        before: dict[str, dict[str, list[int]]] = {}
        problems: list[str] = []
        for row in self.lab.rows(SNAPSHOTS):
            have = before.get(row["asset_id"], {})
            read = self.read.get((row["run_id"], row["attempt"]), {}) if row["run_id"] else {}
            now = {source: [*([] if one.full else have.get(source, [])), *one.numbers] for source, one in read.items()}
            before[row["asset_id"]] = now
            problems += [f"{row['asset_id']} {row['sequence']} {text}" for text in _problems(row, read, now)]
        return problems


def _problems(row: Mapping[str, Any], read: Mapping[str, Increment], now: Mapping[str, list[int]]) -> Iterator[str]:
    for source, pin in row["inputs"].items():
        last = position_of(pin["dataVersion"])
        if last is None:
            continue
        numbers = now.get(source, [])
        if numbers != sorted(set(numbers)):
            yield f"has deliveries of {source} twice or out of order: {numbers} (docs/semantics.md#R3.4)"
        wanted = set(range(1, last + 1))
        if lost := wanted - set(numbers) - read[source].skipped:
            yield f"lacks the deliveries {sorted(lost)} of {source} (docs/semantics.md#R3.4)"
        if beyond := set(numbers) - wanted:
            yield f"has the deliveries {sorted(beyond)} of {source}, which it is not pinned to"


def _delivering(run: ClaimedRun) -> list[PinnedInput]:
    return [pinned for pinned in run.inputs.values() if pinned.deliveries is not None]
