"""`freshline forget`: assets that nobody uses any more are removed, and no others (docs/semantics.md#R5.6)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from freshline.errors import ConflictError, NotFoundError
from freshline.storage.local import LocalStorage
from freshline.store.operations.audit import Actor, acting
from tests.store_harness import Lab, laboratory, workflow


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield an installation in which b and c were made from a, and c is retired since a minute."""
    with laboratory(database_url) as lab:
        lab.apply(workflow("b", "a"), workflow("c", "b"))
        lab.report("a")
        lab.work()
        lab.advance(minutes=1)
        lab.apply(workflow("b", "a"))
        lab.advance(minutes=1)
        yield lab
        assert lab.forgotten() == 0


def test_a_retired_asset_is_forgotten(lab: Lab, tmp_path: Path) -> None:
    """Its rows and its directory go; other directories, its runs and its events stay; the audit says who did it."""
    for name in ("c/data/1/part.parquet", "c/_delta_log/0.json", "cc/data/part.parquet"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("x")
    runs, events = len(lab.runs("c")), lab.one("SELECT count(*) FROM events WHERE subject = 'c'")
    wanted = {"assetId": "c", "versions": 1, "deliveries": 0, "rows": None, "bytes": None, "table": False}
    assert lab.store.operations.forgettable("c") == wanted
    with acting(Actor("cli:somebody")):
        assert lab.store.operations.forget("c", storage=LocalStorage(tmp_path)) == wanted
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cc"]
    for table in ("snapshots", "heads", "timers"):
        assert lab.one(f"SELECT count(*) FROM {table} WHERE asset_id = 'c'") == 0, table
    assert (len(lab.runs("c")), lab.one("SELECT count(*) FROM events WHERE subject = 'c'")) == (runs, events)
    (entry,) = lab.store.reader.audit(subject="c")
    assert (entry["what"], entry["who"]) == ("forget_asset", "cli:somebody")
    with pytest.raises(NotFoundError):
        lab.store.operations.forget("c")


def test_what_is_in_use_is_not_forgotten(lab: Lab) -> None:
    """Produced, read, declared, reported since, or in a run: each is named, with what to do; nothing changes."""
    lab.apply(workflow("b", "a"), workflow("x", "y"), sources=("s",))
    lab.report("y")
    before = lab.everything()
    for asset, message in {
        "b": "is produced by workflow 'b'",
        "a": "is read by workflow 'b'",
        "s": "is declared as a source of project 'lab'",
    }.items():
        with pytest.raises(ConflictError, match=message):
            lab.store.operations.forget(asset)
    assert lab.everything() == before
    lab.settle()
    run = lab.claim()
    assert run is not None
    lab.apply(workflow("b", "a"))
    for asset in ("x", "y"):
        with pytest.raises(ConflictError, match=f"run {run.id[-8:]} still uses data of '{asset}'"):
            lab.store.operations.forget(asset)
    lab.fail(run)
    lab.advance(minutes=1)
    lab.report("y")
    with pytest.raises(ConflictError, match=r"was reported at .*, when no workflow used it any more"):
        lab.store.operations.forget("y")
    assert lab.store.operations.forget("y", reported=True)["versions"] == 2
    assert lab.store.operations.forget("x")["versions"] == 0


def test_a_name_can_be_used_again(lab: Lab) -> None:
    """An asset of the same name begins at version 1, and its reader runs."""
    lab.store.operations.forget("c")
    lab.apply(workflow("b", "a"), workflow("c", "b"), workflow("d", "c"))
    assert lab.work() == ["c", "d"]
    assert lab.store.reader.snapshot("c")["version"] == 1


def test_an_append_source_goes_with_its_deliveries(lab: Lab) -> None:
    """Also those that nobody has read, and an event that is not absorbed yet."""
    lab.apply(workflow("b", "a"), sources=({"assetId": "drop", "mode": "append"},))
    lab.report("drop", "1")
    lab.report("drop", "2")
    lab.advance(minutes=1)
    lab.apply(workflow("b", "a"))
    assert lab.store.operations.forget("drop")["deliveries"] == 2
    assert lab.one("SELECT count(*) FROM deliveries") == 0
