"""`freshline project rename`, and applying from a clone in another directory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from freshline.definitions.loading.project import load_project
from freshline.model.run import StagedOutput
from freshline.services.inbox_consumer import InboxConsumer
from freshline.services.reconciler import Reconciler
from freshline.store.db.ids import new_id
from freshline.store.runs.claim import Claimant
from freshline.store.store import Store
from tests.cli.conftest import Freshline


def settle(store: Store) -> None:
    """Consume the inbox and decide until nothing is left to do."""
    while InboxConsumer(store).run_once() or Reconciler(store).run_once():
        pass


def work(store: Store, root: Path, name: str) -> list[str]:
    """Do all queued runs as a worker of the project in `root`; return the workflows that ran."""
    ran = []
    settle(store)
    while run := store.runs.claim(Claimant(new_id(), name, load_project(root).code_hash, spark=False)):
        made = run.slug.replace("make-", "shop.")
        store.runs.publish(run, [StagedOutput(made, "one", new_id())])
        ran.append(run.slug)
        settle(store)
    return ran


@pytest.fixture
def clone(applied: Freshline, store: Store, tmp_path: Path) -> Path:
    """Return a copy of an applied project with data, in a directory with another name, without a stated name."""
    (applied.project / "freshline.toml").write_text("")
    (applied.project / "sources" / "raw.yaml").write_text("assetId: shop.raw\nformat: csv\npath: data/raw.csv\n")
    assert applied.json("apply", "--yes")["project"] == applied.project.name
    applied("report", "shop.raw", "--version", "v1")
    assert work(store, applied.project, applied.project.name) == ["make-clean", "make-daily"]
    return Path(shutil.copytree(applied.project, tmp_path / "a-clone"))


def test_a_clone_in_another_directory(applied: Freshline, store: Store, clone: Path) -> None:
    """The error says what to do. With the stated name the clone is the project, and nothing runs."""
    name = applied.project.name
    told = applied("apply", str(clone), "--yes", code=1).stderr
    assert "project 'a-clone' is new, and its workflows belong to project" in told
    assert "without 'name' in freshline.toml a project is called like its directory" in told
    assert f'write `name = "{name}"` in freshline.toml' in told
    assert f"`freshline project rename {name} a-clone`" in told
    (clone / "freshline.toml").write_text(f'name = "{name}"\n')
    found = applied.json("apply", str(clone), "--yes")
    assert (found["project"], found["unchanged"]) == (name, ["make-clean", "make-daily"])
    assert (found["added"], found["changed"], found["retired"], found["flood"]["runs"]) == ([], [], [], [])
    assert work(store, clone, name) == []
    paths = "SELECT location ->> 'path' AS path FROM snapshots WHERE asset_id = 'shop.raw' ORDER BY sequence"
    applied("report", "shop.raw", "--version", "v2")
    with store.database.connection() as connection:
        found = [row["path"] for row in connection.execute(paths)]
    assert found == [str(one / "data" / "raw.csv") for one in (applied.project, clone)]
    assert work(store, clone, name) == ["make-clean", "make-daily"]


def test_a_rename_moves_a_project_to_its_clone(applied: Freshline, store: Store, clone: Path) -> None:
    """The command of the error makes the clone apply; nothing runs, and its worker takes the queued runs."""
    name = applied.project.name
    applied("report", "shop.raw", "--version", "v2")
    settle(store)
    found = applied.json("project", "rename", name, "a-clone")
    assert found == {"before": name, "project": "a-clone", "workflows": 2, "pools": 0, "sources": 1, "runs": 1}
    assert applied.json("apply", str(clone), "--yes")["unchanged"] == ["make-clean", "make-daily"]
    assert work(store, applied.project, name) == []
    assert work(store, clone, "a-clone") == ["make-clean", "make-daily"]
    assert {one["project"] for one in applied.json("status")["workflows"]} == {"a-clone"}
    assert "rename_project" in {one["what"] for one in applied.json("audit", name)}
    assert applied.json("doctor")["healthy"] is True
    assert f"`freshline project rename a-clone {name}`" in applied("apply", "--yes", code=1).stderr


def test_what_to_do_next_is_said(applied: Freshline) -> None:
    """In words, with counts; mistakes are errors that change nothing."""
    told = applied("project", "rename", "shop", "store").stderr
    assert "project 'shop' is now 'store': 2 workflows, 1 sources, 0 pools, 0 runs" in told
    assert 'write `name = "store"` in freshline.toml, and restart the workers' in told
    assert "project 'shop' does not exist" in applied("project", "rename", "shop", "other", code=1).stderr
    assert "there is a project 'store' already" in applied("project", "rename", "store", "store", code=1).stderr
    assert "cannot be called 'a b'" in applied("project", "rename", "store", "a b", code=2).stderr
