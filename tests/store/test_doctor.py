"""The doctor finds planted damage, describes it, repairs what it may, and reports nothing else."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from freshline import failpoints
from freshline.definitions.alerts import read_rule
from freshline.model.backfill import BackfillRequest
from freshline.model.run import StagedOutput
from freshline.store.db.dump import DUMP
from freshline.store.db.ids import new_id
from freshline.store.doctor import checks
from freshline.store.doctor import examine as doctor
from freshline.store.doctor.checks import Finding
from freshline.store.doctor.examine import Examination, examine, repair
from tests.store_harness import Lab, laboratory, workflow
from tests.waiting import wait_until

HOUR = 3_600_000
WORKFLOWS = (
    workflow("b", "a", freshness={"ttlMs": HOUR, "maxAgeMs": 2 * HOUR}, pool="p"),
    workflow("c", "b", freshness={"cadenceMs": 24 * HOUR}),
    workflow("d", "b c"),
    workflow("old", "a"),
)
LONG = {"minutes": 10}


@dataclass(frozen=True, slots=True)
class Plant:
    """A planted fault: how to cause it, the expected text, and other checks that may find it too."""

    break_: Callable[[Lab], Any]
    sentence: str
    others: frozenset[str] = frozenset()


def sql(*statements: str) -> Callable[[Lab], None]:
    """Return a function that writes to the database and bypasses its constraints."""

    def break_(lab: Lab) -> None:
        with lab.database.transaction("report") as connection:
            connection.execute("SET LOCAL session_replication_role = replica")  # no foreign keys
            for statement in statements:
                connection.execute(statement.encode())

    return break_


def all_of(*actions: Callable[[Lab], Any]) -> Callable[[Lab], None]:
    """Return a function that does these things, one after another."""

    def break_(lab: Lab) -> None:
        for action in actions:
            action(lab)

    return break_


def later(*actions: Callable[[Lab], Any]) -> Callable[[Lab], None]:
    """Return a function that does these things, and then lets a long time pass."""
    return all_of(*actions, lambda lab: lab.advance(**LONG))


def retire(lab: Lab) -> None:
    """Retire the workflow `old`."""
    lab.apply(*WORKFLOWS[:-1], pools={"p": 1})


def registered(**info: Any) -> Callable[[Lab], None]:
    """Return a function that registers a materializer with this information."""

    def break_(lab: Lab) -> None:
        word = {**lab.store.evaluation.summary(), **info}
        lab.store.processes.register(new_id(), "materializer", project=None, code_hash=None, info=word)

    return break_


def running(lab: Lab) -> None:
    """Start a run whose worker then dies."""
    lab.report("a", "2")
    lab.settle()
    lab.start_of("b")


def queued(lab: Lab) -> None:
    """Queue a run; leave the other queues empty."""
    lab.report("a", "2")
    lab.settle()
    lab.store.events.stamp_positions(1000)


def overfull(lab: Lab) -> None:
    """Give a run a slot beyond the limit of its pool, long after the limit was applied."""
    lab.advance(**LONG)
    tidy(lab)
    running(lab)
    sql("UPDATE runs SET slot = 2 WHERE status = 'running'")(lab)


def doubled(lab: Lab) -> None:
    """Drop the unique index and duplicate a run."""
    lab.report("a", "2")
    lab.settle()
    columns = (
        "workflow_id, partition_key, version, project, needs_spark, status, trigger, trigger_type, cause, priority"
    )
    rest = "urgency, pins, queued_at"
    sql(
        "DROP INDEX runs_one_active",
        f"INSERT INTO runs (id, {columns}, {rest}) SELECT gen_random_uuid(), {columns}, {rest} FROM runs"
        " WHERE status = 'queued' AND workflow_id = (SELECT id FROM workflows WHERE slug = 'b')",
    )(lab)


def tidy(lab: Lab) -> None:
    """Process the timers and considerations that came due meanwhile, as services do continuously."""
    lab.work()
    lab.store.events.stamp_positions(10_000)


UPDATE_A = """UPDATE workflow_partitions SET consumed_versions = jsonb_set(consumed_versions, '{a,sequence}', '9')
              WHERE workflow_id = (SELECT id FROM workflows WHERE slug = 'b')"""
ZOMBIE = "INSERT INTO assets (id, producer_id, step_id) SELECT 'zombie', id, 'work' FROM workflows WHERE slug = 'old'"
NOTE = """INSERT INTO considerations (workflow_id, partition_key, not_before, class, noted_at)
          SELECT id, '', '2040-01-01', 'event', '2026-01-05 09:00Z' FROM workflows WHERE slug = 'old'"""

PLANTS = {
    "forgotten": Plant(
        lambda lab: (lab.report("a", "2"), lab.rows("DELETE FROM inbox RETURNING 1")),
        "workflow 'b' is stale and no evaluation of it is planned",
    ),
    "run-doubled": Plant(doubled, "workflow 'b' has 2 active automatic runs", frozenset({"index-missing"})),
    "index-missing": Plant(
        sql("DROP INDEX runs_slots", "CREATE UNIQUE INDEX runs_slots ON runs (project, slot) WHERE slot IS NOT NULL"),
        "the unique index runs_slots on runs is missing, invalid or different",
    ),
    "head-missing": Plant(
        sql("UPDATE snapshots SET gone_at = now() WHERE asset_id = 'a'"),
        "the head of asset 'a' is version 1, which is gone",
    ),
    "head-differs": Plant(
        sql("UPDATE heads SET data_version = 'x' WHERE asset_id = 'd'"),
        "the head of asset 'd' has data version 'x', its snapshot 1 has 'd:",
    ),
    "code-unknown": Plant(
        sql("UPDATE snapshots SET code = jsonb_set(code, '{0,workflowVersion}', '99') WHERE asset_id = 'd'"),
        "rows of asset 'd' were made by version 99 of workflow number ",
    ),
    "pin-missing": Plant(
        all_of(queued, sql("UPDATE runs SET pins = jsonb_set(pins, '{a,sequence}', '7')")),
        "of workflow 'b' has pinned version 7 of asset 'a', which does not exist",
    ),
    "vector-ahead": Plant(sql(UPDATE_A), "workflow 'b' has consumed version 9 of asset 'a', whose newest version is 1"),
    "digest-differs": Plant(
        sql("INSERT INTO asset_digests VALUES ('a', 1, 2, 7, now())"),
        "the digest of asset 'a' counts 2 partitions, and 0 have data or other data",
    ),
    "removed-has-data": Plant(
        sql(
            "UPDATE heads SET retired_at = now() WHERE asset_id = 'd'",
            "UPDATE snapshots SET table_version = 3, base_version = 3 WHERE asset_id = 'd'",
        ),
        "retention removed 'd@', and version 3 of the table has it",
        frozenset({"head-differs"}),
    ),
    "definition-differs": Plant(
        sql("DELETE FROM edges WHERE asset_id = 'c'"),
        "workflow 'd' should consume asset 'c' and is not stored as its consumer",
    ),
    "owner-retired": Plant(
        all_of(retire, Lab.settle, sql(ZOMBIE)),
        "the retired workflow 'old' is still stored as a producer of asset 'zombie'",
    ),
    "pool-overfull": Plant(overfull, "of workflow 'b' has slot 2 of 1"),
    "timer-missing": Plant(
        sql("DELETE FROM timers WHERE asset_id = 'b' AND kind = 'expiry'"),
        "asset 'b' of workflow 'b' has no expiry timer",
    ),
    "timer-orphan": Plant(
        sql("INSERT INTO timers VALUES ('d', '', 'expiry', '2030-01-01', 'ttl', NULL, NULL, NULL)"),
        "asset 'd' has an expiry timer (ttl), and no such freshness policy",
    ),
    "backfill-stuck": Plant(
        later(
            lambda lab: lab.store.backfills.create(BackfillRequest("d")),
            lambda lab: lab.store.backfills.advance(),
            lambda lab: lab.store.events.stamp_positions(10),
            sql("DELETE FROM considerations WHERE workflow_id = (SELECT id FROM workflows WHERE slug = 'd')"),
        ),
        "of asset 'd' has an open partition that nothing evaluates",
    ),
    "consideration-late": Plant(
        later(
            lambda lab: (
                lab.report("a", "2"),
                lab.store.evaluation.consume_inbox(10),
                lab.store.events.stamp_positions(10),
            )
        ),
        "workflow 'b' should have been evaluated 10 min ago",
    ),
    "consideration-retired": Plant(
        later(retire, tidy, sql(NOTE)), "the retired workflow 'old' has had a consideration for 10 min"
    ),
    "event-unabsorbed": Plant(
        later(lambda lab: (lab.report("a", "2"), lab.store.events.stamp_positions(10))),
        "an event (changed) about asset 'a' has not been processed for 10 min",
    ),
    "timer-late": Plant(lambda lab: lab.advance(minutes=70), "the expiry timer of asset 'b' should have fired"),
    "lease-lost": Plant(
        later(running, lambda lab: lab.store.events.stamp_positions(1000), lambda lab: lab.advance(seconds=20)),
        "of workflow 'b' lost its worker 10 min ago and was not released",
        frozenset({"run-unattended", "consideration-late"}),
    ),
    "run-unattended": Plant(
        later(queued), "of workflow 'b' (project lab) has waited for 10 min; no worker could take it"
    ),
    "event-unstamped": Plant(
        later(lambda lab: lab.store.operations.cancel(lab.store.operations.request_run("d"))),
        "event workflow.run.queued of 'd' has had no position for 10 min",
        frozenset({"event-unabsorbed"}),
    ),
    "commit-late": Plant(
        later(
            sql(
                "INSERT INTO table_commits (asset_id, partition_key, table_version, sequence, eligible_at)"
                " SELECT asset_id, partition_key, 0, sequence, produced_at FROM heads WHERE asset_id = 'b'"
            )
        ),
        "table version 0 of asset 'b' is not in its Delta log after 0 tries: not tried yet",
    ),
    "incident-stuck": Plant(
        later(
            lambda lab: lab.store.alerts.add(read_rule("alarm", {"on": "failing", "to": "json://h/"})),
            sql(
                "INSERT INTO alert_incidents (id, rule_id, root, kinds, members, assets, affected, opened_at)"
                " SELECT id, id, 'workflow:b', '{failing}', '{workflow:b}', '{b}', 1, created_at FROM alert_rules"
            ),
        ),
        "alert 'alarm' has an open incident of b since 2026-01-05",
    ),
    "alert-unsent": Plant(
        later(
            lambda lab: lab.store.alerts.add(read_rule("alarm", {"on": "failing", "to": "json://h/"})),
            sql(
                "INSERT INTO alert_messages (rule_id, kind, incident_ids, target, created_at, eligible_at, trouble)"
                " SELECT id, 'alert', ARRAY[id], 0, created_at, created_at, 'no answer' FROM alert_rules"
            ),
        ),
        "alert 'alarm' has unsent messages to json://*** (1), the oldest since 2026-01-05 09:00: no answer",
    ),
    "materializers-differ": Plant(registered(graph="0" * 16), "works with another graph (0000000000000000) than epoch"),
}


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a lab where every asset is fresh and every event has a position."""
    with laboratory(database_url) as lab:
        lab.apply(*WORKFLOWS, pools={"p": 1})
        lab.report("a", "1")
        tidy(lab)
        yield lab


def wrong(seen: Examination) -> dict[str, Finding]:
    """Return the findings that are not healthy."""
    return {one.check.id: one for one in seen.findings if not one.healthy}


def test_a_healthy_store_is_told_to_be(lab: Lab) -> None:
    """Nothing is found where nothing is wrong, not even a note about clocks."""
    lab.store.processes.register(
        new_id(), "materializer", project=None, code_hash=None, info=lab.store.evaluation.summary()
    )
    seen = examine(lab.store, 20)
    assert [one.check.id for one in seen.findings if one.count] == []
    assert [one.check for one in seen.findings] == list(checks.STORE_CHECKS)
    (shown,) = seen.materializers
    assert shown["heads"] == 5
    assert shown["epoch"] == 1


def test_every_check_has_a_plant() -> None:
    """A check that is added without a fault to find fails here; notes and the schema have tests of their own."""
    own = {"schema", "attendance", "clock"}
    assert sorted(PLANTS) == sorted({check.id for check in checks.STORE_CHECKS} - own)


def test_the_repairs_are_those_that_are_told(lab: Lab) -> None:
    """What says that it can be repaired has a repair, and nothing else has."""
    assert sorted(doctor._repairs(lab.store)) == sorted(check.id for check in checks.STORE_CHECKS if check.repair)


def test_the_indexes_that_are_looked_for_are_those_of_the_schema() -> None:
    """All unique partial indexes of the schema: a promise rests on each."""
    made = re.findall(r"CREATE UNIQUE INDEX (\w+) ON .* WHERE", DUMP.read_text(encoding="utf-8"))
    assert sorted(re.findall(r"\('(\w+)', '\w+', '\{", doctor.SQL["index_missing"])) == sorted(made)


@pytest.mark.parametrize("check", PLANTS)
def test_what_is_planted_is_found_told_and_repaired(lab: Lab, check: str) -> None:
    """The fault is found by its own check, in a sentence that names it, and by no check that it does not concern.

    What can be repaired is: nothing of it is left, twice is as good as once, and everything goes on by itself.
    """
    plant = PLANTS[check]
    plant.break_(lab)
    before = lab.everything()
    found = wrong(examine(lab.store, 20))
    assert lab.everything() == before
    assert plant.sentence in " ".join(found[check].sentences)
    assert found[check].as_json()["remedy"]
    assert set(found) <= {check, *plant.others}
    if found[check].check.repair:
        for _ in range(2):
            repair(lab.store, examine(lab.store, 20).findings)
            assert check not in wrong(examine(lab.store, 20))
        goes_on(lab)


def goes_on(lab: Lab) -> None:
    """Check that the next update reaches every workflow, and that nothing is wrong afterwards."""
    tidy(lab)
    lab.report("a", "3")
    tidy(lab)
    assert wrong(examine(lab.store, 20)) == {}
    assert lab.state("d")["consumed_versions"]["b"]["dataVersion"] == lab.head("b")["data_version"]


def test_what_is_not_ours_to_repair_stays(lab: Lab) -> None:
    """No repair is guessed: a finding without one changes nothing (docs/semantics.md#R11.1)."""
    for check in ("vector-ahead", "head-differs", "definition-differs"):
        PLANTS[check].break_(lab)
    before = lab.everything()
    assert repair(lab.store, examine(lab.store, 20).findings) == []
    assert lab.everything() == before


def test_a_repaired_timer_is_the_one_that_was_lost(lab: Lab) -> None:
    """It is set from the time of production, not from the repair (docs/semantics.md#R8.1)."""
    query = "SELECT * FROM timers ORDER BY asset_id, kind"
    before = lab.rows(query)
    lab.rows("DELETE FROM timers RETURNING 1")
    lab.advance(minutes=5)
    lab.store.doctor.repair()
    assert lab.rows(query) == before


def test_a_publication_beside_the_repair_sets_its_own_timers(lab: Lab) -> None:
    """A repair that began before it waits for it, and does not count from the production before.

    See docs/semantics.md#R11.2.
    """
    lab.advance(minutes=30)
    lab.report("a", "2")
    lab.settle()
    run = lab.start_of("b")
    lab.rows("DELETE FROM timers RETURNING 1")
    mender = threading.Thread(target=lab.store.doctor.repair)

    def meanwhile() -> None:
        mender.start()
        wait_until(lambda: lab.rows("SELECT 1 FROM pg_locks WHERE NOT granted") or not mender.is_alive())

    with failpoints.armed("publish_run:before", meanwhile):
        lab.finish(run)
    mender.join()
    assert lab.one("SELECT due_at FROM timers WHERE asset_id = 'b' AND kind = 'expiry'") == lab.later(hours=1)


def test_a_freshness_that_the_job_returned_is_no_fault(lab: Lab) -> None:
    """What a job says about its output wins over the declaration: its timers are right, and those it has not too."""
    lab.report("a", "2")
    for slug, freshness in (("b", {"maxAge": "1d"}), ("c", None), ("d", {"ttl": "1m"})):
        lab.settle()
        run = lab.start_of(slug)
        outputs = [StagedOutput(slug, "work", f"{slug}:new", freshness=freshness)]
        lab.store.runs.begin_step(run.id, run.attempt, "work", 1)
        lab.store.runs.finish_step(run.id, run.attempt, "work", 1, outputs=outputs)
        lab.store.runs.publish(run, outputs)
    timers = lab.rows("SELECT asset_id, kind FROM timers WHERE asset_id IN ('b', 'd') ORDER BY asset_id")
    assert [(row["asset_id"], row["kind"]) for row in timers] == [("b", "overdue"), ("d", "expiry")]
    assert wrong(examine(lab.store, 20)) == {}
    before = lab.everything()
    lab.store.doctor.repair()
    assert lab.everything() == before


def test_late_work_is_told_with_who_should_do_it(lab: Lab) -> None:
    """Without a materializer the remedy is to start one; with one that is there its log is where to look."""
    PLANTS["event-unabsorbed"].break_(lab)
    remedy = wrong(examine(lab.store, 20))["event-unabsorbed"].remedy
    assert remedy == "start `freshline materializer`: none is running"
    registered()(lab)
    remedy = wrong(examine(lab.store, 20))["event-unabsorbed"].remedy
    assert remedy.startswith("a materializer is running: see its log for the cause")


def test_much_is_counted_and_little_is_shown(lab: Lab) -> None:
    """At most `limit` sentences for each check, and how many there are in all."""
    for version in "234567":
        lab.report("a", version)
    lab.advance(**LONG)
    found = wrong(examine(lab.store, 2))["event-unabsorbed"]
    assert (len(found.sentences), found.count) == (2, 6)


@pytest.mark.parametrize(
    ("info", "sentence"),
    [
        ({"epoch": 9}, "works with epoch 9 of the definitions; the database has epoch 1"),
        ({"epoch": 0}, "works with epoch 0 of the definitions; the database has epoch 1"),
        ({"epoch": None}, "does not report which definitions it works with"),
        ({"heads": 6}, "sees 6 heads; the database has 5"),
        ({"heads": 2}, "sees 2 heads; the database has 5"),
    ],
)
def test_the_odd_materializer_is_named(lab: Lab, info: dict[str, Any], sentence: str) -> None:
    """Of several that are there only the one is named whose word differs from the database's."""
    lab.advance(**LONG)
    tidy(lab)
    registered()(lab)
    registered(**info)(lab)
    (said,) = wrong(examine(lab.store, 20))["materializers-differ"].sentences
    assert sentence in said


def test_a_word_of_before_the_apply_is_not_odd(lab: Lab) -> None:
    """A materializer speaks every few seconds: until then its last word is of before the apply and of fewer heads."""
    registered()(lab)
    lab.apply(*WORKFLOWS, workflow("e", "d"), pools={"p": 1})
    lab.work()
    assert "materializers-differ" not in wrong(examine(lab.store, 20))


def test_materializers_with_one_database_say_the_same(lab: Lab) -> None:
    """Epoch, graph and heads of two processes agree, also after an apply, and the graph is read once per epoch."""
    other = type(lab.store)(lab.database, lab.settings)
    assert lab.store.evaluation.summary() == other.evaluation.summary()
    graph = other.evaluation._graph
    assert other.evaluation.summary() == lab.store.evaluation.summary()
    assert other.evaluation._graph is graph
    before = other.evaluation.summary()
    lab.apply(*WORKFLOWS[:-1], workflow("old", "b"), pools={"p": 1})
    assert lab.store.evaluation.summary() == other.evaluation.summary() != before


def test_notes_leave_it_healthy(lab: Lab) -> None:
    """A run that waits since this moment and a clock that is wrong are told, and nothing more."""
    lab.store.operations.request_run("d")
    seen = examine(lab.store, 20)
    assert wrong(seen) == {}
    (note,) = [one for one in seen.findings if one.count]
    assert note.sentences == ["1 run is queued and no worker of project lab is running"]
    told = doctor._clock(-5000, 20)
    assert told.healthy
    assert told.sentences == ["this host's clock is 5.0 s behind the database's"]


def test_a_schema_that_does_not_fit_is_a_finding(lab: Lab) -> None:
    """Behind or too new: one sentence that says which version and what to do."""
    assert doctor.schema(lab.database.url).count == 0
    lab.rows("INSERT INTO freshline_migrations (version, name, breaking) VALUES (999, 'x', true) RETURNING 1")
    assert "schema version 999 of the database is newer" in doctor.schema(lab.database.url).sentences[0]
    lab.rows("DELETE FROM freshline_migrations RETURNING 1")
    assert "run `freshline db upgrade`" in doctor.schema(lab.database.url).sentences[0]


def test_a_definition_is_compared_with_what_is_stored(lab: Lab) -> None:
    """Assets and edges of every step count; what a workflow makes for its own steps is no edge.

    See docs/semantics.md#R1.3.
    """
    steps = workflow("two", "a")["steps"]
    steps.append({**steps[0], "id": "more", "consumes": [{"assetId": "two"}], "produces": [{"assetId": "three"}]})
    lab.apply(*WORKFLOWS, {"slug": "two", "steps": steps}, pools={"p": 1})
    tidy(lab)
    assert wrong(examine(lab.store, 20)) == {}
    lab.rows("UPDATE workflow_versions SET definition = %s RETURNING 1", Jsonb({"slug": "x", "steps": []}))
    found = wrong(examine(lab.store, 3))["definition-differs"]
    assert found.sentences[0] == "workflow 'b' is stored as a consumer of asset 'a' and does not consume it"
    assert found.count == 12
