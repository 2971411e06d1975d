"""Replays the recorded reports and runs of an installation, through its policies or others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from freshline.definitions.loading.project import LoadedWorkflow
from freshline.definitions.steps import partitioning_of
from freshline.duration import in_words
from freshline.errors import DefinitionError, DefinitionErrors, UsageError
from freshline.model.json import Json
from freshline.plural import counted
from freshline.settings import Settings
from freshline.simulation.catalogue import Catalogue
from freshline.simulation.driver import Jobs, Report
from freshline.simulation.jobs import RecordedRun, recorded_jobs
from freshline.simulation.loading import load_workflows
from freshline.simulation.records import first_version
from freshline.simulation.simulate import Result, simulate


@dataclass(frozen=True)
class Scenario:
    """A period with its reports and jobs; both are generated again for every policy, from the same seed."""

    current: Catalogue
    start: datetime
    end: datetime
    reports: int
    words: str
    notes: tuple[str, ...]
    make_reports: Callable[[Catalogue], Iterable[Report]]
    make_jobs: Callable[[], Jobs]

    def play(self, catalogue: Catalogue, slots: int) -> Result:
        """Through the policies of this catalogue."""
        reports, jobs = self.make_reports(catalogue), self.make_jobs()
        return simulate(catalogue, reports, jobs, start=self.start, end=self.end, slots=slots)


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
    current = Catalogue.of(workflows, settings)
    reports = _reports(past["reports"])
    began = past["start"][0]["at"] or end
    start = max(end - length, began)
    runs = [RecordedRun(row["slug"], row["seconds"], row["status"] == "failed", row["changed"]) for row in past["runs"]]
    return Scenario(
        current,
        start,
        end,
        len(reports),
        f"in the last {in_words(length.total_seconds())}",
        (*_shortened(length, end - start), *_notes(current, runs), *partition_notes(workflows)),
        lambda _catalogue: reports,
        lambda: recorded_jobs(runs, seed),
    )


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


def _reports(rows: list[Json]) -> list[Report]:
    """As recorded; what did not move the head then, a late report or an equal one, does not move it now."""
    versions: dict[str, str] = {}
    found = []
    for row in rows:
        asset_id = row["asset_id"]
        if row["changed"]:
            versions[asset_id] = row["data_version"]
        found.append(Report(row["produced_at"], asset_id, versions.setdefault(asset_id, first_version(asset_id))))
    return found


def _notes(catalogue: Catalogue, runs: list[RecordedRun]) -> tuple[str, ...]:
    unknown = len(catalogue.by_slug.keys() - {run.slug for run in runs})
    if not unknown:
        return ()
    have = counted(unknown, "workflow has", "workflows have")
    whose = "its" if unknown == 1 else "their"
    return (f"{have} no recorded run: {whose} runs take the median of all, or a minute, and succeed",)


def partition_notes(workflows: Iterable[LoadedWorkflow]) -> tuple[str, ...]:
    """Return what is left out of a simulation of workflows with partitions."""
    count = sum(1 for one in workflows if partitioning_of(one.definition).columns)
    if not count:
        return ()
    have = counted(count, "workflow has", "workflows have")
    return (f"{have} partitions: each is simulated as one unit, and reports of partitions are left out",)
