"""What a simulation plays: recorded reports and runs, or a made-up load, and the policies that they go through."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from freshline.cli.app import App
from freshline.cli.render.format import duration
from freshline.errors import UsageError
from freshline.settings import Settings
from freshline.simulation import recorded as replay
from freshline.simulation.catalogue import Catalogue
from freshline.simulation.horizon import horizon
from freshline.simulation.jobs import synthetic_jobs
from freshline.simulation.load_partitions import demands
from freshline.simulation.loading import load_definitions
from freshline.simulation.recorded import Scenario
from freshline.simulation.workload import check_load, read_load


def project_catalogue(root: Path, scenario: Scenario, settings: Settings) -> Catalogue:
    """Load the definitions of a project's files, to play the same scenario."""
    found = load_definitions(root)
    return scenario.catalogue(found.workflows, settings, found.sources)


def synthetic(app: App, path: Path, start: datetime, length: timedelta, seed: int) -> Scenario:
    """Make a scenario of a load file and the project's files."""
    settings = app.settings
    load = read_load(path)
    found = load_definitions(settings.project)
    current = Catalogue.of(found.workflows, settings, found.sources)
    end = start + length
    asked = check_load(load, current, path, start)
    since = horizon(replay.costs(current), start, asked)
    if since is not None:
        current = Catalogue.of(found.workflows, settings, found.sources, since)
    count = sum(1 for _ in load.reports(current, start, end, seed))
    if not count and not load.backfills:
        raise UsageError(
            f"in {duration(length.total_seconds())} of {path} no source changes; allowed is a shorter `every`"
        )
    return Scenario(
        current,
        start,
        end,
        count,
        f"in {duration(length.total_seconds())} of {path.name}",
        replay.horizon_notes(since),
        lambda catalogue: load.reports(catalogue, start, end, seed),
        lambda: synthetic_jobs(load, seed),
        found.sources,
        since,
        make_demands=lambda catalogue: demands(load.backfills, catalogue, start),
    )


def recorded(app: App, length: timedelta, seed: int) -> Scenario:
    """Make a scenario of the recorded history and the applied definitions."""
    settings = app.settings
    with app.reader(settings) as reader:
        end = reader.now()
        past = reader.history(end - length)
    workflows = replay.applied(past["workflows"])
    return replay.recorded(past, workflows, settings, end=end, length=length, seed=seed)
