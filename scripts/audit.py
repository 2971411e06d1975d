"""Compares the locked packages with the known vulnerabilities, by pip-audit: `python -m scripts.audit`.

Exit code 1 for a vulnerability. Where the advisory data cannot be reached, it says so and ends with 0: pip-audit itself
reports "No known vulnerabilities found" although it has looked at nothing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("runtime.lock", "dev.lock")
TIMEOUT_S = 10
TOTAL_S = 300


class Audit(NamedTuple):
    """What to print, and the exit code."""

    text: str
    code: int


def summarize(name: str, output: str, trouble: str) -> Audit:
    """Return the result from what pip-audit wrote to stdout and to stderr."""
    try:
        packages: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        why = next(iter(reversed(trouble.strip().splitlines())), "pip-audit printed nothing")
        return Audit(f"audit: {name} was skipped: {why}", 0)
    audited = [one for one in packages if "skip_reason" not in one]
    found = [f"{one['name']} {one['version']}: {flaw['id']}" for one in audited for flaw in one["vulns"]]
    if not audited:
        return Audit(f"audit: {name} was skipped: the advisory data cannot be reached from here", 0)
    left = f"; {len(packages) - len(audited)} could not be audited" if len(audited) < len(packages) else ""
    lines = [f"audit: {name}: {len(audited)} packages, {len(found)} known vulnerabilities{left}", *found]
    return Audit("\n".join(lines), 1 if found else 0)


def audit(lock: Path) -> Audit:
    """Audit a lock file."""
    program = shutil.which("pip-audit", path=str(Path(sys.executable).parent)) or shutil.which("pip-audit")
    if program is None:
        return Audit(f"audit: {lock.name} was skipped: pip-audit is not installed; `make setup` installs it", 0)
    command = [program, "--requirement", str(lock), "--require-hashes", "--disable-pip", "--format", "json"]
    command += ["--progress-spinner", "off", "--desc", "off", "--timeout", str(TIMEOUT_S)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TOTAL_S)
    except subprocess.TimeoutExpired:
        return Audit(f"audit: {lock.name} was skipped: no answer within {TOTAL_S} s", 0)
    return summarize(lock.name, ended.stdout, ended.stderr)


def main() -> None:
    """Audit all locks; exit with 1 if one has a known vulnerability."""
    results = [audit(ROOT / "requirements" / name) for name in LOCKS]
    for one in results:
        print(one.text)
    sys.exit(max(one.code for one in results))


if __name__ == "__main__":
    main()
