"""Sources whose data exists when they are first applied (docs/semantics.md#R3.5)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store_harness import Lab, laboratory, project, workflow


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a fresh installation; at the end no stale workflow may be forgotten."""
    with laboratory(database_url) as lab:
        yield lab
        assert lab.forgotten() == 0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project directory with one file of data."""
    (tmp_path / "raw.csv").write_text("a\n1\n")
    return tmp_path


def raw(path: str = "raw.csv", **more: Any) -> dict[str, Any]:
    """Return the source `raw`."""
    return {"assetId": "raw", "format": "csv", "path": path, **more}


def reports(lab: Lab) -> list[str]:
    """Return the reported versions of `raw`."""
    return [row["data_version"] for row in lab.rows("SELECT data_version FROM snapshots WHERE asset_id = 'raw'")]


def test_a_new_source_whose_data_exists_is_reported_once(lab: Lab, root: Path) -> None:
    """The first apply reports it and its readers run; later applies, also of other definitions, report nothing."""
    plan = lab.apply(workflow("clean", "raw"), sources=(raw(),), root=root)
    assert plan.reported == ["raw"]
    assert lab.rows("SELECT location ->> 'path' AS path FROM snapshots") == [{"path": str(root / "raw.csv")}]
    assert lab.work() == ["clean"]
    (root / "raw.csv").write_text("a\n2\n")
    assert lab.apply(workflow("clean", "raw"), sources=(raw(),), root=root).empty
    assert lab.apply(workflow("clean", "raw"), sources=(raw(options={"header": "true"}),), root=root).reported == []
    lab.apply(workflow("clean", "raw"), root=root)
    assert lab.apply(workflow("clean", "raw"), sources=(raw(),), root=root).reported == [], "it has data already"
    assert reports(lab) == ["seq:1"]
    assert lab.work() == []


@pytest.mark.parametrize(
    "source",
    [
        raw(mode="append"),
        raw(watch={"files": "*.csv"}),
        raw("nothing.csv"),
        raw("s3a://bucket/raw.csv"),
        {"assetId": "raw"},
    ],
    ids=str,
)
def test_what_the_first_apply_does_not_report(lab: Lab, root: Path, source: dict[str, Any]) -> None:
    """Append sources, watched ones, sources without a path, and sources whose data this process cannot see."""
    assert lab.apply(workflow("clean", "raw"), sources=(source,), root=root).reported == []
    (root / "nothing.csv").write_text("a\n1\n")
    assert lab.apply(workflow("clean", "raw"), sources=(source,), root=root).reported == [], "not its first apply"
    assert (reports(lab), lab.work()) == ([], [])


def test_a_source_that_was_consumed_before_it_was_declared_is_reported(lab: Lab, root: Path) -> None:
    """Its first apply is the one that declares it; unless it was reported meanwhile."""
    lab.apply(workflow("clean", "raw"), workflow("other", "late"), root=root)
    lab.report("late", "1")
    plan = lab.apply(
        workflow("clean", "raw"), workflow("other", "late"), sources=(raw(), raw() | {"assetId": "late"}), root=root
    )
    assert plan.reported == ["raw"]
    assert sorted(lab.work()) == ["clean", "other"]


def test_existing_data_is_a_baseline(lab: Lab, root: Path) -> None:
    """With `onMissing: false` the first run waits for a change, and data that exists at the start is not one."""
    quiet = workflow("clean", "raw", auto={"onUpstreamUpdate": True, "onMissing": False})
    lab.apply(quiet, sources=(raw(),), root=root)
    assert lab.work() == []
    lab.report("raw")
    assert lab.work() == ["clean"]


def test_the_preview_knows_what_is_reported(lab: Lab, root: Path) -> None:
    """It shows the wave of the report, also below, also in other projects; and changes nothing."""
    lab.apply(workflow("other", "raw"), name="elsewhere")
    wanted = project(workflow("clean", "raw"), workflow("daily", "clean"), sources=(raw(),), root=root)
    before = lab.everything()
    planned = lab.store.apply.preview(wanted)
    assert sorted(one.member.slug for one in planned.runs) == ["clean", "daily", "other"]
    assert (planned.held, lab.everything()) == ((), before)
    assert lab.store.apply.diff(wanted).reported == ["raw"]
