"""Durations and results of simulated runs: from a load file, or from recorded runs.

Each workflow has its own random numbers. The n-th run of a workflow has the same work under every policy, so that two
policies can be compared.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from freshline.simulation.driver import Work
from freshline.simulation.records import Run
from freshline.simulation.workload import Load, WorkflowLoad, choose


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The duration and the result of a past run."""

    slug: str
    seconds: float
    fails: bool
    changed: bool


class SeededJobs:
    """Draws the work of every run. `draw` gets the slug of the workflow and its random numbers."""

    def __init__(self, draw: Callable[[str, random.Random], Work], seed: int) -> None:
        self._draw = draw
        self._seed = seed
        self._rngs: dict[str, random.Random] = {}

    def work(self, run: Run) -> Work:
        """Return the work of the next run of the workflow."""
        rng = self._rngs.get(run.slug)
        if rng is None:
            rng = self._rngs[run.slug] = random.Random(f"{self._seed}:{run.slug}")  # noqa: S311 - a seed
        return self._draw(run.slug, rng)


def synthetic_jobs(load: Load, seed: int) -> SeededJobs:
    """Return jobs as the load says. A run of a workflow that it does not name takes a minute and never fails."""
    known: dict[str, WorkflowLoad] = {}

    def draw(slug: str, rng: random.Random) -> Work:
        if slug not in known:
            known[slug] = choose(load.workflows, slug) or WorkflowLoad()
        one = known[slug]
        # Every run draws the same number of values, so that no run depends on the result of another one.
        stretch, fails, changed = rng.lognormvariate(0.0, one.spread), rng.random(), rng.random()
        seconds = one.duration_ms / 1000 * (stretch if one.spread else 1.0)
        return Work(timedelta(seconds=seconds), fails < one.failure_rate, changed < one.change_rate)

    return SeededJobs(draw, seed)


def recorded_jobs(runs: Iterable[RecordedRun], seed: int) -> SeededJobs:
    """Return jobs like the recorded runs of the same workflow, or with the median of all if there are none."""
    by_slug: dict[str, list[RecordedRun]] = {}
    for run in runs:
        by_slug.setdefault(run.slug, []).append(run)
    usual = usual_seconds(by_slug)

    def draw(slug: str, rng: random.Random) -> Work:
        found = by_slug.get(slug)
        if not found:
            return Work(timedelta(seconds=usual))
        one = rng.choice(found)
        return Work(timedelta(seconds=one.seconds), one.fails, one.changed)

    return SeededJobs(draw, seed)


def usual_seconds(by_slug: Mapping[str, Sequence[RecordedRun]]) -> float:
    """Return the median duration of all recorded runs, or a minute if there are none."""
    return median([run.seconds for runs in by_slug.values() for run in runs] or [60.0])
