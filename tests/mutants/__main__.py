"""Planted bugs: each patch beside this file breaks a promise on purpose, and the test that it names must fail.

A patch is a `git diff` after lines like `# caught-by: tests/x.py::test_y` (one or more) and `# breaks: promise 2 ...`.
Usage: python -m tests.mutants [--passed] [NAME...]. Exit code 1: a mutant survived, or a patch or its test is broken.
`--passed`: the tests are known to pass without a mutant, as `make full` has just seen.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent
PASSED = "--passed"
TESTS_FAILED = 1  # pytest's exit code; 2 and above mean that the test could not be run, which proves nothing


@dataclass(frozen=True, slots=True)
class Mutant:
    """One patch: the promise that it breaks and the tests that must notice."""

    name: str
    patch: Path
    breaks: str
    caught_by: tuple[str, ...]


def load(names: Sequence[str] = ()) -> list[Mutant]:
    """The mutants of this folder, or those that are named."""
    found = [_read(patch) for patch in sorted(FOLDER.glob("*.patch"))]
    unknown = set(names) - {mutant.name for mutant in found}
    if unknown:
        sys.exit(f"unknown mutants: {', '.join(sorted(unknown))}; known are {', '.join(m.name for m in found)}")
    return [mutant for mutant in found if not names or mutant.name in names]


@contextmanager
def copy_of_the_project() -> Iterator[Path]:
    """A copy of every file that git knows or would add."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    with tempfile.TemporaryDirectory(prefix="freshline-mutant-") as directory:
        for name in filter(None, os.fsdecode(listing.stdout).split("\0")):
            if (ROOT / name).is_file():
                target = Path(directory) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target)
        yield Path(directory)


def apply(mutant: Mutant, project: Path, *options: str) -> str | None:
    """Plant the bug; a text says why that was not possible. With `--check` it is only tried."""
    command = ["git", "apply", *options, str(mutant.patch)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    return f"the patch does not apply: {done.stderr.strip()}" if done.returncode else None


def run(tests: Sequence[str], copy: Path) -> int:
    """Pytest's exit code for `tests` on the copy."""
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False).returncode


def verdict(mutant: Mutant) -> str:
    """`caught`, or what is wrong."""
    with copy_of_the_project() as copy:
        problem = apply(mutant, copy)
        if problem:
            return problem
        # Each named test has to notice by itself: one that fails must not hide one that does not.
        for test in mutant.caught_by:
            code = run([test], copy)
            if code != TESTS_FAILED:
                return f"SURVIVED {test}" if code == 0 else f"{test} could not be run (exit code {code})"
    return "caught"


def main(arguments: Sequence[str]) -> int:
    """Run all mutants and print a table."""
    mutants = load([name for name in arguments if name != PASSED])
    if not mutants:
        sys.exit(f"there are no patches in {FOLDER}")
    if PASSED not in arguments:
        _pass_without(mutants)
    table = Table("mutant", "breaks", "result", title="Planted bugs")
    results = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant, result in zip(mutants, pool.map(verdict, mutants), strict=True):
            results.append(result)
            print(f"{mutant.name}: {result}", flush=True)
            table.add_row(mutant.name, mutant.breaks, result)
    Console().print(table)
    return 0 if all(result == "caught" for result in results) else 1


def _pass_without(mutants: Sequence[Mutant]) -> None:
    tests = sorted({test for mutant in mutants for test in mutant.caught_by})
    with copy_of_the_project() as copy:
        if run(tests, copy):
            sys.exit(f"without any mutant these tests must pass, and they do not: {' '.join(tests)}")


def _read(patch: Path) -> Mutant:
    text = patch.read_text(encoding="utf-8")
    breaks = re.search(r"^# breaks: *(.+)$", text, re.MULTILINE)
    caught_by = tuple(re.findall(r"^# caught-by: *(\S+)$", text, re.MULTILINE))
    if breaks is None or not caught_by:
        sys.exit(f"{patch.name} needs the lines '# breaks: promise ...' and '# caught-by: tests/...::test_...'")
    return Mutant(patch.stem, patch, breaks[1].strip(), caught_by)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
