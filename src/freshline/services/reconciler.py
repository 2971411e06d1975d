"""Turns due considerations into decisions and runs. The row lock on a consideration is the claim.

Not promised: that a decision falls at once. Every hold has a next look, so nothing relies on being woken.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from freshline.decide import Decision, decide
from freshline.decide.batch import moving_after, with_defaults
from freshline.decide.motion import Walk
from freshline.graph import Graph
from freshline.services.adaptive_batch import AdaptiveBatch
from freshline.services.service import Service
from freshline.settings import Settings
from freshline.store.evaluation.evaluation import BatchError, failed_evaluation
from freshline.store.evaluation.load_state import Key, Loaded, Moment
from freshline.store.evaluation.write_decisions import Verdicts
from freshline.store.store import Store

log = structlog.get_logger("freshline.decisions")


class Reconciler(Service):
    """Claims due considerations in batches, loads their state in one statement, decides, writes, commits."""

    name = "reconciler"

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._pace = AdaptiveBatch(store.settings.batch)

    def run_once(self) -> bool:
        """One batch. One that fails is halved, so that a single bad row cannot hold up others (R11.3)."""
        try:
            with self._pace.batch() as size:
                verdicts = self.store.reconcile(self._judge, batch=size)
        except BatchError as error:
            self._halve(error.keys, error)
            return True
        self._announce(verdicts)
        return verdicts is not None

    def _judge(self, graph: Graph, moment: Moment) -> Verdicts:
        return judge(graph, moment, self.store.settings)

    def _announce(self, verdicts: Verdicts | None) -> None:
        if verdicts is not None and verdicts.runs:
            self.store.database.ring("runs")

    def _halve(self, keys: Sequence[Key], error: BatchError) -> None:
        if len(keys) <= 1:
            for key in keys:
                log.error("evaluation_failed", workflow_id=key[0], partition=key[1], error=str(error))
                self.store.mark_failed(key, str(error))
            return
        middle = len(keys) // 2
        for half in (keys[:middle], keys[middle:]):
            try:
                self._announce(self.store.reconcile(self._judge, batch=len(half), only=half))
            except BatchError as smaller:
                self._halve(half, smaller)


def judge(graph: Graph, moment: Moment, settings: Settings) -> Verdicts:
    """Decide a batch, ancestors first, so that what is decided about them counts for those below."""
    walk = Walk(graph, moment.motion)
    verdicts = Verdicts(moment.now)
    for loaded in sorted(moment.loaded, key=lambda one: (graph.level(one.state.workflow_id), one.key)):
        if loaded.retired:
            verdicts.done.append(loaded.key)
            continue
        decision = _decide_safely(loaded, walk, moment, settings)
        decision_id, run_id = verdicts.add(loaded, decision)
        walk.settle(loaded.state.workflow_id, moving_after(loaded.state, decision))
        log.info(
            "decision",
            workflow=loaded.state.slug,
            outcome=decision.outcome,
            reason=decision.reason,
            decision=decision_id,
            run=run_id,
        )
    return verdicts


def _decide_safely(loaded: Loaded, walk: Walk, moment: Moment, settings: Settings) -> Decision:
    """An error while evaluating is a visible failed decision, and it stays in its own workflow (promise 10)."""
    try:
        policy = with_defaults(loaded.policy, settings)
        return decide(policy, loaded.state, moment.now, walk)
    except Exception as error:
        log.exception("evaluation_failed", workflow=loaded.state.slug)
        text = f"{type(error).__name__}: {error}"
        return failed_evaluation(text, loaded.state.evaluations, moment.now)
