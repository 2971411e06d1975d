"""The example of increments in two waves: append, `rows: new`, `ctx.new`, `.at()` and merge, with nulls as keys."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl

from tests.acceptance.deployment import Deployment
from tests.waiting import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "increments"
FILES = ("workflows/orders.py", "workflows/consumers.yaml", "sources/orders.yaml", "customers.py")
COLUMNS = "id,customer,amount,paid,ordered\n"
WAVES = (
    "1,anna,1.50,true,2026-01-01T09:00:00Z\n2,,2.50,true,2026-01-01T10:00:00Z\n3,bert,3.50,false,2026-01-01T11:00:00Z\n",
    "4,anna,4.50,true,2026-01-02T09:00:00Z\n5,,5.50,false,2026-01-02T10:00:00Z\n6,carl,6.50,true,2026-01-02T11:00:00Z\n",
)
# Beside the example: an append that brings a column and is split by one, and a merge that has to be refused.
MORE = """
slug: orders-followed
steps:
  - id: followed
    job: {kind: spark.python, entrypoint: "followed:followed"}
    consumes: [{assetId: orders.all}]
    produces:
      - assetId: orders.followed
        table: {mode: append, partitionBy: [customer]}
        autoMaterialize: {onUpstreamUpdate: true}
        checks: [{unique: [id]}]
---
slug: orders-doubled
steps:
  - id: doubled
    job: {kind: spark.sql, sql: "SELECT customer, id FROM orders_all"}
    retry: {maxAttempts: 1}
    consumes: [{assetId: orders.all}]
    produces: [{assetId: orders.doubled, table: {mode: merge, keys: [customer]}}]
"""
JOBS = '''
from pyspark.sql import functions as F

def followed(ctx):
    """New orders; from the second wave on with how many the customer had in the version before."""
    orders = ctx.inputs["orders.all"]
    new = ctx.new("orders.all").select("id", "customer")
    if ctx.full_refresh:
        return new
    earlier = orders.at(orders.version - 1).groupBy(F.col("customer").alias("who")).agg(F.count("*").alias("earlier"))
    return new.join(earlier, new.customer.eqNullSafe(earlier.who), "left").drop("who")
'''
# Some columns of each table, and what they hold in its two versions.
EXPECTED: dict[str, tuple[list[str], set[tuple[Any, ...]], set[tuple[Any, ...]]]] = {
    "orders.all": (["id"], {(1,), (2,), (3,)}, {(1,), (2,), (3,), (4,), (5,), (6,)}),
    "orders.paid": (["id"], {(1,), (2,)}, {(1,), (2,), (4,), (6,)}),
    "customers.latest": (
        ["customer", "amount"],
        {("anna", Decimal("1.5")), (None, Decimal("2.5")), ("bert", Decimal("3.5"))},
        {("anna", Decimal("4.5")), (None, Decimal("5.5")), ("bert", Decimal("3.5")), ("carl", Decimal("6.5"))},
    ),
    "orders.followed": (
        ["id", "customer", "earlier"],
        {(1, "anna"), (2, None), (3, "bert")},
        {(1, "anna", None), (2, None, None), (3, "bert", None), (4, "anna", 1), (5, None, 1), (6, "carl", None)},
    ),
}
AUTOMATIC = tuple(EXPECTED)
Versions = dict[str, list[tuple[str, int, list[str]]]]


def write_orders(root: Path) -> None:
    """Write the example's own files, and ours beside them."""
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(EXAMPLE / name, root / name)
    (root / "workflows" / "more.yaml").write_text(MORE)
    (root / "followed.py").write_text(JOBS)
    (root / "arrived").mkdir()


def run_orders(deployment: Deployment) -> Versions:
    """Both waves, and in between a merge by hand; then each version of each table."""
    _deliver(deployment, 1)
    deployment.cli("run", "orders-doubled", "--wait")
    _deliver(deployment, 2)
    deployment.cli("run", "orders-doubled", "--wait", check=False)
    merged, refused = (run for run in deployment.runs() if run["workflowSlug"] == "orders-doubled")
    assert (merged["status"], refused["status"]) == ("succeeded", "failed")
    assert "2 new rows have the same customer; merging needs one row per key" in refused["error"]["message"]
    return {asset: _versions(deployment, asset) for asset in (*AUTOMATIC, "orders.doubled")}


def _deliver(deployment: Deployment, wave: int) -> None:
    (deployment.root / "arrived" / f"{wave}.csv").write_text(COLUMNS + WAVES[wave - 1])
    deployment.cli("report", "orders.raw", "--version", str(wave))
    deployment.wait_fresh(*AUTOMATIC, timeout=200)


def _versions(deployment: Deployment, asset: str) -> list[tuple[str, int, list[str]]]:
    """Oldest first: the data version, of how many parts the table is, all of its rows as text."""
    snapshots = list(reversed(deployment.reader.snapshots(asset)))
    tables = [_table(deployment, asset, one["tableVersion"]) for one in snapshots]
    if asset in EXPECTED:
        columns, *expected = EXPECTED[asset]
        told = [table.select(one for one in columns if one in table.columns).rows() for table in tables]
        assert [sorted(rows, key=str) for rows in told] == [sorted(rows, key=str) for rows in expected]
    parts = [len(one["parts"] or [()]) for one in snapshots]
    rows = [sorted(map(str, table.iter_rows(named=True))) for table in tables]
    return list(zip([one["dataVersion"] for one in snapshots], parts, rows, strict=True))


def _table(deployment: Deployment, asset: str, version: int) -> pl.DataFrame:
    directory = deployment.root / ".freshline" / "warehouse" / asset
    wait_until((directory / "_delta_log" / f"{version:020}.json").exists, what=f"the log of {asset}")
    return pl.read_delta(str(directory), version=version)
