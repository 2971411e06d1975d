"""Materializer and worker as calls of the store: the same transactions one after another on one connection."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from bench.server import Listener
from freshline.definitions.schema.workflow import Workflow
from freshline.definitions.steps import produced
from freshline.model.run import ClaimedRun, StagedOutput
from freshline.services.reconciler import Reconciler
from freshline.store.db.ids import new_id
from freshline.store.runs.claim import Claimant
from freshline.store.store import Store

ENDED = "SELECT status NOT IN ('queued', 'running') FROM runs WHERE id = %s"
# Where the time went in the measured runs (not the warm-up), by the database's clock.
PHASES = """
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY 1000 * extract(epoch FROM r.started_at - r.queued_at)),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY 1000 * extract(epoch FROM s.started_at - r.started_at)),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY 1000 * extract(epoch FROM s.finished_at - s.started_at)),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY 1000 * extract(epoch FROM r.finished_at - s.finished_at))
  FROM (SELECT * FROM runs WHERE status = 'succeeded' ORDER BY queued_at DESC LIMIT %s) r
  JOIN run_steps s ON s.run_id = r.id
"""
RESULT = "SELECT status || coalesce(': ' || (error ->> 'message'), '') FROM runs WHERE id = %s"


class Player:
    """Executes the transactions on one connection, without other processes and notifications."""

    def __init__(self, store: Store, project: str, code: str) -> None:
        self.store = store
        self._reconciler = Reconciler(store)
        self._claimant = Claimant(new_id(), project, code, spark=True)

    def decide(self) -> None:
        """Consume one batch of the inbox and decide one, as after a single event."""
        self.store.evaluation.consume_inbox(self.store.settings.batch)
        self._reconciler.run_once()

    def settle(self) -> None:
        """Decide until the inbox is empty and nothing is due."""
        while self.store.evaluation.consume_inbox(self.store.settings.batch) or self._reconciler.run_once():
            pass

    def claim(self) -> ClaimedRun | None:
        """Claim the next run."""
        return self.store.runs.claim(self._claimant)

    def finish(self, run: ClaimedRun, version: str) -> None:
        """Publish the outputs of a run with this version."""
        self.store.runs.publish(run, outputs(run, version))

    def drain(self, version: str) -> int:
        """Execute all queued runs, and return their number."""
        count = 0
        while (run := self.claim()) is not None:
            self.finish(run, version)
            count += 1
        return count


def outputs(run: ClaimedRun, version: str) -> list[StagedOutput]:
    """Return what a `python` step returns: a version for each output, and no table."""
    declared = produced(Workflow.model_validate(run.definition))
    return [StagedOutput(asset_id, step_id, version) for asset_id, (step_id, _) in declared.items()]


def queued_to_published(
    silent: Store, listener: Listener, slug: str, parameters: Mapping[str, Any] | None = None
) -> float:
    """Return the seconds from the commit that queues a run to the worker's report of its publication."""
    run_id = silent.operations.request_run(slug, parameters)
    began = time.perf_counter()
    listener.notify("runs")
    ended = listener.until("events", ENDED, run_id)
    status = listener.value(RESULT, run_id)
    assert status == "succeeded", f"the run of {slug} {status}"
    return ended - began


def phases(listener: Listener, runs: int) -> dict[str, float]:
    """Return the median milliseconds of the parts of the last runs."""
    names = ("queued_to_claimed", "claimed_to_step", "step", "step_to_published")
    return dict(zip(names, listener.row(PHASES, runs), strict=True))
