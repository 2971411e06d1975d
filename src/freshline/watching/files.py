"""Looks at files: each new file is a delivery of an append source; all files together are a version of a snapshot one.

`partition_files` looks at those of a source with partitions.

A file is identified by path, size and ETag or time of change. A delivered file that changes is a conflict and is not
delivered again; a renamed one is a new delivery.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from freshline.definitions.schema.watch import FilesWatch
from freshline.model import file_patterns
from freshline.model.json import Json
from freshline.model.watch import MAX_FOUND, Found, Look, Mode, SeenFile, identity, path_key, path_number
from freshline.plural import counted
from freshline.watching import partition_files
from freshline.watching.listing import ListingError, listing_of
from freshline.watching.look import LookContext, LookError
from freshline.watching.seen import Candidate, SeenFiles
from freshline.watching.sight import Sight, be, digest_of, existed

MOST_CHECKED = 10_000  # delivered files that one look compares with what was delivered; the next look goes on
MOST_BACKLOG = 50_000


def look(spec: FilesWatch, mode: Mode, position: Json | None, context: LookContext) -> Look:
    """Look at the files of a pattern."""
    try:
        pattern = file_patterns.parse(spec.files, context.allowed.root)
        file_patterns.require_allowed(pattern, context.allowed)
    except ValueError as error:
        raise LookError(f"'files' is {spec.files!r} and {error}") from None
    memory = context.seen or SeenFiles(lambda _: {})
    sight = Sight(spec, pattern, listing_of(pattern, spec.marker), memory, context)
    try:
        if (pattern.key_place is None) != (context.partitions is None):
            raise LookError(_other_partitions(spec, context))
        if context.partitions is not None:
            return partition_files.look(sight, context.partitions, position)
        return _snapshot(sight, position) if mode == "snapshot" else _append(sight, position)
    except ListingError as error:
        raise LookError(error.message) from None


def _other_partitions(spec: FilesWatch, context: LookContext) -> str:
    """Return the error of a definition that an older version has stored."""
    has = "no partitions" if context.partitions is None else "partitions"
    return f"'files' is {spec.files!r}, and the source has {has}; apply the project again"


def _append(sight: Sight, position: Json | None) -> Look:
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


def _ignored(sight: Sight) -> Look:
    """Return the files of the first look as seen, without delivering them."""
    found = [one for below, entry in sight.listing.entries() if (one := sight.listing.examine(below, entry))]
    seen = tuple(SeenFile(one.path, one.size, one.version, "ignored") for one in found)
    return Look((), {"started": True}, existed(len(seen)), seen=seen)


def _closed(sight: Sight) -> tuple[list[Candidate], list[Candidate]]:
    """Return the new and the changed ones of the files that were closed or moved in."""
    names = sorted(sight.below(path) for path in sight.context.closed or ())
    found = [one for name in names if sight.pattern.matches(name) and (one := sight.listing.examine(name, None))]
    sight.matching += len(found)
    known = {one.path: sight.memory.digests.get(path_number(one.path)) for one in found}
    changed = [one for one in found if known[one.path] not in {None, identity(one.size, one.version)}]
    return [one for one in found if known[one.path] is None], changed


def _backlog(sight: Sight) -> list[Candidate]:
    """Return the files that the last listing left over, examined again."""
    waiting, sight.memory.backlog = sight.memory.backlog, []
    sight.matching += len(waiting)
    unseen = (one for one in waiting if sight.memory.digests.get(path_number(one.path)) is None)
    return [now for one in unseen if (now := sight.listing.examine(sight.below(one.path), None) or one)]


def _listed(sight: Sight) -> tuple[list[Candidate], list[Candidate]]:
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


def _delivery(sight: Sight, one: Candidate) -> Found:
    modified = datetime.fromtimestamp(one.modified_ns / 1_000_000_000, UTC)
    # The payload is a function of the key: a repeated report must be equal to the first.
    version = {"etag": one.version} if sight.pattern.base.scheme else {"modifiedAt": modified.isoformat()}
    key = f"file:{path_key(one.path).hex}-{identity(one.size, one.version) & (2**64 - 1):016x}"
    return Found(key, None, {"path": one.path, "size": one.size, **version}, modified)


def _snapshot(sight: Sight, position: Json | None) -> Look:
    """Return a version if the names, sizes and versions of the files differ from the last one."""
    files = sorted(
        (one for below, entry in sight.listing.entries() if (one := sight.listing.examine(below, entry))),
        key=lambda one: one.path,
    )
    sight.matching = len(files)
    before = position or {}
    if not files:
        return Look((), before, sight.sentence(0))
    digest = digest_of(files)
    if digest == before.get("digest"):
        return Look((), before, f"{counted(len(files), 'file')} {be(len(files))} the same as in the last version.")
    after = {"digest": digest, "files": len(files), "bytes": sum(one.size for one in files)}
    if position is None and sight.spec.existing == "ignore":
        return Look((), after, existed(len(files)))
    if not sight.whole(files, digest, ""):
        return Look((), before, sight.sentence(0), conflicts=tuple(sight.refused), again_ms=sight.soonest_ms)
    sight.memory.settling.clear()
    payload = {"files": after["files"], "bytes": after["bytes"]}
    summary = f"{counted(len(files), 'file')} {'makes' if len(files) == 1 else 'make'} a new version."
    return Look((Found(f"files:{digest}", digest, payload),), after, summary)
