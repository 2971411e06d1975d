"""How simulated runs go: as a load says, or as recorded runs went; with a seed, and luck of its own per workflow.

The n-th run of a workflow goes the same way under every policy, so that two policies can be compared.
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
class Recorded:
    """How one run went."""

    slug: str
    seconds: float
    fails: bool
    changed: bool


class SeededJobs:
    """Draws the work of every run; `draw` makes it from a workflow's slug and luck."""

    def __init__(self, draw: Callable[[str, random.Random], Work], seed: int) -> None:
        self._draw = draw
        self._seed = seed
        self._luck: dict[str, random.Random] = {}

    def work(self, run: Run) -> Work:
        """How the next run of this workflow goes."""
        luck = self._luck.get(run.slug)
        if luck is None:
            luck = self._luck[run.slug] = random.Random(f"{self._seed}:{run.slug}")  # noqa: S311 - a seed
        return self._draw(run.slug, luck)


def synthetic_jobs(load: Load, seed: int) -> SeededJobs:
    """Runs as the load says; workflows that it does not name take a minute and never fail."""
    known: dict[str, WorkflowLoad] = {}

    def draw(slug: str, luck: random.Random) -> Work:
        if slug not in known:
            known[slug] = choose(load.workflows, slug) or WorkflowLoad()
        one = known[slug]
        # Each run takes the same number of draws, so that no run's luck depends on how another one went.
        stretch, fails, changed = luck.lognormvariate(0.0, one.spread), luck.random(), luck.random()
        seconds = one.duration_ms / 1000 * (stretch if one.spread else 1.0)
        return Work(timedelta(seconds=seconds), fails < one.failure_rate, changed < one.change_rate)

    return SeededJobs(draw, seed)


def recorded_jobs(runs: Iterable[Recorded], seed: int) -> SeededJobs:
    """Runs like recorded ones of the same workflow; like any recorded one's median where there are none."""
    by_slug: dict[str, list[Recorded]] = {}
    for run in runs:
        by_slug.setdefault(run.slug, []).append(run)
    usual = usual_seconds(by_slug)

    def draw(slug: str, luck: random.Random) -> Work:
        found = by_slug.get(slug)
        if not found:
            return Work(timedelta(seconds=usual))
        one = luck.choice(found)
        return Work(timedelta(seconds=one.seconds), one.fails, one.changed)

    return SeededJobs(draw, seed)


def usual_seconds(by_slug: Mapping[str, Sequence[Recorded]]) -> float:
    """What a run takes of which nothing is known: the median of all, or a minute."""
    return median([run.seconds for runs in by_slug.values() for run in runs] or [60.0])
