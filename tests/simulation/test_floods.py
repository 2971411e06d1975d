"""The flood guard in a simulation: what would be proposed stays held (docs/semantics.md#R14.7)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from freshline.model.enums import Beyond
from freshline.model.policy import Flood
from freshline.partitions.declaration import Around, Declaration
from freshline.simulation import Catalogue, Simulator
from tests.simulation.partitioned import NONE, NOW, Job, Ran, catalogue_of, days, drive, fresh

LIMIT = 5
START = "2024-11-15"
DAYS = [f"2024-11-{day}" for day in range(15, 31)]  # 2024-11-30 is the newest


def world(beyond: Beyond = Beyond.PROPOSE) -> Catalogue:
    """Return days that read days and an asset without partitions, and their total."""
    policy = {"flood": Flood(LIMIT, beyond)}
    return catalogue_of(
        {"raw": days(START), "rates": NONE},
        [Job("daily", {"raw": None, "rates": None}, days(START), policy=policy), Job("total", {"daily": None})],
    )


def later(simulator: Simulator) -> None:
    """Let the runs end."""
    drive(simulator, timedelta(minutes=30))


def proposed(simulator: Simulator) -> list[str]:
    """Return the partitions that are proposed."""
    return sorted(one.partition_key for one in simulator.floods.proposed())


def test_a_shared_change_is_proposed_and_stays_held() -> None:
    """The newest runs, and nothing else does, however much time passes."""
    simulator, ran = fresh(world())
    simulator.report("rates")
    later(simulator)
    assert ran.keys("daily") == [DAYS[-1]]
    assert proposed(simulator) == DAYS[:-1]
    drive(simulator, timedelta(hours=13))
    assert ran.keys("daily") == [DAYS[-1]]


def test_as_many_as_the_limit_run() -> None:
    """Those at once, and one more in the same day is proposed."""
    simulator, ran = fresh(world())
    for key in DAYS[:LIMIT]:
        simulator.report("raw", partition_key=key)
    later(simulator)
    assert sorted(ran.keys("daily")) == DAYS[:LIMIT]
    simulator.report("raw", partition_key=DAYS[8])
    later(simulator)
    assert proposed(simulator) == [DAYS[8]]


def test_more_than_the_limit_at_once_are_all_proposed() -> None:
    """They count before any of them starts."""
    simulator, ran = fresh(world())
    for key in DAYS[: LIMIT + 1]:
        simulator.report("raw", partition_key=key)
    later(simulator)
    assert ran.runs == []
    assert proposed(simulator) == DAYS[: LIMIT + 1]


def test_what_is_evaluated_without_being_stale_does_not_count() -> None:
    """A few stale ones among many that are evaluated run after all."""
    simulator, ran = fresh(world())
    workflow_id = simulator.catalogue.find("daily").id
    for key in DAYS:
        simulator.note(simulator.catalogue.member(workflow_id, key).id)
    for key in DAYS[:2]:
        simulator.report("raw", partition_key=key)
    later(simulator)
    assert sorted(ran.keys("daily")) == DAYS[:2]
    assert proposed(simulator) == []


def test_a_reason_of_its_own_runs() -> None:
    """A late day of a proposal runs and leaves it."""
    simulator, ran = fresh(world())
    simulator.report("rates")
    later(simulator)
    simulator.report("raw", partition_key=DAYS[3])
    later(simulator)
    assert ran.keys("daily") == [DAYS[-1], DAYS[3]]
    assert DAYS[3] not in proposed(simulator)


def test_beyond_ignore() -> None:
    """The versions are accepted; new data is a cause."""
    simulator, ran = fresh(world(Beyond.IGNORE))
    simulator.report("rates")
    later(simulator)
    assert (ran.keys("daily"), proposed(simulator)) == ([DAYS[-1]], [])
    simulator.report("raw", partition_key=DAYS[3])
    later(simulator)
    assert ran.keys("daily") == [DAYS[-1], DAYS[3]]


@pytest.mark.parametrize(("place", "expected"), [(-LIMIT, LIMIT), (-LIMIT - 1, 0)])
def test_a_chain_counts_as_a_whole(place: int, expected: int) -> None:
    """A late day runs all that follow, or none of them."""
    earlier = Declaration(rule=Around(-1, -1))
    job = Job("balance", {"raw": None, "balance": earlier}, days(START), policy={"flood": Flood(LIMIT)})
    simulator, ran = fresh(catalogue_of({"raw": days(START)}, [job]))
    simulator.report("raw", partition_key=DAYS[place])
    later(simulator)
    assert len(ran.keys("balance")) == expected


def test_graphs_without_partitions_have_no_guard() -> None:
    """Nothing is counted."""
    simulator, ran = fresh(catalogue_of({"raw": NONE}, [Job("total", {"raw": None})]))
    simulator.report("raw")
    later(simulator)
    assert ran.counts() == {"total": 1}
    assert simulator.now > NOW
    assert isinstance(ran, Ran)
