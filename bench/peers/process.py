"""Processes of the peers: each leads a group of its own, and is ended by its id together with whatever it started."""

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
    """A process with a pipe for its input and one for its output; its errors go to the log."""
    words = [str(word) for word in command]
    with log.open("ab") as errors:
        process = subprocess.Popen(
            words,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,  # Ctrl-C reaches us alone, and we end them in order
        )
    try:
        yield process
    finally:
        end(process)


@contextmanager
def service(command: Sequence[str | Path], environ: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that says what it has to say into its log."""
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
    """Politely, then not. What it started and left behind is in its group."""
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
    """A process that should be there is not; the text says what it said last."""


def alive(process: subprocess.Popen[bytes], log: Path) -> bool:
    """Whoever waits for a process asks this too, so as not to wait for one that is gone."""
    if process.poll() is None:
        return True
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["nothing"]
    raise Ended(f"the process of {log.name} ended with status {process.returncode} and said {lines[-1][:200]!r}")


def plain(**ours: str) -> dict[str, str]:
    """The environment without what configures Freshline, its checkout or a peer of somebody else."""
    foreign = ("FRESHLINE_", "ASSET_", "AIRFLOW", "DAGSTER", "PYTHON", "VIRTUAL_ENV")
    return {**{key: value for key, value in os.environ.items() if not key.startswith(foreign)}, **ours}
