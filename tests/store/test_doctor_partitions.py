"""The doctor and partitions: backfills that cannot finish, and digests that are not those of the heads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from freshline.store.doctor.examine import examine, repair
from freshline.store.evaluation import partitions
from tests.scenarios.test_backfills import ask, chain, status
from tests.scenarios.test_partitions import HOURS, divided, ran, sales
from tests.store_harness import Lab, laboratory


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield an empty lab."""
    with laboratory(database_url) as lab:
        yield lab


def found(lab: Lab, check: str) -> list[str]:
    """Return what a check finds."""
    lab.store.events.stamp_positions(10_000)
    return [text for one in examine(lab.store, 20).findings if one.check.id == check for text in one.sentences]


def mend(lab: Lab) -> None:
    """Repair what is found."""
    repair(lab.store, examine(lab.store, 20).findings)


def test_a_backfill_without_turns_is_found_after_an_hour(lab: Lab) -> None:
    """And not before, nor while it is paused or waits for its time. The repair gives turns, and it finishes."""
    chain(lab)
    backfill_id = lab.store.backfills.create(ask())
    lab.advance(minutes=50)
    assert found(lab, "backfill-stuck") == []
    lab.advance(minutes=11)
    [text] = found(lab, "backfill-stuck")
    assert (
        text
        == f"backfill {backfill_id} of asset 'clean' has not gone on for an hour, and nothing of it is open or running"
    )
    lab.rows("UPDATE backfills SET not_before = %s RETURNING 1", lab.later(hours=1))
    assert found(lab, "backfill-stuck") == []
    lab.rows("UPDATE backfills SET not_before = NULL, status = 'paused' RETURNING 1")
    assert found(lab, "backfill-stuck") == []
    lab.rows("UPDATE backfills SET status = 'active' RETURNING 1")
    mend(lab)
    assert found(lab, "backfill-stuck") == []
    ran(lab)
    assert status(lab, backfill_id) == "finished"


def test_open_partitions_that_nothing_evaluates_are_found(lab: Lab) -> None:
    """Those with a run, a consideration or a missing input are none of them."""
    chain(lab)
    backfill_id = lab.store.backfills.create(ask(concurrency=3))
    lab.settle()
    run = lab.start_of("clean")
    lab.advance(minutes=10)
    lab.rows("UPDATE runs SET lease_until = %s WHERE status = 'running' RETURNING 1", lab.later(hours=1))
    assert found(lab, "backfill-stuck") == []
    lab.rows("UPDATE runs SET status = 'canceled', finished_at = now() WHERE status = 'queued' RETURNING 1")
    lab.rows("DELETE FROM considerations RETURNING 1")
    [text] = found(lab, "backfill-stuck")
    assert text == f"backfill {backfill_id} of asset 'clean' has 2 open partitions that nothing evaluates"
    lab.rows("UPDATE decisions SET reason = 'input-missing' RETURNING 1")
    assert found(lab, "backfill-stuck") == []
    lab.rows("UPDATE decisions SET reason = 'backfill' WHERE reason = 'input-missing' RETURNING 1")
    mend(lab)
    assert found(lab, "backfill-stuck") == []
    lab.finish(run)
    ran(lab)
    assert status(lab, backfill_id) == "finished"


def test_a_digest_is_computed_again_from_the_heads(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its readers are evaluated; the number of its change goes on, so that pins stay what they are."""
    monkeypatch.setattr(partitions, "MOST_LISTED", 0)
    sales(lab)
    for hour in ("2025-12-31T05", "2026-01-02T05"):
        lab.report("raw", "v1", partition_key=hour)
    ran(lab)
    before = lab.rows("SELECT * FROM asset_digests ORDER BY asset_id")
    lab.rows("UPDATE asset_digests SET digest = digest + 1 WHERE asset_id = 'monthly' RETURNING 1")
    lab.rows("DELETE FROM asset_digests WHERE asset_id = 'daily' RETURNING 1")
    assert found(lab, "digest-differs") == [
        "the digest of asset 'daily' counts 0 partitions, and 2 have data or other data",
        "the digest of asset 'monthly' counts 1 partitions, and 1 have data or other data",
    ]
    for _ in range(2):
        mend(lab)
        assert found(lab, "digest-differs") == []
    after = lab.rows("SELECT * FROM asset_digests ORDER BY asset_id")
    for old, new in zip(before, after, strict=True):
        assert {**old, "change": 0, "changed_at": 0} == {**new, "change": 0, "changed_at": 0}
        assert new["change"] >= old["change"]
    assert ran(lab) == []
    lab.report("raw", "v2", partition_key="2025-12-31T05")
    assert ("total", "") in ran(lab)


def test_heads_outside_of_the_definition_are_fine(lab: Lab) -> None:
    """A range that became shorter leaves partitions outside, and nothing is wrong with them."""
    days = {"time": "day", "start": "2025-12-30"}
    lab.apply(divided("daily", {"raw": {"require": "any"}}, days), sources=(HOURS,))
    lab.report("raw", "v1", partition_key="2025-12-30T05")
    ran(lab)
    lab.apply(divided("daily", {"raw": {"require": "any"}}, {**days, "start": "2026-01-01"}), sources=(HOURS,))
    ran(lab)
    lab.store.events.stamp_positions(10_000)
    assert [one.check.id for one in examine(lab.store, 20).findings if not one.healthy] == []
