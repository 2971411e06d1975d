"""The world: sources change, clocks run out, workflows are looked at, runs begin and end; all of it in memory.

It keeps the facts that the store keeps and decides as the reconciler does: whatever happens notes considerations, and
`settle` decides those that are due, ancestors first, until nothing is. A property test holds it equal to the store
and the services. Time moves only when `now` is set.

Not modelled: partitions, manual runs, workers that die, and the delays of polling.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from freshline.decide import Decision, Renewal, decide
from freshline.decide.batch import moving_after, with_blockers
from freshline.decide.motion import Moving
from freshline.errors import ConflictError
from freshline.model.state import Canceled, Failures, State, Version
from freshline.model.words import Outcome, Reason, RunStatus
from freshline.world.agenda import Agenda
from freshline.world.catalogue import Catalogue, Member
from freshline.world.clocks import EXPIRY, Clocks, Due
from freshline.world.motion import Motion
from freshline.world.records import MOST_CHANGES, NO_FAILURES, Asset, Partition, Run

DUE, RUNNING = Moving("due"), Moving("running")
# An unchanged production counts for these alone (R9.3).
COUNT_PRODUCTIONS = frozenset({Reason.WAITING_FOR_ALL, Reason.INPUT_TOO_OLD, Reason.WAITING_FOR_UPSTREAM})
# Only an event can end these, and here no event gets lost: a look in between would find the same.
ENDED_BY_EVENTS = frozenset({Reason.INPUT_MISSING, Reason.WAITING_FOR_ALL, Reason.CANCELED, Reason.PAUSED})


class Witness:
    """Is told what happens in a world. This one does not care."""

    def decided(self, world: World, member: Member, decision: Decision, run: Run | None) -> None:
        """A workflow was looked at; `run`: the one that was queued or renewed."""

    def published(self, world: World, asset: Asset, run: Run | None, *, changed: bool) -> None:
        """An asset has a new snapshot; no run: a source was reported."""

    def ended(self, world: World, run: Run) -> None:
        """A run succeeded, failed or was canceled."""

    def overdue(self, world: World, asset: Asset) -> None:
        """An asset is older than its `maxAge`."""


class World:
    """All facts about the workflows of a catalogue, at one moment."""

    def __init__(
        self,
        catalogue: Catalogue,
        now: datetime,
        *,
        witness: Witness | None = None,
        jitter: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self.catalogue = catalogue
        self.now = now
        self.witness = witness or Witness()
        self.assets = {asset_id: Asset(asset_id) for asset_id in catalogue.assets}
        self.partitions = {workflow_id: Partition(now) for workflow_id in catalogue.members}
        self.active: dict[int, Run] = {}
        self.agenda = Agenda()
        self._jitter = jitter
        self._clocks = Clocks(self.assets, catalogue.freshness)
        self._motion = Motion(catalogue)
        self._queue: list[tuple[float, int, Run]] = []
        self._count = 0

    def copy(self) -> World:
        """Another world that goes its own way; what never changes is shared."""
        graph = self.catalogue.graph
        return copy.deepcopy(self, {id(graph): graph})

    # How it begins.

    def start(self, *, fresh: bool) -> None:
        """`fresh`: every asset was just made from the others. Otherwise nothing was ever made."""
        for asset in self.assets.values() if fresh else ():
            asset.append(first_version(asset.id), self.now, None)
            self._clocks.arm(asset, self.now)
        for member in self.catalogue.members.values():
            if fresh or (member.policy.automatic and not member.policy.on_missing):
                self._baseline(member, succeeded=fresh)
            if not fresh:
                self.note(member.id)
        self._clocks.start(self.now)

    def _baseline(self, member: Member, *, succeeded: bool) -> None:
        """What is there is accepted as read (R8.2)."""
        partition = self.partitions[member.id]
        heads = {one: self.assets[one].head for one in member.inputs}
        partition.vector = {one: Version(head.sequence, head.data_version) for one, head in heads.items() if head}
        partition.fingerprint = member.job_fingerprint
        partition.succeeded_at, partition.mixed = (self.now, False) if succeeded else (None, True)

    def load_clocks(self, due: Mapping[str, Due]) -> None:
        """When assets run out whose heads were put in from elsewhere."""
        for asset_id, one in due.items():
            self._clocks.load(self.assets[asset_id], one)

    def put_run(self, run: Run) -> None:
        """A run that is there already."""
        self.active[run.workflow_id] = run
        self._motion.settle(run.workflow_id, Moving(run.status))
        if run.status is RunStatus.QUEUED:
            self._enqueue(run, self.catalogue.members[run.workflow_id].policy.priority)

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
        self._clocks.expire(self.assets[self.catalogue.asset(asset_id)], self.now)

    def pause(self, workflow_id: int, until: datetime | None = None) -> None:
        """No automatic run starts until then; a queued one ends, what it was for stays pending (R8.3)."""
        run = self.active.get(workflow_id)
        if run is not None and run.status is RunStatus.QUEUED:
            self._end(run, RunStatus.CANCELED)
            self.witness.ended(self, run)
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
        partition = self.partitions[workflow_id]
        partition.failures, partition.canceled = NO_FAILURES, None
        partition.cause_repeats, partition.success_cause = 0, None
        self._touch(workflow_id)

    # Runs.

    def claim(self) -> Run | None:
        """The most urgent queued run begins (R11.8); None: there is none."""
        while self._queue:
            run = heapq.heappop(self._queue)[2]
            if run.status is RunStatus.QUEUED:
                self.begin(run)
                return run
        return None

    def begin(self, run: Run) -> None:
        """This run begins: its pins are fixed."""
        run.status, run.attempt, run.started_at = RunStatus.RUNNING, run.attempt + 1, self.now
        self.partitions[run.workflow_id].started_at = self.now
        self._motion.settle(run.workflow_id, RUNNING)

    def succeed(self, run: Run, versions: Mapping[str, str] | None = None, *, changed: bool = True) -> None:
        """All outputs are published; one without a version has a new one, or with `changed` False the head's (R9)."""
        partition = self.partitions[run.workflow_id]
        member = self.catalogue.members[run.workflow_id]
        self._end(run, RunStatus.SUCCEEDED)
        for asset_id in member.outputs:
            asset = self.assets[asset_id]
            same = asset.head.data_version if asset.head and not changed else None
            self._append(asset, (versions or {}).get(asset_id) or same or f"{asset_id}:{run.id}", run)
            self._clocks.arm(asset, self.now)
        repeated = partition.success_cause == run.cause
        partition.cause_repeats = partition.cause_repeats + 1 if repeated else 1
        partition.success_cause, partition.vector, partition.mixed = run.cause, run.pins, run.mixed
        partition.fingerprint, partition.succeeded_at = run.job_fingerprint or member.job_fingerprint, self.now
        partition.failures, partition.canceled = NO_FAILURES, None
        self._touch(run.workflow_id)
        self._forget(member)
        self.witness.ended(self, run)

    def fail(self, run: Run) -> None:
        """Nothing is published; the cooldown begins, and after the budget the breaker opens (R7)."""
        self._end(run, RunStatus.FAILED)
        partition = self.partitions[run.workflow_id]
        backoff, before = self.catalogue.members[run.workflow_id].policy.backoff, partition.failures
        cooldown = min(backoff.max_ms or 0, (backoff.base_ms or 0) * 2 ** min(before.count, 40)) * self._jitter()
        opened = self.now if before.count + 1 >= backoff.budget else None
        partition.failures = Failures(
            before.count + 1,
            self.now,
            self.now + timedelta(milliseconds=cooldown),
            before.breaker_at or opened,
            {asset_id: pin.data_version for asset_id, pin in run.pins.items()},
        )
        self._touch(run.workflow_id)
        self.witness.ended(self, run)

    def cancel(self, run: Run) -> None:
        """A user ends the run: it is not asked for again with these versions (R5.3)."""
        self._end(run, RunStatus.CANCELED)
        expiry = run.trigger.get("expiry")
        expired = datetime.fromisoformat(expiry["expiresAt"]) if expiry else None
        pins = {asset_id: pin.data_version for asset_id, pin in run.pins.items()}
        self.partitions[run.workflow_id].canceled = Canceled(run.version, pins, expired)
        self._touch(run.workflow_id)
        self.witness.ended(self, run)

    def _end(self, run: Run, status: RunStatus) -> None:
        run.status, run.finished_at = status, self.now
        del self.active[run.workflow_id]
        self._motion.settle(run.workflow_id, None)

    def _append(self, asset: Asset, version: str, run: Run | None) -> bool:
        changed = asset.append(version, self.now, run.id if run else None)
        for workflow_id in self.catalogue.graph.consumers(asset.id):
            if changed or self.agenda.hold_of(workflow_id) in COUNT_PRODUCTIONS:
                self.note(workflow_id)
        self.witness.published(self, asset, run, changed=changed)
        return changed

    def _forget(self, member: Member) -> None:
        """Changes that all readers have read are not needed any more."""
        for asset_id in member.inputs:
            asset = self.assets[asset_id]
            if len(asset.sequences) > MOST_CHANGES:
                vectors = (self.partitions[one].vector for one in self.catalogue.graph.consumers(asset_id))
                asset.forget(min(vector[asset_id].sequence for vector in vectors if asset_id in vector))

    # Deciding.

    def note(self, workflow_id: int) -> None:
        """The workflow has to be looked at now."""
        self.agenda.note(workflow_id, self.now)

    def _touch(self, workflow_id: int) -> None:
        """Something about the workflow itself happened: it and whoever waits for it are looked at (R11.4)."""
        self.agenda.note(workflow_id, self.now)
        self.agenda.wake([workflow_id], self.now)

    def settle(self) -> None:
        """Fire clocks and decide what is due, until nothing is."""
        while True:
            self._fire()
            batch = self.agenda.take(self.now)
            if not batch:
                return
            for workflow_id in batch:
                if workflow_id not in self.active:
                    self._motion.settle(workflow_id, DUE)
            self._decide(sorted(batch, key=self.catalogue.rank.__getitem__))

    def next_moment(self) -> datetime | None:
        """When something happens by itself: a clock runs out, or a hold is looked at again."""
        found = [moment for moment in (self._clocks.next(), self.agenda.next_look()) if moment is not None]
        return min(found, default=None)

    def _fire(self) -> None:
        for asset, kind in self._clocks.fire(self.now):
            producer = self.catalogue.graph.producer(asset.id)
            if kind != EXPIRY:
                self.witness.overdue(self, asset)
            elif producer is not None:
                self.note(producer)

    def _decide(self, batch: list[int]) -> None:
        settled = []
        for workflow_id in batch:
            member = self.catalogue.members[workflow_id]
            state = self.state(member)
            decision = self._judge(member, state)
            self._obey(member, state, decision)
            self._motion.settle(workflow_id, moving_after(state, decision))
            if decision.blocks_until is not None:
                self.agenda.rouse(workflow_id, self.now)
            elif decision.outcome is not Outcome.RUN and decision.blocker_id is None:
                settled.append(workflow_id)
        self.agenda.wake(settled, self.now)

    def peek(self, member: Member) -> Decision:
        """What would be decided about the workflow now; nothing happens."""
        return self._judge(member, self.state(member))

    def _judge(self, member: Member, state: State) -> Decision:
        """Where no ancestor moves there are no blockers to be found."""
        if self._motion.above(member.id):
            state = with_blockers(member.policy, state, self._motion)
        return decide(member.policy, state, self.now)

    def advance(self, to: datetime) -> None:
        """Let the time pass, from one moment to the next."""
        self.settle()
        while (moment := self.next_moment()) is not None and moment <= to:
            self.now = max(self.now, moment)
            self.settle()
        self.now = max(self.now, to)

    def state(self, member: Member) -> State:
        """All facts about one workflow, as the store reads them."""
        partition, known = self.partitions[member.id], self.agenda.get(member.id)
        vector, assets, run = partition.vector, self.assets, self.active.get(member.id)
        return State(
            workflow_id=member.id,
            slug=member.slug,
            partition_key="",
            version=member.version,
            job_fingerprint=member.job_fingerprint,
            applied_at=partition.applied_at,
            inputs=tuple([assets[one].input(vector.get(one)) for one in member.inputs]),
            outputs=tuple([assets[one].output() for one in member.outputs]),
            succeeded_fingerprint=partition.fingerprint,
            succeeded_at=partition.succeeded_at,
            started_at=partition.started_at,
            success_cause=partition.success_cause,
            cause_repeats=partition.cause_repeats,
            mixed=partition.mixed,
            active=run.active() if run else None,
            paused=partition.paused,
            paused_until=partition.paused_until,
            failures=partition.failures,
            canceled=partition.canceled,
            looks=known.looks if known else 0,
        )

    def _obey(self, member: Member, state: State, decision: Decision) -> None:
        run = self._renew(self.active[member.id], decision.renewal) if decision.renewal else None
        if decision.superseded:
            gone = self.active[member.id]
            self._end(gone, RunStatus.CANCELED)
            self.witness.ended(self, gone)
        if decision.run is not None:
            new = decision.run
            self._count += 1
            run = Run(
                f"r{self._count}", member.id, member.slug, member.version, new.trigger, new.pins, new.cause, new.mixed,
                self.now,
            )  # fmt: skip
            self.active[member.id] = run
            self._enqueue(run, new.priority)
        sleeps = decision.next_look is not None and _ends_by_event(member, state, decision)
        self.agenda.decided(member.id, decision, sleeps=sleeps, until=_patience(decision))
        self.witness.decided(self, member, decision, run)

    @staticmethod
    def _renew(run: Run, renewal: Renewal) -> Run:
        run.trigger, run.pins, run.cause, run.mixed = renewal.trigger, renewal.pins, renewal.cause, renewal.mixed
        return run

    def _enqueue(self, run: Run, priority: int) -> None:
        """Ten seconds of waiting are worth one point of priority (R11.8)."""
        self._count += 1
        heapq.heappush(self._queue, (run.queued_at.timestamp() + 10 * priority, self._count, run))


def first_version(asset_id: str) -> str:
    """What an asset holds in a world that begins fresh."""
    return f"{asset_id}@1"


def _ends_by_event(member: Member, state: State, decision: Decision) -> bool:
    """Whether the next look is a safety net that a world does not need."""
    if decision.reason is Reason.IN_FLIGHT:
        return state.active is not None and state.active.status is RunStatus.RUNNING
    if decision.reason is Reason.WAITING_FOR_UPSTREAM:
        return not member.changes_with_time
    unending = decision.reason in ENDED_BY_EVENTS and decision.blocks_until is None
    return unending and (decision.reason is Reason.INPUT_MISSING or not member.changes_with_time)


def _patience(decision: Decision) -> datetime | None:
    """When a wait for ancestors ends, whatever they do (R4.5)."""
    end = decision.evidence.get("deadline") if decision.reason is Reason.WAITING_FOR_UPSTREAM else None
    return datetime.fromisoformat(end) if end else None
