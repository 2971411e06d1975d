"""What `status` and `why` say about failures, causes further up, edits, and assets that nobody uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from freshline.cli.render.decisions import sentence
from freshline.cli.render.status import root_cause
from freshline.definitions.loading.project import Project
from freshline.model.documents.status import AssetStatus, WantedStatus
from tests.store_harness import Lab, laboratory, project, workflow


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a fresh installation; at the end no stale workflow may be forgotten."""
    with laboratory(database_url) as lab:
        yield lab
        assert lab.forgotten() == 0


def asset(lab: Lab, name: str) -> AssetStatus:
    """Return the status of one asset."""
    (found,) = lab.store.reader.status(name)["assets"]
    return found


def states(lab: Lab, *, everything: bool = False) -> dict[str, str]:
    """Return the states of all assets that are shown."""
    found = lab.store.reader.status(None, WantedStatus(everything=everything))
    return {one["assetId"]: one["state"] for one in found["assets"]}


def fail(lab: Lab, message: str = "KeyError: 'b'") -> str:
    """Let the next run fail, and return its id."""
    lab.settle()
    run = lab.claim()
    assert run is not None
    lab.store.runs.fail(run.id, run.attempt, {"code": "job", "message": message, "step": "work"})
    lab.settle()
    return run.id


def causes(lab: Lab, name: str) -> list[str]:
    """Return the root causes as `why` prints them."""
    return [root_cause(one) for one in lab.store.reader.status(name)["rootCauses"]]


def test_an_asset_that_only_ever_failed_is_failing(lab: Lab) -> None:
    """`missing` would hide the failure. A manual run that failed counts as well, until one succeeds."""
    lab.apply(workflow("b", "a"), workflow("by-hand", "a", auto=None))
    lab.report("a")
    assert states(lab) == {"a": "source", "b": "missing", "by-hand": "missing"}
    fail(lab)
    assert states(lab)["b"] == "failing"
    lab.store.operations.request_run("by-hand")
    fail(lab)
    assert states(lab)["by-hand"] == "failing"
    lab.store.operations.request_run("by-hand")
    assert lab.work() == ["by-hand"]
    assert states(lab)["by-hand"] == "fresh"


def test_assets_below_a_failure_say_so(lab: Lab) -> None:
    """At any depth, until the workflow succeeds; those beside it do not."""
    lab.apply(workflow("b", "a"), workflow("c", "b"), workflow("d", "c"), workflow("e", "other"))
    lab.report("a")
    lab.report("other")
    lab.work()
    assert not any(one["upstreamFailing"] for one in lab.store.reader.status()["assets"])
    lab.report("a")
    fail(lab)
    marked = {one["assetId"]: (one["state"], one["upstreamFailing"]) for one in lab.store.reader.status()["assets"]}
    assert marked == {
        "a": ("source", False),
        "b": ("failing", False),
        "c": ("fresh", True),
        "d": ("fresh", True),
        "e": ("fresh", False),
        "other": ("source", False),
    }
    lab.store.operations.reset("b")
    lab.work()
    assert not asset(lab, "d")["upstreamFailing"]


def test_an_asset_that_nobody_uses_is_retired(lab: Lab) -> None:
    """It is hidden, and comes back when it is reported, read, declared or produced again."""
    lab.apply(workflow("b", "a"), workflow("c", "b"))
    lab.report("a")
    lab.work()
    lab.advance(minutes=1)
    lab.apply(workflow("c", "b"))
    assert states(lab) == {"b": "source", "c": "fresh"}, "b is still read"
    lab.apply(workflow("x", "y"))
    assert states(lab) == {"x": "missing", "y": "source"}
    assert lab.store.reader.status()["retired"] == 3
    assert {name for name, state in states(lab, everything=True).items() if state == "retired"} == {"a", "b", "c"}
    assert asset(lab, "c")["state"] == "retired"
    lab.advance(minutes=1)
    lab.report("a")
    assert states(lab)["a"] == "source"
    lab.apply(workflow("x", "y b"), sources=("c",))
    assert [states(lab)[name] for name in "abc"] == ["source", "source", "source"]
    lab.advance(minutes=1)
    lab.apply(workflow("x", "y"))
    assert {*states(lab)} == {"a", "x", "y"}, "a was reported since nobody used it"


def test_the_root_cause_is_a_watcher(lab: Lab) -> None:
    """A source that is watched needs no report: its watcher has found nothing, or fails."""
    seen = {"assetId": "seen", "mode": "append", "format": "csv", "path": "in", "watch": {"files": "in/*.csv"}}
    lab.apply(workflow("b", "seen"), sources=(seen,))
    lab.settle()
    more = "`freshline watch show seen` says more"
    assert causes(lab, "b") == [f"seen was never reported, because its watcher has found nothing yet; {more}"]
    lab.rows("UPDATE watches SET failures = 1, failing_since = next_at, error = 'no such directory' RETURNING 1")
    assert causes(lab, "b") == [f"looking at seen fails: no such directory; {more}"]


def test_the_root_cause_is_a_source_without_data(lab: Lab) -> None:
    """However far up it is, with the command that reports it."""
    drop = {"assetId": "drop", "mode": "append", "format": "csv", "path": "in"}
    lab.apply(workflow("b", "a drop"), workflow("c", "b"), workflow("d", "c"), sources=(drop,))
    lab.settle()
    assert causes(lab, "d") == [
        "a was never reported; `freshline report a`",
        'drop was never reported; `freshline report drop --payload \'{"path": "..."}\'`',
    ]
    lab.report("a")
    assert causes(lab, "b") == causes(lab, "d")
    assert len(causes(lab, "d")) == 1
    lab.report("drop", payload={"path": "in/1.csv"})
    lab.work()
    assert causes(lab, "d") == []


def test_the_root_cause_is_the_error_of_a_run(lab: Lab) -> None:
    """Of the workflow itself, or of one above; with the run. A success ends it."""
    lab.apply(workflow("b", "a"), workflow("c", "b"))
    lab.report("a")
    run = fail(lab, "jobs.py:3: KeyError: 'b'\nTraceback")
    wanted = f"run {run[-8:]} of b failed: jobs.py:3: KeyError: 'b'; `freshline runs {run[-8:]}` shows more"
    assert causes(lab, "b") == causes(lab, "c") == [wanted]
    lab.store.operations.reset("b")
    lab.work()
    assert causes(lab, "c") == []


def test_the_root_cause_can_be_a_person(lab: Lab) -> None:
    """A pause, and a workflow above that nobody ever asked to run."""
    lab.apply(workflow("b", "a", auto=None), workflow("c", "b"), workflow("d", "a"), workflow("e", "d"))
    lab.report("a")
    lab.store.operations.pause("d")
    lab.settle()
    assert causes(lab, "c") == ["b was never run, and runs only when asked to; `freshline run b`"]
    assert causes(lab, "e") == ["d is paused; `freshline resume d` ends that"]


def with_files(found: Project, **digests: str) -> Project:
    """Return the project with digests of Python files, all of which its jobs execute."""
    files = {f"{name}.py": digest for name, digest in digests.items()}
    loaded = tuple(replace(one, files=frozenset(files)) for one in found.workflows)
    return replace(found, workflows=loaded, code_files=files)


def test_a_decision_names_the_edit_that_it_was_made_for(lab: Lab) -> None:
    """The Python file, or the field of the definition, of all edits since the last success."""
    first = project(workflow("b", "a"), code="1")
    lab.store.apply.commit(with_files(first, jobs="1", other="1"))
    lab.report("a")
    assert run_all(lab, "1") == ["b"]
    edited = project(workflow("b", "a"), code="2")
    plan = lab.store.apply.commit(with_files(edited, jobs="2", other="1"))
    assert plan.changes == {"b": ["jobs.py"]}
    lab.settle()
    (latest,) = lab.store.reader.why("b", 1)
    assert sentence(latest) == "run: its definition changed since the last success: jobs.py"
    auto = {"onUpstreamUpdate": True, "priority": 7}
    again = project(workflow("b", "a", entrypoint="jobs:other", auto=auto), code="3")
    lab.store.apply.commit(with_files(again, jobs="2", new="1"))
    lab.settle()
    (latest,) = lab.store.reader.why("b", 1)
    assert latest["evidence"]["changes"] == [
        "jobs.py",
        "new.py",
        "other.py",
        "workflows/b.yaml: steps[0].job.entrypoint",
    ]
    lab.advance(minutes=1)
    assert run_all(lab, "3") == ["b"]
    lab.advance(minutes=1)
    lab.store.apply.commit(with_files(project(workflow("b", "a"), code="4"), jobs="3"))
    lab.settle()
    (latest,) = lab.store.reader.decisions(1, workflow="b")
    assert latest["evidence"]["changes"] == ["jobs.py", "new.py", "workflows/b.yaml: steps[0].job.entrypoint"]
    run_all(lab, "4")


def run_all(lab: Lab, code: str) -> list[str]:
    """Do all runs of this code and return their workflows."""
    ran = []
    lab.settle()
    while run := lab.claim(code=code):
        lab.finish(run)
        ran.append(run.slug)
        lab.settle()
    return ran
