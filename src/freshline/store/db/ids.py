"""Time-ordered ids (UUID version 7), created before the write so that an ambiguous commit can be looked up.

Within one process later ids are greater, also within one millisecond.
"""

from __future__ import annotations

import os
import threading
import time
import uuid

_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """Return an id: 48 bits of milliseconds, a 12-bit counter, 62 random bits."""
    value = _tick() << 64 | int.from_bytes(os.urandom(8))
    # The count moves up by four bits to make room for the version; the variant replaces two random bits.
    value = (value >> 76) << 80 | 0x7 << 76 | (value >> 64 & 0xFFF) << 64 | 0x2 << 62 | value & (1 << 62) - 1
    return str(uuid.UUID(int=value))


def id_time_ms(text: str) -> int:
    """Return when an id was created, in milliseconds since 1970, by the clock of the host that created it."""
    return uuid.UUID(text).int >> 80


def _tick() -> int:
    """Return milliseconds and a counter as one growing number."""
    global _last  # noqa: PLW0603 - one sequence for the whole process
    with _lock:
        _last = max(_last + 1, time.time_ns() // 1_000_000 << 12)
        return _last
