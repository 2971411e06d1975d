"""Every pair of transactions that share a row, in every order of their statements, on real connections.

Afterwards there was no deadlock, at most one run is active, heads and events agree with snapshots, no stale workflow is
forgotten, and the next update reaches every workflow. The regular tests run the most important pairs with one switch
inside a transaction. `make full` does so with every pair; it runs the dangerous pairs with all switches if they are
short and with two if they are long, and triples with two.

See docs/semantics.md#R4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, combinations_with_replacement

import pytest

from freshline.errors import FencedError
from freshline.model.run import ClaimedRun
from freshline.services.reconciler import Reconciler
from freshline.store.db.ids import new_id
from tests.store.saved import Saved
from tests.store.schedule import Act, Stage, Trace, long_timeout_laboratory, stepped
from tests.store.test_failpoints import converges
from tests.store.transaction_cases import CASES, ERROR, LINES, WORKFLOWS, Scene, edit_policy, key_of, tables
from tests.store_harness import Lab

# Which existing rows each transaction writes or locks; rows that are only added are not shared.
TOUCHES = {
    "absorb": {"inbox", "considerations", "runs"},
    "append_logs": {"runs"},
    "apply": {"considerations", "runs", "workflows", "assets", "workflow_partitions", "timers", "inbox"},
    "begin_step": {"runs"},
    "cancel": {"runs", "workflow_partitions"},
    "cancel_running": {"runs", "workflow_partitions"},
    "claim_run": {"runs", "workflow_partitions"},
    "expire": {"timers"},
    "fail_run": {"runs", "workflow_partitions"},
    "finish_step": {"runs"},
    "fire_timers": {"timers"},
    "give_up": {"runs"},
    "hand_back": {"runs"},
    "mark_failed": {"considerations"},
    "mend": {"assets", "considerations", "timers"},
    "pause": {"considerations", "runs", "workflows"},
    "publish_run": {"runs", "assets", "heads", "timers", "workflow_partitions"},
    "reconcile": {"considerations", "runs"},
    "rename_project": {"considerations", "runs", "workflows", "assets"},
    "renew_leases": {"runs"},
    "report": {"heads"},
    "request_run": {"workflows"},
    "rescue": {"runs", "workflow_partitions"},
    "reset": {"workflows", "workflow_partitions"},
    "resume": {"workflows"},
    "rollback_table": {"assets", "heads", "timers"},
    "sweep": {"considerations"},
}
# These touch rows that no other transaction touches, one process at a time or by the key of a process.
ALONE = {
    "add_webhook",
    "create_token",
    "forget_snapshots",
    "leave_worker",
    "log_table",
    "mark_versions",
    "prune",
    "publish_events",
    "register_worker",
    "relog_table",
    "retire_partitions",  # of assets with partitions: test_partition_interleavings
    "remove_versions",
    "revoke_token",
    "stamp_positions",
    "use_token",
}
# These share only rows of alerts, with one lock each; tests/alerts covers them.
ALERTS = {
    "add_alert",
    "claim_alerts",
    "evaluate_alerts",
    "pause_alert",
    "record_alerts",
    "remove_alert",
    "resume_alert",
}
# These share only rows of webhooks; tests/webhooks/test_interleavings.py covers them.
WEBHOOKS = {
    "claim_webhook",
    "pause_webhook",
    "record_deliveries",
    "redeliver_webhook",
    "remove_webhook",
    "resume_webhook",
}
# These share rows of deliveries and of assets that nobody uses: tests/store/test_compaction.py and
# tests/store/test_source_interleavings.py cover them.
DELIVERIES = {"compact_deliveries", "forget_asset", "skip_delivery"}
# These share only rows of watches and of a source; tests/watching/test_interleavings.py covers them.
WATCHES = {"claim_watches", "fail_look", "note_looks", "record_look", "release_watches"}
# These lock the row of their backfill first; tests/scenarios/test_backfills.py and test_proposals.py cover them.
BACKFILLS = {
    "advance_backfill",
    "approve_backfill",
    "cancel_backfill",
    "create_backfill",
    "deny_backfill",
    "pause_backfill",
    "propose_backfills",
    "resume_backfill",
    "retry_backfill",
}
# A table of two codes, sources of one join: test_code_interleavings.py and test_group_interleavings.py cover these.
OTHER_SCENES = {"accept_code", "report_together"}
ELSEWHERE = WEBHOOKS | DELIVERIES | WATCHES | ALERTS | BACKFILLS | OTHER_SCENES
NEEDS_A_RUN = {"cancel", "claim_run"}
# For these a worker with an expired lease holds a run of b; for others it is queued, or there is none yet.
HELD = {
    "append_logs",
    "begin_step",
    "cancel_running",
    "fail_run",
    "finish_step",
    "give_up",
    "hand_back",
    "publish_run",
    "renew_leases",
    "rescue",
}
# An apply after a rename is an apply of another project; the two exclude each other with the lock of apply.
IMPOSSIBLE = {("apply", "rename_project")}
PAIRS = [
    pair
    for pair in combinations_with_replacement(sorted(TOUCHES), 2)
    if TOUCHES[pair[0]] & TOUCHES[pair[1]] and pair not in IMPOSSIBLE
]
DANGEROUS = [
    ("absorb", "reconcile"),
    ("apply", "reconcile"),
    ("claim_run", "reconcile"),
    ("pause", "reconcile"),
    ("publish_run", "rescue"),
    ("renew_leases", "rescue"),
    ("fire_timers", "publish_run"),
    ("cancel", "claim_run"),
    ("claim_run", "claim_run"),
    ("reconcile", "reconcile"),
    ("reconcile", "rename_project"),
]
SHORT = [
    ("absorb", "reconcile"),
    ("renew_leases", "rescue"),
    ("cancel", "claim_run"),
    ("claim_run", "claim_run"),
]
LONG = [pair for pair in DANGEROUS if pair not in SHORT and "apply" not in pair]
TRIPLES = list(combinations(["claim_run", "publish_run", "renew_leases", "rescue"], 3))
FORBIDDEN = """
SELECT 'two active automatic runs of one workflow' AS what FROM runs
 WHERE status IN ('queued', 'running') AND trigger_type = 'auto-materialize' GROUP BY workflow_id HAVING count(*) > 1
UNION ALL
SELECT 'two running runs of one workflow' FROM runs
 WHERE status = 'running' GROUP BY workflow_id HAVING count(*) > 1
UNION ALL
-- One that had begun before the pause and lost its worker goes on: it is no new run.
SELECT 'a new automatic run of a paused workflow' FROM runs r JOIN workflows w ON w.id = r.workflow_id
 WHERE r.status = 'queued' AND r.attempt = 0 AND r.trigger_type = 'auto-materialize' AND w.paused_at IS NOT NULL
UNION ALL
SELECT 'something published by another attempt than the one that ended' FROM snapshots s JOIN runs r ON r.id = s.run_id
 WHERE r.status <> 'succeeded' OR s.attempt <> r.attempt
UNION ALL
SELECT 'a head that is no snapshot' FROM heads h
  LEFT JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
 WHERE s.data_version IS DISTINCT FROM h.data_version
UNION ALL
SELECT 'a gap in the sequences' FROM heads h JOIN snapshots s USING (asset_id, partition_key)
 GROUP BY asset_id, partition_key, h.last_sequence
HAVING count(*) <> h.last_sequence OR max(s.sequence) <> h.last_sequence
UNION ALL
SELECT 'a snapshot without its event' FROM snapshots s WHERE NOT EXISTS (SELECT FROM events e WHERE e.id = s.event_id)
UNION ALL
SELECT 'an end of a run that was told ' || count(e.id) || ' times' FROM runs r
  LEFT JOIN events e ON e.data ->> 'runId' = r.id::text AND e.type = 'workflow.run.' || r.status
 WHERE r.status IN ('succeeded', 'failed', 'canceled') GROUP BY r.id HAVING count(e.id) <> 1
UNION ALL
SELECT 'an active run that no worker of its project can see' FROM runs r JOIN workflows w ON w.id = r.workflow_id
 WHERE r.status IN ('queued', 'running') AND r.project <> w.project
UNION ALL
SELECT 'an inbox row without its event' FROM inbox i WHERE i.kind <> 'touched'
   AND NOT EXISTS (SELECT FROM events e WHERE e.id = i.event_id)
"""


class Place:
    """Initial states in which every transaction can act on b, and the transactions."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.stage = Stage(lab)
        lab.apply(*WORKFLOWS)
        lab.report("a", "0")
        lab.work_with(tables)
        lab.report("a", "1")
        lab.work_with(tables)
        idle = Saved(lab, "idle")
        self.noted = self._scene("noted")
        idle.restore()
        lab.report("a", "2")
        lab.settle()
        self._before = Saved(lab, "before")
        self.run: ClaimedRun | None = None
        self.queued = self._scene("queued")
        self._before.restore()
        self.run = lab.start()
        lab.store.runs.begin_step(self.run.id, 1, "work", 1)
        self.held = self._scene("held")
        self.run_id = self.run.id

    def _scene(self, name: str) -> Saved:
        """Save a state with a consideration, an unconsumed report, a due timer, and no valid lease."""
        self.lab.report("a", "3")
        self.lab.store.evaluation.consume_inbox(10)
        self.lab.report("a", "4")
        self.lab.advance(hours=2)
        return Saved(self.lab, name)

    def acts(self, names: tuple[str, ...]) -> dict[str, Act]:
        """Return one act for each name; equal names are made distinct."""
        return {f"{name}{'+' * names[:number].count(name)}": self._act(name) for number, name in enumerate(names)}

    def _act(self, name: str) -> Act:
        lab, store, run = self.lab, self.lab.store, self.run
        assert run is not None
        key = key_of(lab, "b")
        own: dict[str, Act] = {
            "append_logs": lambda: store.runs.append_logs(run.id, 1, LINES, after=0),
            "apply": lambda: edit_policy(Scene(lab)),
            "begin_step": lambda: store.runs.begin_step(run.id, 1, "more", 1),
            "cancel": lambda: store.operations.cancel(self.run_id),
            "cancel_running": lambda: store.runs.cancel(run.id, 1),
            "claim_run": lambda: store.runs.claim(lab.claimant(new_id())),
            "fail_run": lambda: store.runs.fail(run.id, 1, ERROR),
            "finish_step": lambda: store.runs.finish_step(run.id, 1, "work", 1, outputs=[]),
            "give_up": lambda: store.runs.give_up(run.id, 1),
            "hand_back": lambda: store.runs.hand_back(run.id, 1),
            "mark_failed": lambda: store.evaluation.mark_failed(key, "planted"),
            "pause": lambda: store.operations.pause("b"),
            "publish_run": lambda: store.runs.publish(run, tables(run)),
            "reconcile": Reconciler(store).run_once,
            "renew_leases": lambda: store.runs.renew_leases([{"id": run.id, "attempt": 1}]),
            "report": lambda: lab.report("a", "5"),
            "request_run": lambda: store.operations.request_run("b"),
            "rescue": lambda: store.runs.rescue(10),
        }
        return own.get(name) or (lambda: CASES[name].act(Scene(lab)))

    def play(self, names: tuple[str, ...], *, switches: int, most: int = 5_000) -> tuple[int, int]:
        """Run and check every schedule of these. Return how many there were, and in how many an actor had to wait."""
        acts = self.acts(names)
        played = waited = 0
        for scene in self._scenes(names):
            for trace in self.stage.explore(acts, switches=switches, before=scene.restore, most=most):
                self._check(trace, thoroughly=played % 7 == 0)
                played += 1
                waited += trace.waits > 0
        return played, waited

    def _scenes(self, names: tuple[str, ...]) -> list[Saved]:
        if set(names) & HELD:
            return [self.held]
        return [self.queued] if set(names) & NEEDS_A_RUN else [self.noted, self.queued]

    def _check(self, trace: Trace, *, thoroughly: bool) -> None:
        for actor in trace.actors:
            assert actor.error is None or isinstance(actor.error, FencedError), (
                f"{actor.name}: {actor.error!r}: {trace}"
            )
        assert self.lab.rows(FORBIDDEN) == [], f"{trace}"
        assert self.lab.forgotten() == 0, f"somebody is forgotten: {trace}"
        if thoroughly:
            converges(Scene(self.lab))


@pytest.fixture(scope="module")
def place(module_database_url: str) -> Iterator[Place]:
    """Yield one database for all tests."""
    with long_timeout_laboratory(module_database_url) as lab:
        place = Place(lab)
        yield place
        place.stage.close()


Play = Callable[..., tuple[int, int]]


@pytest.fixture
def play(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    """Return a function that runs schedules with stepped statements."""
    with stepped(monkeypatch):
        yield place.play


def test_every_transaction_is_played() -> None:
    """A transaction that is added without saying what it touches fails here."""
    assert sorted(TOUCHES.keys() | ALONE | ELSEWHERE) == sorted(CASES)
    assert set(DANGEROUS) <= set(PAIRS)


@pytest.mark.parametrize("names", DANGEROUS, ids="-".join)
def test_a_switch_inside_a_dangerous_pair(play: Play, names: tuple[str, str]) -> None:
    """One switch at each place of either transaction."""
    played, waited = play(names, switches=1)
    assert played >= 4
    assert waited or names not in {("absorb", "reconcile"), ("apply", "reconcile"), ("publish_run", "rescue")}


def test_a_switch_inside_a_takeover(play: Play) -> None:
    """One worker publishes while its run is rescued and claimed by another."""
    play(("claim_run", "publish_run", "rescue"), switches=1)


@pytest.mark.full
@pytest.mark.parametrize("names", PAIRS, ids="-".join)
def test_a_switch_inside_every_pair(play: Play, names: tuple[str, str]) -> None:
    """The same for all pairs that share a row."""
    play(names, switches=1)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("names", SHORT, ids="-".join)
def test_all_interleavings_of_a_short_pair(play: Play, names: tuple[str, str]) -> None:
    """Every order of their statements that there is."""
    play(names, switches=100)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("names", LONG, ids="-".join)
def test_two_switches_inside_a_long_pair(play: Play, names: tuple[str, str]) -> None:
    """There and back again, at each place: one is seen with some of its locks taken, by who has taken some."""
    play(names, switches=2)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("names", TRIPLES, ids="-".join)
def test_triples_around_a_lease(play: Play, names: tuple[str, str, str]) -> None:
    """Claim, renew, finish and rescue, three at a time."""
    play(names, switches=2)
