"""The kind `iceberg` on a real table of a catalog in SQLite: snapshots, rollbacks, expired history, bad catalogs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from freshline.definitions.schema.watch import IcebergWatch
from freshline.model.json import Json
from freshline.watching import iceberg
from freshline.watching.look import Look, LookError, Mode
from freshline.watching.snapshots import Snapshot, Table, compare
from tests.watching.looks import context

SCHEMA = pa.schema([("id", pa.int64())])


class Lake:
    """A catalog with the table sales.orders."""

    def __init__(self, directory: Path) -> None:
        self.properties = {
            "name": "test",
            "uri": f"sqlite:///{directory}/catalog.db",
            "warehouse": f"file://{directory}/warehouse",
        }
        self.catalog = load_catalog(**self.properties)
        self.catalog.create_namespace("sales")
        self.table: Any = self.catalog.create_table("sales.orders", schema=SCHEMA)

    def append(self, *ids: int) -> str:
        """Append rows and return the snapshot."""
        self.table.append(pa.table({"id": list(ids)}, schema=SCHEMA))
        return str(self.table.current_snapshot().snapshot_id)

    def look(self, mode: Mode = "append", position: Json | None = None) -> Look:
        """Look at the table."""
        return look(json.dumps(self.properties), mode, position)


def look(catalog: str, mode: Mode = "append", position: Json | None = None, table: str = "sales.orders") -> Look:
    """Look at a table of this catalog."""
    spec = IcebergWatch.model_validate({"iceberg": table, "catalog": {"env": "CATALOG"}})
    return iceberg.look(spec, mode, position, context({"CATALOG": catalog}))


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """Yield a catalog with an empty table."""
    lake = Lake(tmp_path)
    yield lake
    lake.catalog.close()


def test_each_append_is_one_delivery(lake: Lake) -> None:
    """The first one is the whole table; later ones begin where the last one ended."""
    empty = lake.look()
    assert (empty.found, empty.summary) == ((), "Table sales.orders has no snapshot yet.")
    lake.append(1)
    second = lake.append(2)
    first = lake.look(position=empty.position)
    name = {"table": "sales.orders", "operation": "append"}
    assert [one.payload for one in first.found] == [{**name, "from": None, "to": second}]
    third, fourth = lake.append(3), lake.append(4)
    later = lake.look(position=first.position)
    assert [one.payload for one in later.found] == [
        {**name, "from": second, "to": third},
        {**name, "from": third, "to": fourth},
    ]
    assert later.found == lake.look(position=first.position).found
    assert lake.look(position=later.position).found == ()
    assert later.conflicts == ()


def test_a_snapshot_source_gets_the_current_snapshot(lake: Lake) -> None:
    """Also one that comes back by a rollback, with another key."""
    one = lake.append(1)
    first = lake.look("snapshot")
    lake.append(2)
    second = lake.look("snapshot", first.position)
    lake.table.manage_snapshots().rollback_to_snapshot(int(one)).commit()
    third = lake.look("snapshot", second.position)
    assert first.found[0].data_version == third.found[0].data_version == one
    assert first.found[0].key != third.found[0].key
    assert lake.look("snapshot", third.position).found == ()


def test_a_rolled_back_table_is_a_conflict(lake: Lake) -> None:
    """What is appended after the rollback is delivered; what was there before is not delivered again."""
    one = lake.append(1)
    start = lake.look()
    two = lake.append(2)
    first = lake.look(position=start.position)
    lake.table.manage_snapshots().rollback_to_snapshot(int(one)).commit()
    back = lake.look(position=first.position)
    assert back.found == ()
    assert back.conflicts[0].message == (
        f"The table was rolled back to snapshot {one}. Rows of later snapshots up to {two} were delivered."
    )
    three = lake.append(3)
    assert [found.payload["to"] for found in lake.look(position=back.position).found] == [three]


def test_history_that_expired_is_a_conflict_and_no_row_is_lost(lake: Lake) -> None:
    """The next delivery begins at the last reported snapshot."""
    one = lake.append(1)
    first = lake.look()
    gone, last = lake.append(2), lake.append(3)
    lake.table.maintenance.expire_snapshots().by_ids([int(one), int(gone)]).commit()
    later = lake.look(position=first.position)
    assert [(found.payload["from"], found.payload["to"]) for found in later.found] == [(one, last)]
    assert "have expired before they were seen" in later.conflicts[0].message


def test_rewritten_rows_are_a_conflict(lake: Lake) -> None:
    """Deleted rows are not delivered; they cannot be taken back either."""
    lake.append(1, 2)
    first = lake.look()
    lake.table.delete("id = 1")
    later = lake.look(position=first.position)
    assert later.conflicts != ()
    assert "rows" in later.conflicts[0].message
    assert lake.look(position=later.position).conflicts == later.conflicts


def test_a_table_that_was_created_again_is_delivered_from_its_beginning(lake: Lake) -> None:
    """It has another id under the same name."""
    lake.append(1)
    first = lake.look()
    lake.catalog.drop_table("sales.orders")
    lake.table = lake.catalog.create_table("sales.orders", schema=SCHEMA)
    new = lake.append(7)
    second = lake.look(position=first.position)
    assert [(found.payload["from"], found.payload["to"]) for found in second.found] == [(None, new)]
    assert "dropped and created again" in second.conflicts[0].message


def test_a_table_that_is_missing_is_named(lake: Lake) -> None:
    """With its namespace."""
    with pytest.raises(LookError, match=r"the catalog has no table sales\.typo"):
        look(json.dumps(lake.properties), table="sales.typo")


@pytest.mark.parametrize(
    ("catalog", "message"),
    [
        ('{"uri": "canary"', "the value of CATALOG is not a catalog; allowed is an address"),
        ('{"uri": ["canary"]}', "the value of CATALOG is not a catalog"),
        ("canary://x", "cannot be loaded: ValueError: Could not infer the catalog type"),
        ('{"uri": "http://u:canary-word@127.0.0.1:1", "token": "canary-token"}', "cannot be loaded: "),
        ("sqlite:////nowhere/catalog.db", "unable to open database file"),
    ],
)
def test_a_catalog_that_cannot_be_used_is_an_error(catalog: str, message: str) -> None:
    """It says why, without passwords and tokens."""
    with pytest.raises(LookError, match=message) as raised:
        look(catalog)
    assert "canary-" not in str(raised.value)


def test_a_look_makes_no_catalog(tmp_path: Path) -> None:
    """An empty database stays empty."""
    with pytest.raises(LookError, match="no such table"):
        look(f"sqlite:///{tmp_path}/empty.db")


def chain(*operations: str) -> Table:
    """Return a table with snapshots 1, 2 and so on of these operations."""
    parents = [None, *map(str, range(1, len(operations)))]
    made = [Snapshot(str(n), parents[n - 1], operation, n) for n, operation in enumerate(operations, 1)]
    return Table("t", "uuid", made[-1].id, {one.id: one for one in made})


def test_compaction_delivers_nothing() -> None:
    """Its rows are those that were there. The next delivery begins at the last delivered snapshot."""
    first = compare("append", None, chain("append"), context())
    later = compare("append", first.position, chain("append", "replace", "append"), context())
    assert [(one.payload["from"], one.payload["to"]) for one in later.found] == [("1", "3")]
    assert later.conflicts == ()


def test_an_overwrite_is_delivered_with_its_operation() -> None:
    """Its new rows are not lost, and the conflict says that others may be gone."""
    first = compare("append", None, chain("append"), context())
    later = compare("append", first.position, chain("append", "overwrite"), context())
    assert [one.payload["operation"] for one in later.found] == ["overwrite"]
    assert "'overwrite'" in later.conflicts[0].message


def test_a_long_history_is_delivered_in_parts() -> None:
    """At most 1,000 in one transaction; the next look follows at once."""
    first = compare("append", None, chain("append"), context())
    table = chain(*["append"] * 1_502)
    second = compare("append", first.position, table, context())
    assert (len(second.found), second.more) == (1_000, True)
    third = compare("append", second.position, table, context())
    assert (len(third.found), third.more) == (501, False)
    assert third.found[0].payload["from"] == second.found[-1].payload["to"]
