"""Limits that keep the code readable. CONTRIBUTING.md explains them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "freshline").rglob("*.py"))
MOST_LINES = 400
MOST_STORE_MODULES = 12
MOST_UNTYPED = 150
MOST_NEGATIONS = 5
VAGUE_NAMES = re.compile(r"_?(told|tell|say|judge)")
UNTYPED = re.compile(r"(dict|Mapping)\[str, Any\]")
NEGATION = re.compile(r"\bis no (?!longer|more|doubt)[a-z]+")


def lines() -> Iterator[tuple[str, str]]:
    """Yield every line of the source with its place."""
    for path in SOURCES:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{path.relative_to(ROOT)}:{number}", line


def test_no_module_is_long() -> None:
    """A module has at most 400 lines."""
    sizes = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {name: size for name, size in sizes.items() if size > MOST_LINES} == {}


def test_the_store_has_few_modules_of_its_own() -> None:
    """Concerns of the store are subpackages."""
    own = [path.name for path in (ROOT / "src" / "freshline" / "store").glob("*.py")]
    assert len(own) <= MOST_STORE_MODULES, own


def test_records_between_modules_are_typed() -> None:
    """Few lines are annotated with untyped mappings."""
    found = [place for place, line in lines() if UNTYPED.search(line)]
    assert len(found) <= MOST_UNTYPED, found


def test_functions_have_plain_names() -> None:
    """No function is called told, tell, say or judge."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and VAGUE_NAMES.fullmatch(node.name)
    ]
    assert found == []


def test_negations_are_plain() -> None:
    """Texts say that something does not exist or is not valid, rather than that it `is no X`."""
    found = [place for place, line in lines() if NEGATION.search(line)]
    assert len(found) <= MOST_NEGATIONS, found
