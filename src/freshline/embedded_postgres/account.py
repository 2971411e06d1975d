"""The system user of the embedded server when root starts it, and the directories that this user can enter.

PostgreSQL refuses to run as root. The server of a new data directory runs with a user id of its own that no account
has. Modes of directories are never changed, except that of a project's own `.freshline`. If the user cannot enter the
project, its data goes below `/var/lib/freshline`, and `.freshline/postgres` is a link to it.
"""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from freshline.errors import DatabaseError

STATE = Path("/var/lib/freshline")
FIRST, COUNT = 60_578, 606  # a range that neither distributions nor systemd give to anybody
SHARED = ("nobody", "postgres", "pgserver")  # users of 0.1 that also own data of others
# `initdb` alone wants an account that has a name. It runs for a second, in a directory of its own.
INITIALISERS = ("freshline", "postgres", "pgserver", "daemon", "bin")


@dataclass(frozen=True, slots=True)
class Account:
    """A user and its group."""

    uid: int
    gid: int


def account_of(data: Path) -> Account | None:
    """Return the user that the server of `data` runs as; None for the current one.

    A data directory keeps its owner, unless that is root or a user that the server of 0.1 shared with others.
    """
    if os.geteuid() != 0:
        return None
    if data.exists():
        status = data.stat()
        if status.st_uid != 0 and status.st_uid not in _shared():
            return Account(status.st_uid, status.st_gid)
    return _unused(str(data.parent))


def initialiser() -> Account:
    """Return an account with a name, for `initdb`."""
    for name in INITIALISERS:
        with suppress(KeyError):
            found = pwd.getpwnam(name)
            if found.pw_uid != 0:
                return Account(found.pw_uid, found.pw_gid)
    raise DatabaseError(
        f"PostgreSQL is not initialized as root, and none of the users {', '.join(INITIALISERS)} exists; "
        "create one (`useradd --system freshline`), run as another user, or set FRESHLINE_DATABASE_URL"
    )


def barrier(path: Path, account: Account) -> Path | None:
    """Return the first of `path` and the directories above it that the user cannot enter; None if it can enter all."""
    above = [path, *path.parents]
    return next((one for one in reversed(above) if not _may(one, account, stat.S_IXOTH)), None)


def may_read(path: Path, account: Account) -> bool:
    """Return whether the user may read a file or list a directory, if it can enter the directories above."""
    return _may(path, account, stat.S_IROTH)


def state_directory(home: Path) -> Path:
    """Create and return the directory for the data of a project whose `home` the server's user cannot enter."""
    place = STATE / hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    try:
        for directory in (STATE, place):
            if not directory.exists():
                directory.mkdir()
                directory.chmod(0o711)  # ours, and whatever the umask is
    except OSError as error:
        raise DatabaseError(
            f"the user of the embedded PostgreSQL cannot enter {home}, and {place} cannot be made: {error}; "
            "move the project, run as another user, or set FRESHLINE_DATABASE_URL"
        ) from error
    return place


def give(path: Path, account: Account) -> None:
    """Make the user the owner of a directory of ours and of all that is in it. Links are not followed."""
    for directory, names, files in os.walk(path):
        for name in (*names, *files):
            one = Path(directory, name)
            status = one.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                raise DatabaseError(f"{one} has another name elsewhere, so its owner is not changed; copy the file")
            os.chown(one, account.uid, account.gid, follow_symlinks=False)
    os.chown(path, account.uid, account.gid)


def _shared() -> set[int]:
    found = set()
    for name in SHARED:
        with suppress(KeyError):
            found.add(pwd.getpwnam(name).pw_uid)
    return found


def _unused(key: str) -> Account:
    """Return a user id that no account and no group has: always the same one for a directory."""
    start = int.from_bytes(hashlib.sha256(os.fsencode(key)).digest()[:4])
    for step in range(COUNT):
        uid = FIRST + (start + step) % COUNT
        if not _has_name(uid):
            return Account(uid, uid)
    raise DatabaseError(
        f"the user ids {FIRST} to {FIRST + COUNT - 1} all have accounts; run as another user than root, "
        "or set FRESHLINE_DATABASE_URL"
    )


def _has_name(number: int) -> bool:
    for lookup in (pwd.getpwuid, grp.getgrgid):
        with suppress(KeyError):
            lookup(number)
            return True
    return False


def _may(path: Path, account: Account, bit: int) -> bool:
    status = path.stat()
    shift = 6 if status.st_uid == account.uid else 3 if status.st_gid == account.gid else 0
    return bool(status.st_mode & bit << shift)
