"""The demo: real flights go through a graph of assets. `make demo`, or `python examples/flights/demo.py`.

Days of 2013 arrive one after another; a materializer and a worker, both separate processes, do the rest. The demo ends
by itself with a summary and leaves a project directory behind. It touches nothing outside that directory.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import NamedTuple, NoReturn

from deliveries import Deliveries, Report
from demo_support.activity import Activity, Entry
from demo_support.hourly_chapter import HourlyChapter, Told
from demo_support.processes import Failed, Processes, call, environment
from demo_support.screen import Screen
from demo_support.summary import Update, effects, levels, summary_rows, summary_sentences

from freshline.cli import logging_setup
from freshline.cli.render.format import parse_time
from freshline.cli.render.table import Column, Columns
from freshline.errors import FreshlineError
from freshline.settings import load
from freshline.store.db.opening import open_store
from freshline.store.store import Store

HERE = Path(__file__).resolve().parent
PROJECT = ("freshline.toml", "README.md", "sources", "workflows", "external.py", "deliveries.py")
FIRST = [date(2013, 2, 5), date(2013, 2, 6), date(2013, 2, 7)]
STORM, AFTER = date(2013, 2, 8), date(2013, 2, 9)
LATER = [date(2013, 2, 10), date(2013, 2, 11)]
FRAGILE, SHOWN = "carriers-scorecard", "carriers.scorecard"
BEST = "SELECT * FROM carriers_scorecard ORDER BY on_time_percent DESC"
POLL_S = 0.25
UPDATES: Columns = [
    "UPDATE",
    "RUNS",
    "FAILED",
    Column("HELD", drop=2),
    "AVOIDED",
    Column("FIRST RUN QUEUED", drop=3),
    Column("FRESH, P50", drop=1),
    "ALL FRESH",
]


class Arrival(NamedTuple):
    """New data of the sources. `meanwhile` is called while the assets below are not fresh."""

    title: str
    note: str
    reports: Iterable[Report]
    meanwhile: Callable[[], None] = lambda: None


class Demo:
    """One run of the demo, on an open store in its own project directory."""

    def __init__(self, project: Path, store: Store, processes: Processes, screen: Screen, deadline_s: float) -> None:
        self._project = project
        self._store = store
        self._processes = processes
        self._screen = screen
        self._deliveries = Deliveries(project)
        self._levels = levels(store.reader.graph())
        self._activity = Activity(store.reader)
        self._updates: list[Update] = []
        self._start = self._ended = datetime.now(UTC)
        self._deadline = self._start + timedelta(seconds=deadline_s)

    def play(self, updates: int | None) -> None:
        """Report the first updates, or all, one after another; raise `Failed` if something is not fresh in time."""
        for name, *options in (("materializer",), ("worker", "--grace", "5")):
            pid = self._processes.start(name, *options)
            self._print("start", name, f"`freshline {name}` is process {pid}; its log is logs/{name}.log")
        with self._screen.live():
            for arrival in islice(self._arrivals(), updates):
                self._update(arrival)
        self._ended = datetime.now(UTC)

    def play_hours(self) -> None:
        """Play the chapter about partitions, with the days that arrived first."""
        told = Told(self._screen.heading, self._print, self._print_entry, self._wait)
        HourlyChapter(self._project, self._store, told).play(self._deliveries.flights([*FIRST, STORM, AFTER]))

    def print_results(self) -> None:
        """Print what happened: counted from the rows of the store, measured by the database's clock."""
        found = effects(self._store.reader, self._updates, self._ended)
        self._screen.heading("What happened, from the store")
        self._screen.table(UPDATES, summary_rows(found))
        for line in summary_sentences(found):
            self._screen.message(line)
        for arguments in (["status"], ["why", SHOWN, "--limit", "8"], ["show", SHOWN, "--sql", BEST, "--limit", "8"]):
            self._screen.heading(f"$ freshline {shlex.join(arguments)}")
            call(self._project, *arguments)

    def _arrivals(self) -> Iterator[Arrival]:
        """Yield what arrives; its files are written when it is asked for."""
        tables = self._deliveries.reference()
        self._deliveries.fetch([*FIRST, STORM, AFTER, *LATER])
        first = [*tables, *self._deliveries.arrive(FIRST)]
        yield Arrival(f"{FIRST[0]} to {FIRST[-1]}", "nothing exists yet, and Spark starts", first)
        yield Arrival(f"{STORM}", "a blizzard", self._deliveries.arrive([STORM]))
        outage = self._outage()
        yield Arrival(f"{AFTER}", f"{FRAGILE} fails this time", self._deliveries.arrive([AFTER]), outage)
        again = [self._deliveries.arrive_again(AFTER)]
        yield Arrival(f"{AFTER} again", "the same flights in another order, some of them twice", again)
        for day in LATER:
            yield Arrival(f"{day}", "an ordinary day", self._deliveries.arrive([day]))

    def _update(self, arrival: Arrival) -> None:
        """Report what arrived, and wait until everything is fresh again."""
        self._screen.heading(f"{arrival.title} arrives: {arrival.note}")
        sources = []
        for one in arrival.reports:
            self._store.operations.report(one.asset, version=one.version, payload=one.payload)
            sources.append(one.asset)
            self._print("report", one.asset, f"{one.version} in {one.path.relative_to(self._project)}")
        since = min(parse_time(self._store.reader.snapshot(source)["producedAt"]) for source in sources)
        self._updates.append(Update(arrival.title, tuple(sources), since))
        while not self._settled():
            arrival.meanwhile()
            time.sleep(POLL_S)
        self._print("fresh", "everything", f"all {len(self._levels)} assets are fresh", "bold green")

    def _settled(self) -> bool:
        """Print what is new, and return whether everything is fresh."""
        self._processes.check()
        status = self._store.reader.status()
        states = {one["assetId"]: one["state"] for one in status["assets"] if one["assetId"] in self._levels}
        late = [f"{asset} is {state}" for asset, state in states.items() if state != "fresh"]
        for one in self._activity.poll():
            self._print_entry(one)
        self._screen.assets(status, self._levels)
        if late and datetime.now(UTC) > self._deadline:
            limit = (self._deadline - self._start).total_seconds()
            raise Failed(f"not everything was fresh {limit:g} s after the start: {', '.join(late)}")
        return not late

    def _outage(self) -> Callable[[], None]:
        """Make the scorecard's job fail; return a function that ends the outage once the failure was seen."""
        flag = self._project / "outage.flag"
        flag.touch()

        def end() -> None:
            if flag.exists() and FRAGILE in self._activity.failed:
                flag.unlink()
                self._print("repair", FRAGILE, "the cause is gone; nothing is restarted by hand", "bold")

        return end

    def _wait(self, true: Callable[[], bool], what: str) -> None:
        """Wait until a function returns true."""
        while not true():
            self._processes.check()
            if datetime.now(UTC) > self._deadline:
                raise Failed(f"no {what} within {(self._deadline - self._start).total_seconds():g} s after the start")
            time.sleep(POLL_S)

    def _print_entry(self, one: Entry) -> None:
        self._print(one.kind, one.name, one.text, one.style, at=one.at)

    def _print(self, kind: str, name: str, text: str, style: str = "cyan", at: datetime | None = None) -> None:
        self._screen.event(((at or datetime.now(UTC)) - self._start).total_seconds(), kind, name, text, style)


def perform(project: Path, screen: Screen, deadline_s: float, updates: int | None) -> None:
    """Start everything, play the demo, print the results; stop everything, whatever happens."""
    settings = replace(load(environment(project), project=project), log_level="warning")
    logging_setup.configure(settings)
    with open_store(settings, name="freshline-demo") as store, Processes(project) as processes:
        screen.heading("$ freshline apply --yes --strict")
        call(project, "apply", "--yes", "--strict")
        screen.heading("A materializer decides, a worker runs; both are separate processes")
        demo = Demo(project, store, processes, screen, deadline_s)
        demo.play(updates)
        demo.print_results()
        if updates is None:
            demo.play_hours()
        screen.heading("Stopping what was started")


def made_project(target: Path | None) -> Path:
    """Copy the example's definitions to a new directory, and return it."""
    if target is not None and target.exists() and any(target.iterdir()):
        raise Failed(f"{target} is not empty; name another directory, or none for a temporary one")
    project = Path(tempfile.mkdtemp(prefix="freshline-flights-")) if target is None else target.resolve()
    if target is None:
        project.chmod(0o711)  # the user of the embedded server enters it, if root runs this
    project.mkdir(parents=True, exist_ok=True)
    for name in PROJECT:
        if (HERE / name).is_dir():
            shutil.copytree(HERE / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(HERE / name, project / name)
    return project


def next_steps(project: Path) -> list[tuple[str, str]]:
    """Return commands that work now, in the directory that was left behind, each with what it does."""
    day = LATER[-1] + timedelta(days=1)
    return [
        ("go there, with the programs of this demo on the PATH", f"cd {shlex.quote(str(project))}"),
        ("", f'PATH={shlex.quote(str(Path(sys.executable).parent))}:"$PATH"'),
        ("run everything again, on the same data; Ctrl-C stops it", "freshline dev"),
        (
            "meanwhile, in another terminal: the next day arrives",
            f"python deliveries.py {day}",
        ),
        ("what is fresh, and why", "freshline status"),
        ("", "freshline why report.daily"),
        ("what it is made from", "freshline graph report.daily"),
        ("a table, read by Polars", 'python -c "import polars; print(polars.read_delta( \\'),
        ("", "    '.freshline/warehouse/report.daily', version=0))\""),
        ("from now on carriers.scorecard fails; rm outage.flag repairs it", "touch outage.flag"),
    ]


def _stop(number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt(signal.Signals(number).name)


def main() -> int:
    """Run the program; return 0 if everything went as planned."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--dir", type=Path, help="where to put the project; default: a temporary directory")
    parser.add_argument(
        "--deadline", type=float, default=600, metavar="S", help="give up after S seconds (default 600)"
    )
    parser.add_argument(
        "--updates", type=int, choices=range(1, 7), metavar="N", help="end after the first N of 6 updates"
    )
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    screen = Screen()
    project = None
    try:
        project = made_project(options.dir)
        screen.message(f"The project is in {project}")
        perform(project, screen, options.deadline, options.updates)
    except KeyboardInterrupt:
        screen.message(f"interrupted; everything that was started is stopped; the project is in {project}", "bold")
        return 130
    except (Failed, FreshlineError) as error:
        screen.message(f"the demo failed: {error}", "bold red")
        screen.message(f"the project and its logs are in {project}" if project else "")
        return 1
    screen.heading("Next: the project is still there, with its data and its history")
    for note, command in next_steps(project):
        if note:
            screen.message(f"    # {note}")
        screen.command(f"    {command}")
    screen.message(f"`rm -r {shlex.quote(str(project))}` removes it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
