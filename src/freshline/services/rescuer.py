"""Frees the runs of workers that stopped renewing their leases. It needs no help and no leader."""

from __future__ import annotations

from freshline.services.service import Service

BATCH = 100


class Rescuer(Service):
    """Hands lost runs to other workers; fails a run that has lost its worker too often."""

    name = "rescuer"

    def run_once(self) -> bool:
        """One batch; a full one means that there is more."""
        rescued = self.store.runs.rescue(BATCH)
        if rescued:
            self.store.database.ring("runs", "events")
        return rescued == BATCH
