"""docs/configuration.md lists every setting with its default and the allowed values."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from freshline import settings
from freshline.errors import UsageError
from tests.docs.pages import CONFIGURATION, ROOT, code, codes

SECTIONS = (
    "Where things are",
    "Redis",
    "Spark",
    "The materializer",
    "The API",
    "Webhooks",
    "Watchers",
    "Every process",
)
ROWS = {code(row[0]): row[1:] for section in SECTIONS for row in CONFIGURATION.table(section)}
TREE = ast.parse((ROOT / "src" / "freshline" / "settings.py").read_text(encoding="utf-8"))


def fields() -> dict[str, str]:
    """Return the field of `Settings` that each variable sets, read from the source of `load`."""
    (call,) = [node for node in ast.walk(TREE) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Settings"]
    found: dict[str, str] = {}
    for keyword in call.keywords:
        names = re.findall(r"'([A-Z_]+)'", ast.unparse(keyword.value))
        found |= {name: str(keyword.arg) for name in names[:1]}
    return found


def test_every_variable_of_the_settings_is_listed() -> None:
    """A variable that is not on the page does not exist for users, and the other way round."""
    read = set(re.findall(r"'((?:FRESHLINE|ASSET)_[A-Z_]+)'", ast.unparse(TREE)))
    assert set(ROWS) == read


def test_every_variable_of_the_code_is_on_the_page() -> None:
    """Also those that are read or named elsewhere."""
    sources = sorted((ROOT / "src" / "freshline").rglob("*.py"))
    named = {name for path in sources for name in re.findall(r"\bFRESHLINE_[A-Z_]*[A-Z]\b", path.read_text("utf-8"))}
    assert named - set(codes(CONFIGURATION.text)) == set()


@pytest.mark.parametrize("name", fields())
def test_the_default_is_right(name: str) -> None:
    """The default on the page is what an empty environment gives."""
    default = getattr(settings.load({}, project=Path("/project")), fields()[name])
    shown = code(ROWS[name][0])
    assert shown == ("none" if default in {None, ()} else str(default)) or (name, default) == (
        "FRESHLINE_WAREHOUSE",
        None,
    )


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if re.fullmatch(r"\d+ to \d+", row[1])])
def test_the_range_is_right(name: str) -> None:
    """Both ends are taken, and what lies beyond them is refused with the variable's name."""
    low, high = map(int, ROWS[name][1].split(" to "))
    for value in (low, high):
        assert getattr(settings.load({name: str(value)}), fields()[name]) == value
    for value in (low - 1, high + 1):
        with pytest.raises(UsageError, match=name):
            settings.load({name: str(value)})


@pytest.mark.parametrize(
    "name", ["FRESHLINE_LOG_FORMAT", "FRESHLINE_LOG_LEVEL", "FRESHLINE_EVENT_BUS", "FRESHLINE_API_AUTH"]
)
def test_the_choices_are_right(name: str) -> None:
    """Each choice on the page is taken, and the error for another one names them all."""
    settings.load({name: codes(ROWS[name][0])[0]})
    for choice in codes(ROWS[name][1]):
        settings.load({name: choice})
    with pytest.raises(UsageError) as refused:
        settings.load({name: "no such thing"})
    assert [choice for choice in codes(ROWS[name][1]) if choice not in str(refused.value)] == []
