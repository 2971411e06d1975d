"""A small world around `decide` and `Walk`: sources change, runs take their time, publications move heads.

Everything is in memory and follows one seed. A data version is a function of the versions that the run read, and
knows the generation of every origin that it stems from, so that a run that reads two generations shows.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from freshline.decide import Decision, decide
from freshline.decide.motion import Moving, Walk
from freshline.graph import Graph
from freshline.model.enums import ExpiryReason, Outcome, Reason, RunStatus, TriggerType
from freshline.model.policy import Backoff, InputPolicy, OutputPolicy, Policy
from freshline.model.state import ActiveRun, Expiry, Failures, Head, Input, Output, Pending, State, Version

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
Generations = Mapping[str, frozenset[int]]


@dataclasses.dataclass(frozen=True, slots=True)
class Flow:
    """One workflow. Without inputs it makes a new generation whenever it is told to expire."""

    id: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclasses.dataclass(slots=True)
class Run:
    """One run, as the world remembers it."""

    id: str
    flow: int
    pins: Mapping[str, Version]
    mixed: bool
    queued_at: datetime
    status: RunStatus = RunStatus.QUEUED
    necessary: bool = True
    expired: bool = False


@dataclasses.dataclass(slots=True)
class Consideration:
    """Where and when to look."""

    at: datetime
    hold: Reason | None = None
    blocks_until: datetime | None = None
    evaluations: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """How long things take, in milliseconds: a range each."""

    absorb: tuple[int, int] = (0, 0)
    claim: tuple[int, int] = (0, 0)
    work: tuple[int, int] = (1_000, 60_000)
    failing: float = 0.0  # how many of all runs fail


def graph_of(flows: Iterable[Flow]) -> Graph:
    """The topology of these workflows."""
    known = list(flows)
    return Graph(
        epoch=1,
        slugs={f.id: f"w{f.id}" for f in known},
        producers={output: f.id for f in known for output in f.outputs},
        edges=[(one, f.id) for f in known for one in f.inputs],
    )


def policy_of(flow: Flow, *, max_wait_ms: int = 10**9) -> Policy:
    """Everything on, and a wait that does not run out unless told."""
    return Policy(
        declared=True,
        automatic=True,
        max_wait_ms=max_wait_ms,
        backoff=Backoff(base_ms=1_000, max_ms=8_000),
        inputs=tuple(InputPolicy(one, triggers=True) for one in flow.inputs),
        outputs=tuple(OutputPolicy(one, enabled=True) for one in flow.outputs),
    )


class World:
    """Workflows in motion under a clock of their own.

    `constant`: workflows whose output never changes. `seconds`: how long the runs of a workflow take, one by one.
    `waiting_moves`: whether a workflow that waits for its ancestors is in motion for those below it.
    `mixes_linger`: whether after a mixed run all inputs count as changed, until a run that is none.
    """

    def __init__(
        self,
        flows: Iterable[Flow],
        *,
        seed: int = 0,
        pace: Pace | None = None,
        policies: Callable[[Flow], Policy] = policy_of,
        constant: frozenset[int] = frozenset(),
        seconds: Mapping[int, Iterator[int]] | None = None,
        waiting_moves: bool = True,
        mixes_linger: bool = True,
    ) -> None:
        self.flows = {f.id: f for f in flows}
        self.graph = graph_of(self.flows.values())
        self.policies = {f.id: policies(f) for f in self.flows.values()}
        self.constant = constant
        self._seconds = seconds or {}
        self.now = START
        self.runs: list[Run] = []
        self.origin_of: dict[str, Generations] = {}
        self.decisions: list[tuple[int, Decision]] = []
        self._random = random.Random(seed)  # noqa: S311 - a seed, not a secret
        self._pace = pace or Pace()
        self._waiting_moves = waiting_moves
        self._mixes_linger = mixes_linger
        self._mixed: set[int] = set()
        self._snapshots: dict[str, list[tuple[Head, bool]]] = defaultdict(list)
        self._vectors: dict[int, Mapping[str, Version]] = {}
        self._expired: dict[int, datetime] = {}
        self._active: dict[int, Run] = {}
        self._started: dict[int, datetime] = {}
        self._failures: dict[int, Failures] = defaultdict(Failures)
        self._considerations: dict[int, Consideration] = {f: Consideration(START) for f in self.flows}
        self._inbox: dict[int, tuple[str, str | int]] = {}
        self._agenda: list[tuple[datetime, int, Callable[[], None]]] = []
        self._numbers = itertools.count(1)
        self._generations: dict[str, int] = defaultdict(int)

    # What the outside does.

    def change(self, source: str) -> None:
        """The source has a new generation."""
        self._generations[source] += 1
        generation = self._generations[source]
        version = f"{source}.{generation}"
        self.origin_of[version] = {source: frozenset({generation})}
        self._append(source, version)

    def expire(self, flow_id: int) -> None:
        """The freshness of its outputs ran out."""
        self._expired[flow_id] = self.now
        self._send("ended", flow_id)

    def at(self, moment: datetime, action: Callable[[], None]) -> None:
        """Put an action on the agenda."""
        heapq.heappush(self._agenda, (moment, next(self._numbers), action))

    def settle(self, until: datetime | None = None, most: int = 20_000) -> None:
        """Go on until nothing is left to do, or until then."""
        for _ in range(most):
            self._reconcile()
            following = self._next_moment()
            if following is None or (until is not None and following > until):
                self.now = max(self.now, until) if until else self.now
                return
            self.now = max(self.now, following)
            while self._agenda and self._agenda[0][0] <= self.now:
                heapq.heappop(self._agenda)[2]()
        raise AssertionError("it does not settle")

    # What one may ask.

    def head(self, asset_id: str) -> Head | None:
        """The current snapshot."""
        found = self._snapshots[asset_id]
        return found[-1][0] if found else None

    def vector(self, flow_id: int) -> dict[str, str]:
        """The data versions that the last success read."""
        return {one: v.data_version for one, v in self._vectors.get(flow_id, {}).items()}

    def heads(self, flow_id: int) -> dict[str, str]:
        """The data versions that it would read now."""
        found = {one: self.head(one) for one in self.flows[flow_id].inputs}
        return {one: head.data_version for one, head in found.items() if head}

    def generations(self, run: Run) -> list[Generations]:
        """What each input of the run stems from."""
        return [self.origin_of[pin.data_version] for pin in run.pins.values()]

    def reads_a_mix(self, run: Run) -> bool:
        """Whether two inputs stem from different generations of one origin; inputs that are a mix do not count."""
        read = [g for g in self.generations(run) if all(len(found) == 1 for found in g.values())]
        origins = {origin for g in read for origin in g}
        return any(len({g[origin] for g in read if origin in g}) > 1 for origin in origins)

    @property
    def idle(self) -> bool:
        """Nothing runs, nothing is to be looked at, nothing is under way."""
        return not (self._active or self._considerations or self._inbox or self._agenda)

    # Time.

    def _next_moment(self) -> datetime | None:
        evaluations = (c.at for c in self._considerations.values())
        agenda = (self._agenda[0][0],) if self._agenda else ()
        return min((*evaluations, *agenda), default=None)

    def _later(self, span: tuple[int, int]) -> datetime:
        return self.now + timedelta(milliseconds=self._random.randint(*span))

    # Absorbing.

    def _send(self, kind: str, subject: str | int) -> None:
        number = next(self._numbers)
        self._inbox[number] = (kind, subject)
        self.at(self._later(self._pace.absorb), lambda: self._absorb(number))

    def _absorb(self, number: int) -> None:
        for flow_id in self._concerned(self._inbox.pop(number)):
            self._considerations[flow_id] = Consideration(self.now)

    def _concerned(self, event: tuple[str, str | int]) -> tuple[int, ...]:
        kind, subject = event
        return self.graph.consumers(str(subject)) if kind == "changed" else (int(subject),)

    # Reconciling.

    def _reconcile(self) -> None:
        """Batches of random size, ancestors first; what is left out of a batch stays in motion."""
        while due := [f for f, c in self._considerations.items() if c.at <= self.now]:
            batch = self._random.sample(due, self._random.randint(1, len(due)))
            walk = Walk(self.graph, self.motion())
            for flow_id in sorted(batch, key=lambda f: (self.graph.level(f), f)):
                state, policy = self.state(flow_id), self.policies[flow_id]
                decision = decide(policy, state, self.now, walk)
                self._obey(flow_id, decision)
                walk.settle(flow_id, self._moving(flow_id))

    def _obey(self, flow_id: int, decision: Decision) -> None:
        assert decision.outcome is not Outcome.ERROR, decision
        self.decisions.append((flow_id, decision))
        if decision.superseded:
            self._active.pop(flow_id).status = RunStatus.CANCELED
        if decision.renewal:
            self._active[flow_id].pins = decision.renewal.pins
            self._active[flow_id].mixed = decision.renewal.mixed
        if decision.run:
            self._queue(flow_id, decision)
        known = self._considerations.pop(flow_id)
        if decision.next_evaluation is not None:
            assert decision.next_evaluation > self.now, decision
            evaluations = known.evaluations + 1 if known.hold is decision.reason else 0
            hold = Consideration(decision.next_evaluation, decision.reason, decision.blocks_until, evaluations)
            self._considerations[flow_id] = hold

    def motion(self) -> dict[int, Moving]:
        """What is in motion; where there is more than one reason, the strongest (docs/semantics.md#R4.1)."""
        return {flow_id: moving for flow_id in self.flows if (moving := self._moving(flow_id))}

    def _moving(self, flow_id: int) -> Moving | None:
        if flow_id in self._active:
            return Moving(self._active[flow_id].status)
        if any(flow_id in self._concerned(event) for event in self._inbox.values()):
            return Moving("unabsorbed")
        one = self._considerations.get(flow_id)
        return self._held(one) if one else None

    def _held(self, one: Consideration) -> Moving | None:
        if one.at <= self.now or one.hold is None:
            return Moving("due")
        if one.hold is Reason.IN_FLIGHT:
            return None
        if one.hold is Reason.WAITING_FOR_UPSTREAM:
            return Moving(one.hold) if self._waiting_moves else None
        return Moving(one.hold, one.blocks_until, cannot_run=one.blocks_until is None)

    def state(self, flow_id: int) -> State:
        """All facts about one workflow."""
        flow, run = self.flows[flow_id], self._active.get(flow_id)
        expired = self._expired.get(flow_id)
        expiry = Expiry(expired, ExpiryReason.MANUAL) if expired else None
        known = self._considerations.get(flow_id)
        return State(
            workflow_id=flow_id,
            slug=f"w{flow_id}",
            partition_key="",
            version=1,
            job_fingerprint="job",
            applied_at=START,
            inputs=tuple(self._input(flow_id, one) for one in flow.inputs),
            outputs=tuple(Output(one, self.head(one), expiry) for one in flow.outputs),
            succeeded_fingerprint="job" if flow_id in self._vectors else None,
            succeeded_at=self.now if flow_id in self._vectors else None,
            started_at=self._started.get(flow_id),
            mixed=self._mixes_linger and flow_id in self._mixed,
            failures=self._failures[flow_id],
            active=ActiveRun(run.id, run.status, TriggerType.AUTO, 0, 1, run.pins) if run else None,
            evaluations=known.evaluations if known else 0,
        )

    def _input(self, flow_id: int, asset_id: str) -> Input:
        consumed, head = self._vectors.get(flow_id, {}).get(asset_id), self.head(asset_id)
        if head is None or (consumed and consumed.data_version == head.data_version):
            return Input(asset_id, head, consumed)
        behind = consumed.sequence if consumed else 0
        times = [s.produced_at for s, changed in self._snapshots[asset_id][behind:] if changed]
        pending = Pending(times[0], times[-1], len(times)) if times else None
        return Input(asset_id, head, consumed, pending)

    # Running.

    def _queue(self, flow_id: int, decision: Decision) -> None:
        assert decision.run is not None
        assert flow_id not in self._active, "two runs at once"
        run = Run(f"r{next(self._numbers)}", flow_id, decision.run.pins, decision.run.mixed, self.now)
        self._active[flow_id] = run
        self.runs.append(run)
        self.at(self._later(self._pace.claim), lambda: self._start(run))

    def _start(self, run: Run) -> None:
        if run.status is not RunStatus.QUEUED:
            return
        run.status = RunStatus.RUNNING
        self._started[run.flow] = self.now
        run.expired = run.flow in self._expired
        read = {one: pin.data_version for one, pin in run.pins.items()}
        run.necessary = run.expired or run.flow not in self._vectors or read != self.vector(run.flow)
        end = self._fail if self._random.random() < self._pace.failing else self._publish
        following = self._seconds.get(run.flow)
        done = self.now + timedelta(seconds=next(following)) if following else self._later(self._pace.work)
        self.at(done, lambda: end(run))

    def _fail(self, run: Run) -> None:
        """docs/semantics.md#R7.2 and docs/semantics.md#R7.3, as the store keeps them."""
        run.status = RunStatus.FAILED
        del self._active[run.flow]
        backoff, count = self.policies[run.flow].backoff, self._failures[run.flow].count + 1
        cooldown = min(backoff.max_ms or 0, (backoff.base_ms or 0) * 2 ** (count - 1))
        opened = self._failures[run.flow].breaker_at or (self.now if count >= backoff.budget else None)
        probed_versions = {one: pin.data_version for one, pin in run.pins.items()}
        eligible = self.now + timedelta(milliseconds=cooldown)
        self._failures[run.flow] = Failures(count, self.now, eligible, opened, probed_versions)
        self._send("ended", run.flow)

    def _publish(self, run: Run) -> None:
        run.status = RunStatus.SUCCEEDED
        del self._active[run.flow]
        self._failures.pop(run.flow, None)
        self._expired.pop(run.flow, None)
        self._vectors[run.flow] = run.pins
        (self._mixed.add if run.mixed else self._mixed.discard)(run.flow)
        for output in self.flows[run.flow].outputs:
            self._append(output, self._made(run, output))
        self._send("ended", run.flow)

    def _made(self, run: Run, output: str) -> str:
        if run.flow in self.constant:
            version = f"{output}.constant"
            self.origin_of[version] = {}
            return version
        if not run.pins:
            origin = f"w{run.flow}"  # of all its outputs
            self._generations[output] += 1
            version = f"{output}.{self._generations[output]}"
            self.origin_of[version] = {origin: frozenset({self._generations[output]})}
            return version
        read = self.generations(run)
        version = f"{output}({','.join(pin.data_version for _, pin in sorted(run.pins.items()))})"
        version = f"{output}.{hash(version) & 0xFFFFFFFFFFFF:x}" if len(version) > 200 else version
        origins = {origin for g in read for origin in g}
        self.origin_of[version] = {o: frozenset().union(*(g.get(o, frozenset()) for g in read)) for o in origins}
        return version

    def _append(self, asset_id: str, version: str) -> None:
        last = self.head(asset_id)
        changed = last is None or last.data_version != version
        head = Head(last.sequence + 1 if last else 1, version, self.now)
        self._snapshots[asset_id].append((head, changed))
        if changed:
            self._send("changed", asset_id)
