"""The API in a process of its own, with its own limit of descriptors, and clients that only hold connections."""

from __future__ import annotations

import os
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import httpx

from tests.waiting import wait_until

UNLIMITED = httpx.Limits(max_connections=None)
URL = re.compile(r"http://127\.0\.0\.1:(\d+)/api/v1")


@dataclass(frozen=True)
class ApiProcess:
    """A running API."""

    port: int
    log: Path
    process: subprocess.Popen[bytes]

    def client(self, **headers: str) -> httpx.Client:
        """Return a client with its own connections."""
        return httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=30, trust_env=False, limits=UNLIMITED
        )

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> None:
        """Send a request on a new connection; it must be answered with 200."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path, headers=dict(headers or {}))
            assert connection.getresponse().status == 200
        finally:
            connection.close()

    def healthy(self) -> None:
        """Require that a new connection gets an answer from /healthz."""
        self.get("/healthz")


@contextmanager
def api_process(url: str, directory: Path, *, files: int, before: str = "", **environ: str) -> Iterator[ApiProcess]:
    """Run the API with a limit of open files. `before`: Python code that it executes first."""
    log = directory / "api.log"
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))"
    code = f"{limit}\n{before}\nfrom freshline.cli.main import main\nmain()"
    (directory / "freshline.toml").touch()
    settings = {"FRESHLINE_DATABASE_URL": url, "FRESHLINE_PROJECT": str(directory), "FRESHLINE_API_AUTH": "token"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", code, "api", "--port", "0", "--log-format", "json"],
            env={**os.environ, **settings, **environ},
            stdout=out,
            stderr=out,
        )
    try:
        found = wait_until(lambda: URL.search(log.read_text()) or process.poll(), what="the API's address")
        assert isinstance(found, re.Match), log.read_text()
        yield ApiProcess(int(found[1]), log, process)
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def idle(port: int, number: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
    """Yield connections that send nothing, or only the beginning of a request."""
    with ExitStack() as stack, many_files():
        made = []
        for _ in range(number):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            one.sendall(first)
            made.append(one)
        yield made


@contextmanager
def many_files() -> Iterator[None]:
    """Allow this process more open files for a while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8_192 if hard == resource.RLIM_INFINITY else min(8_192, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def ended(connection: socket.socket) -> bool:
    """Return whether the server has closed a connection."""
    connection.settimeout(0)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def measured(call: Callable[[], object], times: int) -> list[float]:
    """Return the durations of repeated calls in seconds, the shortest first."""
    found = []
    for _ in range(times):
        began = time.monotonic()
        call()
        found.append(time.monotonic() - began)
    return sorted(found)
