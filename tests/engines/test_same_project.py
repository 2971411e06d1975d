"""Our examples, unchanged, on this machine, on a Connect server and on a cluster: the same data versions everywhere.

Tables that are appended to and merged too: the same rows in every version.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.deployment import Deployment
from tests.engines.orders import Versions, run_orders, write_orders
from tests.engines.servers import TOKEN, Cluster, ConnectServer

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.full, pytest.mark.timeout(600)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "engines"
# Beside the example: types of all kinds, and code of the project inside Spark.
ROWS = "k,v,at\na,1,2024-01-01T10:00:00Z\na,2,2024-03-31T01:30:00Z\nb,,1969-12-31T23:59:59.999999Z\nc,-7,\n"
SOURCE = "assetId: raw\nformat: csv\npath: {path}\n"
NOTED = """
slug: noted
steps:
  - id: note
    job: {kind: python, entrypoint: "shop.jobs:note"}
    consumes: [{assetId: raw}]
    produces: [{assetId: noted, autoMaterialize: {onUpstreamUpdate: true}}]
"""
TYPED = """
slug: typed
spark: {conf: {spark.sql.shuffle.partitions: 3}}
steps:
  - id: typed
    job:
      kind: spark.sql
      sql: >-
        SELECT k, count(*) AS n, CAST(sum(v) AS decimal(20, 3)) AS s, avg(v) AS a, max(at) AS at,
        CAST(max(at) AS date) AS d, sort_array(collect_list(v)) AS vs, map(k, max(at)) AS m,
        named_struct('x', k, 'y', CAST(NULL AS binary)) AS st, CAST('NaN' AS float) AS f
        FROM raw GROUP BY k
    consumes: [{assetId: raw}]
    produces:
      - assetId: typed
        autoMaterialize: {onUpstreamUpdate: true}
        checks: [{unique: [k]}, {minRows: 3}, {sql: "n > 0"}]
"""
SCORED = """
from freshline import asset, on_upstream_update
from shop.scores import score

@asset("scored", auto=on_upstream_update(), table={"partitionBy": ["k"]})
def scored(typed):
    return typed.select("k", "at", score("n", "a").alias("score"))
"""
JOBS = """
def note(ctx): return {"assets": [{"assetId": "noted", "dataVersion": ctx.inputs["raw"].data_version}]}
"""
SCORES = """
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType

@F.udf(StructType().add("twice", LongType()).add("text", StringType()))
def score(n, a): return (2 * n, f"{a}")
"""
AUTOMATIC = ("noted", "typed", "scored", "numbers.remainders")
ASSETS = (*AUTOMATIC, "numbers.summed")


def write_project(deployment: Deployment) -> None:
    """Prepare the example with more workflows, and report their source."""
    root = deployment.root
    shutil.copytree(EXAMPLE, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".freshline", "__pycache__"))
    data = root / "data" / "raw.csv"
    files = {
        data: ROWS,
        root / "sources" / "raw.yaml": SOURCE.format(path=data),
        root / "workflows" / "noted.yaml": NOTED,
        root / "workflows" / "typed.yaml": TYPED,
        root / "workflows" / "scored.py": SCORED,
        root / "shop" / "jobs.py": JOBS,
        root / "shop" / "scores.py": SCORES,
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    write_orders(root)
    deployment.apply()
    deployment.cli("report", "raw", "--version", "1")


def versions(deployment: Deployment) -> tuple[dict[str, str], Versions]:
    """Run all of it; the version of each asset, and every version of the orders."""
    write_project(deployment)
    deployment.start_all()
    deployment.wait_fresh(*AUTOMATIC, timeout=300)
    orders = run_orders(deployment)
    deployment.cli("run", "numbers-summed", "--wait")  # of size large, and by hand, as its README has it
    assert {run["status"] for run in deployment.runs() if run["workflowSlug"] != "orders-doubled"} == {"succeeded"}
    found = {asset: version for asset, version in deployment.versions().items() if asset in ASSETS}
    assert found.keys() == set(ASSETS)
    return found, orders


@pytest.fixture(scope="module")
def local(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], Versions]:
    """Return the versions on this machine, with which the others are compared."""
    deployment = Deployment(tmp_path_factory.mktemp("local") / "project", module_database_url)
    try:
        return versions(deployment)
    finally:
        deployment.stop_all()


def test_on_a_connect_server(
    deployment: Deployment, connect: ConnectServer, local: tuple[dict[str, str], Versions]
) -> None:
    """The same versions; the token is in no table, log, argument or answer."""
    deployment.environ |= {"FRESHLINE_SPARK_REMOTE": connect.url, "FRESHLINE_SPARK_TOKEN": TOKEN}
    assert versions(deployment) == local
    assert TOKEN not in everything_stored(deployment)
    assert TOKEN not in deployment.logs()
    assert TOKEN not in deployment.cli("workers", "--json") + deployment.cli("status") + deployment.cli(
        "events", "--json"
    )
    arguments = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert TOKEN not in arguments


def test_on_a_cluster(deployment: Deployment, cluster: Cluster, local: tuple[dict[str, str], Versions]) -> None:
    """The same versions; a function of the project runs on executors that have never seen the project."""
    deployment.environ |= {"FRESHLINE_SPARK_MASTER": cluster.url, "SPARK_LOCAL_IP": "127.0.0.1"}
    assert versions(deployment) == local


def everything_stored(deployment: Deployment) -> str:
    """Every row of every table as text."""
    with deployment.database.connection() as connection:
        query = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
        names = [row["relname"] for row in connection.execute(query)]
        rows = [connection.execute(f'SELECT t::text AS row FROM "{name}" t').fetchall() for name in names]
    assert len(names) > 10
    return "\n".join(row["row"] for table in rows for row in table)
