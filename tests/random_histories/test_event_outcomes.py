"""After random histories with faults every change has exactly one outcome, and all rows agree with it.

See docs/semantics.md#R5.5.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from freshline.model.documents.event import WorkflowOutcome
from freshline.model.json import Json
from tests.random_histories.sim_workers import LEASE_MS
from tests.random_histories.simulation import Simulation, keeping_plans, reset
from tests.store_harness import MONDAY, Lab, laboratory

SEEDS = range(100, 105)
SETTLED = {"triggered", "included", "superseded"}
HELD = {("held", "waiting-for-all"), ("held", "input-too-old")}
MOST_EVENTS = 40  # a trigger names at most this many


@dataclass
class Ledger:
    """Every row about one asset's changes and one consumer's runs."""

    lab: Lab
    asset_id: str
    slug: str
    snapshots: list[Json] = field(init=False)
    successes: list[Json] = field(init=False)

    def __post_init__(self) -> None:
        query = "SELECT * FROM snapshots WHERE asset_id = %s ORDER BY sequence"
        self.snapshots = self.lab.rows(query, self.asset_id)
        runs = [run for run in self.lab.runs(self.slug) if run["status"] == "succeeded"]
        read = [run for run in runs if self.asset_id in run["pins"]]
        self.successes = sorted(read, key=lambda run: (run["queued_at"], run["finished_at"]))

    def newest(self, sequence: int | None = None) -> int:
        """Return the sequence of the newest change, at or before a snapshot if given."""
        known: list[int] = [one["sequence"] for one in self.snapshots if one["changed"]]
        return max(one for one in known if sequence is None or one <= sequence)

    def read(self, run: Json) -> int:
        """Return the sequence of the change that a run read."""
        return self.newest(run["pins"][self.asset_id]["sequence"])

    def reader(self, sequence: int) -> Json | None:
        """Return the first success that read this snapshot or a later one."""
        return next((run for run in self.successes if run["pins"][self.asset_id]["sequence"] >= sequence), None)


def check(ledger: Ledger, snapshot: Json, fate: WorkflowOutcome) -> None:
    """Check an outcome against all rows, without a window and without an index."""
    sequence, lab = snapshot["sequence"], ledger.lab
    run = ledger.reader(sequence)
    if not snapshot["changed"]:
        assert fate["fate"] in {"ignored", "included"}
    elif run is not None:
        assert fate["fate"] in SETTLED, fate
        assert fate["runId"] == str(run["id"])
        assert (fate["fate"] == "superseded") == (ledger.read(run) > sequence)
    elif ledger.newest() > sequence:
        assert (fate["fate"], fate["runId"]) == ("superseded", None)
    else:
        # Reverted to the version that the last success read, or one input of an incomplete round, or next to old data.
        vector = lab.state(ledger.slug)["consumed_versions"]
        same = vector[ledger.asset_id]["dataVersion"] == snapshot["data_version"]
        assert (fate["fate"], fate["reason"]) in ({("ignored", "up-to-date")} if same else HELD)


def check_triggered(ledger: Ledger, snapshot: Json, fate: WorkflowOutcome) -> None:
    """Check that the run names the event, was queued after it, and read it."""
    (run,) = [one for one in ledger.successes if str(one["id"]) == fate["runId"]]
    named = run["trigger"]["eventIds"]
    assert str(snapshot["event_id"]) in named or len(named) == MOST_EVENTS
    assert run["queued_at"] >= snapshot["produced_at"]
    assert ledger.read(run) == snapshot["sequence"]


def check_superseded(ledger: Ledger, snapshot: Json, fate: WorkflowOutcome) -> None:
    """Check that the superseding event is a later change, and that no automatic run read this one."""
    (newer,) = [one for one in ledger.snapshots if str(one["event_id"]) == fate["supersededBy"]]
    assert newer["changed"]
    assert newer["sequence"] > snapshot["sequence"]
    automatic = [run for run in ledger.successes if run["trigger_type"] == "auto-materialize"]
    assert snapshot["sequence"] not in [ledger.read(run) for run in automatic]


def check_all(lab: Lab) -> Counter[str]:
    """Check every change that may trigger a workflow that was never redefined; count the outcomes."""
    edges = lab.rows(
        "SELECT e.asset_id, w.slug FROM edges e JOIN workflows w ON w.id = e.workflow_id"
        " JOIN workflow_partitions p ON p.workflow_id = w.id"
        " WHERE e.triggers AND w.automatic AND w.version = 1 AND w.retired_at IS NULL"
        " AND p.consumed_versions IS NOT NULL"
        " ORDER BY 1, 2"
    )
    met: Counter[str] = Counter()
    for ledger in (Ledger(lab, **edge) for edge in edges):
        for snapshot in ledger.snapshots:
            fates = lab.store.reader.event(str(snapshot["event_id"]))["fates"]
            (fate,) = [one for one in fates if one["workflowSlug"] == ledger.slug]
            check(ledger, snapshot, fate)
            if fate["fate"] == "triggered":
                check_triggered(ledger, snapshot, fate)
            elif fate["fate"] == "superseded":
                check_superseded(ledger, snapshot, fate)
            met[fate["fate"]] += 1
    return met


def test_every_change_has_the_fate_that_all_rows_tell(database_url: str) -> None:
    """At rest each change was read by a run, or a newer one was; what was taken back needed no run."""
    met: Counter[str] = Counter()
    with keeping_plans(), laboratory(database_url, lease_ms=LEASE_MS, max_worker_losses=50) as lab:
        for seed in SEEDS:
            lab.now = MONDAY
            Simulation(lab, seed, storms=False).run()
            met += check_all(lab)
            reset(lab)
    assert SETTLED | {"ignored"} <= met.keys(), f"these histories do not show all fates: {met}"
