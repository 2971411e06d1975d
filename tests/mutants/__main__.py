"""Planted bugs. Each record breaks a promise on purpose, and the tests that it names must fail.

The records are in the TOML files beside this one, grouped by area. A record has a name, the promise that it breaks,
the tests that must catch it, and one or more edits: a file, lines to find (exactly once) and their replacement.
Usage: python -m tests.mutants [--passed] [NAME...]. Exit code 1: a mutant survived, or a record or its test is broken.
`--passed`: the tests are known to pass without a mutant, as `make full` has just seen.
"""

from __future__ import annotations

import compileall
import itertools
import os
import queue
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


class Copy:
    """A copy of the project with its bytecode, for one mutant after another.

    Bytecode is half of the processor time of a short test. It is written once, before the first mutant, and never by a
    test: an edited file has another time than its bytecode, so it is compiled in memory.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in _tracked():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
        compileall.compile_dir(directory, quiet=1)
        self._known = self._files()

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """Plant a bug, and leave the copy as it was before."""
        for file, text in edited(mutant, self.directory).items():
            file.write_text(text, encoding="utf-8")
        try:
            yield
        finally:
            for edit in mutant.edits:
                shutil.copy2(ROOT / edit.file, self.directory / edit.file)
            for file in self._files() - self._known:
                file.unlink()

    def _files(self) -> set[Path]:
        return {path for path in self.directory.rglob("*") if path.is_file() or path.is_symlink()}


class Copies:
    """Copies of the project, at most one per thread that asks at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count(1)
        self._idle: queue.SimpleQueue[Copy] = queue.SimpleQueue()

    @contextmanager
    def one(self) -> Iterator[Copy]:
        """Yield a copy that nobody else uses."""
        try:
            copy = self._idle.get_nowait()
        except queue.Empty:
            copy = Copy(self._directory / str(next(self._numbers)))
        yield copy
        self._idle.put(copy)


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


def run(tests: Sequence[str], copy: Copy) -> int:
    """Run `tests` on the copy and return pytest's exit code."""
    environment = {**os.environ, "PYTHONPATH": str(copy.directory / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=copy.directory, env=environment, capture_output=True, check=False).returncode


def verdict(mutant: Mutant, copies: Copies) -> str:
    """Return `caught`, or what is wrong."""
    with copies.one() as copy:
        try:
            with copy.planted(mutant):
                # Each named test has to notice by itself: one that fails must not hide one that does not.
                for test in mutant.caught_by:
                    code = run([test], copy)
                    if code != TESTS_FAILED:
                        return f"SURVIVED {test}" if code == 0 else f"{test} could not be run (exit code {code})"
        except RecordError as error:
            return str(error)
    return "caught"


def main(arguments: Sequence[str]) -> int:
    """Run all mutants and print a table."""
    mutants = load([name for name in arguments if name != PASSED])
    if not mutants:
        sys.exit(f"there are no records in {FOLDER}")
    table = Table("mutant", "breaks", "result", title="Planted bugs")
    results = []
    with (
        tempfile.TemporaryDirectory(prefix="freshline-mutants-") as directory,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        copies = Copies(Path(directory))
        if PASSED not in arguments:
            _pass_without(mutants, copies)
        verdicts = pool.map(lambda mutant: verdict(mutant, copies), mutants)
        for mutant, result in zip(mutants, verdicts, strict=True):
            results.append(result)
            print(f"{mutant.name}: {result}", flush=True)
            table.add_row(mutant.name, mutant.breaks, result)
    Console().print(table)
    return 0 if all(result == "caught" for result in results) else 1


def _pass_without(mutants: Sequence[Mutant], copies: Copies) -> None:
    tests = sorted({test for mutant in mutants for test in mutant.caught_by})
    with copies.one() as copy:
        if run(tests, copy):
            sys.exit(f"without any mutant these tests must pass, and they do not: {' '.join(tests)}")


def _tracked() -> list[str]:
    """Return the files that git tracks or would add."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return [name for name in filter(None, os.fsdecode(listing.stdout).split("\0")) if (ROOT / name).is_file()]


def _read(file: Path) -> Iterator[Mutant]:
    for record in tomllib.loads(file.read_text(encoding="utf-8"))["mutant"]:
        edits = tuple(Edit(**edit) for edit in record["edit"])
        yield Mutant(record["name"], record["breaks"], tuple(record["caught_by"]), edits)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
