"""The hot queries, and those about one event, touch what happened and never the whole catalogue: no sequential scan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import compress, product
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from freshline.store.ids import new_id
from freshline.store.queries import load
from tests.lab import CODE, MONDAY, Lab, laboratory

COUNT = 20_000
# Not the inbox: what is unabsorbed is what happened.
BIG = {
    "assets",
    "considerations",
    "decisions",
    "edges",
    "events_default",
    "heads",
    "runs",
    "snapshots",
    "timers",
    "workflow_partitions",
    "workflow_versions",
    "workflows",
}
# A component of 20 workflows after each source; all rows that a system has which ran for a while.
CATALOGUE = """
INSERT INTO projects VALUES ('lab', 'code-1', now());
INSERT INTO pools (project, name, slots) SELECT 'lab', 'p' || n, 4 FROM generate_series(1, 5) n;
INSERT INTO workflows (slug, project, version, automatic, policy, job_fingerprint, created_at, applied_at)
SELECT 'w' || n, 'lab', 1, true, '{}', 'f', now(), now() FROM generate_series(1, %(count)s) n;
INSERT INTO workflow_versions (workflow_id, version, fingerprint, job_fingerprint, code_hash, needs_spark, definition,
                               applied_at)
SELECT id, 1, 'f', 'f', 'code-1', false, '{}', now() FROM workflows;
INSERT INTO assets (id, producer_id, step_id) SELECT 'a' || id, id, 'work' FROM workflows;
INSERT INTO assets (id) SELECT 's' || n FROM generate_series(1, %(count)s / 20) n;
INSERT INTO edges (asset_id, workflow_id, triggers, declaration)
SELECT 's' || 1 + id / 20, id, true, '{}' FROM workflows WHERE 1 + id / 20 <= %(count)s / 20;
INSERT INTO snapshots (asset_id, partition_key, sequence, data_version, changed, produced_at, event_id)
SELECT id, '', n, 'v' || n, true, now(), freshline_id() FROM assets, generate_series(1, 3) n;
INSERT INTO heads (asset_id, partition_key, sequence, last_sequence, data_version, produced_at)
SELECT id, '', 3, 3, 'v3', now() FROM assets;
INSERT INTO workflow_partitions (workflow_id, partition_key, vector, job_fingerprint)
SELECT id, '', '{}', 'f' FROM workflows;
INSERT INTO runs (id, workflow_id, partition_key, version, project, code_hash, needs_spark, status, trigger,
                  trigger_type, cause, priority, urgency, pins, queued_at, finished_at, attempt, worker_id, started_at,
                  lease_until)
SELECT freshline_id(), id, '', 1, 'lab', 'code-1', false,
       CASE WHEN id %% 100 = 0 THEN 'queued' WHEN id %% 100 = 1 THEN 'running' ELSE 'succeeded' END,
       '{"type": "auto-materialize"}', 'auto-materialize', 'x', 100, id, '{}', now(),
       CASE WHEN id %% 100 > 1 THEN now() END, 1, gen_random_uuid(), now(),
       CASE WHEN id %% 100 = 1 THEN now() + interval '1 hour' END
  FROM workflows;
INSERT INTO decisions (id, workflow_id, partition_key, version, outcome, reason, digest, evidence, at, last_at)
SELECT freshline_id(), id, '', 1, 'skip', 'up-to-date', 'd', '{}', now(), now() FROM workflows;
INSERT INTO timers (asset_id, partition_key, kind, due_at, reason)
SELECT id, '', 'expiry', now() + interval '1 day', 'ttl' FROM assets WHERE producer_id IS NOT NULL;
INSERT INTO considerations (workflow_id, partition_key, not_before, class, noted_at, hold)
SELECT id, '', now() + interval '1 hour', id %% 3, now(), 'in-flight' FROM workflows;
INSERT INTO events (id, time, type, subject, data)
SELECT freshline_id(), now(), 'asset.produced', id, '{}' FROM assets;
INSERT INTO inbox (event_id, kind, asset_id, partition_key, at)
SELECT freshline_id(), 'changed', 's' || n, '', now() FROM generate_series(1, 50) n;
"""


@pytest.fixture(scope="module")
def catalogue(module_database_url: str) -> Iterator[Lab]:
    """A system with 20,000 workflows."""
    with laboratory(module_database_url) as lab:
        with lab.database.connection() as connection:
            for statement in filter(str.strip, CATALOGUE.split(";")):
                connection.execute(statement, {"count": COUNT})
            connection.execute("VACUUM ANALYZE")
        yield lab


def scans(plan: Any) -> Iterator[str]:
    """The tables that a plan reads from end to end."""
    if plan.get("Node Type") == "Seq Scan":
        yield plan["Relation Name"]
    for below in plan.get("Plans", ()):
        yield from scans(below)


BATCH = {"workflows": [40, 41, 42, 43], "partitions": [""] * 4}
QUERIES: dict[str, tuple[str, dict[str, Any]]] = {
    "claim_inbox": ("materializer", {"batch": 100}),
    "note_considerations": (
        "materializer",
        {
            "events": Jsonb(
                [
                    {"kind": "changed", "asset_id": "s7", "workflow_id": None, "partition_key": ""},
                    {"kind": "unchanged", "asset_id": "s8", "workflow_id": None, "partition_key": ""},
                    {"kind": "ended", "asset_id": None, "workflow_id": 40, "partition_key": ""},
                ]
            )
        },
    ),
    "hurry_runs": ("materializer", {"holds": Jsonb([{"blocker_id": 40, "priority": 1}])}),
    "wake_waiting": ("materializer", {"blockers": [40, 41]}),
    "claim_considerations": ("materializer", {"batch": 100}),
    "lock_consideration": ("materializer", BATCH),
    "load_states": ("materializer", BATCH),
    "fire_timers": ("materializer", {"batch": 100}),
    "claim_run": (
        "runs",
        {"worker": new_id(), "project": "lab", "code_hash": CODE, "spark": True, "lease_ms": 15_000, "first": 32},
    ),
    "renew_leases": ("runs", {"held": Jsonb([{"id": new_id(), "attempt": 1}]), "lease_ms": 15_000}),
    "lost_runs": ("runs", {"batch": 100}),
    "lock_run": ("runs", {"run": new_id(), "attempt": 1}),
    "owned_outputs": ("runs", {"workflow": 40, "partition": ""}),
    "event_near": ("reader", {"id": new_id(), "made": 1_767_603_600_000}),
    "change": ("fates", {"event": new_id()}),
    "consumers": ("fates", {"asset": "s7", "partition": "", "sequence": 2, "at": MONDAY, "limit": 100}),
    "producer": (
        "fates",
        {"asset": "a40", "partition": "", "event": new_id(), "at": MONDAY, "run": new_id(), "produced": MONDAY},
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_hot_query_scans_no_big_table(catalogue: Lab, name: str) -> None:
    """Design 9: an event costs its consumers, not the catalogue."""
    file, parameters = QUERIES[name]
    with catalogue.database.connection() as connection, connection.transaction(force_rollback=True):
        row = connection.execute("EXPLAIN (FORMAT JSON) " + load(file)[name], parameters).fetchone()
    assert row is not None
    [plan] = next(iter(row.values()))
    # Whatever is held is part of the motion that a decision has to see (R4.1).
    expected = {"considerations"} if name == "load_states" else set()
    found = sorted(set(scans(plan["Plan"])) & BIG - expected)
    assert found == [], json.dumps(plan)


PLANNER = ("enable_hashjoin", "enable_mergejoin", "enable_material", "enable_hashagg")


@pytest.mark.parametrize(
    "off", list(product((False, True), repeat=len(PLANNER))), ids=lambda off: "".join(map(str, off))
)
def test_a_batch_is_noted_at_one_moment_however_it_is_planned(catalogue: Lab, off: tuple[bool, ...]) -> None:
    """A workflow that an update and an expiry concern is noted once; the plan must not ask the clock for every row."""
    events = [
        {"kind": kind, "asset_id": asset_id, "workflow_id": None, "partition_key": ""}
        for number in range(40, 60)
        for kind, asset_id in (("changed", f"s{1 + number // 20}"), ("expired", f"a{number}"))
    ]
    with catalogue.database.connection() as connection, connection.transaction(force_rollback=True):
        connection.execute("DELETE FROM considerations WHERE workflow_id < 100")
        for setting in compress(PLANNER, off):
            connection.execute("SELECT set_config(%s, 'off', true)", [setting])
        connection.execute(load("materializer")["note_considerations"], {"events": Jsonb(events)})
        noted = connection.execute(
            "SELECT count(*) AS rows, count(DISTINCT noted_at) AS moments FROM considerations WHERE workflow_id < 100"
        ).fetchone()
    assert noted == {"rows": 20, "moments": 1}
