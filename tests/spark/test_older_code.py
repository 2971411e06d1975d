"""Rows of two codes in one real table, until a full refresh makes them of one (docs/semantics.md#R9.9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.spark_harness import SparkHarness, flow, job, local_engine
from tests.store_harness import laboratory

pytestmark = pytest.mark.spark


def test_rows_of_both_codes(database_url: str, tmp_path: Path, spark: SparkSession) -> None:
    """Changed SQL appends and merges new rows at once; old rows stay as they were, and are counted until then."""
    with laboratory(database_url, warehouse=str(tmp_path / "w")) as lab:
        harness = SparkHarness(lab, local_engine(spark))
        table: dict[str, Any] = {"mode": "append"}
        raw = flow("raw", job("numbers"), "source", table={**table, "onReplacedInput": "append"})

        def project(factor: int) -> None:
            sql, new = f"SELECT n, n * {factor} AS m FROM raw", [{"assetId": "raw", "rows": "new"}]
            merge, redone = {"mode": "merge", "keys": ["n"]}, {"mode": "append", "onCodeChange": "rebuild"}
            tables = {"added": table, "merged": merge, "redone": redone}
            lab.apply(raw, *(flow(name, sql, new, table=mode) for name, mode in tables.items()))

        def undecided(name: str) -> Any:
            found = lab.store.reader.asset(name)["needsDecision"]
            return found and (found["rows"], found["exact"])

        project(10)
        lab.report("source", payload=[1, 2])
        harness.work()
        project(100)
        lab.report("source", payload=[2, 3])
        harness.work()
        assert harness.rows("added") == [(1, 10), (2, 20), (2, 200), (3, 300)]
        assert harness.rows("merged") == [(1, 10), (2, 200), (3, 300)]
        assert harness.rows("redone") == [(1, 100), (2, 200), (2, 200), (3, 300)]
        assert undecided("redone") is None
        assert undecided("added") == (2, True)
        assert undecided("merged") == (2, False)
        for name in ("added", "merged"):
            assert [part["workflowVersion"] for part in harness.snapshot(name)["code"]] == [1, 2]
        harness.run("added", full_refresh=True)
        assert harness.rows("added") == [(1, 100), (2, 200), (2, 200), (3, 300)]
        assert undecided("added") is None
        lab.store.operations.accept("merged")
        assert undecided("merged") is None
