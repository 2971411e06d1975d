"""Real flights travel through a graph of assets, live: `make demo`, or `python examples/flights/demo.py`.

Days of 2013 arrive one after another; a materializer and a worker, both processes of their own, do the rest. Ends by
itself with a summary, and leaves a project directory behind to play with. Nothing outside of it is touched.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NoReturn

from deliveries import Deliveries, Report
from stage.children import Children, Failed, call, environment
from stage.happenings import Happenings
from stage.screen import Screen
from stage.waves import Wave, levels, outcomes, summary_rows, summary_sentences

from freshline.cli import logging_setup
from freshline.cli.render.format import parse_time
from freshline.errors import FreshlineError
from freshline.settings import load
from freshline.store.db.opening import open_store
from freshline.store.store import Store

HERE = Path(__file__).resolve().parent
PROJECT = ("freshline.toml", "README.md", "sources", "workflows", "elsewhere.py", "deliveries.py")
FIRST = [date(2013, 2, 5), date(2013, 2, 6), date(2013, 2, 7)]
STORM, AFTER = date(2013, 2, 8), date(2013, 2, 9)
LATER = [date(2013, 2, 10), date(2013, 2, 11)]
FRAGILE, SHOWN = "carriers-scorecard", "carriers.scorecard"
BEST = "SELECT * FROM carriers_scorecard ORDER BY on_time_percent DESC"
READ = "import polars; print(polars.read_delta('.freshline/warehouse/report.daily', version=0))"
LOOK_S = 0.25


class Demo:
    """One performance on an open store, in a project directory of its own."""

    def __init__(self, project: Path, store: Store, children: Children, screen: Screen, deadline_s: float) -> None:
        self._project = project
        self._store = store
        self._children = children
        self._screen = screen
        self._deliveries = Deliveries(project)
        self._levels = levels(store.reader.graph())
        self._happenings = Happenings(store.reader)
        self._waves: list[Wave] = []
        self._start = datetime.now(UTC)
        self._deadline = self._start + timedelta(seconds=deadline_s)

    def play(self) -> None:
        """The whole story; `Failed` says what did not come true in time."""
        for name, *options in (("materializer",), ("worker", "--grace", "5")):
            pid = self._children.start(name, *options)
            self._tell("start", name, f"`freshline {name}` is process {pid}; it logs to logs/{name}.log")
        with self._screen.live():
            tables = self._deliveries.reference()
            self._deliveries.fetch([*FIRST, STORM, AFTER, *LATER])
            first = [*tables, *self._deliveries.arrive(FIRST)]
            self._update(f"{FIRST[0]} to {FIRST[-1]}", "nothing exists yet, and Spark starts", first)
            self._update(f"{STORM}", "a blizzard", self._deliveries.arrive([STORM]))
            outage = self._outage()
            self._update(f"{AFTER}", f"{FRAGILE} fails this time", self._deliveries.arrive([AFTER]), outage)
            again = [self._deliveries.arrive_again(AFTER)]
            self._update(f"{AFTER} again", "the same flights in another order, some of them twice", again)
            for day in LATER:
                self._update(f"{day}", "an ordinary day", self._deliveries.arrive([day]))

    def tell_results(self) -> None:
        """What it came to: measured with the database's clock, counted from what the store has kept."""
        found = outcomes(self._store.reader, self._waves)
        self._screen.heading("What happened, from the store")
        columns = ["UPDATE", "RUNS", "FAILED", "HELD", "AVOIDED", "FIRST RUN QUEUED", "FRESH, P50", "ALL FRESH"]
        self._screen.table(columns, summary_rows(found))
        for line in summary_sentences(found):
            self._screen.say(line)
        for arguments in (["status"], ["why", SHOWN, "--limit", "8"], ["show", SHOWN, "--sql", BEST, "--limit", "8"]):
            self._screen.heading(f"$ freshline {shlex.join(arguments)}")
            call(self._project, *arguments)

    def _update(
        self, title: str, note: str, reports: Iterable[Report], meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """Report what arrived, and watch until everything is fresh again."""
        self._screen.heading(f"{title} arrives: {note}")
        sources = []
        for one in reports:
            self._store.operations.report(one.asset, version=one.version, payload=one.payload)
            sources.append(one.asset)
            self._tell("report", one.asset, f"{one.version} in {one.path.relative_to(self._project)}")
        since = min(parse_time(self._store.reader.snapshot(source)["producedAt"]) for source in sources)
        self._waves.append(Wave(title, tuple(sources), since))
        while not self._settled():
            meanwhile()
            time.sleep(LOOK_S)
        self._tell("fresh", "everything", f"all {len(self._levels)} assets are fresh", "bold green")

    def _settled(self) -> bool:
        """One look: shows what is new, and whether everything is fresh."""
        self._children.check()
        status = self._store.reader.status()
        states = {one["assetId"]: one["state"] for one in status["assets"] if one["assetId"] in self._levels}
        late = [f"{asset} is {state}" for asset, state in states.items() if state != "fresh"]
        for one in self._happenings.poll():
            self._tell(one.kind, one.name, one.told, one.style, at=one.at)
        self._screen.assets(status, self._levels)
        if late and datetime.now(UTC) > self._deadline:
            limit = (self._deadline - self._start).total_seconds()
            raise Failed(f"not everything was fresh {limit:g} s after the start: {', '.join(late)}")
        return not late

    def _outage(self) -> Callable[[], None]:
        """The scorecard's job fails while this file exists; it goes away when the failure was seen."""
        flag = self._project / "outage.flag"
        flag.touch()

        def end() -> None:
            if flag.exists() and FRAGILE in self._happenings.failed:
                flag.unlink()
                self._tell("repair", FRAGILE, "the cause is gone; nobody restarts anything", "bold")

        return end

    def _tell(self, kind: str, name: str, told: str, style: str = "cyan", at: datetime | None = None) -> None:
        self._screen.happened(((at or datetime.now(UTC)) - self._start).total_seconds(), kind, name, told, style)


def perform(project: Path, screen: Screen, deadline_s: float) -> None:
    """Start everything, play, tell, and stop everything, whatever happens."""
    settings = replace(load(environment(project), project=project), log_level="warning")
    logging_setup.configure(settings)
    with open_store(settings, name="freshline-demo") as store, Children(project) as children:
        screen.heading("$ freshline apply --yes --strict")
        call(project, "apply", "--yes", "--strict")
        screen.heading("A materializer decides, a worker runs; both are processes of their own")
        demo = Demo(project, store, children, screen, deadline_s)
        demo.play()
        demo.tell_results()
        screen.heading("Stopping what was started")


def made_project(target: Path | None) -> Path:
    """A fresh copy of the example's definitions."""
    if target is not None and target.exists() and any(target.iterdir()):
        raise Failed(f"{target} is not empty; name another directory, or none for a temporary one")
    project = Path(tempfile.mkdtemp(prefix="freshline-flights-")) if target is None else target.resolve()
    project.mkdir(parents=True, exist_ok=True)
    for name in PROJECT:
        if (HERE / name).is_dir():
            shutil.copytree(HERE / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(HERE / name, project / name)
    return project


def next_steps(project: Path) -> list[str]:
    """Commands that work now, in the directory that was left behind."""
    python = shlex.quote(sys.executable)
    freshline = shlex.quote(str(Path(sys.executable).with_name("freshline")))
    steps = [
        (f"cd {shlex.quote(str(project))}", ""),
        (f"{freshline} dev", "everything again, on the same data; Ctrl-C ends it"),
        (f"{python} deliveries.py {LATER[-1] + timedelta(days=1)}", "meanwhile, in another terminal: the next day"),
        (f"{freshline} status", "what is fresh"),
        (f"{freshline} why report.daily", "and why"),
        (f"{freshline} graph report.daily", "what it is made from"),
        (f"{python} -c {shlex.quote(READ)}", "a table, read by Polars"),
        ("touch outage.flag", "from now on carriers.scorecard fails; rm outage.flag mends it"),
    ]
    width = max(len(command) for command, _ in steps[1:])
    return [f"{command:<{width}}  # {note}" if note else command for command, note in steps]


def _stop(number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt(signal.Signals(number).name)


def main() -> int:
    """The program; 0 if all came true."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--dir", type=Path, help="where to put the project; default: a temporary directory")
    parser.add_argument(
        "--deadline", type=float, default=600, metavar="S", help="give up after S seconds (default 600)"
    )
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    screen = Screen()
    project = None
    try:
        project = made_project(options.dir)
        screen.say(f"The project is in {project}")
        perform(project, screen, options.deadline)
    except KeyboardInterrupt:
        screen.say(f"interrupted; everything that was started is stopped; the project is in {project}", "bold")
        return 130
    except (Failed, FreshlineError) as error:
        screen.say(f"the demo failed: {error}", "bold red")
        screen.say(f"the project and its logs are in {project}" if project else "")
        return 1
    screen.heading("Next: the project is still there, with its data and its history")
    for line in next_steps(project):
        screen.say(f"    {line}")
    screen.say(f"`rm -r {shlex.quote(str(project))}` removes it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
