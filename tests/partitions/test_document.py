"""Partitionings as users write them, and as they are stored."""

from __future__ import annotations

import json
from datetime import date

import pytest
from hypothesis import given

from freshline.errors import DefinitionError, PartitioningError, PartitionKeyError
from freshline.partitions import (
    Dimensions,
    DynamicKeys,
    FixedKeys,
    Grain,
    Partitioning,
    TimePartitioning,
    Unpartitioned,
    from_json,
)
from tests.partitions.strategies import core, partitionings


@given(partitionings)
@core
def test_a_partitioning_survives_its_stored_form(partitioning: Partitioning) -> None:
    """Also where objects lose their order, as in a jsonb column."""
    stored = json.dumps(partitioning.as_json(), sort_keys=True)
    assert from_json(json.loads(stored)) == partitioning


@pytest.mark.parametrize(
    ("document", "partitioning"),
    [
        (None, Unpartitioned()),
        ({}, Unpartitioned()),
        ({"time": "day", "start": date(2024, 1, 1)}, TimePartitioning(Grain.DAY, "2024-01-01")),
        ({"time": "year", "start": 2024}, TimePartitioning(Grain.YEAR, "2024")),
        (
            {"time": "month", "start": "2024-01-15", "timezone": "Europe/Berlin", "end": "2025-01-01", "open": True},
            TimePartitioning(Grain.MONTH, "2024-02", "2025-01", "Europe/Berlin", open=True),
        ),
        ({"keys": ["eu", "us", 7]}, FixedKeys(("eu", "us", "7"))),
        ({"dynamic": {"limit": 10}}, DynamicKeys(10)),
        ({"dynamic": {}}, DynamicKeys()),
        (
            {"dimensions": {"region": {"keys": ["eu"]}, "day": {"time": "day", "start": "2024-01-01"}}},
            Dimensions((("region", FixedKeys(("eu",))), ("day", TimePartitioning(Grain.DAY, "2024-01-01")))),
        ),
    ],
)
def test_what_users_write(document: object, partitioning: Partitioning) -> None:
    """YAML reads a date as a date and a year as a number."""
    assert from_json(document) == partitioning


START = {"start": "2024-01-01"}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("day", "partitioning is 'day'; allowed is an object such as {time: day, start: 2024-01-01}"),
        ({"grain": "day"}, "is one of time, keys, dynamic, dimensions; this one has none of them"),
        ({"time": "day", "keys": []}, "this one has time and keys"),
        (
            {"time": "dayly", **START},
            "time is 'dayly'; allowed are minute, hour, day, week, month, year; did you mean 'day'",
        ),
        ({"time": "day"}, "a partitioning by day has no start; write the date of the first partition"),
        ({"time": "day", "strat": 1}, "with time has 'strat'; allowed are time, start, end, timezone, open; did you"),
        ({"time": "day", "start": "soon"}, "start 'soon' is not a date; allowed are dates, times and keys such as"),
        ({"time": "day", "start": "soon"}, "keys such as 2024-01-31$"),
        ({"time": "month", "start": "soon"}, "keys such as 2024-01-31 or 2024-01$"),
        ({"time": "day", "start": [1]}, "start is '.1.'; allowed is a text"),
        (
            {"time": "day", **START, "end": "2024-01-01"},
            "no day lies between start and end; .*allowed is 2024-01-02 or later",
        ),
        ({"time": "day", **START, "open": "yes"}, "open is 'yes'; allowed are true and false"),
        ({"time": "day", **START, "timezone": "Berlin"}, "'Berlin' is not a time zone; allowed are names such as"),
        ({"time": "hour", **START, "timezone": "Europe/Berlin"}, "always in UTC"),
        ({"keys": "eu"}, r"keys is 'eu'; allowed is a list such as \[eu, us\]"),
        ({"keys": []}, "keys has 0 entries; allowed are 1 to 10,000"),
        ({"keys": ["a", "b", "a"]}, "keys has 'a' twice"),
        ({"dynamic": 5}, "dynamic is '5'; allowed is an object such as {limit: 100000}"),
        ({"dynamic": {"limit": 0}}, "limit is 0; allowed are 1 to 10,000,000"),
        ({"dimensions": {"a": {"keys": ["x"]}}}, "dimensions has 1 entry; allowed are 2 or 3"),
        ({"dimensions": {"a": {"keys": ["x"]}, "A": {"keys": ["x"]}}}, "has a name twice: a, A"),
        ({"dimensions": {"a b": {"keys": ["x"]}, "c": {"keys": ["x"]}}}, "dimension 'a b' is not a name"),
        ({"dimensions": {"a": {"dimensions": {}}, "c": {"keys": ["x"]}}}, "a dimension has dimensions itself"),
        ({"dimensions": "day"}, "dimensions is 'day'; allowed is an object such as {day: {time: day"),
    ],
)
def test_a_wrong_document_is_refused_with_what_is_allowed(document: object, message: str) -> None:
    """The error says the field, the value, what is allowed, and what was probably meant."""
    with pytest.raises(PartitioningError, match=message):
        from_json(document)


def test_values_of_dimensions_have_no_separator() -> None:
    """Fixed keys alone may have one."""
    assert from_json({"keys": ["a|b"]}) == FixedKeys(("a|b",))
    with pytest.raises(PartitionKeyError, match=r"'a\|b' of a dimension contains"):
        from_json({"dimensions": {"x": {"keys": ["a|b"]}, "y": {"keys": ["c"]}}})


def test_an_error_is_one_of_definitions() -> None:
    """It has a stable code, and a validator of pydantic may raise it."""
    assert issubclass(PartitioningError, DefinitionError)
    assert issubclass(PartitioningError, ValueError)
    assert PartitioningError.code == "partitioning"
