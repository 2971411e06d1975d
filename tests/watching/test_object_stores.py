"""Files in an object store: the same deliveries, known by their ETags. `make full` has moto keep the files too.

FRESHLINE_TEST_BUCKET=s3://bucket/path (or az://container/path), with credentials in the environment, has a real store
keep the files too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from freshline.storage.object_store import object_storage_at
from tests.object_store_server import SECRET, Answer, ObjectStore
from tests.watching.harness import SOURCE, Watching, watching

REAL = os.environ.get("FRESHLINE_TEST_BUCKET")


@dataclass
class Bucket:
    """A project whose source is in a bucket, at an address."""

    place: Watching
    address: str

    def put(self, name: str, text: bytes = b"id\n1\n") -> None:
        """Put an object."""
        object_storage_at(self.address).replace(name, text)

    def apply(self, pattern: str, mode: str = "append", **watch: str) -> None:
        """Watch the objects of a pattern."""
        self.place.apply({"files": f"{self.address}/{pattern}", **watch}, mode=mode, allow=[self.address])

    def apply_days(self) -> None:
        """Watch the objects of days."""
        watch, days = {"files": f"{self.address}/dt={{partitionKey}}/*.csv"}, {"time": "day", "start": "2026-01-01"}
        source = {"assetId": SOURCE, "watch": watch, "partitioning": days, "allow": [self.address]}
        self.place.lab.apply(sources=(source,), root=self.place.root)

    def paths(self, query: str) -> list[str]:
        """Return the paths that a query returns, below the address."""
        return sorted(row["path"].removeprefix(f"{self.address}/") for row in self.place.lab.rows(query))


@pytest.fixture(params=["ours", pytest.param("moto", marks=pytest.mark.full), *(["real"] if REAL else [])])
def bucket(database_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bucket]:
    """Yield a project whose source is in a bucket of the tests, of moto, or of FRESHLINE_TEST_BUCKET."""
    if request.param == "ours":
        request.getfixturevalue("objects")
    address = {"ours": "s3://bucket/in", "real": f"{REAL}/{uuid4()}"}.get(request.param)
    address = address or request.getfixturevalue("moto_bucket")
    with watching(database_url, tmp_path) as place:
        yield Bucket(place, address)


DELIVERED = "SELECT items -> 0 -> 'payload' ->> 'path' AS path FROM deliveries"
CHANGED = "SELECT path FROM watched_files WHERE state = 'changed'"


def test_objects_are_delivered_once_and_changes_are_conflicts(bucket: Bucket) -> None:
    """An object is complete when it is listed. Markers gate directories, and several pages of a listing are read."""
    place = bucket.place
    for number in range(7):
        bucket.put(f"a/{number}.csv")
    bucket.put("b/1.csv")
    bucket.put("a/_SUCCESS", b"")
    bucket.apply("*/*.csv", marker="_SUCCESS")
    assert place.look()["summary"] == "8 files match, 7 are new, 1 waits for _SUCCESS in its directory."
    assert bucket.paths(DELIVERED) == [f"a/{number}.csv" for number in range(7)]
    bucket.put("a/0.csv", b"id\n1\n2\n")
    bucket.put("b/_SUCCESS", b"")
    place.look()
    place.look()
    assert len(bucket.paths(DELIVERED)) == place.events() == 8
    assert bucket.paths(CHANGED) == ["a/0.csv"]


def test_a_version_of_a_bucket_is_a_digest(bucket: Bucket) -> None:
    """A snapshot source gets a version when an object is added, changed or removed."""
    place = bucket.place
    bucket.put("1.csv")
    bucket.apply("*.csv", mode="snapshot")
    place.look()
    version = place.lab.head(SOURCE)["data_version"]
    bucket.put("2.csv")
    place.look()
    object_storage_at(bucket.address).remove(["2.csv"])
    place.look()
    assert (place.events(), place.lab.head(SOURCE)["data_version"] == version) == (3, True)


def test_the_objects_of_each_key_are_a_version_of_its_partition(bucket: Bucket) -> None:
    """By a digest of their names, sizes and ETags. What has no key of the source is named."""
    place = bucket.place
    for name in ("dt=2026-01-02/1.csv", "dt=2026-01-03/1.csv", "dt=2025-01-01/1.csv"):
        bucket.put(name)
    bucket.apply_days()
    place.look(hours=1)
    bucket.put("dt=2026-01-02/1.csv", b"id\n1\n2\n")
    row = place.look(hours=1)
    place.look(hours=1)
    rows = place.lab.rows(
        "SELECT data ->> 'partitionKey' AS key FROM events WHERE subject = %s ORDER BY position", SOURCE
    )
    assert sorted(one["key"] for one in rows[:2]) == ["2026-01-02", "2026-01-03"]
    assert [one["key"] for one in rows[2:]] == ["2026-01-02"]
    assert [one["subject"] for one in row["conflicts"]] == [f"{bucket.address}/dt=2025-01-01/1.csv"]


def test_a_store_that_refuses_is_an_error_without_secrets(
    database_url: str, tmp_path: Path, objects: ObjectStore
) -> None:
    """The error names the address and what the store said."""
    with watching(database_url, tmp_path) as place:
        Bucket(place, "s3://bucket/in").apply("*.csv")
        objects.fault = lambda _request: Answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        row = place.look()
    assert row["error"].startswith("s3://bucket/in cannot be listed: ")
    assert "AccessDenied" in row["error"]
    assert SECRET not in row["error"]
