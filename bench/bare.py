"""A Spark session without Freshline in its own process: `python -m bench.bare` reads queries and writes Parquet.

An input line is `DIRECTORY HOW QUERY`, its answer `took SECONDS`; Java prints the other lines. `HOW` is `own` (Spark's
own write options), `raw` (the write options of Freshline's steps) or `by=COLUMN` (a directory for each value).
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from pyspark.sql import DataFrame, SparkSession

PLAIN = "--plain"
TOOK = "took "


class Bare:
    """The process. `plain`: with Spark's default settings, as in a script; else with those of Freshline's sessions."""

    def __init__(self, home: Path, *, plain: bool = False) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._home = home
        self._numbers = itertools.count()
        command = [sys.executable, "-m", "bench.bare", str(home), *([PLAIN] if plain else [])]
        with (home / "bare.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=dict(os.environ)
            )

    @property
    def pid(self) -> int:
        """The id of the process; Spark is its child."""
        return self._process.pid

    def write(self, query: str, *, raw: bool = False, by: str | None = None) -> float:
        """Return the seconds to write one query to a new directory, which is then removed.

        `raw`: as steps write. `by`: with a directory for each value of this column.
        """
        directory = self._home / f"out-{next(self._numbers)}"
        into, out = self._pipe(self._process.stdin), self._pipe(self._process.stdout)
        how = f"by={by}" if by else "raw" if raw else "own"
        into.write(f"{directory} {how} {query}\n")
        into.flush()
        answer = next((line for line in out if line.startswith(TOOK)), None)
        assert answer, f"the bare session ended: {(self._home / 'bare.log').read_text()[-2000:]}"
        shutil.rmtree(directory)
        return float(answer.removeprefix(TOOK))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe(self._process.stdin).close()
        self._process.wait(60)

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


def serve(home: Path, *, plain: bool) -> None:
    """Answer queries until the input ends."""
    spark = _plain() if plain else _tuned(home)
    for line in sys.stdin:
        directory, how, query = line.rstrip("\n").split(" ", 2)
        began = time.perf_counter()
        table = spark.sql(query)
        writer = table.write.mode("error").options(**(_write_options(table) if how == "raw" else {}))
        column = how.removeprefix("by=")
        (writer if column == how else writer.partitionBy(column)).parquet(directory)
        sys.stdout.write(f"{TOOK}{time.perf_counter() - began}\n")
        sys.stdout.flush()
    spark.stop()


def _write_options(table: DataFrame) -> dict[str, str]:
    from freshline.definitions.schema.workflow import Table  # noqa: PLC0415 - Spark's own way does without
    from freshline.spark.parquet import write_options  # noqa: PLC0415 - the same

    return write_options(Table(), table.schema)


def _plain() -> SparkSession:
    return SparkSession.builder.master("local[*]").appName("bare").getOrCreate()


def _tuned(home: Path) -> SparkSession:
    from freshline.spark.session import open_session  # noqa: PLC0415 - a plain one does without

    scratch = Path(tempfile.mkdtemp(dir=home))
    return open_session(master=None, remote=None, scratch=scratch)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), plain=PLAIN in sys.argv)
