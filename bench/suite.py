"""All benchmarks, each in its own process; the results go to a file, the page and its chart."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import chart, page
from bench.measure import echo

ROOT = Path(__file__).resolve().parents[1]


def run_all(names: Sequence[str], *, quick: bool, root: Path | None = ROOT) -> int:
    """Run all benchmarks; return 0 if all goals are met. One that fails counts as not met; the others still run.

    `root`: the project whose results, page and chart are written; None: they are only printed.
    """
    began = time.perf_counter()
    results = [found for name in names if (found := _run(name, quick=quick)) is not None]
    minutes = (time.perf_counter() - began) / 60
    missed = [one["name"] for one in results if one["met"] is False]
    failed = [name for name in names if name not in {one["name"] for one in results}]
    echo(f"{len(results)} benchmarks in {minutes:.1f} min; missed: {_list(missed)}; failed: {_list(failed)}")
    if root is not None and failed:
        echo("results and page are unchanged: this was not a complete run")
    elif root is not None:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        _write({"at": at, "machine": machine(), "results": results}, root)
    return 1 if missed or failed else 0


def machine() -> dict[str, Any]:
    """Return the machine: ratios are comparable between machines, times are not."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory),
        "python": platform.python_version(),
    }


def _run(name: str, *, quick: bool) -> dict[str, Any] | None:
    command = [sys.executable, "-m", "bench", name, "--json", *(["--quick"] if quick else [])]
    last = ""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            if line.startswith("{"):
                last = line
            else:
                echo(line.rstrip("\n"))
    if process.returncode or not last:
        echo(f"  {name} failed with status {process.returncode}")
        return None
    found: dict[str, Any] = json.loads(last)
    return found


def _write(document: dict[str, Any], root: Path) -> None:
    path = root / "bench" / "results" / f"{document['at'][:19].replace(':', '')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    chart.write(document, root / chart.NAME)
    page.write(document, root / page.NAME)
    echo(f"wrote {path.relative_to(root)}, {chart.NAME} and {page.NAME}")


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
