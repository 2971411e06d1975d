"""Which changes of an input without partitions concern a partition of its consumer (docs/semantics.md#R13.17). Pure.

With `affects: latest`, a change concerns the partition that was the newest when the snapshot was produced. Judged when
the partition is evaluated, the last change before midnight would concern nobody: the next day is the newest by then.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from freshline.model.state import Version
from freshline.partitions.partitioning import Newness


class Produced(NamedTuple):
    """A snapshot whose data changed."""

    sequence: int
    data_version: str
    produced_at: datetime


def concerns(consumed: Version | None, last: Produced | None, newness: Newness) -> bool:
    """Return whether a change concerns a partition that was the newest in this time.

    `last`: the last changed snapshot that was produced before the next partition came. Who has read the input read at
    least what was there when its partition came. So for it, earlier changes need no limit, and one that was committed
    late is not lost.
    """
    if last is None:
        return False
    if consumed is None:
        return newness.since is None or last.produced_at >= newness.since
    return last.sequence > consumed.sequence and last.data_version != consumed.data_version
