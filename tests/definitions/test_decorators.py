"""Definitions in Python make the same workflows as YAML, with the place of their functions.

See docs/semantics.md#R10.4.
"""

from __future__ import annotations

import os
import py_compile
import sys
from pathlib import Path

import pytest

import freshline
from freshline import asset, min_rows, on_upstream_update, ttl
from freshline.definitions.loading.project import load_project
from freshline.definitions.schema.workflow import workflow_json
from freshline.errors import DefinitionError
from tests.definitions.projects import loaded, mistakes, write

SOURCE = {"sources/s.yaml": "- assetId: flights.clean\n- assetId: weather\n"}
FLIGHTS = """
    from freshline import asset, not_null, on_upstream_update, ttl

    @asset("flights.delay.hourly", freshness=ttl(hours=1), auto=on_upstream_update(priority=5), checks=[not_null("h")])
    def hourly(flights_clean, weather):
        return flights_clean
"""


def test_a_decorated_function_is_the_workflow_that_yaml_would_be(tmp_path: Path) -> None:
    """Slug, entry point, inputs and policy come from the function; YAML can say exactly the same."""
    (one,) = loaded(tmp_path, {**SOURCE, "workflows/flights.py": FLIGHTS}).workflows
    assert str(one.place) == "workflows/flights.py:4"
    assert workflow_json(one.definition) == {
        "slug": "flights-delay-hourly",
        "steps": [
            {
                "id": "hourly",
                "job": {"kind": "spark.python", "entrypoint": "workflows.flights:hourly"},
                "consumes": [{"assetId": "flights.clean"}, {"assetId": "weather"}],
                "produces": [
                    {
                        "assetId": "flights.delay.hourly",
                        "freshness": {"ttlMs": 3600000},
                        "autoMaterialize": {"onUpstreamUpdate": True, "priority": 5},
                        "checks": [{"notNull": ["h"]}],
                    }
                ],
            }
        ],
    }
    assert one.policy.priority == 5
    assert one.code_hash is not None


def test_every_field_can_be_said_in_python(tmp_path: Path) -> None:
    """All keyword arguments arrive in the definition."""
    text = """
        from freshline import *

        @asset(
            "a",
            kind="python",
            slug="other",
            description="text",
            inputs={"x": "flights.clean", "y": {"assetId": "weather", "freshness": {"maxAge": "1h"}}},
            freshness=cron("0 6 * * *", timezone="Europe/Vienna", max_age="2d"),
            auto=automatic(when="all", debounce="10s", max_delay="1m", on_missing=False),
            checks=[unique("k"), max_rows(9, severity="warn"), accepted("c", 1, "b"), between("d", 0, None),
                    holds("a > 1"), fresh_rows("t", "1d"), {"minRows": 1}],
            schema={"fields": [None]},
            schema_change="strict",
            table={"partitionBy": ["k"]},
            data_version={"exclude": ["t"]},
            optional=True,
            parameters={"top": None},
            retry=5,
            timeout="10m",
            backoff={"budget": 2},
            quiet_hours=[{"from": "22:00", "to": "06:00"}],
            secrets=["TOKEN"],
            publish_parameters=True,
            spark={"conf": {"spark.sql.shuffle.partitions": 8}},
        )
        def make(ctx, *, x, y, top, spare=3): ...

        @asset("b", auto=False, freshness=cadence(minutes=15, offset="1m"))
        def again(): ...
    """
    again, other = loaded(tmp_path, {**SOURCE, "workflows/deep/er.py": text}).workflows
    assert workflow_json(other.definition) == {
        "slug": "other",
        "description": "text",
        "parameters": {"top": None},
        "backoff": {"budget": 2},
        "quietHours": [{"from": "22:00", "to": "06:00"}],
        "secrets": ["TOKEN"],
        "publishParameters": True,
        "spark": {"conf": {"spark.sql.shuffle.partitions": "8"}},
        "steps": [
            {
                "id": "make",
                "retry": {"maxAttempts": 5},
                "timeoutMs": 600000,
                "job": {"kind": "python", "entrypoint": "workflows.deep.er:make"},
                "consumes": [
                    {"assetId": "flights.clean", "as": "x"},
                    {"assetId": "weather", "as": "y", "freshness": {"maxAgeMs": 3600000}},
                ],
                "produces": [
                    {
                        "assetId": "a",
                        "freshness": {"cron": "0 6 * * *", "timezone": "Europe/Vienna", "maxAgeMs": 172800000},
                        "autoMaterialize": {
                            "when": "all",
                            "onMissing": False,
                            "debounceMs": 10000,
                            "maxDelayMs": 60000,
                        },
                        "checks": [
                            {"unique": ["k"]},
                            {"maxRows": 9, "severity": "warn"},
                            {"accepted": {"column": "c", "values": [1, "b"]}},
                            {"range": {"column": "d", "min": 0, "max": None}},
                            {"sql": "a > 1"},
                            {"freshRows": {"column": "t", "maxAgeMs": 86400000}},
                            {"minRows": 1},
                        ],
                        "schema": {"fields": [None]},
                        "schemaChange": "strict",
                        "table": {"partitionBy": ["k"]},
                        "dataVersion": {"exclude": ["t"]},
                        "optional": True,
                    }
                ],
            }
        ],
    }
    assert (again.policy.declared, again.policy.automatic) == (True, False)
    assert again.policy.outputs[0].freshness.offset_ms == 60_000


def test_a_decorated_function_stays_a_function() -> None:
    """It can be called as it is, and tells a runner its arguments by name."""

    def plain(flights_clean: str, ctx: str, top: int, spare: int = 7) -> tuple[object, ...]:
        return flights_clean, ctx, top, spare

    plain.__qualname__ = "plain"
    made = asset("a.b", freshness=ttl(days=1), auto=on_upstream_update(), checks=[min_rows(1)])(plain)
    assert made is plain
    assert made("df", "ctx", 3) == ("df", "ctx", 3, 7)
    step = freshline.Step.model_validate(
        {"id": "x", "job": {"kind": "python", "entrypoint": "m:f"}, "consumes": [{"assetId": "flights.clean"}]}
    )
    declared: freshline.AssetFunction = vars(made)["__freshline__"]
    found = declared.arguments(step, {"top": 3, "else": 4}, read=lambda asset_id: f"df of {asset_id}", ctx="context")
    assert found == {"flights_clean": "df of flights.clean", "ctx": "context", "top": 3}


MISTAKES = {
    "@asset('a')\ndef f(flights_claen): ...": "2: asset 'a': parameter 'flights_claen' names no known asset; "
    "did you mean 'flights_clean'? say which with inputs={'flights_claen': 'asset.id'}",
    "@asset('a')\ndef f(zzzzz): ...": "2: asset 'a': parameter 'zzzzz' names no known asset; "
    "say which with inputs={'zzzzz': 'asset.id'}",
    "@asset('a')\ndef f(x_y): ...\n@asset('x.y')\ndef g(): ...\n@asset('x-y')\ndef h(): ...": "2: asset 'a': "
    "parameter 'x_y' may be 'x-y' or 'x.y'; say which with inputs={'x_y': ...}",
    "@asset('a b')\ndef f(): ...": "2: workflow 'a b': 'a b' is not a slug; "
    "allowed are 1-100 lower-case letters, digits and - _, a letter or digit first",
    "@asset('a', freshness={'ttlms': 5})\ndef f(): ...": "2: asset 'a': unknown field 'ttlms'; did you mean 'ttlMs'?",
    "@asset('a', freshness=ttl(hours=-1))\ndef f(): ...": "2: 'ttlMs' is -3600000; allowed are 1 or more",
    "@asset('a', auto=on_upstream_update(prio=5))\ndef f(): ...": "2: unknown field 'prio'; did you mean 'priority'?",
    "@asset('a', checks=[not_null()])\ndef f(): ...": "2: 'notNull' is []; allowed are 1 or more items",
    "@asset('a', freshnes=1)\ndef f(): ...": "2: importing it raised "
    "TypeError: asset() got an unexpected keyword argument 'freshnes'",
    "@asset('a')\nasync def f(): ...": "2: asset 'a': @asset takes a plain function",
    "@asset('a')\nclass F: ...": "2: asset 'a': @asset takes a plain function",
    "@asset('a')\ndef f(*xs): ...": "2: asset 'a': parameter '*xs' cannot name an asset; "
    "allowed are plain and keyword-only parameters",
    "@asset('a', inputs={'x': 'weather'})\ndef f(): ...": "2: asset 'a': "
    "'inputs' names 'x', which is not a parameter of f()",
    "def outer():\n    @asset('a')\n    def f(): ...\nouter()": "3: asset 'a': 'outer.<locals>.f' is inside another "
    "function or class; a runner cannot find it there; move it to the module's top",
    "@asset('a', parameters={'x': float('nan')})\ndef f(): ...": "2: asset 'a': holds a number that is not finite, "
    "or a text with the character NUL or half a surrogate pair; remove it",
    "@asset('a', description='\\0')\ndef f(): ...": "2: asset 'a': holds a number that is not finite, "
    "or a text with the character NUL or half a surrogate pair; remove it",
    "@asset('a', parameters={'x': object})\ndef f(): ...": "2: workflow 'a': 'x' is <class 'object'>; "
    "allowed are texts, numbers, true, false, null, lists and blocks",
    "\n1 / 0": "3: importing it raised ZeroDivisionError: division by zero",
    "import absent_module": "2: importing it raised ModuleNotFoundError: No module named 'absent_module'",
    "import sys\nsys.exit(3)": "3: importing it raised SystemExit: 3",
    "def f(:": "2: cannot be parsed as Python: invalid syntax",
    "from lib import broken": "lib.py:2: importing it raised ValueError: no",
}


@pytest.mark.parametrize(("code", "message"), MISTAKES.items())
def test_mistakes_in_python_show_the_users_line(tmp_path: Path, code: str, message: str) -> None:
    """What is wrong in a Python file is one sentence with its line, never a traceback."""
    head = "from freshline import asset, ttl, on_upstream_update, not_null\n"
    files = {**SOURCE, "workflows/w.py": head + code, "lib.py": "\nraise ValueError('no')\n"}
    found = mistakes(tmp_path, files)
    assert found[0] == (message if message.startswith("lib") else f"workflows/w.py:{message}")


def test_names_of_python_files_must_be_importable(tmp_path: Path) -> None:
    """A file that Python cannot import is refused by its name."""
    assert mistakes(tmp_path, {"workflows/my-file.py": ""}) == [
        "workflows/my-file.py: cannot be imported; allowed are letters, digits and _ in names of Python files"
    ]


def test_loading_leaves_nothing_behind_and_sees_every_edit(tmp_path: Path) -> None:
    """Import path and modules are as before, and a second load reads the files again, also within one second."""
    files = {**SOURCE, "lib.py": "NAME = 'weather'\n", "workflows/a.py": FLIGHTS + "    import lib\n"}
    modules, path, finders = set(sys.modules), list(sys.path), list(sys.meta_path)
    first = loaded(tmp_path, files).workflows[0]
    assert (sys.path, sys.meta_path) == (path, finders)
    assert not {name for name in set(sys.modules) - modules if name.split(".")[0] in {"workflows", "lib"}}
    assert not list(tmp_path.rglob("__pycache__"))
    files["workflows/a.py"] = files["workflows/a.py"].replace("hours=1", "hours=2")
    second = loaded(tmp_path, files).workflows[0]
    assert [one.policy.outputs[0].freshness.ttl_ms for one in (first, second)] == [3_600_000, 7_200_000]


def test_stale_bytecode_is_not_believed(tmp_path: Path) -> None:
    """An edit counts even if size and time of the file are those of the cached bytecode."""
    files = {**SOURCE, "workflows/a.py": FLIGHTS}
    write(tmp_path, files)
    module = tmp_path / "workflows" / "a.py"
    py_compile.compile(str(module))
    times = (module.stat().st_atime_ns, module.stat().st_mtime_ns)
    write(tmp_path, {"workflows/a.py": FLIGHTS.replace("hours=1", "hours=2")})
    os.utime(module, ns=times)
    assert load_project(tmp_path).workflows[0].policy.outputs[0].freshness.ttl_ms == 7_200_000


def test_two_projects_do_not_see_each_other(tmp_path: Path) -> None:
    """Each project's `workflows` package is its own, and one that was loaded before comes back."""
    sys.modules["workflows"] = sys
    try:
        code = "from freshline import asset\n@asset('{}')\ndef f(): ..."
        projects = [loaded(tmp_path / name, {"workflows/same.py": code.format(name)}) for name in ("one", "two")]
        assert [project.workflows[0].definition.slug for project in projects] == ["one", "two"]
        assert sys.modules["workflows"] is sys
    finally:
        del sys.modules["workflows"]


def test_modules_may_import_each_other(tmp_path: Path) -> None:
    """A function is declared once, whichever file was imported first."""
    files = {
        "workflows/a.py": "from freshline import asset\nfrom workflows.b import g\n@asset('a')\ndef f(b): ...",
        "workflows/b.py": "from freshline import asset\n@asset('b')\ndef g(): ...",
        "workflows/__init__.py": "",
    }
    found = {one.definition.slug: one for one in loaded(tmp_path, files).workflows}
    assert {slug: str(one.place) for slug, one in found.items()} == {
        "a": "workflows/a.py:3",
        "b": "workflows/b.py:2",
    }


def test_the_decorator_declares_nothing_outside_a_load() -> None:
    """In a runner or a user's test it only marks the function."""

    def plain() -> None: ...

    plain.__qualname__ = "plain"
    assert vars(asset("a")(plain))["__freshline__"].asset_id == "a"


def test_names_that_do_not_exist_are_told() -> None:
    """The package exports what `__all__` says, lazily, and nothing else."""
    for name in freshline.__all__:
        assert getattr(freshline, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = freshline.nothing
    with pytest.raises(DefinitionError, match="cron '61"):
        freshline.cron("61 * * * *")
