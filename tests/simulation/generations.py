"""Simulations with random delays that track which generation of each source a run reads.

The simulator decides. This module adds the delays: events are consumed late, batches have a random size, and runs are
claimed and finished late. A data version is a function of the versions that the run read, and knows the generation of
every origin that it comes from. So a run that reads two generations of one origin can be found.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from freshline.decide import Decision
from freshline.decide.decision import short_hash
from freshline.decide.motion import Moving
from freshline.model.backfill import BackfillPolicy, BackfillRequest
from freshline.model.enums import ACTIVE, Outcome, Reason, RunStatus
from freshline.model.policy import Backoff, InputPolicy, OutputPolicy, Policy
from freshline.model.state import State, reference
from freshline.simulation import Catalogue, Member, Observer, Run, Simulator
from freshline.simulation.backfill_records import Backfill
from freshline.simulation.considerations import Considerations
from freshline.simulation.motion import Motion, PartitionMotion
from tests.decide.builders import Flow

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
LONGEST_VERSION = 200
Generations = Mapping[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Delays:
    """Ranges in milliseconds, and the share of runs that fail."""

    consume: tuple[int, int] = (0, 0)
    claim: tuple[int, int] = (0, 0)
    work: tuple[int, int] = (1_000, 60_000)
    failing: float = 0.0


def policy_of(flow: Flow, *, max_wait_ms: int = 10**9) -> Policy:
    """Return a policy with everything on. By default no wait ends at its deadline."""
    return Policy(
        declared=True,
        automatic=True,
        max_wait_ms=max_wait_ms,
        backoff=Backoff(base_ms=1_000, max_ms=8_000),
        inputs=tuple(InputPolicy(one, triggers=True) for one in flow.inputs),
        outputs=tuple(OutputPolicy(one, enabled=True) for one in flow.outputs),
    )


class PartialBatches(Considerations):
    """Considerations that are taken in batches of random size. `left` is called with those that stay due."""

    def __init__(self, rng: random.Random, left: Callable[[set[int]], None]) -> None:
        super().__init__()
        self._rng = rng
        self._left = left

    def take(self, now: datetime) -> set[int]:
        due = super().take(now)
        batch = set(self._rng.sample(sorted(due), self._rng.randint(1, len(due)))) if due else due
        self._due |= due - batch
        self._left(due - batch)
        return batch


class Inbox:
    """Motion in which a workflow with an event in the inbox moves too, as in the store.

    `waiting_moves`: whether a workflow that waits for its ancestors is in motion for those below it.
    """

    def __init__(self, *, waiting_moves: bool) -> None:
        self.events: dict[int, list[datetime]] = defaultdict(list)
        self._waiting_moves = waiting_moves

    def moving(self, workflow_id: int, moving: Moving | None) -> Moving | None:
        if moving and moving.kind == Reason.WAITING_FOR_UPSTREAM and not self._waiting_moves:
            moving = None
        if self.events[workflow_id] and not (moving and moving.kind in ACTIVE):
            return Moving("unabsorbed", origin=min(self.events[workflow_id]))
        return moving


class MotionWithInbox(Motion):
    """Workflows in motion, with the inbox."""

    def __init__(self, catalogue: Catalogue, inbox: Inbox) -> None:
        super().__init__(catalogue)
        self.inbox = inbox

    def settle(self, workflow_id: int, moving: Moving | None, partition_key: str = "") -> None:
        super().settle(workflow_id, self.inbox.moving(workflow_id, moving), partition_key)


class PartitionMotionWithInbox(PartitionMotion):
    """Partitions in motion, with the inbox."""

    def __init__(self, catalogue: Catalogue, inbox: Inbox) -> None:
        super().__init__(catalogue)
        self.inbox = inbox

    def settle(self, workflow_id: int, moving: Moving | None, partition_key: str = "") -> None:
        super().settle(workflow_id, self.inbox.moving(workflow_id, moving), partition_key)


class DelayedSimulator(Simulator):
    """A simulator whose events are consumed when `later` says so.

    `mixes_linger`: whether after a mixed run all inputs count as changed, until a run that is not mixed.
    """

    motion: MotionWithInbox | PartitionMotionWithInbox

    def __init__(
        self,
        catalogue: Catalogue,
        observer: Observer,
        rng: random.Random,
        later: Callable[[Callable[[], None]], None],
        *,
        waiting_moves: bool,
        mixes_linger: bool,
    ) -> None:
        super().__init__(catalogue, START, observer=observer)
        self.considerations = PartialBatches(rng, self._keep_moving)
        inbox = Inbox(waiting_moves=waiting_moves)
        kind = PartitionMotionWithInbox if catalogue.graph.partitioned else MotionWithInbox
        self.motion = kind(catalogue, inbox)
        self._later = later
        self._mixes_linger = mixes_linger
        self._noted: dict[int, datetime] = {}

    def note(self, workflow_id: int, origin: datetime | None = None) -> None:
        since = origin or self.now
        self.motion.inbox.events[workflow_id].append(since)
        if workflow_id not in self.active:
            self.motion.settle(workflow_id, None)
        self._later(lambda: self._consume(workflow_id, since))

    def consider(self, workflow_id: int, origin: datetime) -> None:
        self._noted[workflow_id] = min(origin, self._noted.get(workflow_id, origin))
        super().consider(workflow_id, origin)

    def _consume(self, workflow_id: int, since: datetime) -> None:
        self.motion.inbox.events[workflow_id].remove(since)
        self._noted[workflow_id] = min(since, self._noted.get(workflow_id, since))
        super().note(workflow_id, since)

    def _keep_moving(self, left: Iterable[int]) -> None:
        for workflow_id in left:
            if workflow_id not in self.active:
                self.motion.settle(workflow_id, Moving("due", origin=self._noted.get(workflow_id)))

    def state(self, member: Member) -> State:
        found = super().state(member)
        self._noted.pop(member.id, None)
        return found if self._mixes_linger else replace(found, mixed=False)


class TrackedSimulation(Observer):
    """Workflows in motion under a clock of their own, and the generations that their runs read.

    `rewrites`: a run of a backfill makes other data than before, as after a change of the code.
    `constant`: workflows whose output never changes. `seconds`: how long the runs of a workflow take, one by one.
    """

    def __init__(
        self,
        flows: Iterable[Flow],
        *,
        seed: int = 0,
        delays: Delays | None = None,
        policies: Callable[[Flow], Policy] = policy_of,
        constant: frozenset[int] = frozenset(),
        seconds: Mapping[int, Iterator[int]] | None = None,
        waiting_moves: bool = True,
        mixes_linger: bool = True,
        catalogue: Catalogue | None = None,
        rewrites: bool = False,
    ) -> None:
        self.rewrites = rewrites
        self.flows = {flow.id: flow for flow in flows}
        self.catalogue = catalogue or Catalogue(
            Member(flow.id, f"w{flow.id}", policies(flow), "job", flow.inputs, flow.outputs)
            for flow in self.flows.values()
        )
        self.constant = constant
        self.runs: list[Run] = []
        self.unnecessary: list[Run] = []
        self.origin_of: dict[str, Generations] = {}
        self._random = random.Random(seed)  # noqa: S311 - a seed, not a secret
        self._delays = delays or Delays()
        self._seconds = seconds or {}
        self._generations: dict[str, int] = defaultdict(int)
        self._events: list[tuple[datetime, int, Callable[[], None]]] = []
        self._numbers = itertools.count(1)
        self.simulator = DelayedSimulator(
            self.catalogue,
            self,
            self._random,
            lambda action: self.at(self._later(self._delays.consume), action),
            waiting_moves=waiting_moves,
            mixes_linger=mixes_linger,
        )
        self.simulator.start(fresh=False)

    # Outside events.

    @property
    def now(self) -> datetime:
        """The simulated time."""
        return self.simulator.now

    def change(self, source: str, key: str = "") -> None:
        """Report a new generation of the source, or of a partition of it."""
        name = reference(source, key)
        self._generations[name] += 1
        generation = self._generations[name]
        version = f"{name}.{generation}"
        self.origin_of[version] = {name: frozenset({generation})}
        if source in self.catalogue.assets:  # a random graph may have a source that nothing reads
            self.simulator.report(source, version, key)

    def expire(self, flow_id: int) -> None:
        """Let the freshness of all outputs of the workflow end."""
        for output in self.flows[flow_id].outputs:
            self.simulator.expire(output)

    def at(self, moment: datetime, action: Callable[[], None]) -> None:
        """Schedule an action."""
        heapq.heappush(self._events, (moment, next(self._numbers), action))

    def settle(self, until: datetime | None = None, most: int = 20_000) -> None:
        """Continue until nothing is left to do, or until the given time."""
        for _ in range(most):
            self.simulator.settle()
            following = self._next_moment()
            if following is None or (until is not None and following > until):
                self.simulator.now = max(self.now, until) if until else self.now
                return
            self.simulator.now = max(self.now, following)
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
        raise AssertionError("it does not settle")

    def _next_moment(self) -> datetime | None:
        moments = (self.simulator.next_moment(), self._events[0][0] if self._events else None)
        return min((moment for moment in moments if moment is not None), default=None)

    def _later(self, span: tuple[int, int]) -> datetime:
        return self.now + timedelta(milliseconds=self._random.randint(*span))

    # Questions.

    def consumed(self, flow_id: int) -> dict[str, str]:
        """Return the data versions that the last success read."""
        found = self.simulator.workflow_state(flow_id).consumed_versions
        return {asset_id: version.data_version for asset_id, version in found.items()}

    def heads(self, flow_id: int) -> dict[str, str]:
        """Return the data versions that a run would read now."""
        member = self.catalogue.members[flow_id]
        names = self.simulator.reading.inputs(member, self.now)
        found = {one: self.simulator.asset(one).head for one in names}
        return {one: head.data_version for one, head in found.items() if head}

    def generations(self, run: Run) -> list[Generations]:
        """Return the generations that each input of the run comes from."""
        return [self.origin_of[pin.data_version] for pin in run.pins.values()]

    def inherited(self, run: Run) -> list[Generations]:
        """Return the generations that the outputs of the run come from."""
        return self.generations(run)

    def reads_a_mix(self, run: Run) -> bool:
        """Return whether two inputs come from different generations of one origin. Mixed inputs do not count."""
        read = [g for g in self.generations(run) if all(len(found) == 1 for found in g.values())]
        origins = {origin for g in read for origin in g}
        return any(len({g[origin] for g in read if origin in g}) > 1 for origin in origins)

    def demand(self, asset_id: str, **more: Any) -> Backfill:
        """Request a backfill; what is not a field of the request belongs to its policy."""
        own = {name: more.pop(name) for name in ("first", "last", "keys", "upstream", "downstream") if name in more}
        request = BackfillRequest(asset_id, policy=BackfillPolicy(**more), **own)
        return self.simulator.backfills.create(request)

    @property
    def idle(self) -> bool:
        """Whether no run is active, no workflow is considered that has its inputs, and no event is on its way."""
        held = self.simulator.considerations
        considered = any(
            held.get(member) and held.hold_of(member) is not Reason.INPUT_MISSING for member in self.catalogue.members
        )
        return not (self.simulator.active or considered or self._events)

    # Runs.

    def decided(self, simulator: Simulator, member: Member, decision: Decision, run: Run | None) -> None:
        assert decision.outcome is not Outcome.ERROR, decision
        assert decision.next_evaluation is None or decision.next_evaluation > simulator.now, decision
        if decision.run is not None and run is not None:
            others = [one for one in self.runs if one.workflow_id == member.id and one.status in ACTIVE]
            assert not others, "two runs at once"
            self.runs.append(run)
            self.at(self._later(self._delays.claim), lambda: self._begin(run))

    def _begin(self, run: Run) -> None:
        if run.status is not RunStatus.QUEUED:
            return
        self.simulator.begin(run)
        if not self._necessary(run):
            self.unnecessary.append(run)
        end = self._fail if self._random.random() < self._delays.failing else self._publish
        durations = self._seconds.get(run.workflow_id)
        done = self.now + timedelta(seconds=next(durations)) if durations else self._later(self._delays.work)
        self.at(done, lambda: end(run))

    def _necessary(self, run: Run) -> bool:
        """Return whether an output expired, or the run is the first one, or it reads a new version."""
        member = self.catalogue.members[run.workflow_id]
        if run.backfill_id is not None:
            return True  # how often a backfill runs a partition has checks of its own
        expired = any(self.simulator.asset(output).expired for output in self.simulator.outputs(member))
        first = self.simulator.workflow_state(member.id).succeeded_at is None
        return expired or first or run.read != self.consumed(member.id)

    def _fail(self, run: Run) -> None:
        self.simulator.fail(run)

    def _publish(self, run: Run) -> None:
        outputs = self.simulator.outputs(self.catalogue.members[run.workflow_id])
        self.simulator.succeed(run, {output: self._version(run, output) for output in outputs})

    def _version(self, run: Run, output: str) -> str:
        if run.workflow_id in self.constant:
            version = f"{output}.constant"
            self.origin_of[version] = {}
            return version
        if not run.pins:
            self._generations[output] += 1
            version = f"{output}.{self._generations[output]}"
            # All outputs of the workflow have one origin.
            name = reference(run.slug, run.partition_key)
            self.origin_of[version] = {name: frozenset({self._generations[output]})}
            return version
        read = self.inherited(run)
        code = f"code of {output}"
        if self.rewrites and run.backfill_id is not None:
            self._generations[code] += 1
        read = [*read, {code: frozenset({self._generations[code]})}] if code in self._generations else read
        version = f"{output}({','.join(pin.data_version for _, pin in sorted(run.pins.items()))})"
        version += f"#{self._generations[code]}" if code in self._generations else ""
        version = f"{output}.{short_hash(version)}" if len(version) > LONGEST_VERSION else version
        origins = {origin for g in read for origin in g}
        self.origin_of[version] = {o: frozenset().union(*(g.get(o, frozenset()) for g in read)) for o in origins}
        return version
