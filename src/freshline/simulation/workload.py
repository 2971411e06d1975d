"""Synthetic loads in YAML: how often sources change, how long runs take, how often they fail, and backfills.

Names may be patterns (`orders.*`). An exact name wins over patterns. Of several patterns, the first match wins.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field, ValidationError

from freshline.definitions.loading import document
from freshline.definitions.schema.base import AsTuple, Millis, Model, PositiveMillis
from freshline.definitions.validation.findings import Findings
from freshline.definitions.validation.problems import Problem, explain
from freshline.errors import DefinitionError, Place
from freshline.partitions.partitioning import Partitioning
from freshline.simulation.catalogue import Catalogue
from freshline.simulation.driver import Report
from freshline.simulation.load_partitions import (
    Keys,
    RequestedBackfill,
    SingleReport,
    asked_since,
    backfill_problems,
    keys_at,
    report_problems,
    single_reports,
    source_problems,
)
from freshline.suggest import hint

Share = Annotated[float, Field(ge=0, le=1)]
Entry = TypeVar("Entry", bound=Model)


class SourceLoad(Model):
    """The changes of a source."""

    every_ms: PositiveMillis = Field(description="The time between two reports, on average.")
    random: bool = Field(default=False, description="At random times; otherwise at equal distances.")
    offset_ms: Millis = Field(
        default=0, description="When the first report comes; default: one distance from the start."
    )
    change_rate: Share = Field(default=1.0, description="The share of reports with new data.")
    keys: Keys | None = Field(
        default=None,
        description="The partitions of each report; default: those that came to exist since the last one, else the "
        "newest.",
    )


class WorkflowLoad(Model):
    """The runs of a workflow."""

    duration_ms: Millis = Field(default=60_000, description="How long a run takes; with a spread: the median.")
    spread: Annotated[float, Field(ge=0, le=3)] = Field(
        default=0.0, description="The standard deviation of the duration's logarithm: 0 is constant, 1 is wild."
    )
    failure_rate: Share = Field(default=0.0, description="The share of runs that fail.")
    change_rate: Share = Field(default=1.0, description="The share of runs whose output is new.")


class Load(Model):
    """A load file."""

    sources: dict[str, SourceLoad] = Field(default_factory=dict)
    workflows: dict[str, WorkflowLoad] = Field(default_factory=dict)
    late: Annotated[tuple[SingleReport, ...], AsTuple] = Field(default=(), alias="reports")
    backfills: Annotated[tuple[RequestedBackfill, ...], AsTuple] = ()

    def reports(self, catalogue: Catalogue, start: datetime, end: datetime, seed: int) -> Iterator[Report]:
        """Return the reports of all sources in order. Each source has its own random numbers."""
        period = (start, end)
        given = ((asset_id, choose(self.sources, asset_id)) for asset_id in catalogue.sources)
        streams = [
            _reports(asset_id, one, catalogue.graph.partitioning(asset_id), period, seed)
            for asset_id, one in given
            if one is not None
        ]
        return heapq.merge(*streams, sorted(single_reports(self.late, catalogue, start, end)))


def choose(entries: Mapping[str, Entry], name: str) -> Entry | None:
    """Return the entry for a name: the exact one, else that of the first matching pattern."""
    if name in entries:
        return entries[name]
    return next((entry for pattern, entry in entries.items() if fnmatchcase(name, pattern)), None)


def read_load(path: Path) -> Load:
    """Read a load file. Raise `DefinitionErrors` with all mistakes, each with its line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"cannot be read: {error}", place=Place(str(path))) from None
    documents = document.parse(text, str(path))
    if len(documents) != 1 or not isinstance(documents[0].data, dict):
        raise DefinitionError(
            "is not a load: it needs one document with 'sources' and 'workflows'", place=Place(str(path))
        )
    findings = Findings()
    blocks: tuple[tuple[str, type[Model]], ...] = (
        ("sources", SourceLoad),
        ("workflows", WorkflowLoad),
        ("reports", SingleReport),
        ("backfills", RequestedBackfill),
    )
    for part, model in blocks:
        _check_entries(documents[0], part, model, findings)
    findings.raise_errors()
    try:
        return Load.model_validate(documents[0].data)
    except ValidationError as error:
        for problem in explain(Load, error, documents[0].data):
            findings.add(documents[0], problem)
    findings.raise_errors()
    raise AssertionError  # explain always yields a problem


def _check_entries(origin: document.Document, part: str, model: type[Model], findings: Findings) -> None:
    """Check each entry by itself, so that an unknown field is compared with the fields of its own block."""
    entries = origin.data.get(part)
    named = entries.items() if isinstance(entries, dict) else enumerate(entries) if isinstance(entries, list) else ()
    for name, entry in named:
        try:
            model.model_validate(entry)
        except ValidationError as error:
            for problem in explain(model, error, entry):
                findings.add(origin, Problem((part, name, *problem.loc), problem.message))


def check_load(load: Load, catalogue: Catalogue, path: Path, start: datetime) -> datetime | None:
    """Raise `DefinitionErrors` for names that match nothing, and for partitions that cannot be.

    Return when the earliest window begins that late data and backfills need; None: they need none.
    """
    (origin,) = document.parse(path.read_text(encoding="utf-8"), str(path))
    findings = Findings()
    slugs = tuple(sorted(catalogue.by_slug))
    for part, entries, known in (("sources", load.sources, catalogue.sources), ("workflows", load.workflows, slugs)):
        for name in entries:
            if not any(fnmatchcase(one, name) for one in known):
                findings.add(origin, Problem((part, name), _unknown(part, name, known)))
    chosen = {asset_id: choose(load.sources, asset_id) for asset_id in catalogue.sources}
    problems = chain(
        *(
            source_problems(name, entry.keys, [one for one, of in chosen.items() if of is entry], catalogue)
            for name, entry in load.sources.items()
        ),
        *(report_problems(one, ("reports", at), catalogue, start) for at, one in enumerate(load.late)),
        *(backfill_problems(one, ("backfills", at), catalogue, start) for at, one in enumerate(load.backfills)),
    )
    for problem in problems:
        findings.add(origin, problem)
    findings.raise_errors()
    return asked_since(load.late, load.backfills, catalogue, start)


def _unknown(part: str, name: str, known: tuple[str, ...]) -> str:
    return f"{name!r} fits none of the {part}; {hint(name, known)}"


def _reports(
    asset_id: str, load: SourceLoad, partitioning: Partitioning, period: tuple[datetime, datetime], seed: int
) -> Iterator[Report]:
    start, end = period
    rng = random.Random(f"{seed}:{asset_id}")  # noqa: S311 - a seed, not a secret
    every = timedelta(milliseconds=load.every_ms)
    at, last = (
        start + (timedelta(milliseconds=load.offset_ms) if load.offset_ms else _distance(rng, load, every)),
        start,
    )
    version = 0
    while at < end:
        version += rng.random() < load.change_rate or version == 0
        for key in (load.keys or keys_at(partitioning, last, at)) if partitioning.columns else [""]:
            yield Report(at, asset_id, f"v{version}", key)
        last = at
        at += _distance(rng, load, every)


def _distance(rng: random.Random, load: SourceLoad, every: timedelta) -> timedelta:
    return every * rng.expovariate(1.0) if load.random else every
