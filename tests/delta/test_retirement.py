"""Retention and the Delta table: one version removes exactly the files of old partitions (docs/semantics.md#R13.14)."""

from __future__ import annotations

from typing import Any

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable

from freshline.delta.examine import examine
from freshline.store.tables.vacuum import clean
from tests.delta.test_partitions import DAYS, ONE, TWO, Parts, parts
from tests.scenarios.test_partitions import divided

__all__ = ["parts"]
SOON = "2026-01-01"


def keep_for(parts: Parts, retain: str | None, *readers: dict[str, Any]) -> None:
    """Apply a retention."""
    found = divided("b", {"a": None}, DAYS)
    found["steps"][0]["produces"][0] |= {"retain": retain} if retain else {}
    parts.lab.apply(found, *readers, sources=({"assetId": "a", "partitioning": DAYS},))


def filled(parts: Parts) -> None:
    """Three days, one of them of two directories."""
    parts.publish(ONE, 1, 2)
    parts.publish(TWO, 3)
    parts.publish(TWO, 4, append=True)
    parts.publish(SOON, 5)


def retire(parts: Parts, retain: str = "4d") -> int | None:
    """Remove what ended longer ago."""
    keep_for(parts, retain)
    return parts.lab.store.retirement.retire_partitions()


def files(parts: Parts) -> int:
    """Return how many data files there are."""
    return len(list(parts.root.rglob("*.parquet")))


def test_one_commit_removes_exactly_the_old_partitions(parts: Parts) -> None:
    """Two days at once are one version with one remove per file. The day that is left is all that engines see."""
    filled(parts)
    assert retire(parts) == 2
    parts.expected.append({SOON: [5]})
    parts.check()
    assert {one["partitionValues"]["day"] for one in parts.actions(4, "remove")} == {ONE, TWO}
    assert len(parts.actions(4, "remove")) == 3
    assert parts.actions(4, "add") == []
    assert parts.actions(4, "commitInfo")[0]["operation"] == "DELETE"
    arrow = DeltaTable(str(parts.root)).to_pyarrow_dataset()
    assert duckdb.sql("SELECT x, CAST(day AS VARCHAR) FROM arrow").fetchall() == [(5, SOON)]
    assert arrow is not None


def test_later_versions_go_on_from_there(parts: Parts) -> None:
    """A publication of the day that is left, and of a day that comes back with a longer retention and equal rows."""
    filled(parts)
    retire(parts)
    parts.expected.append({SOON: [5]})
    parts.publish(SOON, 6)
    keep_for(parts, "30d")
    parts.publish(ONE, 1, 2)
    assert parts.expected[-1] == {SOON: [6], ONE: [1, 2]}
    parts.check()
    assert len(parts.actions(6, "add")) == 1


def test_a_lost_log_is_written_again_without_them(parts: Parts) -> None:
    """The database knows which version removed which partitions."""
    filled(parts)
    retire(parts)
    parts.expected.append({SOON: [5]})
    parts.publish(SOON, 6)
    parts.write()
    for file in (parts.root / "_delta_log").iterdir():
        if file.is_file():
            file.unlink()
    assert examine(parts.lab.store, 10).count == 1
    parts.lab.store.tables.rewrite_log("b", parts.log.rebuild)
    parts.check()


def test_the_files_go_by_the_vacuum_and_not_before(parts: Parts) -> None:
    """Right after the removal older versions are readable. Later their files are gone, those of the rest are not."""
    filled(parts)
    retire(parts)
    parts.write()
    store = parts.lab.store
    assert clean(store, parts.lab.storage, 100, grace_ms=0) == 0
    assert parts.read(3) == {ONE: [1, 2], TWO: [3, 4], SOON: [5]}
    before = files(parts)
    vacuum(parts)
    assert before - files(parts) == 3
    assert pl.read_delta(str(parts.root)).select("x").to_series().to_list() == [5]


@pytest.mark.parametrize("listed", [1_000, 1])
def test_a_pinned_run_keeps_its_files(parts: Parts, monkeypatch: pytest.MonkeyPatch, listed: int) -> None:
    """A run that reads removed days, each by its name or all as one, reads them to its end."""
    monkeypatch.setattr("freshline.store.evaluation.partitions.MOST_LISTED", listed)
    reader = divided("reader", {"b": None})
    filled(parts)
    keep_for(parts, None, reader)
    parts.lab.settle()
    run = parts.lab.start_of("reader")
    assert set(parts.lab.runs("reader")[-1]["pins"]) == (
        {"b@"} if listed == 1 else {f"b@{key}" for key in (ONE, TWO, SOON)}
    )
    keep_for(parts, "1d", reader)
    assert parts.lab.store.retirement.retire_partitions() == 3
    vacuum(parts)
    assert files(parts) == 4
    parts.lab.finish(run)
    vacuum(parts)
    assert files(parts) == 0


def vacuum(parts: Parts) -> None:
    """Mark what is not needed a month later, and delete it."""
    parts.lab.advance(days=30)
    parts.lab.store.tables.mark_versions("", 100)
    parts.lab.advance(hours=1)
    clean(parts.lab.store, parts.lab.storage, 100)
