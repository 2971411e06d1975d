"""The overview over HTTP: how much is fresh, which causes explain the rest, and what to do about each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.api.conftest import HOUR, WORKFLOWS, Api, serving
from tests.api.test_proposals import flood
from tests.store_harness import laboratory, workflow

FIELDS = ("kind", "workflowSlug", "assetId", "explains", "behind", "sentence")


@pytest.fixture
def bare(database_url: str) -> Iterator[Api]:
    """Yield the API of an installation without definitions."""
    with laboratory(database_url) as lab, serving(lab) as api:
        yield api


def causes(api: Api) -> list[tuple[Any, ...]]:
    """Return the causes without their times."""
    return [tuple(one[name] for name in FIELDS) for one in api.get("/overview")["causes"]]


def fall_silent(api: Api) -> None:
    """End the heartbeat of this API without a word, as if its machine had stopped."""
    assert api.server.heartbeat._end()


def test_an_empty_project(bare: Api) -> None:
    """The sentence says what to do first."""
    found = bare.get("/overview")
    assert found["sentence"] == "nothing is applied yet; `freshline apply` stores a project's definitions"
    assert (found["total"], found["counts"], found["causes"], found["notes"]) == (0, {}, [], [])


def test_all_is_fresh(api: Api) -> None:
    """There is no cause; promises, runs, changes and processes are counted."""
    fall_silent(api)
    api.lab.advance(minutes=30)
    found = api.get("/overview")
    assert found["sentence"] == "2 of 2 fresh"
    assert (found["total"], found["counts"], found["causes"]) == (2, {"source": 1, "fresh": 2}, [])
    worst = {"assetId": "b", "ageMs": HOUR // 2, "maxAgeMs": 2 * HOUR, "overdue": False}
    assert found["lag"] == {"promised": 1, "overdue": 0, "worst": [worst], "behind": []}
    assert found["runs"] == {"running": 0, "queued": 0, "succeeded24h": 2, "failed24h": 0, "avoided24h": 0}
    changed = found["changedSinceYesterday"]
    assert (changed["assets"], changed["versions"], changed["identical"], changed["failing"]) == (3, 3, 0, [])
    assert [one["slug"] for one in changed["definitions"]] == ["b", "c"]
    assert found["processes"] == {
        "materializers": 0,
        "workers": 0,
        "apis": 0,
        "silent": 1,
    }  # this API, after 30 minutes
    assert found["notes"] == [
        "no materializer is running: nothing is evaluated until `freshline materializer` starts one"
    ]


def test_a_failing_root_explains_what_was_never_made_below_it(api: Api) -> None:
    """Its descendants are behind it; it has the first line of its error, its run, and since when it fails."""
    api.lab.apply(*WORKFLOWS, workflow("r", "a"), workflow("s", "r"), workflow("t", "s"), workflow("u", "s a"))
    api.lab.settle()
    began = api.lab.now
    run = api.lab.start_of("r")
    api.lab.fail(run, "boom.\nsecond line")
    api.lab.live(minutes=10)
    api.lab.fail(api.lab.start_of("r"), "boom.\nsecond line")
    api.lab.settle()
    found = api.get("/overview")
    assert found["sentence"] == "2 of 6 fresh; 1 cause explains the other 4"
    [cause] = found["causes"]
    assert tuple(cause[name] for name in FIELDS) == ("failing", "r", None, 4, 3, "r fails")
    assert cause["assets"] == ["r", "s", "t", "u"]
    assert (cause["error"], cause["since"]) == ("boom", began.isoformat().replace("+00:00", "Z"))
    assert cause["until"] > found["at"]
    assert cause["next"]["command"] == "freshline reset r"
    assert cause["next"]["action"] == {"type": "reset", "target": "r"}
    assert found["changedSinceYesterday"]["failing"] == ["r"]
    api.lab.advance(days=2)
    assert api.get("/overview")["changedSinceYesterday"]["failing"] == []


def test_a_source_that_was_never_reported(api: Api) -> None:
    """Each asset that is made from it is explained by it, and reporting is the next step."""
    api.lab.apply(*WORKFLOWS, workflow("x", "later"), workflow("y", "x"), sources=("later",))
    api.lab.settle()
    assert causes(api) == [("never-reported", None, "later", 2, 2, "later was never reported")]
    step = api.get("/overview")["causes"][0]["next"]
    assert (step["command"], step["action"]) == ("freshline report later", {"type": "report", "target": "later"})


def test_a_paused_workflow_is_a_cause_while_it_has_something_to_do(api: Api) -> None:
    """A pause of a fresh workflow is none."""
    api.lab.store.operations.pause("b", api.lab.now + timedelta(hours=1))
    api.lab.settle()
    assert causes(api) == []
    api.lab.advance(minutes=5)
    api.lab.report("a", "2")
    api.lab.settle()
    assert causes(api) == [("paused", "b", None, 1, 1, "b is paused")]
    [cause] = api.get("/overview")["causes"]
    assert cause["since"] == "2026-01-05T09:00:00Z"
    assert cause["until"] == "2026-01-05T10:00:00Z"
    assert cause["next"]["action"] == {"type": "resume", "target": "b"}
    api.post("/workflows/b/resume")
    api.lab.work()
    assert causes(api) == []


def test_a_proposal_waits_for_a_yes(api: Api) -> None:
    """It explains the asset whose old partitions it would compute."""
    flood(api)
    [cause] = [one for one in api.get("/overview")["causes"] if one["kind"] == "proposal"]
    assert (cause["assetId"], cause["sentence"]) == ("daily", "a backfill of daily waits for an approval")
    assert cause["next"]["action"] == {"type": "approve", "target": cause["backfillId"]}
    assert cause["next"]["command"] == f"freshline backfill show {cause['backfillId']}"
    revision = api.get(f"/backfills/{cause['backfillId']}")["revision"]
    api.post(f"/backfills/{cause['backfillId']}/approve", {"revision": revision}, expect=202)
    assert "proposal" not in {one["kind"] for one in api.get("/overview")["causes"]}


def test_a_workflow_that_only_users_start(api: Api) -> None:
    """Until it ran, and after it failed."""
    api.lab.apply(*WORKFLOWS, workflow("m", "a", auto=None))
    assert causes(api) == [("not-automatic", "m", None, 1, 0, "m runs only when asked to")]
    api.lab.store.operations.request_run("m", {})
    assert causes(api) == [("queued", "m", None, 1, 0, "m is queued")]
    api.lab.fail(api.lab.start())
    [cause] = api.get("/overview")["causes"]
    assert (cause["kind"], cause["next"]["action"]) == ("failing", {"type": "run", "target": "m"})


def test_what_runs_by_itself_is_one_cause(api: Api) -> None:
    """However many workflows run; what waits for them is explained by it."""
    names = [f"w{number}" for number in range(3)]
    api.lab.apply(*WORKFLOWS, *(workflow(name, "a") for name in names), workflow("z", "w0 w1"))
    api.lab.settle()
    assert causes(api) == [("queued", None, None, 4, 1, "3 workflows are queued")]
    running = api.lab.start()
    assert [one[0] for one in causes(api)] == ["queued", "running"]
    api.lab.finish(running)
    api.lab.work()
    assert api.get("/overview")["sentence"] == "6 of 6 fresh"


def test_a_pause_below_a_failure_is_a_cause_of_its_own(api: Api) -> None:
    """Correcting the job would not make it fresh."""
    api.lab.apply(*WORKFLOWS, workflow("r", "a"), workflow("s", "r a"), workflow("t", "s"))
    api.lab.store.operations.pause("s", None)
    api.lab.settle()
    api.lab.fail(api.lab.start_of("r"))
    api.lab.settle()
    found = {one["workflowSlug"]: one["assets"] for one in api.get("/overview")["causes"]}
    assert found == {"r": ["r", "t"], "s": ["s"]}


def test_workflows_that_fail_in_the_same_way_since_an_input_changed_are_one_cause(api: Api) -> None:
    """The input is their cause, as it is for alerts."""
    api.lab.apply(workflow("b", "a"), workflow("c", "b"), workflow("d", "b"))
    api.lab.work()
    api.lab.report("a", "2")
    api.lab.settle()
    api.lab.finish(api.lab.start())
    api.lab.settle()
    for slug in ("c", "d"):
        api.lab.fail(api.lab.start_of(slug), "KeyError: 'price'")
    [cause] = api.get("/overview")["causes"]
    assert (cause["kind"], cause["assetId"], cause["assets"]) == ("failing", "b", ["c", "d"])
    assert cause["sentence"] == "2 workflows that read b fail in the same way since it changed"
    assert cause["error"] == "KeyError: 'price'"
    assert (cause["next"]["command"], cause["next"]["action"]) == ("freshline show b", None)


def test_late_data_is_explained_by_the_source_that_is_silent(api: Api) -> None:
    """Its assets are fresh, and older than they promise."""
    api.lab.apply(*(workflow(one, "a", freshness={"maxAgeMs": HOUR}) for one in ("b", "c")))
    api.lab.work()
    api.lab.live(hours=3)
    found = api.get("/overview")
    assert found["lag"]["overdue"] == 2
    [cause] = found["causes"]
    assert (cause["kind"], cause["assetId"], cause["explains"]) == ("overdue", "a", 2)
    assert found["sentence"] == "2 of 2 fresh; 1 cause needs attention"
    assert cause["next"]["action"] == {"type": "report", "target": "a"}


def test_only_the_first_causes_are_listed(bare: Api) -> None:
    """Those that explain most; the others are counted."""
    sources = [f"s{number:02}" for number in range(25)]
    bare.lab.apply(
        *(workflow(f"w{one}", one) for one in sources), workflow("x", "s24"), workflow("y", "x"), sources=tuple(sources)
    )
    found = bare.get("/overview")
    assert found["sentence"] == "0 of 27 fresh; 25 causes explain them"
    assert (len(found["causes"]), found["moreCauses"]) == (20, 5)
    assert (found["causes"][0]["assetId"], found["causes"][0]["explains"]) == ("s24", 3)


def test_runs_that_identical_outputs_avoided_are_counted(api: Api) -> None:
    """In the last 24 hours."""
    api.lab.report("a", "2")
    api.lab.work(b="same")
    api.lab.report("a", "3")
    api.lab.work(b="same")
    found = api.get("/overview")
    assert found["runs"]["avoided24h"] == 1
    assert found["changedSinceYesterday"]["identical"] == 1
    api.lab.advance(days=2)
    assert api.get("/overview")["runs"]["avoided24h"] == 0


def test_a_silent_process_is_counted_as_silent(api: Api) -> None:
    """Until then it is live, and the note about it is gone. The API of this test is silent too."""
    api.lab.store.processes.register(
        "0198c000-0000-7000-8000-0000000000aa", "materializer", project=None, code_hash=None, info={}
    )
    found = api.get("/overview")
    assert (found["processes"]["materializers"], found["processes"]["silent"], found["notes"]) == (1, 0, [])
    fall_silent(api)
    api.lab.advance(minutes=5)
    found = api.get("/overview")
    assert (found["processes"]["materializers"], found["processes"]["silent"]) == (0, 2)
