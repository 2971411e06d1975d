"""Retention of partitions in the store: what is removed, what follows, and what stays (docs/semantics.md#R13.14)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from freshline.errors import ConflictError, PartitionKeyError
from freshline.model.backfill import BackfillPolicy, BackfillRequest
from freshline.model.documents.partition import WantedPartitions
from tests.scenarios.test_partitions import divided, ran
from tests.store_harness import Lab

SOURCE: dict[str, Any] = {"assetId": "raw", "partitioning": {"time": "day", "start": "2025-12-28"}}
DAYS: dict[str, Any] = {"time": "day", "start": "2025-12-28"}
MONTHS: dict[str, Any] = {"time": "month", "start": "2025-12"}
KEYS = [f"2025-12-{day}" for day in (28, 29, 30, 31)] + [f"2026-01-0{day}" for day in range(1, 5)]


def kept(
    slug: str,
    consumes: Mapping[str, Any],
    partitioning: Mapping[str, Any] | None = None,
    *,
    retain: str | None = None,
    frozen: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return a workflow whose partitions are kept and run for a time."""
    found = divided(slug, consumes, partitioning, **more)
    output = found["steps"][0]["produces"][0]
    output |= {**({"retain": retain} if retain else {}), **({"frozenAfter": frozen} if frozen else {})}
    return found


def chain(lab: Lab, retain: str | None = "5d", *, report: bool = True, **inputs: Any) -> None:
    """Days that are kept for a time, weeks of days that read them, and a total of the days."""
    lab.apply(
        kept("clean", {"raw": None}, DAYS, retain=retain),
        divided("window", {"clean": {"window": {"from": -2, "to": 0}, "require": "any", **inputs}}, DAYS),
        divided("total", {"clean": None}),
        sources=(SOURCE,),
    )
    for key in KEYS if report else ():
        lab.report("raw", "v1", partition_key=key)


def removed(lab: Lab, retain: str = "5d", **inputs: Any) -> list[tuple[str, str]]:
    """Build all partitions, then keep them for a time; return what ran because of the removal."""
    chain(lab, None, **inputs)
    ran(lab)
    chain(lab, retain, report=False, **inputs)
    return everything(lab)


def retire(lab: Lab) -> None:
    """Remove all that is due."""
    while lab.store.retirement.retire_partitions():
        pass


def live(lab: Lab, asset_id: str = "clean") -> list[str]:
    """Return the partitions that have data."""
    query = "SELECT partition_key FROM heads WHERE asset_id = %s AND retired_at IS NULL ORDER BY 1"
    return [row["partition_key"] for row in lab.rows(query, asset_id)]


def reasons(lab: Lab, slug: str) -> dict[str, str]:
    """Return the holds of the partitions of a workflow."""
    query = (
        "SELECT c.partition_key, c.hold FROM considerations c JOIN workflows w ON w.id = c.workflow_id"
        " WHERE w.slug = %s AND c.hold IS NOT NULL ORDER BY 1"
    )
    return {row["partition_key"]: row["hold"] for row in lab.rows(query, slug)}


def ask(asset_id: str, *keys: str, **more: Any) -> BackfillRequest:
    """Return a request for a backfill."""
    return BackfillRequest(asset_id, keys=keys, policy=BackfillPolicy(**more))


def everything(lab: Lab) -> list[tuple[str, str]]:
    """Return what ran until all is removed and nothing is left to do."""
    found = ran(lab)
    retire(lab)
    return found + ran(lab)


def test_old_partitions_lose_their_data_and_keep_their_history(lab: Lab) -> None:
    """Four days ended more than four days ago. Their heads say so, their snapshots and runs stay."""
    chain(lab, None)
    ran(lab)
    chain(lab, "4d", report=False)
    runs = len(lab.runs("clean"))
    assert live(lab) == KEYS
    retire(lab)
    assert live(lab) == KEYS[4:]
    retired = lab.events("asset.partition.retired")
    assert [event["data"]["partitionKey"] for event in retired] == KEYS[:4]
    assert retired[0]["data"]["retainMs"] == 4 * 86_400_000
    assert len(lab.runs("clean")) == runs
    assert lab.rows("SELECT count(*) AS n FROM snapshots WHERE asset_id = 'clean' AND NOT retired")[0]["n"] == len(KEYS)


def test_a_partition_is_removed_when_its_time_has_come(lab: Lab) -> None:
    """One second before, it is there. The timer stands for the next one afterwards."""
    chain(lab, "9d")
    ran(lab)
    lab.advance(hours=15, days=1, seconds=-1)
    everything(lab)
    assert live(lab)[:1] == KEYS[:1]
    lab.advance(seconds=1)
    everything(lab)
    assert live(lab)[:1] == KEYS[1:2]
    due = lab.one("SELECT due_at FROM timers WHERE kind = 'retire'")
    assert due.isoformat() == "2026-01-08T00:00:00+00:00"


def test_what_was_computed_from_removed_data_stays(lab: Lab) -> None:
    """Retention of days below windows that are kept: no window runs again, and none is stale."""
    removed(lab)
    before = lab.rows("SELECT partition_key, data_version FROM heads WHERE asset_id = 'window' ORDER BY 1")
    lab.advance(days=1)
    found = everything(lab)
    assert live(lab)[:1] == ["2026-01-01"]
    after = lab.rows("SELECT partition_key, data_version FROM heads WHERE asset_id = 'window' ORDER BY 1")
    assert after[: len(before)] == before
    assert {key for slug, key in found if slug == "window"} <= {"2026-01-05"}
    assert ran(lab) == []


def test_a_total_is_computed_from_what_is_left(lab: Lab) -> None:
    """An input that reads all partitions recomputes by default: it runs once, without those that were removed."""
    assert removed(lab) == [("total", "")]
    assert set(lab.runs("total")[-1]["pins"]) == {f"clean@{key}" for key in live(lab)}
    assert ran(lab) == []


def test_a_total_that_keeps_is_not_computed_again(lab: Lab) -> None:
    """With `onRetire: keep` it counts as computed, and is sealed."""
    lab.apply(
        kept("clean", {"raw": None}, DAYS, retain="9d"),
        divided("total", {"clean": {"onRetire": "keep"}}),
        sources=(SOURCE,),
    )
    for key in KEYS:
        lab.report("raw", "v1", partition_key=key)
    ran(lab)
    lab.advance(days=2)
    retire(lab)
    assert "total" not in {slug for slug, _ in ran(lab)}
    lab.report("raw", "v2", partition_key="2026-01-04")
    assert ("total", "") not in ran(lab)
    assert reasons(lab, "total") == {"": "input-retired"}


def test_a_sealed_partition_is_held_for_every_cause(lab: Lab) -> None:
    """The window of the first day that is left has lost its first input. Corrections do not run it."""
    removed(lab)
    oldest = live(lab)[0]
    lab.report("raw", "v2", partition_key=oldest)
    found = ran(lab)
    assert ("clean", oldest) in found
    assert ("window", oldest) not in found
    held = reasons(lab, "window")
    assert held[oldest] == "input-retired"
    decision = lab.rows(
        "SELECT evidence FROM decisions WHERE partition_key = %s AND reason = 'input-retired' ORDER BY at DESC", oldest
    )[0]
    assert decision["evidence"]["retired"]
    with pytest.raises(ConflictError, match="retention has removed its input 'clean@"):
        lab.store.operations.request_run("window", partition_key=oldest)


def test_a_backfill_refuses_sealed_partitions(lab: Lab) -> None:
    """It ends as refused. With `partial` it is computed from what is left."""
    removed(lab)
    oldest = live(lab)[0]
    first = lab.store.backfills.create(ask("window", oldest))
    assert ran(lab) == []
    found = lab.store.backfills.find(first)
    assert (found["status"], found["progress"]["refused"]) == ("finished", 1)
    second = lab.store.backfills.create(ask("window", oldest, partial=True))
    assert ran(lab) == [("window", oldest)]
    assert set(lab.runs("window")[-1]["pins"]) == {f"clean@{oldest}"}
    assert lab.store.backfills.find(second)["status"] == "finished"
    assert ran(lab) == []


def test_a_preview_counts_frozen_sealed_and_removed_partitions(lab: Lab) -> None:
    """Of windows over days that are kept for five days, two are sealed; of the days, four were removed."""
    chain(lab, None)
    ran(lab)
    lab.apply(
        kept("clean", {"raw": None}, DAYS, retain="4d"),
        kept("window", {"clean": {"window": {"from": -2, "to": 0}, "require": "any"}}, DAYS, frozen="2d"),
        sources=(SOURCE,),
    )
    retire(lab)
    ran(lab)
    [days] = lab.store.backfills.preview(ask("clean"))["parts"]
    assert (days["partitions"], days["frozen"], days["sealed"], days["outside"]) == (4, 0, 0, 4)
    [windows] = lab.store.backfills.preview(ask("window"))["parts"]
    assert (windows["partitions"], windows["frozen"], windows["sealed"], windows["outside"]) == (8, 6, 6, 0)
    backfill_id = lab.store.backfills.create(ask("window"))
    ran(lab)
    found = lab.store.backfills.find(backfill_id)
    assert (found["progress"]["refused"], found["progress"]["done"]) == (6, 2)


def test_partitions_and_counts_leave_removed_ones_out(lab: Lab) -> None:
    """`freshline partitions` lists what is kept, and says which are frozen."""
    removed(lab, "4d")
    page = lab.store.reader.partitions("clean", limit=10)
    assert (page["total"], page["counts"]["fresh"], page["counts"]["missing"]) == (4, 4, 0)
    assert page["items"][-1]["from"] == KEYS[4]
    with pytest.raises(PartitionKeyError, match="was removed by retention"):
        lab.store.reader.partitions("clean", WantedPartitions(key=KEYS[0]))
    lab.apply(kept("clean", {"raw": None}, DAYS, frozen="3d"), sources=(SOURCE,))
    lab.report("raw", "v2", partition_key=KEYS[4])
    ran(lab)
    page = lab.store.reader.partitions("clean", limit=10)
    assert (page["counts"]["frozen"], page["counts"]["missing"]) == (1, 4)


def test_a_removed_partition_is_not_built_again(lab: Lab) -> None:
    """New data below it, new code, and requests leave it alone; requests say what to do."""
    removed(lab)
    lab.report("raw", "v2", partition_key=KEYS[0])
    assert ran(lab) == []
    with pytest.raises(PartitionKeyError, match="was removed by retention") as caught:
        lab.store.operations.request_run("clean", partition_key=KEYS[0])
    assert "longer 'retain'" in str(caught.value.hint)
    with pytest.raises(PartitionKeyError, match="was removed by retention"):
        lab.store.backfills.create(ask("clean", KEYS[0]))
    with pytest.raises(PartitionKeyError, match="was removed by retention"):
        lab.store.tables.rollback("clean", 0, partition_key=KEYS[0])


def test_a_longer_retention_brings_partitions_back(lab: Lab) -> None:
    """They are missing, are built again, and what was computed from them runs only if they differ."""
    removed(lab)
    gone = [key for key in KEYS if key not in live(lab)]
    chain(lab, "30d", report=False)
    found = everything(lab)
    assert sorted(key for slug, key in found if slug == "clean") == gone
    assert live(lab) == KEYS
    assert not [one for one in found if one[0] == "window"]
    assert lab.one("SELECT retired_keys FROM asset_digests WHERE asset_id = 'clean'") == 0


def test_many_are_removed_in_batches(lab: Lab) -> None:
    """Each transaction removes a bounded number, oldest first, as one version of the table."""
    chain(lab, None)
    ran(lab)
    chain(lab, "4d", report=False)
    removed = []
    while found := lab.store.retirement.retire_partitions(3):
        removed.append(found)
    assert removed == [3, 1]
    assert live(lab) == KEYS[4:]


def test_a_run_that_ends_after_the_retention_publishes_nothing(lab: Lab) -> None:
    """It was running while its partition was removed. Neither its data nor the removed data comes back."""
    chain(lab, "9d")
    ran(lab)
    lab.report("raw", "v2", partition_key=KEYS[0])
    lab.settle()
    run = lab.start_of("clean")
    lab.advance(days=1, hours=15)
    retire(lab)
    assert KEYS[0] not in live(lab)
    lab.finish(run)
    assert KEYS[0] not in live(lab)
    assert ("clean", KEYS[0]) not in ran(lab)
    assert lab.store.doctor is not None


def test_a_run_that_ends_between_its_time_and_the_timer_publishes_nothing(lab: Lab) -> None:
    """The order of publication and removal does not matter."""
    chain(lab, "9d")
    ran(lab)
    lab.report("raw", "v2", partition_key=KEYS[0])
    lab.settle()
    run = lab.start_of("clean")
    lab.advance(days=1, hours=15)
    before = lab.one("SELECT max(sequence) FROM snapshots WHERE asset_id = 'clean' AND partition_key = %s", KEYS[0])
    lab.finish(run)
    after = lab.one("SELECT max(sequence) FROM snapshots WHERE asset_id = 'clean' AND partition_key = %s", KEYS[0])
    assert after == before
    retire(lab)
    assert KEYS[0] not in live(lab)


def test_a_queued_run_of_a_removed_partition_ends(lab: Lab) -> None:
    """Nobody has started it, and nobody will."""
    chain(lab, "9d")
    ran(lab)
    lab.report("raw", "v2", partition_key=KEYS[0])
    lab.settle()
    assert len(lab.active("clean")) == 1
    lab.advance(days=1, hours=15)
    retire(lab)
    lab.settle()
    ended = [run for run in lab.runs("clean") if run["partition_key"] == KEYS[0]][-1]
    assert ended["status"] == "canceled"


def test_a_frozen_partition_does_not_run_by_itself(lab: Lab) -> None:
    """Its changes are recorded. A backfill runs it."""
    lab.apply(
        kept("daily", {"raw": None}, DAYS, frozen="3d"),
        divided("window", {"daily": {"window": {"from": -2, "to": 0}, "require": "any"}}, DAYS),
        sources=(SOURCE,),
    )
    for key in KEYS[4:]:
        lab.report("raw", "v1", partition_key=key)
    found = ran(lab)
    assert ("daily", KEYS[4]) not in found
    assert ("daily", KEYS[-1]) in found
    lab.report("raw", "v1", partition_key=KEYS[0])
    assert ran(lab) == []
    assert reasons(lab, "daily")[KEYS[0]] == "frozen"
    lab.store.backfills.create(ask("daily", KEYS[0]))
    assert ("daily", KEYS[0]) in ran(lab)


def test_a_frozen_partition_blocks_nobody(lab: Lab) -> None:
    """What reads it too runs at once, and says that it is a mix."""

    def apply(frozen: str | None) -> None:
        lab.apply(
            kept("daily", {"raw": None}, DAYS, frozen=frozen),
            divided("both", {"daily": None, "raw": None}, DAYS),
            sources=(SOURCE,),
        )

    apply(None)
    for key in KEYS:
        lab.report("raw", "v1", partition_key=key)
    ran(lab)
    apply("3d")
    lab.report("raw", "v2", partition_key=KEYS[0])
    assert ran(lab) == [("both", KEYS[0])]
    assert lab.runs("both")[-1]["mixed"]
    assert reasons(lab, "daily") == {KEYS[0]: "frozen"}


def test_a_held_partition_that_crosses_the_boundary_is_frozen(lab: Lab) -> None:
    """It was paused when it was young enough."""
    lab.apply(kept("daily", {"raw": None}, DAYS, frozen="3d"), sources=(SOURCE,))
    for key in KEYS:
        lab.report("raw", "v1", partition_key=key)
    ran(lab)
    lab.store.operations.pause("daily")
    lab.report("raw", "v2", partition_key=KEYS[-1])
    lab.settle()
    assert reasons(lab, "daily")[KEYS[-1]] == "paused"
    lab.advance(days=4)
    lab.store.operations.resume("daily")
    found = ran(lab)
    assert ("daily", KEYS[-1]) not in found
    assert reasons(lab, "daily")[KEYS[-1]] == "frozen"


def test_digests_say_what_was_removed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """An input that is read as one: with `recompute` a removal is a change, with `keep` it is none and seals."""
    monkeypatch.setattr("freshline.store.evaluation.partitions.MOST_LISTED", 2)
    lab.apply(
        kept("clean", {"raw": None}, DAYS, retain="9d"),
        divided("total", {"clean": None}),
        divided("sealed", {"clean": {"onRetire": "keep"}}),
        sources=(SOURCE,),
    )
    for key in KEYS:
        lab.report("raw", "v1", partition_key=key)
    ran(lab)
    assert set(lab.runs("total")[-1]["pins"]) == {"clean@"}
    lab.advance(days=2)
    retire(lab)
    found = [slug for slug, _ in ran(lab)]
    assert "total" in found
    assert "sealed" not in found
    lab.report("raw", "v2", partition_key=KEYS[-1])
    found = [slug for slug, _ in ran(lab)]
    assert "total" in found
    assert "sealed" not in found
    assert reasons(lab, "sealed") == {"": "input-retired"}
