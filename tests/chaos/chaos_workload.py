"""The workload of the chaos test: a project with joins, chains and a flaky job, and clients that report and request.

A job's output is a function of its inputs, so that the final version of every asset can be computed.
"""

from __future__ import annotations

import hashlib
import random
import threading
from pathlib import Path
from typing import Any

import psycopg
import structlog

from freshline.errors import FreshlineError
from freshline.settings import Settings
from freshline.store.db.database import Database
from freshline.store.store import Store
from tests.chaos.callers import Callers
from tests.waiting import wait_until

log = structlog.get_logger("chaos")
SOURCES = ("orders", "prices", "stock")
CONSUMES: dict[str, tuple[str, ...]] = {
    "clean": ("orders",),
    "priced": ("clean", "prices"),
    "daily": ("priced",),
    "weekly": ("daily", "clean"),
    "shelf": ("stock", "orders"),
    "flaky": ("prices",),
    "report": ("weekly", "shelf", "flaky"),
    "narrow": ("stock",),
    "wide": ("stock",),
    "ticker": ("orders",),
}
TICKER = "ticker"  # runs again and again because it expires
POOLED = {"narrow", "wide"}
BASE_MS, MAX_MS = 1_000, 4_000
CALM = "calm"  # while this file is absent, the flaky job fails now and then
JOBS = """
import hashlib, pathlib, time

def work(ctx):
    name = ctx.parameters["asset"]
    luck = int(hashlib.sha256(f"{ctx.run_id}".encode()).hexdigest(), 16)
    time.sleep(luck % 300 / 1000)
    if name == "flaky" and luck % 3 == 0 and not pathlib.Path("calm").exists():
        raise ValueError("out of luck")
    read = sorted((asset, one.data_version) for asset, one in ctx.inputs.items())
    return {"assets": [{"assetId": name, "dataVersion": hashlib.sha256(repr((name, read)).encode()).hexdigest()[:12]}]}
"""


def write_project(root: Path) -> None:
    """Write the definitions and the jobs."""
    (root / "workflows").mkdir(parents=True)
    (root / "freshline.toml").write_text('name = "chaos"\n[pools]\none = 1\n')
    (root / "jobs.py").write_text(JOBS)
    for asset, inputs in CONSUMES.items():
        (root / "workflows" / f"{asset}.yaml").write_text(_definition(asset, inputs))


def _definition(asset: str, inputs: tuple[str, ...]) -> str:
    consumed = ", ".join(f"{{assetId: {one}}}" for one in inputs)
    freshness = ", freshness: {ttl: 3s}" if asset == TICKER else ""
    pool = "pool: one\n" if asset in POOLED else ""
    return (
        f"slug: {asset}\nparameters: {{asset: {asset}}}\n{pool}steps:\n  - id: work\n"
        "    job: {kind: python, entrypoint: 'jobs:work'}\n    retry: {maxAttempts: 1}\n"
        f"    consumes: [{consumed}]\n"
        f"    produces: [{{assetId: {asset}, autoMaterialize: {{onUpstreamUpdate: true}}{freshness}}}]\n"
    )


def final_versions(sources: dict[str, str]) -> dict[str, str]:
    """Return the version that every asset must end with, given the versions of the sources."""
    versions = dict(sources)
    for asset, inputs in CONSUMES.items():
        read = sorted((one, versions[one]) for one in inputs)
        versions[asset] = hashlib.sha256(repr((asset, read)).encode()).hexdigest()[:12]
    return versions


class Clients:
    """Report changes and request runs until stopped; every answered call must have taken effect once.

    Every second call goes over HTTP.
    """

    def __init__(self, url: str, root: Path, callers: Callers, seed: int) -> None:
        self._callers = callers
        self._database = Database(url, name="chaos")
        self._settings = Settings(project=root, database_url=url)
        self._rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="clients", daemon=True)
        self.reported: dict[str, list[tuple[str, str]]] = {source: [] for source in SOURCES}  # key and version
        self.requested: list[str] = []
        self.errors = 0
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._database.open()
        self._thread.start()

    def stop(self) -> None:
        """Stop making changes; calls that have begun are retried until they are answered."""
        self._stopping.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        self._database.close()

    def _loop(self) -> None:
        try:
            number = 0
            while not self._stopping.wait(self._rng.uniform(0, 0.4)):
                number += 1
                if self._rng.random() < 0.9:
                    self._report(self._rng.choice(SOURCES), number)
                else:
                    self._request(self._rng.choice([*CONSUMES]), number)
            for source in SOURCES:  # a final report of every source
                number += 1
                self._report(source, number)
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self.failure = error

    def _report(self, source: str, number: int) -> None:
        key, version = f"{source}-{number}", f"v{number}"
        if self._over_http():
            self._callers.report(source, version, key)
        else:
            self._insist(lambda store: store.operations.report(source, version=version, key=key))
        self.reported[source].append((key, version))

    def _request(self, slug: str, number: int) -> None:
        key = f"{slug}-{number}"
        if self._over_http():
            if self._callers.run(slug, key):
                self.requested.append(key)
            return
        try:
            self._insist(lambda store: store.operations.request_run(slug, key=key))
        except FreshlineError as error:
            log.debug("refused", slug=slug, error=str(error))  # an input was not produced yet
        else:
            self.requested.append(key)

    def _over_http(self) -> bool:
        return self._rng.random() < 0.5

    def _insist(self, call: Any) -> None:
        """Retry with the same key until there is an answer: a lost answer is not a failure."""

        def answered() -> bool:
            try:
                call(Store(self._database, self._settings))
            except psycopg.Error:
                self.errors += 1
                return False
            except FreshlineError as error:
                if error.code != "database":
                    raise
                self.errors += 1
                return False
            return True

        wait_until(answered, 120, every=0.2, what="an answer of the database")
