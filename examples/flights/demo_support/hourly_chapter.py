"""The chapter about partitions: days arrive hour by hour, one hour is late, and some days are computed again."""

from __future__ import annotations

import csv
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

from demo_support.activity import Activity, Entry
from demo_support.processes import call

from freshline.model.backfill import BackfillStatus
from freshline.model.documents.run import Run
from freshline.model.enums import RunStatus
from freshline.plural import counted
from freshline.store.store import Store

SOURCE, DAILY, WINDOWS, TOTAL = "hours.raw", "days.late", "week.late", "total.late"
SLUGS = {DAILY: "days-late", WINDOWS: "week-late", TOTAL: "total-late"}
LATE_HOUR, KNOWN_AT_FIRST = "2013-02-06T08", 40  # so many of its flights arrive with the first delivery
AGAIN = ("2013-02-07", "2013-02-09")
DEFINITIONS = Path(__file__).parent / "hourly"
Rows = list[list[str]]


class Told(NamedTuple):
    """How the chapter speaks: a title, a line, and a wait that calls a function until it is true."""

    heading: Callable[[str], None]
    line: Callable[[str, str, str], None]
    entry: Callable[[Entry], None]
    wait: Callable[[Callable[[], bool], str], None]


class HourlyChapter:
    """Adds an hourly source and what is computed from it to the project of the demo."""

    def __init__(self, project: Path, store: Store, told: Told) -> None:
        self._project = project
        self._store = store
        self._told = told
        self._hours = project / "data" / "hours"

    def play(self, days: Mapping[date, Rows]) -> None:
        """Play the chapter. `days`: the flights of each day, with a header."""
        for name in ("sources", "workflows"):
            shutil.copytree(DEFINITIONS / name, self._project / name, dirs_exist_ok=True)
        self._told.heading("Partitions: days from hours, windows of seven days, and a total are added")
        call(self._project, "apply", "--yes", "--strict")
        hours = dict(_by_hour(days))
        for hour, rows in hours.items():
            self._report(hour, rows[: KNOWN_AT_FIRST + 1] if hour == LATE_HOUR else rows)
        self._told.line("report", SOURCE, f"{counted(len(hours), 'hour')} of {counted(len(days), 'day')}")
        self._wait()
        runs = Counter(run["workflowSlug"] for run in self._runs())
        self._told.line(
            "fresh", "everything", ", ".join(f"{slug} ran {counted(n, 'time')}" for slug, n in runs.items())
        )
        self._late(hours[LATE_HOUR])
        self._again()

    def _late(self, rows: Rows) -> None:
        self._told.heading(f"{LATE_HOUR} was not complete: exactly what depends on this hour runs")
        activity, before = Activity(self._store.reader), {run["id"] for run in self._runs()}
        self._report(LATE_HOUR, rows)
        self._told.line("report", f"{SOURCE}@{LATE_HOUR}", f"{len(rows) - 1} flights instead of {KNOWN_AT_FIRST}")
        self._wait(activity)
        made = len({run["id"] for run in self._runs()} - before)
        self._told.line(
            "fresh", "everything", f"{counted(made, 'run')}: its day, the windows that hold the day, the total"
        )

    def _again(self) -> None:
        first, last = AGAIN
        command = ["backfill", DAILY, "--from", first, "--to", last, "--yes"]
        self._told.heading(f"$ freshline {' '.join(command)}")
        call(self._project, *command)
        self._told.wait(
            lambda: not self._store.backfills.list(statuses=[BackfillStatus.ACTIVE], limit=1), "the end of the backfill"
        )
        self._wait()
        self._told.heading("$ freshline backfill list --all")
        call(self._project, "backfill", "list", "--all")
        self._told.line("same", DAILY, "the days came out identical: nothing that reads them had to run")
        self._told.heading(f"$ freshline partitions {DAILY}")
        call(self._project, "partitions", DAILY)

    def _report(self, hour: str, rows: Rows) -> None:
        self._hours.mkdir(parents=True, exist_ok=True)
        with (self._hours / f"{hour}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
        self._store.operations.report(SOURCE, partition_key=hour)

    def _wait(self, activity: Activity | None = None) -> None:
        def settled() -> bool:
            for one in activity.poll() if activity else ():
                if one.kind != "held" and one.name.partition("@")[0] in {*SLUGS, *SLUGS.values()}:
                    self._told.entry(one)
            return self._settled()

        self._told.wait(settled, "fresh partitions")

    def _settled(self) -> bool:
        """Return whether everything of the chapter is fresh, and none of its runs is queued or running."""
        assets = {one["assetId"]: one for one in self._store.reader.status()["assets"]}
        late = [one for one in SLUGS if assets[one]["state"] != "fresh"]
        behind = [
            one
            for one in (DAILY, WINDOWS)
            if (found := assets[one]["partitions"]) is None or found["counts"]["fresh"] != found["total"]
        ]
        ended = {RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELED}
        return not late and not behind and all(run["status"] in ended for run in self._runs())

    def _runs(self) -> list[Run]:
        return [run for slug in SLUGS.values() for run in self._store.reader.runs(1000, workflow=slug)]


def _by_hour(days: Mapping[date, Rows]) -> Iterator[tuple[str, Rows]]:
    """Yield the flights of each hour with their header. At night there are none."""
    for day, (header, *rows) in days.items():
        place = header.index("hour")
        for hour in range(24):
            yield f"{day}T{hour:02}", [header, *(row for row in rows if int(row[place]) == hour)]
