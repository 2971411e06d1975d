"""The simulator: sources change, timers fire, workflows are evaluated, runs start and end, all in memory.

It keeps the facts that the store keeps and decides as the reconciler does. Every event adds considerations, and
`settle` decides the due ones, ancestors first, until none is due. A property test keeps it equal to the store and the
services. Time moves only when `now` is set.

Not modelled: manual runs, workers that die, and the delays of polling.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from freshline.decide import Decision
from freshline.decide.motion import Moving
from freshline.decide.presence import Present, present_inputs, with_present
from freshline.errors import ConflictError
from freshline.model.enums import Outcome, Reason, RunStatus, When
from freshline.model.state import Moved, State, Version, reference, split_reference
from freshline.partitions.selection import EVERYTHING
from freshline.reading import Expected
from freshline.simulation.arrivals import Arrivals
from freshline.simulation.backfills import Backfills
from freshline.simulation.beginning import begin
from freshline.simulation.catalogue import Catalogue, Member
from freshline.simulation.column_reads import versions_read
from freshline.simulation.considerations import Considerations
from freshline.simulation.floods import Floods
from freshline.simulation.motion import motion_of
from freshline.simulation.observer import Observer
from freshline.simulation.reading import Reading
from freshline.simulation.reconciler import Reconciler
from freshline.simulation.records import MOST_CHANGES, Asset, Run, RunQueue
from freshline.simulation.report_groups import ReportGroups
from freshline.simulation.retirement import Retirement
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
        self._began = now
        self.active: dict[int, Run] = {}
        self.considerations = Considerations()
        self.timers = Timers(self.assets, catalogue.freshness)
        self.motion = motion_of(catalogue)
        self.queue = RunQueue()
        self.retirement = Retirement(self)
        self.arrivals = Arrivals(self)
        self.backfills = Backfills(self)
        self._pauses: dict[int, datetime | None] = {}  # of workflows with partitions
        self.floods = Floods(self)
        self.report_groups = ReportGroups(self)
        self._jitter = jitter
        self._reconciler = Reconciler(self)

    def copy(self) -> Simulator:
        """Return an independent copy. Immutable parts are shared."""
        graph = self.catalogue.graph
        return copy.deepcopy(self, {id(graph): graph})

    # Start.

    def start(self, *, fresh: bool, data: Mapping[str, Collection[str]] | None = None) -> None:
        """Start the simulation. `fresh`: every asset was just produced; otherwise no asset was ever produced.

        `data`: the partitions that have data, of sources that are not fresh as a whole.
        """
        begin(self, fresh=fresh, data=data or {})

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
            workflow_id = self.catalogue.members[number].workflow_id
            found.paused, found.paused_until = workflow_id in self._pauses, self._pauses.get(workflow_id)
        return found

    def producer(self, asset: Asset) -> int | None:
        """Return the member that produces an asset."""
        asset_id, key = split_reference(asset.id)
        workflow_id = self.catalogue.graph.producer(asset_id)
        return None if workflow_id is None else self.catalogue.member(workflow_id, key).id

    def outputs(self, member: Member) -> list[str]:
        """Return the references of what a member produces."""
        return [reference(one, member.partition_key) for one in member.outputs]

    def baseline(self, member: Member, *, succeeded: bool) -> None:
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

    def report_together(self, reports: Iterable[tuple[str, str, str | None]]) -> None:
        """Report sources as one generation: asset, partition key and version of each (docs/semantics.md#R4.7)."""
        given = list(reports)
        for asset_id, key, version in given:
            self.report(asset_id, version, key)
        self.report_groups.add(self._reference(asset_id, key) for asset_id, key, _ in given)

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
        """Pause a workflow. Its queued runs are canceled, and their causes stay pending (docs/semantics.md#R8.3)."""
        for number in self.catalogue.members_of(workflow_id):
            run = self.active.get(number)
            if run is not None and run.status is RunStatus.QUEUED:
                self.end(run, RunStatus.CANCELED)
            workflow = self.workflow_state(number)
            workflow.paused, workflow.paused_until = True, until
        self._pauses[workflow_id] = until
        self._touch_all(workflow_id)

    def resume(self, workflow_id: int) -> None:
        """End a pause."""
        for number in self.catalogue.members_of(workflow_id):
            workflow = self.workflow_state(number)
            workflow.paused, workflow.paused_until = False, None
        self._pauses.pop(workflow_id, None)
        self._touch_all(workflow_id)

    def reset(self, workflow_id: int) -> None:
        """Clear failures, breaker and cancellation."""
        for number in self.catalogue.members_of(workflow_id):
            self.workflow_state(number).reset()
        self._touch_all(workflow_id)

    def _touch_all(self, workflow_id: int) -> None:
        """Evaluate a workflow, or all of its partitions that exist."""
        if not self.catalogue.graph.partitioning_of(workflow_id).columns:
            self._touch(workflow_id)
            return
        for number in self.reading.partitions(workflow_id, EVERYTHING, self.now):
            self.note(number)

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

    def succeed(
        self,
        run: Run,
        versions: Mapping[str, str] | None = None,
        *,
        changed: bool = True,
        columns: Mapping[str, Mapping[str, str]] | None = None,
        reads: Mapping[str, str] | None = None,
    ) -> None:
        """Publish all outputs. One without a version gets a new one, or that of the head if `changed` is False.

        `columns`: by output, the versions of sets of columns. `reads`: by input, the key of the set that the run reads.
        """
        member, unchanged = self.catalogue.members[run.workflow_id], []
        if self.retirement.has_removed(member):
            self.workflow_state(member.id).forget_failures()
            self._touch(member.id)
            self.end(run, RunStatus.SUCCEEDED)
            return
        for one in self.outputs(member):
            asset = self.asset(one)
            asset.sources = run.sources
            same = asset.current.data_version if asset.current and not changed else None
            if not self._append(
                asset, (versions or {}).get(one) or same or f"{one}:{run.id}", run, (columns or {}).get(one)
            ):
                unchanged.append(split_reference(one)[0])
            if self.catalogue.graph.partitioning_of(member.workflow_id).is_dynamic:
                self.arrivals.move_clocks(member.workflow_id)
            self.timers.arm(asset, self.now)
        runs_avoided = self.catalogue.triggered_by(unchanged) if unchanged else 0
        fingerprint = run.job_fingerprint or member.job_fingerprint
        read = versions_read(run, reads, self.asset)
        self.workflow_state(member.id).succeed(run, fingerprint, self.now, runs_avoided, read)
        self.backfills.satisfy(member, run)
        self.considerations.forget_wait(member.id)
        self._forget(member)
        if self._satisfied(member, run):
            self.floods.forget(member.id)
            self.considerations.wake([member.id], self.now)
            self.observer.decided(self, member, UP_TO_DATE, None)
        else:
            self._touch(member.id)
        self.end(run, RunStatus.SUCCEEDED)

    def _satisfied(self, member: Member, run: Run) -> bool:
        """Return whether no evaluation is needed: a success on the current heads leaves no cause."""
        heads = ((self.asset(one).current, run.pins.get(one)) for one in self.reading.inputs(member, self.now))
        as_read = all(head and pin and head.sequence == pin.sequence for head, pin in heads)
        known = self.considerations.get(member.id) is not None or self.backfills.wants(member.id)
        return as_read and run.job_fingerprint is None and not known

    def fail(self, run: Run) -> None:
        """Fail a run. Nothing is published."""
        backoff = self.catalogue.members[run.workflow_id].policy.backoff
        self.workflow_state(run.workflow_id).fail(run, backoff, self.now, self._jitter())
        self._touch(run.workflow_id)
        self.end(run, RunStatus.FAILED)

    def cancel(self, run: Run) -> None:
        """Cancel a run on behalf of a user."""
        backfill = self.backfills.known.get(run.backfill_id or "")
        if backfill is None or backfill.is_open:
            self.workflow_state(run.workflow_id).cancel(run)
        self._touch(run.workflow_id)
        self.end(run, RunStatus.CANCELED)

    def end(self, run: Run, status: RunStatus) -> None:
        """End a run. The caller handles the consequences."""
        run.status, run.finished_at = status, self.now
        del self.active[run.workflow_id]
        self.motion.settle(run.workflow_id, None)
        self.observer.ended(self, run)

    def _append(self, asset: Asset, version: str, run: Run | None, columns: Mapping[str, str] | None = None) -> bool:
        first = asset.head is None
        changed = asset.append(version, self.now, run.id if run else None, run.origin if run else None, columns)
        self.reading.produced(asset.id, self.now)
        for workflow_id in self.reading.consumers(asset.id, self.now, first=first):
            if changed or self.considerations.hold_of(workflow_id) in COUNT_PRODUCTIONS:
                self.note(workflow_id, run.origin if run else None)
        self.observer.published(self, asset, run, changed=changed)
        return changed

    def _forget(self, member: Member) -> None:
        """Drop the changes that all readers have consumed."""
        for name in self.reading.inputs(member, self.now):
            asset = self.asset(name)
            if len(asset.sequences) > MOST_CHANGES and self.reading.concerns_all(asset.asset_id):
                readers = self.reading.consumers(name, self.now)
                consumed = (self.workflow_state(one).consumed_versions for one in readers)
                asset.forget(min(one[name].sequence for one in consumed if name in one))

    # Decisions.

    def note(self, workflow_id: int, origin: datetime | None = None) -> None:  # noqa: ARG002 - for delays in tests
        """Evaluate the workflow at the next `settle`. `origin`: when the root of the reason happened."""
        self.considerations.add(workflow_id, self.now)

    def consider(self, workflow_id: int, origin: datetime) -> None:  # noqa: ARG002 - for delays in tests
        """Evaluate a partition whose turn in a backfill has come, at the next `settle`."""
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
        moments = (
            self.timers.next(),
            self.considerations.next_evaluation(),
            self.arrivals.next(),
            self.backfills.next_moment(),
            self.retirement.next(),
        )
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
        read = self._inputs(member, workflow)
        outputs = tuple([self.asset(one).output() for one in self.outputs(member)])
        found = workflow.state(member, outputs, self.active.get(member.id), known.evaluations if known else 0)
        if self.backfills.known:
            found = replace(found, demands=self.backfills.demands(member), backfills=self.backfills.recent())
        waited = workflow.waited + (known.waited_until(self.now) if known else timedelta(0))
        found = replace(with_present(found, read), waited=waited, sources=self._sources(member))
        return self.floods.apply(member, found)

    def _inputs(self, member: Member, workflow: WorkflowState) -> Present:
        """Return the inputs that count."""
        graph = self.catalogue.graph
        if not graph.partitioned:
            return Present(
                [workflow.input(self.asset(one), Expected(one, [""], outside=False)) for one in member.inputs]
            )
        return present_inputs(
            graph,
            (member.workflow_id, member.partition_key),
            self.reading.expected(member, self.now),
            lambda one: [workflow.input(self.asset(reference(one.asset_id, key)), one) for key in one.keys],
            self.now,
        )
