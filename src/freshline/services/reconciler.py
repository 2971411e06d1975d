"""Turns due considerations into decisions and runs. The row lock on a consideration is the claim.

A consideration is evaluated when it is due, unless another process has locked it. Every hold has a next evaluation, so
nothing relies on a notification.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import structlog

from freshline.decide import Decision, decide
from freshline.decide.batch import in_order, moving_after, wants_oldest, with_defaults
from freshline.decide.causes import AnyWalk
from freshline.graph import Graph
from freshline.services.adaptive_batch import AdaptiveBatch
from freshline.services.due_service import DueService
from freshline.settings import Settings
from freshline.store.evaluation.evaluation import BatchError, failed_evaluation
from freshline.store.evaluation.load_state import BatchState, Key, LoadedWorkflow
from freshline.store.evaluation.write_decisions import DecisionWriter
from freshline.store.store import Store

log = structlog.get_logger("freshline.decisions")


class Reconciler(DueService):
    """Claims due considerations in batches, loads their state in one statement, decides, writes, commits."""

    name = "reconciler"
    woken_by_work = True

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._batch = AdaptiveBatch(store.settings.batch)

    def run_once(self) -> bool:
        """Evaluate one batch. Halve a batch that fails, so that one bad row does not hold up others."""
        try:
            with self._batch.batch() as size:
                return self._evaluate(size)
        except BatchError as error:
            self._halve(error.keys, error)
            return True

    def time_left(self) -> float | None:
        """Return the seconds until the next consideration is due."""
        return self.store.evaluation.until_evaluation()

    def _evaluate(self, size: int, *, only: Sequence[Key] | None = None) -> bool:
        """Evaluate a batch in one transaction. Return whether there was one."""
        with self.store.evaluation.batch(size, only=only) as batch:
            if batch is None:
                return False
            decisions = evaluate(batch.graph, batch.state, self.store.settings)
            batch.write(decisions)
        if decisions.runs:
            self.store.database.notify("runs")
        return True

    def _halve(self, keys: Sequence[Key], error: BatchError) -> None:
        if len(keys) <= 1:
            for key in keys:
                log.error("evaluation_failed", workflow_id=key[0], partition=key[1], error=str(error))
                self.store.evaluation.mark_failed(key, str(error))
            return
        middle = len(keys) // 2
        for half in (keys[:middle], keys[middle:]):
            try:
                self._evaluate(len(half), only=half)
            except BatchError as smaller:
                self._halve(half, smaller)


def evaluate(graph: Graph, state: BatchState, settings: Settings) -> DecisionWriter:
    """Decide a batch, ancestors first, so that a decision about an ancestor counts for its descendants.

    Runs that are equally urgent are claimed in the order of these decisions.
    """
    walk = state.walk(graph)
    decisions = DecisionWriter(state.now, state.epoch)
    for loaded in _in_order(graph, state.loaded):
        if loaded.retired:
            decisions.done.append(loaded.key)
            continue
        decision = _decide_safely(loaded, walk, state.now, settings)
        decision_id, run_id = decisions.add(loaded, decision)
        walk.settle(loaded.state.workflow_id, moving_after(loaded.state, decision), loaded.state.partition_key)
        log.info(
            "decision",
            workflow=loaded.state.slug,
            outcome=decision.outcome,
            reason=decision.reason,
            decision=decision_id,
            run=run_id,
        )
    return decisions


def _in_order(graph: Graph, found: Iterable[LoadedWorkflow]) -> list[LoadedWorkflow]:
    return in_order(
        found,
        place=lambda one: (graph.level(one.key[0]), one.key[0]),
        key=lambda one: one.key[1],
        from_oldest=lambda one: bool(graph.own_input(one.key[0])) or wants_oldest(one.state.demands),
    )


def _decide_safely(loaded: LoadedWorkflow, walk: AnyWalk, now: datetime, settings: Settings) -> Decision:
    """Decide; turn an error into a visible failed decision of this workflow alone."""
    try:
        policy = with_defaults(loaded.policy, settings)
        return decide(policy, loaded.state, now, walk)
    except Exception as error:
        log.exception("evaluation_failed", workflow=loaded.state.slug)
        text = f"{type(error).__name__}: {error}"
        return failed_evaluation(text, loaded.state.evaluations, now)
