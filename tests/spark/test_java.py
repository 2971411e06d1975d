"""Java is found, or it is said exactly what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from freshline.errors import EngineError
from freshline.spark.java import check_java


def java(root: Path, says: str) -> dict[str, str]:
    """Return an environment whose Java prints `says`."""
    program = root / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return {"PATH": str(program.parent)}


def test_the_version_is_read(tmp_path: Path) -> None:
    """Java 17 and newer will do, from the PATH or from JAVA_HOME."""
    env = java(tmp_path, 'openjdk version "21.0.2" 2024-01-16')
    assert check_java(env) == "21.0.2"
    assert check_java({"JAVA_HOME": str(tmp_path)}) == "21.0.2"


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22"])
def test_an_old_java_is_refused(tmp_path: Path, version: str) -> None:
    """The message names the version, the program and the remedy."""
    with pytest.raises(EngineError, match=f"needs Java 17 or newer, but .*bin/java is Java {version} .*openjdk-17"):
        check_java(java(tmp_path, f'java version "{version}"'))


def test_an_absent_or_broken_java_is_refused(tmp_path: Path) -> None:
    """No program, a JAVA_HOME without one, and a program that is no Java."""
    with pytest.raises(EngineError, match="no `java` on the PATH"):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(EngineError, match=r"JAVA_HOME is .* and there is no .*/bin/java"):
        check_java({"JAVA_HOME": str(tmp_path)})
    with pytest.raises(EngineError, match="-version` says 'hello'"):
        check_java(java(tmp_path, "hello"))
