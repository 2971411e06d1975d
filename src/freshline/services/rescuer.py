"""Frees the runs of workers that stopped renewing their leases, and the looks of processes that are gone.

It does not promise that the old process has stopped: fencing keeps a late one from publishing and reporting.
"""

from __future__ import annotations

import structlog

from freshline.services.service import Service
from freshline.store.read.status import SILENT_MS

log = structlog.get_logger("freshline.services")
BATCH = 100


class Rescuer(Service):
    """Returns lost runs to the queue, and fails a run that has lost its worker too often. Ends abandoned looks."""

    name = "rescuer"

    def run_once(self) -> bool:
        """Free one batch; return whether it was full."""
        rescued = self.store.runs.rescue(BATCH)
        if rescued:
            self.store.database.notify("runs", "events")
        released = self.store.watches.release_abandoned(BATCH, silent_ms=SILENT_MS)
        if released:
            log.warning("looks_abandoned", looks=released)
        return BATCH in (rescued, released)
