"""`examples/partitions`: every command of its README says what stands below it, with Spark and without."""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.deployment import Deployment
from tests.waiting import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "partitions"
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
BACKFILL = re.compile(r"backfill ([0-9a-f]{8}) is active")
QUERY, CHANGED = "> 15", "> 30"
# The same graph in Python: DuckDB reads the hours, and results are payloads.
LIGHT = """
from freshline import asset, daily, monthly, on_upstream_update, window

AUTO = on_upstream_update()
WEEK = daily(start="2013-01-29", end="2013-02-05")
COUNT = "SELECT count(*), count(*) FILTER (TRY_CAST(delay AS DOUBLE) > 15) FROM departures_raw"


@asset("departures.daily", kind="python", partitioning=WEEK, auto=AUTO)
def days(ctx, departures_raw):
    flights, late = departures_raw.duckdb().query("departures_raw", COUNT).fetchall()[0]
    return {"assets": [{"assetId": "departures.daily", "dataVersion": f"{flights}-{late}"}]}


SEVEN = {"days": window("departures.daily", -6, 0)}


@asset("departures.week", kind="python", partitioning=WEEK, inputs=SEVEN, auto=AUTO)
def week(ctx, days):
    return {"assets": [{"assetId": "departures.week", "dataVersion": days.data_version}]}


@asset("departures.monthly", kind="python", partitioning=monthly(start="2013-01", end="2013-03"), auto=AUTO)
def months(ctx, departures_daily):
    return {"assets": [{"assetId": "departures.monthly", "dataVersion": departures_daily.data_version}]}


@asset("departures.total", kind="python", auto=AUTO)
def total(ctx, departures_monthly):
    found = sorted(departures_monthly.versions.values())
    return {"assets": [{"assetId": "departures.total", "dataVersion": "+".join(found), "payload": {"months": found}}]}
"""
# What the variant does not have: tables, and a query that is a change of one step.
SPARK_ONLY = ("freshline show",)


class Example:
    """The example as a project with running services."""

    def __init__(self, root: Path, database_url: str) -> None:
        shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns("arrived", ".freshline", "__pycache__"))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        quick = "-XX:TieredStopAtLevel=1"  # the data is too small for optimized code to pay off
        self.root, self.query = root, root / "workflows" / "daily.sql"
        self.deployment = Deployment(root, database_url, FRESHLINE_LEASE_MS="10000", JDK_JAVA_OPTIONS=quick)
        shutil.copy(EXAMPLE / "freshline.toml", root)  # the deployment wrote one of its own
        self.environ = {**self.deployment.environ, "FRESHLINE_API_URL": f"http://127.0.0.1:{port}"}
        self.port = str(port)

    def simplify(self) -> None:
        """Replace the steps on Spark."""
        shutil.rmtree(self.root / "workflows")
        self.query = self.root / "workflows" / "departures.py"
        self.query.parent.mkdir()
        self.query.write_text(LIGHT)

    def start(self) -> None:
        """Start what `freshline dev` starts; it would apply the changed query at once."""
        self.deployment.start_all()
        self.deployment.start("api", "--port", self.port)
        wait_until(self._answers, 60, every=0.2, what="an API that answers")

    def _answers(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", int(self.port))) == 0

    def settled(self) -> bool:
        """Return whether every partition is fresh, and nothing is queued or running."""
        reader = self.deployment.reader  # a command would take longer than what is waited for
        assets = reader.status()["assets"]
        counts = [one["partitions"]["counts"] for one in assets if one["partitions"]]
        states = [one["state"] for one in assets if not one["partitions"]]
        moving = [reader.runs(1, status=state) for state in ("queued", "running")]
        assert not any(one["failed"] for one in counts), self.deployment.cli("runs", "--state", "failed")
        late = sum(one[state] for one in counts for state in ("running", "missing", "stale"))
        return not late and set(states) == {"fresh"} and moving == [[], []]

    def run(self, command: str) -> str:
        """Run a command of the README; return what it prints."""
        program, *arguments = shlex.split(command)
        start = [sys.executable] if program == "python" else [sys.executable, "-m", "freshline.cli.main"]
        environ = self.environ if program == "python" else self.deployment.environ
        done = subprocess.run(
            [*start, *arguments], env=environ, cwd=self.root, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture
def example(tmp_path: Path, database_url: str) -> Iterator[Example]:
    """Yield the example; stop its services after the test."""
    made = Example(tmp_path / "partitions", database_url)
    yield made
    made.deployment.stop_all()


@pytest.mark.process
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "light", [True, pytest.param(False, marks=[pytest.mark.spark, pytest.mark.full])], ids=["python", "spark"]
)
def test_the_readme_shows_what_happens(example: Example, light: bool) -> None:
    """A week arrives, an hour is late, the query changes, four days are computed again, a backfill is canceled."""
    if light:
        example.simplify()
    backfill = ""
    for number, (command, expected) in enumerate(readme()):
        if light and command.startswith(SPARK_ONLY):
            continue
        if "--baseline" in command:
            example.query.write_text(example.query.read_text().replace(QUERY, CHANGED))
        said = example.run(command.replace("ID", backfill))
        missing = [line for line in expected if not says(said, line) and not (light and "job.sql" in line)]
        assert missing == [], f"{command}\n{said}"
        backfill = found[1] if (found := BACKFILL.search(said)) else backfill
        if not number:
            example.start()
        elif not command.startswith(("freshline backfill", "python deliver.py --complete")) or "--follow" in command:
            wait_until(example.settled, 240, every=0.5, what=f"everything fresh after {command}")


def readme() -> list[tuple[str, list[str]]]:
    """Return the commands of the README, each with the lines below it."""
    blocks = "".join(CONSOLE.findall((EXAMPLE / "README.md").read_text(encoding="utf-8")))
    parts = [part.strip().splitlines() for part in re.split(r"^\$ ", blocks, flags=re.MULTILINE) if part.strip()]
    return [(lines[0], lines[1:]) for lines in parts]


def says(said: str, line: str) -> bool:
    """Return whether the words of a line occur in one line, in this order; `...` stands for anything."""
    words = [re.escape(word) for word in line.split() if word != "..."]
    return re.search(".*?".join(words), said) is not None


def test_the_readme_uses_every_command_of_partitions() -> None:
    """A new user sees each of them once."""
    text = "\n".join(command for command, _ in readme())
    for part in ("partitions ", "status", "runs ", "why ", "plan ", "--dry-run", "backfill show", "backfill cancel"):
        assert part in text, part
