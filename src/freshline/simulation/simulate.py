"""A policy played through a time: reports, jobs and slots go in, what a user wants to know comes out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from freshline.model.json import Json
from freshline.simulation.catalogue import Catalogue
from freshline.simulation.driver import Driver, Jobs, Report
from freshline.simulation.metrics import Metrics, failed, percentiles
from freshline.simulation.simulator import Simulator


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a simulation. Lags are in seconds."""

    runs: int
    failed: int
    mixed: int
    runs_avoided: int
    pending: int
    slot_hours: float
    breaches: int
    holds: dict[str, int]
    lag: dict[str, float] | None
    lag_by_asset: dict[str, dict[str, float]]
    runs_by_workflow: dict[str, int]
    breaches_by_asset: dict[str, int]
    seconds_by_workflow: dict[str, float]

    def as_json(self) -> Json:
        """Return the form of `freshline simulate --json`."""
        return {
            "runs": self.runs,
            "failed": self.failed,
            "mixed": self.mixed,
            "avoided": self.runs_avoided,
            "pending": self.pending,
            "slotHours": round(self.slot_hours, 3),
            "breaches": self.breaches,
            "holds": self.holds,
            "lagSeconds": self.lag,
            "assets": {
                one: {"lagSeconds": self.lag_by_asset.get(one), "breaches": self.breaches_by_asset.get(one, 0)}
                for one in sorted({*self.lag_by_asset, *self.breaches_by_asset})
            },
            "workflows": {slug: {"runs": count} for slug, count in sorted(self.runs_by_workflow.items())},
        }


def simulate(
    catalogue: Catalogue, reports: Iterable[Report], jobs: Jobs, *, start: datetime, end: datetime, slots: int
) -> Result:
    """Simulate the policies with these reports.

    All assets are fresh at the start. Reports of assets that are not sources are ignored.
    """
    metrics = Metrics(catalogue)
    simulator = Simulator(catalogue, start, observer=metrics)
    simulator.start(fresh=True)
    sources = set(catalogue.sources)
    Driver(simulator, jobs, slots=slots, reports=(one for one in reports if one.asset_id in sources)).run(end)
    metrics.finish(simulator)
    return _result(metrics, runs_avoided=sum(one.runs_avoided for one in simulator.workflow_states.values()))


def _result(metrics: Metrics, runs_avoided: int) -> Result:
    every = list(chain.from_iterable(metrics.lags.values()))
    return Result(
        runs=sum(metrics.runs.values()),
        failed=failed(metrics),
        mixed=metrics.mixed,
        runs_avoided=runs_avoided,
        pending=metrics.pending,
        slot_hours=sum(metrics.seconds.values()) / 3600,
        breaches=sum(metrics.breaches.values()),
        holds=dict(metrics.holds.most_common()),
        lag=percentiles(every) if every else None,
        lag_by_asset={asset_id: percentiles(lags) for asset_id, lags in sorted(metrics.lags.items()) if lags},
        runs_by_workflow=dict(metrics.runs),
        breaches_by_asset=dict(metrics.breaches),
        seconds_by_workflow=dict(metrics.seconds),
    )
