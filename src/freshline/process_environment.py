"""Keeps credentials out of what the kernel shows of a process: its environment, its memory and its descriptors.

The kernel shows the environment that a program was started with in `/proc/PID/environ`, and every process of the same
user can read it: the jobs of a worker too. Therefore the worker, the materializer, the API and `dev` start their own
program again, with the same process id and almost without an environment. The variables follow through a pipe.
`os.environ` then has them as before, in memory that the kernel does not show there.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import NoReturn

from freshline.errors import UsageError

DESCRIPTOR = "FRESHLINE_ENVIRONMENT_FD"
# Read by the loader, the C library, the interpreter or a tool before our first line. Every other variable may be a
# secret: workflows choose their names.
KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|PWD|TERM|TZ|TMPDIR|LANG|LANGUAGE|LC_\w+|LD_\w+|DYLD_\w+|MALLOC_\w+|GLIBC_TUNABLES"
    r"|PYTHON\w*|VIRTUAL_ENV|COVERAGE_\w+|FRESHLINE_FAILPOINTS"
)
STDERR = 2
PR_SET_DUMPABLE = 4
DEFAULT_PIPE = 65_536  # bytes


class _Program:
    """What this module knows of its process. `ours`: it is the program `freshline`, and not one that imports it."""

    ours = False
    received = False


def receive() -> None:
    """Read the variables that this program left to itself, if it did. The first thing that the program does."""
    _Program.ours = True
    number = os.environ.pop(DESCRIPTOR, "")
    if not number.isdecimal() or not _is_pipe(int(number)):
        return  # absent, or set by somebody else
    with os.fdopen(int(number), "rb") as pipe:
        entries = pipe.read().split(b"\0")
    for entry in filter(None, entries):
        name, _, value = entry.partition(b"=")
        os.environb[name] = value
    _Program.received = True


def leave() -> None:
    """Start this program again without its environment, unless that has happened, and close it to other processes.

    Raise `UsageError` if it cannot be started. Do nothing in a program that only imports Freshline.
    """
    if not _Program.ours:
        return
    if not _Program.received and (private := private_variables(os.environb)):
        _start_again(private)
    close_to_others()


def close_to_others() -> None:
    """Let no other process of this user read memory, environment or descriptors of this one, where Linux can do that.

    Root still can. The kernel then writes no core dump of this process, and debuggers need root.
    """
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - every command imports this module, and few need it

        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def private_variables(environ: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the variables that leave the environment."""
    return {name: value for name, value in environ.items() if not KEPT.fullmatch(os.fsdecode(name))}


def _start_again(private: Mapping[bytes, bytes]) -> NoReturn:
    pipe = _filled_pipe(b"\0".join(name + b"=" + value for name, value in private.items()))
    shown = {name: value for name, value in os.environb.items() if name not in private}
    os.set_inheritable(pipe, True)  # noqa: FBT003 - positional only
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        # The interpreter and its options as they were: `python -m freshline`, a console script, and others.
        command = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, command, {**shown, DESCRIPTOR.encode(): str(pipe).encode()})  # noqa: S606
    except OSError as error:
        raise UsageError(
            f"freshline cannot start {sys.executable!r} again to take credentials out of its environment: {error}"
        ) from error


def _filled_pipe(data: bytes) -> int:
    """Return the read end of a pipe that holds `data`. Nobody reads yet, so that it must fit."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    with os.fdopen(write, "wb", buffering=0) as file:
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(OSError):  # more than this user may have: the default may do
                fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, max(len(data), DEFAULT_PIPE))
        written = file.write(data)
    if written != len(data):
        os.close(read)
        raise UsageError(
            f"the environment has {len(data)} bytes and a pipe takes {written or 0}; unset variables that nothing needs"
        )
    return read


def _is_pipe(descriptor: int) -> bool:
    try:
        return descriptor > STDERR and stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except (OSError, OverflowError):
        return False
