"""A table whose versions the tests write by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
from deltalake import DeltaTable

from freshline.model.run import StagedOutput
from freshline.services.delta_log_writer import DeltaLogWriter
from freshline.storage import layout
from tests.store_harness import Lab

SCHEMA = {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]}
Rows = list[int]


class Table:
    """The asset b, whose versions are written by hand."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.root = lab.warehouse / "b"
        self.writer = DeltaLogWriter(lab.store)
        self.expected: list[Rows] = []

    def publish(self, *rows: int, append: bool = False, schema: Any = SCHEMA) -> None:
        lab = self.lab
        lab.advance(minutes=1)
        lab.report("a")
        lab.settle()
        run = lab.start_of("b")
        name = layout.staging_directory("b", run.id, 1, 1)
        directory = lab.warehouse / name
        directory.mkdir(parents=True)
        pl.DataFrame({"x": list(rows)}, schema={"x": pl.Int64}).write_parquet(directory / "part-0.parquet")
        location = layout.seal(lab.storage, name)
        based = lab.head("b")["sequence"] if append else None
        output = StagedOutput("b", "work", run.id, location=location, schema=schema, appended=append, based_on=based)
        lab.store.runs.publish(run, [output])
        self.expected.append(sorted([*(self.expected[-1] if append else []), *rows]))

    def write(self) -> int:
        """Write all unlogged versions; return the number of rounds."""
        rounds = 0
        while self.writer.run_once():
            rounds += 1
        return rounds

    def read(self, version: int | None = None) -> Rows:
        return sorted(pl.read_delta(str(self.root), version=version)["x"].to_list())

    def check(self) -> None:
        """Every version is read as it was published."""
        assert [self.read(n) for n in range(len(self.expected))] == self.expected
        assert DeltaTable(str(self.root)).version() == len(self.expected) - 1


def history(table: Table) -> None:
    """Overwritten, appended, rolled back."""
    table.publish(1, 2)
    table.publish(3, append=True)
    table.publish(4, append=True)
    table.publish(9)
    table.lab.store.tables.rollback("b", 2)
    table.expected.append([1, 2, 3])
    table.publish(5, append=True)
