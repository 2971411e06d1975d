"""A process of the chaos test, and what it needs to start."""

from __future__ import annotations

import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Member:
    """A process of the fleet, which is restarted after a fault."""

    kind: str
    number: int
    process: subprocess.Popen[bytes]
    stopped: bool = False
    awaited: bool = False  # a timer starts it again


def directory(path: Path) -> Path:
    """Return a directory, which is made if it is missing."""
    path.mkdir(parents=True, exist_ok=True)
    return path


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def seconds_since(start: float) -> float:
    """Return the seconds since a time of the monotonic clock."""
    return time.monotonic() - start
