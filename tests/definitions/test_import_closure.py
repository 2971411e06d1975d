"""The import closure of a function: which files it may execute, and which edits change its fingerprint."""

from __future__ import annotations

import pytest

from freshline.definitions.code import Code
from freshline.definitions.import_closure import Closure, ImportGraph

ENTRY = "jobs.clean:run"
CLEAN = '''"""Cleans."""
from shared import money


def run(ctx):
    """Run."""
    return money.cents(3)  # three
'''
FILES = {
    "jobs/__init__.py": "",
    "jobs/clean.py": CLEAN,
    "jobs/other.py": "import shared.units\n\n\ndef run(ctx):\n    return shared.units.KM\n",
    "shared/__init__.py": "",
    "shared/money.py": "RATE = 100\n\n\ndef cents(euros):\n    return RATE * euros\n",
    "shared/units.py": "KM = 1000\n",
}
ASSETS = """
from freshline import asset, daily
import freshline as f
LIMIT = 3

@asset("shop.total", auto=True)
def total(orders):
    return LIMIT * helper(orders)

@f.asset("shop.alert", checks=[{"minRows": 1}])
def alert(total):
    import shared.units
    return total > shared.units.KM

def helper(orders):
    return sum(orders)
"""


def closure(files: dict[str, str], entrypoint: str = ENTRY) -> Closure:
    """Return the closure of an entry point in files."""
    return ImportGraph(Code({path: text.encode() for path, text in files.items()})).closure(entrypoint)


def edited(path: str, old: str, new: str, files: dict[str, str] | None = None) -> dict[str, str]:
    """Return the files with an edit."""
    before = files or FILES
    assert old in before[path]
    return {**before, path: before[path].replace(old, new)}


def test_a_closure_is_what_is_imported() -> None:
    """The file of the function, what it imports, and the packages of both; nothing else of the project."""
    found = closure(FILES)
    assert found.files == {"jobs/__init__.py", "jobs/clean.py", "shared/__init__.py", "shared/money.py"}
    assert found.unknown is None


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("jobs/clean.py", "  # three", "  # 3, as agreed"),
        ("jobs/clean.py", '    """Run."""\n', '    """Run it, and say so."""\n'),
        ("jobs/clean.py", '"""Cleans."""\n', ""),
        ("jobs/clean.py", "cents(3)", "cents( 3 )"),
        ("shared/money.py", "RATE * euros", "(RATE * euros)"),
        ("shared/units.py", "1000", "1001"),
        ("jobs/other.py", "KM", "MILE"),
    ],
)
def test_edits_that_change_nothing(path: str, old: str, new: str) -> None:
    """Comments, docstrings, layout and files that are not imported are not part of the fingerprint."""
    assert closure(edited(path, old, new)).fingerprint == closure(FILES).fingerprint


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("jobs/clean.py", "cents(3)", "cents(4)"),
        ("shared/money.py", "RATE = 100", "RATE = 99"),
        ("shared/__init__.py", "", "import shared.units\n"),
        ("jobs/__init__.py", "", "X = 1\n"),
    ],
)
def test_edits_that_change_a_result(path: str, old: str, new: str) -> None:
    """A constant, a call, and what a package does when it is imported are part of it."""
    before = FILES[path]
    after = {**FILES, path: before.replace(old, new) if old else new}
    assert closure(after).fingerprint != closure(FILES).fingerprint


def test_other_assets_of_the_same_file_do_not_count() -> None:
    """Nor does the declaration of the asset itself: it is part of the definition."""
    files = {**FILES, "workflows/shop.py": ASSETS}
    total = closure(files, "workflows.shop:total")
    assert total.files == {"workflows/shop.py"}
    other = edited("workflows/shop.py", "total > shared", "total >= shared", files)
    assert closure(other, "workflows.shop:total").fingerprint == total.fingerprint
    assert closure(other, "workflows.shop:alert") != closure(files, "workflows.shop:alert")
    policy = edited("workflows/shop.py", '"shop.total", auto=True', '"shop.total", auto=False', files)
    assert closure(policy, "workflows.shop:total").fingerprint == total.fingerprint
    helper = edited("workflows/shop.py", "sum(orders)", "max(orders)", files)
    assert closure(helper, "workflows.shop:total").fingerprint != total.fingerprint


def test_another_asset_that_is_called_counts() -> None:
    """A function that is mentioned anywhere in the closure may be called."""
    files = {**FILES, "workflows/shop.py": ASSETS + "\ndef twice(orders):\n    return total(orders)\n"}
    changed = edited("workflows/shop.py", "LIMIT * helper", "2 * LIMIT * helper", files)
    assert closure(changed, "workflows.shop:alert") != closure(files, "workflows.shop:alert")


@pytest.mark.parametrize(
    ("statement", "imported"),
    [
        ("from . import other", "jobs/other.py"),
        ("from .other import run as again", "jobs/other.py"),
        ("from ..shared import units", "shared/units.py"),
        ("import shared.units as u", "shared/units.py"),
        ("from shared import *", "shared/units.py"),
        ("def late():\n    import shared.units", "shared/units.py"),
        ("import lib_of_src", "src/lib_of_src.py"),
        ("import json", None),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import shared.units", None),
    ],
)
def test_imports_are_followed(statement: str, imported: str | None) -> None:
    """Relative and absolute ones, inside functions, below any folder. The standard library comes first."""
    files = {**FILES, "src/lib_of_src.py": "X = 1\n", "other/json.py": "X = 1\n"}
    files["jobs/clean.py"] = f"{statement}\n{files['jobs/clean.py']}"
    found = closure(files).files - closure(FILES).files
    assert found >= ({imported} if imported else set())
    assert found <= {imported, "jobs/other.py", "shared/units.py"}
    if imported is None:
        assert found == set()


def test_imports_of_imports_are_followed() -> None:
    """However far away a file is, also around a circle."""
    files = {f"chain/m{number}.py": f"from . import m{number + 1}\n" for number in range(5)}
    files = {**FILES, **files, "chain/m5.py": "from chain import m0\nX = 1\n"}
    assert closure(files, "chain.m0:run").files == {f"chain/m{number}.py" for number in range(6)}
    changed = edited("chain/m5.py", "X = 1", "X = 2", files)
    assert closure(changed, "chain.m0:run").fingerprint != closure(files, "chain.m0:run").fingerprint


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("import importlib; x = importlib.import_module(name)", "import_module"),
        ("from importlib import import_module", "import_module"),
        ("exec(text)", "exec"),
        ("import sys; sys.path.insert(0, 'lib')", "sys.path"),
        ("from runpy import run_path", "run_path"),
        ("def broken(:", "parsed"),
    ],
)
def test_where_imports_are_hidden_the_whole_project_counts(line: str, what: str) -> None:
    """The place is named, and a change of any file changes the fingerprint, but a comment still does not."""
    files = {**FILES, "shared/money.py": f"{FILES['shared/money.py']}{line}\n"}
    found = closure(files)
    assert found.unknown is not None
    assert found.unknown.file == "shared/money.py"
    assert found.unknown.line == 6
    assert what in found.unknown.what
    assert found.files == set(FILES)
    assert closure(edited("shared/units.py", "1000", "1001", files)).fingerprint != found.fingerprint
    assert closure(edited("shared/units.py", "1000", "1000  # m", files)).fingerprint == found.fingerprint
    assert closure(files, "jobs.other:run").unknown is None


def test_a_function_outside_the_project() -> None:
    """What it imports is not known."""
    found = closure(FILES, "installed.package:run")
    assert found.unknown is not None
    assert "installed.package" in found.unknown.what
    assert found.files == set(FILES)


def test_docstrings_that_are_read_count() -> None:
    """In a file that mentions `__doc__`."""
    files = edited("jobs/clean.py", "return money", "print(__doc__)\n    return money")
    changed = edited("jobs/clean.py", '"""Cleans."""', '"""Cleans all."""', files)
    assert closure(changed).fingerprint != closure(files).fingerprint


def test_a_long_expression_is_no_problem() -> None:
    """The syntax tree is as deep as the expression is long."""
    files = {**FILES, "shared/money.py": FILES["shared/money.py"] + "X = " + " + ".join(["1"] * 800) + "\n"}
    assert closure(files).unknown is None
    assert closure(edited("shared/money.py", "RATE = 100", "RATE = 1", files)) != closure(files)
