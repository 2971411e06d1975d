"""What a function that looks at a source may return, and what it means."""

from __future__ import annotations

from typing import Any

import pytest

from freshline.definitions.schema.watch import PythonWatch
from freshline.model.json import Json
from freshline.watching import python
from freshline.watching.look import Look, LookError, Mode
from tests.watching.looks import context

NAME = "jobs.landing:latest"


def look(mode: Mode, value: Any, position: Json | None = None) -> Look:
    """Return the look of a function that returned this."""
    return python.result(mode, position, python.returned(NAME, mode, value), context())


def test_a_version_of_a_snapshot_source() -> None:
    """A version that comes back is a change; None means that nothing is new."""
    looks: list[Look] = []
    for value in ("a", "a", None, "b", "a"):
        looks.append(look("snapshot", value, looks[-1].position if looks else None))
    assert [[one.data_version for one in found.found] for found in looks] == [["a"], [], [], ["b"], ["a"]]


def test_deliveries_of_an_append_source() -> None:
    """With the keys and payloads that the function chose."""
    found = look("append", [{"key": "a.csv", "payload": {"path": "drop/a.csv"}}, {"key": "b"}])
    assert [(one.key, dict(one.payload), one.data_version) for one in found.found] == [
        ("a.csv", {"path": "drop/a.csv"}, None),
        ("b", {}, None),
    ]
    assert found.summary == "2 deliveries were returned."
    assert look("append", []).found == look("append", None).found == ()


@pytest.mark.parametrize("mode", ["snapshot", "append"])
def test_a_position_comes_back(mode: Mode) -> None:
    """It is kept until the function returns another one; None is one too."""
    first = look(mode, (None, {"page": 7}))
    assert python.user_position(first.position) == {"page": 7}
    second = look(mode, None, first.position)
    assert python.user_position(second.position) == {"page": 7}
    assert python.user_position(look(mode, (None, None), second.position).position) is None
    assert python.user_position(None) is None


@pytest.mark.parametrize(
    ("mode", "value", "message"),
    [
        ("snapshot", 7, "returned a value of the type int; allowed for a source with mode snapshot is a version (str)"),
        ("snapshot", "", "returned the version of 0 characters; allowed are texts of 1 to 500 characters"),
        ("snapshot", "x" * 501, "returned the version of 501 characters"),
        ("snapshot", "a\x00", "returned the version of 2 characters"),
        ("snapshot", [], "returned a value of the type list; allowed for a source with mode snapshot"),
        ("append", "a", "returned a value of the type str; allowed for a source with mode append is a list"),
        ("append", {"key": "a"}, "returned a value of the type dict"),
        ("append", (one for one in "a"), "returned a value of the type generator"),
        ("append", ["a"], "returned delivery 1 as str; allowed is a dict with 'key' and 'payload'"),
        ("append", [{"key": "a"}, {"path": "b"}], "returned delivery 2 as ['path']"),
        ("append", [{"key": 7}], "returned the key of delivery 1 of the type int"),
        ("append", [{"key": "a", "payload": []}], "with a payload of the type list; allowed is a dict"),
        ("append", [{"key": "a", "payload": {"b": object()}}], "the payload of delivery 1, which is not JSON"),
        ("append", [{"key": "a", "payload": {"b": float("nan")}}], "the payload of delivery 1, which is not JSON"),
        ("append", [{"key": "a", "payload": {"b": "x" * 262_144}}], "the payload of delivery 1 with 262,153 bytes"),
        ("append", [{"key": "a"}, {"key": "a"}], "returned two deliveries with the key 'a'"),
        ("append", [{"key": str(n)} for n in range(1_001)], "returned 1,001 deliveries; allowed are 1,000 at once"),
        ("append", (1, 2, 3), "returned a tuple of 3 values; a tuple is the result and the position"),
        ("append", (None, "x" * 65_536), "returned the position with 65,538 bytes; allowed are 65,536"),
        ("append", (None, {1, 2}), "returned the position, which is not JSON"),
    ],
)
def test_everything_else_is_an_error(mode: Mode, value: Any, message: str) -> None:
    """It names the function, what it returned and what is allowed."""
    with pytest.raises(LookError) as raised:
        look(mode, value)
    assert message in str(raised.value)
    assert str(raised.value).startswith(f"{NAME} ")


def test_only_a_worker_calls_it() -> None:
    """The materializer has no code of projects."""
    spec = PythonWatch.model_validate({"python": NAME})
    with pytest.raises(LookError, match="is called by a worker and not by this process"):
        python.look(spec, "append", None, context())
