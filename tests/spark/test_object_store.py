"""A warehouse in an object store: Spark writes and reads under its address, everybody else through S3's interface.

Spark from PyPI has no client of S3. Hadoop's own overlay puts a directory under the address instead: it is the one that
the object store of the tests serves, so both sides meet as they would in a bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from freshline.delta.log import LOG
from freshline.delta.sync import DeltaSync
from freshline.errors import EngineError, FreshlineError, JobError, UsageError, WarehouseError
from freshline.services.delta_log_writer import DeltaLogWriter
from freshline.services.vacuum import Vacuum
from freshline.spark.code_distribution import check_arrived
from freshline.storage.base import StorageError
from freshline.storage.snapshot_rows import query
from freshline.store.doctor.warehouse import Warehouse
from freshline.store.read.reader import Reader
from freshline.store.tables import versions as versioning
from tests.object_store_server import SECRET, Answer, ObjectStore, overlay
from tests.spark.spark_harness import SparkHarness, flow, job, local_engine
from tests.store_harness import laboratory

pytestmark = pytest.mark.spark


@pytest.fixture
def harness(database_url: str, objects: ObjectStore, spark: SparkSession) -> Iterator[SparkHarness]:
    """Yield a harness whose warehouse is an address."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in overlay(objects).items():
        hadoop.set(name, value)
    with laboratory(database_url, warehouse=objects.address) as lab:
        yield SparkHarness(lab, local_engine(spark))


def logged(harness: SparkHarness) -> None:
    """Everything that is published is in the logs."""
    scribe = DeltaLogWriter(harness.lab.store)
    while scribe.run_once():
        pass


def read(harness: SparkHarness, asset: str, version: int) -> list[tuple[Any, ...]]:
    """Read with Polars and its own client, or with `deltalake`: Polars does not find objects with a space."""
    address = harness.lab.storage.at(asset)
    if asset != "split":
        return sorted(pl.read_delta(address, version=version).rows(), key=repr)
    found = DeltaTable(address, version=version).to_pyarrow_table()
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def shown(harness: SparkHarness, asset: str, version: int | None = None, sql: str | None = None) -> list[list[Any]]:
    """Return what `freshline show` finds."""
    snapshot = Reader(harness.lab.database).snapshot(asset, version)
    return sorted(query(harness.lab.settings.warehouse_at, snapshot, sql, 1000).rows, key=repr)


def agree(harness: SparkHarness, asset: str) -> int:
    """Spark, Polars and `show` say the same of every version; how many there are."""
    logged(harness)
    versions = harness.lab.rows("SELECT sequence, table_version FROM snapshots WHERE asset_id = %s", asset)
    for one in versions:
        expected = harness.rows(asset, one["sequence"])
        assert read(harness, asset, one["table_version"]) == expected, f"others, {asset} {one}"
        assert [tuple(row) for row in shown(harness, asset, one["sequence"])] == expected, f"show, {asset} {one}"
    return len(versions)


@pytest.mark.full
def test_every_mode_is_read_by_everybody(harness: SparkHarness) -> None:
    """Overwrite, append, merge and split tables, with every version of each."""
    harness.lab.apply(
        flow("plain", "SELECT id, :n AS n FROM range(0, 4)"),
        flow("added", "SELECT id, n FROM plain", "plain", table={"mode": "append", "onReplacedInput": "append"}),
        flow(
            "merged",
            "SELECT id % 3 AS id, max(n) AS n FROM plain GROUP BY 1",
            "plain",
            table={"mode": "merge", "keys": ["id"]},
        ),
        flow(
            "split", "SELECT n, id, concat('a/b ', id % 2) AS part FROM plain", "plain", table={"partitionBy": ["part"]}
        ),
    )
    for n in (1, 2, 3):
        harness.run("plain", parameters={"n": n})
        harness.work()
    assert [agree(harness, asset) for asset in ("plain", "added", "merged", "split")] == [3, 3, 3, 3]
    assert len(harness.rows("added")) == 12
    assert shown(harness, "split", sql="SELECT DISTINCT part FROM split") == [["a/b 0"], ["a/b 1"]]
    assert all(one.healthy for one in Warehouse(harness.lab.store).examine(5))


def test_a_query_reads_one_version_and_nothing_else(harness: SparkHarness) -> None:
    """Neither other tables of the bucket nor files of this machine."""
    harness.lab.apply(flow("plain", "SELECT 1 AS n"), flow("other", "SELECT 2 AS n"))
    harness.run("plain")
    harness.run("other")
    address = harness.lab.storage.at(harness.snapshot("other")["location"]["paths"][0])
    for path in (f"{address}/*.parquet", f"{harness.lab.storage.at('plain')}/*", "/etc/hostname"):
        with pytest.raises(UsageError, match="file system operations are disabled by configuration"):
            shown(harness, "plain", sql=f"FROM read_text('{path}')")


def test_increments_are_read_once(harness: SparkHarness) -> None:
    """`rows: new` goes by the parts of a table, whose names are addresses."""
    harness.lab.apply(
        flow("plain", "SELECT :n AS n", table={"mode": "append"}),
        flow("copy", "SELECT n FROM plain", [{"assetId": "plain", "rows": "new"}], table={"mode": "append"}),
    )
    for n in (1, 2, 3):
        harness.run("plain", parameters={"n": n})
        harness.work()
    assert harness.rows("copy") == [(1,), (2,), (3,)]


def test_rows_that_other_machines_wrote_are_counted(harness: SparkHarness) -> None:
    """On a cluster; here too they may be missing, if the machines do not mean the same store."""
    harness.lab.apply(flow("plain", "SELECT id FROM range(0, 40, 1, 4)"))
    harness.run("plain")
    location = harness.snapshot("plain")["location"]
    check_arrived(harness.lab.storage, location, 40)
    with pytest.raises(WarehouseError, match=r"Spark wrote 41 rows to s3a://bucket/.*, but this machine sees 40"):
        check_arrived(harness.lab.storage, location, 41)


def test_a_lost_log_is_written_anew(harness: SparkHarness, objects: ObjectStore) -> None:
    """And one that somebody has spoilt."""
    harness.lab.apply(flow("plain", "SELECT :n AS n"))
    for n in range(4):
        harness.run("plain", parameters={"n": n})
    logged(harness)
    log = objects.warehouse / "plain" / LOG
    for spoil in (lost, spoilt):
        spoil(log)
        harness.lab.store.tables.rewrite_log("plain", DeltaSync(harness.lab.storage).rebuild)
        assert [read(harness, "plain", n) for n in range(4)] == [[(n,)] for n in range(4)]
    harness.run("plain", parameters={"n": 4})
    assert agree(harness, "plain") == 5


def lost(log: Path) -> None:
    """All of it."""
    for path in log.iterdir():
        path.unlink()


def spoilt(log: Path) -> None:
    """One commit says nothing."""
    (log / f"{2:020}.json").write_text("{}")


def test_long_logs_have_checkpoints(
    harness: SparkHarness, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`deltalake` writes them with the credentials of the environment."""
    monkeypatch.setattr("freshline.delta.sync.CHECKPOINT_EVERY", 2)
    harness.lab.apply(flow("plain", "SELECT :n AS n"))
    for n in range(4):
        harness.run("plain", parameters={"n": n})
    assert agree(harness, "plain") == 4
    assert sorted(path.name[:20] for path in (objects.warehouse / "plain" / LOG).glob("*.checkpoint.*")) == [f"{2:020}"]


def test_what_is_beyond_its_retention_goes(harness: SparkHarness, objects: ObjectStore) -> None:
    """The objects of old versions are deleted, and no others."""
    harness.lab.apply(flow("plain", "SELECT :n AS n", table={"keepVersions": 2, "keep": "0s"}))
    for n in range(4):
        harness.run("plain", parameters={"n": n})
        harness.lab.advance(seconds=1)
    vacuum = Vacuum(harness.lab.store)
    vacuum.run_once()
    harness.lab.advance(milliseconds=versioning.GRACE_MS + 1)
    vacuum.run_once()
    left = {path.parts[-2] for path in (objects.warehouse / "plain" / "data").rglob("*.parquet")}
    assert left == {row["location"]["paths"][0].rsplit("/", 1)[-1] for row in kept(harness)}
    assert len(left) == 2


def kept(harness: SparkHarness) -> list[dict[str, Any]]:
    """Return the snapshots whose files exist."""
    return harness.lab.rows("SELECT location FROM snapshots WHERE asset_id = 'plain' AND gone_at IS NULL")


def test_a_failed_check_publishes_nothing_and_says_where_the_data_is(
    harness: SparkHarness, objects: ObjectStore
) -> None:
    """By its address."""
    harness.lab.apply(flow("plain", "SELECT 1 AS n", checks=[{"minRows": 2}]))
    with pytest.raises(FreshlineError, match="nothing was published") as caught:
        harness.run("plain")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("the data is in s3a://bucket/warehouse/plain/data/")
    assert list((objects.warehouse / "plain").rglob("*.parquet")), "it is kept"


def test_data_that_changed_before_it_is_published_is_refused(harness: SparkHarness, objects: ObjectStore) -> None:
    """Sizes are compared with those of the bucket (docs/semantics.md#R9.4)."""
    harness.lab.apply(flow("plain", "SELECT 1 AS n"))
    lists = 0

    def fault(request: Any) -> Answer | None:
        nonlocal lists
        lists += "list-type" in request.query and request.query["prefix"].startswith("warehouse/plain/data/")
        if lists == 3:  # before the step, at its end, before publishing
            for path in (objects.warehouse / "plain" / "data").rglob("*.parquet"):
                path.write_bytes(b"short")
        return None

    objects.fault = fault
    with pytest.raises(WarehouseError, match=r"the staged data in s3a://bucket/.* is not what the step wrote: 1 other"):
        harness.run("plain")


def test_what_a_failed_step_wrote_is_removed(harness: SparkHarness, objects: ObjectStore) -> None:
    """Here too."""
    harness.lab.apply(flow("plain", job("fails_at_the_last_row")))
    with pytest.raises(FreshlineError):
        harness.run("plain")
    assert not list((objects.warehouse).rglob("*.parquet"))


def test_a_store_that_does_not_answer_is_told_without_secrets(harness: SparkHarness, objects: ObjectStore) -> None:
    """The run fails as with any warehouse that is away; nothing is published."""
    harness.lab.apply(flow("plain", "SELECT 1 AS n"))
    objects.fault = lambda _request: Answer(503, b"<Error><Code>SlowDown</Code></Error>")
    with pytest.raises(WarehouseError, match=r"s3a://bucket/warehouse/plain/data/.*SlowDown") as caught:
        harness.run("plain")
    assert SECRET not in str(caught.value)
    assert not harness.lab.rows("SELECT 1 FROM snapshots")


def test_a_spark_without_a_client_of_the_store_is_no_fault_of_the_workflow(
    harness: SparkHarness, spark: SparkSession
) -> None:
    """As it is from PyPI: the engine lacks something, and it says what."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.s3a.impl", "org.apache.hadoop.fs.s3a.S3AFileSystem")
    harness.lab.apply(flow("plain", "SELECT 1 AS n"))
    with pytest.raises(EngineError, match=r"no client for the warehouse: .*S3AFileSystem not found .*hadoop-aws"):
        harness.run("plain")


def test_a_source_elsewhere_without_a_client_is_the_workflows_own_fault(harness: SparkHarness) -> None:
    """It would hold up everybody else."""
    harness.lab.apply(flow("plain", "SELECT * FROM parquet.`gs://elsewhere/x`"))
    with pytest.raises(JobError, match="direct query on files"):
        harness.run("plain")


def test_a_table_that_cannot_be_read_for_lack_of_a_client_is_not_either(
    harness: SparkHarness, spark: SparkSession
) -> None:
    """A run that only reads there meets the same."""
    harness.lab.apply(flow("plain", "SELECT 1 AS n"), flow("copy", "SELECT n FROM plain", "plain", auto=None))
    harness.run("plain")
    spark.sparkContext._jsc.hadoopConfiguration().set("fs.s3a.impl", "org.apache.hadoop.fs.s3a.S3AFileSystem")
    with pytest.raises(EngineError, match="no client for the warehouse"):
        harness.run("copy")


def test_a_store_that_goes_away_is_told_by_show_without_a_traceback(
    harness: SparkHarness, objects: ObjectStore
) -> None:
    """As any other warehouse that cannot be read."""
    harness.lab.apply(flow("plain", "SELECT 1 AS n"))
    harness.run("plain")
    objects.fault = lambda request: Answer(403) if "range" in request.headers else None
    with pytest.raises(WarehouseError, match=r"cannot be read: .*403 Forbidden") as caught:
        shown(harness, "plain")
    assert "Traceback" not in str(caught.value)


def test_a_store_that_does_not_say_is_no_damage(harness: SparkHarness, objects: ObjectStore) -> None:
    """A head is not written anew, nor a step done again, because a list could not be had (ADR 0008)."""
    harness.lab.apply(flow("plain", "SELECT 1 AS n"))
    harness.run("plain")
    (before,) = harness.lab.rows("SELECT location FROM snapshots WHERE asset_id = 'plain'")
    prefix = f"warehouse/{before['location']['paths'][0]}/"
    objects.fault = lambda request: Answer(500) if request.query.get("prefix") == prefix else None
    with pytest.raises(StorageError, match="500"):
        harness.run("plain")
    objects.fault = lambda _request: None
    harness.run("plain")
    assert harness.snapshot("plain")["location"] == before["location"]
