"""A changed bit of a published file is an error when the file is read, and never another row."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from freshline.model.run import PinnedInput
from freshline.spark import reading
from freshline.spark.staging import Staging, write
from freshline.storage import layout
from freshline.storage.local import LocalStorage

pytestmark = pytest.mark.spark
QUERY = """
    SELECT id, id * 7 % 13 AS k, concat('name-', id % 29) AS name, id / 3D AS x,
           if(id % 5 = 0, NULL, cast(id AS int)) AS n, cast(id % 2 AS boolean) AS b,
           timestamp_millis(id * 1000) AS at, cast(id AS decimal({digits}, 2)) AS d, array(id, id + 1) AS a
      FROM range(0, 400, 1, 1)
"""


class Published:
    """A table of one file, and what is read from it after one of its bits was changed."""

    def __init__(self, spark: SparkSession, root: Path, digits: int) -> None:
        self._spark = spark
        self._storage = LocalStorage(root)
        name = layout.staging_directory("a", "run", 1, 1)
        staged = write(spark.sql(QUERY.format(digits=digits)), Staging("a", "work", self._storage, name))
        assert staged.location is not None
        self._pinned = PinnedInput("a", 1, "v", staged.location, schema=staged.schema)
        (self.file,) = (root / name).iterdir()
        self.data = self.file.read_bytes()
        self.rows = self.read()

    @property
    def footer(self) -> int:
        """Return where the footer begins."""
        return len(self.data) - 8 - int.from_bytes(self.data[-8:-4], "little")

    def read(self) -> list[str]:
        return sorted(map(str, reading.load(self._spark, self._storage, self._pinned).collect()))

    def flipped(self, bit: int) -> list[str] | None:
        """Return the rows after a bit was changed; None for an error."""
        changed = bytearray(self.data)
        changed[bit // 8] ^= 1 << bit % 8
        self.file.write_bytes(changed)
        try:
            return self.read()
        except Exception:  # noqa: BLE001 - of Spark or of the JVM
            return None


def others(table: Published, bits: Iterator[int]) -> tuple[list[int], int]:
    """Return the bits after whose change other rows were read, and the number of errors."""
    seen = {bit: table.flipped(bit) for bit in bits}
    return [bit for bit, rows in seen.items() if rows not in (None, table.rows)], list(seen.values()).count(None)


@pytest.mark.parametrize(
    "digits", [pytest.param(12, id="version-2"), pytest.param(30, id="version-1", marks=pytest.mark.full)]
)
def test_no_changed_bit_is_read_as_another_row(spark: SparkSession, tmp_path: Path, digits: int) -> None:
    """Anywhere in the pages and their headers. Without checksums about half of the changes are read as other rows."""
    table = Published(spark, tmp_path, digits)
    pick = random.Random(7)  # noqa: S311 - places in a file
    wrong, errors = others(table, (pick.randrange(table.footer * 8) for _ in range(20)))
    assert wrong == []
    assert errors > 5


@pytest.mark.full
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("digits", [12, 30], ids=["version-2", "version-1"])
def test_no_changed_bit_of_hundreds_is_read_as_another_row(spark: SparkSession, tmp_path: Path, digits: int) -> None:
    """Places at equal distances, so in every page and most headers, and bits at random."""
    table = Published(spark, tmp_path, digits)
    pick = random.Random(8)  # noqa: S311 - places in a file
    wrong, _ = others(table, (byte * 8 + pick.randrange(8) for byte in range(0, table.footer, 40)))
    assert wrong == []
    wrong, _ = others(table, (pick.randrange(table.footer * 8) for _ in range(150)))
    assert wrong == []
