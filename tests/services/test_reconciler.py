"""A batch with one bad row is halved: the bad row is visible, the others proceed (docs/semantics.md#R11.3)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import _GeneratorContextManager

import psycopg
import pytest
from structlog.testing import capture_logs

from freshline.services.reconciler import Reconciler
from freshline.store.evaluation.evaluation import Batch, BatchError
from freshline.store.evaluation.load_state import Key
from tests.store_harness import Lab, workflow


def claims(lab: Lab, reconciler: Reconciler) -> list[int]:
    """How many rows each attempt of one round took."""
    sizes: list[int] = []
    real = lab.store.evaluation.batch

    def counting(size: int, *, only: Sequence[Key] | None = None) -> _GeneratorContextManager[Batch | None, None, None]:
        sizes.append(len(only) if only is not None else size)
        return real(size, only=only)

    lab.store.evaluation.batch = counting  # type: ignore[method-assign]
    reconciler.run_once()
    lab.store.evaluation.batch = real  # type: ignore[method-assign]
    return sizes


def test_a_poisoned_row_is_found_by_halving(lab: Lab) -> None:
    """Eight workflows, one with a policy that cannot be read: seven run, and its decision says why."""
    lab.apply(*(workflow(f"w{number}", "a") for number in range(8)))
    lab.report("a", "1")
    lab.store.evaluation.consume_inbox(10)
    lab.rows("""UPDATE workflows SET policy = policy || '{"unheard": 1}' WHERE slug = 'w3' RETURNING 1""")
    with capture_logs() as logs:
        sizes = claims(lab, lab.reconciler)
    assert sizes == [500, 4, 2, 2, 1, 1, 4]
    assert lab.active() == [f"w{number}" for number in range(8) if number != 3]
    decision = lab.decision("w3")
    assert (decision["outcome"], decision["reason"]) == ("error", "evaluation-failed")
    assert "unheard" in decision["evidence"]["error"]
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["evaluation_failed"]
    assert lab.rows("SELECT hold, not_before > %s AS later FROM considerations", lab.now) == [
        {"hold": "evaluation-failed", "later": True}
    ]


def test_a_row_that_cannot_be_written_is_found_by_halving(lab: Lab) -> None:
    """An error of the database while writing is treated the same."""
    lab.apply(*(workflow(f"w{number}", "a") for number in range(4)))
    lab.report("a", "1")
    lab.store.evaluation.consume_inbox(10)
    _forbid(lab, "w2")
    lab.reconciler.run_once()
    assert lab.active() == ["w0", "w1", "w3"]
    assert "planted" in lab.decision("w2")["evidence"]["error"]


def _forbid(lab: Lab, slug: str) -> None:
    number = int(lab.one("SELECT id FROM workflows WHERE slug = %s", slug))
    with lab.database.connection() as connection:
        connection.execute(f"ALTER TABLE runs ADD CONSTRAINT planted CHECK (workflow_id <> {number}) NOT VALID")


def test_a_batch_that_takes_too_long_is_halved(lab: Lab) -> None:
    """A statement timeout is the batch's size, not the connection's fault."""
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.store.evaluation.consume_inbox(10)

    with pytest.raises(BatchError) as caught, lab.store.evaluation.batch(10):
        raise psycopg.errors.QueryCanceled("canceling statement due to statement timeout")
    assert len(caught.value.keys) == 1


def test_trouble_with_the_connection_is_nobodys_fault(lab: Lab) -> None:
    """A lost connection or a lock marks no workflow as failed: the whole batch is tried again."""
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.store.evaluation.consume_inbox(10)

    with pytest.raises(psycopg.OperationalError), lab.store.evaluation.batch(10):
        raise psycopg.errors.DeadlockDetected("deadlock detected")
    assert lab.one("SELECT count(*) FROM decisions") == 0
    assert lab.work() == ["b"]


def test_a_failed_evaluation_is_looked_at_less_and_less_often(lab: Lab) -> None:
    """Its backoff doubles up to ten minutes, and ends with the next definition."""
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.rows("UPDATE workflows SET policy = '{}' RETURNING 1")
    pauses = []
    for _ in range(7):
        lab.settle()
        look = lab.one("SELECT not_before FROM considerations")
        pauses.append((look - lab.now).total_seconds())
        lab.now = look
    assert pauses == [30, 30, 60, 120, 240, 480, 600]


def test_a_new_definition_is_seen_by_every_reconciler(lab: Lab) -> None:
    """A cached graph of an older epoch is read again before anything is decided on it (docs/semantics.md#R6.2)."""
    other = Reconciler(lab.store)
    lab.apply(workflow("b", "a"), workflow("c", "a"), workflow("d", "b c"))
    lab.report("a", "1")
    lab.work()
    assert lab.store.evaluation._graph is not None
    epoch = lab.store.evaluation._graph.epoch
    lab.apply(workflow("b", "a"), workflow("c", "a"), workflow("d", "b c"), workflow("e", "d"))
    lab.store.evaluation.consume_inbox(10)
    other.run_once()
    assert lab.store.evaluation._graph.epoch == epoch + 1
    assert lab.active() == ["e"]
