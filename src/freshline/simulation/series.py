"""A simulation over time: runs, slot time and lag, in a bounded number of buckets of equal length."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from datetime import datetime
from math import ceil

from freshline.model.documents.simulation import Percentiles, SimulationSeries

MOST_BUCKETS = 100
MINUTE, HOUR, DAY = 60, 3_600, 86_400
# The last bucket is shorter than the others unless the time is a multiple of its length.
LENGTHS = (1, 5, 15, 30, *(MINUTE * n for n in (1, 2, 5, 10, 15, 30)), *(HOUR * n for n in (1, 2, 3, 6, 12)), DAY)


class Series:
    """Sums over the buckets of a time. The lag of a change is in the bucket of the change, not in that of its arrival.

    So a bucket has the same changes under every policy, and one that has not arrived yet is where it happened.
    """

    def __init__(self, start: datetime, end: datetime) -> None:
        self._start = start.timestamp()
        played = end.timestamp() - self._start
        self._seconds = bucket_seconds(played)
        count = max(1, ceil(played / self._seconds))
        self._runs = [0] * count
        self._busy = [0.0] * count
        self._lags = [array("f") for _ in range(count)]

    def ran(self, started: datetime, finished: datetime) -> None:
        """Count a run where it started; its time is in every bucket that it was in."""
        begin, end = started.timestamp(), finished.timestamp()
        first, last = self._bucket(begin), self._bucket(end)
        self._runs[first] += 1
        for bucket in range(first, last + 1):
            since = begin if bucket == first else self._start + bucket * self._seconds
            until = end if bucket == last else self._start + (bucket + 1) * self._seconds
            self._busy[bucket] += until - since

    def arrived(self, times: Iterable[float], now: float) -> None:
        """Add the lags of changes that happened at these times, until now."""
        for time in times:
            self._lags[self._bucket(time)].append(now - time)

    def document(self) -> SimulationSeries:
        """Return all buckets, the oldest first."""
        return {
            "bucketSeconds": self._seconds,
            "runs": list(self._runs),
            "slotHours": [round(one / HOUR, 6) for one in self._busy],
            "lagSeconds": [percentiles(lags) if lags else None for lags in self._lags],
        }

    def _bucket(self, time: float) -> int:
        return min(max(0, int((time - self._start) // self._seconds)), len(self._runs) - 1)


def bucket_seconds(played: float) -> int:
    """Return the shortest usual length with which a time has at most 100 buckets; whole days for very long times."""
    return next((one for one in LENGTHS if played <= one * MOST_BUCKETS), ceil(played / (DAY * MOST_BUCKETS)) * DAY)


def percentiles(lags: Sequence[float]) -> Percentiles:
    """Return p50, p95 and max in seconds, by nearest rank."""
    found = sorted(lags)
    last = len(found) - 1
    p50, p95, longest = (round(found[at], 3) for at in (round(last * 0.5), round(last * 0.95), last))
    return {"p50": p50, "p95": p95, "max": longest}
