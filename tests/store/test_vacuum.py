"""Which versions of tables are kept: needed versions are never removed, others only after a delay.

See docs/semantics.md#R9.8.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from freshline.errors import ConflictError
from freshline.model.run import ClaimedRun, StagedOutput
from freshline.services.vacuum import Vacuum
from freshline.storage import layout
from freshline.store.tables.vacuum import clean
from tests.store_harness import Lab, laboratory, workflow


@pytest.fixture
def lab(database_url: str, tmp_path: Path) -> Iterator[Lab]:
    """Yield a lab that keeps two versions, and each for a day after it was superseded."""
    with laboratory(database_url, warehouse=str(tmp_path / "w"), keep_versions=2, keep_tables_ms=86_400_000) as lab:
        layout.check_warehouse(lab.storage, lab.store.warehouse_id)
        lab.apply(workflow("b", "a"), workflow("c", "b", auto=None))
        yield lab


def publish(lab: Lab, run: ClaimedRun, **how: Any) -> Path:
    """Write a directory for the run and publish it."""
    name = layout.staging_directory(run.slug, run.id, run.attempt, 1)
    directory = lab.warehouse / name
    directory.mkdir(parents=True)
    (directory / "part-0.parquet").write_bytes(b"rows")
    location = layout.seal(lab.storage, name)
    version = how.pop("version", f"{run.slug}:{run.id}")
    lab.store.runs.publish(run, [StagedOutput(run.slug, "work", version, location=location, **how)])
    return directory


def change(lab: Lab, **how: Any) -> Path:
    """Publish a new version of b, an hour after the last."""
    lab.advance(hours=1)
    lab.report("a")
    lab.settle()
    return publish(lab, lab.start_of("b"), **how)


def vacuum(lab: Lab) -> None:
    """Run both phases, with the delay in between."""
    service = Vacuum(lab.store)
    service.run_once()
    lab.advance(minutes=11)
    service.run_once()


def test_versions_beyond_count_and_age_are_removed(lab: Lab) -> None:
    """Kept are the newest ones, and those that were replaced a short while ago, however many."""
    made = [change(lab) for _ in range(5)]
    vacuum(lab)
    assert all(path.exists() for path in made), "they were replaced a short while ago"
    lab.advance(days=2)
    vacuum(lab)
    assert [path.exists() for path in made] == [False, False, False, True, True]
    assert lab.store.reader.snapshot("b", 1)["goneAt"] is not None
    with pytest.raises(ConflictError, match="is not kept any more"):
        lab.store.tables.rollback("b", 1)


def test_a_declaration_says_how_long(lab: Lab) -> None:
    """`keepVersions` and `keep` of the asset win over the settings."""
    table = {"table": {"keepVersions": 1, "keepMs": 0}}
    lab.rows("UPDATE assets SET declaration = declaration || %s RETURNING 1", json.dumps(table))
    made = [change(lab) for _ in range(3)]
    vacuum(lab)
    assert [path.exists() for path in made] == [False, False, True]


def test_a_definition_says_how_long(lab: Lab) -> None:
    """`table: {keepVersions, keep}` as a user writes it; what was applied last counts."""
    made = [change(lab) for _ in range(5)]
    keep(lab, {"keepVersions": 4, "keep": "1m"})
    vacuum(lab)
    assert [path.exists() for path in made] == [False, True, True, True, True]
    keep(lab, {"keepVersions": 1, "keep": "90m"})
    vacuum(lab)
    assert [path.exists() for path in made] == [False, False, True, True, True], "replaced 2 h and 1 h ago, and now"


def keep(lab: Lab, table: dict[str, Any]) -> None:
    """Apply a definition of b with this block."""
    made = workflow("b", "a")
    made["steps"][0]["produces"][0]["table"] = table
    lab.apply(made, workflow("c", "b", auto=None))


def test_marked_files_stay_for_a_while(lab: Lab) -> None:
    """Whoever began to read a version before it was marked has minutes to end."""
    made = [change(lab) for _ in range(4)]
    lab.advance(days=2)
    Vacuum(lab.store).run_once()
    assert lab.one("SELECT count(*) FROM snapshots WHERE gone_at IS NOT NULL") == 2
    lab.advance(minutes=9)
    assert clean(lab.store, lab.storage, 10) == 0
    assert made[0].exists()


def test_what_a_run_is_pinned_to_is_kept(lab: Lab) -> None:
    """A run that waits, or works, reads the version that it was given, whatever came since."""
    first = change(lab)
    lab.store.operations.request_run("c")
    others = [change(lab) for _ in range(4)]
    lab.advance(days=2)
    vacuum(lab)
    assert first.exists()
    assert not others[0].exists()
    lab.finish(lab.start_of("c"))
    vacuum(lab)
    assert not first.exists()


def test_what_a_run_was_pinned_to_meanwhile_is_spared(lab: Lab) -> None:
    """A decision that read the head before the version was marked commits after it: the second phase sees its pin."""
    first = change(lab)
    run = lab.store.operations.request_run("c")
    pins = lab.one("SELECT pins FROM runs WHERE id = %s", run)
    lab.store.operations.cancel(run)
    for _ in range(4):
        change(lab)
    lab.advance(days=2)
    Vacuum(lab.store).run_once()
    late = lab.store.operations.request_run("c")
    lab.rows("UPDATE runs SET pins = %s WHERE id = %s RETURNING 1", json.dumps(pins), late)
    lab.advance(minutes=11)
    assert clean(lab.store, lab.storage, 10) == 2
    assert first.exists()
    assert lab.store.reader.snapshot("b", 1)["goneAt"] is None


def test_what_a_version_was_appended_to_is_kept(lab: Lab) -> None:
    """The rows of an appended table are in all its directories."""
    parts = [change(lab, appended=bool(n), based_on=n) for n in range(5)]
    lab.advance(days=2)
    vacuum(lab)
    assert all(path.exists() for path in parts)
    whole = [change(lab) for _ in range(2)]
    lab.advance(days=2)
    vacuum(lab)
    assert not any(path.exists() for path in parts)
    assert all(path.exists() for path in whole)


def test_a_directory_that_another_version_shares_stays(lab: Lab) -> None:
    """A rollback names the directories of the version that it goes back to: they are not that version's alone."""
    first = change(lab)
    change(lab)
    lab.store.tables.rollback("b", 1)
    lab.settle()
    lab.advance(days=2)
    lab.rows(
        "UPDATE snapshots SET gone_at = now() - interval '1 year' WHERE sequence = 1 AND asset_id = 'b' RETURNING 1"
    )
    assert clean(lab.store, lab.storage, 10) == 1
    assert first.exists()


def test_leftovers_of_a_crash_between_the_phases_are_found(lab: Lab) -> None:
    """The database forgets first; files that a crash left behind are named by nobody, and the doctor removes them."""
    from freshline.store.doctor.warehouse import Warehouse  # noqa: PLC0415
    from tests.store.test_doctor_warehouse import age  # noqa: PLC0415

    made = [change(lab) for _ in range(4)]
    lab.advance(days=2)
    Vacuum(lab.store).run_once()
    lab.advance(minutes=11)
    assert len(lab.store.tables.remove_versions(10)) == 2  # the process dies after this
    for path in made:
        age(path)
    assert Warehouse(lab.store).remove_leftovers() == 2
    assert [path.exists() for path in made] == [False, False, True, True]
