"""The sdist and the wheel: complete, reproducible, and usable in an environment that has nothing else."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import freshline
from freshline.api.app import document
from scripts import build_page
from tests.test_build_page import fake_programs
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "freshline"


def build(source: Path, into: Path, *targets: str, **environ: str) -> None:
    """Build with hatchling as `make dist` does, without a network."""
    arguments = [part for target in targets for part in ("--target", target)]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", into, *arguments],
        cwd=source,
        env={**os.environ, **environ},
        check=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist and the wheel of this tree, and return their directory."""
    into = tmp_path_factory.mktemp("dist")
    build(ROOT, into, "sdist", "wheel")
    return into


def wheel(directory: Path) -> Path:
    """Return the only wheel in a directory."""
    (found,) = directory.glob("*.whl")
    return found


def contents(file: Path) -> dict[str, bytes]:
    """Return the files of a wheel by name."""
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_has_every_file_of_the_package(dist: Path) -> None:
    """Code, SQL, migrations, the schema, the template of `init` and py.typed: nothing is left out, nothing is added."""
    there = {
        path.relative_to(PACKAGE.parent).as_posix(): path.read_bytes()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name: data for name, data in contents(wheel(dist)).items() if name.startswith("freshline/")}
    assert packed == there
    for name in ("py.typed", "store/schema.sql", "store/migrations/0001_init.sql", "definitions/template/README.md"):
        assert f"freshline/{name}" in packed


def test_the_wheel_has_the_page_and_the_licenses_of_what_is_in_it(dist: Path) -> None:
    """It is built from the sources as they are; every file that index.html names is there."""
    places = build_page.Places(ROOT)
    packed = contents(wheel(dist))
    page = "freshline/page_files"
    assert packed[f"{page}/{build_page.STAMP}"].decode().strip() == build_page.digest(places)
    named = re.findall(r'(?:src|href)="\./([^"]+)"', packed[f"{page}/index.html"].decode())
    assert {f"{page}/{name}" for name in named} <= packed.keys()
    assert [name for name in named if name.endswith(".js")]
    notices = packed[f"{page}/{build_page.LICENSES}"].decode()
    inside = build_page.bundled((places.page / "package-lock.json").read_text(encoding="utf-8"))
    assert {"preact", "uplot"} <= inside.keys()
    for name, entry in inside.items():
        assert f"{name} {entry['version']} ({entry['license']})" in notices
    assert notices.count("Permission is hereby granted") == len(inside)


def test_the_sdist_builds_the_same_wheel(dist: Path, tmp_path: Path) -> None:
    """The sdist is all that a packager needs. It contains the page, so neither Node nor npm is started."""
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert (source / "page" / "src" / "main.tsx").exists()
    programs = fake_programs(tmp_path / "bin", npm=f"touch {tmp_path}/started; exit 1")
    build(source, tmp_path / "again", "wheel", PATH=f"{programs}{os.pathsep}{os.environ['PATH']}")
    assert not (tmp_path / "started").exists()
    assert wheel(tmp_path / "again").name == wheel(dist).name
    assert contents(wheel(tmp_path / "again")) == contents(wheel(dist))


def test_the_version_is_in_one_place(dist: Path) -> None:
    """The wheel, the program, the API's document and its page say the version of `freshline.__version__`."""
    version = freshline.__version__
    assert wheel(dist).name == f"freshline-{version}-py3-none-any.whl"
    program = subprocess.run(
        [sys.executable, "-m", "freshline.cli.main", "--version"], check=True, capture_output=True, text=True
    )
    assert program.stdout == f"freshline {version}\n"
    assert document()["info"]["version"] == version
    assert json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))["info"]["version"] == version


class Installation:
    """The wheel in a separate environment, and a project written by its `freshline init`."""

    def __init__(self, directory: Path, packed: Path) -> None:
        self.environment = directory / "environment"
        self.project = directory / "shop"
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.variables = {
            "PATH": f"{self.environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(directory),
            "FRESHLINE_API_PORT": str(self.port),
            **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},
        }
        _uv("venv", "--python", sys.executable, str(self.environment))
        self._install_dependencies()
        _uv("pip", "install", "--offline", "--no-deps", "--python", str(self.python), str(packed))

    @property
    def python(self) -> Path:
        """Return the interpreter of the environment."""
        return self.environment / "bin" / "python"

    def _install_dependencies(self) -> None:
        """Install runtime.lock from uv's cache.

        Where the cache lacks a package, share the dependencies of this environment by a .pth file. Python does not
        read .pth files of a directory that is added in this way, so the editable freshline stays out of sight.
        """
        lock = str(ROOT / "requirements" / "runtime.lock")
        locked = ("pip", "install", "--offline", "--python", str(self.python), "--require-hashes", "-r", lock)
        if _uv(*locked, check=False) != 0:
            (site,) = self.environment.glob("lib/python*/site-packages")
            (ours,) = Path(sys.prefix).glob("lib/python*/site-packages")
            (site / "shared_dependencies.pth").write_text(f"{ours}\n", encoding="utf-8")

    def run(self, *arguments: str, cwd: Path | None = None) -> str:
        """Run the installed `freshline`, and return what it prints."""
        done = subprocess.run(
            [self.environment / "bin" / "freshline", *arguments],
            cwd=cwd or self.project,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"freshline {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def assets(self) -> dict[str, Any]:
        """Return what `status` says about each asset."""
        return {asset["assetId"]: asset for asset in json.loads(self.run("status", "--json"))["assets"]}


def _uv(*arguments: str, check: bool = True) -> int:
    own = Path(sys.executable).parent / "uv"
    return subprocess.run(
        [own if own.exists() else "uv", "--quiet", *arguments], check=check, capture_output=True
    ).returncode


@pytest.fixture
def installation(dist: Path, tmp_path: Path) -> Iterator[Installation]:
    """Install the wheel and create a project; its database is stopped at the end."""
    installed = Installation(tmp_path, wheel(dist))
    installed.run("init", str(installed.project), cwd=tmp_path)
    yield installed
    installed.run("db", "stop")


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.process
@pytest.mark.spark
def test_the_wheel_works_in_an_empty_environment(installation: Installation, tmp_path: Path) -> None:
    """The quick start of the README, from installed files alone: a report makes both assets fresh."""
    origin = "import freshline; print(freshline.__file__)"
    loaded = subprocess.run([installation.python, "-c", origin], check=True, capture_output=True, text=True)
    assert Path(loaded.stdout.strip()).is_relative_to(installation.environment)
    assert installation.run("--version") == f"freshline {freshline.__version__}\n"
    installation.run("validate", "--strict")
    with (tmp_path / "dev.log").open("w", encoding="utf-8") as log:
        dev = subprocess.Popen(
            [installation.environment / "bin" / "freshline", "dev"],
            cwd=installation.project,
            env=installation.variables,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        _becomes_fresh(installation)
    finally:
        dev.send_signal(signal.SIGINT)
        assert dev.wait(60) == 0, (tmp_path / "dev.log").read_text(encoding="utf-8")


def _becomes_fresh(installation: Installation) -> None:
    """Check that `dev` makes both assets after a report from another process."""

    def fresh() -> dict[str, Any]:
        assets = installation.assets()
        made = [assets[name]["state"] for name in ("orders.daily", "orders.best") if name in assets]
        return assets if made == ["fresh", "fresh"] else {}

    wait_until(installation.assets, 60, every=0.5, what="the project is applied")
    installation.run("report", "orders.raw")
    wait_until(fresh, 240, every=1, what="both assets are fresh")
    about = httpx.get(f"http://127.0.0.1:{installation.port}/api/v1/about", trust_env=False).json()
    assert about["version"] == freshline.__version__
    home = httpx.get(f"http://127.0.0.1:{installation.port}/", trust_env=False).text
    assert '<div id="page">' in home
    for name in re.findall(r'(?:src|href)="\./([^"]+)"', home):
        assert httpx.get(f"http://127.0.0.1:{installation.port}/{name}", trust_env=False).status_code == 200
