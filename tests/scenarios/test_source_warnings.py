"""Sources that lose data are warned about: each report replaces the data, and somebody expects additions.

See docs/semantics.md#R3.6.
"""

from __future__ import annotations

import pytest

from tests.store_harness import Lab, workflow

DROP = {"assetId": "drop", "format": "csv", "path": "inbox", "allow": ["/in"]}
APPEND = "if each report adds data, declare `mode: append` for the source and run `freshline apply`"


@pytest.fixture
def drop(lab: Lab) -> Lab:
    """Return a lab with a snapshot source and two consumers."""
    lab.apply(workflow("load", "drop"), workflow("other", "drop"), sources=(DROP,))
    return lab


def report(lab: Lab, name: str, source: str = "drop") -> list[str]:
    """Report one file; return the warnings."""
    return lab.report(source, payload={"path": f"/in/{name}"})["warnings"]


def test_a_file_that_is_replaced_before_it_was_read_is_told_at_once(drop: Lab) -> None:
    """The reporter learns which file is lost, for whom, and what to do."""
    assert report(drop, "2.csv") == []
    assert report(drop, "2.csv") == []  # the same path holds the new data too
    (warning,) = report(drop, "3.csv")
    what = "version 2 of 'drop' (/in/2.csv) is replaced before 'load', 'other' read it; its data will not be read"
    assert warning == f"{what}; {APPEND}"
    drop.work()
    assert report(drop, "4.csv") == []


def test_why_names_the_files_that_were_never_read(drop: Lab) -> None:
    """Also after the run: its success does not hide what it never saw. This was the first trial of a new user."""
    report(drop, "2.csv")
    drop.work()
    report(drop, "3.csv")
    report(drop, "4.csv")
    drop.work()
    expected = (
        f"version 2 of 'drop' (/in/3.csv) was replaced before 'load' read it; its data will not be read; {APPEND}"
    )
    assert drop.store.reader.status("load")["warnings"] == [expected]
    assert len(drop.store.reader.status("drop")["warnings"]) == 2
    assert drop.store.reader.status()["warnings"] == []
    drop.advance(days=8)
    assert drop.store.reader.status("load")["warnings"] == []


def test_rows_new_of_a_snapshot_source_is_warned_about(lab: Lab) -> None:
    """There are no increments: each report replaces everything."""
    lab.apply(workflow("load", [{"assetId": "drop", "rows": "new"}]), sources=(DROP,))
    report(lab, "1.csv")
    lab.work()
    expected = (
        "'load' reads 'drop' with `rows: new`, but each report of this source replaces its data: all rows are new "
        f"every time, and a version that is replaced before a run reads it is lost; {APPEND}"
    )
    assert report(lab, "2.csv") == [expected]
    assert lab.store.reader.status("load")["warnings"] == [expected]


def test_deliveries_and_plain_updates_are_not_warned_about(lab: Lab) -> None:
    """Nothing is lost of an append source, nor of a source whose one path is written again."""
    files = {**DROP, "assetId": "files", "mode": "append"}
    consumes = [{"assetId": "files", "rows": "new"}, {"assetId": "table"}]
    lab.apply(workflow("load", consumes), sources=(files, "table"))
    assert [*report(lab, "1.csv", "files"), *report(lab, "2.csv", "files")] == []
    assert [lab.report("table", str(n))["warnings"] for n in range(3)] == [[], [], []]
    lab.work()
    assert lab.store.reader.status("load")["warnings"] == []
