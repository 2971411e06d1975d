"""Replays the recorded reports and runs of an installation, through its policies or others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from freshline.definitions.loading.project import LoadedWorkflow
from freshline.duration import in_words
from freshline.errors import DefinitionError, DefinitionErrors, UsageError
from freshline.model.json import Json
from freshline.model.state import reference
from freshline.partitions.document import from_json
from freshline.partitions.partitioning import Partitioning
from freshline.plural import counted
from freshline.reading import read_as_one
from freshline.settings import Settings
from freshline.simulation.beginning import Data
from freshline.simulation.catalogue import Catalogue
from freshline.simulation.driver import Demanded, Jobs, Report
from freshline.simulation.horizon import earliest, horizon
from freshline.simulation.jobs import RecordedRun, recorded_jobs
from freshline.simulation.loading import load_workflows
from freshline.simulation.records import first_version
from freshline.simulation.simulate import Result, simulate, takes

MOST_KEYS = 200_000
"""How many partitions that had data at the start are told apart."""
COST_OF_ALL = 10
"""How many times as much a partition costs that a workflow reads with all others."""


@dataclass(frozen=True)
class Scenario:
    """A period with its reports, backfills and jobs; they are generated again for every policy, from the same seed.

    `sources`: the partitionings of sources. `since`: partitions of earlier windows are left out. `data`: the partitions
    of sources that have data at the start; None: all.
    """

    current: Catalogue
    start: datetime
    end: datetime
    reports: int
    words: str
    notes: tuple[str, ...]
    make_reports: Callable[[Catalogue], Iterable[Report]]
    make_jobs: Callable[[], Jobs]
    sources: Mapping[str, Partitioning] = field(default_factory=dict)
    since: datetime | None = None
    data: Data | None = None
    make_demands: Callable[[Catalogue], Iterable[Demanded]] = lambda _catalogue: ()

    def catalogue(
        self, workflows: Iterable[LoadedWorkflow], settings: Settings, sources: Mapping[str, Partitioning] | None = None
    ) -> Catalogue:
        """Return other policies to play. `sources`: the partitionings of sources that they declare."""
        return Catalogue.of(workflows, settings, {**self.sources, **(sources or {})}, self.since)

    def play(self, catalogue: Catalogue, slots: int) -> Result:
        """Through the policies of this catalogue."""
        return simulate(
            catalogue,
            self.make_reports(catalogue),
            self.make_jobs(),
            start=self.start,
            end=self.end,
            slots=slots,
            demands=self.make_demands(catalogue),
            data=self.data,
        )


def recorded(
    past: Mapping[str, list[Json]],
    workflows: Iterable[LoadedWorkflow],
    settings: Settings,
    *,
    end: datetime,
    length: timedelta,
    seed: int,
) -> Scenario:
    """Make a scenario of `Reader.history` and the applied workflows."""
    workflows = tuple(workflows)
    sources = {row["asset_id"]: from_json(row["partitioning"]) for row in past["sources"]}
    began = past["start"][0]["at"] or end
    start = max(end - length, began)
    data = _data(past["keys"], sources)
    reports = _reports(past["reports"], start, data)
    current = Catalogue.of(workflows, settings, sources)
    since = _horizon(current, start, reports)
    if since is not None:
        current = Catalogue.of(workflows, settings, sources, since)
    runs = [RecordedRun(row["slug"], row["seconds"], row["status"] == "failed", row["changed"]) for row in past["runs"]]
    return Scenario(
        current,
        start,
        end,
        len(reports),
        f"in the last {in_words(length.total_seconds())}",
        (
            *_shortened(length, end - start),
            *_notes(current, runs),
            *horizon_notes(since),
            *_unknown_data(data),
            *_left_out(current, reports),
        ),
        lambda _catalogue: reports,
        lambda: recorded_jobs(runs, seed),
        sources,
        since,
        data,
    )


def costs(catalogue: Catalogue) -> list[Partitioning]:
    """Return what partitions cost: each partitioning once, or ten times if a workflow reads all of its partitions."""
    graph = catalogue.graph
    whole = {asset_id for one in catalogue.workflows for asset_id in read_as_one(graph, one)}
    divided = [one for one in catalogue.assets if graph.partitioning(one).columns]
    return [graph.partitioning(one) for one in divided for _ in range(COST_OF_ALL if one in whole else 1)]


def _horizon(catalogue: Catalogue, start: datetime, reports: list[Report]) -> datetime | None:
    """Return the time from which partitions are simulated: those that were reported are among them."""
    keys: defaultdict[str, set[str]] = defaultdict(set)
    for one in reports:
        if one.partition_key:
            keys[one.asset_id].add(one.partition_key)
    begins = (earliest(catalogue.graph.partitioning(asset_id), found) for asset_id, found in keys.items())
    return horizon(costs(catalogue), start, min((at for at in begins if at is not None), default=None))


def _data(rows: list[Json], sources: Mapping[str, Partitioning]) -> dict[str, dict[str, None]] | None:
    """Return the partitions that had data, by source; None if there are too many to tell."""
    if len(rows) > MOST_KEYS:
        return None
    found: dict[str, dict[str, None]] = {asset_id: {} for asset_id in sources}
    for row in rows:
        found[row["asset_id"]][row["partition_key"]] = None
    return found


def applied(rows: Iterable[Json]) -> tuple[LoadedWorkflow, ...]:
    """Return the workflows of stored definitions."""
    definitions: list[Any] = [row["definition"] for row in rows]
    if not definitions:
        raise UsageError("nothing is applied yet", hint="`freshline apply` does that; --load plays the project's files")
    try:
        return load_workflows(definitions)
    except (DefinitionError, DefinitionErrors) as error:
        raise UsageError(
            f"a stored definition cannot be read: {error}", hint="`freshline apply` stores it again"
        ) from None


def _shortened(asked: timedelta, played: timedelta) -> tuple[str, ...]:
    """Return a note if the project is younger than the time that was asked for."""
    if played >= asked:
        return ()
    shown, wanted = in_words(played.total_seconds()), in_words(asked.total_seconds())
    return (f"the first workflow was applied {shown} ago: that time was played, and not {wanted}",)


def _reports(rows: list[Json], start: datetime, data: Mapping[str, dict[str, None]] | None) -> list[Report]:
    """As recorded; what did not move the head then, a late report or an equal one, does not move it now.

    Partitions that were reported before the start have data then.
    """
    versions: dict[str, str] = {}
    found = []
    for row in rows:
        asset_id, key = row["asset_id"], row["partition_key"]
        name = reference(asset_id, key)
        if key and row["produced_at"] < start:
            if data is not None and asset_id in data:
                data[asset_id][key] = None
            versions[name] = first_version(name)
            continue
        if row["changed"]:
            versions[name] = row["data_version"]
        found.append(Report(row["produced_at"], asset_id, versions.setdefault(name, first_version(name)), key))
    return found


def _notes(catalogue: Catalogue, runs: list[RecordedRun]) -> tuple[str, ...]:
    unknown = len(catalogue.by_slug.keys() - {run.slug for run in runs})
    if not unknown:
        return ()
    have = counted(unknown, "workflow has", "workflows have")
    whose = "its" if unknown == 1 else "their"
    return (f"{have} no recorded run: {whose} runs take the median of all, or a minute, and succeed",)


def horizon_notes(since: datetime | None) -> tuple[str, ...]:
    """Return a note if old partitions are left out."""
    if since is None:
        return ()
    return (f"there are many partitions: those before {since:%Y-%m-%d} are left out, and nothing reads them",)


def _unknown_data(data: Data | None) -> tuple[str, ...]:
    """Return a note if it is not known which partitions had data."""
    if data is not None:
        return ()
    return (f"more than {counted(MOST_KEYS, 'partition')} had data at the start: it counts as if all had",)


def _left_out(catalogue: Catalogue, reports: Iterable[Report]) -> tuple[str, ...]:
    """Return a note if reports of partitions are not played."""
    sources = set(catalogue.sources)
    count = sum(1 for one in reports if one.asset_id in sources and not takes(catalogue, one))
    if not count:
        return ()
    were = counted(count, "report is", "reports are")
    return (f"{were} of partitions that are left out, or that the definitions do not have",)
