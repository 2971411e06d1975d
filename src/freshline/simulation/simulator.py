"""The simulator: sources change, clocks run out, workflows are looked at, runs begin and end; all of it in memory.

It keeps the facts that the store keeps and decides as the reconciler does: whatever happens notes considerations, and
`settle` decides those that are due, ancestors first, until nothing is. A property test holds it equal to the store
and the services. Time moves only when `now` is set.

Not modelled: partitions, manual runs, workers that die, and the delays of polling.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import datetime

from freshline.decide import Decision
from freshline.decide.motion import Moving
from freshline.errors import ConflictError
from freshline.model.enums import Outcome, Reason, RunStatus
from freshline.model.state import State, Version
from freshline.simulation.catalogue import Catalogue, Member
from freshline.simulation.considerations import Considerations
from freshline.simulation.motion import Motion
from freshline.simulation.observer import Observer
from freshline.simulation.queue import Queue
from freshline.simulation.reconciler import Reconciler
from freshline.simulation.records import MOST_CHANGES, Asset, Run
from freshline.simulation.timers import Due, Timers
from freshline.simulation.workflow_state import Partition

RUNNING = Moving("running")
UP_TO_DATE = Decision(Outcome.SKIP, Reason.UP_TO_DATE)
# An unchanged production counts for these alone (R9.3).
COUNT_PRODUCTIONS = frozenset({Reason.WAITING_FOR_ALL, Reason.INPUT_TOO_OLD, Reason.WAITING_FOR_UPSTREAM})


class Simulator:
    """All facts about the workflows of a catalogue, at one moment."""

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
        self.assets = {asset_id: Asset(asset_id) for asset_id in catalogue.assets}
        self.partitions = {workflow_id: Partition(now) for workflow_id in catalogue.members}
        self.active: dict[int, Run] = {}
        self.considerations = Considerations()
        self.timers = Timers(self.assets, catalogue.freshness)
        self.motion = Motion(catalogue)
        self.queue = Queue()
        self._jitter = jitter
        self._reconciler = Reconciler(self)

    def copy(self) -> Simulator:
        """Another world that goes its own way; what never changes is shared."""
        graph = self.catalogue.graph
        return copy.deepcopy(self, {id(graph): graph})

    # How it begins.

    def start(self, *, fresh: bool) -> None:
        """`fresh`: every asset was just made from the others. Otherwise nothing was ever made."""
        for asset in self.assets.values() if fresh else ():
            asset.append(first_version(asset.id), self.now, None)
            self.timers.arm(asset, self.now)
        for member in self.catalogue.members.values():
            if fresh or (member.policy.automatic and not member.policy.on_missing):
                self._baseline(member, succeeded=fresh)
            if not fresh:
                self.note(member.id)
        self.timers.start(self.now)

    def _baseline(self, member: Member, *, succeeded: bool) -> None:
        """What is there is accepted as read (R8.2)."""
        partition = self.partitions[member.id]
        heads = {one: self.assets[one].head for one in member.inputs}
        partition.consumed_versions = {
            one: Version(head.sequence, head.data_version) for one, head in heads.items() if head
        }
        partition.fingerprint = member.job_fingerprint
        partition.succeeded_at, partition.mixed = (self.now, False) if succeeded else (None, True)

    def load_timers(self, due: Mapping[str, Due]) -> None:
        """When assets run out whose heads were put in from elsewhere."""
        for asset_id, one in due.items():
            self.timers.load(self.assets[asset_id], one)

    def put_run(self, run: Run) -> None:
        """A run that is there already."""
        self.active[run.workflow_id] = run
        self.motion.settle(run.workflow_id, Moving(run.status))
        if run.status is RunStatus.QUEUED:
            self.queue.push(run, self.catalogue.members[run.workflow_id].policy.priority)

    # What the outside does.

    def report(self, asset_id: str, version: str | None = None) -> bool:
        """A source changed; returns whether its content did (R3.3)."""
        producer = self.catalogue.graph.producer(asset_id)
        if producer is not None:
            slug = self.catalogue.members[producer].slug
            raise ConflictError(f"asset {asset_id!r} is produced by workflow {slug!r}; only sources are reported")
        return self.change(asset_id, version)

    def change(self, asset_id: str, version: str | None = None) -> bool:
        """Any asset has a new snapshot, whoever made it."""
        asset = self.assets[self.catalogue.asset(asset_id)]
        sequence = asset.head.sequence + 1 if asset.head else 1
        return self._append(asset, version or f"seq:{sequence}", None)

    def expire(self, asset_id: str) -> None:
        """As if the freshness of an asset had run out."""
        self.timers.expire(self.assets[self.catalogue.asset(asset_id)], self.now)

    def pause(self, workflow_id: int, until: datetime | None = None) -> None:
        """No automatic run starts until then; a queued one ends, what it was for stays pending (R8.3)."""
        run = self.active.get(workflow_id)
        if run is not None and run.status is RunStatus.QUEUED:
            self.end(run, RunStatus.CANCELED)
        partition = self.partitions[workflow_id]
        partition.paused, partition.paused_until = True, until
        self._touch(workflow_id)

    def resume(self, workflow_id: int) -> None:
        """A pause ends."""
        partition = self.partitions[workflow_id]
        partition.paused, partition.paused_until = False, None
        self._touch(workflow_id)

    def reset(self, workflow_id: int) -> None:
        """Forget failures, breaker and cancellation."""
        self.partitions[workflow_id].reset()
        self._touch(workflow_id)

    # Runs.

    def claim(self) -> Run | None:
        """The most urgent queued run begins (R11.8); None: there is none."""
        run = self.queue.pop()
        if run is not None:
            self.begin(run)
        return run

    def begin(self, run: Run) -> None:
        """This run begins: its pins are fixed."""
        run.status, run.attempt, run.started_at = RunStatus.RUNNING, run.attempt + 1, self.now
        self.partitions[run.workflow_id].started_at = self.now
        self.motion.settle(run.workflow_id, RUNNING)

    def succeed(self, run: Run, versions: Mapping[str, str] | None = None, *, changed: bool = True) -> None:
        """All outputs are published; one without a version has a new one, or with `changed` False the head's (R9)."""
        member, unchanged = self.catalogue.members[run.workflow_id], []
        for asset_id in member.outputs:
            asset = self.assets[asset_id]
            same = asset.head.data_version if asset.head and not changed else None
            if not self._append(asset, (versions or {}).get(asset_id) or same or f"{asset_id}:{run.id}", run):
                unchanged.append(asset_id)
            self.timers.arm(asset, self.now)
        runs_avoided = self.catalogue.triggered_by(unchanged) if unchanged else 0
        fingerprint = run.job_fingerprint or member.job_fingerprint
        self.partitions[member.id].succeed(run, fingerprint, self.now, runs_avoided)
        self._forget(member)
        if self._satisfied(member, run):
            self.considerations.wake([member.id], self.now)
            self.observer.decided(self, member, UP_TO_DATE, None)
        else:
            self._touch(member.id)
        self.end(run, RunStatus.SUCCEEDED)

    def _satisfied(self, member: Member, run: Run) -> bool:
        """A success on the heads leaves no cause (R1.1), and all that follows is an event: a look finds nothing."""
        heads = ((self.assets[one].head, run.pins.get(one)) for one in member.inputs)
        as_read = all(head and pin and head.sequence == pin.sequence for head, pin in heads)
        return as_read and run.job_fingerprint is None and self.considerations.get(member.id) is None

    def fail(self, run: Run) -> None:
        """Nothing is published; the cooldown begins, and after the budget the breaker opens (R7)."""
        backoff = self.catalogue.members[run.workflow_id].policy.backoff
        self.partitions[run.workflow_id].fail(run, backoff, self.now, self._jitter())
        self._touch(run.workflow_id)
        self.end(run, RunStatus.FAILED)

    def cancel(self, run: Run) -> None:
        """A user ends the run: it is not asked for again with these versions (R5.3)."""
        self.partitions[run.workflow_id].cancel(run)
        self._touch(run.workflow_id)
        self.end(run, RunStatus.CANCELED)

    def end(self, run: Run, status: RunStatus) -> None:
        """The run is over; what follows from its end is the caller's."""
        run.status, run.finished_at = status, self.now
        del self.active[run.workflow_id]
        self.motion.settle(run.workflow_id, None)
        self.observer.ended(self, run)

    def _append(self, asset: Asset, version: str, run: Run | None) -> bool:
        changed = asset.append(version, self.now, run.id if run else None)
        for workflow_id in self.catalogue.graph.consumers(asset.id):
            if changed or self.considerations.hold_of(workflow_id) in COUNT_PRODUCTIONS:
                self.note(workflow_id)
        self.observer.published(self, asset, run, changed=changed)
        return changed

    def _forget(self, member: Member) -> None:
        """Changes that all readers have read are not needed any more."""
        for asset_id in member.inputs:
            asset = self.assets[asset_id]
            if len(asset.sequences) > MOST_CHANGES:
                consumed = (self.partitions[one].consumed_versions for one in self.catalogue.graph.consumers(asset_id))
                asset.forget(min(one[asset_id].sequence for one in consumed if asset_id in one))

    # Deciding.

    def note(self, workflow_id: int) -> None:
        """The workflow has to be looked at now."""
        self.considerations.note(workflow_id, self.now)

    def _touch(self, workflow_id: int) -> None:
        """Something about the workflow itself happened: it and whoever waits for it are looked at (R11.4)."""
        self.considerations.note(workflow_id, self.now)
        self.considerations.wake([workflow_id], self.now)

    def settle(self) -> None:
        """Fire clocks and decide what is due, until nothing is."""
        self._reconciler.settle()

    def next_moment(self) -> datetime | None:
        """When something happens by itself: a clock runs out, or a hold is looked at again."""
        found = [moment for moment in (self.timers.next(), self.considerations.next_evaluation()) if moment is not None]
        return min(found, default=None)

    def peek(self, member: Member) -> Decision:
        """What would be decided about the workflow now; nothing happens."""
        return self._reconciler.judge(member, self.state(member))

    def advance(self, to: datetime) -> None:
        """Let the time pass, from one moment to the next."""
        self.settle()
        while (moment := self.next_moment()) is not None and moment <= to:
            self.now = max(self.now, moment)
            self.settle()
        self.now = max(self.now, to)

    def state(self, member: Member) -> State:
        """All facts about one workflow, as the store reads them."""
        partition, known, assets = self.partitions[member.id], self.considerations.get(member.id), self.assets
        consumed_versions = partition.consumed_versions
        inputs = tuple([assets[one].input(consumed_versions.get(one)) for one in member.inputs])
        outputs = tuple([assets[one].output() for one in member.outputs])
        return partition.state(member, inputs, outputs, self.active.get(member.id), known.evaluations if known else 0)


def first_version(asset_id: str) -> str:
    """What an asset holds in a world that begins fresh."""
    return f"{asset_id}@1"
