"""A run executes the code and the parameters of its own version, whatever happens to the project's files meanwhile.

See docs/semantics.md#R10.3. Real workers and runners; the clock of the database is the test's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from freshline.definitions.loading.project import load_project
from freshline.model.run import ClaimedRun
from freshline.store.runs.claim import Claimant
from freshline.worker.worker import Worker
from tests.store_harness import Lab, laboratory

JOBS = """
import os, pathlib

VERSION = {version!r}

def answer(value):
    return {{"assets": [{{"assetId": "out", "dataVersion": value}}]}}

def work(ctx):
    return answer(f"{{VERSION}} with {{ctx.parameters['version']}}")

def late(ctx):
    "Import a module after it was edited on disk, and put the file back."
    file = pathlib.Path("helper.py")
    applied = file.read_bytes()
    file.write_text("VERSION = 'never applied'\\n")
    try:
        import helper
    finally:
        file.write_bytes(applied)
    return answer(helper.VERSION)

def fails(ctx):
    file = pathlib.Path("jobs.py")
    file.write_bytes(b"# another line\\n" + file.read_bytes())
    raise ValueError("told")
"""
WORKFLOW = """slug: flow
parameters: {{version: {version}}}
steps:
  - id: work
    job: {{kind: python, entrypoint: 'jobs:{function}'}}
    retry: {{maxAttempts: 1}}
    produces: [{{assetId: out}}]
"""


@dataclass
class Site:
    """A project on disk, its installation, and a worker whose slot the test calls."""

    lab: Lab
    root: Path
    worker: Worker

    def write(self, version: str, function: str = "work") -> None:
        """Write a version of the project. All versions have files of the same sizes and times."""
        (self.root / "workflows").mkdir(exist_ok=True)
        files = {
            "jobs.py": JOBS.format(version=version),
            "helper.py": f"VERSION = {version!r}\n",
            "workflows/flow.yaml": WORKFLOW.format(version=version, function=function),
        }
        for name, text in files.items():
            (self.root / name).write_text(text)
            os.utime(self.root / name, (1_700_000_000, 1_700_000_000))

    def apply(self, version: str, function: str = "work") -> None:
        """Write and apply a version."""
        self.write(version, function)
        self.lab.store.apply.commit(load_project(self.root))

    def run(self) -> str:
        """Request a run, execute it in a runner, and return the data version that it published."""
        run_id = self.lab.store.operations.request_run("flow")
        assert self.worker.slots[0].run_once(), "no run was claimed"
        (run,) = [run for run in self.lab.runs() if str(run["id"]) == run_id]
        assert run["status"] == "succeeded", run["error"]
        return str(self.lab.one("SELECT data_version FROM heads WHERE asset_id = 'out'"))

    def after_claim(self, monkeypatch: pytest.MonkeyPatch, edit: Callable[[], None]) -> None:
        """Call `edit` right after each claim, before the runner imports anything."""
        claim = self.lab.store.runs.claim

        def claimed(who: Claimant) -> ClaimedRun | None:
            run = claim(who)
            edit()
            return run

        monkeypatch.setattr(self.worker.store.runs, "claim", claimed)


@pytest.fixture
def site(database_url: str, tmp_path: Path) -> Iterator[Site]:
    """Yield a project with a worker; its runners end with the test."""
    (tmp_path / "freshline.toml").write_text('name = "lab"\n')
    with laboratory(database_url) as lab:
        worker = Worker(lab.store, type(lab.settings)(project=tmp_path))
        yield Site(lab, tmp_path, worker)
        worker.slots[0].runners.close()


def test_a_late_import_runs_the_applied_code(site: Site) -> None:
    """A module that a job imports late was edited and is put back: the run publishes what was applied."""
    site.apply("1", "late")
    assert site.run() == "1"


def test_an_edit_between_claim_and_import_is_not_run(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files change right after the claim: the run executes the code that it was claimed for."""
    site.apply("1")
    site.after_claim(monkeypatch, lambda: site.write("2"))
    assert site.run() == "1 with 1"


def test_two_versions_in_quick_turns(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits of the same size and time, applied in turns, with the next edit right after each claim."""
    turns = ["1", "2", "1", "3"]
    for version, coming in zip(turns, [*turns[1:], "4"], strict=True):
        site.apply(version)
        with monkeypatch.context() as patch:
            site.after_claim(patch, lambda coming=coming: site.write(coming))  # type: ignore[misc]
            assert site.run() == f"{version} with {version}"


def test_an_error_shows_the_applied_lines_of_the_projects_own_file(site: Site) -> None:
    """The traceback names the project's file, not its copy, and shows the line that ran although the file differs."""
    site.apply("1", "fails")
    site.lab.store.operations.request_run("flow")
    site.worker.slots[0].run_once()
    error = site.lab.runs()[-1]["error"]
    line = 1 + JOBS.format(version="1").splitlines().index('    raise ValueError("told")')
    assert error["message"] == f"jobs.py:{line}: ValueError: told"
    assert f'File "{site.root}/jobs.py", line {line}, in fails\n    raise ValueError("told")' in error["traceback"]


def test_a_definition_is_stored_with_the_code_that_was_imported(tmp_path: Path) -> None:
    """A module changes while a project is loaded: definition and hash are of the same bytes."""
    (tmp_path / "workflows").mkdir()
    (tmp_path / "freshline.toml").touch()
    (tmp_path / "limits.py").write_text("LIMIT = 1\n")
    (tmp_path / "workflows" / "a.py").write_text(
        "from pathlib import Path\nfrom freshline import asset\nfrom limits import LIMIT\n"
        f"Path({str(tmp_path)!r}, 'limits.py').write_text('LIMIT = 2\\n')\n"
        "@asset('out', kind='python', parameters={'limit': LIMIT})\ndef out(limit): ...\n"
    )
    first = load_project(tmp_path)
    second = load_project(tmp_path)
    assert [one.workflows[0].definition.parameters for one in (first, second)] == [{"limit": 1}, {"limit": 2}]
    assert first.code_hash != second.code_hash
