"""Notes about all partitions of a workflow are expanded in chunks, newest first (docs/semantics.md#R13.13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from freshline.services.reconciler import Reconciler
from freshline.store.evaluation import load_state
from freshline.store.evaluation.evaluation import BatchError
from freshline.store.evaluation.load_state import BatchState
from freshline.store.store import Store
from tests.scenarios.test_partitions import divided
from tests.store_harness import Lab, laboratory, workflow

DAYS: dict[str, Any] = {"time": "day", "start": "2024-02-05"}
OLDEST = "2024-02-05"
COUNT = 700
BATCH = 50  # a chunk is not larger than a batch
UNLIMITED: dict[str, Any] = {"onUpstreamUpdate": True, "partitions": {"limit": 10_000}}
RAW: dict[str, Any] = {"assetId": "raw", "partitioning": DAYS}
NOTE = "SELECT keys_left, expanded_to, again_at FROM considerations WHERE partition_key = '' AND workflow_id = 1"


def prepared(lab: Lab, days: dict[str, Any]) -> None:
    """Apply a workflow of many days that reads a source without partitions, and days of which only two have data."""
    lab.apply(
        divided("days", {"fx": None, "raw": None}, days, auto=UNLIMITED),
        workflow("other", "o"),
        sources=({**RAW, "partitioning": days},),
    )
    for day in ("2026-01-04", days["start"]):
        lab.report("raw", "v1", partition_key=day)
    lab.report("o", "v1")
    while lab.store.evaluation.consume_inbox(100):
        pass
    lab.rows("DELETE FROM considerations WHERE partition_key = '' AND workflow_id = 1 RETURNING 1")
    lab.work()
    assert lab.one("SELECT slug FROM workflows WHERE id = 1") == "days"
    lab.rows("DELETE FROM decisions RETURNING 1")


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a workflow of 700 days."""
    with laboratory(database_url, batch=BATCH) as lab:
        prepared(lab, DAYS)
        yield lab


def note(lab: Lab) -> dict[str, Any] | None:
    """Return the note about all days."""
    found = lab.rows(NOTE)
    return found[0] if found else None


def change(lab: Lab, version: str) -> None:
    """Change what every day reads, and consume the event."""
    lab.report("fx", version)
    assert lab.store.evaluation.consume_inbox(100) == 1


def reconcile(lab: Lab) -> None:
    """Evaluate one batch of full size: on a busy machine a reconciler takes smaller ones."""
    Reconciler(lab.store).run_once()


def considered(lab: Lab) -> list[str]:
    """Return the days that were noted and not evaluated yet, the next one to be evaluated first."""
    found = lab.rows(
        "SELECT partition_key FROM considerations WHERE partition_key <> '' ORDER BY not_before, partition_key"
    )
    return [row["partition_key"] for row in found]


def state(lab: Lab) -> BatchState:
    """Return what is in motion."""
    graph = lab.store.evaluation._graph
    assert graph is not None
    with lab.database.connection() as connection:
        return load_state.read(
            connection, graph, {(lab.one("SELECT id FROM workflows WHERE slug = 'days'"), "2026-01-04"): 0}
        )


def in_motion(lab: Lab, day: str) -> bool:
    """Return whether a day is in motion."""
    graph = lab.store.evaluation._graph
    assert graph is not None
    [days] = [one for one, slug in graph.slugs.items() if slug == "days"]
    return any(part.selection.contains(day, graph.partitioning("days")) for part in state(lab).parts.get(days, ()))


def test_a_change_of_all_partitions_is_one_note_that_shrinks(lab: Lab) -> None:
    """The event costs one row. Each reconcile notes a chunk, newest first, and each day is evaluated once."""
    change(lab, "v2")
    assert note(lab) == {"keys_left": COUNT, "expanded_to": None, "again_at": None}
    assert considered(lab) == []
    reconcile(lab)
    assert note(lab) == {"keys_left": COUNT - BATCH, "expanded_to": "2025-11-16", "again_at": None}
    assert considered(lab)[:3] == ["2026-01-04", "2026-01-03", "2026-01-02"]
    assert len(considered(lab)) == BATCH
    reconcile(lab)
    assert lab.rows("SELECT 1 FROM runs WHERE status = 'queued' AND partition_key = '2026-01-04'")
    lab.settle()
    assert note(lab) is None
    assert lab.one("SELECT count(DISTINCT partition_key) FROM decisions") == COUNT
    assert lab.one("SELECT max(count) FROM decisions") == 1
    assert lab.active() == ["days", "days"]


def test_events_of_others_do_not_wait_for_the_expansion(database_url: str) -> None:
    """An event that comes in the middle of 5,000 partitions is evaluated after one batch of what was noted before."""
    with laboratory(database_url, batch=BATCH) as lab:
        prepared(lab, {"time": "day", "start": "2012-04-28"})
        change(lab, "v2")
        assert (note(lab) or {})["keys_left"] == 5_000
        for _ in range(2):
            reconcile(lab)
            lab.advance(seconds=1)
        lab.report("o", "v2")
        lab.store.evaluation.consume_inbox(100)
        lab.advance(seconds=1)
        reconcile(lab)
        assert "other" in lab.active()
        assert (note(lab) or {})["keys_left"] == 5_000 - 2 * BATCH
        assert lab.one("SELECT min(partition_key) FROM decisions WHERE partition_key <> ''") > "2025-07"


def test_what_is_not_expanded_is_in_motion(lab: Lab) -> None:
    """Readers wait for the days that the note still stands for, and not for those that were evaluated."""
    change(lab, "v2")
    assert in_motion(lab, "2026-01-03")
    assert in_motion(lab, OLDEST)
    for _ in range(3):
        reconcile(lab)
    assert not in_motion(lab, "2026-01-03")
    assert in_motion(lab, OLDEST)
    change(lab, "v3")
    assert in_motion(lab, "2026-01-03")


def test_a_crash_between_two_chunks_loses_nothing(lab: Lab) -> None:
    """A chunk is one transaction: it is noted and the note is shorter, or neither. Another process goes on."""
    change(lab, "v2")
    before = note(lab)
    with pytest.raises(BatchError, match="crash"), lab.store.evaluation.batch(BATCH):
        raise ValueError("crash")
    assert note(lab) == before
    assert considered(lab) == []
    reconcile(lab)
    lab.store = Store(lab.database, lab.settings)
    lab.reconciler.store = lab.store
    lab.settle()
    assert lab.one("SELECT count(DISTINCT partition_key) FROM decisions") == COUNT
    assert lab.one("SELECT max(count) FROM decisions") == 1


def test_changes_that_come_fast_reach_the_oldest_partition(lab: Lab) -> None:
    """A change in the middle of an expansion lets it go on, and begin once more after that."""
    change(lab, "v2")
    for number in range(28):
        reconcile(lab)
        change(lab, f"v{number + 3}")
    found = note(lab)
    assert found is not None
    assert found["keys_left"] == COUNT
    assert lab.one("SELECT count(*) FROM runs WHERE status = 'queued' AND partition_key = '2024-02-05'") == 1
    lab.settle()
    assert note(lab) is None
    [pins] = lab.rows(
        "SELECT pins -> 'fx' ->> 'dataVersion' AS fx FROM runs WHERE status = 'queued' AND partition_key = '2024-02-05'"
    )
    assert pins["fx"] == "v30"


def test_definitions_that_change_during_an_expansion(lab: Lab) -> None:
    """Other keys begin with the newest again; a workflow that has no partitions any more is one consideration."""
    change(lab, "v2")
    reconcile(lab)
    months = {"time": "month", "start": "1942-09"}
    lab.apply(divided("days", {"fx": None}, months, auto=UNLIMITED), workflow("other", "o"), sources=(RAW,))
    assert note(lab) == {"keys_left": 1_000, "expanded_to": None, "again_at": None}
    reconcile(lab)  # the days that were noted before, which do not exist any more
    reconcile(lab)
    assert considered(lab)[0] == "2025-12"
    lab.settle()
    assert note(lab) is None
    assert lab.one("SELECT count(*) FROM runs WHERE status = 'queued' AND partition_key LIKE '____-__'") == 1_000
    lab.report("fx", "v3")
    lab.store.evaluation.consume_inbox(100)
    reconcile(lab)
    lab.apply(divided("days", {"fx": None}), workflow("other", "o"), sources=(RAW,))
    lab.settle()
    assert note(lab) is None
    assert lab.one("SELECT count(*) FROM considerations") == 0


def test_a_position_that_is_no_key_any_more_begins_again(lab: Lab) -> None:
    """An older process may have left a position that the definitions do not have; nothing is skipped."""
    change(lab, "v2")
    reconcile(lab)
    lab.rows("UPDATE considerations SET expanded_to = 'gone' WHERE partition_key = '' RETURNING 1")
    assert in_motion(lab, OLDEST)
    lab.settle()
    assert lab.one("SELECT count(DISTINCT partition_key) FROM decisions") == COUNT


def test_an_unchanged_input_wakes_those_that_it_can_matter_to(lab: Lab) -> None:
    """Equal data of an input of very many partitions evaluates only those with certain holds."""
    lab.report("fx", "v1")
    lab.store.evaluation.consume_inbox(100)
    lab.rows("DELETE FROM considerations RETURNING 1")
    lab.rows(
        "INSERT INTO considerations (workflow_id, partition_key, not_before, class, noted_at, hold) SELECT 1, d,"
        " now() + interval '100 years', 'event', now(), h FROM (VALUES ('2026-01-04', 'waiting-for-all'),"
        " ('2026-01-03', 'cooling-down')) v (d, h) RETURNING 1"
    )
    lab.report("fx", "v1")
    lab.settle()
    assert [row["partition_key"] for row in lab.rows("SELECT partition_key FROM decisions")] == ["2026-01-04"]
