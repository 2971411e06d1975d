"""A small Spark step from queued to published on a warm worker, against the same job in a bare warm session.

A second figure compares with a new process and session per run, as `spark-submit` has it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.bare import Bare
from bench.measure import Claim, Options, Pairs, Result, say
from bench.play import phases
from bench.sparkling import sides

GOAL, MORE_MS, SUBMIT = 1.5, 150.0, 10.0
QUERY = (
    "SELECT k, count(*) AS n, sum(v) AS total FROM"
    " (SELECT id % 10 AS k, id * 3 + :salt AS v FROM range(0, 10000, 1, 2)) GROUP BY k"
)


def run(options: Options) -> Result:
    """Jobs in turns, then new processes."""
    pairs = Pairs()
    with sides(QUERY, {"small": ()}, warm=options.size(15, 2)) as both:
        for number in range(options.size(40, 3)):
            pairs.add(both.freshline("small", number + 1), both.plain(number + 1))
        figures: dict[str, Any] = {"parts_ms": phases(both.ear, len(pairs.measured)), "server": both.settings}
    submitted = [_submit(number) for number in range(options.size(5, 1))]
    say(f"  a new process per run: {[round(one, 1) for one in submitted]} s")
    more = statistics.median(a - b for a, b in zip(pairs.measured, pairs.baseline, strict=True))
    claims = [
        Claim("queued to published, against a bare warm session", pairs.ratio, GOAL),
        Claim("more than a bare warm session", 1000 * more, MORE_MS, unit=" ms"),
        Claim("vs_submit", statistics.median(submitted) / statistics.median(pairs.measured), SUBMIT, at_least=True),
    ]
    figures["submit_s"] = submitted
    return Result("spark-small", claims, pairs.measured, pairs.baseline, "s", figures)


def _submit(number: int) -> float:
    """One process from its start to its end: Spark's own settings, one query, one table."""
    with tempfile.TemporaryDirectory(prefix="freshline-bench-") as home:
        began = time.perf_counter()
        with Bare(Path(home), plain=True) as session:
            session.write(QUERY.replace(":salt", str(number)))
        return time.perf_counter() - began
