"""Small file systems of their own, so that a disk can be full without harm to the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

MEGABYTE = 2**20
BALLAST = "ballast"
CROWDED = 0.5  # a file system is enlarged when more of it is used: only faults may fill it


@dataclass
class Disk:
    """A mounted tmpfs."""

    name: str
    path: Path
    size: int
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def mount(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={self.size},mode=0755", "tmpfs", str(self.path))

    def unmount(self) -> None:
        """Unmount it also if a process still uses it."""
        _run("umount", "--lazy", str(self.path))

    def fill(self) -> None:
        """Fill it to the last block."""
        with self._lock, suppress(OSError), (self.path / BALLAST).open("ab") as file:
            while free := shutil.disk_usage(self.path).free:
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), free)

    def release(self) -> None:
        """Delete the ballast, and leave room for what the run itself writes."""
        with self._lock:
            (self.path / BALLAST).unlink(missing_ok=True)
            usage = shutil.disk_usage(self.path)
            if usage.used > CROWDED * self.size:
                self.size *= 2
                with suppress(OSError, subprocess.SubprocessError):
                    _run("mount", "-o", f"remount,size={self.size}", str(self.path))


@dataclass
class Disks:
    """The disk of the database, and that of the project with its warehouse, code copies and scratch.

    `missing` says why there are none, where mounting is not permitted.
    """

    disks: list[Disk] = field(default_factory=list)
    missing: str | None = None

    @classmethod
    def mounted(cls, database: Path, project: Path) -> Disks:
        """Mount both, if that is permitted."""
        made = cls()
        for disk in (Disk("database", database, 768 * MEGABYTE), Disk("project", project, 128 * MEGABYTE)):
            try:
                disk.mount()
            except (OSError, subprocess.SubprocessError) as error:
                detail = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
                made.close()
                return cls(missing=f"no file system can be mounted here: {detail}")
            made.disks.append(disk)
        return made

    def release(self) -> None:
        for disk in self.disks:
            disk.release()

    def close(self, *, keep: bool = False) -> None:
        """Unmount all of them. `keep`: copy their files to where they were mounted."""
        for disk in self.disks:
            copy = disk.path.with_name(f"{disk.path.name}.kept")
            with suppress(OSError, subprocess.SubprocessError):
                disk.release()
                if keep:
                    _run("cp", "-a", str(disk.path), str(copy))
            with suppress(OSError, subprocess.SubprocessError):
                disk.unmount()
            if copy.exists():
                disk.path.rmdir()
                copy.rename(disk.path)
        self.disks.clear()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
