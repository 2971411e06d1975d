"""A process leaves its variables to itself: the kernel shows none of them, and the program has all of them."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from freshline import process_environment
from freshline.errors import UsageError

PROGRAM = """
import json, os, sys
from freshline import process_environment
process_environment.receive()
process_environment.leave()
print(json.dumps({"pid": os.getpid(), "argv": sys.argv[1:], "names": sorted(os.environ),
                  "value": os.environ.get("MY_SECRET"), "descriptors": len(os.listdir("/proc/self/fd"))}), flush=True)
sys.stdin.read()
"""


def _start(**environ: str) -> subprocess.Popen[str]:
    given = {
        **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
        "HOME": "/",
        **environ,
    }
    command = [sys.executable, "-c", PROGRAM, "an argument", "--option"]
    return subprocess.Popen(command, env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("value", ["sesame", "two\nlines and = ü \udcff", "x" * 100_000])
def test_the_kernel_shows_nothing_and_the_program_has_everything(value: str) -> None:
    """The same process id, arguments and values: bytes of any kind, and more than a pipe takes by default."""
    with _start(MY_SECRET=value, ANOTHER="y" * 50_000, LANG="C.UTF-8") as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        environ = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
        process.communicate("")
    assert (told["pid"], told["argv"], told["value"]) == (process.pid, ["an argument", "--option"], value)
    assert {"MY_SECRET", "ANOTHER", "PATH", "HOME", "LANG"} <= set(told["names"])
    assert process_environment.DESCRIPTOR not in told["names"]
    shown = {entry.partition(b"=")[0].decode() for entry in environ if entry}
    assert shown - {"PYTHONPATH"} == {"PATH", "HOME", "LANG", process_environment.DESCRIPTOR}
    assert told["descriptors"] <= 4, "the pipe is closed"


def test_a_process_without_variables_is_not_started_again() -> None:
    """There is nothing to hide."""
    with _start() as process:
        assert process.stdout is not None
        json.loads(process.stdout.readline())
        assert process_environment.DESCRIPTOR.encode() not in Path(f"/proc/{process.pid}/environ").read_bytes()
        process.communicate("")


@pytest.mark.parametrize("number", ["0", "1", "99", "-1", "x", "9" * 30])
def test_a_descriptor_that_is_not_ours_is_ignored(number: str) -> None:
    """Somebody else's variable of that name does no harm, nor does one that names a standard stream."""
    given = {**os.environ, process_environment.DESCRIPTOR: number, "MY_SECRET": "sesame"}
    command = [sys.executable, "-m", "freshline", "--version"]
    done = subprocess.run(command, env=given, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("freshline ")


def test_an_environment_that_does_not_fit_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has both sizes; nothing waits for a reader that does not exist."""
    monkeypatch.delattr(fcntl, "F_SETPIPE_SZ", raising=False)
    with pytest.raises(UsageError, match="the environment has 200000 bytes and a pipe takes 65536; unset"):
        process_environment._filled_pipe(b"x" * 200_000)


def test_a_program_that_imports_freshline_is_left_alone() -> None:
    """Only `freshline` itself starts again: tests and tools that call its commands do not."""
    process_environment.leave()
    assert process_environment._Program.ours is False
