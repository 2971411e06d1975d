"""Every table that partitions and backfills need is bounded, and what ended long ago is deleted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from freshline.errors import ConflictError, NotFoundError, PartitionKeyError
from freshline.model.backfill import OPEN, BackfillStatus
from freshline.services.pruner import Pruner
from freshline.store.backfills import backfills
from tests.scenarios.test_backfills import ask, chain
from tests.scenarios.test_partitions import divided, ran
from tests.store.test_prune import prune
from tests.store_harness import Lab, laboratory

DAYS: dict[str, Any] = {"time": "day", "start": "2025-12-30"}
REGIONS: dict[str, Any] = {"assetId": "raw", "partitioning": {"dynamic": {"limit": 3}}}


def rows(lab: Lab) -> dict[str, int]:
    """Return how many rows each table of backfills has."""
    names = ("backfills", "backfill_workflows", "backfill_partitions")
    return {name: lab.one(f"SELECT count(*) FROM {name}") for name in names}


def test_backfills_that_ended_long_ago_go_with_their_rows(database_url: str) -> None:
    """In pages. Those that have not ended stay, however old they are."""
    with laboratory(database_url) as lab:
        chain(lab)
        kept, canceled, failed = (lab.store.backfills.create(ask()) for _ in range(3))
        lab.settle()
        lab.store.backfills.pause(kept)
        lab.store.backfills.cancel(canceled)
        lab.rows("UPDATE backfill_partitions SET state = 'failed' WHERE backfill_id = %s RETURNING 1", failed)
        lab.rows("UPDATE backfill_workflows SET rest = NULL WHERE backfill_id = %s RETURNING 1", failed)
        lab.settle()
        assert lab.store.backfills.find(failed)["status"] == BackfillStatus.FINISHED
        before = rows(lab)
        lab.advance(days=29)
        assert prune(lab, 2) > 0
        assert rows(lab) == before
        lab.advance(days=2)
        prune(lab, 2)
        assert [one["id"] for one in lab.store.backfills.list()] == [kept]
        assert lab.store.backfills.find(kept)["status"] in OPEN
        assert rows(lab)["backfill_workflows"] == 1
        assert lab.one("SELECT count(*) FROM backfill_partitions WHERE backfill_id <> %s", kept) == 0
        for gone in (canceled, failed):
            with pytest.raises(NotFoundError):
                lab.store.backfills.find(gone)
        assert lab.store.backfills.list(after=canceled) == []


def test_a_run_can_outlive_its_backfill(database_url: str) -> None:
    """It publishes, and its cancellation leaves no mark, also when its backfill was deleted."""
    with laboratory(database_url) as lab:
        chain(lab)
        backfill_id = lab.store.backfills.create(ask(concurrency=2))
        lab.settle()
        published, stopped = lab.start(), lab.start()
        lab.store.backfills.cancel(backfill_id)
        lab.rows("UPDATE backfills SET ended_at = ended_at - interval '1 year' RETURNING 1")
        pruner = Pruner(lab.store)
        while pruner.run_once():
            pass
        assert rows(lab) == {"backfills": 0, "backfill_workflows": 0, "backfill_partitions": 0}
        found = lab.store.reader.run(str(published.id))
        assert (found["trigger"]["type"], found["trigger"]["backfillId"]) == ("backfill", backfill_id)
        lab.finish(published)
        lab.store.operations.cancel(str(stopped.id))
        lab.store.runs.cancel(stopped.id, stopped.attempt)
        assert lab.one("SELECT count(*) FROM workflow_partitions WHERE canceled IS NOT NULL") == 0
        ran(lab)


def test_so_many_backfills_may_be_open(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused with what to do, and nothing is stored. One that ended makes room."""
    monkeypatch.setattr(backfills, "MOST_ACTIVE", 2)
    with laboratory(database_url) as lab:
        chain(lab)
        first, _ = (lab.store.backfills.create(ask()) for _ in range(2))
        with pytest.raises(ConflictError, match="2 backfills have not ended; allowed are 2 at a time"):
            lab.store.backfills.create(ask())
        assert rows(lab)["backfills"] == 2
        lab.store.backfills.cancel(first)
        lab.store.backfills.create(ask())


def test_digests_timers_and_keys_do_not_grow_with_what_happens(database_url: str) -> None:
    """One digest per asset, a timer per running clock and one for the next key, and no more keys than the limit."""
    with laboratory(database_url) as lab:
        lab.apply(
            divided("daily", {"days": None}, DAYS, freshness={"ttlMs": 3_600_000, "partitions": {"latest": 2}}),
            divided("regional", {"raw": None}, {"dynamic": {"limit": 3}}),
            sources=(REGIONS, {"assetId": "days", "partitioning": DAYS}),
        )
        for number in range(12):
            day = f"{lab.now - timedelta(days=1):%Y-%m-%d}"
            for version in range(3):
                lab.report("days", f"v{number}-{version}", partition_key=day)
            lab.report("raw", f"v{number}", partition_key=f"r{number % 3}")
            lab.work()
            lab.advance(days=1)
        with pytest.raises(PartitionKeyError, match="limit of 3 keys"):
            lab.report("raw", "v1", partition_key="more")
        lab.work()
        assert lab.one("SELECT count(*) = count(DISTINCT asset_id) FROM asset_digests")
        assert lab.one("SELECT count(*) FROM asset_digests") == 4
        assert lab.one("SELECT count(*) FROM timers WHERE asset_id = 'daily' AND kind = 'next-key'") == 1
        assert lab.one("SELECT count(*) FROM timers WHERE asset_id = 'daily' AND kind = 'expiry'") <= 2
        assert lab.one("SELECT count(*) FROM timers") <= 2 + 2
        assert lab.one("SELECT max(n) FROM (SELECT count(*) AS n FROM partition_keys GROUP BY asset_id) k") == 3
