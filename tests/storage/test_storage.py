"""The contract of all storages: directory, object store and HDFS. `make full` has moto keep it too.

FRESHLINE_TEST_BUCKET=s3a://bucket/path, with credentials in the environment, has a real bucket keep it too.

See ADR 0015.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import duckdb
import pytest

from freshline.delta.log import DeltaLog, LogConflictError
from freshline.errors import WarehouseError
from freshline.storage import hdfs, layout
from freshline.storage.base import Storage, storage_at
from freshline.storage.hdfs import HdfsStorage
from freshline.storage.local import LocalStorage
from freshline.storage.object_store import ObjectStorage
from tests.hdfs_server import NameNode
from tests.object_store_server import ObjectStore

WRITERS = 8
REAL = os.environ.get("FRESHLINE_TEST_BUCKET")
MOTO = pytest.param("moto", marks=pytest.mark.full)


@pytest.fixture(params=["directory", "objects", "hdfs", MOTO, *(["bucket"] if REAL else [])])
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    """One of each kind, and empty."""
    if request.param == "directory":
        yield LocalStorage(tmp_path / "warehouse")
        return
    if request.param == "hdfs":
        monkeypatch.setattr(hdfs, "connect", lambda _place: NameNode(tmp_path))
        yield HdfsStorage("hdfs://host:8020/warehouse")
        return
    if request.param == "bucket":
        real = storage_at(f"{REAL}/{uuid4()}")
        yield real
        real.clear("")
        return
    if request.param == "moto":
        yield ObjectStorage(request.getfixturevalue("moto_bucket"))
        return
    objects: ObjectStore = request.getfixturevalue("objects")
    yield ObjectStorage(objects.address)


def test_a_file_is_created_once(storage: Storage) -> None:
    """Whoever is second learns it, and changes nothing."""
    storage.probe()
    assert storage.create("a/log/1.json", b"first")
    assert not storage.create("a/log/1.json", b"second")
    assert storage.read("a/log/1.json") == b"first"
    assert storage.children("") == ["a"], "a proof leaves nothing"
    assert storage.children("a/log") == ["1.json"]


def test_of_many_writers_one_creates_the_file(storage: Storage) -> None:
    """All at once."""
    together = threading.Barrier(WRITERS)

    def write(number: int) -> bool:
        together.wait()
        return storage.create("one", b"%d" % number)

    with ThreadPoolExecutor(WRITERS) as pool:
        made = list(pool.map(write, range(WRITERS)))
    assert made.count(True) == 1
    assert storage.read("one") == b"%d" % made.index(True)


def test_a_file_is_replaced(storage: Storage) -> None:
    """Whether it is there or not."""
    for content in (b"one", b"two"):
        storage.replace("deep/er/file", content)
        assert storage.read("deep/er/file") == content
    assert storage.children("deep/er") == ["file"]


def test_files_are_listed_with_their_sizes_and_removed(storage: Storage) -> None:
    """At any depth, in any number, with the characters that Spark uses in names; missing files are ignored."""
    names = [f"a/data/x/day=2013-01-0{n}%3A b/part é {n}.parquet" for n in range(1, 8)]
    for size, name in enumerate(names, 1):
        storage.create(name, b"x" * size)
    storage.create("a/data/xy", b"not below x")
    assert storage.sizes("a/data/x") == {name: size for size, name in enumerate(names, 1)}
    assert storage.children("a/data") == ["x", "xy"]
    storage.remove([names[0], "a/data/x/never", names[1]])
    assert sorted(storage.sizes("a/data/x")) == names[2:]
    storage.clear("a/data/x")
    storage.clear("a/data/x")
    assert storage.sizes("a/data") == {"a/data/xy": 11}
    with pytest.raises(FileNotFoundError):
        storage.read(names[2])


def test_what_is_not_there_is_empty(storage: Storage) -> None:
    """Its age is 0, so that it is not removed for its age."""
    assert (storage.sizes("no"), storage.children("no"), storage.age("no")) == ({}, [], 0.0)
    with pytest.raises(FileNotFoundError):
        storage.read("no")


def test_age_is_that_of_the_newest_file(storage: Storage) -> None:
    """It goes by clocks, so only a part of it is certain."""
    storage.create("a/data/x/one", b"1")
    for name in ("a/data/x", "a/data/x/one"):
        assert 0.0 < storage.age(name) < 3_600


def test_a_warehouse_belongs_to_one_database(storage: Storage) -> None:
    """Another database is refused, and without `make` a missing warehouse is not created."""
    with pytest.raises(WarehouseError, match="is gone: it has no"):
        layout.check_warehouse(storage, "ours", make=False)
    layout.check_warehouse(storage, "ours")
    layout.check_warehouse(storage, "ours", make=False)
    with pytest.raises(WarehouseError, match="its id is 'ours', the database's is 'theirs'"):
        layout.check_warehouse(storage, "theirs")
    assert layout.is_ours(storage, "ours")
    assert not layout.is_ours(storage, "theirs")


def test_a_sealed_directory_is_what_was_written(storage: Storage) -> None:
    """Spark's side files are removed; later changes are described."""
    directory = layout.staging_directory("a.b", "run", 1, 2)
    for name in ("_SUCCESS", ".part-1.parquet.crc", "part-1.parquet", "day=1/part-2.parquet"):
        storage.create(f"{directory}/{name}", b"12345")
    location = layout.seal(storage, directory)
    expected = {f"{directory}/day=1/part-2.parquet": 5, f"{directory}/part-1.parquet": 5}
    assert location == {"format": "parquet", "paths": [directory], "files": expected}
    assert storage.sizes("a.b") == expected
    layout.verify_staged(storage, location)
    storage.replace(f"{directory}/part-1.parquet", b"123")
    storage.create(f"{directory}/part-3.parquet", b"1")
    storage.remove([f"{directory}/day=1/part-2.parquet"])
    said = "1 missing (day=1/part-2.parquet); 1 unknown (part-3.parquet); 1 other size (part-1.parquet)"
    assert layout.difference(storage, location) == said


def test_a_commit_is_written_once(storage: Storage) -> None:
    """The same again is fine, another one is a conflict (docs/semantics.md#R9.7)."""
    log = DeltaLog(storage, "a.b")
    assert log.write(0, [{"commitInfo": {"operation": "WRITE"}}])
    assert not log.write(0, [{"commitInfo": {"operation": "WRITE"}}])
    with pytest.raises(LogConflictError, match=r"a\.b/_delta_log/0{20}\.json is not the commit that belongs there"):
        log.write(0, [{"commitInfo": {"operation": "OTHER"}}])
    assert (log.numbers(), log.has(0), log.has(1), log.checkpointed()) == ([0], True, False, -1)


def test_duckdb_reads_there_and_only_where_it_may(storage: Storage, tmp_path: Path) -> None:
    """As `freshline show` has it read."""
    made = tmp_path / "made.parquet"
    duckdb.sql("SELECT range AS n FROM range(1000)").write_parquet(str(made))
    for name in ("a/data/x/k=1/p.parquet", "a/data/x/k=2/p.parquet", "a/data/y/p.parquet"):
        storage.create(name, made.read_bytes())
    with duckdb.connect(config={"autoload_known_extensions": "false"}) as connection:
        storage.attach(connection)
        connection.execute(f"SET allowed_directories = ['{storage.at('a/data/x')}/']")
        connection.execute("SET enable_external_access = false")
        found = f"FROM read_parquet('{storage.at('a/data/x')}/**/*.parquet', hive_partitioning = true)"
        assert connection.execute(f"SELECT k, sum(n) {found} GROUP BY 1 ORDER BY 1").fetchall() == [
            (1, 499_500),
            (2, 499_500),
        ]
        with pytest.raises(duckdb.PermissionException):
            connection.execute(f"FROM read_parquet('{storage.at('a/data/y/p.parquet')}')")


def test_a_directory_gets_another_name(storage: Storage) -> None:
    """With all files in it, at any depth."""
    storage.create("a/data/run/n=0/p=x/one", b"1")
    storage.create("a/data/run/n=0/two", b"22")
    storage.create("a/data/run/n=00/three", b"333")
    storage.move("a/data/run/n=0", "a/data/run/day=2024-01-31/region=eu")
    assert storage.sizes("a/data/run") == {
        "a/data/run/day=2024-01-31/region=eu/p=x/one": 1,
        "a/data/run/day=2024-01-31/region=eu/two": 2,
        "a/data/run/n=00/three": 3,
    }
    assert storage.read("a/data/run/day=2024-01-31/region=eu/two") == b"22"
