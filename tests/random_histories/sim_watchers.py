"""Directories outside, and watchers that look at them: they die, sleep past leases, fail, and repeat themselves."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from freshline.errors import FencedError
from freshline.model.watch import Found, Look, SeenFile
from freshline.store.store import Store
from freshline.store.watches.watches import MARGIN_MS, ClaimedWatch, Looked
from tests.random_histories.histories import WATCH_TIMEOUT_S, Shape
from tests.store_harness import Lab

MOST_FOUND = 3
LEASE_S = WATCH_TIMEOUT_S + MARGIN_MS / 1000
DELIVERED = """
SELECT i.item -> 'payload' ->> 'file' AS file
  FROM deliveries d, jsonb_array_elements(d.items) WITH ORDINALITY AS i (item, n)
 WHERE d.asset_id = %s AND i.item -> 'payload' ? 'file' ORDER BY d.last_number, i.n
"""
UNEVENTFUL = """
SELECT i.item ->> 'number' AS number FROM deliveries d, jsonb_array_elements(d.items) AS i (item)
 WHERE d.asset_id = %s AND (SELECT count(*) FROM events e WHERE e.type = 'asset.produced' AND e.subject = d.asset_id
       AND e.id = (i.item ->> 'eventId')::uuid) <> 1
"""


@dataclass
class Directories:
    """The files of each watched source, in the order in which they appeared. `log` adds a text to the current step."""

    lab: Lab
    rng: random.Random
    shape: Shape
    log: Callable[[str], None]
    files: dict[str, list[str]] = field(init=False)
    faults: bool = True

    def __post_init__(self) -> None:
        self.files = {source: [] for source in self.shape.watched}

    def drop(self) -> None:
        """Add a few files to a directory."""
        source = self.rng.choice(sorted(self.files))
        for _ in range(self.rng.choice([1, 1, 2, 5])):
            self.files[source].append(f"{len(self.files[source]) + 1}.csv")
        self.log(f"{source} has {len(self.files[source])} files")

    def look(self, store: Store, watch: ClaimedWatch) -> Look:
        """Return what a look sees now: the files that are not stored yet, the oldest first."""
        files = self.files[watch.asset_id]
        known = store.watches.files(watch.asset_id, files)
        new = [file for file in files if file not in known]
        found = tuple(Found(f"file:{file}", None, {"file": file}) for file in new[:MOST_FOUND])
        seen = tuple(SeenFile(file, 1, "1", "delivered") for file in new[:MOST_FOUND])
        return Look(found, {"started": True}, f"{len(new)} are new.", more=len(new) > MOST_FOUND, seen=seen)

    def wrong(self) -> list[str]:
        """Return the sources whose deliveries are not the files that appeared, once each and in their order."""
        return [
            f"{source} got {got} of {files} (docs/semantics.md#R3.7)"
            for source, files in self.files.items()
            if (got := [row["file"] for row in self.lab.rows(DELIVERED, source)]) != files[: len(got)]
        ]

    def missing(self) -> list[str]:
        """Return the sources with files that were not delivered."""
        counts = {source: len(self.lab.rows(DELIVERED, source)) for source in self.files}
        return [
            f"{source} has {len(files)} files and {counts[source]} deliveries (no lost update)"
            for source, files in self.files.items()
            if counts[source] < len(files)
        ]

    def uneventful(self) -> list[str]:
        """Return the deliveries without their one event."""
        return [
            f"delivery {row['number']} of {source} has not one event"
            for source in self.shape.appends
            for row in self.lab.rows(UNEVENTFUL, source)
        ]


@dataclass(eq=False)
class Looker:
    """The watcher of one process. It looks at one source at a time."""

    outside: Directories
    store: Store
    held: Looked | None = None
    ends_at: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.ends_at = self.outside.lab.now

    def run_once(self) -> bool:
        """Claim a watch and look, or record the look that ended. Return True if there may be more to do now."""
        if self.held is None:
            return self._begin()
        if self.ends_at > self.outside.lab.now:
            return False
        self._end(self.held)
        return True

    def _begin(self) -> bool:
        outside = self.outside
        claimed = self.store.watches.claim(("files",), 1)
        if not claimed:
            return False
        (watch,) = claimed
        outside.log(f"looks at {watch.asset_id}, claim {watch.claim}")
        chance = outside.rng.random() if outside.faults else 1.0
        if chance < 0.06:
            outside.log("and dies")
            return False
        self.held = Looked(watch, outside.look(self.store, watch), 1)
        seconds: float = outside.rng.choice([0, 0, 2, 8]) if outside.faults else 0
        if chance < 0.2:
            outside.log("and sleeps past its lease")
            seconds = LEASE_S + outside.rng.choice([1, 30])
        self.ends_at = outside.lab.later(seconds=seconds)
        return seconds == 0

    def _end(self, looked: Looked) -> None:
        self.held = None  # whether or not the commit succeeds
        chance = self.outside.rng.random() if self.outside.faults else 1.0
        if chance < 0.1:
            self.outside.log("fails")
            self._write(looked, lambda: self.store.watches.fail(looked.watch, "planted"))
            return
        self._write(looked, lambda: self._record(looked))
        if chance > 0.85 and self.outside.faults:
            self.outside.log("and repeats itself")
            self._repeat(looked)

    def _record(self, looked: Looked) -> None:
        if looked.quiet:
            self.store.watches.note([looked])
        else:
            self.store.watches.record(looked)

    def _write(self, looked: Looked, write: Callable[[], object]) -> None:
        owned = self._owns(looked.watch)
        try:
            write()
        except FencedError:
            self.outside.log("(fenced)")
            assert not owned, "fenced, although it owns the watch"
        else:
            assert owned or looked.quiet, "recorded, although its claim is over"

    def _repeat(self, looked: Looked) -> None:
        """Record a look once more: nothing may happen."""
        with suppress(FencedError):
            self.store.watches.record(looked)
            raise AssertionError(f"a look at {looked.watch.asset_id} was recorded twice")

    def _owns(self, watch: ClaimedWatch) -> bool:
        query = "SELECT 1 FROM watches WHERE asset_id = %s AND claim = %s AND lease_until IS NOT NULL"
        return bool(self.outside.lab.rows(query, watch.asset_id, watch.claim))
