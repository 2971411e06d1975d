"""Looks at files: each new file is a delivery of an append source; all files together are a version of a snapshot one.

A file is identified by path, size and ETag or time of change. A delivered file that changes is a conflict and is not
delivered again; a renamed one is a new delivery.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256

from freshline.definitions.schema.watch import FilesWatch
from freshline.errors import FreshlineError
from freshline.model import file_patterns
from freshline.model.file_patterns import Pattern
from freshline.model.json import Json
from freshline.model.watch import MAX_FOUND, Conflict, Found, Look, Mode, SeenFile, identity, path_key, path_number
from freshline.plural import counted
from freshline.watching.listing import Listing, ListingError, listing_of
from freshline.watching.look import LookContext, LookError
from freshline.watching.seen import Candidate, SeenFiles

MOST_CHECKED = 10_000  # delivered files that one look compares with what was delivered; the next look goes on
MOST_BACKLOG = 50_000
MOST_REFUSED = 20
RECENT_S = 3_600


def look(spec: FilesWatch, mode: Mode, position: Json | None, context: LookContext) -> Look:
    """Look at the files of a pattern."""
    try:
        pattern = file_patterns.parse(spec.files, context.allowed.root)
        file_patterns.require_allowed(pattern, context.allowed)
    except ValueError as error:
        raise LookError(f"'files' is {spec.files!r} and {error}") from None
    memory = context.seen or SeenFiles(lambda _: {})
    sight = _Sight(spec, pattern, listing_of(pattern, spec.marker), memory, context)
    try:
        return _snapshot(sight, position) if mode == "snapshot" else _append(sight, position)
    except ListingError as error:
        raise LookError(error.message) from None


@dataclass(slots=True)
class _Sight:
    """One look under way, and what it counts for its summary."""

    spec: FilesWatch
    pattern: Pattern
    listing: Listing
    memory: SeenFiles
    context: LookContext
    partial: bool = False  # only files that were closed or moved in are examined
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
            parts = [f"{files}, {_are(new)} new"] if self.matching else ["What was closed or moved in is gone"]
        elif not self.matching:
            others = f"; there are others, such as {self.listing.others[0]!r}" if self.listing.others else ""
            return f"No file matches {self.spec.files!r}{others}."
        else:
            match = "matches" if self.matching == 1 else "match"
            parts = [f"{counted(self.matching, 'file')} {match}, {_are(new)} new"]
        if self.written:
            parts.append(f"{_are(self.written)} not complete yet")
        if self.unmarked:
            where = "its directory" if self.unmarked == 1 else "their directories"
            verb = "waits" if self.unmarked == 1 else "wait"
            parts.append(f"{self.unmarked:,} {verb} for {self.spec.marker} in {where}")
        if self.empty:
            parts.append(f"{_are(self.empty)} empty")
        if self.refused:
            parts.append(f"{len(self.refused):,} cannot be delivered")
        return ", ".join(parts) + "."


def _append(sight: _Sight, position: Json | None) -> Look:
    """Return the new files as deliveries, by time of change and name, and the delivered ones that have changed."""
    if position is None and sight.spec.existing == "ignore":
        return _ignored(sight)
    partial = sight.context.closed is not None and position is not None and sight.spec.marker is None
    sight.partial = partial
    left = _backlog(sight)
    new, changed = _closed(sight) if partial else (list[Candidate](), list[Candidate]())
    if left:
        new = list({one.path: one for one in (*left, *new)}.values())
    elif not partial:
        new, changed = _listed(sight)
    ready = sorted(
        (one for one in new if sight.ready(one, closed=partial)), key=lambda one: (one.modified_ns, one.path)
    )
    batch = ready[:MAX_FOUND]
    sight.memory.backlog = ready[MAX_FOUND:MOST_BACKLOG]
    stored = sight.memory.rows([one.path for one in (*batch, *changed)])
    fresh = [one for one in batch if one.path not in stored]
    seen = [SeenFile(one.path, one.size, one.version, "delivered") for one in fresh]
    seen += _changes((*batch, *changed), stored)
    more = bool(ready[MAX_FOUND:])
    return Look(
        tuple(_delivery(sight, one) for one in fresh),
        {"started": True},
        sight.sentence(len(fresh)),
        conflicts=tuple(sight.refused),
        more=more,
        again_ms=None if more else sight.soonest_ms,
        seen=tuple(seen),
        partial=partial or bool(sight.memory.backlog),
    )


def _ignored(sight: _Sight) -> Look:
    """Return the files of the first look as seen, without delivering them."""
    found = [one for below, entry in sight.listing.entries() if (one := sight.listing.examine(below, entry))]
    seen = tuple(SeenFile(one.path, one.size, one.version, "ignored") for one in found)
    return Look((), {"started": True}, _existed(len(seen)), seen=seen)


def _closed(sight: _Sight) -> tuple[list[Candidate], list[Candidate]]:
    """Return the new and the changed ones of the files that were closed or moved in."""
    names = sorted(sight.below(path) for path in sight.context.closed or ())
    found = [one for name in names if sight.pattern.matches(name) and (one := sight.listing.examine(name, None))]
    sight.matching += len(found)
    known = {one.path: sight.memory.digests.get(path_number(one.path)) for one in found}
    changed = [one for one in found if known[one.path] not in {None, identity(one.size, one.version)}]
    return [one for one in found if known[one.path] is None], changed


def _backlog(sight: _Sight) -> list[Candidate]:
    """Return the files that the last listing left over, examined again."""
    waiting, sight.memory.backlog = sight.memory.backlog, []
    sight.matching += len(waiting)
    unseen = (one for one in waiting if sight.memory.digests.get(path_number(one.path)) is None)
    return [now for one in unseen if (now := sight.listing.examine(sight.below(one.path), None) or one)]


def _listed(sight: _Sight) -> tuple[list[Candidate], list[Candidate]]:
    """Return the new files of a listing, and delivered ones that have changed. A part of those is checked each time."""
    memory, listing = sight.memory, sight.listing
    first, new, changed = memory.checked, [], []
    known = 0
    for below, entry in listing.entries():
        sight.matching += 1
        digest = memory.digests.get(path_number(sight.pattern.reported(below)))
        if digest is None:
            one = listing.examine(below, entry)
            if one is None:
                sight.matching -= 1
            else:
                new.append(one)
            continue
        if first <= known < first + MOST_CHECKED:
            one = listing.examine(below, entry)
            if one is not None and identity(one.size, one.version) != digest:
                changed.append(one)
        known += 1
    memory.checked = first + MOST_CHECKED if known > first + MOST_CHECKED else 0
    paths = {one.path for one in new}
    memory.settling = {path: since for path, since in memory.settling.items() if path in paths}
    return new, changed


def _changes(examined: Iterable[Candidate], stored: Mapping[str, SeenFile]) -> Iterator[SeenFile]:
    """Yield delivered files that are different now."""
    for one in examined:
        before = stored.get(one.path)
        if before is not None and (before.size, before.version) != (one.size, one.version):
            was = before.was or (before.size, before.version)
            yield SeenFile(one.path, one.size, one.version, "changed", was)


def _delivery(sight: _Sight, one: Candidate) -> Found:
    modified = datetime.fromtimestamp(one.modified_ns / 1_000_000_000, UTC)
    # The payload is a function of the key: a repeated report must be equal to the first.
    version = {"etag": one.version} if sight.pattern.base.scheme else {"modifiedAt": modified.isoformat()}
    key = f"file:{path_key(one.path).hex}-{identity(one.size, one.version) & (2**64 - 1):016x}"
    return Found(key, None, {"path": one.path, "size": one.size, **version}, modified)


def _snapshot(sight: _Sight, position: Json | None) -> Look:
    """Return a version if the names, sizes and versions of the files differ from the last one."""
    files = sorted(
        (one for below, entry in sight.listing.entries() if (one := sight.listing.examine(below, entry))),
        key=lambda one: one.path,
    )
    sight.matching = len(files)
    before = position or {}
    if not files:
        return Look((), before, sight.sentence(0))
    lines = "".join(f"{one.path}\0{one.size}\0{one.version}\n" for one in files)
    digest = sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    if digest == before.get("digest"):
        return Look((), before, f"{counted(len(files), 'file')} {_be(len(files))} the same as in the last version.")
    after = {"digest": digest, "files": len(files), "bytes": sum(one.size for one in files)}
    if position is None and sight.spec.existing == "ignore":
        return Look((), after, _existed(len(files)))
    if not _whole(sight, files, digest):
        return Look((), before, sight.sentence(0), conflicts=tuple(sight.refused), again_ms=sight.soonest_ms)
    sight.memory.settling.clear()
    payload = {"files": after["files"], "bytes": after["bytes"]}
    summary = f"{counted(len(files), 'file')} {'makes' if len(files) == 1 else 'make'} a new version."
    return Look((Found(f"files:{digest}", digest, payload),), after, summary)


def _whole(sight: _Sight, files: list[Candidate], digest: str) -> bool:
    """Return whether all files are complete; count those that are not. What did not change for an hour is complete."""
    spec, marked = sight.spec, sight.listing.marked
    if spec.marker is not None:
        sight.unmarked = sum(sight.below(one.path).rpartition("/")[0] not in marked for one in files)
    if spec.settle_ms is not None:
        sight.written = 0 if sight.settled("", int(digest[:15], 16), spec.settle_ms) else len(files)
    elif spec.marker is None:
        since = (sight.context.now.timestamp() - RECENT_S) * 1_000_000_000
        recent = (one for one in files if one.modified_ns > since)
        sight.written = sum(not sight.complete(one) for one in recent)
    return not sight.unmarked and not sight.written


def _are(number: int) -> str:
    return "none is" if number == 0 else f"{number:,} {_be(number)}"


def _existed(number: int) -> str:
    return f"{counted(number, 'file')} existed at the first look and {_be(number)} ignored."


def _be(number: int) -> str:
    return "is" if number == 1 else "are"
