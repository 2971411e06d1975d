"""What a simulation plays: recorded reports and runs, or a made-up load, and the policies that they go through."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from freshline.cli.app import App
from freshline.cli.render.format import duration
from freshline.definitions.loading.project import load_project
from freshline.errors import UsageError
from freshline.settings import Settings
from freshline.simulation import recorded as replay
from freshline.simulation.catalogue import Catalogue
from freshline.simulation.jobs import synthetic_jobs
from freshline.simulation.recorded import Scenario
from freshline.simulation.workload import check_names, read_load


def project_catalogue(root: Path, settings: Settings) -> Catalogue:
    """Load the definitions of a project's files."""
    return Catalogue.of(load_project(root).workflows, settings)


def synthetic(app: App, path: Path, start: datetime, length: timedelta, seed: int) -> Scenario:
    """Make a scenario of a load file and the project's files."""
    settings = app.settings
    load = read_load(path)
    workflows = load_project(settings.project).workflows
    current = Catalogue.of(workflows, settings)
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
        replay.partition_notes(workflows),
        lambda catalogue: load.reports(catalogue, start, end, seed),
        lambda: synthetic_jobs(load, seed),
    )


def recorded(app: App, length: timedelta, seed: int) -> Scenario:
    """Make a scenario of the recorded history and the applied definitions."""
    settings = app.settings
    with app.reader(settings) as reader:
        end = reader.now()
        past = reader.history(end - length)
    workflows = replay.applied(past["workflows"])
    return replay.recorded(past, workflows, settings, end=end, length=length, seed=seed)
