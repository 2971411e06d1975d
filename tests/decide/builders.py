"""Sentences about one workflow: `given().input("a", head="2", read="1").output("b").at("09:00").decides("run", ...)`.

Every step returns a new scenario. Times are written "09:00" and mean Monday, 5 January 2026, in UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any

from freshline.decide import Decision, decide
from freshline.decide.causes import Cause, find_cause
from freshline.graph import Graph
from freshline.model.enums import ExpiryReason, RunStatus, TriggerType, When
from freshline.model.policy import Backoff, Freshness, InputPolicy, OutputPolicy, Policy, QuietHours
from freshline.model.state import (
    ActiveRun,
    Blocker,
    Canceled,
    Expiry,
    Failures,
    Head,
    Input,
    Output,
    Pending,
    State,
    Version,
)

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
MINUTE, HOUR = 60_000, 3_600_000
JOB = "job-1"


@dataclass(frozen=True, slots=True)
class Flow:
    """One workflow of a graph."""

    id: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def graph_of(flows: Iterable[Flow], not_triggering: Iterable[tuple[str, int]] = ()) -> Graph:
    """Return the graph of these workflows."""
    known = list(flows)
    return Graph(
        epoch=1,
        slugs={flow.id: f"w{flow.id}" for flow in known},
        producers={output: flow.id for flow in known for output in flow.outputs},
        edges=[(asset_id, flow.id) for flow in known for asset_id in flow.inputs],
        not_triggering=not_triggering,
    )


def clock(moment: str | datetime) -> datetime:
    """Monday at that time."""
    return moment if isinstance(moment, datetime) else datetime.combine(MONDAY, time.fromisoformat(moment), UTC)


def maybe(moment: str | datetime | None) -> datetime | None:
    """Return Monday at that time, or None."""
    return None if moment is None else clock(moment)


def version(name: str, sequence: int | None = None) -> Version:
    """Return the version. Data version "3" has sequence number 3, unless `sequence` is given."""
    return Version(int(name) if sequence is None else sequence, name)


@dataclass(frozen=True)
class Scenario:
    """A policy, a state and a moment, under construction."""

    policy: Policy
    state: State
    now: datetime

    def input(
        self,
        asset_id: str,
        head: str | None = "1",
        read: str | None = None,
        *,
        triggers: bool = True,
        max_age_ms: int | None = None,
        at: str | datetime = "08:30",
        first: str | datetime | None = None,
        sequence: int | None = None,
        run_id: str | None = None,
        events: tuple[str, ...] = (),
        key: str = "",
    ) -> Scenario:
        """Add an input with the head `head`. The last success read `read`. `at`: time of the last snapshot."""
        consumed = None if read is None else version(read)
        current = None
        if head is not None:
            here = version(head, sequence)
            current = Head(here.sequence, here.data_version, clock(at), run_id)
        pending = None
        if head is not None and head != read:
            pending = Pending(clock(first or at), clock(at), max(1, len(events)), events)
        known = InputPolicy(asset_id, triggers=triggers, max_age_ms=max_age_ms)
        others = [one for one in self.policy.inputs if one.asset_id != asset_id]
        return self.auto(inputs=(*others, known)).facts(
            inputs=(*self.state.inputs, Input(asset_id, current, consumed, pending, key))
        )

    def output(
        self,
        asset_id: str,
        head: str | None = "1",
        *,
        expired: str | datetime | None = None,
        reason: str = "ttl",
        enabled: bool = True,
        optional: bool = False,
        event: str | None = None,
    ) -> Scenario:
        """Add an output. `expired`: when its freshness ended."""
        current = None if head is None else Head(int(head), head, clock("08:00"))
        expiry = None if expired is None else Expiry(clock(expired), ExpiryReason(reason), event)
        known = OutputPolicy(asset_id, enabled=enabled, optional=optional, freshness=Freshness())
        return self.auto(outputs=(*self.policy.outputs, known)).facts(
            outputs=(*self.state.outputs, Output(asset_id, current, expiry))
        )

    def auto(self, **fields: Any) -> Scenario:
        """With these fields of the policy."""
        return replace(self, policy=replace(self.policy, **fields))

    def facts(self, **fields: Any) -> Scenario:
        """With these facts in the state."""
        return replace(self, state=replace(self.state, **fields))

    def at(self, moment: str | datetime) -> Scenario:
        """Set the time of the evaluation."""
        return replace(self, now=clock(moment))

    def all_of_them(self) -> Scenario:
        """`when: all`."""
        return self.auto(when=When.ALL)

    def never_ran(self) -> Scenario:
        """There was no success yet."""
        return self.facts(succeeded_at=None, succeeded_fingerprint=None)

    def redefined(self) -> Scenario:
        """Change the job since the last success."""
        return self.facts(job_fingerprint="job-2")

    def active(
        self,
        status: str = "running",
        pins: Mapping[str, str] | None = None,
        *,
        trigger: TriggerType = TriggerType.AUTO,
        attempt: int | None = None,
        definition: int = 1,
    ) -> Scenario:
        """Add an active run on these data versions."""
        number = attempt if attempt is not None else int(status == "running")
        pinned = {asset_id: version(one) for asset_id, one in (pins or {}).items()}
        return self.facts(active=ActiveRun("run-1", RunStatus(status), trigger, number, definition, pinned))

    def paused(self, until: str | None = None) -> Scenario:
        """Pause the workflow."""
        return self.facts(paused=True, paused_until=maybe(until))

    def failed(
        self,
        count: int = 1,
        at: str | datetime = "08:59",
        *,
        eligible: str | datetime | None = None,
        breaker: str | datetime | None = None,
        probed_versions: Mapping[str, str] | None = None,
    ) -> Scenario:
        """Let the last runs fail. The last one read `probed_versions`."""
        return self.facts(failures=Failures(count, clock(at), maybe(eligible), maybe(breaker), probed_versions))

    def canceled(self, pins: Mapping[str, str], *, definition: int = 1, expired: str | None = None) -> Scenario:
        """Cancel a run on these versions."""
        return self.facts(canceled=Canceled(definition, pins, maybe(expired)))

    def quiet(self, start: str, end: str, *, zone: str = "UTC", days: tuple[int, ...] = tuple(range(7))) -> Scenario:
        """No run starts in these hours."""
        return self.auto(quiet_hours=(*self.policy.quiet_hours, QuietHours(start, end, days, zone)))

    def blocked(
        self, number: int = 7, motion: str = "running", until: str | None = None, *, cannot_run: bool = False
    ) -> Scenario:
        """Add an ancestor in motion that could make a run read a mix."""
        one = Blocker(number, f"w{number}", motion, maybe(until), cannot_run)
        return self.facts(blockers=(*self.state.blockers, one))

    def waited(self, milliseconds: int) -> Scenario:
        """Let it have waited for ancestors for so long."""
        return self.facts(waited=timedelta(milliseconds=milliseconds))

    def decide(self) -> Decision:
        """Return the decision."""
        return decide(self.policy, self.state, self.now)

    def cause(self) -> Cause | None:
        """Why it should run."""
        return find_cause(self.policy, self.state)

    def decides(self, outcome: str, reason: str) -> Decision:
        """Return the decision, and assert its outcome and reason."""
        decision = self.decide()
        assert (decision.outcome, decision.reason) == (outcome, reason), decision
        return decision


def given(**policy: Any) -> Scenario:
    """Return an automatic workflow that succeeded at 08:00 and has no inputs and outputs yet. It is 09:00."""
    backoff = Backoff(base_ms=2 * MINUTE, max_ms=30 * MINUTE)
    state = State(
        workflow_id=1,
        slug="w",
        partition_key="",
        version=1,
        job_fingerprint=JOB,
        applied_at=clock("07:00"),
        succeeded_fingerprint=JOB,
        succeeded_at=clock("08:00"),
    )
    return Scenario(
        Policy(**{"declared": True, "automatic": True, "backoff": backoff, **policy}), state, clock("09:00")
    )


def stale(**policy: Any) -> Scenario:
    """Its input `a` moved from "1" to "2" at 08:30."""
    return given(**policy).input("a", head="2", read="1").output("b")


def fresh(**policy: Any) -> Scenario:
    """Return a workflow that read the current version of its input `a`."""
    return given(**policy).input("a", head="1", read="1").output("b")
