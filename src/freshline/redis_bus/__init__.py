"""Redis as an event bus. The package `redis` is an extra, so only the other modules of this package import it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from freshline.errors import UsageError
from freshline.settings import INLINE, Settings

if TYPE_CHECKING:
    from freshline.redis_bus.connection import RedisConnection


def open_bus(settings: Settings) -> RedisConnection | None:
    """Return the bus of FRESHLINE_EVENT_BUS, or None for `inline`. It connects later, and retries if Redis is down."""
    if settings.event_bus == INLINE:
        return None
    try:
        from freshline.redis_bus.connection import RedisConnection  # noqa: PLC0415 - the package redis is an extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "redis":
            raise
        raise UsageError(
            "FRESHLINE_EVENT_BUS names a Redis server and the package redis is not installed; "
            "install freshline[redis], or unset the variable"
        ) from None
    return RedisConnection(settings.event_bus, timeout_s=settings.bus_timeout_ms / 1000)
