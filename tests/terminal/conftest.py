"""A project with long names, a database, and running services; shared by the tests of a module."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.terminal.harness import SMALL, Size, Terminal
from tests.waiting import wait_until

RAW, CLEAN, DAILY, SLOW = (
    "warehouse.customer.orders.raw",
    "warehouse.customer.orders.clean",
    "warehouse.customer.orders.daily",
    "warehouse.customer.orders.slow",
)
SLUGS = {CLEAN: "refresh-customer-orders-clean", DAILY: "refresh-customer-orders-daily", SLOW: "refresh-slowly"}
NAMES = (RAW, CLEAN, DAILY, SLOW, *SLUGS.values())

WORKFLOW = """
slug: {slug}
steps:
  - id: compute-everything
    type: job
    job: {{ kind: python, entrypoint: "jobs:{job}" }}
    consumes: [ {{ assetId: {source} }} ]
    produces: [ {{ assetId: {target}{policy} }} ]
"""
AUTO = ", autoMaterialize: { onUpstreamUpdate: true }"

JOBS = '''
import time
from pathlib import Path


def clean(ctx):
    print("cleaning", ctx.inputs["warehouse.customer.orders.raw"].data_version)
    return {"assets": [{"assetId": "warehouse.customer.orders.clean", "payload": {"rows": 3}}]}


def daily(ctx):
    return {"assets": [{"assetId": "warehouse.customer.orders.daily"}]}


def slow(ctx):
    """Runs until the test lets it go on."""
    print("started, and waiting for the file")
    go, last = Path("go"), None
    while not go.exists():
        if last is None or time.monotonic() - last > 1:
            ctx.progress(3, 10)
            last = time.monotonic()
        time.sleep(0.02)
    print("the file is there")
    return {"assets": [{"assetId": "warehouse.customer.orders.slow"}]}
'''

DATA = """id,customer_full_name,remark_of_the_customer,amount_in_euros
1,Johanna Katharina von Hohenlohe,please leave the parcel with the neighbours on the second floor,12.50
2,Bo,,7.00
"""


class Deployment:
    """The project, its services, and the program on terminals."""

    def __init__(self, project: Path, database_url: str) -> None:
        self.project = project
        foreign = ("FRESHLINE_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_", "COLORTERM")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        self.environ = {
            **kept,
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "FRESHLINE_DATABASE_URL": database_url,
            "FRESHLINE_PROJECT": str(project),
        }
        self._processes: list[subprocess.Popen[bytes]] = []
        self._terminals: list[Terminal] = []

    def call(self, *words: str) -> str:
        """Run a command in a pipe and return what it prints."""
        command = [sys.executable, "-m", "freshline.cli.main", *words]
        done = subprocess.run(command, env=self.environ, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, *words: str) -> Any:
        """Return the document that a command prints."""
        return json.loads(self.call(*words, "--json"))

    def start(self, *words: str) -> None:
        """Start a service."""
        log = (self.project / f"{words[0]}.log").open("wb")
        command = [sys.executable, "-m", "freshline.cli.main", *words]
        self._processes.append(subprocess.Popen(command, env=self.environ, stdout=log, stderr=log))
        log.close()

    def terminal(self, *words: str, size: Size = SMALL, colour: bool = True) -> Terminal:
        """Run a command on a terminal."""
        environ = self.environ if colour else {**self.environ, "NO_COLOR": "1"}
        made = Terminal([sys.executable, "-m", "freshline.cli.main", *words], size, environ, self.project)
        self._terminals.append(made)
        return made

    def report(self, version: str) -> None:
        """Report the source."""
        self.call("report", RAW, "--version", version, "--payload", json.dumps({"path": "orders.csv"}))

    def settled(self) -> bool:
        """Return whether everything automatic is fresh."""
        states = {one["assetId"]: one["state"] for one in self.json("status")["assets"]}
        return {states[CLEAN], states[DAILY]} == {"fresh"}

    def finished(self, run_id: str) -> bool:
        """Return whether a run has ended."""
        return self.json("runs", run_id)["finishedAt"] is not None

    def close_terminals(self) -> None:
        """Kill programs that a failed test has left behind."""
        while self._terminals:
            self._terminals.pop().close()

    def stop(self) -> None:
        """Stop the services."""
        for process in self._processes:
            process.kill()
            process.wait()


def write_project(root: Path) -> Path:
    """Write a source, two automatic workflows and one that runs until it is let go."""
    for directory in ("workflows", "sources"):
        (root / directory).mkdir(parents=True)
    (root / "freshline.toml").write_text('name = "customers"\n')
    (root / "jobs.py").write_text(JOBS)
    (root / "orders.csv").write_text(DATA)
    (root / "sources" / "raw.yaml").write_text(f"assetId: {RAW}\nformat: csv\npath: orders.csv\n")
    for source, target, job, policy in (
        (RAW, CLEAN, "clean", AUTO),
        (CLEAN, DAILY, "daily", AUTO),
        (RAW, SLOW, "slow", ""),
    ):
        text = WORKFLOW.format(slug=SLUGS[target], job=job, source=source, target=target, policy=policy)
        (root / "workflows" / f"{job}.yaml").write_text(text)
    return root


@pytest.fixture(scope="module")
def shared(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """One project with running services, in which everything ran once."""
    made = Deployment(write_project(tmp_path_factory.mktemp("terminal") / "customers"), module_database_url)
    made.call("apply", "--yes")
    made.start("materializer")
    made.start("worker", "--slots", "2", "--grace", "0")
    try:
        made.report("delivery-1")
        wait_until(made.settled, 60, every=0.2, what="everything fresh")
        yield made
    finally:
        made.stop()


@pytest.fixture
def deployment(shared: Deployment) -> Iterator[Deployment]:
    """Yield the shared project; end the programs that a test started on a terminal."""
    yield shared
    shared.close_terminals()
    (shared.project / "go").unlink(missing_ok=True)


Slow = Callable[[], str]


@pytest.fixture
def slow_run(deployment: Deployment) -> Iterator[Slow]:
    """Start the slow run and yield its id; release it at the end."""
    started: list[str] = []

    def start() -> str:
        run_id: str = deployment.json("run", SLUGS[SLOW])["id"]
        started.append(run_id)
        wait_until(lambda: deployment.json("runs", run_id)["status"] == "running", 30, every=0.2, what="a running run")
        return run_id

    yield start
    (deployment.project / "go").touch()
    for run_id in started:
        ended = partial(deployment.finished, run_id)
        wait_until(ended, 30, every=0.2, what="the end of the run")
