"""Lists the files of a pattern in a directory, an object store or HDFS, in the same form."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from freshline.errors import FreshlineError
from freshline.model.allowed_paths import GLOB, AllowedPaths
from freshline.model.file_patterns import Pattern, hidden, join
from freshline.storage.base import HADOOP, storage_at
from freshline.storage.real_paths import real_path
from freshline.storage.remote import RemoteStorage
from freshline.watching.seen import Candidate

MOST_DIRECTORIES = 100_000


class ListingError(FreshlineError):
    """The directory does not exist, or the storage does not answer."""


class Listing(Protocol):
    """The files of one pattern. `marked`: directories that have the marker. `others`: names that do not match."""

    marked: set[str]
    others: list[str]

    @property
    def settle_ms(self) -> int | None:
        """The time without a change after which a file counts as complete; None if a listed file is complete."""

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Yield the path below the base of each file, and what `examine` takes."""

    def examine(self, below: str, entry: Any) -> Candidate | None:
        """Return size and version of a file; None if it is gone, or not a file."""

    def complete(self, below: str, leases: set[int]) -> bool | None:
        """Return whether nobody writes the file; None if that is not known."""

    def check(self, asset_id: str, below: str, allowed: AllowedPaths) -> None:
        """Raise a `FreshlineError` if the file cannot be reported, or leads by a link to where it may not."""


@dataclass(slots=True)
class LocalListing:
    """Files of this machine. Names are read with `scandir`; a file is examined only if it may be new."""

    pattern: Pattern
    marker: str | None
    marked: set[str] = field(default_factory=set)
    others: list[str] = field(default_factory=list)
    settle_ms: int | None = 5_000

    def entries(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Yield the matching files."""
        seen = 0
        waiting: list[tuple[str, int]] = [("", 0)]
        while waiting:
            seen += 1
            if seen > MOST_DIRECTORIES:
                raise ListingError(
                    f"{self.pattern.base} has more than {MOST_DIRECTORIES:,} directories; narrow the pattern"
                )
            yield from self._directory(*waiting.pop(), waiting)

    def _directory(
        self, below: str, depth: int, waiting: list[tuple[str, int]]
    ) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Yield the matching files of a directory whose path matches the first `depth` names."""
        expressions = self.pattern.expressions
        deep = expressions[depth] is None
        # `**` also stands for no directory, so its directory is also matched with what follows.
        level = depth + 1 if deep else depth
        expression = expressions[level] if level < len(expressions) else None
        last = level >= len(expressions) - 1
        for entry in self._scan(below):
            name = entry.name
            if name == self.marker:
                self.marked.add(below)
            if last and (expression is None or expression.fullmatch(name)):
                if not hidden(name) or expression is not None:
                    yield join(below, name), entry
            elif last and len(self.others) < 3:  # noqa: PLR2004 - examples for a sentence
                self.others.append(join(below, name))
            if deep and not hidden(name) and entry.is_dir(follow_symlinks=False):
                waiting.append((join(below, name), depth))
            if not last and expression is not None and expression.fullmatch(name) and entry.is_dir():
                waiting.append((join(below, name), level + 1))

    def _scan(self, below: str) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(self._path(below)) as entries:
                yield from entries
        except OSError as error:
            if below and error.errno in {errno.ENOENT, errno.ENOTDIR}:
                return  # it was removed meanwhile
            raise ListingError(_sentence(self._path(below), error)) from None

    def examine(self, below: str, entry: os.DirEntry[str] | None) -> Candidate | None:
        """Return size and time of change, through a link if it is one."""
        try:
            # The entry of a large directory was read a while ago: a file that is closed meanwhile has changed.
            found = os.stat(self._path(below) if entry is None else entry.path)  # noqa: PTH116 - a million of them
        except OSError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        return Candidate(self.pattern.reported(below), found.st_size, str(found.st_mtime_ns), found.st_mtime_ns)

    def complete(self, below: str, leases: set[int]) -> bool | None:
        """Ask the kernel: a read lease is refused while somebody has the file open for writing.

        Some file systems refuse every lease. A refusal counts only on a device that has granted one.
        """
        try:
            handle = os.open(self._path(below), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            device = os.fstat(handle).st_dev
            granted = _lease(handle)
        finally:
            os.close(handle)
        if granted:
            leases.add(device)
        return granted if granted is not False or device in leases else None

    def check(self, asset_id: str, below: str, allowed: AllowedPaths) -> None:
        """Resolve links, as the worker does before it reads."""
        _refuse_pattern(below)
        real_path(asset_id, self.pattern.reported(below), allowed)

    def _path(self, below: str) -> str:
        return join(self.pattern.base.path, below)


@dataclass(slots=True)
class RemoteListing:
    """Files of an object store or HDFS. An object is visible when it is complete; a file of HDFS is not."""

    pattern: Pattern
    marker: str | None
    marked: set[str] = field(default_factory=set)
    others: list[str] = field(default_factory=list)

    @property
    def settle_ms(self) -> int | None:
        """The time without a change after which a file of HDFS counts as complete."""
        return 30_000 if self.pattern.base.scheme in HADOOP else None

    def entries(self) -> Iterator[tuple[str, Candidate]]:
        """Yield the matching objects, empty ones included: a marker is empty."""
        try:
            storage = storage_at(str(self.pattern.base))
            assert isinstance(storage, RemoteStorage)  # noqa: S101 - the pattern has a scheme
            for found in storage.objects(""):
                directory, _, name = found.name.rpartition("/")
                if name == self.marker:
                    self.marked.add(directory)
                if not self.pattern.matches(found.name):
                    if len(self.others) < 3:  # noqa: PLR2004 - examples for a sentence
                        self.others.append(found.name)
                    continue
                modified = int(found.modified.timestamp() * 1_000_000_000)
                version = found.etag or str(modified)
                yield found.name, Candidate(self.pattern.reported(found.name), found.size, version, modified)
        except OSError as error:
            raise ListingError(f"{self.pattern.base} cannot be listed: {error}") from None

    def examine(self, below: str, entry: Candidate | None) -> Candidate | None:  # noqa: ARG002 - a listing has it all
        """Return what the listing said."""
        return entry

    def complete(self, below: str, leases: set[int]) -> bool | None:  # noqa: ARG002
        """Return that an object is complete; of a file in HDFS it is not known."""
        return None if self.settle_ms else True

    def check(self, asset_id: str, below: str, allowed: AllowedPaths) -> None:
        """Check the name."""
        _refuse_pattern(below)
        real_path(asset_id, self.pattern.reported(below), allowed)


def listing_of(pattern: Pattern, marker: str | None) -> Listing:
    """Return the listing of a pattern."""
    return RemoteListing(pattern, marker) if pattern.base.scheme else LocalListing(pattern, marker)


def _refuse_pattern(below: str) -> None:
    """Raise an error for a name that Spark would read as a pattern, and with it other files."""
    if wrong := set(below) & GLOB:
        raise ListingError(f"the name contains {min(wrong)!r}, which is a pattern for Spark; rename the file")


def directories(pattern: Pattern, most: int) -> list[str]:
    """Return the directories of this machine, below the base, in which matching files may appear; at most `most`."""
    listing = LocalListing(pattern, None)
    found: list[str] = []
    waiting: list[tuple[str, int]] = [("", 0)]
    while waiting and len(found) < most:
        below, depth = waiting.pop()
        found.append(below)
        if depth < len(pattern.names) - 1 or pattern.deep:
            with suppress(ListingError):
                for _ in listing._directory(below, depth, waiting):  # noqa: SLF001 - the files are not needed
                    pass
    return list(dict.fromkeys(found))


def _lease(handle: int) -> bool | None:
    """Return whether a read lease is granted; None if the system has none, or the file belongs to somebody else."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        # A writer that opens the file in this moment makes the kernel send a signal; SIGIO would end the process.
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return False if error.errno == errno.EAGAIN else None
    with suppress(OSError):
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return True


def _sentence(path: str, error: OSError) -> str:
    host = socket.gethostname()
    if error.errno == errno.ENOENT:
        return f"the directory {path} does not exist on {host}"
    return f"the directory {path} cannot be read on {host}: {error.strerror}"
