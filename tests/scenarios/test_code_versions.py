"""A changed Python file runs the workflows that execute it, and no others (docs/semantics.md#R1.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from freshline.definitions.loading.project import Project, load_project
from freshline.store.apply.diff import ApplyPlan
from tests.store_harness import Lab, laboratory

FILES = {
    "freshline.toml": 'name = "lab"\n',
    "jobs/a.py": "from shared import rates\n\n\ndef run(ctx):\n    return rates.EURO\n",
    "jobs/b.py": "from shared import units\n\n\ndef run(ctx):\n    return units.KM\n",
    "shared/rates.py": "EURO = 100\n",
    "shared/units.py": "KM = 1000\n",
}
WORKFLOW = """slug: {name}
steps:
  - id: work
    job: {{kind: python, entrypoint: 'jobs.{name}:run'}}
    consumes: [{{assetId: raw}}]
    produces: [{{assetId: out.{name}, autoMaterialize: {{onUpstreamUpdate: true}}}}]
"""


@dataclass
class Site:
    """A project on disk and its installation."""

    lab: Lab
    root: Path
    project: Project | None = None

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def edit(self, name: str, old: str, new: str) -> ApplyPlan:
        """Edit a file and apply."""
        text = (self.root / name).read_text()
        assert old in text
        self.write(name, text.replace(old, new))
        return self.apply()

    def apply(self) -> ApplyPlan:
        """Apply the project as it is now."""
        self.project = load_project(self.root)
        return self.lab.store.apply.commit(self.project)

    def work(self) -> list[str]:
        """Execute what is due; return the slugs that ran."""
        assert self.project is not None
        ran: list[str] = []
        while True:
            self.lab.settle()
            run = self.lab.claim(code=self.project.code_hash)
            if run is None:
                assert self.lab.active() == []
                return sorted(ran)
            ran.append(run.slug)
            self.lab.finish(run)


@pytest.fixture
def site(database_url: str, tmp_path: Path) -> Iterator[Site]:
    """Yield two workflows that are fresh."""
    with laboratory(database_url) as lab:
        site = Site(lab, tmp_path)
        for name, text in FILES.items():
            site.write(name, text)
        for name in ("a", "b"):
            site.write(f"workflows/{name}.yaml", WORKFLOW.format(name=name))
        site.apply()
        lab.report("raw", "1")
        assert site.work() == ["a", "b"]
        yield site


def test_a_comment_in_a_shared_module_runs_nothing(site: Site) -> None:
    """The workflows get the new code, which a worker needs to execute them later."""
    plan = site.edit("shared/rates.py", "EURO = 100", "EURO = 100  # cents")
    assert site.work() == []
    assert plan.changes == {"a": ["code that its jobs do not execute"], "b": ["code that its jobs do not execute"]}
    site.lab.report("raw", "2")
    assert site.work() == ["a", "b"]


def test_a_changed_constant_runs_its_importers(site: Site) -> None:
    """`why` and the plan name the file."""
    plan = site.edit("shared/rates.py", "EURO = 100", "EURO = 101")
    assert plan.changes["a"] == ["shared/rates.py"]
    assert plan.changes["b"] == ["code that its jobs do not execute"]
    assert site.work() == ["a"]
    versions = site.lab.rows(
        "SELECT w.slug, v.changes FROM workflow_versions v JOIN workflows w"
        " ON (w.id, w.version) = (v.workflow_id, v.version) ORDER BY w.slug"
    )
    assert [(row["slug"], row["changes"]) for row in versions] == [("a", ["shared/rates.py"]), ("b", [])]


def test_a_queued_run_gets_the_new_code(site: Site) -> None:
    """Its code is gone; it is decided again with the code that is there."""
    site.lab.report("raw", "2")
    site.lab.settle()
    assert site.lab.active() == ["a", "b"]
    site.edit("jobs/a.py", "return", "# now\n    return")
    assert site.work() == ["a", "b"]


def test_a_run_that_runs_meanwhile_counts(site: Site) -> None:
    """It executes the same job."""
    site.lab.report("raw", "2")
    site.lab.settle()
    assert site.project is not None
    runs = [site.lab.claim(code=site.project.code_hash) for _ in range(2)]
    site.edit("jobs/a.py", "return", "# now\n    return")
    for run in runs:
        assert run is not None
        site.lab.finish(run)
    assert site.work() == []


def as_in_0_1(site: Site) -> None:
    """Store the fingerprints that 0.1 would have stored for the project as it was applied."""
    assert site.project is not None
    for loaded in site.project.workflows:
        names = (loaded.former_fingerprint, loaded.job_fingerprint)
        for table in ("workflows", "workflow_versions", "workflow_partitions"):
            site.lab.rows(f"UPDATE {table} SET job_fingerprint = %s WHERE job_fingerprint = %s RETURNING 1", *names)
    site.lab.rows('UPDATE projects SET code_files = \'{"jobs/a.py": "0123456789abcdef"}\' RETURNING 1')


def test_another_method_alone_causes_no_run(site: Site) -> None:
    """Not with the apply that stores its fingerprints, and not after it."""
    as_in_0_1(site)
    assert site.apply().unchanged == ["a", "b"]
    assert site.work() == []
    assert site.edit("shared/units.py", "1000", "1001").changes["b"] == ["shared/units.py"]
    assert site.work() == ["b"]


def test_a_run_of_the_method_before_counts(site: Site) -> None:
    """It was claimed before the first apply with the new method."""
    as_in_0_1(site)
    site.lab.report("raw", "2")
    site.lab.settle()
    assert site.project is not None
    runs = [site.lab.claim(code=site.project.code_hash) for _ in range(2)]
    site.apply()
    for run in runs:
        assert run is not None
        site.lab.finish(run)
    assert site.work() == []


def test_an_edit_with_the_method_before_runs_once(site: Site) -> None:
    """What 0.1 stored covers the whole project, so any edit may concern any workflow. It says so."""
    as_in_0_1(site)
    plan = site.edit("shared/units.py", "1000", "1001")
    assert plan.changes == {"a": ["Python code"], "b": ["Python code"]}
    assert site.work() == ["a", "b"]
    site.edit("shared/units.py", "1001", "1002")
    assert site.work() == ["b"]


def test_hidden_imports_are_said_at_once(site: Site) -> None:
    """`validate` and `apply` name the place, and what follows from it."""
    site.write(
        "jobs/b.py", "import importlib\n\n\ndef run(ctx):\n    return importlib.import_module('shared.units').KM\n"
    )
    site.apply()
    assert site.project is not None
    (warning,) = [one for one in site.project.warnings if "imported" in one]
    assert warning == (
        "jobs/b.py:5: what is imported cannot be read from the text: it uses import_module. A change of any Python "
        "file of the project runs 'b' again"
    )
    assert site.work() == ["b"]
    site.edit("jobs/a.py", "rates.EURO", "2 * rates.EURO")
    assert site.work() == ["a", "b"]
