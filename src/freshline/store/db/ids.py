"""Time-ordered ids (UUID version 7), made before the write so that an ambiguous commit can be looked up.

Within one process later ids are greater, also in one millisecond: what happened first is looked at first.
"""

from __future__ import annotations

import os
import threading
import time
import uuid

_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """48 bits of milliseconds, 12 bits that count within one, 62 random bits."""
    value = _tick() << 64 | int.from_bytes(os.urandom(8))
    # The count moves up by four bits to make room for the version; the variant replaces two random bits.
    value = (value >> 76) << 80 | 0x7 << 76 | (value >> 64 & 0xFFF) << 64 | 0x2 << 62 | value & (1 << 62) - 1
    return str(uuid.UUID(int=value))


def _tick() -> int:
    """Milliseconds and a count as one number that only grows."""
    global _last  # noqa: PLW0603 - one sequence for the whole process
    with _lock:
        _last = max(_last + 1, time.time_ns() // 1_000_000 << 12)
        return _last
