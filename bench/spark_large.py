"""20 million rows through a `spark.sql` step with fingerprint and publication, against Spark's own write of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from bench.measure import Claim, Options, Pairs, Result
from bench.sparkling import sides

GOAL = 1.15
ROWS = 20_000_000
SESSIONS = 2  # per side: the JVM compiles the same code differently in each process
PAIRS = 8  # over all sessions: writes vary by a fifth on a shared machine
WARM = 2  # the first writes of a JVM are slower than the rest
EXTRA = 3  # pairs with checks, and with a step's options on both sides: shown without a goal
QUERY = (
    "SELECT id, CAST(id % 1000 AS INT) AS k, (id + :salt) * 0.5D AS v, concat('n', id % 10000) AS name"
    " FROM range(0, {rows}, 1, 8)"
)
CHECKS = [{"notNull": ["id", "name"]}, {"range": {"column": "k", "min": 0, "max": 999}}]


def run(options: Options) -> Result:
    """Measure Spark's own write and ours in turns; some with two checks, some against a write with our options."""
    rows = options.rows or options.size(ROWS, 20_000)
    plain, checked, raw = Pairs(), Pairs(), Pairs()
    sessions = options.size(SESSIONS, 1)
    rounds = -(-options.rounds(PAIRS) // sessions)  # the same number in each, rounded up
    for session in range(sessions):
        more = {} if session else {"checked": CHECKS}
        with sides(QUERY.format(rows=rows), {"large": (), **more}, warm=options.size(WARM, 1)) as both:
            for number in range(1, rounds + 1):
                bare = _settled(partial(both.plain, number))
                measured = _settled(partial(both.freshline, "large", number))
                plain.add(measured, bare)
                if more and number <= EXTRA:
                    raw.add(measured, _settled(partial(both.plain, number, raw=True)))
                    checked.add(_settled(partial(both.freshline, "checked", number)), bare)
            settings = both.settings
    claims = [
        Claim("without checks, against Spark's own write", plain.ratio, GOAL),
        Claim("with two checks, against Spark's own write", checked.ratio),
        Claim("without checks, against Spark's write with a step's options", raw.ratio),
    ]
    figures = {"rows": rows, "with_checks_s": checked.measured, "server": settings}
    return Result("spark-large", claims, plain.measured, plain.baseline, "s", figures)


def _settled(work: Callable[[], float]) -> float:
    """Measure after the pages of the previous write are on the disk, so that no write pays for another."""
    os.sync()
    return work()
