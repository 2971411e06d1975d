"""The checks of the partitioned project: each finds nothing in a right history, and what is planted in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from freshline.definitions.loading.project import load_project
from tests.chaos.calendar import (
    ALL_DAYS,
    ALL_HOURS,
    DAYS,
    HOURS,
    MONTHS,
    TOTAL,
    TRIOS,
    Calendar,
    misfits,
    named,
    reads,
    version,
)
from tests.chaos.days import Wanted, not_done, silent_mixes, wrong_versions

Row = dict[str, Any]
START = datetime(2026, 2, 1, tzinfo=UTC)
FINAL = {named(HOURS, hour): f"v-{hour}" for hour in ALL_HOURS}


def run(name: str, slug: str, key: str, *, begin: float = 1, mixed: bool = False) -> Row:
    """Return a successful run."""
    started = START + timedelta(seconds=begin)
    definition = {"parameters": {"salt": 0}}
    return {
        "id": name,
        "slug": slug,
        "partition_key": key,
        "started_at": started,
        "mixed": mixed,
        "definition": definition,
    }


def snapshot(asset: str, key: str, run_id: str, read: dict[str, str], data_version: str | None = None) -> Row:
    """Return what a run has published."""
    made = version(asset, key, 0, read) if data_version is None else data_version
    inputs = {name: {"sequence": 1, "dataVersion": one} for name, one in read.items()}
    return {
        "asset_id": asset,
        "partition_key": key,
        "sequence": 1,
        "run_id": run_id,
        "data_version": made,
        "inputs": inputs,
    }


def test_the_project_reads_what_the_model_says(tmp_path: Path) -> None:
    """The definitions are valid, and a changed hour reaches exactly what is computed from it."""
    Calendar().write(tmp_path)
    assert len(load_project(tmp_path).workflows) == 4
    before, hour = Calendar().versions(FINAL), named(HOURS, ALL_HOURS[25])
    after = Calendar().versions({**FINAL, hour: "late"})
    changed = {name for name, one in after.items() if before[name] != one}
    days = [named(DAYS, ALL_DAYS[1]), *(named(TRIOS, day) for day in ALL_DAYS[1:4])]
    assert changed == {hour, *days, named(MONTHS, "2026-01"), TOTAL}


def test_a_lost_update_of_a_partition_shows() -> None:
    """The final version of a partition follows from the hours and the jobs."""
    wanted = Calendar().versions(FINAL)
    assert [*misfits(wanted, wanted)] == []
    edited = Calendar().edited(TRIOS).versions(FINAL)
    assert len([*misfits(wanted, edited)]) == len(ALL_DAYS) + 1
    assert len([*misfits({**wanted, named(DAYS, ALL_DAYS[0]): "old"}, wanted)]) == 1


def test_what_a_partition_was_made_from_shows() -> None:
    """A publication follows from its recorded inputs, and its run succeeded."""
    read = {one: FINAL[one] for one in reads(DAYS, ALL_DAYS[0])}
    right = snapshot(DAYS, ALL_DAYS[0], "a", read)
    runs = [run("a", DAYS, ALL_DAYS[0])]
    assert [*wrong_versions([right], runs)] == []
    assert "does not follow" in next(wrong_versions([{**right, "partition_key": ALL_DAYS[1]}], runs))
    assert "did not succeed" in next(wrong_versions([right], []))


def test_a_mix_of_days_must_say_so() -> None:
    """A total that reads a day, and a trio that was made from another version of it, is a mix."""
    trio = snapshot(TRIOS, ALL_DAYS[0], "t", {named(DAYS, ALL_DAYS[0]): "d1"})
    read = {named(DAYS, ALL_DAYS[0]): "d2", named(TRIOS, ALL_DAYS[0]): trio["data_version"]}
    total = snapshot(TOTAL, "", "w", read)
    trios = run("t", TRIOS, ALL_DAYS[0])
    assert "two versions of cal-days@2026-01-01" in next(silent_mixes([trio, total], [trios, run("w", TOTAL, "")]))
    assert [*silent_mixes([trio, total], [trios, run("w", TOTAL, "", mixed=True)])] == []
    same = snapshot(TOTAL, "", "w", {**read, named(DAYS, ALL_DAYS[0]): "d1"})
    assert [*silent_mixes([trio, same], [trios, run("w", TOTAL, "")])] == []


def test_a_finished_backfill_has_done_its_partitions() -> None:
    """A success that started before the request does not count, and a canceled backfill promises nothing."""
    wanted = Wanted("b", DAYS, ALL_DAYS[:2])
    finished = {"status": "finished", "requested_at": START}
    runs = [run("a", DAYS, ALL_DAYS[0]), run("b", DAYS, ALL_DAYS[1])]
    assert [*not_done(wanted, finished, runs)] == []
    early = [runs[0], run("b", DAYS, ALL_DAYS[1], begin=-1)]
    assert "cal-days@2026-01-02 has no success" in next(not_done(wanted, finished, early))
    assert [*not_done(wanted, {**finished, "status": "canceled"}, early)] == []
