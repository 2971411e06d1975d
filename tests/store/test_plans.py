"""The hot queries, and those about one event, never scan the whole catalogue."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from itertools import compress, product
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from freshline.store.db.queries import load
from freshline.store.evaluation.load_state import NOTHING_READ
from tests.store_harness import MONDAY, Lab, laboratory

# A component of 20 workflows after each source, with the rows of a system that ran for a while.
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
INSERT INTO workflow_partitions (workflow_id, partition_key, consumed_versions, job_fingerprint)
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
INSERT INTO run_steps (run_id, step_id, attempt, try, status, started_at, finished_at, outputs)
SELECT id, 'work', 1, 1, 'succeeded', now(), now(), '[]' FROM runs;
INSERT INTO run_logs (run_id, line, attempt, step_id, at, stream, text)
SELECT id, n, 1, 'work', now(), 'stdout', 'said' FROM runs, generate_series(1, 3) n;
INSERT INTO decisions (id, workflow_id, partition_key, version, outcome, reason, digest, evidence, at, last_at)
SELECT freshline_id(), id, '', 1, 'skip', 'up-to-date', 'd', '{}', now(), now() FROM workflows;
INSERT INTO timers (asset_id, partition_key, kind, due_at, reason)
SELECT id, '', 'expiry', now() + interval '1 day', 'ttl' FROM assets WHERE producer_id IS NOT NULL;
INSERT INTO considerations (workflow_id, partition_key, not_before, class, noted_at, hold)
SELECT id, '', now() + interval '1 hour', (enum_range(NULL::consideration_class))[1 + id %% 3], now(), 'in-flight'
  FROM workflows;
INSERT INTO events (id, time, position, type, subject, data)
SELECT freshline_id(), w.at, nextval('event_positions'), 'asset.produced', id, '{}'
  FROM assets, (VALUES (now()), (%(week)s)) w (at);
INSERT INTO events (id, time, type, subject, data)
SELECT freshline_id(), now(), 'asset.produced', id, '{}' FROM assets LIMIT 50;
INSERT INTO deliveries (asset_id, partition_key, first_number, last_number, items, keys)
SELECT 's1', '', n, n, jsonb_build_array(jsonb_build_object('number', n, 'key', 'k' || n)), ARRAY['k' || n]
  FROM generate_series(1, 20000) n;
INSERT INTO workers (id, kind, host, pid, started_at, seen_at, stopped_at)
SELECT gen_random_uuid(), 'materializer', 'here', n, now(), now(), CASE WHEN n > 4 THEN now() END
  FROM generate_series(1, 2000) n;
INSERT INTO watches (asset_id, kind, mode, spec, every_ms, timeout_ms, next_at)
SELECT id, 'files', 'append', '{}', 30000, 30000, now() + interval '1 hour' FROM assets;
UPDATE watches SET lease_until = next_at, held_by = (SELECT id FROM workers WHERE stopped_at IS NULL LIMIT 1)
 WHERE asset_id IN (SELECT id FROM assets ORDER BY id LIMIT 50);
INSERT INTO watched_files (asset_id, path_key, path, size, version, identity, state, seen_at, revision)
SELECT a.id, gen_random_uuid(), 'f' || n, n, 'v', n, 'delivered', now(), n
  FROM (SELECT id FROM assets ORDER BY id LIMIT 20) a, generate_series(1, 2000) n;
INSERT INTO inbox (event_id, kind, asset_id, partition_key, at)
SELECT freshline_id(), 'changed', 's' || n, '', now() FROM generate_series(1, 50) n;
"""


@pytest.fixture(scope="module", params=[20_000, pytest.param(100_000, marks=pytest.mark.full)])
def catalogue(request: pytest.FixtureRequest, module_database_url: str) -> Iterator[Lab]:
    """Yield a system with this number of workflows, each with an asset."""
    with laboratory(module_database_url) as lab:
        with lab.database.connection() as connection:
            connection.execute("TRUNCATE projects, assets, workflows CASCADE")
            connection.execute("ALTER TABLE workflows ALTER id RESTART")
            lab.store.retention.prune(30, 1)  # creates partitions for the next weeks
            for statement in filter(str.strip, CATALOGUE.split(";")):
                connection.execute(statement, {"count": request.param, "week": MONDAY + timedelta(days=8)})
            connection.execute("VACUUM ANALYZE")
        yield lab


def planned(lab: Lab, name: str) -> Any:
    """Return the generic plan that one of our sessions uses for a statement."""
    file, statement = name.split(".")
    query, names = (
        load(file)[statement].replace("%%", "%"),
        list(dict.fromkeys(PARAMETER.findall(load(file)[statement]))),
    )
    query = PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", query)
    with lab.database.connection() as connection:
        found = connection.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {query}".encode()).fetchone()
    assert found is not None
    [plan] = next(iter(found.values()))
    return plan["Plan"]


def reads(plan: Any, *, limited: bool = False) -> Iterator[str]:
    """Yield the tables and indexes that a plan reads completely; an index scan that a LIMIT ends is not counted."""
    kind = plan["Node Type"]
    if kind == "Seq Scan":
        yield plan["Relation Name"]
    whole = "Index Cond" not in plan and not (limited and "Filter" not in plan)
    if kind in {"Index Scan", "Index Only Scan", "Bitmap Index Scan"} and whole:
        yield plan["Index Name"]
    through = limited and kind in {"Append", "Merge Append", "Result"}
    for below in plan.get("Plans", ()):
        yield from reads(below, limited=kind == "Limit" or through)


PARAMETER = re.compile(r"%\((\w+)\)s")
HOT = [
    f"{file}.{name}"
    for file, names in {
        "db": "append_events",
        "evaluation": (
            "claim_inbox note_considerations epoch_and_time read_notes expand_notes large_inputs wake_waiting"
            " claim_considerations lock_consideration load_states load_bare"
            " queue_runs renew_runs set_quiet hurry_runs supersede_runs keep_waits drop_considerations"
            " hold_considerations record_decisions"
            " count_decisions settle_groups fire_timers expire_timers stamp_positions unpublished"
        ),
        "runs": (
            "claim_run rebuild_due pinned_inputs own_heads finished_steps open_sessions renew_leases lock_run"
            " begin_step finish_step append_logs lock_outputs owned_outputs policy lock_heads insert_snapshots"
            " note_commits move_heads number_changes arm_timers disarm_timers record_success record_canceled"
            " end_run return_run lost_runs run_status locations spark_waits triggered_by deliveries_between"
        ),
        "operations": (
            "lock_asset reported reported_again lock_head requested expire_now register_worker"
            " lock_any_run request_run use_token delivered delivered_all last_delivery lock_delivery"
            " skip_delivery delivery_state same_path add_report_group"
        ),
        "partitions": "seen_keys is_seen add_keys with_data move_next_keys stop_clocks start_clocks",
        "webhooks": "claim waiting following taken refused",
        "watches": "claim until_due peek lock_claim record note fail abandoned release save_files files_since files",
        "alerts": "troubles reported_at",
        "tables": "next_commit committed spared removed",
        "read": (
            "event_near event_by_id events_since decision_by_id logs snapshots steps asset"
            " event_change event_consumers event_producer deliveries"
        ),
        "retention": "prune forget_snapshots compactable lock_source join_deliveries",
    }.items()
    for name in names.split()
]
# Those that have not settled; one group replaces another with the same members.
REPORT_GROUPS = {"report_groups", "report_groups_pkey"}
# Small in any system: one row; unconsumed, queued, running or not yet logged rows; rows that users create.
SMALL = {
    "evaluation.claim_inbox": {"inbox_pkey"},
    # Without a list of ancestors it reads all holds, as part of the motion (docs/semantics.md#R4.1).
    # It also counts the first few, to decide whether a list pays off.
    # Backfills that have not ended are few; here there are none, and all indexes cost the same.
    "evaluation.load_states": {"inbox", "runs_active", "considerations", "considerations_due"}
    | {"considerations_expanding"}  # notes that are being expanded
    | {"backfills_open", "backfills_recent", "backfills_pkey"}
    | REPORT_GROUPS,
    "evaluation.settle_groups": {"inbox", "backfills_open"} | REPORT_GROUPS,
    "operations.add_report_group": REPORT_GROUPS,
    "evaluation.renew_runs": {"runs_queue"},
    "evaluation.hurry_runs": {"runs_queue"},
    "runs.renew_leases": {"runs_leases"},
    "runs.lock_run": {"projects_pkey"},
    "webhooks.claim": {"webhooks", "webhooks_pkey"},
    "watches.abandoned": {"watches_held"},  # only looks that are going on
    "watches.until_due": {"watches_by_next"},  # up to the first that this process may look at
    "alerts.troubles": {"workflow_partitions_failing", "timers_overdue"},  # only what is wrong
    "tables.next_commit": {"table_commits_pkey"},
    "tables.spared": {"runs_active"},
    "retention.forget_snapshots": {"runs_active"},
}


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_reads_no_table_from_end_to_end(catalogue: Lab, name: str) -> None:
    """An event costs its consumers, not the catalogue."""
    plan = planned(catalogue, name)
    assert set(reads(plan)) <= SMALL.get(name, set()) | {"installation"}, json.dumps(plan)


def test_a_claim_looks_its_run_up(catalogue: Lab) -> None:
    """A long queue costs a worker no more than a short one: only the first of each pool are looked at."""
    assert "runs_queue" not in set(reads(planned(catalogue, "runs.claim_run")))


def executed(plan: Any) -> Iterator[str]:
    """Yield the tables and indexes that an analyzed plan has read."""
    if plan["Actual Loops"]:
        yield from (plan[name] for name in ("Relation Name", "Index Name") if name in plan)
    for below in plan.get("Plans", ()):
        yield from executed(below)


def test_graphs_without_partitions_pay_nothing_for_the_flood_guard(catalogue: Lab) -> None:
    """No count, no list of a proposal and no time of a backfill is read."""
    units = {"workflows": list(range(1, 101)), "partitions": [""] * 100, "guarded": [], "mapped": False, "few": 64}
    unread = {f"unread_{name}": values for name, values in NOTHING_READ.items()}
    parameters = {"above": [], "not_automatic": [], **NOTHING_READ, **unread, **units}
    query = f"EXPLAIN (ANALYZE, FORMAT JSON) {load('evaluation')['load_states']}"
    with catalogue.database.connection() as connection:
        found = connection.execute(query.encode(), parameters).fetchone()
    assert found is not None
    [plan] = next(iter(found.values()))
    guard = {"proposed_partitions", "proposed_partitions_pkey", "runs_counted", "considerations_counted"}
    assert not {*executed(plan["Plan"])} & {*guard, "considerations_partitions", "backfills_ended"}


NO_PARTITIONS: dict[str, list[object]] = {
    one: []
    for one in ("workflows", "partitions", "origins", "counts", "unchanged", "unchanged_keys", "unchanged_notes")
}
PLANNER = ("enable_hashjoin", "enable_mergejoin", "enable_material", "enable_hashagg")


@pytest.mark.parametrize(
    "off", list(product((False, True), repeat=len(PLANNER))), ids=lambda off: "".join(map(str, off))
)
def test_a_batch_is_noted_at_one_moment_however_it_is_planned(catalogue: Lab, off: tuple[bool, ...]) -> None:
    """A workflow that an update and an expiry concern is noted once; the plan must not ask the clock for every row."""
    events = [
        {"kind": kind, "asset_id": asset_id, "workflow_id": None, "partition_key": "", "mapped": False}
        for number in range(40, 60)
        for kind, asset_id in (("changed", f"s{1 + number // 20}"), ("expired", f"a{number}"))
    ]
    with catalogue.database.connection() as connection, connection.transaction(force_rollback=True):
        connection.execute("DELETE FROM considerations WHERE workflow_id < 100")
        for setting in compress(PLANNER, off):
            connection.execute("SELECT set_config(%s, 'off', true)", [setting])
        connection.execute(load("evaluation")["note_considerations"], {"events": Jsonb(events), **NO_PARTITIONS})
        noted = connection.execute(
            "SELECT count(*) AS rows, count(DISTINCT noted_at) AS moments FROM considerations WHERE workflow_id < 100"
        ).fetchone()
    assert noted == {"rows": 20, "moments": 1}
