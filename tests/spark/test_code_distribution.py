"""What travels between the worker's machine and Spark's: code there, files back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from freshline.definitions.code import read_code
from freshline.errors import WarehouseError
from freshline.spark.code_distribution import check_arrived, pack
from freshline.storage.local import LocalStorage


def test_the_packed_project_can_be_imported(tmp_path: Path) -> None:
    """Modules, packages, and packages without __init__.py, as they were read; without tests and hidden ones."""
    files = {
        "top.py": "import deep.er.module, whole; value = deep.er.module.value + whole.value",
        "deep/er/module.py": "value = 1",
        "whole/__init__.py": "value = 2",
        "tests/test_it.py": "",
        ".venv/lib/other.py": "",
    }
    for name, text in files.items():
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(text)
    code = read_code(tmp_path / "project")
    (tmp_path / "project" / "top.py").write_text("raise RuntimeError('edited after the code was read')")
    archive = pack(code, tmp_path)
    program = f"import sys; sys.path.insert(0, {str(archive)!r}); import top; print(top.value)"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"
    listed = subprocess.run([sys.executable, "-m", "zipfile", "-l", str(archive)], capture_output=True, check=True)
    assert b"test_it" not in listed.stdout
    assert b"other" not in listed.stdout


def test_a_project_without_code_is_not_packed(tmp_path: Path) -> None:
    """SQL alone needs nothing on the other side."""
    assert pack(read_code(tmp_path), tmp_path) is None


@pytest.mark.parametrize("files", [[], ["one.parquet"], ["one.parquet", "p=1/two.parquet"]])
def test_rows_that_did_not_arrive_are_noticed(tmp_path: Path, files: list[str]) -> None:
    """A directory that other machines see differently would lose rows without anybody saying so."""
    directory = tmp_path / "out" / "data" / "run-1-1"
    (directory / "p=1").mkdir(parents=True)
    for name in files:
        duckdb.sql(f"COPY (SELECT * FROM range(5)) TO '{directory / name}' (FORMAT parquet)")
    location = {"paths": ["out/data/run-1-1"], "files": {f"out/data/run-1-1/{name}": 1 for name in files}}
    check_arrived(LocalStorage(tmp_path), location, 5 * len(files))
    with pytest.raises(
        WarehouseError, match=rf"Spark wrote 11 rows to .*run-1-1, but this machine sees {5 * len(files)} "
    ):
        check_arrived(LocalStorage(tmp_path), location, 11)
