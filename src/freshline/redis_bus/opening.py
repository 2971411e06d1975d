"""Opens the event bus that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from freshline.errors import UsageError
from freshline.settings import INLINE, Settings

if TYPE_CHECKING:
    from freshline.redis_bus.connection import Bus


def open_bus(settings: Settings) -> Bus | None:
    """The bus, not connected yet; None for `inline`. A server that is away is no error: it is tried again and again."""
    if settings.event_bus == INLINE:
        return None
    try:
        from freshline.redis_bus.connection import Bus  # noqa: PLC0415 - the package redis is an extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "redis":
            raise
        raise UsageError(
            "FRESHLINE_EVENT_BUS names a Redis server and the package redis is not installed; "
            "install freshline[redis], or unset the variable"
        ) from None
    return Bus(settings.event_bus, timeout_s=settings.bus_timeout_ms / 1000)
