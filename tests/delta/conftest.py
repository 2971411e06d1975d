"""A table without versions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from freshline.storage import layout
from tests.delta.table import Table
from tests.store_harness import laboratory, workflow


@pytest.fixture
def table(database_url: str, tmp_path: Path) -> Iterator[Table]:
    """No version yet."""
    with laboratory(database_url, warehouse=str(tmp_path / "w")) as lab:
        layout.check_warehouse(lab.storage, lab.store.warehouse_id)
        lab.apply(workflow("b", "a"))
        yield Table(lab)
