"""Looks at the files of a source with partitions: those whose paths have one key are a version of its partition.

The position holds a digest of each partition, so a look reports exactly the partitions whose files differ. A path
without a key of the source is a conflict; the files of other keys go on. A partition whose files are all gone keeps its
version, as a source does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from freshline.errors import PartitionKeyError
from freshline.model.allowed_paths import target
from freshline.model.file_patterns import PARTITION
from freshline.model.json import Json
from freshline.model.watch import Conflict, Found, Look
from freshline.partitions import DynamicKeys
from freshline.partitions.keys import decode_from_path, encode_for_path, shown, split
from freshline.partitions.mapping import axes_of
from freshline.plural import counted
from freshline.watching.look import SourcePartitions
from freshline.watching.seen import Candidate
from freshline.watching.sight import MOST_REFUSED, Sight, be, digest_of

MOST_PARTITIONS = 500  # that one look reports, which is one transaction; the next look follows at once
MOST_NAMED = 5
MOST_KEPT = 20  # keys of the last reports
STORED = 16  # characters of a digest: a position has one for each partition


class Files(NamedTuple):
    """The files of a partition that are not those of its last version."""

    key: str
    digest: str
    found: Sequence[Candidate]


def look(sight: Sight, partitions: SourcePartitions, position: Json | None) -> Look:
    """Return a version of each partition whose files differ from the last ones."""
    before: dict[str, str] = (position or {}).get("partitions", {})
    keys = _Keys(sight, partitions)
    files = _grouped(sight, keys)
    differ = [Files(key, digest_of(found), found) for key, found in files.items()]
    differ = [one for one in differ if one.digest[:STORED] != before.get(one.key)]
    # What is left of keys that the source does not have any more would hide that they come back.
    kept = {key: one for key, one in before.items() if key in files or partitions.partitioning.defines(key)}
    gone = [key for key in kept if key not in files]
    if position is None and sight.spec.existing == "ignore":
        after = {one.key: one.digest[:STORED] for one in differ}
        conflicts = tuple(keys.conflicts())
        return Look((), {"partitions": after, "last": []}, _ignored(sight, len(after)), conflicts=conflicts)
    changed = keys.admitted(differ)
    ready = [one for one in changed if sight.whole(one.found, one.digest, one.key)]
    ready.sort(key=lambda one: (max(file.modified_ns for file in one.found), one.key))
    batch, more = ready[:MOST_PARTITIONS], len(ready) > MOST_PARTITIONS
    _forget_settled(sight, changed, ready)
    last = [one.key for one in batch[-MOST_KEPT:]] or (position or {}).get("last", [])
    return Look(
        tuple(_version(one) for one in batch),
        {"partitions": kept | {one.key: one.digest[:STORED] for one in batch}, "last": last},
        _summary(sight, files, ready, gone, keys),
        conflicts=tuple(keys.conflicts()),
        more=more,
        again_ms=None if more else sight.soonest_ms,
    )


@dataclass(slots=True)
class _Keys:
    """The keys of the source, as paths have them. `wrong`: what cannot be a key of it."""

    sight: Sight
    partitions: SourcePartitions
    read: dict[str, str | None] = field(default_factory=dict)
    wrong: dict[str, _Wrong] = field(default_factory=dict)

    def key_of(self, below: str, path: str) -> str | None:
        """Return the key of a file below the base of the pattern; None if the source has no such key."""
        written = self.sight.pattern.encoded_key(below)
        if written not in self.read:
            try:
                self.read[written] = self._key(written)
            except PartitionKeyError as error:
                self.read[written] = None
                self.wrong[written] = _Wrong(path, error.message)
        if (wrong := self.wrong.get(written)) is not None:
            wrong.files += 1
            wrong.path = min(wrong.path, path)
        return self.read[written]

    def admitted(self, changed: Sequence[Files]) -> Sequence[Files]:
        """Return the partitions for which a source with dynamic ones has room.

        A report of one too many would be refused, and with it the whole look.
        """
        if not changed or not self.partitions.partitioning.is_dynamic:
            return changed
        taken = [set[str]() for _ in axes_of(self.partitions.partitioning)]
        for key in self.partitions.read_known():
            self._take(key, taken, always=True)
        found = []
        for one in sorted(changed):
            try:
                self._take(one.key, taken)
            except PartitionKeyError as error:
                self.wrong[one.key] = _Wrong(one.found[0].path, error.message, len(one.found))
            else:
                found.append(one)
        return found

    def _take(self, key: str, taken: Sequence[set[str]], *, always: bool = False) -> None:
        """Add the values of a key. Raise `PartitionKeyError` if there is one too many."""
        whole = len(taken) == 1
        of_axes = list(zip(axes_of(self.partitions.partitioning), taken, (key,) if whole else split(key), strict=True))
        for axis, values, value in of_axes:
            full = isinstance(axis, DynamicKeys) and len(values) >= axis.limit
            if full and value not in values and not always:
                raise PartitionKeyError(
                    f"partition key {shown(value)} would be one more than the limit of {counted(len(values), 'key')}"
                )
        for _, values, value in of_axes:
            values.add(value)

    def _key(self, written: str) -> str:
        """Return the key of a part of a path. Raise `PartitionKeyError` if its partition cannot be reported."""
        partitioning = self.partitions.partitioning
        key = partitioning.parse(decode_from_path(written))
        partitioning.require_begun(key, self.sight.context.now)
        self._require_its_data(key, written)
        return key

    def _require_its_data(self, key: str, written: str) -> None:
        """Raise an error if a report of the key would lead to other files than those that were seen."""
        path, begins = self.partitions.path, self.sight.pattern.key_begins
        if path is None or PARTITION not in path or begins is None or written == (name := encode_for_path(key)):
            return
        if str(target(path, root=self.sight.context.allowed.root, free=True)).partition(PARTITION)[0] == begins:
            raise PartitionKeyError(
                f"the data of partition {shown(key)} is read where its name is {shown(name)}, and not"
                f" {shown(written)}; rename it"
            )

    def conflicts(self) -> Iterator[Conflict]:
        """Yield what belongs to no partition of the source."""
        for one in sorted(self.wrong.values(), key=lambda one: one.path)[:MOST_REFUSED]:
            others = f" ({counted(one.files, 'file')} of this key)" if one.files > 1 else ""
            yield Conflict(_printable(one.path), f"{one.message}{others}")


@dataclass(slots=True)
class _Wrong:
    path: str
    message: str
    files: int = 0


def _grouped(sight: Sight, keys: _Keys) -> dict[str, list[Candidate]]:
    """Return the files of each key, by path."""
    found: defaultdict[str, list[Candidate]] = defaultdict(list)
    for below, entry in sight.listing.entries():
        one = sight.listing.examine(below, entry)
        if one is None:
            continue
        sight.matching += 1
        key = keys.key_of(below, one.path)
        if key is not None:
            found[key].append(one)
    return {key: sorted(files, key=lambda one: one.path) for key, files in found.items()}


def _forget_settled(sight: Sight, changed: Sequence[Files], ready: Sequence[Files]) -> None:
    """Keep since when something does not change only of what is still waited for."""
    done = {one.key for one in ready}
    waiting = [one for one in changed if one.key not in done]
    names = {one.key for one in waiting} | {file.path for one in waiting for file in one.found}
    memory = sight.memory
    memory.settling = {name: since for name, since in memory.settling.items() if name in names}


def _version(one: Files) -> Found:
    payload = {"files": len(one.found), "bytes": sum(file.size for file in one.found)}
    return Found(f"files:{one.digest}", one.digest, payload, partition_key=one.key)


def _ignored(sight: Sight, partitions: int) -> str:
    files = f"{counted(sight.matching, 'file')} of {counted(partitions, 'partition')}"
    return f"{files} existed at the first look and {be(sight.matching)} ignored."


def _summary(
    sight: Sight, files: Mapping[str, object], ready: Sequence[Files], gone: Sequence[str], keys: _Keys
) -> str:
    if sight.matching:
        verb = "matches" if sight.matching == 1 else "match"
        new = "none has a new version"
        if ready:
            has = "has" if len(ready) == 1 else "have"
            new = f"{len(ready):,} {has} a new version: {_named([one.key for one in ready])}"
        parts = [f"{counted(sight.matching, 'file')} of {counted(len(files), 'partition')} {verb}", new]
    else:
        parts = [sight.nothing().removesuffix(".")]
    parts += sight.waiting()
    if wrong := sum(one.files for one in keys.wrong.values()):
        parts.append(f"{wrong:,} {'belongs' if wrong == 1 else 'belong'} to no partition")
    if gone:
        which = "its version" if len(gone) == 1 else "their versions"
        parts.append(
            f"{counted(len(gone), 'partition')} without files {'keeps' if len(gone) == 1 else 'keep'} {which}: "
        )
        parts[-1] += _named(sorted(gone, reverse=True))
    return "; ".join(parts) + "."


def _named(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - MOST_NAMED:,} more" if len(keys) > MOST_NAMED else ""
    return ", ".join(keys[:MOST_NAMED]) + more


def _printable(text: str) -> str:
    """Return a name that is no UTF-8 as text that can be stored."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
