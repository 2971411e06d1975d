"""Time-ordered ids (UUID version 7), made before the write so that an ambiguous commit can be looked up."""

from __future__ import annotations

import os
import time
import uuid


def new_id() -> str:
    """48 bits of milliseconds, then 74 random bits."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))
