"""The Delta log: what others read is what was published, at every version, and the log can be written again.

See docs/semantics.md#R9.7.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable

from freshline.delta.log import DeltaLog, LogConflictError, TableVersion, commit, placeholder, unsupported_reason
from freshline.storage.local import LocalStorage

BEGIN = datetime(2026, 1, 5, 9, tzinfo=UTC)
LONG = {"x": "long"}


def schema(**columns: str) -> dict[str, Any]:
    """Spark's own description of columns."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    return {"type": "struct", "fields": fields}


class Table:
    """A table whose versions are written by hand, as a run would."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = DeltaLog(LocalStorage(root.parent), root.name)
        self.versions: list[TableVersion] = []

    def part(self, name: str, rows: pl.DataFrame, by: dict[str, str] | None = None) -> dict[str, int]:
        directory = Path("data", name, *(f"{column}={value}" for column, value in (by or {}).items()))
        (self.root / directory).mkdir(parents=True, exist_ok=True)
        path = directory / "part-0.parquet"
        rows.write_parquet(self.root / path)
        return {str(path): (self.root / path).stat().st_size}

    def publish(self, files: dict[str, int], *, append: bool = False, **changes: Any) -> TableVersion:
        number = len(self.versions)
        before = self.versions[-1] if self.versions else None
        version = TableVersion(
            number=number,
            base=before.base if append and before else number,
            sequence=number + 1,
            produced_at=BEGIN + timedelta(minutes=number),
            schema=changes.get("schema", schema(**LONG)),
            partition_by=changes.get("by", ()),
            files=files,
        )
        replaced = {} if append or before is None else self.files(before)
        assert self.log.write(number, commit("a", before, version, replaced))
        self.versions.append(version)
        return version

    def files(self, version: TableVersion) -> dict[str, int]:
        chain = self.versions[version.base : version.number + 1]
        return {path: size for one in chain for path, size in one.files.items()}

    def rows(self, version: int | None = None) -> list[tuple[Any, ...]]:
        return sorted(pl.read_delta(str(self.root), version=version).rows())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Return an empty log."""
    return Table(tmp_path / "a.b")


def test_every_version_is_read_as_it_was_published(table: Table) -> None:
    """Overwritten, appended and rolled back, also onto files that stay: numbers and rows are those of the versions."""
    first = table.part("r1", pl.DataFrame({"x": [1, 2]}))
    more = table.part("r2", pl.DataFrame({"x": [3]}))
    table.publish(first)
    table.publish(more, append=True)
    table.publish(table.part("r3", pl.DataFrame({"x": [9]})))
    table.publish(first | more)  # back to version 1
    table.publish(first)  # and to version 0: a file that both have is neither added nor removed
    assert [table.rows(n) for n in range(5)] == [
        [(1,), (2,)],
        [(1,), (2,), (3,)],
        [(9,)],
        [(1,), (2,), (3,)],
        [(1,), (2,)],
    ]
    assert DeltaTable(str(table.root)).version() == 4
    assert DeltaTable(str(table.root)).transaction_version("freshline") == 5
    for number in range(5):
        actions = [json.loads(line) for line in (table.log.text(number) or "").splitlines()]
        added, removed = ({one[kind]["path"] for one in actions if kind in one} for kind in ("add", "remove"))
        assert not added & removed, "a commit must not add and remove one file"


def test_a_column_that_comes_with_an_append_is_there_and_null_before(table: Table) -> None:
    """An append may bring a column: the schema is that of the version, old rows have nothing in it."""
    table.publish(table.part("r1", pl.DataFrame({"x": [1]})))
    wider = schema(x="long", y="string")
    table.publish(table.part("r2", pl.DataFrame({"x": [2], "y": ["k"]})), append=True, schema=wider)
    assert table.rows() == [(1, None), (2, "k")]
    assert table.rows(0) == [(1,)]


def test_every_column_may_be_null(table: Table) -> None:
    """The schema allows nulls everywhere from the start, because appended rows may contain them."""
    inner = {"name": "z", "type": "long", "nullable": False, "metadata": {}}
    struct = {"type": "struct", "fields": [inner]}
    array = {"type": "array", "elementType": struct, "containsNull": False}
    nested = {"type": "map", "keyType": "string", "valueType": array, "valueContainsNull": False}
    fields = [{**inner, "name": name, "type": kind} for name, kind in (("x", "long"), ("y", nested))]
    table.publish(table.part("r1", pl.DataFrame({"x": [1]})), schema={"type": "struct", "fields": fields})
    said = DeltaTable(str(table.root)).schema().to_json()
    assert "false" not in said
    assert said.count("true") == 5


def test_partitions_are_read_from_the_names_of_directories(table: Table) -> None:
    """Values that Spark escapes in names, and nulls, come back."""
    whole = schema(x="long", day="string")
    files = {
        **table.part("r1", pl.DataFrame({"x": [1]}), {"day": "2013-01-01 10%3A30"}),
        **table.part("r1", pl.DataFrame({"x": [2]}), {"day": "__HIVE_DEFAULT_PARTITION__"}),
    }
    table.publish(files, schema=whole, by=("day",))
    assert table.rows() == [(1, "2013-01-01 10:30"), (2, None)]


def test_a_commit_that_is_there_is_left_and_another_one_is_a_conflict(table: Table) -> None:
    """Writing a commit again changes nothing, and a different one is not overwritten (docs/semantics.md#R9.7)."""
    version = table.publish(table.part("r1", pl.DataFrame({"x": [1]})))
    actions = commit("a", None, version, {})
    assert not table.log.write(0, actions)
    with pytest.raises(LogConflictError, match="is not the commit that belongs there"):
        table.log.write(0, actions[:-1])


def test_a_log_may_begin_after_versions_that_are_gone(table: Table) -> None:
    """Versions whose files were removed have empty commits, so that the numbers of the others stay."""
    files = table.part("r1", pl.DataFrame({"x": [1]}))
    version = TableVersion(2, 2, 3, BEGIN, schema(**LONG), (), files)
    for number in range(2):
        table.log.write(number, placeholder("a", number, version))
    assert table.rows(1) == []
    table.log.write(2, commit("a", version, version, {}))
    assert table.rows() == [(1,)]
    assert DeltaTable(str(table.root)).version() == 2


def test_checkpoints_sum_the_log_up(table: Table) -> None:
    """After a checkpoint the log is read as before, and its versions count as written."""
    for number in range(3):
        table.publish(table.part(f"r{number}", pl.DataFrame({"x": [number]})), append=bool(number))
    table.log.checkpoint()
    table.log.storage.remove([table.log.path(1)])
    assert table.log.has(1)
    assert table.rows() == [(0,), (1,), (2,)]
    (table.root / "_delta_log" / "_last_checkpoint").unlink()
    assert not table.log.has(1)
    assert table.log.numbers() == [0, 2]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"x": "interval day to second"}, "interval"),
        ({"x": "variant"}, "variant"),
        ({"a b": "long"}, "characters"),
        ({}, "no columns"),
    ],
)
def test_what_delta_cannot_hold_is_said(columns: dict[str, str], why: str) -> None:
    """A table of another type is published all the same, without a log."""
    assert why in str(unsupported_reason(schema(**columns)))
    assert unsupported_reason(schema(x="decimal(10,2)", y="timestamp_ntz")) is None


def test_timestamps_without_a_zone_are_read(table: Table) -> None:
    """They need a newer protocol, which the log declares."""
    at = datetime(2013, 1, 1, 10, 30)  # noqa: DTZ001 - that is the point
    table.publish(table.part("r1", pl.DataFrame({"x": [at]})), schema=schema(x="timestamp_ntz"))
    assert table.rows() == [(at,)]
