"""The partitioned project of the chaos test: hours, days, windows of three days, a month and a total.

A version is a function of the parameters of its workflow and of the versions that were read. So the final version of
every partition can be computed, and each published one shows what it was made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path

from tests.chaos.chaos_workload import digest

PROJECT = "calendar"
PREFIX = "cal-"  # of all slugs and assets
HOURS, DAYS, TRIOS, MONTHS, TOTAL = (f"{PREFIX}{name}" for name in ("hours", "days", "trios", "months", "total"))
COMPUTED = (DAYS, TRIOS, MONTHS, TOTAL)  # each after those that it reads
FIRST, COUNT = date(2026, 1, 1), 6
ALL_DAYS = [str(FIRST + timedelta(days=n)) for n in range(COUNT)]
ALL_HOURS = [f"{day}T{hour:02}" for day in ALL_DAYS for hour in range(24)]
MONTH = "2026-01"
BEFORE = 2  # a trio has so many days before its own
RANGE = f"start: {FIRST}, end: {FIRST + timedelta(days=COUNT)}"
PARTITIONING = {
    HOURS: f"{{time: hour, {RANGE}}}",
    DAYS: f"{{time: day, {RANGE}}}",
    TRIOS: f"{{time: day, {RANGE}}}",
    MONTHS: f"{{time: month, start: {FIRST}, end: 2026-02-01}}",
}
CONSUMES = {
    DAYS: f"{{assetId: {HOURS}}}",
    TRIOS: f"{{assetId: {DAYS}, partitions: {{window: {{from: -{BEFORE}, to: 0}}}}}}",
    MONTHS: f"{{assetId: {DAYS}}}",
    TOTAL: f"{{assetId: {DAYS}}}, {{assetId: {TRIOS}}}",
}
Versions = Mapping[str, str]  # by reference


@dataclass(frozen=True, slots=True)
class Calendar:
    """The definitions at one time: the parameter of each workflow."""

    salts: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(COMPUTED, 0))

    def edited(self, slug: str) -> Calendar:
        """Return the definitions with another job of one workflow."""
        return replace(self, salts={**self.salts, slug: self.salts[slug] + 1})

    def write(self, root: Path) -> None:
        """Write the files of the project, each at once. Raise OSError if the disk is full."""
        files = {"freshline.toml": f'name = "{PROJECT}"\n'}
        files["sources/hours.yaml"] = f"assetId: {HOURS}\npartitioning: {PARTITIONING[HOURS]}\n"
        files |= {f"workflows/{slug}.yaml": self._yaml(slug) for slug in COMPUTED}
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_text() != text:
                (root / ".new").write_text(text)
                (root / ".new").replace(path)

    def _yaml(self, slug: str) -> str:
        partitioning = f", partitioning: {PARTITIONING[slug]}" if slug in PARTITIONING else ""
        return (
            f"slug: {slug}\nparameters: {{salt: {self.salts[slug]}}}\nsteps:\n"
            f"  - id: work\n    job: {{kind: spark.sql, sql: 'SELECT 1 AS x'}}\n    consumes: [{CONSUMES[slug]}]\n"
            f"    produces: [{{assetId: {slug}{partitioning}, autoMaterialize: {{onUpstreamUpdate: true}}}}]\n"
        )

    def versions(self, hours: Versions) -> dict[str, str]:
        """Return the version with which every partition must end, given the versions of the hours by reference."""
        found = dict(hours)
        for slug in COMPUTED:
            for key in keys_of(slug):
                found[named(slug, key)] = version(
                    slug, key, self.salts[slug], {one: found[one] for one in reads(slug, key)}
                )
        return found


def keys_of(slug: str) -> list[str]:
    """Return the partitions of a workflow."""
    return {MONTHS: [MONTH], TOTAL: [""]}.get(slug, ALL_DAYS)


def reads(slug: str, key: str) -> list[str]:
    """Return the references of what a partition is computed from."""
    if slug == DAYS:
        return [named(HOURS, hour) for hour in ALL_HOURS if hour.startswith(key)]
    if slug == TRIOS:
        at = ALL_DAYS.index(key)
        return [named(DAYS, day) for day in ALL_DAYS[max(0, at - BEFORE) : at + 1]]
    every = [named(DAYS, day) for day in ALL_DAYS]
    return every if slug == MONTHS else [*every, *(named(TRIOS, day) for day in ALL_DAYS)]


def named(asset: str, key: str) -> str:
    """Return the reference of a partition."""
    return f"{asset}@{key}" if key else asset


def version(slug: str, key: str, salt: int, read: Versions) -> str:
    """Return the version that a job makes."""
    return digest(repr((slug, key, salt, sorted(read.items()))))


def mixes(read: Versions, trios: Mapping[tuple[str, str], Versions]) -> Iterator[str]:
    """Yield the days of which a total was computed from two versions. `trios`: what each version was made from."""
    for one, data_version in read.items():
        if one.startswith(TRIOS):
            for day, below in trios.get((one, data_version), {}).items():
                if read.get(day, below) != below:
                    yield f"two versions of {day} ({below} in {one}, and {read[day]})"


def misfits(found: Versions, wanted: Versions) -> Iterable[str]:
    """Return what differs from the final versions."""
    return [
        f"{name} is {found.get(name)} and not {one}, as hours and definitions say"
        for name, one in wanted.items()
        if found.get(name) != one
    ]
