"""Backfills in a simulation: demands for partitions, their turns, and when they are done (docs/semantics.md#R14).

They follow the transactions of `store.backfills`. What is pure is shared: who belongs to a backfill, whose turn comes,
and when a demand has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from freshline.decide.backfill_parts import Turns, closure
from freshline.decide.motion import Moving
from freshline.errors import ConflictError, NotFoundError, UsageError
from freshline.model.backfill import (
    OPEN,
    REMEMBERED,
    BackfillRequest,
    BackfillStatus,
    Demand,
    Only,
    PartitionState,
    Progress,
)
from freshline.model.enums import RunStatus
from freshline.model.state import RecentBackfill, reference, split_reference
from freshline.partitions.selection import EVERYTHING, Selection
from freshline.reading import existing
from freshline.simulation.backfill_records import Backfill, Part
from freshline.simulation.records import Run

if TYPE_CHECKING:
    from freshline.simulation.catalogue import Member
    from freshline.simulation.simulator import Simulator

PATIENCE = timedelta(minutes=1)
"""A run of a backfill that waited this long competes with all others (docs/semantics.md#R14.4)."""
USUAL_PRIORITY = 100


class Backfills:
    """All backfills of a simulation, the first one first."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self.known: dict[str, Backfill] = {}

    # Requests of users.

    def create(self, request: BackfillRequest) -> Backfill:
        """Request a backfill. Raise UsageError for a source, a selection that is empty, or keys that cannot be."""
        simulator = self._simulator
        graph, asset_id = simulator.catalogue.graph, simulator.catalogue.asset(request.asset_id)
        workflow_id = graph.producer(asset_id)
        if workflow_id is None:
            raise UsageError(f"asset '{asset_id}' is a source: nothing computes it, so it cannot be backfilled")
        if graph.own_input(workflow_id) is not None and request.policy.newest_first:
            raise UsageError(
                f"workflow '{graph.slugs[workflow_id]}' computes a partition from the one before it: newest first"
                " cannot be",
                hint="use the order 'oldest'",
            )
        chosen = self._chosen(asset_id, request)
        newest = simulator.reading.newest_at(simulator.now)
        found = closure(
            graph,
            workflow_id,
            chosen,
            now=simulator.now,
            newest=newest,
            upstream=request.upstream,
            downstream=request.downstream,
        )
        wanted = {one: self._wanted(one, selection, request.policy.only) for one, selection in sorted(found.items())}
        if not any(wanted.values()):
            kind = "" if request.policy.only is Only.ALL else f" that is {request.policy.only}"
            raise UsageError(f"nothing is selected: asset '{asset_id}' has no partition{kind}")
        parts = {one: self._part(one, keys) for one, keys in wanted.items() if keys}
        number = f"b{len(self.known) + 1}"
        made = self.known[number] = Backfill(number, asset_id, request.policy, simulator.now, parts)
        if request.policy.only is Only.FAILED:
            for one, keys in wanted.items():
                self._reset(simulator.catalogue.member(one, key).id for key in keys)
        return made

    def find(self, backfill_id: str) -> Backfill:
        """Return a backfill. Raise NotFoundError if it does not exist."""
        found = self.known.get(backfill_id)
        if found is None:
            raise NotFoundError(f"backfill {backfill_id!r} does not exist")
        return found

    def pause(self, backfill_id: str) -> None:
        """Pause a backfill: its queued runs end, running ones go on."""
        found = self._changing(backfill_id, BackfillStatus.ACTIVE, BackfillStatus.PAUSED)
        if found.status is BackfillStatus.ACTIVE:
            self._end_queued(found)
            found.status = BackfillStatus.PAUSED
            self._note(found)

    def resume(self, backfill_id: str) -> None:
        """End the pause of a backfill."""
        found = self._changing(backfill_id, BackfillStatus.ACTIVE, BackfillStatus.PAUSED)
        found.status = BackfillStatus.ACTIVE
        self._note(found)

    def retry(self, backfill_id: str) -> int:
        """Try the failed and refused partitions again, without their cooldowns, and return how many.

        Those that failed and wait for their next run are among them.
        """
        allowed = (BackfillStatus.ACTIVE, BackfillStatus.PAUSED, BackfillStatus.FINISHED)
        found = self._changing(backfill_id, *allowed)
        badly = {PartitionState.FAILED, PartitionState.REFUSED}
        again = [number for number, state in found.states.items() if state in badly]
        again += [
            number for number, state in found.states.items() if state is PartitionState.OPEN and self._failed(number)
        ]
        self._reset(again)
        found.states |= dict.fromkeys(again, PartitionState.OPEN)
        if again and found.status is BackfillStatus.FINISHED:
            found.status, found.ended_at = BackfillStatus.ACTIVE, None
        self._note(found)
        return len(again)

    def cancel(self, backfill_id: str) -> None:
        """Remove the demand and its queued runs. Running ones finish."""
        found = self._changing(backfill_id, *OPEN, BackfillStatus.CANCELED)
        if found.status is BackfillStatus.CANCELED:
            return
        self._end_queued(found)
        found.status, found.ended_at = BackfillStatus.CANCELED, self._simulator.now
        self._note(found)
        ended = {PartitionState.OPEN, PartitionState.DONE}
        found.states = {number: state for number, state in found.states.items() if state not in ended}

    # What decisions read.

    def demands(self, member: Member) -> tuple[Demand, ...]:
        """Return the open demands for a member, the earliest first."""
        return tuple(one.demand(member) for one in self.known.values() if self._demands(one, member.id))

    def wants(self, number: int) -> bool:
        """Return whether a demand for the member is open."""
        return any(self._demands(one, number) for one in self.known.values())

    def recent(self) -> Mapping[datetime, RecentBackfill]:
        """Return active backfills, and those that ended lately, by their time: the origin of what they change."""
        since, partitioned = self._simulator.now - REMEMBERED, self._simulator.catalogue.graph.partitioned
        return {
            one.requested_at: RecentBackfill(
                one.urgency, one.progressed_at or one.requested_at, ended=one.ended_at is not None
            )
            for one in self.known.values()
            if one.status is BackfillStatus.ACTIVE
            or (partitioned and one.progressed_at and one.ended_at and one.ended_at > since)
        }

    def resting(self) -> Iterator[tuple[int, Selection, Moving]]:
        """Yield the partitions whose turn has not come: they are in motion, and those of a paused one cannot run."""
        now = self._simulator.now
        for one in self.known.values():
            for workflow_id, part in one.parts.items() if one.is_open else ():
                if part.rest is not None:
                    due = one.policy.not_before
                    until = due if due is not None and due > now else None
                    cannot_run = one.status is not BackfillStatus.ACTIVE
                    yield workflow_id, part.rest, Moving("backfill", until, cannot_run, one.requested_at)

    def have_begun(self) -> bool:
        """Return whether no active or paused backfill still waits for its time."""
        now = self._simulator.now
        begins = [one.policy.not_before for one in self.known.values() if one.is_open]
        return all(at is None or at <= now for at in begins)

    def next_moment(self) -> datetime | None:
        """Return when the next backfill begins, or when a run of one has waited long enough to be hurried."""
        simulator = self._simulator
        moments = [
            one.policy.not_before
            for one in self.known.values()
            if one.status is BackfillStatus.ACTIVE and one.policy.not_before and one.policy.not_before > simulator.now
        ]
        for one in self.known.values():
            runs = self._runs(one) if one.status is BackfillStatus.ACTIVE else []
            if all(run.status is RunStatus.QUEUED for run in runs):
                moments.extend(run.queued_at + PATIENCE for run in runs if run.queued_at + PATIENCE > simulator.now)
        return min(moments, default=None)

    def progress(self, backfill_id: str) -> Progress:
        """Return the partitions of a backfill by state, over all of its workflows."""
        found = self.find(backfill_id)
        runs = [self._simulator.active.get(number) for number in found.open()]
        running = sum(run is not None and run.status is RunStatus.RUNNING for run in runs)
        queued = sum(run is not None and run.status is RunStatus.QUEUED for run in runs)
        return Progress(
            total=sum(part.total for part in found.parts.values()),
            done=sum(part.done for part in found.parts.values()) + found.count(PartitionState.DONE),
            failed=found.count(PartitionState.FAILED),
            refused=found.count(PartitionState.REFUSED),
            running=running,
            queued=queued,
            waiting=len(runs) - running - queued,
        )

    # What happens.

    def record(self, member: Member, ended: Iterable[tuple[str, PartitionState]]) -> None:
        """Record how the demands for a member have ended."""
        for backfill_id, state in ended:
            self.known[backfill_id].states[member.id] = state

    def satisfy(self, member: Member, run: Run) -> None:
        """Record the open backfills for which a success counts, whoever made it (docs/semantics.md#R14.2)."""
        for one in self.known.values():
            part = one.parts.get(member.workflow_id)
            if part is None or not one.is_open:
                continue
            started = run.started_at or self._simulator.now
            accepted = one.demand(member).accepts(started, run.version)
            if (
                accepted
                and self._selects(part, member.workflow_id, member.partition_key)
                and not self._undone(one, run)
            ):
                one.satisfied.add(member.id)
                heads = ((name, self._simulator.asset(name).head) for name in self._simulator.outputs(member))
                one.made.update((name, head.sequence) for name, head in heads if head is not None)

    def advance(self) -> bool:
        """Count what is done in every active backfill, and give turns. Return whether anything moved."""
        moved = [self._advance(one) for one in list(self.known.values()) if one.status is BackfillStatus.ACTIVE]
        return any(moved)

    def _advance(self, found: Backfill) -> bool:
        done = [number for number, state in found.states.items() if state is PartitionState.DONE]
        for number in done:
            del found.states[number]
            found.parts[self._simulator.catalogue.members[number].workflow_id].done += 1
            found.progressed_at = self._simulator.now
        turns = self._give_turns(found)
        self._hurry(found)
        if not turns and not found.open() and all(part.rest is None for part in found.parts.values()):
            found.status, found.ended_at = BackfillStatus.FINISHED, self._simulator.now
            self._reschedule_all()
        return bool(turns or done)

    def _give_turns(self, found: Backfill) -> bool:
        simulator, graph = self._simulator, self._simulator.catalogue.graph
        rests = {one: part.rest for one, part in found.parts.items() if part.rest is not None}
        begins = found.policy.not_before
        places = found.policy.concurrency - self._taken(found)
        if not rests or (begins is not None and begins > simulator.now) or places <= 0:
            return False
        turns = Turns(graph, rests, simulator.now, simulator.reading.known_keys, newest_first=found.policy.newest_first)
        units = turns.take(places)
        for unit in units:
            number = simulator.catalogue.member(*unit).id
            found.states.setdefault(number, PartitionState.OPEN)
            simulator.consider(number, found.requested_at)
        for workflow_id in rests:
            found.parts[workflow_id].rest = turns.rests.get(workflow_id)
        if len(turns.rests) < len(rests):
            self._reschedule_all()
        else:
            self._reschedule_below(units)
        return bool(units) or len(turns.rests) < len(rests)

    def _taken(self, found: Backfill) -> int:
        """Return how many places it takes: its active runs, and open partitions that were not evaluated yet."""
        simulator = self._simulator
        due = [one for one in found.open() if simulator.considerations.is_due(one) and one not in simulator.active]
        return len(self._runs(found)) + len(due)

    def _hurry(self, found: Backfill) -> None:
        """Let one queued run compete with all others after a minute, while none is running."""
        runs = self._runs(found)
        waited = [run for run in runs if run.queued_at + PATIENCE <= self._simulator.now]
        if waited and all(run.status is RunStatus.QUEUED for run in runs):
            self._simulator.queue.hurry(min(waited, key=lambda run: (run.urgency, run.number)), USUAL_PRIORITY)

    def _runs(self, found: Backfill) -> list[Run]:
        """Return the queued and running runs of a backfill."""
        return [run for run in self._simulator.active.values() if run.backfill_id == found.id]

    def _end_queued(self, found: Backfill) -> None:
        for run in self._runs(found):
            if run.status is RunStatus.QUEUED:
                self._simulator.end(run, RunStatus.CANCELED)

    def _note(self, found: Backfill) -> None:
        for number in found.open():
            self._simulator.consider(number, found.requested_at)
        self._reschedule_all()

    def _reschedule_all(self) -> None:
        """Let all that sleep while a backfill goes on be evaluated soon."""
        considerations = self._simulator.considerations
        considerations.reschedule_patient(considerations.patient(), self._simulator.now)

    def _reschedule_below(self, units: Iterable[tuple[int, str]]) -> None:
        """Let those be evaluated soon that wait for partitions whose turn has come."""
        simulator, graph = self._simulator, self._simulator.catalogue.graph
        patient = simulator.considerations.patient()
        if not patient:
            return
        keys: dict[int, list[str]] = {}
        for workflow_id, key in units:
            keys.setdefault(workflow_id, []).append(key)
        newest, concerned = simulator.reading.newest_at(simulator.now), set[int]()
        for workflow_id, given in keys.items():
            partitioning = graph.partitioning_of(workflow_id)
            chosen = partitioning.select(given) if partitioning.columns else EVERYTHING
            below = closure(
                graph, workflow_id, chosen, now=simulator.now, newest=newest, upstream=False, downstream=True
            )
            concerned.update(number for number in patient if self._is_in(below, simulator.catalogue.members[number]))
        simulator.considerations.reschedule_patient(concerned, simulator.now)

    def _is_in(self, parts: Mapping[int, Selection], member: Member) -> bool:
        selection = parts.get(member.workflow_id)
        partitioning = self._simulator.catalogue.graph.partitioning_of(member.workflow_id)
        if selection is None or not partitioning.columns:
            return selection is not None
        return selection.contains(member.partition_key, partitioning)

    def _reset(self, members: Iterable[int]) -> None:
        for number in members:
            self._simulator.workflow_state(number).reset()

    def _failed(self, number: int) -> bool:
        return self._simulator.workflow_state(number).failures.count > 0

    def _demands(self, found: Backfill, number: int) -> bool:
        return found.is_open and found.states.get(number) is PartitionState.OPEN

    def _undone(self, found: Backfill, run: Run) -> bool:
        """Return whether a run read a partition of the same backfill that was not made for it."""
        badly = {PartitionState.FAILED, PartitionState.REFUSED}
        catalogue = self._simulator.catalogue
        for name, pin in run.pins.items():
            asset_id, key = split_reference(name)
            producer = catalogue.graph.producer(asset_id)
            part = found.parts.get(producer) if producer is not None else None
            if producer is None or part is None or not self._selects(part, producer, key):
                continue
            ended = found.states.get(catalogue.member(producer, key).id) in badly
            if not ended and (reference(asset_id, key), pin.sequence) not in found.made:
                return True
        return False

    def _selects(self, part: Part, workflow_id: int, key: str) -> bool:
        partitioning = self._simulator.catalogue.graph.partitioning_of(workflow_id)
        return part.selection.contains(key, partitioning) if partitioning.columns else not part.selection.is_empty

    def _changing(self, backfill_id: str, *allowed: BackfillStatus) -> Backfill:
        found = self.find(backfill_id)
        if found.status not in allowed:
            raise ConflictError(f"backfill {backfill_id} is {found.status}; allowed are {', '.join(sorted(allowed))}")
        return found

    # What a request selects.

    def _chosen(self, asset_id: str, request: BackfillRequest) -> Selection:
        partitioning = self._simulator.catalogue.graph.partitioning(asset_id)
        ranged = request.first is not None or request.last is not None
        if not partitioning.columns:
            if request.keys or ranged:
                raise UsageError(f"asset '{asset_id}' has no partitions: leave keys and range out")
            return EVERYTHING
        if request.keys and ranged:
            raise UsageError("keys and a range are two ways to select partitions; use one of them")
        if request.keys:
            now, known = self._simulator.now, self._simulator.reading.known_keys(asset_id)
            return partitioning.select(partitioning.require_exists(key, now, known) for key in request.keys)
        return partitioning.between(request.first, request.last) if ranged else EVERYTHING

    def _wanted(self, workflow_id: int, selection: Selection, only: Only) -> list[str]:
        simulator = self._simulator
        known = simulator.reading.known_keys
        keys = existing(simulator.catalogue.graph, workflow_id, selection, simulator.now, known)
        state = {key: simulator.workflow_state(simulator.catalogue.member(workflow_id, key).id) for key in keys}
        if only is Only.MISSING:
            return [key for key, one in state.items() if one.succeeded_at is None]
        if only is Only.FAILED:
            return [key for key, one in state.items() if one.failures.count > 0]
        return list(state)

    def _part(self, workflow_id: int, keys: list[str]) -> Part:
        catalogue = self._simulator.catalogue
        partitioning = catalogue.graph.partitioning_of(workflow_id)
        selection = partitioning.select(keys) if partitioning.columns else EVERYTHING
        return Part(selection, selection, len(keys), catalogue.workflows[workflow_id].version)
