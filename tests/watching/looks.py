"""One look without the store: the context that a service would give it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path

from freshline.model.allowed_paths import AllowedPaths
from freshline.watching.look import LookContext

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
LOOPBACK = (ip_network("127.0.0.0/8"),)


def context(
    environment: Mapping[str, str] | None = None, *, timeout_s: float = 10, private: bool = True, now: datetime = NOW
) -> LookContext:
    """Return a context with these variables. `private`: this machine may be requested."""
    return LookContext(
        asset_id="landing.orders",
        now=now,
        allowed=AllowedPaths.of({}, root=str(Path("/nowhere"))),
        timeout_s=timeout_s,
        private_networks=LOOPBACK if private else (),
        environment=dict(environment or {}),
    )
