"""A test kit for policies: what would run, what would wait and why, without a database and without Spark.

    given("my-project").at("09:00").report("orders.raw").expect_runs("orders.daily").succeed("orders.daily")

A chain is immutable: every step returns a new one, so a common beginning can be kept and continued in several ways.
Names are asset ids or slugs. A partition is a pair, `("sales.daily", "2024-01-31")`. Times are UTC.

An expectation that does not hold says what happened instead.

At the beginning every asset was just made and is fresh; `given(..., fresh=False)` begins with nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from freshline.decide.causes import find_cause
from freshline.errors import UsageError
from freshline.model.enums import AssetState, Outcome, Reason, RunStatus
from freshline.model.state import reference
from freshline.settings import Settings
from freshline.simulation import Catalogue, Member, Run, Simulator
from freshline.simulation.backfill_records import Backfill
from freshline.simulation.description import described, shown_members
from freshline.simulation.loading import Given, load_definitions
from freshline.simulation.moments import moment_of
from freshline.simulation.requests import backfill_request

__all__ = ["MONDAY", "Chain", "ExpectationError", "given"]

MONDAY = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
MOST_RUNS = 10_000
MOST_SHOWN = 40
Name = str | tuple[str, str]
"""An asset id or slug; with a partition key if it has partitions."""


class ExpectationError(AssertionError):
    """An expectation does not hold."""


def given(what: Given, *, fresh: bool = True) -> Chain:
    """Start a chain with the workflows of a project directory, a loaded project, YAML text, or definitions as dicts.

    `fresh`: every asset was just produced; otherwise no asset was ever produced and no source was reported.
    """
    loaded = load_definitions(what)
    return Chain(Catalogue.of(loaded.workflows, Settings(project=Path()), loaded.sources), fresh=fresh)


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
            start = moment_of(moment, MONDAY.replace(hour=0), first=True)
            return replace(self, steps=(f"at {moment}",), _simulator=self._begun(start))
        return self._after(f"at {moment}", lambda simulator: simulator.advance(moment_of(moment, simulator.now)))

    def advance(self, **delta: float) -> Chain:
        """Let time pass: `advance(minutes=5)`, with the arguments of `timedelta`."""
        shown = ", ".join(f"{key}={value}" for key, value in delta.items())
        return self._after(f"advance {shown}", lambda simulator: simulator.advance(simulator.now + timedelta(**delta)))

    def report(self, *assets: Name, version: str | None = None) -> Chain:
        """Report sources, or partitions: `report("orders.raw", "2024-01-31T05")`; every key belongs to the name before.

        Reporting the same `version` twice is not a change.
        """
        return self._each("report", self._with_keys(assets), lambda one, simulator: _report(simulator, one, version))

    def report_together(self, *assets: Name, version: str | None = None) -> Chain:
        """Report sources, or partitions, as one generation: no join below two of them runs on half of it."""
        names = self._with_keys(assets)
        shown = ", ".join(map(str, names))
        return self._after(f"report_together {shown}", lambda simulator: _report_together(simulator, names, version))

    def start(self, *names: Name) -> Chain:
        """Start queued runs. The versions that they read are fixed from now on."""
        return self._each("start", names, lambda name, simulator: simulator.begin(self._queued(simulator, name)))

    def succeed(self, *names: Name, changed: bool = True, versions: Mapping[str, str] | None = None) -> Chain:
        """Let runs succeed. `changed` False: the data is the same as before. `versions`: data versions by asset."""

        def end(name: Name, simulator: Simulator) -> None:
            simulator.succeed(self._begun_run(simulator, name), versions, changed=changed)

        return self._each("succeed", names, end)

    def fail(self, *names: Name) -> Chain:
        """Let runs fail. The cooldown starts."""
        return self._each("fail", names, lambda name, simulator: simulator.fail(self._begun_run(simulator, name)))

    def cancel(self, *names: Name) -> Chain:
        """Cancel runs, as a user does."""
        return self._each("cancel", names, lambda name, simulator: simulator.cancel(self._active(simulator, name)))

    def expire(self, *assets: Name) -> Chain:
        """Let the freshness of these assets end."""
        return self._each("expire", assets, lambda one, simulator: simulator.expire(*_pair(one)))

    def pause(self, name: str, **delta: float) -> Chain:
        """Pause a workflow, as a user does: `pause("b", hours=2)`, or without an end."""
        workflow = self.catalogue.find(name).id
        end = timedelta(**delta)
        return self._after(
            f"pause {name}", lambda simulator: simulator.pause(workflow, simulator.now + end if delta else None)
        )

    def resume(self, *names: str) -> Chain:
        """End pauses."""
        return self._each(
            "resume", names, lambda name, simulator: simulator.resume(self.catalogue.find(_pair(name)[0]).id)
        )

    def reset(self, *names: str) -> Chain:
        """Clear failures, breaker and cancellation, as a user does."""
        return self._each(
            "reset", names, lambda name, simulator: simulator.reset(self.catalogue.find(_pair(name)[0]).id)
        )

    def work(self) -> Chain:
        """Let all queued runs succeed, and those that follow, until nothing is queued."""
        return self._after("work", _work)

    def backfill(self, asset: str, *, only: str = "all", order: str = "newest", **options: Any) -> Chain:
        """Request a backfill, with the options of the command.

        `first`, `last` or `keys`; `upstream`, `downstream`; `concurrency`, `not_before`, `during_quiet_hours`,
        `priority`, `partial`.
        """

        def create(simulator: Simulator) -> None:
            simulator.backfills.create(backfill_request(asset, only, order, options, simulator.now))

        return self._after(f"backfill {asset}", create)

    def pause_backfill(self) -> Chain:
        """Pause the last backfill."""
        return self._after("pause_backfill", lambda simulator: simulator.backfills.pause(_last(simulator).id))

    def resume_backfill(self) -> Chain:
        """End the pause of the last backfill."""
        return self._after("resume_backfill", lambda simulator: simulator.backfills.resume(_last(simulator).id))

    def retry_backfill(self) -> Chain:
        """Try the failed partitions of the last backfill again."""
        return self._after("retry_backfill", lambda simulator: simulator.backfills.retry(_last(simulator).id))

    def cancel_backfill(self) -> Chain:
        """Cancel the last backfill. Its queued runs end."""
        return self._after("cancel_backfill", lambda simulator: simulator.backfills.cancel(_last(simulator).id))

    # Expectations.

    def expect_runs(self, *names: Name) -> Chain:
        """Expect that exactly these are queued or running."""
        simulator = self._now()
        wanted = {self._member(simulator, name).name for name in names}
        found = {reference(run.slug, run.partition_key) for run in simulator.active.values()}
        if found != wanted:
            raise self._wrong(f"expected runs of {_list(wanted)}, but {_list(found)} {_verb(found)}")
        return self

    def expect_nothing(self) -> Chain:
        """Expect that nothing is queued or running."""
        return self.expect_runs()

    def expect_no_runs(self) -> Chain:
        """Expect that nothing is queued or running."""
        return self.expect_runs()

    def expect_backfill(self, status: str, *, done: int | None = None, failed: int | None = None) -> Chain:
        """Expect the status of the last backfill, and how many of its partitions are done and failed."""
        simulator = self._now()
        found = _last(simulator)
        progress = simulator.backfills.progress(found.id)
        counts = {"done": (done, progress.done), "failed": (failed, progress.failed)}
        if found.status != status or any(wanted not in {None, real} for wanted, real in counts.values()):
            told = f"{found.status}: {progress.done} of {progress.total} done, {progress.failed} failed"
            raise self._wrong(f"expected the backfill of {found.asset_id} to be {status}, but it is {told}")
        return self

    def expect_run(self, name: Name, reason: str | None = None, *, mixed: bool | None = None) -> Chain:
        """Expect a queued or running run with this reason. `mixed`: whether it reads more than one generation."""
        run = self._active(self._now(), name)
        if reason is not None and run.reason != _reason(reason):
            raise self._wrong(f"expected {name} to run because of {reason!r}, but it runs because of {run.reason!r}")
        if mixed is not None and run.mixed != mixed:
            raise self._wrong(f"expected the run of {name} to be {'' if mixed else 'not '}mixed, but it is the reverse")
        return self

    def expect_held(self, name: Name, reason: str | None = None, *, until: str | datetime | None = None) -> Chain:
        """Expect that the workflow is held, with this reason and until this time."""
        simulator, member = self._known(name)
        decision = simulator.peek(member)
        right = decision.reason == _reason(reason) if reason else decision.reason is not Reason.IN_FLIGHT
        if decision.outcome is not Outcome.HOLD or not right:
            raise self._wrong(f"expected {name} to be held{_because(reason)}, but it is {described(simulator, member)}")
        if until is not None and decision.next_evaluation != moment_of(until, simulator.now, first=True):
            raise self._wrong(f"expected {name} to be held until {until}, but it is {described(simulator, member)}")
        return self

    def expect_skipped(self, name: Name, reason: str | None = None) -> Chain:
        """Expect that nothing is to do for the workflow: `up-to-date`, `policy-off` or `not-auto`."""
        simulator, member = self._known(name)
        decision = simulator.peek(member)
        if decision.outcome is not Outcome.SKIP or (reason is not None and decision.reason != _reason(reason)):
            raise self._wrong(
                f"expected {name} to be skipped{_because(reason)}, but it is {described(simulator, member)}"
            )
        return self

    def expect_fresh(self, *names: Name) -> Chain:
        """Expect that these were computed from the current versions and have not expired."""
        return self._states(names, AssetState.FRESH)

    def expect_stale(self, *names: Name) -> Chain:
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

    def _each(self, verb: str, names: Iterable[Name], action: Callable[[Name, Simulator], object]) -> Chain:
        chain = self
        for name in names:
            chain = chain._after(f"{verb} {reference(*_pair(name))}", partial(action, name))
        return chain

    def _with_keys(self, names: Iterable[Name]) -> list[Name]:
        """Join every key with the asset before it. A key is a text that does not name an asset."""
        found: list[Name] = []
        last: str | None = None
        for name in names:
            if isinstance(name, str) and last is not None and name not in self.catalogue.assets:
                found = found[:-1] if found[-1] == last else found
                found.append((last, name))
                continue
            found.append(name)
            last = name if isinstance(name, str) and self.catalogue.graph.partitioning(name).columns else None
        return found

    def _known(self, name: Name) -> tuple[Simulator, Member]:
        simulator = self._now()
        return simulator, self._member(simulator, name)

    def _member(self, simulator: Simulator, name: Name) -> Member:
        """Return a workflow, or the partition of it that is named."""
        slug, key = _pair(name)
        found = self.catalogue.find(slug)
        partitioning = self.catalogue.graph.partitioning_of(found.id)
        known = simulator.reading.known_keys(found.outputs[0]) if found.outputs else {}
        if partitioning.columns and not key:
            newest = partitioning.newest_key(simulator.now, known)
            raise UsageError(f"{slug!r} has partitions, and none is named", hint=f'write ("{slug}", "{newest}")')
        if not partitioning.columns and key:
            raise UsageError(f"{slug!r} has no partitions; it is named without {key!r}")
        return self.catalogue.member(found.id, partitioning.require_exists(key, simulator.now, known) if key else "")

    def _active(self, simulator: Simulator, name: Name) -> Run:
        member = self._member(simulator, name)
        if member.id not in simulator.active:
            raise self._wrong(f"{member.name} has no run: it is {described(simulator, member)}")
        return simulator.active[member.id]

    def _queued(self, simulator: Simulator, name: Name) -> Run:
        run = self._active(simulator, name)
        if run.status is not RunStatus.QUEUED:
            raise self._wrong(f"the run of {name} has begun already")
        return run

    def _begun_run(self, simulator: Simulator, name: Name) -> Run:
        run = self._active(simulator, name)
        if run.status is RunStatus.QUEUED:
            simulator.begin(run)
        return run

    def _states(self, names: Iterable[Name], wanted: AssetState) -> Chain:
        for name in names:
            simulator, member = self._known(name)
            stale = find_cause(member.policy, simulator.state(member)) is not None
            if stale is not (wanted is AssetState.STALE):
                raise self._wrong(f"expected {name} to be {wanted}, but it is {described(simulator, member)}")
        return self

    def _wrong(self, message: str) -> ExpectationError:
        simulator = self._now()
        shown = list(shown_members(simulator))
        width = max(len(member.name) for member in shown)
        lines = [f"  {member.name:<{width}}  {described(simulator, member)}" for member in shown[:MOST_SHOWN]]
        lines += [f"  and {len(shown) - MOST_SHOWN:,} more"] if len(shown) > MOST_SHOWN else []
        then = f"after: {'; '.join(self.steps) or 'nothing'}"
        return ExpectationError("\n".join([message, f"at {simulator.now:%Y-%m-%d %H:%M:%S} UTC:", *lines, then]))


def _pair(name: Name) -> tuple[str, str]:
    """Return the name and the partition key, which is empty without partitions."""
    return (name, "") if isinstance(name, str) else name


def _report_together(simulator: Simulator, names: Iterable[Name], version: str | None) -> None:
    given = [_fitting(simulator, name) for name in names]
    simulator.report_together((asset_id, key, version) for asset_id, key in given)


def _report(simulator: Simulator, name: Name, version: str | None) -> None:
    asset_id, key = _fitting(simulator, name)
    simulator.report(asset_id, version, key)


def _fitting(simulator: Simulator, name: Name) -> tuple[str, str]:
    """Return an asset and a partition key that it has, or none."""
    asset_id, key = _pair(name)
    partitioning = simulator.catalogue.graph.partitioning(simulator.catalogue.asset(asset_id))
    if partitioning.columns and not key:
        raise UsageError(f"asset {asset_id!r} has partitions, and none is named", hint=f"e.g. {partitioning.example}")
    if key and not partitioning.columns:
        raise UsageError(f"asset {asset_id!r} has no partitions; report it without {key!r}")
    return asset_id, key


def _last(simulator: Simulator) -> Backfill:
    found = list(simulator.backfills.known.values())
    if not found:
        raise UsageError("no backfill was requested", hint="request one with backfill(...)")
    return found[-1]


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


def _reason(name: str) -> Reason:
    try:
        return Reason(name)
    except ValueError:
        raise UsageError(f"reason {name!r} does not exist; allowed are {', '.join(Reason)}") from None


def _because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _list(slugs: Iterable[str]) -> str:
    return ", ".join(sorted(slugs)) or "nothing"


def _verb(slugs: set[str]) -> str:
    return "run" if len(slugs) > 1 else "runs"
