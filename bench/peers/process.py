"""Processes of the peers. Each has its own process group and is ended by id, with all of its children."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 15


@contextmanager
def running(command: Sequence[str | Path], environ: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield a process with pipes for input and output; its errors go to the log."""
    words = [str(word) for word in command]
    with log.open("ab") as errors:
        process = subprocess.Popen(
            words,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,  # Ctrl-C reaches only this process, which ends them in order
        )
    try:
        yield process
    finally:
        end(process)


@contextmanager
def service(command: Sequence[str | Path], environ: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process whose output goes to its log."""
    words = [str(word) for word in command]
    with log.open("ab") as out:
        process = subprocess.Popen(
            words, env=dict(environ), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """End the process group with SIGTERM, then with SIGKILL."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class Ended(Exception):
    """A process ended unexpectedly; the text has its last output."""


def alive(process: subprocess.Popen[bytes], log: Path) -> bool:
    """Raise if a process ended, so that nothing waits for it."""
    if process.poll() is None:
        return True
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["nothing"]
    raise Ended(f"the process of {log.name} ended with status {process.returncode} and said {lines[-1][:200]!r}")


def plain(**ours: str) -> dict[str, str]:
    """Return the environment without the variables of Freshline, this checkout and the peers."""
    foreign = ("FRESHLINE_", "ASSET_", "AIRFLOW", "DAGSTER", "PYTHON", "VIRTUAL_ENV")
    return {**{key: value for key, value in os.environ.items() if not key.startswith(foreign)}, **ours}
