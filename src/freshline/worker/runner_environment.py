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
from pathlib import Path
from urllib.parse import quote, unquote

from freshline.settings import Settings
from freshline.worker.step_errors import JobFailedError

# Credentials of Freshline itself. A job that needs one of them has to name it in `secrets`.
HIDDEN = frozenset({"PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE", "SPARK_REMOTE", "SPARK_CONNECT_AUTHENTICATE_TOKEN"})
STORE_SECRET = re.compile(r"(?:AWS|AZURE|GOOGLE)_\w*(?:KEY|SECRET|TOKEN|PASSWORD|CONNECTION_STRING)")
KEPT = frozenset({"FRESHLINE_PROJECT", "FRESHLINE_WAREHOUSE", "FRESHLINE_LOG_LEVEL", "FRESHLINE_LOG_FORMAT"})

SCRATCH_PREFIX = "freshline-runner-"
SCRATCH_MIN_AGE_S = 60.0  # younger directories may not be locked yet


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the supervisor's environment without Freshline's own settings and credentials."""
    return {
        name: value
        for name, value in environ.items()
        if name in KEPT or not (name.startswith("FRESHLINE_") or name in HIDDEN)
    }


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


def known_credentials(settings: Settings, environ: Mapping[str, str]) -> Iterable[str]:
    """Return credentials that a runner has and no log may show: of a Spark Connect server and of an object store."""
    inside = re.search(r";token=([^;]+)", settings.spark_remote or "")
    stores = (value for name, value in environ.items() if STORE_SECRET.fullmatch(name))
    known = (settings.spark_token, inside[1] if inside else None, *stores)
    return {form for token in known if token for form in (token, unquote(token), quote(token, safe=""))}


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
