"""Memory of a materializer with 100,000 assets over an hour's worth of events, against its own second quarter."""

from __future__ import annotations

import statistics
from pathlib import Path

import psycopg

from bench import graph, load
from bench.measure import Claim, Options, Result, echo, phase
from bench.server import IDLE, listening, materializers, opened, started

GOAL, MOST_MB = 1.05, 300.0
A_SECOND = 10  # events per second
BATCH = 500
# The effect of workers: the runs succeeded, their workflows consumed the pinned versions, no output changed.
DONE = """
WITH ended AS (
    UPDATE runs SET status = 'succeeded', finished_at = now() WHERE status = 'queued' RETURNING workflow_id, pins
)
UPDATE workflow_partitions p SET consumed_versions = e.pins, succeeded_at = now()
  FROM ended e WHERE p.workflow_id = e.workflow_id
"""


def run(options: Options) -> Result:
    """Send events in batches as fast as they are decided, and read the resident memory after each."""
    assets, events = options.size(100_000, 1_000), options.size(3600 * A_SECOND, 400)
    batch = min(BATCH, max(1, events // 8))
    sizes: list[float] = []
    with started() as server:
        layout = graph.layers(assets)  # the shape that needs more memory
        url = server.database()
        with phase(f"a graph of {layout.assets} assets"):
            graph.store(url, layout)
        with materializers(server, url) as (process,), opened(url) as store, listening(url) as listener:
            for number, first in enumerate(range(0, events, batch)):
                chosen = [layout.sources[(first + one) % len(layout.sources)] for one in range(batch)]
                load.report_all(store, sorted(set(chosen)), f"e{number}")
                store.database.notify("events")
                listener.until("runs", IDLE)
                with psycopg.connect(url) as connection:
                    connection.execute(DONE)
                sizes.append(resident_mb(process.pid))
            most = resident_mb(process.pid, "VmHWM")
        figures = {"assets": layout.assets, "events": events, "first_mb": sizes[0], "server": server.settings}
    quarter = len(sizes) // 4
    second, last = sizes[quarter : 2 * quarter], sizes[-quarter:]
    echo(f"  resident MB by eighths: {[round(one) for one in sizes[:: max(1, len(sizes) // 8)]]}")
    claims = [
        Claim("last quarter, against the second", statistics.median(last) / statistics.median(second), GOAL),
        Claim("most", most, MOST_MB, unit=" MB"),
    ]
    return Result("memory", claims, last, second, "MB", figures)


def resident_mb(pid: int, what: str = "VmRSS") -> float:
    """Return the resident memory of a process, or (VmHWM) its peak."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith(f"{what}:")]
    return int(line.split()[1]) / 1024
