"""YAML and JSON become the same plain data, within limits."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshline.definitions.loading import document
from freshline.errors import DefinitionError

SCALARS = {
    "3_600_000": 3600000,
    "010": 10,
    "0x1F": 31,
    "0o17": 15,
    "-5": -5,
    "+4": 4,
    "1e3": 1000.0,
    "1.5": 1.5,
    "22:00": "22:00",
    "2013-01-01": "2013-01-01",
    "yes": "yes",
    "off": "off",
    "true": True,
    "~": None,
    '"5"': "5",
    "=": "=",
    "!!str 5": "5",
    '!!int "7"': 7,
}


@pytest.mark.parametrize(("text", "value"), SCALARS.items())
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    """Times and dates are texts, yes and no are texts, numbers may have underscores."""
    assert document.parse(f"a: {text}\n", "x.yaml")[0].data == {"a": value}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="ascii"), max_size=5), children, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON)
def test_json_is_read_as_python_reads_it(data: object) -> None:
    """A JSON file gives the data that json.loads gives."""
    text = json.dumps({"data": data})
    if "\\u0000" not in text:
        assert document.parse(text, "x.json")[0].data == {"data": data}


def test_json_with_mistakes_still_has_lines() -> None:
    """Lines of JSON are found also when it is indented with tabs."""
    found = document.parse('{\n\t"slug":\t"a"\t,\n\t"steps": [\n\t\t{"id": 5}\n\t]\n}', "x.json")[0]
    assert str(found.place(("steps", 0, "id"))) == "x.json:4"
    assert str(found.place(("steps", 0, "absent"))) == "x.json:4"


def test_json_may_use_what_yaml_allows() -> None:
    """Numbers may have underscores inside JSON."""
    assert document.parse('{"ttlMs": 3_600_000, # an hour\n}', "x.json")[0].data["ttlMs"] == 3600000


def test_json_that_is_neither_is_told_as_json() -> None:
    """A mistake in a JSON file is reported as a JSON error with its line."""
    with pytest.raises(DefinitionError, match=r"x.json:2: cannot be read as JSON: Expecting ',' delimiter"):
        document.parse('{"a": 1\n "b": 2}', "x.json")


def test_anchors_and_merges_work() -> None:
    """A block can be written once and used again; what is written beside `<<` wins."""
    text = "base: &b {x: 1, y: 2}\nuse: {<<: *b, y: 3}\nmany: {<<: [*b, {x: 7, z: 9}]}\n"
    data = document.parse(text, "x.yaml")[0].data
    assert (data["use"], data["many"]) == ({"x": 1, "y": 3}, {"x": 1, "y": 2, "z": 9})


def test_documents_of_a_file_know_their_lines() -> None:
    """Empty documents are left out, and the others keep their own lines."""
    found = document.parse("a: 1\n---\n---\n# nothing\n---\nb:\n  c: 2\n", "x.yaml")
    assert [(str(one.place()), one.data) for one in found] == [("x.yaml:1", {"a": 1}), ("x.yaml:6", {"b": {"c": 2}})]
    assert str(found[1].place(("b", "c"))) == "x.yaml:7"


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "more than 100000 values"),
        ("[" * 100 + "]" * 100, "nested deeper than 60 levels"),
        ("[" * 50_000, "nested deeper than 60 levels"),
        ("a: " + "9" * 5000, "is not a finite number"),
        ("a: 1e999", "is not a finite number"),
        ("a: 1\na: 2", "field 'a' is given twice"),
        ('{"a": "\\ud800"}', "half a surrogate pair"),
        ("a: \x01", "cannot be read as"),
    ],
    ids=["alias-bomb", "deep", "very-deep", "huge-number", "infinite", "twice", "surrogate", "control"],
)
def test_hostile_files_are_refused(text: str, message: str) -> None:
    """Nothing in a file can use unbounded time, memory or stack."""
    for name in ("x.yaml", "x.json"):
        with pytest.raises(DefinitionError, match=message):
            document.parse(text, name)
