"""The units of deploy/systemd are valid, and their processes may write where they write."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path, PurePosixPath

import pytest

from freshline.settings import Settings
from scripts.docs import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").iterdir())
PROJECT = Path("/srv/freshline/shop")


def value(unit: Path, name: str) -> str:
    """Return a setting of a unit, for the project shop."""
    (found,) = re.findall(rf"^{name}=(.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE)
    return str(found).replace("%i", "shop")


def may_write(unit: Path, path: str) -> bool:
    """Return whether the unit may write below a directory."""
    allowed = [PurePosixPath(one.removeprefix("-")) for one in value(unit, "ReadWritePaths").split()]
    return any(PurePosixPath(path).is_relative_to(one) for one in allowed)


def test_there_is_a_unit_for_each_process() -> None:
    """Each starts its command in the directory of the project, in a system that it cannot write otherwise."""
    assert [unit.name for unit in UNITS] == [f"freshline-{name}@.service" for name in ("api", "materializer", "worker")]
    for unit in UNITS:
        assert f"/freshline {unit.name.partition('-')[2].partition('@')[0]} " in value(unit, "ExecStart")
        assert value(unit, "WorkingDirectory") == str(PROJECT)
        assert value(unit, "ProtectSystem") == "strict"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_process_may_write_what_it_writes(unit: Path) -> None:
    """The state directory for all, the warehouse for those that write tables and logs, and never the code."""
    settings = Settings(project=PROJECT)
    assert may_write(unit, str(settings.home))
    assert may_write(unit, settings.warehouse_at)
    assert may_write(unit, "/srv/freshline/warehouse/a/_delta_log") == ("api" not in unit.name)
    assert not may_write(unit, str(PROJECT / "workflows"))
    assert value(unit, "PrivateTmp") == "true"  # scratch directories of runners and Spark


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_a_unit(unit: Path, tmp_path: Path) -> None:
    """Without a word; the program of the unit does not exist here, so another one takes its place."""
    text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(encoding="utf-8"), flags=re.MULTILINE)
    copy = tmp_path / unit.name.replace("@", "@shop")
    copy.write_text(text, encoding="utf-8")
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
