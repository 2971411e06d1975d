"""A watched directory with real processes: every row of every file is loaded once, whatever is killed."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import polars as pl
import pytest

from tests.acceptance.deployment import Deployment
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.spark]

FILES = 1_000
KILLS = 6
SOURCE = """
assetId: landing.orders
mode: append
format: csv
path: drop
options: { header: "true" }
watch: { files: "drop/*.csv", every: 1s, timeout: 1s }
"""
WORKFLOW = """
slug: orders
backoff: {baseMs: 300, maxMs: 300}
steps:
  - id: load
    job: {kind: spark.sql, sql: "SELECT CAST(id AS bigint) AS id FROM landing_orders"}
    consumes: [{assetId: landing.orders, rows: new}]
    produces:
      - assetId: orders
        table: {mode: append}
        autoMaterialize: {onUpstreamUpdate: true}
"""


def drop(directory: Path, numbers: range, seed: int) -> None:
    """Write files in bursts: in place, or beside the directory and moved in."""
    chance = random.Random(seed)  # noqa: S311 - a test that can be repeated
    pause = threading.Event()
    for number in numbers:
        name, text = f"{number:04}.csv", f"id\n{number}\n"
        if chance.random() < 0.5:
            (directory / name).write_text(text)
        else:
            beside = directory.parent / f"part-{name}"
            beside.write_text(text)
            beside.rename(directory / name)
        if chance.random() < 0.05:
            pause.wait(chance.random())


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_thousand_files_in_bursts_with_kills_are_loaded_once(deployment: Deployment) -> None:
    """Two writers, and kill -9 of the materializer and of the worker in between: 1,000 rows, and one delivery each."""
    directory = deployment.root / "drop"
    directory.mkdir()
    (deployment.root / "sources").mkdir(exist_ok=True)
    (deployment.root / "sources" / "landing.yaml").write_text(SOURCE)
    (deployment.root / "workflows" / "orders.yaml").write_text(WORKFLOW)
    deployment.apply()
    materializer, worker = deployment.start_all()
    half = FILES // 2
    writers = [
        threading.Thread(target=drop, args=(directory, range(half), 1)),
        threading.Thread(target=drop, args=(directory, range(half, FILES), 2)),
    ]
    for writer in writers:
        writer.start()
    for number in range(KILLS):
        reached = FILES * (number + 1) // (KILLS + 2)
        wait_until(lambda reached=reached: delivered(deployment) >= reached, 300, what=f"{reached} deliveries")  # type: ignore[misc]
        deployment.kill(materializer)
        materializer = deployment.start("materializer")
        if number % 2:
            deployment.kill(worker)
            worker = deployment.start("worker")
    for writer in writers:
        writer.join()
    wait_until(lambda: delivered(deployment) == FILES, 300, what="all files are delivered")
    wait_until(lambda: len(rows(deployment)) >= FILES, 900, every=1.0, what="all rows are loaded")
    deployment.wait_fresh("orders", timeout=300)
    assert sorted(rows(deployment)) == list(range(FILES))
    paths = [one["path"] for one in deployment.reader.deliveries("landing.orders", 2 * FILES)]
    assert len(paths) == len(set(paths)) == FILES
    events = deployment.reader.events(2 * FILES, type="asset.produced", subject="landing.orders")
    assert len({one["data"]["payload"]["path"] for one in events}) == len(events) == FILES


def delivered(deployment: Deployment) -> int:
    """Return the number of deliveries."""
    found = deployment.reader.deliveries("landing.orders", 1)
    return found[0]["number"] if found else 0


def rows(deployment: Deployment) -> list[int]:
    """Return the rows of the table, as another system reads them."""
    table = deployment.root / ".freshline" / "warehouse" / "orders"
    if not (table / "_delta_log").exists():
        return []
    return list(pl.read_delta(str(table))["id"])
