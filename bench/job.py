"""From queued to published: a `python` step on a warm worker, against plain writes in the same transactions.

The baseline writes the run's rows in the same four transactions: claim, begin step, finish step, publish.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from bench import baseline
from bench.baseline import Rows
from bench.measure import Claim, Options, Pairs, Result, percentile
from bench.play import Player, outputs, phases, queued_to_published
from bench.server import Project, listening, opened, started, worker
from freshline.definitions.code import code_hash
from freshline.store.db.ids import new_id
from freshline.store.store import Store

GOAL = 4.0
WARM = 5
SLUG = "plain"
DEFINITION = """
slug: plain
steps:
  - id: work
    job: {kind: python, entrypoint: 'jobs:work'}
    produces: [{assetId: plain}]
"""
JOBS = "def work(ctx):\n    return None\n"
LATEST = "SELECT id::text FROM runs ORDER BY queued_at DESC LIMIT 1"


def run(options: Options) -> Result:
    """Measure runs in turns: by a real worker and its runner, as plain writes, and by calls of the store."""
    pairs, alone = Pairs(), []
    with started() as server:
        url = server.database()
        project = Project(server.home / "job", url)
        (project.root / "workflows" / "plain.yaml").write_text(DEFINITION)
        (project.root / "jobs.py").write_text(JOBS)
        project.call("apply", "--yes")
        with (
            server.copy(url) as twin,
            server.copy(url) as third,
            worker(project),
            opened(url, silent=True) as store,
            listening(url) as listener,
            opened(third, silent=True) as own,
            psycopg.connect(twin, autocommit=True) as connection,
        ):
            player = Player(own, "bench", code_hash(project.root))
            for number in range(WARM + options.size(100, 5)):
                measured = queued_to_published(store, listener, SLUG)
                plain = _plain(connection, _rows(url, listener.value(LATEST)))
                without = _alone(own, player)
                if number >= WARM:
                    pairs.add(measured, plain)
                    alone.append(without)
            parts = phases(listener, len(alone))
        figures = {
            "median_ms": [1000 * percentile(side, 0.5) for side in (pairs.measured, pairs.baseline)],
            "parts_ms": parts,
            "store_alone_ms": 1000 * percentile(alone, 0.5),
            "server": server.settings,
        }
    claim = Claim("queued to published, against the same transactions plain", pairs.ratio, GOAL)
    return Result("job", [claim], pairs.measured, pairs.baseline, "s", figures)


def _alone(store: Store, player: Player) -> float:
    """Measure the store's transactions without processes; the difference is the cost of worker and runner."""
    store.operations.request_run(SLUG)
    began = time.perf_counter()
    run = player.claim()
    assert run is not None
    store.runs.begin_step(run.id, run.attempt, "work", 1)
    made = outputs(run, run.id)
    store.runs.finish_step(run.id, run.attempt, "work", 1, outputs=made, metrics={})
    store.runs.publish(run, made)
    return time.perf_counter() - began


def _rows(url: str, run_id: str) -> dict[str, Rows]:
    """Return all rows that the run wrote."""
    found = {
        "runs": "id = %s",
        "run_steps": "run_id = %s",
        "snapshots": "run_id = %s",
        "heads": "sequence = (SELECT sequence FROM snapshots WHERE run_id = %s)",
        "events": "data ->> 'runId' = %s AND type <> 'workflow.run.queued'",
        "workflow_partitions": "workflow_id = (SELECT workflow_id FROM runs WHERE id = %s)",
    }
    with psycopg.connect(url) as connection:
        return {table: baseline.select(connection, table, where, run_id) for table, where in found.items()}


def _plain(connection: psycopg.Connection[Any], rows: Mapping[str, Rows]) -> float:
    """Write the run's rows in the run's transactions; the queued run exists before the clock starts."""
    run, step = _first(rows["runs"]), _first(rows["run_steps"])
    ended = {"started_at": None, "finished_at": None, "worker_id": None, "result": None, "progress": None}
    _insert(connection, "runs", {**run, **ended, "status": "queued", "attempt": "0"})
    began = time.perf_counter()
    with connection.transaction():
        lease = {"status": "running", "attempt": "1", "lease_until": run["finished_at"]}
        _update(connection, "runs", {"id": run["id"]}, {**lease, **_only(run, "worker_id", "started_at")})
        _events(connection, rows["events"], "workflow.run.started")
    with connection.transaction():
        open_ = {"status": "running", "finished_at": None, "outputs": None, "metrics": None}
        _insert(connection, "run_steps", {**step, **open_})
    with connection.transaction():
        done = _only(step, "status", "finished_at", "outputs", "metrics")
        _update(connection, "run_steps", _only(step, "run_id", "step_id", "attempt", "try"), done)
    with connection.transaction():
        for table in ("snapshots", "heads", "workflow_partitions"):
            connection.cursor().executemany(rows[table].statement, rows[table].rows)
        _events(connection, rows["events"], "asset.produced", "workflow.run.succeeded")
        for kind in ({"kind": "changed", "asset_id": SLUG}, {"kind": "ended", "workflow_id": run["workflow_id"]}):
            _insert(connection, "inbox", {"event_id": new_id(), "partition_key": "", "at": run["finished_at"], **kind})
        final = {**_only(run, "status", "finished_at", "result"), "lease_until": None}
        _update(connection, "runs", {"id": run["id"]}, final)
    return time.perf_counter() - began


def _events(connection: psycopg.Connection[Any], events: Rows, *types: str) -> None:
    chosen = [row for row in events.rows if set(types) & set(row)]
    connection.cursor().executemany(events.statement, chosen)


def _first(rows: Rows) -> dict[str, str | None]:
    (row,) = rows.rows
    return dict(zip(rows.columns, row, strict=True))


def _only(row: Mapping[str, str | None], *names: str) -> dict[str, str | None]:
    return {name: row[name] for name in names}


def _insert(connection: psycopg.Connection[Any], table: str, row: Mapping[str, str | None]) -> None:
    connection.execute(Rows(table, tuple(row), ()).statement, list(row.values()))


def _update(
    connection: psycopg.Connection[Any], table: str, key: Mapping[str, str | None], row: Mapping[str, str | None]
) -> None:
    statement = sql.SQL("UPDATE {} SET {} WHERE {}").format(
        sql.Identifier(table), _equal(tuple(row), ", "), _equal(tuple(key), " AND ")
    )
    connection.execute(statement, [*row.values(), *key.values()])


def _equal(names: Sequence[str], between: str) -> sql.Composed:
    joint = sql.SQL(", ") if between == ", " else sql.SQL(" AND ")
    return joint.join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in names)
