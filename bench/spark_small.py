"""A small Spark step from queued to published on a warm worker, against the same job in a bare warm session.

A second figure compares with one `spark-submit` for each run.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyspark

from bench.measure import Claim, Options, Pairs, Result, echo, seconds
from bench.play import phases
from bench.sparkling import sides

GOAL, MORE_MS, SUBMIT = 1.5, 150.0, 10.0
SCRIPT = """
import sys
from pyspark.sql import SparkSession
SparkSession.builder.getOrCreate().sql(sys.argv[1]).write.parquet(sys.argv[2])
"""
QUERY = (
    "SELECT k, count(*) AS n, sum(v) AS total FROM"
    " (SELECT id % 10 AS k, id * 3 + :salt AS v FROM range(0, 10000, 1, 2)) GROUP BY k"
)


def run(options: Options) -> Result:
    """Measure jobs in turns, and after some of them a new process."""
    pairs, submitted = Pairs(), list[float]()
    with sides(QUERY, {"small": ()}, warm=options.size(15, 2)) as both:
        for number in range(1, options.size(40, 3) + 1):
            pairs.add(both.freshline("small", number), both.plain(number))
            if number % options.size(8, 3) == 0:
                submitted.append(_submit(number))
        figures: dict[str, Any] = {"parts_ms": phases(both.listener, len(pairs.measured)), "server": both.settings}
    echo(f"  spark-submit for each run: {[round(one, 1) for one in submitted]} s")
    more = statistics.median(a - b for a, b in zip(pairs.measured, pairs.baseline, strict=True))
    claims = [
        Claim("queued to published, against a bare warm session", pairs.ratio, GOAL),
        Claim("more than a bare warm session", 1000 * more, MORE_MS, unit=" ms"),
        Claim(
            "faster than spark-submit",
            statistics.median(submitted) / statistics.median(pairs.measured),
            SUBMIT,
            at_least=True,
        ),
    ]
    figures["submit_s"] = submitted
    return Result("spark-small", claims, pairs.measured, pairs.baseline, "s", figures)


def _submit(number: int) -> float:
    """Measure one process from start to end: Spark's default settings, one query, one table."""
    program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    with tempfile.TemporaryDirectory(prefix="freshline-bench-") as home:
        script = Path(home) / "script.py"
        script.write_text(SCRIPT)
        command = [str(program), str(script), QUERY.replace(":salt", str(number)), f"{home}/table"]
        environ = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        return seconds(lambda: subprocess.run(command, check=True, capture_output=True, env=environ, cwd=home))
