"""`freshline show` and `table versions` of partitions: one of them, or the whole table, at any version of the table."""

from __future__ import annotations

import json

import pytest

from freshline.errors import NotFoundError, PartitionKeyError, UsageError
from freshline.storage.snapshot_rows import query
from tests.delta.test_partitions import ONE, TWO, Parts, parts  # noqa: F401 - the fixture


def shown(parts: Parts, key: str | None = None, version: int | None = None) -> list[tuple[str, int]]:  # noqa: F811
    """Return the rows that `show` prints: day and value, sorted."""
    snapshot = parts.lab.store.reader.snapshot("b", version, partition=key)
    # As it arrives over HTTP.
    answer = query(str(parts.lab.warehouse), json.loads(json.dumps(snapshot)), None, 100)
    names = [column["name"] for column in answer.columns]
    assert sorted(names) == ["day", "x"]
    assert snapshot["rows"] in {None, len(answer.rows)}
    return sorted((row[names.index("day")], row[names.index("x")]) for row in answer.rows)


def filled(parts: Parts) -> None:  # noqa: F811
    """Publish four versions of the table: two days, one of them changed, the other appended to."""
    parts.publish(ONE, 1, 2)
    parts.publish(TWO, 7)
    parts.publish(ONE, 3)
    parts.publish(TWO, 8, append=True)
    parts.publish(ONE, 3)  # no version of the table


def test_one_partition_is_shown(parts: Parts) -> None:  # noqa: F811
    """Now, and as it was in a version of the table, whichever partition that version changed."""
    filled(parts)
    assert shown(parts, ONE) == [(ONE, 3)]
    assert shown(parts, TWO) == [(TWO, 7), (TWO, 8)]
    assert shown(parts, ONE, 0) == shown(parts, ONE, 1) == [(ONE, 1), (ONE, 2)]
    assert shown(parts, TWO, 2) == [(TWO, 7)]
    assert parts.lab.store.reader.snapshot("b", 1, partition=ONE)["tableVersion"] == 0


def test_without_a_key_the_whole_table_is_shown(parts: Parts) -> None:  # noqa: F811
    """With the column of the partition, and as the Delta log has it in each version."""
    filled(parts)
    assert shown(parts) == [(ONE, 3), (TWO, 7), (TWO, 8)]
    for version, expected in enumerate(parts.expected):
        rows = sorted((key, one) for key, found in expected.items() for one in found)
        assert shown(parts, None, version) == rows
    assert shown(parts, None, 99) == shown(parts)
    snapshot = parts.lab.store.reader.snapshot("b")
    assert (snapshot["partitionKey"], snapshot["version"], snapshot["rows"]) == ("", 3, None)


def test_the_versions_of_a_partition_are_those_in_which_it_changed(parts: Parts) -> None:  # noqa: F811
    """An equal publication is none of them."""
    filled(parts)
    reader = parts.lab.store.reader
    found = reader.snapshots("b", partition=ONE, changed=True)
    assert [(one["partitionKey"], one["tableVersion"]) for one in found] == [(ONE, 2), (ONE, 0)]
    assert [one["tableVersion"] for one in reader.snapshots("b", partition=TWO, changed=True)] == [3, 1]
    assert {one["partitionKey"] for one in reader.snapshots("b")} == {ONE, TWO}


@pytest.mark.parametrize(
    ("asset", "key", "version", "expected"),
    [
        ("b", "nonsense", None, (PartitionKeyError, "allowed are keys such as")),
        ("b", "2020-01-01", None, (PartitionKeyError, "is before the first")),
        ("b", "2025-12-02", None, (NotFoundError, "asset 'b@2025-12-02' was never produced")),
        ("b", TWO, 0, (NotFoundError, "asset 'b@2025-12-31' has no version 0; the newest is 3")),
        ("a", None, None, (UsageError, "each partition of asset 'a' has data of its own")),
        ("a", ONE, 3, (UsageError, "partition 'a@2025-12-30' has no table, so it has no version 3")),
    ],
)
def test_what_cannot_be_shown_is_an_error(
    parts: Parts,  # noqa: F811
    asset: str,
    key: str | None,
    version: int | None,
    expected: tuple[type[Exception], str],
) -> None:
    """It says what is wrong with the key or the version."""
    filled(parts)
    location = json.dumps({"format": "csv", "path": "x"})
    parts.lab.rows("UPDATE snapshots SET location = %s WHERE asset_id = 'a' RETURNING 1", location)
    error, words = expected
    with pytest.raises(error, match=words):
        parts.lab.store.reader.snapshot(asset, version, partition=key)


def test_a_version_that_was_collected_is_not_shown_half(parts: Parts) -> None:  # noqa: F811
    """The error names a partition whose rows are gone; the current version is still there."""
    filled(parts)
    parts.lab.rows("UPDATE snapshots SET gone_at = now() WHERE table_version = 0 RETURNING 1")
    with pytest.raises(
        NotFoundError, match="version 1 of 'b' is not kept any more: partition '2025-12-30' was collected"
    ):
        shown(parts, None, 1)
    with pytest.raises(NotFoundError, match="was collected"):
        shown(parts, ONE, 1)
    assert shown(parts) == [(ONE, 3), (TWO, 7), (TWO, 8)]


def test_very_many_partitions_are_not_read_as_one(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """The error says what to do."""
    monkeypatch.setattr("freshline.store.read.snapshots.MOST_PARTITIONS", 1)
    filled(parts)
    with pytest.raises(UsageError, match="more than 1 partition with data"):
        parts.lab.store.reader.snapshot("b")
