"""The simulator: sources change, timers fire, workflows are evaluated, runs start and end, all in memory.

It keeps the facts that the store keeps and decides as the reconciler does. Every event adds considerations, and
`settle` decides the due ones, ancestors first, until none is due. A property test keeps it equal to the store and the
services. Time moves only when `now` is set.

Not modelled: manual runs, workers that die, and the delays of polling.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from freshline.decide import Decision
from freshline.decide.motion import Moving
from freshline.decide.presence import Present, present_inputs, with_present
from freshline.errors import ConflictError
from freshline.model.enums import Outcome, Reason, RunStatus, When
from freshline.model.state import Input, Moved, State, Version, reference, split_reference
from freshline.partitions.selection import EVERYTHING
from freshline.simulation.catalogue import Catalogue, Member
from freshline.simulation.considerations import Considerations
from freshline.simulation.motion import motion_of
from freshline.simulation.observer import Observer
from freshline.simulation.reading import Reading
from freshline.simulation.reconciler import Reconciler
from freshline.simulation.records import MOST_CHANGES, Asset, Run, RunQueue
from freshline.simulation.timers import Due, Timers
from freshline.simulation.workflow_state import WorkflowState

UP_TO_DATE = Decision(Outcome.SKIP, Reason.UP_TO_DATE)
# Only these holds can end with an unchanged production (docs/semantics.md#R9.3).
COUNT_PRODUCTIONS = frozenset({Reason.WAITING_FOR_ALL, Reason.INPUT_TOO_OLD, Reason.WAITING_FOR_UPSTREAM})


class Simulator:
    """The state of all workflows of a catalogue at one moment."""

    def __init__(
        self,
        catalogue: Catalogue,
        now: datetime,
        *,
        observer: Observer | None = None,
        jitter: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self.catalogue = catalogue
        self.now = now
        self.observer = observer or Observer()
        self.assets = {one: Asset(one) for one in catalogue.assets if not catalogue.graph.partitioning(one).columns}
        self.workflow_states = {workflow_id: WorkflowState(now) for workflow_id in catalogue.members}
        self.reading = Reading(catalogue)
        self._next_keys: list[tuple[datetime, str]] = []
        self._began = now
        self.active: dict[int, Run] = {}
        self.considerations = Considerations()
        self.timers = Timers(self.assets, catalogue.freshness)
        self.motion = motion_of(catalogue)
        self.queue = RunQueue()
        self._jitter = jitter
        self._reconciler = Reconciler(self)

    def copy(self) -> Simulator:
        """Return an independent copy. Immutable parts are shared."""
        graph = self.catalogue.graph
        return copy.deepcopy(self, {id(graph): graph})

    # Start.

    def start(self, *, fresh: bool) -> None:
        """Start the simulation. `fresh`: every asset was just produced; otherwise no asset was ever produced."""
        for asset in self.assets.values() if fresh else ():
            asset.append(first_version(asset.id), self.now, None)
            self.timers.arm(asset, self.now)
        for member in list(self.catalogue.members.values()):
            if fresh or (member.policy.automatic and not member.policy.on_missing):
                self._baseline(member, succeeded=fresh)
            if not fresh:
                self.note(member.id)
        self.timers.start(self.now)
        self._start_partitions(fresh=fresh)

    def _start_partitions(self, *, fresh: bool) -> None:
        """Evaluate the partitions that exist, and those that come to exist when their time has come."""
        graph = self.catalogue.graph
        partitioned = [one for one in self.catalogue.workflows if graph.partitioning_of(one).columns]
        for asset_id in self.catalogue.assets if fresh else ():
            for key in (
                graph.partitioning(asset_id).keys(EVERYTHING, self.now) if graph.partitioning(asset_id).columns else ()
            ):
                asset = self.asset(reference(asset_id, key))
                asset.append(first_version(asset.id), self.now, None)
        for workflow_id in partitioned:
            for number in self.reading.partitions(workflow_id, EVERYTHING, self.now):
                if fresh:
                    self._baseline(self.catalogue.members[number], succeeded=True)
                else:
                    self.note(number)
            self._move_clocks(workflow_id)
            self._await_key(self.catalogue.workflows[workflow_id].outputs[0])
        for asset_id in self.catalogue.sources:
            self._await_key(asset_id)
        if fresh and partitioned:
            for member in list(self.catalogue.members.values()):
                self._baseline(member, succeeded=True)

    def _await_key(self, asset_id: str) -> None:
        at = self.catalogue.graph.partitioning(asset_id).next_key_at(self.now)
        if at is not None:
            heapq.heappush(self._next_keys, (at, asset_id))

    def add_partitions(self) -> None:
        """Evaluate all partitions whose time has come, and those that read one whose time has come with its data."""
        while self._next_keys and self._next_keys[0][0] <= self.now:
            since, asset_id = heapq.heappop(self._next_keys)
            producer = self.catalogue.graph.producer(asset_id)
            if producer is not None:
                self._move_clocks(producer)
            for number in self.reading.arrived(asset_id, since, self.now, self._has_data):
                self.note(number)
            self._await_key(asset_id)

    def _has_data(self, name: str) -> bool:
        return name in self.assets and self.assets[name].head is not None

    def _move_clocks(self, workflow_id: int) -> None:
        """Let the freshness clocks of the newest partitions run, and no others."""
        for asset_id in self.catalogue.workflows[workflow_id].outputs:
            freshness = self.catalogue.freshness.get(asset_id)
            if freshness is not None:
                newest = self.reading.newest(asset_id, self.now, freshness.partitions)
                self.timers.keep(asset_id, [self.asset(one).id for one in newest], self.now)

    def asset(self, reference: str) -> Asset:
        """Return a partition of an asset, or an asset without partitions."""
        found = self.assets.get(reference)
        if found is None:
            found = self.assets[reference] = Asset(reference)
        return found

    def workflow_state(self, number: int) -> WorkflowState:
        """Return the state of a member."""
        found = self.workflow_states.get(number)
        if found is None:
            found = self.workflow_states[number] = WorkflowState(self._began)
        return found

    def producer(self, asset: Asset) -> int | None:
        """Return the member that produces an asset."""
        asset_id, key = split_reference(asset.id)
        workflow_id = self.catalogue.graph.producer(asset_id)
        return None if workflow_id is None else self.catalogue.member(workflow_id, key).id

    def outputs(self, member: Member) -> list[str]:
        """Return the references of what a member produces."""
        return [reference(one, member.partition_key) for one in member.outputs]

    def _baseline(self, member: Member, *, succeeded: bool) -> None:
        """Accept the existing heads as consumed (docs/semantics.md#R8.2)."""
        workflow = self.workflow_state(member.id)
        heads = {one: self.asset(one).head for one in self.reading.inputs(member, self.now)}
        workflow.consumed_versions = {
            one: Version(head.sequence, head.data_version) for one, head in heads.items() if head
        }
        workflow.fingerprint = member.job_fingerprint
        workflow.succeeded_at, workflow.mixed = (self.now, False) if succeeded else (None, True)

    def load_timers(self, due: Mapping[str, Due]) -> None:
        """Set the timers of assets that were restored from the store."""
        for asset_id, one in due.items():
            self.timers.load(self.assets[asset_id], one)

    def put_run(self, run: Run) -> None:
        """Add an active run."""
        self.active[run.workflow_id] = run
        self.motion.settle(run.workflow_id, Moving(run.status))
        if run.status is RunStatus.QUEUED:
            self.queue.push(run, self.catalogue.members[run.workflow_id].policy.priority)

    # Outside events.

    def report(self, asset_id: str, version: str | None = None, partition_key: str = "") -> bool:
        """Report a source; return whether its data changed (docs/semantics.md#R3.3)."""
        producer = self.catalogue.graph.producer(asset_id)
        if producer is not None:
            slug = self.catalogue.workflows[producer].slug
            raise ConflictError(f"asset {asset_id!r} is produced by workflow {slug!r}; only sources are reported")
        if partition_key:
            self.catalogue.graph.partitioning(asset_id).require_begun(partition_key, self.now)
        return self.change(asset_id, version, partition_key)

    def change(self, asset_id: str, version: str | None = None, partition_key: str = "") -> bool:
        """Add a snapshot to any asset; return whether its data changed."""
        asset = self.asset(self._reference(asset_id, partition_key))
        sequence = asset.head.sequence + 1 if asset.head else 1
        return self._append(asset, version or f"seq:{sequence}", None)

    def expire(self, asset_id: str, partition_key: str = "") -> None:
        """Let the freshness of an asset end now."""
        self.timers.expire(self.asset(self._reference(asset_id, partition_key)), self.now)

    def _reference(self, asset_id: str, partition_key: str) -> str:
        known = self.catalogue.asset(asset_id)
        return reference(known, self.catalogue.graph.partitioning(known).parse(partition_key))

    def pause(self, workflow_id: int, until: datetime | None = None) -> None:
        """Pause a workflow. A queued run is canceled, and its cause stays pending (docs/semantics.md#R8.3)."""
        run = self.active.get(workflow_id)
        if run is not None and run.status is RunStatus.QUEUED:
            self.end(run, RunStatus.CANCELED)
        workflow = self.workflow_state(workflow_id)
        workflow.paused, workflow.paused_until = True, until
        self._touch(workflow_id)

    def resume(self, workflow_id: int) -> None:
        """End a pause."""
        workflow = self.workflow_state(workflow_id)
        workflow.paused, workflow.paused_until = False, None
        self._touch(workflow_id)

    def reset(self, workflow_id: int) -> None:
        """Clear failures, breaker and cancellation."""
        self.workflow_state(workflow_id).reset()
        self._touch(workflow_id)

    # Runs.

    def claim(self) -> Run | None:
        """Start and return the most urgent queued run; None: nothing is queued."""
        run = self.queue.pop()
        if run is not None:
            self.begin(run)
        return run

    def begin(self, run: Run) -> None:
        """Start a run. Its pins are fixed from now on."""
        run.status, run.attempt, run.started_at = RunStatus.RUNNING, run.attempt + 1, self.now
        self.workflow_state(run.workflow_id).started_at = self.now
        self.motion.settle(run.workflow_id, Moving(RunStatus.RUNNING, origin=run.origin))

    def succeed(self, run: Run, versions: Mapping[str, str] | None = None, *, changed: bool = True) -> None:
        """Publish all outputs. One without a version gets a new one, or that of the head if `changed` is False."""
        member, unchanged = self.catalogue.members[run.workflow_id], []
        for one in self.outputs(member):
            asset = self.asset(one)
            asset.sources = run.sources
            same = asset.head.data_version if asset.head and not changed else None
            if not self._append(asset, (versions or {}).get(one) or same or f"{one}:{run.id}", run):
                unchanged.append(split_reference(one)[0])
            if self.catalogue.graph.partitioning_of(member.workflow_id).is_dynamic:
                self._move_clocks(member.workflow_id)
            self.timers.arm(asset, self.now)
        runs_avoided = self.catalogue.triggered_by(unchanged) if unchanged else 0
        fingerprint = run.job_fingerprint or member.job_fingerprint
        self.workflow_state(member.id).succeed(run, fingerprint, self.now, runs_avoided)
        self.considerations.forget_wait(member.id)
        self._forget(member)
        if self._satisfied(member, run):
            self.considerations.wake([member.id], self.now)
            self.observer.decided(self, member, UP_TO_DATE, None)
        else:
            self._touch(member.id)
        self.end(run, RunStatus.SUCCEEDED)

    def _satisfied(self, member: Member, run: Run) -> bool:
        """Return whether no evaluation is needed: a success on the current heads leaves no cause."""
        heads = ((self.asset(one).head, run.pins.get(one)) for one in self.reading.inputs(member, self.now))
        as_read = all(head and pin and head.sequence == pin.sequence for head, pin in heads)
        return as_read and run.job_fingerprint is None and self.considerations.get(member.id) is None

    def fail(self, run: Run) -> None:
        """Fail a run. Nothing is published."""
        backoff = self.catalogue.members[run.workflow_id].policy.backoff
        self.workflow_state(run.workflow_id).fail(run, backoff, self.now, self._jitter())
        self._touch(run.workflow_id)
        self.end(run, RunStatus.FAILED)

    def cancel(self, run: Run) -> None:
        """Cancel a run on behalf of a user."""
        self.workflow_state(run.workflow_id).cancel(run)
        self._touch(run.workflow_id)
        self.end(run, RunStatus.CANCELED)

    def end(self, run: Run, status: RunStatus) -> None:
        """End a run. The caller handles the consequences."""
        run.status, run.finished_at = status, self.now
        del self.active[run.workflow_id]
        self.motion.settle(run.workflow_id, None)
        self.observer.ended(self, run)

    def _append(self, asset: Asset, version: str, run: Run | None) -> bool:
        changed = asset.append(version, self.now, run.id if run else None, run.origin if run else None)
        self.reading.see(asset.id)
        for workflow_id in self.reading.consumers(asset.id, self.now):
            if changed or self.considerations.hold_of(workflow_id) in COUNT_PRODUCTIONS:
                self.note(workflow_id, run.origin if run else None)
        self.observer.published(self, asset, run, changed=changed)
        return changed

    def _forget(self, member: Member) -> None:
        """Drop the changes that all readers have consumed."""
        for name in self.reading.inputs(member, self.now):
            asset = self.asset(name)
            if len(asset.sequences) > MOST_CHANGES:
                readers = self.reading.consumers(name, self.now)
                consumed = (self.workflow_state(one).consumed_versions for one in readers)
                asset.forget(min(one[name].sequence for one in consumed if name in one))

    # Decisions.

    def note(self, workflow_id: int, origin: datetime | None = None) -> None:  # noqa: ARG002 - for delays in tests
        """Evaluate the workflow at the next `settle`. `origin`: when the root of the reason happened."""
        self.considerations.add(workflow_id, self.now)

    def _touch(self, workflow_id: int) -> None:
        """Evaluate the workflow, and those that wait for it, at the next `settle`."""
        self.considerations.add(workflow_id, self.now)
        self.considerations.wake([workflow_id], self.now)

    def settle(self) -> None:
        """Fire timers and decide due workflows until none is due."""
        self._reconciler.settle()

    def next_moment(self) -> datetime | None:
        """Return the time of the next timer or scheduled evaluation."""
        keys = self._next_keys[0][0] if self._next_keys else None
        moments = (self.timers.next(), self.considerations.next_evaluation(), keys)
        return min((moment for moment in moments if moment is not None), default=None)

    def peek(self, member: Member) -> Decision:
        """Return the decision about the workflow now, without applying it."""
        return self._reconciler.decide(member, self.state(member))

    def advance(self, to: datetime) -> None:
        """Let time pass, with everything that becomes due in between."""
        self.settle()
        while (moment := self.next_moment()) is not None and moment <= to:
            self.now = max(self.now, moment)
            self.settle()
        self.now = max(self.now, to)

    def sources_of(self, member: Member) -> dict[str, int]:
        """Return the sequences of the sources that the heads of the inputs were made from."""
        found: dict[str, int] = {}
        for name in self.reading.inputs(member, self.now):
            asset = self.asset(name)
            found |= asset.sources
            if asset.head is not None and self.catalogue.graph.producer(split_reference(name)[0]) is None:
                found[name] = asset.head.sequence
        return found

    def _sources(self, member: Member) -> dict[str, Moved]:
        """Return how far the sources above have moved since the last success, where the decision needs it."""
        outputs = self.outputs(member)
        made = self.asset(outputs[0]).sources if outputs and member.policy.when is When.ALL else {}
        before = {**made, **self.workflow_state(member.id).round}
        heads = {one: self.asset(one).head for one in made}
        return {one: Moved(head.sequence, before[one]) for one, head in heads.items() if head}

    def state(self, member: Member) -> State:
        """Return the state of one workflow, as the store loads it."""
        workflow, known = self.workflow_state(member.id), self.considerations.get(member.id)
        read = self._inputs(member, workflow.consumed_versions)
        outputs = tuple([self.asset(one).output() for one in self.outputs(member)])
        found = workflow.state(member, outputs, self.active.get(member.id), known.evaluations if known else 0)
        waited = workflow.waited + (known.waited_until(self.now) if known else timedelta(0))
        return replace(with_present(found, read), waited=waited, sources=self._sources(member))

    def _inputs(self, member: Member, consumed: Mapping[str, Version]) -> Present:
        """Return the inputs that count."""
        graph = self.catalogue.graph
        if not graph.partitioned:
            return Present([self.assets[one].input(consumed.get(one)) for one in member.inputs])
        return present_inputs(
            graph,
            (member.workflow_id, member.partition_key),
            self.reading.expected(member, self.now),
            lambda one: [self._read(reference(one.asset_id, key), consumed) for key in one.keys],
            self.now,
        )

    def _read(self, name: str, consumed: Mapping[str, Version]) -> Input:
        return self.asset(name).input(consumed.get(name))


def first_version(asset_id: str) -> str:
    """Return the version of an asset in a simulation that starts fresh."""
    return f"{asset_id}@1"
