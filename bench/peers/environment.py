"""Virtual environments of the peers, with pinned packages. They are created once and kept in a cache directory."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.measure import phase

PINS = Path(__file__).with_name("requirements")
TIMEOUT_S = 900
MADE = "made"  # written last: an environment without this file is incomplete and is created again


class Unavailable(Exception):
    """A peer cannot be measured on this machine; the text is a full sentence."""


def environment(name: str, cache: Path) -> Path:
    """Return the directory of a peer's environment; create it unless it exists with the same pins."""
    pins = PINS / f"{name}.txt"
    key = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()[:8]
    home = cache.resolve() / f"{name}-{key}"
    if not (home / MADE).exists():
        with phase(f"the environment of {name} in {home}"):
            _make(name, home, pins)
    return home


def version(name: str, package: str) -> str:
    """Return the pinned version of a package."""
    lines = (PINS / f"{name}.txt").read_text(encoding="utf-8").split()
    (found,) = (line.partition("==")[2] for line in lines if line.startswith(f"{package}=="))
    return found


def commands(home: Path, pins: Path, uv: str | None) -> list[list[str]]:
    """Return the commands that create an environment: with uv if it is installed, else with venv and pip."""
    if uv:
        return [
            [uv, "venv", "--quiet", "--python", sys.executable, str(home)],
            [uv, "pip", "install", "--quiet", "--python", str(home / "bin" / "python"), "-r", str(pins)],
        ]
    return [
        [sys.executable, "-m", "venv", str(home)],
        [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "-r", str(pins)],
    ]


def _make(name: str, home: Path, pins: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    for command in commands(home, pins, shutil.which("uv")):
        if problem := _run(command):
            shutil.rmtree(home, ignore_errors=True)
            raise Unavailable(
                f"{name} is left out: its environment could not be made ({problem});"
                f" {pins.relative_to(PINS.parents[2])} needs a package index that pip or uv reaches"
            )
    (home / MADE).touch()


def _run(command: Sequence[str]) -> str | None:
    """Run a command; return None, or a short reason for its failure."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"it took longer than {TIMEOUT_S} s"
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return None
    lines = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
    told = [line for line in lines if line.lower().startswith("error")] or lines
    return told[-1].strip()[:200]
