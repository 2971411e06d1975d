"""Finds a Java that Spark can use, or reports what to install."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from freshline.errors import EngineError

OLDEST = 17
PROBE_SECONDS = 30
INSTALL = (
    "install Java 17 or newer: `apt-get install openjdk-17-jre-headless` (Debian, Ubuntu), "
    "`dnf install java-17-openjdk-headless` (Fedora), `brew install openjdk@17` (macOS), "
    "or set JAVA_HOME to an installed one"
)


def check_java(environ: Mapping[str, str] | None = None) -> str:
    """Return the version of the Java that Spark will start. Raise `EngineError` if it is absent, too old or broken."""
    env = os.environ if environ is None else environ
    program = _find(env)
    version = _version(program)
    major = int(re.match(r"\d+", version.removeprefix("1."))[0])  # type: ignore[index]  # a version starts with a digit
    if major < OLDEST:
        raise EngineError(f"Spark needs Java {OLDEST} or newer, but {program} is Java {version}", hint=INSTALL)
    return version


def _find(env: Mapping[str, str]) -> str:
    if home := env.get("JAVA_HOME"):
        program = Path(home, "bin", "java")
        if not os.access(program, os.X_OK):
            raise EngineError(f"Spark needs Java, but JAVA_HOME is {home!r} and there is no {program}", hint=INSTALL)
        return str(program)
    found = shutil.which("java", path=env.get("PATH", ""))
    if found is None:
        raise EngineError("Spark needs Java, but there is no `java` on the PATH and JAVA_HOME is not set", hint=INSTALL)
    return found


def _version(program: str) -> str:
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{program} cannot be started: {error}", hint=INSTALL) from None
    found = re.search(r'version "(\d[^"]*)"', done.stderr + done.stdout)
    if found is None:
        raise EngineError(f"`{program} -version` says {(done.stderr + done.stdout).strip()[:200]!r}", hint=INSTALL)
    return found[1]
