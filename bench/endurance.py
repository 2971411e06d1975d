"""Cost of one event after two months of history, against none; and the rate at which old history is deleted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg

from bench import graph
from bench.catalogue import event, places
from bench.measure import Claim, Options, Pairs, Result, percentile, phase
from bench.play import Player
from bench.server import opened, started
from freshline.store.retention.prune import BEGINNING, START, Place, Places
from freshline.store.store import Store

GOAL = 1.3
ASSETS = 1_000
WARM = 10
BATCH = 1_000
DAYS = 60  # of history: twice the retention
KEEP_DAYS = 30
PRUNING_S = 60.0  # long enough for a stable rate
# The rows of this number of rounds in which every asset changed: for each produced asset a run, its step, two decisions
# and four events; for each source a snapshot and its event. Every version is consumed, so the last round is current.
HISTORY = """
SET session_replication_role = replica;
CREATE TEMPORARY TABLE past AS
SELECT a.id AS asset_id, a.producer_id AS workflow_id, n + 1 AS sequence, freshline_id() AS event_id,
       CASE WHEN a.producer_id IS NOT NULL THEN gen_random_uuid() END AS run_id,
       CASE WHEN n = %(rounds)s THEN 'v1' ELSE 'h' || n END AS data_version,
       now() - interval '1 hour' - (%(rounds)s - n) * %(days)s * interval '1 day' / %(rounds)s AS at
  FROM generate_series(1, %(rounds)s) n, assets a ORDER BY n, a.id;
INSERT INTO runs (id, workflow_id, partition_key, version, project, code_hash, needs_spark, status, trigger,
                  trigger_type, cause, priority, urgency, pins, attempt, worker_id, queued_at, started_at, finished_at)
SELECT run_id, workflow_id, '', 1, %(project)s, %(code)s, false, 'succeeded',
       jsonb_build_object('type', 'auto-materialize', 'reason', 'upstream-update', 'assetId', asset_id),
       'auto-materialize', 'upstream-update', 100, 0, '{}', 1, run_id, at, at, at
  FROM past WHERE run_id IS NOT NULL;
INSERT INTO run_steps (run_id, step_id, attempt, try, status, started_at, finished_at, outputs)
SELECT run_id, 'work', 1, 1, 'succeeded', at, at, '[]' FROM past WHERE run_id IS NOT NULL;
INSERT INTO decisions (id, workflow_id, partition_key, version, outcome, reason, digest, evidence, at, last_at, run_id)
SELECT freshline_id(), workflow_id, '', 1, d.outcome, d.reason, md5(asset_id), '{"cause": "upstream-update"}', at, at,
       CASE WHEN d.outcome = 'run' THEN run_id END
  FROM past, (VALUES ('run', 'upstream-update'), ('skip', 'up-to-date')) d (outcome, reason) WHERE run_id IS NOT NULL;
INSERT INTO snapshots (asset_id, partition_key, sequence, data_version, changed, workflow_id, run_id, attempt, step_id,
                       produced_at, event_id)
SELECT asset_id, '', sequence, data_version, true, workflow_id, run_id, CASE WHEN run_id IS NOT NULL THEN 1 END,
       'work', at, event_id
  FROM past;
INSERT INTO events (id, time, position, type, subject, data)
SELECT event_id, at, nextval('event_positions'), 'asset.produced', asset_id,
       jsonb_build_object('assetId', asset_id, 'version', sequence, 'dataVersion', data_version, 'changed', true)
  FROM past;
INSERT INTO events (id, time, position, type, subject, data)
SELECT freshline_id(), at, nextval('event_positions'), 'workflow.run.' || e.type, asset_id,
       jsonb_build_object('runId', run_id, 'workflowSlug', asset_id, 'status', e.type)
  FROM past, (VALUES ('queued'), ('started'), ('succeeded')) e (type) WHERE run_id IS NOT NULL;
UPDATE heads SET sequence = %(rounds)s + 1, last_sequence = %(rounds)s + 1, produced_at = now() - interval '1 hour';
UPDATE workflow_partitions p
   SET consumed_versions = (SELECT jsonb_object_agg(key, value || %(read)s) FROM jsonb_each(p.consumed_versions));
SET session_replication_role = origin
"""
COUNT = "SELECT count(*) FROM events"
SIZE = "SELECT pg_database_size(current_database()) / 1024 / 1024"


def run(options: Options) -> Result:
    """Measure events in turns with and without history, then the deletion of old history."""
    layout, pairs = graph.components(ASSETS), Pairs()
    events_a_round = len(layout.sources) + 4 * len(layout.consumes)
    rounds = max(1, (options.events or options.size(1_000_000, 20_000)) // events_a_round)
    with started() as server, ExitStack() as stack:
        urls = [server.database(), server.database()]
        for url in urls:
            graph.store(url, layout)
        with phase(f"{rounds} rounds of history"):
            _remember(urls[0], rounds)
        stores = [stack.enter_context(opened(url, silent=True)) for url in urls]
        old, new = (Player(store, graph.PROJECT, graph.CODE) for store in stores)
        for number in range(WARM + options.size(200, 10)):
            pair = event(old, places(layout), number), event(new, places(layout), number)
            if number >= WARM:
                pairs.add(*pair)
        figures = _pruning(stores[0], urls[0])
        figures["event_ms"] = [1000 * percentile(side, 0.5) for side in (pairs.measured, pairs.baseline)]
    return Result("endurance", [Claim("ratio", pairs.ratio, GOAL)], pairs.measured, pairs.baseline, "s", figures)


def _remember(url: str, rounds: int) -> None:
    read = psycopg.types.json.Jsonb({"sequence": rounds + 1})
    values = {"rounds": rounds, "days": DAYS, "project": graph.PROJECT, "code": graph.CODE, "read": read}
    with psycopg.connect(url, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute(HISTORY.encode(), values)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _pruning(store: Store, url: str) -> dict[str, Any]:
    """Return the rows per second that each of the two transactions deletes, until none is left or a rate is known."""
    figures: dict[str, Any] = {"events": _asked(url, COUNT), "megabytes": _asked(url, SIZE)}
    figures["snapshots_forgotten_per_s"] = _rate(_forgotten_snapshots(store))
    figures["rows_pruned_per_s"] = _rate(_pruned_rows(store))
    return {**figures, "events_left": _asked(url, COUNT)}


def _forgotten_snapshots(store: Store) -> Iterator[int]:
    place: Place | None = BEGINNING
    while place is not None:
        page = store.retention.forget_snapshots(KEEP_DAYS, BATCH, place)
        yield page.snapshots
        place = page.next


def _pruned_rows(store: Store) -> Iterator[int]:
    place: Places | None = START
    while place is not None:
        page = store.retention.prune(KEEP_DAYS, BATCH, place)
        yield sum(page.rows.values())
        place = page.next


def _rate(batches: Iterator[int]) -> float:
    began, rows = time.perf_counter(), 0
    for batch in batches:
        rows += batch
        if time.perf_counter() - began > PRUNING_S:
            break
    return rows / (time.perf_counter() - began)


def _asked(url: str, query: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])
