"""Ids are UUIDs of version 7, in ascending order."""

from __future__ import annotations

import time
import uuid

from freshline.store.db.ids import new_id


def test_ids_are_version_7_and_grow_within_a_millisecond() -> None:
    """Ten thousand ids of one process are sorted, distinct, of version 7, and carry the time."""
    before = time.time_ns() // 1_000_000
    made = [uuid.UUID(new_id()) for _ in range(10_000)]
    assert made == sorted(set(made))
    assert {(one.version, one.variant) for one in made} == {(7, uuid.RFC_4122)}
    assert before <= made[0].int >> 80 <= time.time_ns() // 1_000_000
