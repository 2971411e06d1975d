"""Frees the runs of workers that stopped renewing their leases.

It does not promise that the old worker has stopped: fencing keeps a late worker from publishing.
"""

from __future__ import annotations

from freshline.services.service import Service

BATCH = 100


class Rescuer(Service):
    """Returns lost runs to the queue, and fails a run that has lost its worker too often."""

    name = "rescuer"

    def run_once(self) -> bool:
        """Free one batch; return whether it was full."""
        rescued = self.store.runs.rescue(BATCH)
        if rescued:
            self.store.database.notify("runs", "events")
        return rescued == BATCH
