"""Retention beside runs, applies and itself: who holds the asset comes first (docs/semantics.md#R13.14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from freshline.model.run import ClaimedRun
from freshline.store import partition_timers
from freshline.store.retention import retirement
from freshline.store.runs import publish
from tests.scenarios.test_retirement import DAYS, SOURCE, kept, live
from tests.store.test_transactions import TIMEOUT_S, Gate, Stage, stage

__all__ = ["stage"]
OLD, NEW = "2026-01-03", "2026-01-04"


def apply(stage: Stage, retain: str) -> Any:
    """Keep days for a time."""
    return stage.lab.apply(kept("clean", {"raw": None}, DAYS, retain=retain), sources=(SOURCE,))


def prepared(stage: Stage) -> ClaimedRun:
    """Two days with data, which are kept for two days. A run of the older one is running, and its time is near."""
    apply(stage, "2d")
    for key in (OLD, NEW):
        stage.lab.report("raw", "v1", partition_key=key)
    stage.lab.work()
    stage.lab.report("raw", "v2", partition_key=OLD)
    stage.lab.settle()
    run = stage.lab.start_of("clean")
    stage.lab.advance(hours=14, minutes=59)
    assert live(stage.lab) == [OLD, NEW]
    return run


def gated(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> Gate:
    """Return a gate at the begin of a function."""
    gate, act = Gate(), getattr(where, name)

    def slow(*arguments: Any, **named: Any) -> Any:
        gate()
        return act(*arguments, **named)

    monkeypatch.setattr(where, name, slow)
    return gate


def retire(stage: Stage) -> int | None:
    """Remove what is due."""
    return stage.lab.store.retirement.retire_partitions()


def snapshots(stage: Stage, key: str) -> list[tuple[int, bool]]:
    """Return the snapshots of a day, and whether they stand for no data."""
    query = "SELECT sequence, retired FROM snapshots WHERE asset_id = 'clean' AND partition_key = %s ORDER BY sequence"
    return [(row["sequence"], row["retired"]) for row in stage.lab.rows(query, key)]


def test_a_publication_that_came_first_is_removed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It began before the moment. The removal waits for it, and removes what it published."""
    run = prepared(stage)
    gate = gated(monkeypatch, publish, "append")
    with stage.held_in(gate, lambda: stage.lab.finish(run)):
        stage.lab.advance(minutes=2)
        removing = stage.begin(lambda: retire(stage))
        stage.until_blocked(removing)
    assert removing.result(TIMEOUT_S) == 1
    assert snapshots(stage, OLD) == [(1, False), (2, False), (3, True)]
    assert live(stage.lab) == [NEW]


def test_a_publication_that_came_later_publishes_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for the removal, and finds that its partition is gone."""
    run = prepared(stage)
    stage.lab.advance(minutes=2)
    gate = gated(monkeypatch, retirement, "_remove")
    with stage.held_in(gate, lambda: retire(stage)):
        publishing = stage.begin(lambda: stage.lab.finish(run))
        stage.until_blocked(publishing)
    publishing.result(TIMEOUT_S)
    assert snapshots(stage, OLD) == [(1, False), (2, True)]
    assert live(stage.lab) == [NEW]
    assert stage.lab.runs("clean")[-1]["status"] == "succeeded"


def test_two_processes_remove_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one waits, and finds nothing."""
    stage.lab.finish(prepared(stage))
    stage.lab.advance(minutes=2)
    gate = gated(monkeypatch, retirement, "_remove")
    with stage.held_in(gate, lambda: retire(stage)) as first:
        second = stage.begin(lambda: retire(stage))
        stage.until_blocked(second)
    assert (first.result(TIMEOUT_S), second.result(TIMEOUT_S)) == (1, 0)
    assert len(stage.lab.events("asset.partition.retired")) == 1


@pytest.mark.parametrize("first", ["apply", "retire"])
def test_a_longer_retention_and_a_removal_do_not_deadlock(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """An apply that came first keeps the partition. One that came later brings it back as missing."""
    stage.lab.finish(prepared(stage))
    stage.lab.advance(minutes=2)
    acts: dict[str, Callable[[], Any]] = {"apply": lambda: apply(stage, "30d"), "retire": lambda: retire(stage)}
    gates = {"apply": (partition_timers, "set_next_keys"), "retire": (retirement, "_remove")}
    gate = gated(monkeypatch, *gates[first])
    [later] = acts.keys() - {first}
    with stage.held_in(gate, acts[first]):
        other = stage.begin(acts[later])
        stage.until_blocked(other)
    other.result(TIMEOUT_S)
    assert live(stage.lab) == ([OLD, NEW] if first == "apply" else [NEW])
    stage.lab.work()
    assert live(stage.lab) == [OLD, NEW]
