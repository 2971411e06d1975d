"""Versions of sets of columns: the processor time of a step's write with them, against the same write without.

Both sides are in one session and in turns. Processor time of Spark's process is counted, as other work on the machine
does not change it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.measure import Claim, Options, Pairs, Result
from freshline.model.column_sets import ColumnSet
from freshline.settings import Settings
from freshline.spark.session import open_session
from freshline.spark.staging import Staging, write
from freshline.storage.local import LocalStorage

GOAL = 1.05
ROWS = 8_000_000
PAIRS = 9
WARM = 3
QUERY = (
    "SELECT id, CAST(id % 1000 AS INT) AS k, (id + {salt}) * 0.5D AS v, concat('n', id % 10000) AS name"
    " FROM range(0, {rows}, 1, 8)"
)
SETS: tuple[ColumnSet, ...] = (("id", "k"), ("k", "name"), ("v",), ("id", "name", "v"), ("k", "v"), ("name",))


def run(options: Options) -> Result:
    """Measure writes with as many sets as a table gets by default, and with fewer; each in turns with one without."""
    rows = options.rows or options.size(ROWS, 20_000)
    most = Settings(project=Path()).column_sets
    counts = sorted({1, 2, 4, most} - {0}, reverse=True)
    pairs = {count: Pairs() for count in counts}
    with tempfile.TemporaryDirectory() as home:
        root = Path(home)
        session = open_session(master=None, remote=None, scratch=root / "scratch")
        try:
            writer = Writer(session, root / "warehouse", rows)
            for _ in range(options.size(WARM, 1)):
                writer.seconds(max(counts))
                writer.seconds(0)
            for number in range(options.rounds(PAIRS)):
                for count in counts:
                    with_sets, without = (count, 0) if number % 2 else (0, count)
                    first, second = writer.seconds(with_sets), writer.seconds(without)
                    pairs[count].add(*((first, second) if number % 2 else (second, first)))
        finally:
            session.stop()
    claims = [
        Claim(f"with {count} sets of columns, processor time", pairs[count].ratio, GOAL if count == most else None)
        for count in sorted(counts, key=lambda one: one != most)
    ]
    return Result("columns", claims, pairs[most].measured, pairs[most].baseline, "s", {"rows": rows})


class Writer:
    """Stages one query again and again."""

    def __init__(self, session: SparkSession, root: Path, rows: int) -> None:
        self._session, self._storage, self._rows, self._count = session, LocalStorage(root), rows, 0
        java: Any = session._jvm  # noqa: SLF001 - the only way to ask Java
        self._times = Path(f"/proc/{java.java.lang.ProcessHandle.current().pid()}/stat")

    def seconds(self, sets: int) -> float:
        """Return the processor time of Spark's process for one write with so many sets."""
        self._count += 1
        directory = f"wide/data/{self._count}"
        table = self._session.sql(QUERY.format(salt=self._count, rows=self._rows))
        began = self._processor_time()
        write(table, Staging("wide", "work", self._storage, directory, column_sets=SETS[:sets]))
        taken = self._processor_time() - began
        self._storage.clear(directory)
        return taken

    def _processor_time(self) -> float:
        """Return the seconds of user and system time of Java's process, as Linux counts them."""
        fields = self._times.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
