"""The hot queries cost what they concern, and not how many partitions there are: 10,000 of each of 1,000 assets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.store.test_plans import HOT, SMALL, planned, reads
from tests.store_harness import MONDAY, Lab, laboratory

ASSETS = 1_000
STORED = 20  # of each asset; the statistics say that there are as many as EACH
EACH = 10_000
# Days of 1,000 assets, spread over all keys; every asset is partitioned, and read by the next workflow.
CATALOGUE = """
INSERT INTO projects VALUES ('lab', 'code-1', now());
INSERT INTO workflows (slug, project, version, automatic, policy, job_fingerprint, created_at, applied_at)
SELECT 'w' || n, 'lab', 1, true, '{}', 'f', now(), now() FROM generate_series(1, %(assets)s) n;
INSERT INTO workflow_versions (workflow_id, version, fingerprint, job_fingerprint, code_hash, needs_spark, definition,
                               applied_at)
SELECT id, 1, 'f', 'f', 'code-1', false, '{}', now() FROM workflows;
INSERT INTO assets (id, producer_id, step_id, partitioning)
SELECT 'a' || id, id, 'work', '{"time": "day", "start": "2000-01-01"}' FROM workflows;
INSERT INTO edges (asset_id, workflow_id, triggers, declaration, mapped)
SELECT 'a' || id, id + 1, true, '{}', true FROM workflows WHERE id < %(assets)s;
CREATE TEMPORARY TABLE units AS
SELECT w.id AS workflow_id, 'a' || w.id AS asset_id, n,
       to_char(date '2000-01-01' + ((w.id * 7919 + n * 503) %% %(each)s)::integer, 'YYYY-MM-DD') AS partition_key
  FROM workflows w, generate_series(1, %(stored)s) n;
INSERT INTO snapshots (asset_id, partition_key, sequence, data_version, changed, produced_at, event_id, change,
                       table_version, base_version)
SELECT asset_id, partition_key, 1, 'v1', true, now(), freshline_id(), n, n, 0 FROM units;
INSERT INTO heads (asset_id, partition_key, sequence, last_sequence, data_version, produced_at)
SELECT asset_id, partition_key, 1, 1, 'v1', now() FROM units;
INSERT INTO asset_digests (asset_id, change, keys, digest, changed_at)
SELECT id, %(each)s, %(each)s, 1, now() FROM assets;
INSERT INTO partition_keys (asset_id, partition_key, first_seen) SELECT asset_id, partition_key, now() FROM units;
INSERT INTO workflow_partitions (workflow_id, partition_key, consumed_versions, job_fingerprint)
SELECT workflow_id, partition_key, '{}', 'f' FROM units;
INSERT INTO runs (id, workflow_id, partition_key, version, project, code_hash, needs_spark, status, trigger,
                  trigger_type, cause, priority, urgency, pins, queued_at, finished_at, attempt, worker_id, started_at,
                  lease_until)
SELECT freshline_id(), workflow_id, partition_key, 1, 'lab', 'code-1', false, status, '{"type": "auto-materialize"}',
       'auto-materialize', 'x', 100, n, '{}', now(), CASE WHEN status = 'succeeded' THEN now() END, 1,
       gen_random_uuid(), now(), CASE WHEN status = 'running' THEN now() + interval '1 hour' END
  FROM (SELECT u.*, CASE WHEN n = 1 AND workflow_id %% 50 = 0 THEN 'queued'
                         WHEN n = 1 AND workflow_id %% 50 = 1 THEN 'running' ELSE 'succeeded' END AS status
          FROM units u) u;
INSERT INTO run_steps (run_id, step_id, attempt, try, status, started_at, finished_at, outputs)
SELECT id, 'work', 1, 1, 'succeeded', now(), now(), '[]' FROM runs;
INSERT INTO decisions (id, workflow_id, partition_key, version, outcome, reason, digest, evidence, at, last_at)
SELECT freshline_id(), workflow_id, partition_key, 1, 'skip', 'up-to-date', 'd', '{}', now(), now() FROM units;
INSERT INTO timers (asset_id, partition_key, kind, due_at, reason)
SELECT asset_id, partition_key, 'expiry', now() + interval '1 day', 'ttl' FROM units;
INSERT INTO considerations (workflow_id, partition_key, not_before, class, noted_at, hold, counted)
SELECT workflow_id, partition_key, now() + interval '1 day', 'event', now(), 'backfill-proposed', 'shared' FROM units;
INSERT INTO backfills (id, project, asset_id, status, requested_at, selection, kind, batch, concurrency, newest_first,
                       during_quiet_hours, priority, partial, ended_at)
SELECT freshline_id(), 'lab', 'a' || n, CASE WHEN n <= 10 THEN 'active' ELSE 'finished' END, now(), '{}', 'all', 1, 4,
       true, false, 100, false, CASE WHEN n > 10 THEN now() END
  FROM generate_series(1, %(assets)s) n;
INSERT INTO backfill_workflows (backfill_id, workflow_id, version, selection, total, open)
SELECT b.id, a.producer_id, 1, '{}', %(each)s, b.ended_at IS NULL FROM backfills b JOIN assets a ON a.id = b.asset_id;
INSERT INTO backfill_partitions (backfill_id, workflow_id, partition_key, state)
SELECT b.id, u.workflow_id, u.partition_key, CASE WHEN b.ended_at IS NULL AND n = 1 THEN 'open' ELSE 'done' END
  FROM backfills b JOIN units u USING (asset_id);
INSERT INTO proposed_partitions (backfill_id, workflow_id, partition_key, staleness)
SELECT b.id, u.workflow_id, u.partition_key, '{}' FROM backfills b JOIN units u USING (asset_id);
INSERT INTO events (id, time, position, type, subject, data)
SELECT freshline_id(), w.at, nextval('event_positions'), 'asset.produced', asset_id, '{}'
  FROM units, (VALUES (now()), (%(week)s)) w (at);
INSERT INTO events (id, time, type, subject, data)
SELECT freshline_id(), now(), 'asset.produced', asset_id, '{}' FROM units LIMIT 50;
DROP TABLE units
"""
KEYED = (
    "snapshots",
    "heads",
    "partition_keys",
    "workflow_partitions",
    "runs",
    "decisions",
    "timers",
    "considerations",
    "backfill_partitions",
    "proposed_partitions",
)
GROWING = {*KEYED, "run_steps", "events"}
# The planner takes the tuples of whole indexes from the table, and of partial ones from the index. Those with few rows
# hold what is going on, and stay as they are.
RAISE = """
WITH RECURSIVE raised AS (
    SELECT oid FROM pg_class WHERE relname = ANY (%(tables)s) AND relnamespace = 'public'::regnamespace
    UNION ALL
    SELECT i.inhrelid FROM pg_inherits i JOIN raised r ON r.oid = i.inhparent
), indexes AS (
    SELECT x.oid FROM pg_index i JOIN raised r ON r.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid
     WHERE x.reltuples >= %(many)s
)
UPDATE pg_class SET reltuples = reltuples * %(factor)s
 WHERE oid IN (SELECT oid FROM raised UNION SELECT oid FROM indexes) AND reltuples > 0
"""
# Runs that are queued or going on, of which workers, limits and shares allow few.
ACTIVE = {
    "runs.claim_run": {"runs_leases", "runs_one_running"},
    "retention.prune": {"runs_active"},
}
# What is as large as what is going on, or as what a definition bounds. The planner does not know how little that is.
CROWDS = {
    "evaluation.load_states": {"considerations", "runs", "timers"},  # what is in motion above the batch, and due timers
    "evaluation.note_considerations": {"considerations"},  # all partitions of a workflow that a note concerns
    "evaluation.claim_considerations": {"considerations"},  # those that are due, up to the limit of a batch
    "evaluation.fire_timers": {"timers"},  # those that are due
    "partitions.stop_clocks": {"timers"},  # clocks run for the newest partitions only
    "partitions.seen_keys": {"partition_keys"},  # of an asset with dynamic keys, whose number is limited
    "partitions.newest_seen": {"partition_keys"},  # in order, up to the limit
    "retirement.with_data": {"heads"},  # those that retention removes, in the order of the index
    "alerts.troubles": {"timers", "workflow_partitions"},  # what is wrong
    "read.snapshots": {"snapshots"},  # a list for people; a key makes it another plan
    # queued and running ones
    "runs.claim_run": {"runs"},
    "runs.renew_leases": {"runs"},
    "tables.spared": {"runs"},
    "retention.prune": {"runs"},
    "retention.forget_snapshots": {"runs"},
}
MORE = [
    f"{file}.{name}"
    for file, names in {
        "backfills": (
            "create_parts lock_backfill active_backfills claim_backfill set_status note_turns set_rest record_states"
            " demands_of run_and_outputs satisfy find_backfill hurry_one batching count_open open_partitions places"
        ),
        "retirement": "due lock asset with_data lock_heads number retire_heads stop_clocks",
        "evaluation": "uncounted_notes count_notes next_timer next_evaluation suspects forgotten",
        "partitions": "newest_times newest_seen seen_last",
    }.items()
    for name in names.split()
]


@pytest.fixture(scope="module")
def partitioned(module_database_url: str) -> Iterator[Lab]:
    """Yield a system whose statistics say that each of its assets has this number of partitions."""
    sizes = {"assets": ASSETS, "stored": STORED, "each": EACH, "week": MONDAY + timedelta(days=8)}
    raised = {"tables": sorted(GROWING), "factor": EACH // STORED, "many": ASSETS * STORED // 2}
    with laboratory(module_database_url) as lab:
        with lab.database.connection() as connection:
            connection.execute("TRUNCATE projects, assets, workflows CASCADE")
            connection.execute("ALTER TABLE workflows ALTER id RESTART")
            lab.store.retention.prune(30, 1)  # creates partitions for the next weeks
            for table in KEYED:
                connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
                connection.execute(f"ALTER TABLE {table} ALTER partition_key SET (n_distinct = {EACH})".encode())
            for statement in filter(str.strip, CATALOGUE.split(";")):
                connection.execute(statement.encode(), sizes)
            connection.execute("VACUUM ANALYZE")
            connection.execute(RAISE.encode(), raised)
        yield lab


def test_the_statistics_are_raised(partitioned: Lab) -> None:
    """The planner expects ten million heads."""
    found = partitioned.rows("EXPLAIN (FORMAT JSON) SELECT FROM heads")
    [plan] = next(iter(found[0].values()))
    assert plan["Plan"]["Plan Rows"] == pytest.approx(ASSETS * EACH, rel=0.05)


@pytest.mark.parametrize("name", list(dict.fromkeys([*HOT, *MORE])))
def test_a_hot_statement_costs_what_it_concerns(partitioned: Lab, name: str) -> None:
    """No statement reads a table that grows with partitions from end to end."""
    plan = planned(partitioned, name)
    whole = {one for one in reads(plan) if any(one.startswith(table) for table in GROWING)}
    assert whole <= SMALL.get(name, set()) | ACTIVE.get(name, set()), json.dumps(plan)


def crowds(plan: Any, *, limited: bool = False) -> Iterator[str]:
    """Yield the tables of which a scan that no LIMIT ends is expected to read all partitions of an asset, or more."""
    table = plan.get("Relation Name", "")
    if table in GROWING and plan["Node Type"] != "ModifyTable" and not limited:
        compared = re.search(r"partition_key(?! <> '')", plan.get("Filter", "")) is not None
        sought = "partition_key" in plan.get("Index Cond", "")
        if plan["Plan Rows"] >= EACH / 2 or (compared and not sought):
            yield table
    for below in plan.get("Plans", ()):
        yield from crowds(below, limited=plan["Node Type"] == "Limit")


@pytest.mark.parametrize("name", list(dict.fromkeys([*HOT, *MORE])))
def test_a_hot_statement_looks_at_no_asset_as_a_whole(partitioned: Lab, name: str) -> None:
    """Its cost does not depend on how many partitions exist."""
    plan = planned(partitioned, name)
    assert set(crowds(plan)) <= CROWDS.get(name, set()), json.dumps(plan)
