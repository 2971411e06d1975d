"""Notifications of the kernel about files in watched directories, so that a new file is looked at without a pause.

Notifications only reduce latency: every directory is listed at its interval. One inotify instance serves all
directories of the process, because a user may have only 128 of them.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog
from watchdog.utils import UnsupportedLibcError

from freshline.definitions.schema.watch import FilesWatch, watch_of
from freshline.model import file_patterns
from freshline.model.allowed_paths import AllowedPaths
from freshline.model.file_patterns import Pattern, join
from freshline.watching.listing import directories

if TYPE_CHECKING:
    from watchdog.observers.inotify_c import InotifyEvent, InotifyFD

log = structlog.get_logger("freshline.watching")
MOST_DIRECTORIES = 4_000  # of all sources; the others are listed at their interval
MOST_CLOSED = 1_000  # of one source; then its directories are listed


@dataclass(frozen=True, slots=True)
class Followed:
    """A directory of a source, below the base of its pattern."""

    asset_id: str
    pattern: Pattern
    below: str
    marker: str | None


class FileNotifications:
    """Follows directories. `wake` is called when a source has news."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._hints: dict[str, set[str] | None] = {}  # None: list everything
        self._followed: dict[str, list[Followed]] = {}
        self._watching: dict[str, tuple[Any, Any]] = {}  # watchdog's ids of the directory and of our callback
        self._numbers = itertools.count()  # two paths may lead to one directory
        self._inotify: InotifyFD | None = None
        self.stale = False  # whether directories appeared or vanished

    @property
    def pending(self) -> bool:
        """Whether a source has news."""
        return bool(self._hints)

    def hinted(self) -> list[str]:
        """Return the sources that have news."""
        with self._lock:
            return list(self._hints)

    def take(self, asset_id: str) -> frozenset[str] | None:
        """Return the files that were closed or moved in, and forget them; None if everything has to be listed."""
        with self._lock:
            paths = self._hints.pop(asset_id, None)
        return frozenset(paths) if paths else None

    def follow(self, watched: Sequence[Mapping[str, Any]]) -> None:
        """Follow the directories of these watches, and no others. A directory that is new here is listed once more."""
        followed: dict[str, list[Followed]] = {}
        for row in watched:
            for directory, one in _directories(row):
                if len(followed) < MOST_DIRECTORIES or directory in followed:
                    followed.setdefault(directory, []).append(one)
        self.stale = False
        with self._lock:
            new = [directory for directory in followed if directory not in self._watching]
            old = [directory for directory in self._watching if directory not in followed]
            self._followed = followed
        if new and self._inotify is None:
            self._inotify = _open()
        for directory in old:
            self._remove(directory)
        for directory in new if self._inotify is not None else ():
            self._add(directory)

    def close(self) -> None:
        """Stop to follow."""
        inotify, self._inotify = self._inotify, None
        self._watching = {}
        if inotify is not None:
            inotify.stop()
            inotify.join()

    def hint(self, asset_id: str, path: str | None) -> None:
        """Note that a file was closed or moved in; None: something else happened, so everything has to be listed."""
        with self._lock:
            paths = self._hints.setdefault(asset_id, set())
            if paths is not None and path is not None and len(paths) < MOST_CLOSED:
                paths.add(path)
            else:
                self._hints[asset_id] = None
        self._wake()

    def changed(self, directory: str, name: str, *, is_directory: bool) -> None:
        """Tell the sources of a directory that something is new there."""
        for one in self._followed.get(directory, ()):
            below = join(one.below, name)
            if is_directory:
                self.stale = True
                self.hint(one.asset_id, None)
            elif one.pattern.matches(below):
                self.hint(one.asset_id, one.pattern.reported(below))
            elif name == one.marker:
                self.hint(one.asset_id, None)

    def lost(self, directory: str | None) -> None:
        """List everything in a directory that was removed; None: in all, because notifications were lost."""
        affected = self._followed if directory is None else {directory: self._followed.get(directory, [])}
        if directory is not None:
            self._remove(directory)  # a directory that was moved is still followed under its new name
            self.stale = True
        for one in (one for followed in list(affected.values()) for one in followed):
            self.hint(one.asset_id, None)

    def _add(self, directory: str) -> None:
        assert self._inotify is not None  # noqa: S101 - the caller opened it
        number: Any = next(self._numbers)
        callback = _Callback(self, directory)
        try:
            descriptor = self._inotify.add_callback(os.fsencode(directory), _mask(), callback, number)
        except OSError as error:
            if error.errno != errno.ENOENT:
                log.warning("directory_not_followed", directory=directory, error=str(error), fallback="polling")
            return
        self._watching[directory] = descriptor, number
        for one in self._followed.get(directory, ()):
            self.hint(one.asset_id, None)

    def _remove(self, directory: str) -> None:
        ids = self._watching.pop(directory, None)
        if ids is not None and self._inotify is not None:
            self._inotify.remove_callbacks([ids])


class _Callback:
    """What watchdog calls for one directory, in its thread."""

    def __init__(self, notifications: FileNotifications, directory: str) -> None:
        self._notifications = notifications
        self._directory = directory

    def on_event(self, event: InotifyEvent) -> None:
        # A created file is not complete; a created directory may have complete files in it.
        if event.name and (event.is_close_write or event.is_moved_to or event.is_directory):
            name = os.fsdecode(event.name)
            self._notifications.changed(self._directory, name, is_directory=event.is_directory)
        elif event.is_move_self:
            self._notifications.lost(self._directory)

    def on_watch_deleted(self, wd: int) -> None:  # noqa: ARG002 - as watchdog calls it
        self._notifications.lost(self._directory)

    def on_queue_overflow(self) -> None:
        self._notifications.lost(None)


def _open() -> InotifyFD | None:
    """Return a started inotify instance; None where there is none."""
    try:
        from watchdog.observers.inotify_c import InotifyFD  # noqa: PLC0415 - only Linux has it

        inotify = InotifyFD()
    except (ImportError, OSError, UnsupportedLibcError) as error:
        log.info("no_file_notifications", error=str(error), fallback="polling")
        return None
    inotify.name = "inotify"
    inotify.start()
    return inotify


def _mask() -> Any:
    from watchdog.observers.inotify_c import InotifyConstants as Inotify  # noqa: PLC0415 - only Linux has it

    return Inotify.IN_CLOSE_WRITE | Inotify.IN_MOVED_TO | Inotify.IN_CREATE | Inotify.IN_MOVE_SELF | Inotify.IN_ONLYDIR


def _directories(row: Mapping[str, Any]) -> Iterator[tuple[str, Followed]]:
    """Yield the directories in which files of a watch may appear, if they are on this machine."""
    spec = watch_of(row["spec"])
    root = AllowedPaths.of(row["declaration"], root=None).root
    try:
        pattern = file_patterns.parse(spec.files, root) if isinstance(spec, FilesWatch) else None
    except ValueError:
        return  # the look says so
    if pattern is None or pattern.base.scheme or not isinstance(spec, FilesWatch):
        return
    for below in directories(pattern, MOST_DIRECTORIES):
        yield (
            join(pattern.base.path, below) if below else pattern.base.path,
            Followed(row["asset_id"], pattern, below, spec.marker),
        )
