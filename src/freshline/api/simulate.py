"""`/simulate`: the recorded reports, played through the current policies and through proposed ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from fastapi import APIRouter

from freshline.api import models
from freshline.api.auth import RequireOperate
from freshline.api.pagination import UnvalidatedRoute
from freshline.api.problems import RequestError
from freshline.api.workflows import StoreDep
from freshline.duration import milliseconds
from freshline.errors import DefinitionErrors
from freshline.model.documents.simulation import (
    ComparedWorkflow,
    Simulation,
    SimulationNumbers,
    SimulationResult,
)
from freshline.model.json import Json
from freshline.plural import counted
from freshline.simulation import proposal, recorded
from freshline.simulation.catalogue import Catalogue
from freshline.simulation.driver import Jobs, Report, Work
from freshline.simulation.records import Run
from freshline.simulation.simulate import Result
from freshline.store.read.session import json_value
from freshline.store.store import Store

LONGEST = timedelta(days=31)
LONGEST_S = 30.0
MOST_REPORTS = 50_000
MOST_WORKFLOWS = 5_000
MOST_SHOWN = 200
router = APIRouter(tags=["workflows"], route_class=UnvalidatedRoute)
_one = threading.Lock()


@router.post("/simulate", response_model=models.Simulation)
def run_simulation(_: RequireOperate, store: StoreDep, body: models.SimulationRequest) -> Simulation:
    """Play the recorded reports of the last days through the current policies, and through changed ones.

    Nothing is stored and nothing runs. One simulation runs at a time; it may take 30 seconds.
    """
    length = _length(body.since)
    with _alone():
        return _simulated(store, body, length, time.monotonic() + LONGEST_S)


def _simulated(store: Store, body: models.SimulationRequest, length: timedelta, deadline: float) -> Simulation:
    end = store.reader.now()
    past = store.reader.history(end - length, MOST_REPORTS + 1)
    if len(past["reports"]) > MOST_REPORTS:
        raise _too_large(f"there are more than {counted(MOST_REPORTS, 'report')} in this time; ask for less")
    if len(past["workflows"]) > MOST_WORKFLOWS:
        raise _too_large(f"there are more than {counted(MOST_WORKFLOWS, 'workflow')}")
    definitions = {row["slug"]: row["definition"] for row in past["workflows"]}
    changed = {
        slug: proposal.changed(proposal.find(definitions, slug), changes) for slug, changes in body.workflows.items()
    }
    loaded = [proposal.stored(one) for one in _watched(definitions.values(), deadline)]
    try:
        others = proposal.proposed(loaded, changed)
    except DefinitionErrors as errors:
        raise RequestError(422, "invalid-policy", "; ".join(one.message for one in errors.errors)) from None
    played = recorded.recorded(past, loaded, store.settings, end=end, length=length, seed=body.seed)
    scenario = _limited(played, deadline)
    before = scenario.play(scenario.current, body.slots)
    after = scenario.play(scenario.catalogue(others, store.settings), body.slots) if changed else None
    return {
        "start": json_value(scenario.start),
        "end": json_value(scenario.end),
        "seed": body.seed,
        "slots": body.slots,
        "reports": scenario.reports,
        "notes": list(scenario.notes),
        "before": _result(before),
        "after": _result(after) if after else None,
        "workflows": _compared(scenario.current, before, after, changed),
        "yaml": {slug: proposal.as_yaml(definition) for slug, definition in changed.items()},
    }


def _length(text: str) -> timedelta:
    try:
        found = timedelta(milliseconds=milliseconds(text))
    except ValueError as error:
        raise RequestError(422, "invalid-request", f"since: {error}") from None
    if not timedelta() < found <= LONGEST:
        raise RequestError(422, "invalid-request", f"since: allowed are up to {LONGEST.days} days")
    return found


@contextmanager
def _alone() -> Iterator[None]:
    if not _one.acquire(blocking=False):
        raise RequestError(429, "simulation-busy", "another simulation is running; try again when it has ended")
    try:
        yield
    finally:
        _one.release()


def _too_large(text: str) -> RequestError:
    return RequestError(422, "simulation-too-large", f"{text}; `freshline simulate` has no such limit")


def _check(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise _too_large(f"the simulation takes longer than {LONGEST_S:.0f} s: ask for less time")


def _watched(definitions: Iterable[Json], deadline: float) -> Iterator[Json]:
    for one in definitions:
        _check(deadline)
        yield one


class _LimitedJobs:
    """Jobs that end the simulation at a deadline."""

    def __init__(self, jobs: Jobs, deadline: float) -> None:
        self._jobs = jobs
        self._deadline = deadline

    def work(self, run: Run) -> Work:
        """Return the work of a run."""
        _check(self._deadline)
        return self._jobs.work(run)


def _limited(scenario: recorded.Scenario, deadline: float) -> recorded.Scenario:
    """Return the scenario with an end to its computing time."""

    def reports(catalogue: Catalogue) -> Iterator[Report]:
        for one in scenario.make_reports(catalogue):
            _check(deadline)
            yield one

    return replace(scenario, make_reports=reports, make_jobs=lambda: _LimitedJobs(scenario.make_jobs(), deadline))


def _result(result: Result) -> SimulationResult:
    return {
        "runs": result.runs,
        "failed": result.failed,
        "mixed": result.mixed,
        "avoided": result.runs_avoided,
        "pending": result.pending,
        "slotHours": round(result.slot_hours, 3),
        "breaches": result.breaches,
        "holds": result.holds,
        "heldPartitions": result.held_partitions,
        "lagSeconds": result.lag,
        "series": result.series,
    }


def _numbers(catalogue: Catalogue, slug: str, result: Result) -> SimulationNumbers:
    lags = [lag for one in catalogue.by_slug[slug].outputs if (lag := result.lag_by_asset.get(one)) is not None]
    return {
        "runs": result.runs_by_workflow.get(slug, 0),
        "partitions": result.partitions_by_workflow.get(slug),
        "runSeconds": round(result.seconds_by_workflow.get(slug, 0), 3),
        "lagSeconds": max(lags, key=lambda lag: lag["p95"], default=None),
    }


def _compared(
    catalogue: Catalogue, before: Result, after: Result | None, changed: Collection[str]
) -> list[ComparedWorkflow]:
    """Return the changed workflows, and the others that differ most or run longest."""
    found: list[ComparedWorkflow] = [
        {
            "slug": slug,
            "changed": slug in changed,
            "before": _numbers(catalogue, slug, before),
            "after": _numbers(catalogue, slug, after) if after else None,
        }
        for slug in catalogue.by_slug
    ]
    return sorted(found, key=_rank)[:MOST_SHOWN]


def _rank(one: ComparedWorkflow) -> tuple[bool, int, float, str]:
    before, after = one["before"], one["after"]
    runs = abs(after["runs"] - before["runs"]) if before and after else 0
    return not one["changed"], -runs, -(before["runSeconds"] if before else 0), one["slug"]
