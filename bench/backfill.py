"""A backfill of small daily Spark partitions, one run each and 30 per run, against a bare loop that does the same.

The loop reads the same files, computes the same query and writes Parquet in a warm session of its own process: one
directory for each day, or 30 days at once. Beside the wall time stands the processor time of all processes of a side.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb

from bench.bare import Bare
from bench.measure import Claim, Options, Result, phase, seconds
from bench.server import Listener, Project, Server, listening, materializers, opened, started, worker
from freshline.model.backfill import BackfillPolicy, BackfillRequest
from freshline.store.store import Store

DAYS = (365, 6)  # normal, and quick
ROWS = 10_000
BATCH = (30, 3)
GOALS = (1.5, 1.15)
TIMEOUT_S = 3_600.0
QUERY = "SELECT d AS day, k, count(*) AS n, sum(v) AS total FROM {} GROUP BY d, k"
SOURCE = """
assetId: raw
format: parquet
partitioning: {{time: day, start: {first}}}
path: {path}/{{partitionKey}}
"""
DEFINITION = """
slug: daily
steps:
  - id: work
    batch: true
    job: {{kind: spark.sql, sql: "{sql}"}}
    consumes: [{{assetId: raw}}]
    produces: [{{assetId: daily, partitioning: {{time: day, start: {first}}}}}]
"""
ENDED = "SELECT ended_at IS NOT NULL FROM backfills WHERE id = %s::uuid"
RUNS = """
SELECT count(*) FILTER (WHERE batch_id IS NULL OR batch_id = id),
       sum(extract(epoch FROM finished_at - started_at)) FILTER (WHERE batch_id IS NULL OR batch_id = id)
  FROM runs WHERE status = 'succeeded' AND trigger ->> 'backfillId' = %s
"""


@dataclass(frozen=True, slots=True)
class Side:
    """Both sides, open and warm. `pids`: of the processes of Freshline."""

    store: Store
    listener: Listener
    bare: Bare
    data: Path
    keys: Sequence[str]
    pids: Sequence[int]

    def freshline(self, batch: int, *, last: str | None = None) -> dict[str, Any]:
        """Compute the days by a backfill, and return its times and the number of its runs."""
        policy = BackfillPolicy(batch=batch, newest_first=False)
        began = processor(self.pids)
        found: list[str] = []

        def work() -> None:
            request = BackfillRequest("daily", first=self.keys[0], last=last or self.keys[-1], policy=policy)
            found.append(self.store.backfills.create(request))
            self.listener.notify("backfills")
            self.listener.until("events", ENDED, found[0], timeout_s=TIMEOUT_S)

        took = seconds(work)
        runs, inside = self.listener.row(RUNS, found[0])
        return {"s": took, "cpu_s": processor(self.pids) - began, "runs": runs, "in_runs_s": float(inside)}

    def plain(self, batch: int) -> dict[str, Any]:
        """Compute the same days in a loop."""
        began, took = processor([self.bare.pid]), 0.0
        for first in range(0, len(self.keys), batch):
            some = self.keys[first : first + batch]
            where = some[0] if len(some) == 1 else f"{{{','.join(some)}}}"
            took += self.bare.write(QUERY.format(f"parquet.`{self.data}/{where}`"), by=None if batch == 1 else "day")
        return {"s": took, "cpu_s": processor([self.bare.pid]) - began}


def run(options: Options) -> Result:
    """Measure one run for each day, and then batches; each beside the loop that does the same."""
    days = options.events or options.size(*DAYS)
    figures: dict[str, Any] = {"days": days, "rows": ROWS, "load_before": os.getloadavg()[0]}
    with started() as server, _sides(server, days) as side:
        with phase("two sessions, started and warm"):
            for _ in range(options.size(3, 1)):
                side.freshline(1, last=side.keys[min(4, days - 1)])
                side.freshline(options.size(*BATCH), last=side.keys[min(29, days - 1)])
                side.plain(options.size(*BATCH))
        for name, batch in (("single", 1), ("batches", options.size(*BATCH))):
            with phase(f"{name}: a loop"):
                plain = side.plain(batch)
            with phase(f"{name}: a backfill"):
                figures[name] = {"freshline": side.freshline(batch), "bare": plain}
        figures["server"] = server.settings
    figures["load_after"] = os.getloadavg()[0]
    claims = [
        Claim(f"{what}, {unit}", _ratio(figures[name], field), goal if field == "s" else None)
        for (name, what), goal in zip((("single", "one run each"), ("batches", "batches of 30")), GOALS, strict=True)
        for field, unit in (("s", "wall time"), ("cpu_s", "processor time"))
    ]
    measured = [figures[name]["freshline"]["s"] for name in ("single", "batches")]
    return Result(
        "backfill", claims, measured, [figures[name]["bare"]["s"] for name in ("single", "batches")], "s", figures
    )


def _ratio(found: dict[str, Any], field: str) -> float:
    return float(found["freshline"][field]) / float(found["bare"][field])


@contextmanager
def _sides(server: Server, days: int) -> Iterator[Side]:
    url = server.database()
    keys = _keys(days)
    data = server.home / "data"
    with phase(f"{days} days of {ROWS:,} rows"):
        _write(data, keys)
    project = Project(server.home / "backfill", url)
    (project.root / "sources").mkdir()
    (project.root / "sources" / "raw.yaml").write_text(SOURCE.format(first=keys[0], path=data))
    text = DEFINITION.format(first=keys[0], sql=QUERY.format("raw"))
    (project.root / "workflows" / "daily.yaml").write_text(text)
    project.call("apply", "--yes")
    with (
        opened(url) as store,
        listening(url) as listener,
        materializers(server, url) as running,
        worker(project) as process,
        Bare(server.home / "bare") as bare,
    ):
        for key in keys:
            store.operations.report("raw", version="v1", partition_key=key)
        listener.idle()
        yield Side(store, listener, bare, data, keys, [process.pid, *(one.pid for one in running)])


def _keys(days: int) -> list[str]:
    last = datetime.now(UTC) - timedelta(days=2)
    return [(last - timedelta(days=back)).date().isoformat() for back in reversed(range(days))]


def _write(data: Path, keys: Sequence[str]) -> None:
    for key in keys:
        (data / key).mkdir(parents=True)
        rows = duckdb.sql(
            "SELECT CAST($day AS DATE) AS d, i % 100 AS k, i * 7 AS v FROM range($rows) t (i)",
            params={"day": key, "rows": ROWS},
        )
        rows.write_parquet(str(data / key / "rows.parquet"))


def processor(pids: Sequence[int]) -> float:
    """Return the processor time of processes and all that they have started."""
    found: dict[int, tuple[int, float]] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                fields = (process / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            found[int(process.name)] = int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return sum(spent for pid, (_, spent) in found.items() if _belongs(pid, set(pids), found.get))


def _belongs(pid: int, pids: set[int], of: Callable[[int], tuple[int, float] | None]) -> bool:
    while pid > 1:
        if pid in pids:
            return True
        known = of(pid)
        pid = known[0] if known else 0
    return False
