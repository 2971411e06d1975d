"""Backfills in the simulator: turns, what counts, pause, retry and cancellation (docs/semantics.md#R14)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from freshline.errors import ConflictError, NotFoundError, UsageError
from freshline.model.backfill import BackfillPolicy, BackfillRequest, BackfillStatus
from freshline.simulation import Catalogue, Run, Simulator, Work
from tests.simulation.partitioned import Job, Ran, Steady, catalogue_of, days, drive, fresh, months

HOUR = timedelta(hours=1)
KEYS = [f"2024-11-{day}" for day in range(27, 31)]


class Unchanged(Steady):
    """Runs whose output is the same as before."""

    def work(self, run: Run) -> Work:
        """Return the work."""
        return replace(super().work(run), changed=False)


def chain() -> Catalogue:
    """Return days, days from them, and months."""
    first = days("2024-11-27")
    return catalogue_of(
        {"raw": first},
        [
            Job("clean", {"raw": None}, first),
            Job("daily", {"clean": None}, first),
            Job("monthly", {"daily": None}, months("2024-11-01")),
        ],
    )


def ask(simulator: Simulator, asset_id: str = "clean", *, downstream: bool = False, **policy: object) -> str:
    """Request a backfill of all partitions and return its id."""
    request = BackfillRequest(asset_id, downstream=downstream, policy=BackfillPolicy(**policy))  # type: ignore[arg-type]
    return simulator.backfills.create(request).id


def begun(**policy: object) -> tuple[Simulator, Ran, str]:
    """Return a simulator in which a backfill has been requested."""
    simulator, ran = fresh(chain())
    number = ask(simulator, **policy)  # type: ignore[arg-type]
    simulator.settle()
    return simulator, ran, number


@pytest.mark.parametrize("newest_first", [True, False])
def test_each_partition_runs_once_in_order(newest_first: bool) -> None:
    """Days, days from them, their month: each once, in the order that was asked for."""
    simulator, ran, number = begun(downstream=True, newest_first=newest_first, concurrency=1)
    drive(simulator, 2 * HOUR)
    assert ran.keys("clean") == (KEYS[::-1] if newest_first else KEYS)
    assert ran.counts() == {"clean": 4, "daily": 4, "monthly": 1}
    progress = simulator.backfills.progress(number)
    assert (progress.done, progress.total, simulator.backfills.find(number).status) == (9, 9, "finished")


def test_a_success_that_read_an_undone_part_does_not_count() -> None:
    """A run that was queued before the request starts after it, on an input that had no turn: it does not count."""
    simulator, ran = fresh(chain())
    simulator.expire("daily", KEYS[0])
    simulator.settle()
    [run] = simulator.active.values()
    number = ask(simulator, downstream=True, concurrency=1)
    simulator.begin(run)
    simulator.succeed(run, changed=False)
    drive(simulator, 2 * HOUR, Unchanged())  # so that no other cause runs it again
    assert simulator.backfills.find(number).status is BackfillStatus.FINISHED
    assert ran.keys("daily").count(KEYS[0]) == 2
    assert (ran.counts()["clean"], ran.counts()["daily"]) == (4, 5)


def test_pause_resume_and_cancel() -> None:
    """A pause ends queued runs, a resumed one goes on, a canceled one leaves nothing."""
    simulator, ran, number = begun(concurrency=2)
    assert len(simulator.active) == 2
    simulator.backfills.pause(number)
    drive(simulator, HOUR)
    assert (ran.runs, simulator.active) == ([], {})
    simulator.backfills.resume(number)
    simulator.settle()
    running = simulator.claim()
    assert running is not None
    simulator.backfills.cancel(number)
    assert list(simulator.active.values()) == [running]
    simulator.backfills.cancel(number)
    with pytest.raises(ConflictError, match="is canceled"):
        simulator.backfills.resume(number)


def test_a_partition_that_fails_too_often_ends_and_is_tried_again() -> None:
    """The backfill finishes without it; `retry` runs it."""
    simulator, ran, number = begun(concurrency=4)
    for _ in range(5):
        run = next(one for one in simulator.active.values() if one.partition_key == KEYS[0])
        simulator.begin(run)
        simulator.fail(run)
        simulator.advance(simulator.now + timedelta(minutes=1))
    drive(simulator, HOUR)
    found = simulator.backfills.find(number)
    assert (found.status, simulator.backfills.progress(number).failed) == ("finished", 1)
    assert simulator.backfills.retry(number) == 1
    drive(simulator, HOUR)
    assert sorted(ran.keys("clean")) == KEYS


def test_what_cannot_be_is_refused() -> None:
    """The error says what is allowed."""
    simulator, _ = fresh(chain())
    with pytest.raises(UsageError, match="is a source"):
        ask(simulator, "raw")
    with pytest.raises(NotFoundError):
        ask(simulator, "nothing")
    with pytest.raises(NotFoundError):
        simulator.backfills.pause("b7")
    assert simulator.backfills.known == {}


def test_the_last_month_of_a_backfill_is_waited_for() -> None:
    """The backfill has ended, and what it changed last is still computed: the total runs once, after that."""
    patient = {"max_wait_ms": 900_000}
    first = days("2024-10-30")
    jobs = [
        Job("clean", {"raw": None}, first),
        Job("monthly", {"clean": None}, months("2024-10-01"), patient),
        Job("total", {"monthly": None}, policy=patient),
    ]
    simulator, ran = fresh(catalogue_of({"raw": first}, jobs))
    keys = ("2024-10-30", "2024-10-31", "2024-11-01", "2024-11-02")
    request = BackfillRequest("clean", keys=keys, policy=BackfillPolicy(concurrency=1))
    backfill = simulator.backfills.create(request)
    drive(simulator, 2 * HOUR, Steady({"clean": 600, "monthly": 600, "total": 60}))
    assert backfill.status is BackfillStatus.FINISHED
    queued = [(run.slug, (run.queued_at - backfill.requested_at) / timedelta(minutes=1)) for run in ran.runs]
    assert [one for one in queued if one[0] != "clean"] == [("monthly", 20), ("monthly", 40), ("total", 50)]
    assert not any(run.mixed for run in ran.runs)
