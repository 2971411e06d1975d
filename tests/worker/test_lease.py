"""A lost lease is reported exactly when one is lost."""

from __future__ import annotations

import time

import pytest
from structlog.testing import capture_logs

from freshline.worker.lease import LeaseKeeper
from tests.store_harness import Lab


@pytest.mark.parametrize("over", [True, False])
def test_a_run_that_has_ended_here_was_not_lost(lab: Lab, *, over: bool) -> None:
    """After its end a run has no lease to renew, which is news only to a worker that did not end it itself."""
    run, leases = lab.start(), LeaseKeeper(lab.store)
    lease = leases.hold(run, time.monotonic())
    leases.run_once()
    assert not lease.lost
    lab.finish(run)
    lease.over = over
    with capture_logs() as logs:
        leases.run_once()
    assert lease.lost is not over
    assert [entry["event"] for entry in logs if entry["event"] == "lease_lost"] == ([] if over else ["lease_lost"])
