"""The doctor at random steps of histories with faults: work in progress is not a fault."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from freshline.store.db.ids import new_id
from freshline.store.doctor.examine import examine
from tests.random_histories.sim_workers import LEASE_MS
from tests.random_histories.simulation import Simulation, keeping_plans, reset
from tests.store_harness import CODE, MONDAY, laboratory

EVERY = 5


@dataclass
class Examined(Simulation):
    """A history that the doctor examines. Its materializer and its worker register as real ones do."""

    shown: tuple[str, str] = field(default_factory=lambda: (new_id(), new_id()))
    checks: int = 0

    def _check(self) -> None:
        """Check that every committed state is healthy, and that repairs find nothing to do."""
        super()._check()
        store = self.lab.store
        self.checks += 1
        if self.checks % 20 == 0:
            store.events.stamp_positions(1000)
        if self.checks % 3 == 0:
            materializer, worker = self.shown
            store.processes.register(
                materializer, "materializer", project=None, code_hash=None, info=store.evaluation.summary()
            )
            store.processes.register(worker, "worker", project="lab", code_hash=CODE, info={"engine": "ok"})
        if self.checks % EVERY == 0:
            found = [sentence for one in examine(store, 20).findings if not one.healthy for sentence in one.sentences]
            assert not found, f"the doctor says: {found}"
        if self.checks % (10 * EVERY) == 0:
            before = self.lab.everything()
            store.doctor.repair()
            assert self.lab.everything() == before, "there was something to mend"


def histories(url: str, seeds: range) -> None:
    """Run these histories, one after another on one database."""
    with keeping_plans(), laboratory(url, lease_ms=LEASE_MS, max_worker_losses=50) as lab:
        for seed in seeds:
            lab.now = MONDAY
            Examined(lab, seed).run()
            reset(lab)


def test_the_doctor_finds_nothing_in_histories_with_faults(database_url: str) -> None:
    """Crashes, lost leases, pauses, applies and late commits are no faults of the store.

    See docs/semantics.md#R4.1, docs/semantics.md#R8.1, docs/semantics.md#R10.2.
    """
    histories(database_url, range(500, 503))


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_the_doctor_finds_nothing_in_many_histories(database_url: str) -> None:
    """The same for many seeds."""
    histories(database_url, range(600, 660))
