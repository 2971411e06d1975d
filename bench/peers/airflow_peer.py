"""Airflow with assets: API server, scheduler with LocalExecutor, DAG processor, on PostgreSQL; reports through REST.

Best: the scheduler sleeps a tenth of a second when it has nothing to do (default 1 s), a DAG has one run at a time,
and files that do not change are not parsed again and again. Default: what an installation does with this executor.
"""

from __future__ import annotations

import http.client
import json
import secrets
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from bench.graph import Layout
from bench.peers import process, system
from bench.peers.system import Queries, System
from bench.server import Server

DEFINITIONS = Path(__file__).with_name("definitions")
PACKAGES = ("apache-airflow",)
SERVICES = ("api-server", "scheduler", "dag-processor")
CREATED = 201
QUERIES = Queries(
    runs="SELECT count(*) FROM dag_run",
    active="SELECT count(*) FROM dag_run WHERE state IN ('queued', 'running')",
    results="SELECT count(*) FROM asset_event e JOIN asset a ON a.id = e.asset_id WHERE a.name = %s",
)
PARSED = "SELECT count(*) FROM dag WHERE NOT is_stale AND NOT is_paused"
ACTIVE = "SELECT count(*) FROM asset_active"


@dataclass(frozen=True, slots=True)
class Settings:
    """Configuration: `AIRFLOW__…` variables, and the polling interval."""

    words: str
    interval: float
    environ: Mapping[str, str] = field(default_factory=dict)


DEFAULT = Settings("defaults", 1.0)
BEST = Settings(
    "best",
    0.1,
    {
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.1",
        "AIRFLOW__CORE__MAX_ACTIVE_RUNS_PER_DAG": "1",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
    },
)


@contextmanager
def running(
    server: Server, home: Path, layout: Layout, environment: Path, settings: Settings = BEST
) -> Iterator[System]:
    """Yield a running installation in which every DAG is parsed and every asset active."""
    (home / "dags").mkdir(parents=True)
    (home / "dags" / "graph.py").write_bytes((DEFINITIONS / "airflow_assets.py").read_bytes())
    (home / "graph.json").write_text(system.as_json(layout), encoding="utf-8")
    url, port = server.empty(), _free_port()
    environ = _environ(home, url, port) | dict(settings.environ)
    program = environment / "bin" / "airflow"
    subprocess.run([program, "db", "migrate"], env=environ, check=True, capture_output=True)
    with ExitStack() as stack:
        logs = {name: home / f"{name}.log" for name in SERVICES}
        services = [
            (stack.enter_context(process.service([program, name], environ, log)), log) for name, log in logs.items()
        ]
        connection = stack.enter_context(psycopg.connect(url, autocommit=True))
        client = Client(port)
        found = System(QUERIES, connection, client.report, home / "notes", settings.interval)

        def there() -> bool:
            alive = all(process.alive(*one) for one in services)
            return alive and found.count(PARSED) >= len(layout.consumes) and found.count(ACTIVE) >= layout.assets

        system.ready(there, "Airflow's DAGs and assets")
        system.ready(client.connect, "Airflow's API server")
        client.learn(connection)
        yield found


class Client:
    """Client of the REST API. It uses one connection per request: the server closes idle ones."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._headers = {"Content-Type": "application/json"}
        self._assets: dict[str, int] = {}

    def connect(self) -> bool:
        """Get a token; return False while the server does not listen."""
        try:
            token = json.loads(self._ask("GET", "/auth/token"))["access_token"]
        except ConnectionError:
            return False
        self._headers["Authorization"] = f"Bearer {token}"
        return True

    def learn(self, connection: psycopg.Connection[tuple[str, int]]) -> None:
        """Read the ids of assets, which the API requires."""
        self._assets = dict(connection.execute("SELECT name, id FROM asset").fetchall())

    def report(self, source: str) -> None:
        """Report an event of an asset."""
        self._ask("POST", "/api/v2/assets/events", json.dumps({"asset_id": self._assets[source]}))

    def _ask(self, method: str, path: str, body: str | None = None) -> str:
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)) as connection:
            connection.request(method, path, body, self._headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        if answer.status not in {200, CREATED}:
            raise system.TooSlow(f"Airflow answered {method} {path} with {answer.status}: {text[:200]}")
        return text


def _environ(home: Path, url: str, port: int) -> dict[str, str]:
    """Return the variables of every installation: paths, database, executor and authentication."""
    address = url.replace("postgresql://", "postgresql+psycopg2://", 1)
    return process.plain(
        AIRFLOW_HOME=str(home),
        AIRFLOW__CORE__DAGS_FOLDER=str(home / "dags"),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__CORE__EXECUTOR="LocalExecutor",
        AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS="True",
        AIRFLOW__CORE__EXECUTION_API_SERVER_URL=f"http://127.0.0.1:{port}/execution/",
        AIRFLOW__API__HOST="127.0.0.1",
        AIRFLOW__API__PORT=str(port),
        AIRFLOW__API__SECRET_KEY=secrets.token_hex(),
        AIRFLOW__API_AUTH__JWT_SECRET=secrets.token_hex(32),
        AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=address,
        PYTHONPATH=str(DEFINITIONS),
        PEERS_GRAPH=str(home / "graph.json"),
        PEERS_LOG=str(home / "notes"),
        PEERS_SLOW_SECONDS=str(system.SLOW_S),
    )


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
