"""The example of docs/checks.md with real processes: a query from a file, checks, and what is seen of their results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from freshline.settings import load
from freshline.store.store import Store
from tests.acceptance.deployment import Deployment
from tests.docs.pages import CHECKS, session
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.full]


def test_the_example_of_the_page(deployment: Deployment) -> None:
    """A warning is published and told, a failed check publishes nothing and is told, and so is a wrong query."""
    good, bad = CHECKS.blocks("csv")
    warned, failed = (session(block)[0][1] for block in CHECKS.blocks("console"))
    project(deployment, good)
    deployment.start("worker")
    first = ended(deployment)
    assert first["status"] == "succeeded", first["error"]
    sees_the_warning(deployment, first, warned)
    (deployment.root / "data" / "orders.csv").write_text(bad)
    second = ended(deployment)
    assert second["status"] == "failed"
    sees_the_failure(deployment, second, failed)
    (deployment.root / "workflows" / "orders.sql").write_text("SELECT id, customer,\n  amont\nFROM orders_raw\n")
    deployment.apply()
    assert deployment.reader.run(second["id"])["workflowVersion"] == 1, "a run is pinned to what was applied"
    third = ended(deployment)
    assert third["workflowVersion"] == 2
    assert third["error"]["message"].startswith("workflows/orders.sql:2: [UNRESOLVED_COLUMN")
    assert "\n  2 |   amont\n        ^" in third["error"]["message"]


def project(deployment: Deployment, rows: str) -> None:
    """Return the files of the page, each under the name in its first line."""
    (deployment.root / "sources").mkdir()
    (deployment.root / "data").mkdir()
    for text in CHECKS.blocks("yaml", "sql"):
        name = re.split(r"# |-- ", text.splitlines()[0])[1]
        (deployment.root / name).write_text(text)
    (deployment.root / "data" / "orders.csv").write_text(rows)
    deployment.apply()
    deployment.cli("report", "orders.raw")


def ended(deployment: Deployment) -> Any:
    """Return a run after its end."""
    store = Store(deployment.database, load(deployment.environ))
    run_id = store.operations.request_run("orders")
    wait_until(lambda: deployment.reader.run(run_id)["finishedAt"] is not None, 180, what="the end of the run")
    return deployment.reader.run(run_id)


def sees_the_warning(deployment: Deployment, run: dict[str, Any], shown: list[str]) -> None:
    """In the account of the run and in the event; the page shows the same words."""
    told = deployment.cli("runs", run["id"])
    assert "orders.clean: 1 of 3 checks did not pass" in told
    assert shown[1].strip() in told
    (event,) = [one for one in deployment.reader.events(20, subject="orders.clean") if one["type"] == "asset.produced"]
    assert event["data"]["checks"] == [
        {"check": "no refunds", "severity": "warn", "passed": False, "observed": {"count": 1, "min": -5, "max": 20}},
        {"check": "minRows", "severity": "error", "passed": True, "observed": 2},
        {"check": "unique(id)", "severity": "error", "passed": True, "observed": 0},
    ]


def sees_the_failure(deployment: Deployment, run: dict[str, Any], shown: list[str]) -> None:
    """Assert that the error is that of the page, with directory and results, and that the head has not moved."""
    error = run["error"]
    assert error["message"].startswith(shown[0])
    assert (error["code"], error["step"], len(run["steps"])) == ("check", "clean", 1)
    assert (error["checks"][0]["check"], error["checks"][0]["passed"]) == ("unique(id)", False)
    found = re.search(r"\(the data is in (\S+) for 24 h\)", error["message"])
    assert found
    assert duckdb.sql(f"SELECT count(*) FROM '{Path(found[1])}/*.parquet'").fetchall() == [(3,)]
    assert "error unique(id): column 'id': 1 value occurs more than once" in deployment.cli("logs", run["id"])
    assert deployment.reader.snapshot("orders.clean")["version"] == 1
