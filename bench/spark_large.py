"""20 million rows through a `spark.sql` step with fingerprint and publication, against Spark's own write of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from bench.measure import Claim, Options, Pairs, Result
from bench.sparkling import sides

GOAL = 1.15
ROWS = 20_000_000
SESSIONS = 2  # of each side: Java compiles the same code in one process better than in another
PAIRS = 8  # in all sessions: one write differs from the next by a fifth on a machine that others use too
WARM = 2  # the first writes of a JVM are slower than the rest
TOLD = 3  # pairs with checks, and with a step's options on either side: they have no goal, and are told
QUERY = (
    "SELECT id, CAST(id % 1000 AS INT) AS k, (id + :salt) * 0.5D AS v, concat('n', id % 10000) AS name"
    " FROM range(0, {rows}, 1, 8)"
)
CHECKS = [{"notNull": ["id", "name"]}, {"range": {"column": "k", "min": 0, "max": 999}}]


def run(options: Options) -> Result:
    """In turns: Spark's own write, and ours; some of ours with two checks, some against a write like ours."""
    rows = options.rows or options.size(ROWS, 20_000)
    plain, checked, raw = Pairs(), Pairs(), Pairs()
    sessions = options.size(SESSIONS, 1)
    rounds = -(-options.rounds(PAIRS) // sessions)  # as many in each: rounded up
    for session in range(sessions):
        more = {} if session else {"checked": CHECKS}
        with sides(QUERY.format(rows=rows), {"large": (), **more}, warm=options.size(WARM, 1)) as both:
            for number in range(1, rounds + 1):
                bare = _settled(partial(both.plain, number))
                measured = _settled(partial(both.freshline, "large", number))
                plain.add(measured, bare)
                if more and number <= TOLD:
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
    """Measured when what the one before has written is on the disk: nobody pays for another one's pages."""
    os.sync()
    return work()
