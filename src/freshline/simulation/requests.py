"""Backfills as tests and load files write them, with the names of the options of the command."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from freshline.errors import UsageError
from freshline.model.backfill import BackfillPolicy, BackfillRequest, Only
from freshline.simulation.moments import moment_of
from freshline.suggest import hint

ORDERS = ("newest", "oldest")
SELECTING = ("first", "last", "keys", "upstream", "downstream")
POLICY = ("concurrency", "not_before", "during_quiet_hours", "priority", "partial")


def backfill_request(asset: str, only: str, order: str, options: Mapping[str, Any], now: datetime) -> BackfillRequest:
    """Return the request. Raise UsageError for an option or a value that does not exist."""
    for name in options:
        if name not in (*SELECTING, *POLICY):
            raise UsageError(f"option {name!r} of a backfill does not exist", hint=hint(name, [*SELECTING, *POLICY]))
    if only not in list(Only):
        raise UsageError(f"only is {only!r}; allowed are {', '.join(Only)}")
    if order not in ORDERS:
        raise UsageError(f"order is {order!r}; allowed are {', '.join(ORDERS)}")
    selecting = {name: options[name] for name in SELECTING if name in options}
    policy = {name: options[name] for name in POLICY if name in options}
    if policy.get("not_before") is not None:
        policy["not_before"] = moment_of(policy["not_before"], now)
    if "keys" in selecting:
        selecting["keys"] = tuple(selecting["keys"])
    return BackfillRequest(
        asset, **selecting, policy=BackfillPolicy(only=Only(only), newest_first=order == "newest", **policy)
    )
