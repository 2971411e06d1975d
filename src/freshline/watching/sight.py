"""One look at files under way: which of them are complete and may be reported, and what it counts for its summary."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from freshline.definitions.schema.watch import FilesWatch
from freshline.errors import FreshlineError
from freshline.model.file_patterns import Pattern
from freshline.model.watch import Conflict, identity
from freshline.plural import counted
from freshline.watching.listing import Listing
from freshline.watching.look import LookContext
from freshline.watching.seen import Candidate, SeenFiles

MOST_REFUSED = 20
RECENT_S = 3_600


@dataclass(slots=True)
class Sight:
    """One look under way. `partial`: only files that were closed or moved in are examined."""

    spec: FilesWatch
    pattern: Pattern
    listing: Listing
    memory: SeenFiles
    context: LookContext
    partial: bool = False
    matching: int = 0
    empty: int = 0
    unmarked: int = 0
    written: int = 0
    soonest_ms: int | None = None
    refused: list[Conflict] = field(default_factory=list)

    def below(self, path: str) -> str:
        """Return the path of a reported file below the base of the pattern."""
        return path.removeprefix(self.pattern.prefix)

    def ready(self, one: Candidate, *, closed: bool = False) -> bool:
        """Return whether a file has content, is complete, and may be reported; count it otherwise."""
        below = self.below(one.path)
        if one.size == 0:
            self.empty += 1
        elif self.spec.marker is not None and below.rpartition("/")[0] not in self.listing.marked:
            self.unmarked += 1
        elif not self.complete(one, closed=closed):
            self.written += 1
        else:
            return self._allowed(one, below)
        return False

    def complete(self, one: Candidate, *, closed: bool = False) -> bool:
        """Return whether nobody writes the file any more, as far as the storage or the user can tell."""
        if self.spec.settle_ms is not None:
            return self.settled(one.path, identity(one.size, one.version), self.spec.settle_ms)
        if closed or self.spec.marker is not None:
            return True
        known = self.listing.complete(self.below(one.path), self.memory.leases)
        if known is None:
            return self.settled(one.path, identity(one.size, one.version), self.listing.settle_ms or 0)
        return known

    def whole(self, files: Sequence[Candidate], digest: str, name: str) -> bool:
        """Return whether all files are complete; count those that are not. What did not change for an hour is complete.

        `name`: of these files together, for `settle`.
        """
        unmarked = written = 0
        if self.spec.marker is not None:
            unmarked = sum(self.below(one.path).rpartition("/")[0] not in self.listing.marked for one in files)
        if self.spec.settle_ms is not None:
            written = 0 if self.settled(name, int(digest[:15], 16), self.spec.settle_ms) else len(files)
        elif self.spec.marker is None:
            since = (self.context.now.timestamp() - RECENT_S) * 1_000_000_000
            recent = (one for one in files if one.modified_ns > since)
            written = sum(not self.complete(one) for one in recent)
        self.unmarked += unmarked
        self.written += written
        return not unmarked and not written

    def settled(self, name: str, version: int, settle_ms: int) -> bool:
        """Return whether something looks the same for long enough, by the clock of this process."""
        now = time.monotonic()
        before = self.memory.settling.get(name)
        if before is None or before[0] != version:
            before = self.memory.settling[name] = (version, now)
        left = settle_ms - int((now - before[1]) * 1000)
        if left <= 0:
            return True
        self.soonest_ms = left if self.soonest_ms is None else min(left, self.soonest_ms)
        return False

    def _allowed(self, one: Candidate, below: str) -> bool:
        try:
            self.listing.check(self.context.asset_id, below, self.context.allowed)
        except FreshlineError as error:
            if len(self.refused) < MOST_REFUSED:
                self.refused.append(Conflict(one.path, error.message))
            return False
        return True

    def sentence(self, new: int) -> str:
        """Return the summary."""
        if self.partial:
            files = f"{counted(self.matching, 'file')} {'was' if self.matching == 1 else 'were'} closed or moved in"
            parts = [f"{files}, {are(new)} new"] if self.matching else ["What was closed or moved in is gone"]
        elif not self.matching:
            return self.nothing()
        else:
            match = "matches" if self.matching == 1 else "match"
            parts = [f"{counted(self.matching, 'file')} {match}, {are(new)} new"]
        parts += self.waiting()
        if self.empty:
            parts.append(f"{are(self.empty)} empty")
        if self.refused:
            parts.append(f"{len(self.refused):,} cannot be delivered")
        return ", ".join(parts) + "."

    def nothing(self) -> str:
        """Return the summary if no file matches."""
        others = f"; there are others, such as {self.listing.others[0]!r}" if self.listing.others else ""
        return f"No file matches {self.spec.files!r}{others}."

    def waiting(self) -> list[str]:
        """Return the parts of the summary about files that are not complete."""
        parts = [f"{are(self.written)} not complete yet"] if self.written else []
        if self.unmarked:
            where = "its directory" if self.unmarked == 1 else "their directories"
            verb = "waits" if self.unmarked == 1 else "wait"
            parts.append(f"{self.unmarked:,} {verb} for {self.spec.marker} in {where}")
        return parts


def digest_of(files: Sequence[Candidate]) -> str:
    """Return the version of files: a digest of their names, sizes and ETags or times of change."""
    lines = "".join(f"{one.path}\0{one.size}\0{one.version}\n" for one in files)
    return sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def are(number: int) -> str:
    """Return the number with its verb."""
    return "none is" if number == 0 else f"{number:,} {be(number)}"


def existed(number: int) -> str:
    """Return the summary of a first look that reports nothing."""
    return f"{counted(number, 'file')} existed at the first look and {be(number)} ignored."


def be(number: int) -> str:
    """Return the verb of a number."""
    return "is" if number == 1 else "are"
