"""Opens and closes incidents of alerts, and queues their messages. Any number may run; one evaluates at a time."""

from __future__ import annotations

from freshline.services.due_service import DueService


class AlertEvaluator(DueService):
    """Evaluates the rules when something has failed or recovered, and when a message becomes due.

    It compares states, not events: whatever happened while no materializer was running is noticed by the first one.
    """

    name = "alerts"

    def run_once(self) -> bool:
        """Evaluate, if it is due; never again at once, because nothing can be due a second time."""
        left = self.time_left()
        if left is not None and left <= 0:
            self.store.alert_evaluation.run()
        return False

    def time_left(self) -> float | None:
        """Return the seconds until an evaluation is due; None without rules."""
        return self.store.alert_evaluation.time_left()
