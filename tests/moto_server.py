"""A second implementation of S3: the server of moto, in a process of its own.

The store of `object_store_server.py` was written for these tests. This one was not, so it can disagree with us.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket

import httpx

from tests.waiting import wait_until

BUCKET = "moto-bucket"
ENVIRON = {
    "AWS_ACCESS_KEY_ID": "freshlinekey",
    "AWS_SECRET_ACCESS_KEY": "canary-51d0a7",
    "AWS_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
}


@contextmanager
def moto(directory: Path) -> Iterator[dict[str, str]]:
    """Yield the environment that clients need to reach a server with one empty bucket."""
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = directory / "moto.log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: _made(address, process, log), 120, what="a bucket of moto")
        yield {**ENVIRON, "AWS_ENDPOINT_URL": address}
    finally:
        process.kill()
        process.wait()


def _made(address: str, process: subprocess.Popen[bytes], log: Path) -> bool:
    """Create the bucket; return whether the server did so."""
    assert process.poll() is None, log.read_text(errors="replace")
    try:
        return httpx.put(f"{address}/{BUCKET}").is_success
    except httpx.TransportError:
        return False
