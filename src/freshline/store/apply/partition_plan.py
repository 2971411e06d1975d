"""Plans a change in a graph with partitions: the partitions that it reaches, decided one by one, ancestors first.

Nothing is simulated: there may be tens of thousands of partitions, of which a change reaches few. Each one that it
reaches is decided as if all before it had succeeded with changed output.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice

from freshline.decide import Decision, decide
from freshline.decide.batch import with_defaults
from freshline.graph import Graph
from freshline.model.documents.decision import PlannedHold, PlannedRun, Wave
from freshline.model.enums import Outcome, Reason
from freshline.model.moment import iso
from freshline.model.state import Failures, Head, Input, Moved, Pending, State, reference
from freshline.reading import Change, existing, fed_by
from freshline.settings import Settings
from freshline.simulation.plan import ASSUMES
from freshline.store.db.database import Connection
from freshline.store.evaluation import load_state
from freshline.store.evaluation.load_state import Key, LoadedWorkflow
from freshline.store.evaluation.newest import StoredNewest
from freshline.store.evaluation.partitions import known_keys

MOST = 10_000  # partitions of a workflow, from the newest on
CHUNK = 500
CHANGED = "changed"


@dataclass(slots=True)
class _Wave:
    """What was found so far. `moved`, `stuck`: the partitions of assets that would change, and that would not.

    `concerned`: of a workflow and an input without partitions, the partitions that a change now concerns.
    """

    graph: Graph
    settings: Settings
    now: datetime
    moved: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    stuck: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    concerned: dict[tuple[int, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    active: list[str] = field(default_factory=list)
    runs: list[PlannedRun] = field(default_factory=list)
    held: list[PlannedHold] = field(default_factory=list)
    cut: list[PlannedHold] = field(default_factory=list)

    def supposed(self, state: State) -> State:
        """Return the state after the change: what is active has succeeded, and inputs have their new versions."""
        settled = _settled(state)
        inputs = tuple(self._input(settled, one) for one in settled.inputs)
        sources = {
            one: Moved(moved.now + 1, moved.before) if one in self.moved else moved
            for one, moved in settled.sources.items()
        }
        return replace(settled, inputs=inputs, sources=sources)

    def _input(self, state: State, one: Input) -> Input:
        keys = self.moved.get(one.asset_id, {})
        if not keys or (one.partitions is None and one.partition_key not in keys):
            return one
        sequence = one.head.sequence + 1 if one.head else 1
        pending = one.pending
        return replace(
            one,
            head=Head(sequence, CHANGED, self.now),
            pending=Pending(pending.first_at if pending else self.now, self.now, pending.count + 1 if pending else 1),
            partitions=None if one.partitions is None else max(one.partitions, 1),
            concerns=one.concerns or state.partition_key in self.concerned[state.workflow_id, one.asset_id],
        )

    def add(self, loaded: LoadedWorkflow, *, was_active: bool) -> bool:
        """Decide about one partition and list it; return whether its output would change."""
        state, policy = loaded.state, with_defaults(loaded.policy, self.settings)
        decision, not_before = decide(policy, state, self.now), None
        if decision.reason is Reason.DEBOUNCING and decision.blocks_until is not None:
            later = decide(policy, state, decision.blocks_until)
            if later.run is not None:
                decision, not_before = later, decision.blocks_until
        changes = decision.run is not None or was_active
        if was_active:
            self.active.append(reference(state.slug, state.partition_key))
        if decision.run is not None:
            self.runs.append(self._run(state, decision, not_before, mixed=decision.run.mixed))
        elif not was_active:
            (self.cut if decision.outcome is Outcome.SKIP else self.held).append(self._hold(state, decision))
        into = self.moved if changes else self.stuck
        for output in state.outputs:
            into[output.asset_id][state.partition_key] = None
        return changes

    def _run(self, state: State, decision: Decision, not_before: datetime | None, *, mixed: bool) -> PlannedRun:
        return {
            "order": len(self.runs) + 1,
            "notBefore": iso(not_before),
            "workflowSlug": state.slug,
            "partitionKey": state.partition_key,
            "assets": [one.asset_id for one in state.outputs],
            "outcome": decision.outcome,
            "reason": decision.reason,
            "upstream": [one.reference for one in state.inputs if one.changed],
            "mixed": mixed,
        }

    def _hold(self, state: State, decision: Decision) -> PlannedHold:
        until = decision.blocks_until if decision.outcome is Outcome.HOLD else None
        behind = sorted(self._behind(state.inputs)) if decision.reason is Reason.UP_TO_DATE else []
        return {
            "workflowSlug": state.slug,
            "partitionKey": state.partition_key,
            "assets": [one.asset_id for one in state.outputs],
            "outcome": decision.outcome,
            "reason": decision.reason,
            "until": iso(until),
            "behind": behind,
            "evidence": decision.evidence,
        }

    def _behind(self, inputs: Iterable[Input]) -> Iterator[str]:
        for one in inputs:
            producer = self.graph.producer(one.asset_id)
            if producer is not None and one.partition_key in self.stuck.get(one.asset_id, {}):
                yield reference(self.graph.slugs[producer], one.partition_key)

    def wave(self) -> Wave:
        """Return the form of `freshline plan --json`."""
        return {
            "assumes": list(ASSUMES),
            "active": sorted(self.active),
            "runs": self.runs,
            "held": self.held,
            "cut": self.cut,
        }


def plan(connection: Connection, graph: Graph, asset_id: str, key: str, settings: Settings) -> Wave:
    """Return what would run, be held and not run if one partition of an asset changed now."""
    wave = _Wave(graph, settings, load_state.read(connection, graph, {}).now)
    wave.moved[asset_id][key] = None
    for workflow_id in graph.descendants(asset_id):
        own = graph.own_input(workflow_id)
        reached = _reached(connection, wave, workflow_id, graph.inputs(workflow_id))
        if own is None:
            for start in range(0, len(reached), CHUNK):
                _decide(connection, wave, workflow_id, reached[start : start + CHUNK])
            continue
        # Each partition reads earlier ones of the same table: one after another, the oldest first.
        waiting, done = set(reached), set[str]()
        while waiting - done and len(done) < MOST:
            first = min(waiting - done)
            done.add(first)
            if _decide(connection, wave, workflow_id, [first]):
                waiting |= set(_reached(connection, wave, workflow_id, [own]))
    return wave.wave()


def _reached(connection: Connection, wave: _Wave, workflow_id: int, inputs: Iterable[str]) -> list[str]:
    """Return the existing partitions of a workflow that read one that changes, or one that is stuck."""
    known, newest = known_keys(connection, wave.graph), StoredNewest(connection, wave.graph, wave.now)
    found: dict[str, None] = {}
    for asset_id in inputs:
        for key in (*wave.moved.get(asset_id, {}), *wave.stuck.get(asset_id, {})):
            fed = fed_by(wave.graph, Change(asset_id, key, wave.now), workflow_id, known, newest)
            reached = list(islice(existing(wave.graph, workflow_id, fed, wave.now, known), MOST))
            found |= dict.fromkeys(reached)
            if not key:
                wave.concerned[workflow_id, asset_id].update(reached)
    return sorted(found, reverse=True)[:MOST]


def _decide(connection: Connection, wave: _Wave, workflow_id: int, keys: Iterable[str]) -> bool:
    """Decide about partitions of a workflow; return whether one of them would change."""
    active: set[Key] = set()

    def supposed(state: State) -> State:
        if state.active is not None:
            active.add((state.workflow_id, state.partition_key))
        return wave.supposed(state)

    units = {(workflow_id, key): 0 for key in keys}
    read = load_state.read(connection, wave.graph, units, above=(), supposed=supposed)
    found = {one.state.partition_key: one for one in read.loaded if not one.retired}
    changes = [wave.add(found[key], was_active=(workflow_id, key) in active) for _, key in units if key in found]
    return any(changes)


def _settled(state: State) -> State:
    """Return the state after its queued or running run, which succeeds."""
    if state.active is None:
        return state
    pins = state.active.pins
    return replace(
        state,
        active=None,
        failures=Failures(),
        succeeded_fingerprint=state.job_fingerprint,
        inputs=tuple(replace(one, consumed=pins.get(one.reference, one.consumed)) for one in state.inputs),
        outputs=tuple(
            replace(one, expired=None, head=one.head or Head(1, CHANGED, state.applied_at)) for one in state.outputs
        ),
    )
