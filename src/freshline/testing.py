"""A test kit for policies: what would run, what would wait and why, without a database and without Spark.

    given("my-project").at("09:00").report("orders.raw").expect_runs("orders.daily").succeed("orders.daily")

A chain is immutable: every step returns a new one, so a common beginning can be kept and continued in several ways.
Names are asset ids or slugs. Times are UTC. An expectation that does not hold says what happened instead.

At the beginning every asset was just made and is fresh; `given(..., fresh=False)` begins with nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from functools import partial
from pathlib import Path

from freshline.decide import Decision
from freshline.decide.causes import find_cause
from freshline.errors import UsageError
from freshline.model.enums import AssetState, Outcome, Reason, RunStatus
from freshline.settings import Settings
from freshline.simulation import Catalogue, Member, Run, Simulator
from freshline.simulation.loading import Given, load_workflows

__all__ = ["MONDAY", "Chain", "ExpectationError", "given"]

MONDAY = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
MOST_RUNS = 10_000


class ExpectationError(AssertionError):
    """An expectation does not hold."""


def given(what: Given, *, fresh: bool = True) -> Chain:
    """Start a chain with the workflows of a project directory, a loaded project, YAML text, or definitions as dicts.

    `fresh`: every asset was just produced; otherwise no asset was ever produced and no source was reported.
    """
    return Chain(Catalogue.of(load_workflows(what), Settings(project=Path())), fresh=fresh)


@dataclass(frozen=True)
class Chain:
    """An immutable history. It starts on Monday, 2026-01-05 at 09:00 UTC, unless the first step is `at`."""

    catalogue: Catalogue
    fresh: bool = True
    steps: tuple[str, ...] = ()
    _simulator: Simulator | None = None

    # Steps.

    def at(self, moment: str | datetime) -> Chain:
        """Wait until a time of day (`"09:00"`, today or tomorrow) or a date (`"2026-01-31T18:00"`)."""
        if self._simulator is None:
            start = _moment(moment, MONDAY.replace(hour=0), first=True)
            return replace(self, steps=(f"at {moment}",), _simulator=self._begun(start))
        return self._after(f"at {moment}", lambda simulator: simulator.advance(_moment(moment, simulator.now)))

    def advance(self, **delta: float) -> Chain:
        """Let time pass: `advance(minutes=5)`, with the arguments of `timedelta`."""
        shown = ", ".join(f"{key}={value}" for key, value in delta.items())
        return self._after(f"advance {shown}", lambda simulator: simulator.advance(simulator.now + timedelta(**delta)))

    def report(self, *assets: str, version: str | None = None) -> Chain:
        """Report sources. Reporting the same `version` twice is not a change."""
        return self._each("report", assets, lambda asset, simulator: simulator.report(asset, version))

    def start(self, *names: str) -> Chain:
        """Start queued runs. The versions that they read are fixed from now on."""
        return self._each("start", names, lambda name, simulator: simulator.begin(self._queued(simulator, name)))

    def succeed(self, *names: str, changed: bool = True, versions: Mapping[str, str] | None = None) -> Chain:
        """Let runs succeed. `changed` False: the data is the same as before. `versions`: data versions by asset."""

        def end(name: str, simulator: Simulator) -> None:
            simulator.succeed(self._begun_run(simulator, name), versions, changed=changed)

        return self._each("succeed", names, end)

    def fail(self, *names: str) -> Chain:
        """Let runs fail. The cooldown starts."""
        return self._each("fail", names, lambda name, simulator: simulator.fail(self._begun_run(simulator, name)))

    def cancel(self, *names: str) -> Chain:
        """Cancel runs, as a user does."""
        return self._each("cancel", names, lambda name, simulator: simulator.cancel(self._active(simulator, name)))

    def expire(self, *assets: str) -> Chain:
        """Let the freshness of these assets end."""
        return self._each("expire", assets, lambda asset, simulator: simulator.expire(asset))

    def pause(self, name: str, **delta: float) -> Chain:
        """Pause a workflow, as a user does: `pause("b", hours=2)`, or without an end."""
        workflow = self.catalogue.find(name).id
        end = timedelta(**delta)
        return self._after(
            f"pause {name}", lambda simulator: simulator.pause(workflow, simulator.now + end if delta else None)
        )

    def resume(self, *names: str) -> Chain:
        """End pauses."""
        return self._each("resume", names, lambda name, simulator: simulator.resume(self.catalogue.find(name).id))

    def reset(self, *names: str) -> Chain:
        """Clear failures, breaker and cancellation, as a user does."""
        return self._each("reset", names, lambda name, simulator: simulator.reset(self.catalogue.find(name).id))

    def work(self) -> Chain:
        """Let all queued runs succeed, and those that follow, until nothing is queued."""
        return self._after("work", _work)

    # Expectations.

    def expect_runs(self, *names: str) -> Chain:
        """Expect that exactly these are queued or running."""
        simulator, wanted = self._now(), {self.catalogue.find(name).slug for name in names}
        found = {run.slug for run in simulator.active.values()}
        if found != wanted:
            raise self._wrong(f"expected runs of {_list(wanted)}, but {_list(found)} {_verb(found)}")
        return self

    def expect_nothing(self) -> Chain:
        """Expect that nothing is queued or running."""
        return self.expect_runs()

    def expect_run(self, name: str, reason: str | None = None, *, mixed: bool | None = None) -> Chain:
        """Expect a queued or running run with this reason. `mixed`: whether it reads more than one generation."""
        run = self._active(self._now(), name)
        if reason is not None and run.reason != _reason(reason):
            raise self._wrong(f"expected {name} to run because of {reason!r}, but it runs because of {run.reason!r}")
        if mixed is not None and run.mixed != mixed:
            raise self._wrong(f"expected the run of {name} to be {'' if mixed else 'not '}mixed, but it is the reverse")
        return self

    def expect_held(self, name: str, reason: str | None = None, *, until: str | datetime | None = None) -> Chain:
        """Expect that the workflow is held, with this reason and until this time."""
        simulator, member = self._now(), self.catalogue.find(name)
        decision = simulator.peek(member)
        right = decision.reason == _reason(reason) if reason else decision.reason is not Reason.IN_FLIGHT
        if decision.outcome is not Outcome.HOLD or not right:
            raise self._wrong(
                f"expected {name} to be held{_because(reason)}, but it is {_described(simulator, member)}"
            )
        if until is not None and decision.next_evaluation != _moment(until, simulator.now, first=True):
            raise self._wrong(f"expected {name} to be held until {until}, but it is {_described(simulator, member)}")
        return self

    def expect_skipped(self, name: str, reason: str | None = None) -> Chain:
        """Expect that nothing is to do for the workflow: `up-to-date`, `policy-off` or `not-auto`."""
        simulator, member = self._now(), self.catalogue.find(name)
        decision = simulator.peek(member)
        if decision.outcome is not Outcome.SKIP or (reason is not None and decision.reason != _reason(reason)):
            raise self._wrong(
                f"expected {name} to be skipped{_because(reason)}, but it is {_described(simulator, member)}"
            )
        return self

    def expect_fresh(self, *names: str) -> Chain:
        """Expect that these were computed from the current versions and have not expired."""
        return self._states(names, AssetState.FRESH)

    def expect_stale(self, *names: str) -> Chain:
        """Expect that these have a cause to run, whether they are held or not."""
        return self._states(names, AssetState.STALE)

    @property
    def now(self) -> datetime:
        """The simulated time."""
        return self._now().now

    @property
    def simulator(self) -> Simulator:
        """A copy of the simulator, for questions that the expectations do not cover."""
        return self._now().copy()

    # Helpers.

    def _begun(self, now: datetime) -> Simulator:
        simulator = Simulator(self.catalogue, now)
        simulator.start(fresh=self.fresh)
        simulator.settle()
        return simulator

    def _now(self) -> Simulator:
        return self._simulator or self._begun(MONDAY)

    def _after(self, step: str, action: Callable[[Simulator], object]) -> Chain:
        simulator = self._simulator.copy() if self._simulator else self._begun(MONDAY)
        action(simulator)
        simulator.settle()
        return replace(self, steps=(*self.steps, step), _simulator=simulator)

    def _each(self, verb: str, names: Iterable[str], action: Callable[[str, Simulator], object]) -> Chain:
        chain = self
        for name in names:
            chain = chain._after(f"{verb} {name}", partial(action, name))
        return chain

    def _active(self, simulator: Simulator, name: str) -> Run:
        member = self.catalogue.find(name)
        if member.id not in simulator.active:
            raise self._wrong(f"{name} has no run: it is {_described(simulator, member)}")
        return simulator.active[member.id]

    def _queued(self, simulator: Simulator, name: str) -> Run:
        run = self._active(simulator, name)
        if run.status is not RunStatus.QUEUED:
            raise self._wrong(f"the run of {name} has begun already")
        return run

    def _begun_run(self, simulator: Simulator, name: str) -> Run:
        run = self._active(simulator, name)
        if run.status is RunStatus.QUEUED:
            simulator.begin(run)
        return run

    def _states(self, names: Iterable[str], wanted: AssetState) -> Chain:
        simulator = self._now()
        for name in names:
            member = self.catalogue.find(name)
            stale = find_cause(member.policy, simulator.state(member)) is not None
            if stale is not (wanted is AssetState.STALE):
                raise self._wrong(f"expected {name} to be {wanted}, but it is {_described(simulator, member)}")
        return self

    def _wrong(self, message: str) -> ExpectationError:
        simulator = self._now()
        width = max(len(slug) for slug in self.catalogue.by_slug)
        lines = [
            f"  {slug:<{width}}  {_described(simulator, member)}"
            for slug, member in sorted(self.catalogue.by_slug.items())
        ]
        then = f"after: {'; '.join(self.steps) or 'nothing'}"
        return ExpectationError("\n".join([message, f"at {simulator.now:%Y-%m-%d %H:%M:%S} UTC:", *lines, then]))


def _work(simulator: Simulator) -> None:
    for _ in range(MOST_RUNS):
        simulator.settle()
        run = next(iter(simulator.active.values()), None)
        if run is None:
            return
        if run.status is RunStatus.QUEUED:
            simulator.begin(run)
        simulator.succeed(run)
    raise ExpectationError(f"it does not stop running: {MOST_RUNS} runs, and still more")


def _described(simulator: Simulator, member: Member) -> str:
    """Describe the run or the decision of a workflow, with the reason."""
    run = simulator.active.get(member.id)
    if run is not None:
        return f"{run.status} ({run.reason}{', mixed' if run.mixed else ''})"
    decision = simulator.peek(member)
    if decision.outcome is Outcome.SKIP:
        return f"skipped ({decision.reason})"
    until = (
        f" until {decision.next_evaluation:%Y-%m-%d %H:%M:%S}"
        if decision.blocks_until and decision.next_evaluation
        else ""
    )
    return f"held ({decision.reason}{_detail(decision)}{until})"


def _detail(decision: Decision) -> str:
    evidence = decision.evidence
    names = evidence.get("missing") or evidence.get("waitingFor")
    names = names or [one["workflowSlug"] for one in evidence.get("blockers", ())]
    return f": {', '.join(names)}" if names else ""


def _reason(name: str) -> Reason:
    try:
        return Reason(name)
    except ValueError:
        raise UsageError(f"reason {name!r} does not exist; allowed are {', '.join(Reason)}") from None


def _moment(given: str | datetime, now: datetime, *, first: bool = False) -> datetime:
    """Return the next such time of day, or the date. `first`: the time of day may be now."""
    if isinstance(given, datetime):
        found = given if given.tzinfo else given.replace(tzinfo=UTC)
    else:
        found = _parsed(given, now, first=first)
    if found < now:
        raise UsageError(f"{given} lies before {now:%Y-%m-%d %H:%M:%S}; time only moves on")
    return found


def _parsed(text: str, now: datetime, *, first: bool) -> datetime:
    try:
        day = datetime.combine(now.date(), time.fromisoformat(text), UTC)
        return day if day > now or (first and day == now) else day + timedelta(days=1)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a time; allowed are 09:00 and 2026-01-31T18:00") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _list(slugs: Iterable[str]) -> str:
    return ", ".join(sorted(slugs)) or "nothing"


def _verb(slugs: set[str]) -> str:
    return "run" if len(slugs) > 1 else "runs"
