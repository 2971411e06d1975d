"""What users write in `consumes.partitions`."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshline.errors import PartitioningError
from freshline.partitions.declaration import (
    Affects,
    All,
    Around,
    Declaration,
    Latest,
    Overlap,
    Pick,
    Rule,
    Same,
    from_json,
)
from tests.partitions.strategies import core

rules: st.SearchStrategy[Rule] = st.one_of(
    st.just(Same()),
    st.builds(Overlap, st.booleans()),
    st.builds(
        lambda first, more, whole: Around(first, first + more, whole),
        st.integers(-9, 9),
        st.integers(0, 9),
        st.booleans(),
    ),
    st.just(All()),
    st.builds(Latest, st.integers(1, 1_000)),
    st.lists(st.sampled_from("abc"), min_size=1, unique=True).map(lambda values: Pick(tuple(values))),
)
declarations = st.builds(
    Declaration,
    st.none() | rules.filter(lambda rule: not isinstance(rule, Pick)),
    st.dictionaries(st.sampled_from(["day", "region"]), rules).map(lambda found: tuple(sorted(found.items()))),
    st.sampled_from(list(Affects)),
    st.none() | st.just("created_at"),
)


@given(declarations)
@core
def test_a_declaration_survives_its_stored_form(declaration: Declaration) -> None:
    """As JSON whose objects lose their order."""
    assert from_json(json.loads(json.dumps(declaration.as_json(), sort_keys=True))) == declaration


@pytest.mark.parametrize(
    ("document", "declaration"),
    [
        (None, Declaration()),
        ({}, Declaration()),
        ("same", Declaration(Same())),
        ("overlap", Declaration(Overlap())),
        ("all", Declaration(All())),
        ({"overlap": "whole"}, Declaration(Overlap(whole=True))),
        ({"window": {"from": -6, "to": 0}}, Declaration(Around(-6, 0))),
        ({"window": {"from": -6, "to": 0}, "overlap": "whole"}, Declaration(Around(-6, 0, whole=True))),
        ({"latest": 3}, Declaration(Latest(3))),
        ({"pick": {"region": "eu"}}, Declaration(dimensions=(("region", Pick(("eu",))),))),
        (
            {"window": {"from": -1, "to": -1}, "pick": {"region": ["eu", "us"]}, "dimensions": {"shop": "all"}},
            Declaration(Around(-1, -1), (("region", Pick(("eu", "us"))), ("shop", All()))),
        ),
        ({"affects": "latest"}, Declaration(affects=Affects.LATEST)),
        ({"timeColumn": "at"}, Declaration(time_column="at")),
    ],
)
def test_what_users_write(document: object, declaration: Declaration) -> None:
    """A text for a rule without fields, an object for the others."""
    assert from_json(document) == declaration


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("sme", "partitions is 'sme'; allowed are same, overlap, all and objects such as .*; did you mean 'same'"),
        (5, "partitions is '5'; allowed is an object"),
        ({"windw": {}}, "partitions has 'windw'; allowed are same, overlap, window, .*; did you mean 'window'"),
        ({"window": {"from": -6}}, "window is .*; allowed is an object such as {from: -6, to: 0}"),
        ({"window": {"from": 0, "to": -6}}, "window is from 0 to -6; .* from not above to"),
        ({"window": {"from": "x", "to": 0}}, "from is 'x'; allowed is a whole number"),
        ({"window": {"from": -(10**9), "to": 0}}, "allowed are whole numbers from -100,000 to 100,000"),
        ({"latest": 0}, "latest is 0; allowed are 1 to 1,000"),
        ({"latest": True}, "latest is 'True'; allowed is a whole number"),
        ({"same": True, "all": True}, "partitions has all and same; allowed is one of"),
        ({"same": False}, "same is 'False'; allowed is true"),
        ({"overlap": "half"}, "overlap is 'half'; allowed are true and whole"),
        ({"pick": "eu"}, "pick is 'eu'; allowed is an object"),
        ({"pick": {"region": {}}}, "pick is '{}'; allowed are values such as eu"),
        ({"pick": {"region": []}}, "pick has 0 values"),
        ({"pick": {"a": 1}, "dimensions": {"a": "all"}}, "pick and dimensions both have 'a'"),
        ({"dimensions": {"a": {}}}, "a dimension has no rule; allowed is one of same, overlap"),
        ({"affects": "some"}, "affects is 'some'; allowed are all, latest, none"),
        ({"timeColumn": ""}, "timeColumn is ''; allowed is the name of a column"),
    ],
)
def test_a_wrong_declaration_is_refused(document: object, message: str) -> None:
    """The error says the field, the value, what is allowed, and what was probably meant."""
    with pytest.raises(PartitioningError, match=message):
        from_json(document)
