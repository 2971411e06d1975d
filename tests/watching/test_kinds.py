"""The kinds on the real store: what a look found and its position are one transaction, so nothing is reported twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from freshline import failpoints
from freshline.store.db.database import Row
from tests.watching.harness import SOURCE, Watching, watching
from tests.watching.http_server import FileServer
from tests.watching.kafka_cluster import Cluster
from tests.webhooks.conftest import LOOPBACK

SCHEMA = pa.schema([("id", pa.int64())])
Outside = tuple[dict[str, Any], Callable[[], None]]


@pytest.fixture
def place(database_url: str, tmp_path: Path) -> Iterator[Watching]:
    """Yield a project whose watcher may request this machine."""
    with watching(database_url, tmp_path, webhook_allow_private=LOOPBACK) as found:
        yield found


@pytest.fixture(params=["sql", "kafka", *(pytest.param(one, marks=pytest.mark.full) for one in ("http", "iceberg"))])
def outside(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    """Yield a watch of each kind, and what makes new data there; there is some already."""
    makers: dict[str, Callable[..., Iterator[Outside]]] = {"sql": sql, "http": http, "kafka": kafka, "iceberg": iceberg}
    yield from makers[request.param](tmp_path, monkeypatch)


def sql(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    """Yield a table in SQLite."""

    def execute(statement: str) -> None:
        with closing(sqlite3.connect(directory / "shop.db")) as connection:
            connection.execute(statement)
            connection.commit()

    execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    execute("INSERT INTO orders DEFAULT VALUES")
    monkeypatch.setenv("SHOP", f"sqlite:///{directory}/shop.db")
    watch = {"sql": "SELECT max(id) FROM orders", "url": {"env": "SHOP"}}
    yield watch, lambda: execute("INSERT INTO orders DEFAULT VALUES")


def http(_directory: Path, _monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    """Yield a file on a server."""
    server = FileServer()
    server.headers = {"ETag": '"0"'}

    def change() -> None:
        server.headers = {"ETag": f'"{int(server.headers["ETag"].strip(chr(34))) + 1}"'}

    yield {"http": server.url}, change
    server.close()


def kafka(_directory: Path, _monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    """Yield a topic."""
    cluster = Cluster()
    cluster.produce("orders", 1)
    yield {"kafka": "orders", "servers": cluster.servers}, lambda: cluster.produce("orders", 1)


def iceberg(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    """Yield a table of a catalog."""
    address = f"sqlite:///{directory}/catalog.db"
    catalog = load_catalog("default", uri=address, warehouse=f"file://{directory}/warehouse")
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.orders", schema=SCHEMA)

    def append() -> None:
        table.append(pa.table({"id": [1]}, schema=SCHEMA))

    append()
    monkeypatch.setenv("CATALOG", address)
    yield {"iceberg": "sales.orders", "catalog": {"env": "CATALOG"}}, append
    catalog.close()


def crash() -> None:
    """Fail as a process does that is killed here."""
    raise failpoints.FailpointError


def later(place: Watching) -> Row:
    """Look again. After a slow look, as the first one with its imports, the next one is not due for a while."""
    return place.look(hours=1)


def payloads(place: Watching) -> list[Any]:
    """Return the payloads of the deliveries, in their order."""
    rows = place.lab.rows("SELECT items -> 0 -> 'payload' AS p FROM deliveries ORDER BY last_number")
    return [row["p"] for row in rows]


def test_a_change_is_one_delivery(place: Watching, outside: Outside) -> None:
    """Also if the process is killed before or after the result was stored; looks without a change add nothing."""
    watch, change = outside
    place.apply(watch)
    assert later(place)["error"] is None
    later(place)
    for moment in ("before", "after"):
        change()
        with failpoints.armed(f"record_look:{moment}", crash), pytest.raises(failpoints.FailpointError):
            later(place)
        place.watcher.stop()
        place.watcher = type(place.watcher)(place.lab.store)
        later(place)
        later(place)
    found = payloads(place)
    assert len(found) == 3
    assert len({str(one) for one in found}) == 3
    assert place.lab.work() == ["orders"]


def test_a_change_is_one_version(place: Watching, outside: Outside) -> None:
    """Of a snapshot source."""
    watch, change = outside
    place.apply(watch, mode="snapshot")
    assert later(place)["error"] is None
    first = place.lab.head(SOURCE)["data_version"]
    later(place)
    assert place.events() == 1
    change()
    row = later(place)
    assert place.events() == 2
    assert place.lab.head(SOURCE)["data_version"] != first
    assert row["conflicts"] == []
