"""docs/semantics.md has an anchor and a test for every rule, and every reference to a rule is a link to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Page

PAGE = Page("docs/semantics.md")
RULES = {1: 6, 2: 4, 3: 7, 4: 7, 5: 6, 6: 5, 7: 5, 8: 4, 9: 9, 10: 4, 11: 8, 12: 3, 13: 17, 14: 9, 15: 4}
CODES = [f"R{group}.{number}" for group, count in RULES.items() for number in range(1, count + 1)]
ANCHORS = re.findall(r'<a id="(R[\d.]+)"></a>', PAGE.text)
TEST = re.compile(r"\[(test_\w+)\]\(\.\./(tests/[\w/]+\.py)\)")
REFERENCE = re.compile(r"docs/semantics\.md#(R\d+(?:\.\d+)?)")
BARE = re.compile(r"(?<!docs/semantics\.md#)\bR\d+\.\d+\b")
NUMBERED = re.compile(r"\b(?:[Pp]romise|[Dd]esign|[Ss]cenario) \d+\b")
TEXT = {".py", ".sql", ".md", ".toml", ".json", ".yaml", ".yml"}
DOCUMENTS = sorted(path.name for path in (ROOT / "docs").glob("*.json"))
PACKAGES = sorted(path.name for path in (ROOT / "src" / "freshline").iterdir() if path.name != "__pycache__")


def files(folder: Path) -> Iterator[Path]:
    """Yield the text files below a folder. Migrations are left out: they never change once they are released."""
    candidates = [folder] if folder.is_file() else sorted(folder.rglob("*"))
    for path in candidates:
        if path.suffix in TEXT and path.is_file() and not {"migrations", "node_modules"} & set(path.parts):
            yield path


def rule_text(code: str) -> str:
    """Return the text of a rule, from its anchor to the next one."""
    _, _, rest = PAGE.text.partition(f'<a id="{code}"></a>')
    return rest.partition("<a id=")[0]


def test_the_rules_are_numbered_without_gaps() -> None:
    """Every rule and every group has one anchor, in order."""
    assert [code for code in ANCHORS if "." in code] == CODES
    assert [code for code in ANCHORS if "." not in code] == [f"R{group}" for group in RULES]


@pytest.mark.parametrize("code", CODES)
def test_a_rule_says_why_and_names_existing_tests(code: str) -> None:
    """A rule has a heading with its number, a reason, and at least one test that exists."""
    text = rule_text(code)
    assert f"### {code} " in text
    assert "*Why:* " in text
    named = TEST.findall(text.partition("*Tests:* ")[2])
    assert named, f"{code} names no test"
    for name, file in named:
        assert re.search(rf"^ *def {name}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE), f"{file} has no {name}"


@pytest.mark.parametrize("folder", ["src", "tests", "bench", "docs", "scripts", "examples"])
def test_references_point_to_rules(folder: str) -> None:
    """A reference to a rule in code, tests or docs has an anchor to arrive at."""
    wrong = [
        f"{path.relative_to(ROOT)}: {code}"
        for path in files(ROOT / folder)
        for code in REFERENCE.findall(path.read_text(encoding="utf-8"))
        if code not in ANCHORS
    ]
    assert wrong == []


@pytest.mark.parametrize("package", PACKAGES)
def test_source_refers_to_rules_by_link_only(package: str) -> None:
    """No rule code or number stands alone: a reader must be able to find what it refers to."""
    bare = [
        f"{path.relative_to(ROOT)}: {code}"
        for path in files(ROOT / "src" / "freshline" / package)
        for pattern in (BARE, NUMBERED)
        for code in pattern.findall(path.read_text(encoding="utf-8"))
    ]
    assert bare == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_schemas_for_users_contain_no_rule_codes(name: str) -> None:
    """Users of the API and of editors see these texts; a rule code or a path in this repository tells them nothing."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert BARE.findall(text) + REFERENCE.findall(text) == []
