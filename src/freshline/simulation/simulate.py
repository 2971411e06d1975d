"""A policy played through a time: reports, jobs and slots go in, what a user wants to know comes out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from freshline.model.documents.simulation import Percentiles, SimulationSeries
from freshline.model.json import Json
from freshline.simulation.beginning import Data
from freshline.simulation.catalogue import Catalogue
from freshline.simulation.driver import Demanded, Driver, Jobs, Report
from freshline.simulation.metrics import Metrics, failed
from freshline.simulation.series import Series, percentiles
from freshline.simulation.simulator import Simulator


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a simulation. Lags are in seconds.

    `partitions_by_workflow`: how many partitions ran, of workflows that have some. `held_partitions`: how many the
    flood guard holds at the end; None: nothing has partitions. `refused`: why backfills could not be requested.
    """

    runs: int
    failed: int
    mixed: int
    runs_avoided: int
    pending: int
    slot_hours: float
    breaches: int
    holds: dict[str, int]
    lag: Percentiles | None
    lag_by_asset: dict[str, Percentiles]
    runs_by_workflow: dict[str, int]
    breaches_by_asset: dict[str, int]
    seconds_by_workflow: dict[str, float]
    partitions_by_workflow: dict[str, int]
    held_partitions: int | None
    series: SimulationSeries
    refused: tuple[str, ...]

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
            **({} if self.held_partitions is None else {"heldPartitions": self.held_partitions}),
            "lagSeconds": self.lag,
            "series": self.series,
            "assets": {
                one: {"lagSeconds": self.lag_by_asset.get(one), "breaches": self.breaches_by_asset.get(one, 0)}
                for one in sorted({*self.lag_by_asset, *self.breaches_by_asset})
            },
            "workflows": {slug: self._workflow(slug) for slug in sorted(self.runs_by_workflow)},
        }

    def _workflow(self, slug: str) -> Json:
        partitions = self.partitions_by_workflow.get(slug)
        return {"runs": self.runs_by_workflow[slug], **({} if partitions is None else {"partitions": partitions})}


def simulate(
    catalogue: Catalogue,
    reports: Iterable[Report],
    jobs: Jobs,
    *,
    start: datetime,
    end: datetime,
    slots: int,
    demands: Iterable[Demanded] = (),
    data: Data | None = None,
) -> Result:
    """Simulate the policies with these reports and backfills.

    All assets are fresh at the start; of the sources in `data`, only these partitions. Reports of assets that are not
    sources, and of partitions that are not defined, are ignored.
    """
    metrics = Metrics(catalogue, Series(start, end))
    simulator = Simulator(catalogue, start, observer=metrics)
    simulator.start(fresh=True, data=data)
    driver = Driver(
        simulator, jobs, slots=slots, reports=(one for one in reports if takes(catalogue, one)), demands=demands
    )
    driver.run(end)
    metrics.finish(simulator)
    return _result(metrics, simulator, driver.refused)


def takes(catalogue: Catalogue, report: Report) -> bool:
    """Return whether a report is of a source, and of a partition that it has and whose window has begun."""
    if catalogue.graph.producer(report.asset_id) is not None or not catalogue.graph.consumers(report.asset_id):
        return False
    partitioning = catalogue.graph.partitioning(report.asset_id)
    if not partitioning.columns or not report.partition_key:
        return not partitioning.columns and not report.partition_key
    if not partitioning.defines(report.partition_key):
        return False
    window = partitioning.window(report.partition_key)
    return window is None or window.begins <= report.at


def _result(metrics: Metrics, simulator: Simulator, refused: list[str]) -> Result:
    catalogue = simulator.catalogue
    every = list(chain.from_iterable(metrics.lags.values()))
    divided = [one for one in catalogue.workflows.values() if catalogue.graph.partitioning_of(one.id).columns]
    return Result(
        runs=sum(metrics.runs.values()),
        failed=failed(metrics),
        mixed=metrics.mixed,
        runs_avoided=sum(one.runs_avoided for one in simulator.workflow_states.values()),
        pending=metrics.pending,
        slot_hours=sum(metrics.seconds.values()) / 3600,
        breaches=sum(metrics.breaches.values()),
        holds=dict(metrics.holds.most_common()),
        lag=percentiles(every) if every else None,
        lag_by_asset={asset_id: percentiles(lags) for asset_id, lags in sorted(metrics.lags.items()) if lags},
        runs_by_workflow=dict(metrics.runs),
        breaches_by_asset=dict(metrics.breaches),
        seconds_by_workflow=dict(metrics.seconds),
        partitions_by_workflow={one.slug: len(metrics.partitions[one.slug]) for one in divided},
        held_partitions=len(simulator.floods.proposed()) if catalogue.graph.partitioned else None,
        series=metrics.series.document(),
        refused=tuple(refused),
    )
