"""The processes of the demo: real `freshline` commands, which it starts and stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

STOP_S = 20.0
SHOWN = 15  # lines of a log that are printed when its process has died
# A JVM that lives for a minute does not earn the second compiler: half the CPU for small data.
QUICK_JAVA = "-XX:TieredStopAtLevel=1"
FRESHLINE = [sys.executable, "-m", "freshline.cli.main"]


class Failed(Exception):
    """The demo cannot go on; the text says why."""


def environment(project: Path) -> dict[str, str]:
    """Return our own environment without settings that select another database, warehouse or Spark."""
    foreign = ("FRESHLINE_", "ASSET_MATERIALIZER_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    java = f"{kept.get('JDK_JAVA_OPTIONS', '')} {QUICK_JAVA}".strip()
    return {**kept, "FRESHLINE_PROJECT": str(project), "JDK_JAVA_OPTIONS": java}


def call(project: Path, *arguments: str) -> None:
    """Run one command to its end; it prints to our output."""
    sys.stdout.flush()
    command = [*FRESHLINE, *arguments]
    done = subprocess.run(command, env=environment(project), stderr=subprocess.STDOUT, timeout=120, check=False)
    if done.returncode:
        raise Failed(f"`freshline {' '.join(arguments)}` ended with {done.returncode}")


class Processes:
    """Long-running commands. On leaving the block they get SIGTERM, and SIGKILL if they do not stop."""

    def __init__(self, project: Path) -> None:
        self._environment = environment(project)
        self._logs = project / "logs"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *arguments: str) -> int:
        """Start `freshline NAME` with its output in a log file, and return its process id."""
        self._logs.mkdir(exist_ok=True)
        with self._log(name).open("ab") as log:
            # A session of its own: Ctrl-C comes to us, and we stop the others in order.
            self._running[name] = subprocess.Popen(
                [*FRESHLINE, name, *arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self._running[name].pid

    def check(self) -> None:
        """Fail if one of them has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                last = self._log(name).read_text(encoding="utf-8", errors="replace").splitlines()[-SHOWN:]
                lines = "\n".join(f"    {line}" for line in last)
                raise Failed(f"the {name} ended by itself with {process.returncode}; its log ends with\n{lines}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        for process in self._running.values():
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._running.clear()

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"
