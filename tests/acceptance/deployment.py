"""A deployment of real processes: `freshline materializer` and `freshline worker` on a project, with real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from freshline.definitions.loading.project import load_project
from freshline.settings import load
from freshline.store.db.database import Database
from freshline.store.read.reader import Reader
from freshline.store.store import Store
from tests.object_store_server import ObjectStore, overlay, serving
from tests.waiting import wait_until

JOBS = '''
import os, pathlib, time

def work(ctx):
    """The output's version is a function of the inputs' versions; `gate` names a file that must exist to go on."""
    name = ctx.parameters["asset"]
    here = pathlib.Path("journal")
    here.mkdir(exist_ok=True)
    with open(here / f"{name}.log", "a") as file:
        file.write(f"{ctx.run_id} {ctx.attempt} {os.getpid()}\\n")
    gate = ctx.parameters.get("gate")
    while gate and not pathlib.Path(gate).exists():
        time.sleep(0.01)
    if pathlib.Path(f"fail-{name}").exists():
        raise ValueError(f"{name} fails on purpose")
    print(name, "reads", *sorted(ctx.inputs))
    read = "+".join(f"{asset}={i.data_version}" for asset, i in sorted(ctx.inputs.items()))
    return {"assets": [{"assetId": name, "dataVersion": f"{name}({read})"}]}
'''


class Deployment:
    """A project directory and the processes on it. Short leases and polls, so that tests are quick."""

    def __init__(self, root: Path, url: str, **environ: str) -> None:
        self.root = root
        (root / "workflows").mkdir(parents=True, exist_ok=True)
        (root / "freshline.toml").write_text('name = "acceptance"\n')
        (root / "jobs.py").write_text(JOBS)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.database = Database(url)
        self.database.open()
        self.reader = Reader(self.database)
        self.environ = {
            **{key: value for key, value in os.environ.items() if not key.startswith("FRESHLINE_")},
            "FRESHLINE_PROJECT": str(root),
            "FRESHLINE_DATABASE_URL": url,
            "FRESHLINE_POLL_MS": "100",
            "FRESHLINE_LEASE_MS": "1500",
            "ASSET_MATERIALIZER_REFRESH_INTERVAL_MS": "0",
            **environ,
        }

    def workflow(
        self,
        asset: str,
        consumes: str = "",
        *,
        auto: str = "{onUpstreamUpdate: true}",
        freshness: str | None = None,
        gate: str | None = None,
        more: str = "",
    ) -> None:
        """Write `workflows/<asset>.yaml`: it makes `asset` from what it consumes."""
        inputs = ", ".join(f"{{assetId: {one}}}" for one in consumes.split())
        fresh = f", freshness: {freshness}" if freshness else ""
        parameters = f"{{asset: {asset}{f', gate: {gate}' if gate else ''}}}"
        (self.root / "workflows" / f"{asset}.yaml").write_text(
            f"slug: {asset}\nparameters: {parameters}\n{more}"
            "steps:\n  - id: work\n    job: {kind: python, entrypoint: 'jobs:work'}\n    retry: {maxAttempts: 1}\n"
            f"    consumes: [{inputs}]\n    produces: [{{assetId: {asset}, autoMaterialize: {auto}{fresh}}}]\n"
        )

    def start(self, *command: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start one process; its log goes to a file of the project."""
        with (self.root / f"{command[0]}-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "freshline.cli.main", *command],
                env={**self.environ, **environ},
                cwd=self.root,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def start_all(self) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
        """One materializer and one worker."""
        return self.start("materializer"), self.start("worker")

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """kill -9, and wait until it is gone."""
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop_all(self) -> None:
        """End whatever is left."""
        self.database.close()
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()

    def cli(self, *command: str, check: bool = True) -> str:
        """Run a command; its standard output."""
        done = subprocess.run(
            [sys.executable, "-m", "freshline.cli.main", *command],
            env=self.environ,
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *command: str) -> Any:
        """Return the document of a command with `--json`."""
        return json.loads(self.cli(*command, "--json"))

    def apply(self) -> None:
        self.cli("apply", "--yes")

    @property
    def store(self) -> Store:
        """Return the store, for what a test needs no process for."""
        return Store(self.database, load(self.environ))

    def commit(self) -> None:
        """Store the definitions as `apply` does, without starting a process."""
        self.store.apply.commit(load_project(self.root))

    def report(self, asset: str, version: str) -> None:
        """Report as `freshline report` does, without starting a process."""
        self.store.operations.report(asset, version=version)

    def runs(self) -> list[dict[str, Any]]:
        """Oldest first; as `freshline runs --json` has them, read without starting a process."""
        return list(reversed(self.reader.runs(limit=1000)))

    def states(self) -> dict[str, str]:
        return {one["assetId"]: one["state"] for one in self.reader.status()["assets"]}

    def versions(self) -> dict[str, str]:
        return {one["assetId"]: one["dataVersion"] or "" for one in self.reader.status()["assets"]}

    def journal(self, asset: str) -> list[list[str]]:
        """Return what the job itself recorded: run, attempt, process."""
        file = self.root / "journal" / f"{asset}.log"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def wait_fresh(self, *assets: str, timeout: float = 60) -> None:
        def fresh() -> bool:
            states = self.states()
            return all(states.get(one) == "fresh" for one in assets)

        wait_until(fresh, timeout, every=0.3, what=f"{assets} are fresh")

    def logs(self) -> str:
        """All logs, for a failure message."""
        return "\n".join(f"--- {file.name}\n{file.read_text()}" for file in sorted(self.root.glob("*.log")))


@contextmanager
def in_bucket(deployment: Deployment) -> Iterator[ObjectStore]:
    """Use a bucket as the warehouse; Spark is configured as users would do it."""
    for objects in serving(deployment.root.parent / "objects"):
        conf = deployment.root.parent / "conf"
        conf.mkdir()
        settings = (f"spark.hadoop.{name} {value}\n" for name, value in overlay(objects).items())
        (conf / "spark-defaults.conf").write_text("".join(settings))
        deployment.environ |= objects.environ
        deployment.environ |= {"FRESHLINE_WAREHOUSE": objects.address, "SPARK_CONF_DIR": str(conf)}
        yield objects
