"""Turns due considerations into decisions and runs. The row lock on a consideration is the claim.

Not promised: that a decision falls at once. Every hold has a next look, so nothing relies on being woken.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import structlog

from freshline.decide import Decision, decide
from freshline.decide.causes import find_cause
from freshline.decide.motion import Moving, Walk
from freshline.graph import Graph
from freshline.model.policy import Policy
from freshline.model.state import State
from freshline.model.words import Outcome
from freshline.services.service import Service
from freshline.settings import Settings
from freshline.store.materializing import BatchError, failed_evaluation
from freshline.store.states import Key, Loaded, Moment
from freshline.store.verdicts import Verdicts

log = structlog.get_logger("freshline.decisions")


class Reconciler(Service):
    """Claims due considerations in batches, loads their state in one statement, decides, writes, commits."""

    name = "reconciler"

    def run_once(self) -> bool:
        """One batch. One that fails is halved, so that a single bad row cannot hold up others (R11.3)."""
        batch = self.store.settings.batch
        try:
            verdicts = self.store.reconcile(self._judge, batch=batch)
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
        walk.settle(loaded.state.workflow_id, _moving(loaded, decision))
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
        return decide(policy, with_blockers(policy, loaded.state, walk), moment.now)
    except Exception as error:
        log.exception("evaluation_failed", workflow=loaded.state.slug)
        text = f"{type(error).__name__}: {error}"
        return failed_evaluation(text, loaded.state.looks, moment.now)


def with_defaults(policy: Policy, settings: Settings) -> Policy:
    """The materializer's own backoff where the workflow states none."""
    backoff = policy.backoff
    filled = dataclasses.replace(
        backoff,
        base_ms=backoff.base_ms or settings.base_backoff_ms,
        max_ms=backoff.max_ms or settings.max_backoff_ms,
    )
    return dataclasses.replace(policy, backoff=filled)


def with_blockers(policy: Policy, state: State, walk: Walk) -> State:
    """The state with the ancestors in motion that a run would have to wait for."""
    cause = find_cause(policy, state)
    if cause is None or not policy.wait_for_upstream:
        return state
    changed = [i.asset_id for i in state.inputs if i.changed]
    blockers = walk.blockers(state.workflow_id, changed if cause.by_input and changed else None)
    return dataclasses.replace(state, blockers=blockers) if blockers else state


def _moving(loaded: Loaded, decision: Decision) -> Moving | None:
    """How the workflow moves after the decision, for those below it in the same batch."""
    if decision.run is not None:
        return Moving("queued")
    if decision.superseded is None and loaded.state.active is not None:
        return Moving(loaded.state.active.status)
    if decision.outcome in {Outcome.HOLD, Outcome.ERROR}:
        waits = decision.blocker_id is not None
        return Moving(decision.reason, decision.blocks_until, cannot_run=decision.blocks_until is None and not waits)
    return None
