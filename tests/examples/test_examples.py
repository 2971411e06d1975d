"""The examples: each is valid, and behaves on real processes as its README shows."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from freshline.definitions.loading.project import load_project
from freshline.definitions.schema.checks import CheckKind
from tests.acceptance.deployment import Deployment

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("checks", "engines", "increments", "sqlfiles")
OWN = {"README.md", "freshline.toml"}  # every example has its own
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)

long = [pytest.mark.spark, pytest.mark.process, pytest.mark.full]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory, module_database_url: str) -> Iterator[Deployment]:
    """Yield all examples in one project, so that one Spark is enough for them."""
    root = tmp_path_factory.mktemp("examples")
    quick = "-XX:TieredStopAtLevel=1"  # the data is too small for optimized code to pay off
    deployment = Deployment(root, module_database_url, FRESHLINE_LEASE_MS="10000", JDK_JAVA_OPTIONS=quick)
    for name in NAMES:
        for file in _files(name):
            target = deployment.root / file.relative_to(EXAMPLES / name)
            assert not target.exists(), f"two examples have a file {target.relative_to(deployment.root)}"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    deployment.cli("apply", "--yes", "--strict")
    deployment.start_all()
    yield deployment
    deployment.stop_all()


def test_every_example_is_listed() -> None:
    """None is forgotten here; the flights and the partitions have tests of their own."""
    assert sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()) == sorted(
        [*NAMES, "flights", "partitions"]
    )


@pytest.mark.parametrize("name", [*NAMES, "partitions"])
def test_the_example_is_valid(name: str) -> None:
    """`freshline validate --strict` has nothing to say about it."""
    command = [sys.executable, "-m", "freshline.cli.main", "validate", "--strict"]
    done = subprocess.run(command, cwd=EXAMPLES / name, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{EXAMPLES / name} is valid" in done.stderr


def test_the_checks_are_all_there() -> None:
    """The example has every kind of check, and both severities."""
    (workflow,) = load_project(EXAMPLES / "checks", strict=True).workflows
    checks = workflow.definition.steps[0].produces[0].checks
    assert {check.kind for check in checks} == set(get_args(CheckKind))
    assert {check.severity for check in checks} == {"error", "warn"}


@pytest.mark.parametrize(
    ("name", "block"),
    [
        pytest.param("increments", 0, marks=long),
        pytest.param("sqlfiles", 0, marks=long),
        pytest.param("checks", 0, marks=long),
        pytest.param("engines", 0, marks=long),
        pytest.param("increments", 1, marks=long),
    ],
    ids=["increments", "sqlfiles", "checks", "engines", "increments-back"],
)
@pytest.mark.timeout(300)
def test_the_readme_shows_what_happens(deployment: Deployment, name: str, block: int) -> None:
    """Its commands, one after another, say what stands below each."""
    text = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    automatic = _automatic(name)
    for number, (command, expected) in enumerate(_steps(CONSOLE.findall(text)[block])):
        if number and not command.startswith("freshline report"):
            deployment.wait_fresh(*automatic, timeout=150)
        said = _run(deployment, command)
        assert [line for line in expected if not _says(said, line)] == [], f"{command}\n{said}"


def _automatic(name: str) -> list[str]:
    """Return the assets that are updated automatically, and those that the same runs produce."""
    workflows = [one.definition for one in load_project(EXAMPLES / name, strict=True).workflows]
    outputs = [[output for step in one.steps for output in step.produces] for one in workflows]
    return [one.asset_id for made in outputs if any(one.auto_materialize for one in made) for one in made]


def _files(name: str) -> list[Path]:
    """Return the files of an example, without files left by a run."""
    files = (file for file in (EXAMPLES / name).rglob("*") if file.is_file())
    left = {"__pycache__", ".freshline", "arrived"}
    return [file for file in files if file.name not in OWN and not left & set(file.parts)]


def _steps(block: str) -> list[tuple[str, list[str]]]:
    """Return the commands, each with the lines below it."""
    parts = [part.strip().splitlines() for part in re.split(r"^\$ ", block, flags=re.MULTILINE) if part.strip()]
    return [(lines[0], lines[1:]) for lines in parts]


def _run(deployment: Deployment, command: str) -> str:
    program, *arguments = shlex.split(command)
    start = [sys.executable] if program == "python" else [sys.executable, "-m", "freshline.cli.main"]
    done = subprocess.run(
        [*start, *arguments], env=deployment.environ, cwd=deployment.root, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def _says(said: str, line: str) -> bool:
    """Return whether the line occurs, ignoring spaces and line breaks; `...` stands for up to 20 characters."""
    pattern = r"\s+".join(map(re.escape, line.split())).replace(r"\.\.\.", ".{0,20}?")
    return re.search(pattern, said) is not None
