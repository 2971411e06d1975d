"""What a simulation plays: recorded reports and runs, or a made-up load, and the policies that they go through."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from freshline.cli.app import App
from freshline.cli.render.format import duration
from freshline.definitions.loading.project import load_project
from freshline.errors import DefinitionError, UsageError
from freshline.model.json import Json
from freshline.plural import counted
from freshline.settings import Settings
from freshline.simulation.catalogue import Catalogue
from freshline.simulation.driver import Jobs, Report
from freshline.simulation.jobs import RecordedRun, recorded_jobs, synthetic_jobs
from freshline.simulation.loading import load_workflows
from freshline.simulation.records import first_version
from freshline.simulation.simulate import Result, simulate
from freshline.simulation.workload import check_names, read_load


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


def project_catalogue(root: Path, settings: Settings) -> Catalogue:
    """Load the definitions of a project's files."""
    return Catalogue.of(load_project(root).workflows, settings)


def synthetic(app: App, path: Path, start: datetime, length: timedelta, seed: int) -> Scenario:
    """Make a scenario of a load file and the project's files."""
    settings = app.settings
    load = read_load(path)
    current = project_catalogue(settings.project, settings)
    check_names(load, current, path)
    end = start + length
    count = sum(1 for _ in load.reports(current, start, end, seed))
    if not count:
        raise UsageError(
            f"in {duration(length.total_seconds())} of {path} no source changes; allowed is a shorter `every`"
        )
    return Scenario(
        current,
        start,
        end,
        count,
        f"in {duration(length.total_seconds())} of {path.name}",
        (),
        lambda catalogue: load.reports(catalogue, start, end, seed),
        lambda: synthetic_jobs(load, seed),
    )


def recorded(app: App, length: timedelta, seed: int) -> Scenario:
    """Make a scenario of the recorded history and the applied definitions."""
    settings = app.settings
    with app.reader(settings) as reader:
        end = reader.now()
        past = reader.history(end - length)
    current = Catalogue.of(_applied(past["workflows"]), settings)
    reports = _reports(past["reports"])
    began = past["start"][0]["at"]
    start = max(end - length, began)
    runs = [RecordedRun(row["slug"], row["seconds"], row["status"] == "failed", row["changed"]) for row in past["runs"]]
    return Scenario(
        current,
        start,
        end,
        len(reports),
        f"in the last {duration(length.total_seconds())}",
        (*_shortened(length, end - start), *_notes(current, runs)),
        lambda _catalogue: reports,
        lambda: recorded_jobs(runs, seed),
    )


def _shortened(asked: timedelta, played: timedelta) -> tuple[str, ...]:
    """Return a note if the project is younger than the time that was asked for."""
    if played >= asked:
        return ()
    shown, wanted = duration(played.total_seconds()), duration(asked.total_seconds())
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


def _applied(rows: list[Json]) -> Any:
    if not rows:
        raise UsageError("nothing is applied yet", hint="`freshline apply` does that; --load plays the project's files")
    try:
        return load_workflows([row["definition"] for row in rows])
    except DefinitionError as error:
        raise UsageError(
            f"a stored definition cannot be read: {error}", hint="`freshline apply` stores it again"
        ) from None


def _notes(catalogue: Catalogue, runs: list[RecordedRun]) -> tuple[str, ...]:
    unknown = len(catalogue.by_slug.keys() - {run.slug for run in runs})
    if not unknown:
        return ()
    have = counted(unknown, "workflow has", "workflows have")
    return (f"{have} no recorded run: its runs take the median of all, or a minute, and succeed",)
