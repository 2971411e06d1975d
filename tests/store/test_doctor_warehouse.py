"""The doctor's examination of the warehouse: it finds damage and leftovers, and removes only unneeded files."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from freshline.model.run import ClaimedRun, StagedOutput
from freshline.services.vacuum import Vacuum
from freshline.storage import layout
from freshline.storage.base import Storage
from freshline.store.db.ids import new_id
from freshline.store.doctor import warehouse as examination
from freshline.store.doctor.checks import Finding
from freshline.store.doctor.warehouse import Warehouse
from tests.store_harness import Lab, laboratory, workflow

LONG_AGO = time.time() - 2 * examination.YOUNG_S


@pytest.fixture
def lab(database_url: str, tmp_path: Path) -> Iterator[Lab]:
    """Yield a lab with one table, written by a run."""
    with laboratory(database_url, warehouse=str(tmp_path / "w")) as lab:
        layout.check_warehouse(lab.storage, lab.store.warehouse_id)
        lab.apply(workflow("b", "a"))
        lab.report("a", "1")
        lab.settle()
        publish(lab, lab.start())
        lab.settle()
        yield lab


def stage(lab: Lab, run_id: str, attempt: int = 1, asset_id: str = "b") -> tuple[Path, dict[str, Any]]:
    """Write the files of an old attempt."""
    staging = layout.staging_directory(asset_id, run_id, attempt, 1)
    directory = lab.warehouse / staging
    (directory / "k=1").mkdir(parents=True)
    for name in ("part-0.parquet", "k=1/part-1.parquet"):
        (directory / name).write_bytes(b"12345")
    location = layout.seal(lab.storage, staging)
    age(directory)
    return directory, location


def forgotten_run(n: int = 0) -> str:
    """Return the id of a run that is older than any retention."""
    return f"00000000-0000-7000-8000-{n:012x}"


def age(directory: Path) -> None:
    """Set the times of the files to a time long ago."""
    for path in (directory, *directory.rglob("*")):
        os.utime(path, (LONG_AGO, LONG_AGO))


def publish(lab: Lab, run: ClaimedRun, version: str = "b:1") -> Path:
    """Write a table for the run and publish it."""
    directory, location = stage(lab, run.id, run.attempt)
    lab.store.runs.publish(run, [StagedOutput("b", "work", version, location=location)])
    return directory


def found(lab: Lab, limit: int = 20) -> dict[str, Finding]:
    """Return the problems found."""
    return {one.check.id: one for one in Warehouse(lab.store).examine(limit) if one.count}


def head(lab: Lab) -> Path:
    """Return the directory of the newest table."""
    location = lab.one("SELECT location FROM snapshots WHERE asset_id = 'b' ORDER BY sequence DESC LIMIT 1")
    return lab.warehouse / str(location["paths"][0])


def test_a_warehouse_as_it_should_be_is_told_to_be(lab: Lab) -> None:
    """Nothing is found, and the checks are those that the docs tell."""
    assert found(lab) == {}
    assert [one.check for one in Warehouse(lab.store).examine(20)] == list(examination.WAREHOUSE_CHECKS)
    assert Warehouse(lab.store).remove_leftovers() == 0


def test_a_warehouse_that_nobody_has_used_is_none(database_url: str, tmp_path: Path) -> None:
    """Before the first worker there is no directory, and that is well; the doctor makes none."""
    with laboratory(database_url, warehouse=str(tmp_path / "w")) as lab:
        assert found(lab) == {}
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"id": "other"}', "has the id 'other', the database has"),
        ("{", "is damaged"),
        (None, "has no id, and the database has tables or the directory is not empty"),
    ],
)
def test_the_warehouse_of_another_database_is_told_and_left_alone(lab: Lab, text: str | None, sentence: str) -> None:
    """Nothing is said about its files, and nothing in it is removed (docs/semantics.md#R12.3)."""
    leftover, _ = stage(lab, new_id())
    file = lab.warehouse / layout.ID_FILE
    file.unlink() if text is None else file.write_text(text)
    wrong = found(lab)
    assert list(wrong) == ["warehouse-id"]
    assert sentence in wrong["warehouse-id"].sentences[0]
    assert Warehouse(lab.store).remove_leftovers() == 0
    assert leftover.is_dir()


def test_tables_without_their_warehouse_are_told(lab: Lab, tmp_path: Path) -> None:
    """A doctor that looks at the wrong place, or a disk that is not mounted: one sentence, not one for each table."""
    lab.warehouse.rename(tmp_path / "elsewhere")
    assert list(found(lab)) == ["warehouse-id"]


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda directory: (directory / "part-0.parquet").unlink(), "1 missing (part-0.parquet)"),
        (lambda directory: (directory / "part-0.parquet").write_bytes(b"1"), "1 other size (part-0.parquet)"),
        (lambda directory: (directory / "more").write_bytes(b"1"), "1 unknown (more)"),
        (lambda directory: directory.rename(directory.with_name("x")), "2 missing (k=1/part-1.parquet, part-0"),
    ],
)
def test_damage_of_a_head_is_told(lab: Lab, damage: Any, sentence: str) -> None:
    """The list of files with their sizes is what was recorded when they were written (docs/semantics.md#R9.4)."""
    damage(head(lab))
    (said,) = found(lab)["head-files"].sentences
    assert said.startswith("asset 'b' version 1: ")
    assert sentence in said


def test_a_head_that_moves_on_meanwhile_is_not_judged(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old tables are collected while the doctor looks: only what is still the head counts."""
    old = head(lab)
    check = Warehouse(lab.store)
    moved = iter([True])

    def look(storage: Storage, location: Mapping[str, Any]) -> str:
        if next(moved, None):
            lab.report("a", "2")
            lab.settle()
            publish(lab, lab.start(), "b:2")
            storage.clear(str(old.relative_to(lab.warehouse)))
            assert not old.exists()
        return original(storage, location)

    original = layout.difference
    monkeypatch.setattr(layout, "difference", look)
    assert [one for one in check.examine(20) if one.count] == []


def test_leftovers_are_found_and_removed_and_nothing_else(lab: Lab) -> None:
    """Staging of ended runs goes; heads, old snapshots, unfinished runs, young and unknown directories stay.

    See docs/semantics.md#R9.8.
    """
    before = head(lab)
    lab.report("a", "2")
    lab.settle()
    run = lab.start()
    lost, _ = stage(lab, run.id, 1)
    keep, _ = stage(lab, run.id, 2)  # of the current attempt
    lab.advance(minutes=1)
    lab.store.runs.rescue(10)
    pruned, _ = stage(lab, forgotten_run())
    young, _ = stage(lab, forgotten_run(1))
    os.utime(young / "k=1")
    foreign = lab.warehouse / "b" / "data" / "notes"
    foreign.mkdir()
    age(foreign)
    assert found(lab)["staging-leftover"].sentences == [
        f"{pruned} was staged by a run that ended, and no snapshot names it"
    ]
    assert found(lab)["directory-unknown"].sentences == [f"{foreign} was not written by Freshline"]
    assert found(lab)["directory-unknown"].healthy
    assert Warehouse(lab.store).remove_leftovers() == 1
    assert [path.is_dir() for path in (before, lost, keep, pruned, young, foreign)] == [True] * 3 + [False, True, True]
    lab.store.operations.cancel(run.id)
    assert Warehouse(lab.store).remove_leftovers() == 2
    assert [path.is_dir() for path in (before, lost, keep)] == [True, False, False]
    assert set(found(lab)) == {"directory-unknown"}


def test_data_that_failed_a_check_is_kept_for_a_while(lab: Lab) -> None:
    """FRESHLINE_KEEP_FAILED_HOURS by the database's clock; of a run that failed otherwise nothing is kept."""
    directories = {}
    for version, code in (("2", "check"), ("3", "job")):
        lab.report("a", version)
        lab.advance(hours=1)
        lab.settle()
        run = lab.start()
        directories[code], _ = stage(lab, run.id)
        lab.store.runs.fail(run.id, run.attempt, {"code": code, "message": "no"})
    assert found(lab)["staging-leftover"].sentences[0].startswith(str(directories["job"]))
    assert Warehouse(lab.store).remove_leftovers() == 1
    assert [one.is_dir() for one in directories.values()] == [True, False]
    lab.advance(hours=22)
    assert Warehouse(lab.store).remove_leftovers() == 0
    lab.advance(hours=1, minutes=1)
    assert Warehouse(lab.store).remove_leftovers() == 1
    assert not directories["check"].exists()


def test_an_equal_output_keeps_the_directory_of_the_run_before(lab: Lab) -> None:
    """The new snapshot names the old directory, and the new directory is what nobody needs (docs/semantics.md#R9.3)."""
    before = head(lab)
    lab.report("a", "2")
    lab.settle()
    again = publish(lab, lab.start())
    assert head(lab) == before
    assert Warehouse(lab.store).remove_leftovers() == 1
    assert (before.is_dir(), again.is_dir()) == (True, False)
    assert found(lab) == {}


def test_an_equal_output_takes_the_place_of_a_damaged_one(lab: Lab) -> None:
    """What was damaged is healed by a run, although the rows and so the data version are the same (ADR 0008)."""
    before = head(lab)
    (before / "part-0.parquet").unlink()
    assert list(found(lab)) == ["head-files"]
    lab.store.operations.request_run("b")
    run = lab.start()
    directory, location = stage(lab, run.id, run.attempt)
    damaged = {str(before.relative_to(lab.warehouse))}
    lab.store.runs.publish(run, [StagedOutput("b", "work", "b:1", location=location)], damaged=damaged)
    assert head(lab) == directory
    assert found(lab) == {}
    versions = lab.rows("SELECT changed, table_version FROM snapshots WHERE asset_id = 'b' ORDER BY sequence")
    assert [(one["changed"], one["table_version"]) for one in versions] == [(True, 0), (False, 1)]


def test_many_leftovers_are_counted_in_batches(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most `limit` sentences, however much there is, and the database is asked for a batch at a time."""
    monkeypatch.setattr(examination, "BATCH", 2)
    for n in range(5):
        stage(lab, forgotten_run(n))
    left = found(lab, limit=3)["staging-leftover"]
    assert (left.count, len(left.sentences)) == (5, 3)
    assert Warehouse(lab.store).remove_leftovers() == 5


def test_leftovers_go_when_a_materializer_starts(lab: Lab) -> None:
    """A materializer that never lives for an hour removes them too."""
    directory, _ = stage(lab, forgotten_run())
    Vacuum(lab.store).run_once()
    assert not directory.exists()


def test_the_id_is_read_and_never_written(lab: Lab) -> None:
    """Looking changes nothing in the warehouse."""
    root = lab.warehouse
    before = sorted(str(path) for path in root.rglob("*"))
    found(lab)
    assert sorted(str(path) for path in root.rglob("*")) == before
    assert json.loads((root / layout.ID_FILE).read_text())["id"] == lab.store.warehouse_id
