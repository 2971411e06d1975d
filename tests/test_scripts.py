"""The scripts that maintain the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from scripts import docs
from tests.mutants import __main__ as mutants

LOCKS = sorted((docs.ROOT / "requirements").glob("*.lock"))
MAP = docs.ROOT / "tests" / "README.md"


def test_the_docs_are_current_and_their_links_lead_somewhere() -> None:
    """Generated pages say what the code says, and no link inside README or docs is broken."""
    assert docs.outdated() + docs.broken_links() == []


def test_an_explicit_anchor_is_a_target(tmp_path: Path) -> None:
    """A link may lead to an `<a id>` beside those that headings make; case counts."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text('<a id="R1.2"></a>\n### R1.2 Rule\n')
    (tmp_path / "README.md").write_text("[a](docs/a.md#R1.2) [b](docs/a.md#r12-rule) [c](docs/a.md#R1.3)\n")
    assert docs.broken_links(tmp_path) == ["README.md:1: docs/a.md#R1.3 names no heading of a.md"]


def test_a_broken_link_is_found_with_its_line(tmp_path: Path) -> None:
    """Missing files and headings are named with file and line; code blocks and other sites are left alone."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# One `Two`: three\n\n```\n[x](gone.md)\n```\n[up](../README.md)\n")
    (tmp_path / "README.md").write_text(
        "[a](docs/a.md#one-two-three) [b](https://example.org/x)\n[c](docs/b.md)\n\n[d](docs/a.md#four) [e](#here)\n"
    )
    assert docs.broken_links(tmp_path) == [
        "README.md:2: docs/b.md does not exist",
        "README.md:4: docs/a.md#four names no heading of a.md",
        "README.md:4: #here names no heading of README.md",
    ]


@pytest.mark.parametrize("mutant", mutants.load(), ids=lambda mutant: mutant.name)
def test_every_mutant_applies_and_names_tests_that_exist(mutant: mutants.Mutant) -> None:
    """A planted bug that no longer fits the code would prove nothing; whether it is caught, `make mutants` shows."""
    for target, text in mutants.edited(mutant, docs.ROOT).items():
        assert text != target.read_text(encoding="utf-8")
    for test in mutant.caught_by:
        file, _, name = test.partition("::")
        assert f"def {name.split('[')[0].split('::')[-1]}(" in (docs.ROOT / file).read_text(encoding="utf-8")


def test_the_locks_fix_every_package_by_hash_and_name_no_host() -> None:
    """Every locked package has hashes, and where it comes from is the user's configuration."""
    assert [lock.name for lock in LOCKS] == ["dev.lock", "docs.lock", "installer.lock", "node.lock", "runtime.lock"]
    for lock in LOCKS:
        text = lock.read_text(encoding="utf-8")
        assert "://" not in text
        for entry in text.replace("\\\n", " ").splitlines():
            assert "==" in entry
            assert "--hash=sha256:" in entry


def test_every_directory_of_tests_is_in_the_map() -> None:
    """tests/README.md names each directory and each module beside it, and nothing that does not exist."""
    text = MAP.read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(\w+)` \|", text.partition("## Harnesses")[0], re.MULTILINE))
    assert listed == {path.name for path in MAP.parent.iterdir() if path.is_dir() and path.name[0] not in "._"}
    assert [name for name in re.findall(r"`([\w/]+\.py)`", text) if not (MAP.parent / name).exists()] == []
    shared = {path.name for path in MAP.parent.glob("*.py")}
    assert [name for name in sorted(shared) if f"`{name}`" not in text] == []


def test_every_path_that_contributing_names_exists() -> None:
    """The lists of files to edit follow every rename."""
    text = (docs.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|tests|docs|deploy|\.ci)/[\w./-]*)`", text)
    assert len(named) > 20
    assert [path for path in named if not (docs.ROOT / path).exists()] == []
    targets = set(re.findall(r"^([a-z]+):", (docs.ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z]+)", text)) <= targets


def test_the_gate_is_check_and_test() -> None:
    """Whatever runs the tests of a change runs the same two targets."""
    lines = (docs.ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("make ")] == ["make check", "make test"]
    workflow = YAML(typ="safe").load(docs.ROOT / ".github" / "workflows" / "ci.yml")
    assert workflow["jobs"]["gate"]["steps"][-1] == {"run": ".ci/run"}


def test_the_hooks_before_a_commit_are_local() -> None:
    """They use the locked tools of .venv; nothing is fetched from another repository."""
    hooks = YAML(typ="safe").load(docs.ROOT / ".pre-commit-config.yaml")
    assert [one["repo"] for one in hooks["repos"]] == ["local"]
    assert all(hook["language"] == "system" for hook in hooks["repos"][0]["hooks"])
