"""The texts of partition keys."""

from __future__ import annotations

import pytest
from hypothesis import given

from freshline.errors import PartitionKeyError, UsageError
from freshline.partitions import keys
from tests.partitions.strategies import core, values


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("", "partition key '' is empty; allowed are texts of 1 to 200 bytes, such as 2024-01-31 or eu-west"),
        ("ä" * 101, r"partition key 'ä+…' has 202 bytes in UTF-8; allowed are texts of 1 to 200 bytes"),
        ("a\nb", r"partition key 'a\\nb' contains the control character U\+000A; allowed are printable texts"),
        ("a\u202eb", r"contains the control character U\+202E"),
        ("a\u2028b", r"contains the control character U\+2028"),
        ("\ud800", r"contains the control character U\+D800"),
        ("a\u0308", "is not in Unicode's normal form C; allowed are composed characters"),
    ],
)
def test_a_key_that_breaks_a_rule_is_refused_with_the_rule(key: str, message: str) -> None:
    """The error says the value, the rule, and what is allowed."""
    with pytest.raises(PartitionKeyError, match=message):
        keys.require_valid(key)


def test_the_longest_key_has_200_bytes() -> None:
    """The limit is inclusive, and counts bytes."""
    keys.require_valid("x" * 200)
    keys.require_valid("ä" * 100)
    with pytest.raises(PartitionKeyError, match="has 201 bytes"):
        keys.require_valid("x" * 201)


def test_an_error_is_one_of_usage_with_a_stable_code() -> None:
    """The command line exits with 2, the API answers 422, and a validator of pydantic may raise it."""
    assert issubclass(PartitionKeyError, UsageError)
    assert issubclass(PartitionKeyError, ValueError)
    assert PartitionKeyError.code == "partition-key"


def test_a_decomposed_text_becomes_the_composed_key() -> None:
    """Two spellings of one text are one key."""
    assert keys.canonical("a\u0308") == "ä"


def test_a_value_of_a_dimension_has_no_separator() -> None:
    """It would be another key."""
    with pytest.raises(PartitionKeyError, match=r"value 'a\|b' of a dimension contains '\|'"):
        keys.join(["2024-01-31", "a|b"])
    with pytest.raises(PartitionKeyError, match="has 203 bytes"):
        keys.join(["x" * 101, "y" * 101])


@given(values, values)
@core
def test_joined_values_split_into_the_same(a: str, b: str) -> None:
    """`split` is the inverse of `join`."""
    assert keys.split(keys.join([a, b])) == (a, b)


@given(values)
@core
def test_a_key_survives_a_path(key: str) -> None:
    """Its name in a path is one plain name, and reads as the key."""
    name = keys.encode_for_path(key)
    assert keys.decode_from_path(name) == key
    assert name.isascii()
    assert not set(name) & set('/\\=:|"*?<>~ ')
    assert name[0] not in "._"


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("2024-01-31", "2024-01-31"),
        ("2024-01-31T05:07", "2024-01-31T05%3A07"),
        ("2024-01-31|eu", "2024-01-31%7Ceu"),
        (".", "%2E"),
        ("..", "%2E."),
        ("_tmp", "%5Ftmp"),
        ("a/../b", "a%2F..%2Fb"),
        ("a=b%", "a%3Db%25"),
        ("ä~", "%C3%A4%7E"),
    ],
)
def test_names_in_paths(key: str, name: str) -> None:
    """A name is never hidden, a directory above, or a path of several names."""
    assert keys.encode_for_path(key) == name
    assert keys.decode_from_path(name) == key


def test_a_name_that_is_too_long_for_a_file_is_refused() -> None:
    """File systems allow 255 bytes; the error says what to do."""
    with pytest.raises(PartitionKeyError, match=r"has 300 bytes in a path.*allowed are 255 .*report the partition"):
        keys.encode_for_path("ä" * 50)


@pytest.mark.parametrize("name", ["%", "%2", "%zz", "a/b", "%ff", ""])
def test_a_name_that_is_not_encoded_is_refused(name: str) -> None:
    """A file beside the partitions is not a key."""
    with pytest.raises(PartitionKeyError):
        keys.decode_from_path(name)
