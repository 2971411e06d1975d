"""Planted bugs. Each record breaks a promise on purpose, and the tests that it names must fail.

The records are in the TOML files beside this one, grouped by area. A record has a name, the promise that it breaks,
the tests that must catch it, and one or more edits: a file, lines to find (exactly once) and their replacement.
Usage: python -m tests.mutants [--passed] [NAME...]. Exit code 1: a mutant survived, or a record or its test is broken.
`--passed`: the tests are known to pass without a mutant, as `make full` has just seen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
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


class RecordError(Exception):
    """A record no longer fits the code."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement of whole lines in one file."""

    file: str
    find: str
    replace: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug: the promise that it breaks, its edits, and the tests that must catch it."""

    name: str
    breaks: str
    caught_by: tuple[str, ...]
    edits: tuple[Edit, ...]


def load(names: Sequence[str] = ()) -> list[Mutant]:
    """Return the named mutants, or all of them."""
    found = [mutant for file in sorted(FOLDER.glob("*.toml")) for mutant in _read(file)]
    unknown = set(names) - {mutant.name for mutant in found}
    if unknown:
        sys.exit(f"unknown mutants: {', '.join(sorted(unknown))}; known are {', '.join(m.name for m in found)}")
    return [mutant for mutant in found if not names or mutant.name in names]


@contextmanager
def copy_of_the_project() -> Iterator[Path]:
    """Yield a copy of every file that git tracks or would add."""
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


def edited(mutant: Mutant, project: Path) -> dict[Path, str]:
    """Return the new text of each file that the mutant changes."""
    texts: dict[Path, str] = {}
    for edit in mutant.edits:
        target = project / edit.file
        if not target.is_file():
            raise RecordError(f"{edit.file} does not exist")
        text = "\n" + texts.get(target, target.read_text(encoding="utf-8"))
        count = text.count("\n" + edit.find)
        if count != 1:
            raise RecordError(f"{edit.file} has these lines {count} times, not once:\n{edit.find}")
        texts[target] = text.replace("\n" + edit.find, "\n" + edit.replace).removeprefix("\n")
    return texts


def run(tests: Sequence[str], copy: Path) -> int:
    """Run `tests` on the copy and return pytest's exit code."""
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False).returncode


def verdict(mutant: Mutant) -> str:
    """Return `caught`, or what is wrong."""
    with copy_of_the_project() as copy:
        try:
            texts = edited(mutant, copy)
        except RecordError as error:
            return str(error)
        for file, text in texts.items():
            file.write_text(text, encoding="utf-8")
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
        sys.exit(f"there are no records in {FOLDER}")
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


def _read(file: Path) -> Iterator[Mutant]:
    for record in tomllib.loads(file.read_text(encoding="utf-8"))["mutant"]:
        edits = tuple(Edit(**edit) for edit in record["edit"])
        yield Mutant(record["name"], record["breaks"], tuple(record["caught_by"]), edits)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
