"""A Spark Connect server and a standalone cluster, started from the pip package: no download, real processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pyspark

from freshline.spark.java import check_java
from freshline.spark.jvm_cds import archive_options
from tests.waiting import wait_until

HOME = Path(pyspark.__path__[0])
TOKEN = "canary-5f2c9"  # noqa: S105 - it is one for tests
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"


class Processes:
    """Processes of Spark, each the leader of its own group; their output goes to files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.all: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, *command: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start one program of the package."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("FRESHLINE_")}
        local = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(self.root / "local"), "SPARK_HOME": str(HOME)}
        with (self.root / f"{name}-{len(self.all)}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(HOME / "bin" / command[0]), *command[1:]],
                env={**inherited, **local, **environ},
                cwd=self.root,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.all.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """SIGKILL, executors and all."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def stop(self) -> None:
        """End whatever is left."""
        for process in self.all:
            self.kill(process)


class ConnectServer(Processes):
    """A server that takes one token, always on the same port."""

    def __init__(self, root: Path, python: str) -> None:
        super().__init__(root)
        self.port = free_port()
        self.python = python

    @property
    def url(self) -> str:
        """The address without the token. Over plain TCP Spark's client sends a token to this host alone."""
        return f"sc://localhost:{self.port}"

    def up(self) -> None:
        """Start it, or start it again."""
        settings = {
            "spark.master": "local[2]",
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.warehouse.dir": str(self.root / "spark-warehouse"),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.extraJavaOptions": f"{QUICK} -Dderby.system.home={self.root} {archive_options(check_java())}",
        }
        self.process = self.start(
            "connect",
            "spark-submit",
            *(part for name, value in settings.items() for part in ("--conf", f"{name}={value}")),
            "--class",
            "org.apache.spark.sql.connect.service.SparkConnectServer",
            "spark-internal",
            SPARK_CONNECT_AUTHENTICATE_TOKEN=TOKEN,
            PYSPARK_PYTHON=self.python,
        )
        wait_until(lambda: answers(self.port) or self.process.poll() is not None, 120, what="the Connect server")
        assert self.process.poll() is None, self.said()

    def down(self) -> None:
        """SIGKILL."""
        self.kill(self.process)

    def said(self) -> str:
        """Return the log of the server."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.root.glob("connect-*.log")))


class Cluster(Processes):
    """A standalone master and two workers of one core each."""

    def up(self) -> None:
        """Start it, and wait until it is whole."""
        self.port = free_port()
        here = ("--host", "127.0.0.1", "--webui-port", "0")
        small = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": QUICK}
        master = "org.apache.spark.deploy.master.Master"
        self.start("master", "spark-class", master, *here, "--port", str(self.port), **small)
        wait_until(lambda: answers(self.port), 60, what="the master")
        worker = ("spark-class", "org.apache.spark.deploy.worker.Worker", *here, "--cores", "1", "--memory", "1g")
        self.workers = [
            self.start(f"worker{n}", *worker, "--work-dir", str(self.root / f"work{n}"), self.url, **small)
            for n in (1, 2)
        ]
        log = self.root / "master-0.log"
        wait_until(lambda: log.read_text().count("Registering worker") == 2, 60, every=0.2, what="two workers")

    @property
    def url(self) -> str:
        """The address of the master."""
        return f"spark://127.0.0.1:{self.port}"


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Return whether a process listens on the port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
