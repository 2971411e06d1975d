"""A simulation over HTTP: the recorded reports through the current policies, and through changed ones."""

from __future__ import annotations

from typing import Any

import pytest
from ruamel.yaml import YAML

from freshline.api import simulate
from tests.api.conftest import HOUR, Api
from tests.store_harness import workflow


def play(api: Api, expect: int = 200, **body: Any) -> Any:
    """Return the answer."""
    return api.post("/simulate", {"since": "1d", **body}, expect=expect)


def history(api: Api, count: int = 12) -> None:
    """Report the source every ten minutes."""
    for number in range(count):
        api.lab.advance(minutes=10)
        api.lab.report("a", f"n{number}")
        api.lab.work()


def test_without_changes_it_is_a_replay(api: Api) -> None:
    """All reports, the runs that they cause, and each workflow. Nothing is stored."""
    history(api)
    before = api.lab.everything()
    found = play(api)
    assert (found["after"], found["yaml"], found["reports"]) == (None, {}, 13)
    assert found["before"]["runs"] == 26
    assert [(one["slug"], one["changed"], one["before"]["runs"]) for one in found["workflows"]] == [
        ("b", False, 13),
        ("c", False, 13),
    ]
    assert found["notes"] == ["the first workflow was applied 2.0 h ago: that time was played, and not 1.0 d"]
    assert api.lab.everything() == before


def test_a_changed_policy_is_compared(api: Api) -> None:
    """A longer interval: fewer runs of it and of what it triggers, more lag; the block to copy is YAML."""
    history(api)
    found = play(api, workflows={"b": {"minInterval": "1h", "maxAge": None, "quietHours": []}})
    assert found["after"]["runs"] < found["before"]["runs"]
    assert found["after"]["lagSeconds"]["max"] > found["before"]["lagSeconds"]["max"]
    for one in (found["before"], found["after"]):
        series = one["series"]
        assert series["bucketSeconds"] == 120  # of two hours
        assert len(series["runs"]) == len(series["slotHours"]) == len(series["lagSeconds"]) == 60
        assert sum(series["runs"]) == one["runs"]
        assert max(lag["max"] for lag in series["lagSeconds"] if lag) == one["lagSeconds"]["max"]
    lags = [[lag is None for lag in found[side]["series"]["lagSeconds"]] for side in ("before", "after")]
    assert lags[0] == lags[1]  # the same changes, where they happened
    assert found["workflows"][0]["slug"] == "b"
    assert found["workflows"][0]["changed"] is True
    assert found["workflows"][0]["after"]["runs"] == 3
    assert found["workflows"][0]["after"]["runSeconds"] == 0
    assert YAML(typ="safe").load(found["yaml"]["b"]) == {
        "slug": "b",
        "quietHours": [],
        "steps": [
            {
                "id": "work",
                "produces": [
                    {
                        "assetId": "b",
                        "freshness": {"ttlMs": HOUR},
                        "autoMaterialize": {"onUpstreamUpdate": True, "minInterval": "1h"},
                    }
                ],
            }
        ],
    }


def test_another_spelling_replaces_the_first(api: Api) -> None:
    """`ttl` and `ttlMs` are one field."""
    history(api, 1)
    assert "ttl: 2h" in play(api, workflows={"b": {"ttl": "2h"}})["yaml"]["b"]
    assert "ttlMs: 5000" in play(api, workflows={"b": {"freshness": {"ttlMs": 5000}}})["yaml"]["b"]
    assert "freshness" not in play(api, workflows={"b": {"freshness": None}})["yaml"]["b"]


def test_the_same_seed_gives_the_same_answer(api: Api) -> None:
    """Also with other slots."""
    history(api, 3)
    assert play(api, seed=7, slots=2) == play(api, seed=7, slots=2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"b": {"debunce": "5m"}}, "workflow 'b': unknown field 'debunce'; did you mean 'debounce'?"),
        ({"b": {"steps": []}}, "unknown field 'steps'; allowed are enabled, onUpstreamUpdate, when,"),
        (
            {"b": {"debounce": "soon"}},
            "asset 'b': 'debounce' 'soon' is not a duration; allowed are numbers",
        ),
        ({"b": {"when": "some"}}, "asset 'b': 'when' is \"some\"; allowed are 'any' or 'all'"),
        ({"b": {"quietHours": [{"from": "25:00", "to": "1:00"}]}}, "workflow 'b': '25:00' is not a time of day"),
        ({"b": {"freshness": 3}}, "'freshness' is not a block of fields"),
        ({"b": {"maxDelay": "1s", "debounce": "1m"}}, "'maxDelayMs' is 1000; allowed is 60000 (debounceMs) or more"),
        ({"bb": {}}, "workflow 'bb' does not exist"),
        ({"b": 3}, "valid dictionary"),
    ],
)
def test_a_wrong_change_is_a_problem_that_names_what_is_allowed(api: Api, changes: Any, words: str) -> None:
    """As an error of a definition does."""
    found = play(api, expect=404 if "bb" in changes else 422, workflows=changes)
    assert words in found["detail"]


@pytest.mark.parametrize("since", ["soon", "0s", "32d", ""])
def test_a_wrong_time_is_a_problem(api: Api, since: str) -> None:
    """It is a duration of at most a month."""
    assert "since" in play(api, expect=422, since=since)["detail"]


def test_it_has_limits(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """One at a time; and reports, workflows and time are bounded."""
    history(api, 3)
    with simulate._alone():
        assert play(api, expect=429)["code"] == "simulation-busy"
    for name, value, words in (
        ("MOST_REPORTS", 2, "more than 2 reports"),
        ("MOST_WORKFLOWS", 1, "more than 1 workflow"),
        ("LONGEST_S", -1.0, "takes longer"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(simulate, name, value)
            found = play(api, expect=422)
        assert found["code"] == "simulation-too-large"
        assert words in found["detail"]
    play(api)


def test_it_needs_operate(closed: Api) -> None:
    """It costs computing time."""
    answer = closed.client.post("/simulate", json={}, headers=closed.token("read"))
    assert answer.json()["code"] == "scope-needed"


def test_an_output_without_a_block_stays_manual(api: Api) -> None:
    """Of several outputs only those that have a block are changed; if none has, all get one."""
    two = workflow("two", "a", auto=None, outputs=["x", "y"])
    two["steps"][0]["produces"][0]["autoMaterialize"] = {"onUpstreamUpdate": True}
    api.lab.apply(workflow("b", "a"), workflow("c", "b"), two, workflow("m", "a", auto=None))
    found = play(api, workflows={"two": {"priority": 3}, "m": {"onUpstreamUpdate": True}})["yaml"]
    assert found["two"].count("priority: 3") == 1
    assert "onUpstreamUpdate: true" in found["m"]
