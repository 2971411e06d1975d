"""What a runner process is given: environment variables, secrets and a temporary directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from freshline.credentials import HIDDEN
from freshline.worker.step_errors import JobFailedError

KEPT = frozenset({"FRESHLINE_PROJECT", "FRESHLINE_WAREHOUSE", "FRESHLINE_LOG_LEVEL", "FRESHLINE_LOG_FORMAT"})
OWN = ("FRESHLINE_", "ASSET_MATERIALIZER_")
# What Python, Java and Spark need to start and to find their files. An allow-list adds to it.
NEEDED = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|TZ|TMPDIR|LANG|LANGUAGE|LC_\w+|LD_\w+|DYLD_\w+|MALLOC_\w+|XDG_CACHE_HOME"
    r"|PYTHON\w*|VIRTUAL_ENV|COVERAGE_\w+|JAVA_HOME|JDK_JAVA_OPTIONS|JAVA_TOOL_OPTIONS"
    r"|SPARK_\w+|PYSPARK_\w+|HADOOP_\w+|YARN_\w+|SSL_CERT_FILE|SSL_CERT_DIR"
)
STORES = {"s3": "AWS_", "s3a": "AWS_", "gs": "GOOGLE_", "abfs": "AZURE_", "abfss": "AZURE_"}

SCRATCH_PREFIX = "freshline-runner-"
SCRATCH_MIN_AGE_S = 60.0  # younger directories may not be locked yet


@dataclass(frozen=True, slots=True)
class JobEnvironment:
    """Which variables of the worker its runners get.

    `allowed`: the names of an allow-list, with `*` at the end for all that begin so; None: every ordinary variable.
    `secrets`: names that any workflow declares as a secret. A step gets those of its own workflow, and no others.
    """

    allowed: tuple[str, ...] | None = None
    secrets: frozenset[str] = frozenset()
    warehouse: str = ""

    def of(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a runner, without Freshline's own settings and credentials."""
        return {name: value for name, value in environ.items() if name in KEPT or self._passes(name)}

    def _passes(self, name: str) -> bool:
        if name.startswith(OWN) or name in HIDDEN or name in self.secrets:
            return False
        return self.allowed is None or self._allows(name, self.allowed)

    def _allows(self, name: str, allowed: tuple[str, ...]) -> bool:
        store = STORES.get(self.warehouse.partition("://")[0])  # Spark writes tables there
        return (
            NEEDED.fullmatch(name) is not None
            or (store is not None and name.startswith(store))
            or any(fnmatchcase(name, pattern) for pattern in allowed)
        )


def declared_secrets(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the secrets that a workflow declares, from the worker's environment."""
    for name in names:
        if name.startswith("FRESHLINE_"):
            raise JobFailedError(f"secret {name!r} is Freshline's own; jobs may name any other variable of the worker")
        if name not in environ:
            raise JobFailedError(
                f"secret {name!r} is not set in the environment of the worker; set it and start the worker again"
            )
    return {name: environ[name] for name in names}


@dataclass(frozen=True, slots=True)
class Scratch:
    """A temporary directory, locked as long as its owner lives."""

    path: Path
    lock: int

    def remove(self) -> None:
        """Delete the directory."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def make_scratch(root: Path | None = None) -> Scratch:
    """Create a scratch directory, and remove those of owners that were killed."""
    base = root or Path(tempfile.gettempdir())
    _sweep(base)
    path = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=base))
    lock = os.open(path, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return Scratch(path, lock)


def _sweep(base: Path) -> None:
    for path in base.glob(f"{SCRATCH_PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, or another process removes it right now
            if path.stat().st_uid == os.getuid() and time.time() - path.stat().st_mtime > SCRATCH_MIN_AGE_S:
                _remove_abandoned(path)


def _remove_abandoned(path: Path) -> None:
    lock = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
