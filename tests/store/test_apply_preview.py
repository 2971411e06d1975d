"""The preview of apply lists exactly the runs that follow."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import datetime, timedelta
from typing import Any

import pytest

from freshline.model.moment import iso
from freshline.model.run import ClaimedRun, StagedOutput
from freshline.simulation.plan import Plan
from freshline.store.db.ids import new_id
from tests.simulation.histories import random_project
from tests.store_harness import NEXT, ON_UPDATE, Lab, laboratory, project, workflow

HOUR = 3_600_000
SEEDS, MORE_SEEDS = 16, 200
Definition = dict[str, Any]
Ran = list[tuple[str, str, bool]]


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a fresh installation; at the end no stale workflow may be forgotten."""
    with laboratory(database_url) as lab:
        yield lab
        assert lab.forgotten() == 0


def announce(lab: Lab, *workflows: Definition, baseline: bool = False) -> Plan:
    """Return the preview of `freshline apply`; check that it changes nothing."""
    before = lab.everything()
    flood = lab.store.apply.preview(project(*workflows), baseline=baseline)
    assert lab.everything() == before
    return flood


def announced(flood: Plan) -> Ran:
    """Return the runs at once in order, each with its reason and whether it may read a mix."""
    return [(run.slug, run.reason, run.mixed) for one in flood.runs if (run := one.run) and one.not_before is None]


def work(lab: Lab) -> None:
    """Do all runs; each changes its output, as the plan assumes."""

    def outputs(run: ClaimedRun) -> list[StagedOutput]:
        made = [(one["assetId"], step["id"]) for step in run.definition["steps"] for one in step["produces"]]
        return [StagedOutput(asset_id, step_id, new_id()) for asset_id, step_id in made]

    lab.work_with(outputs)


def apply(lab: Lab, *workflows: Definition, baseline: bool = False) -> Ran:
    """Apply and do all runs; return the new ones."""
    known = {run["id"] for run in lab.runs()}
    lab.apply(*workflows, baseline=baseline)
    work(lab)
    new = [run for run in lab.runs() if run["id"] not in known]
    return [(run["slug"], run["trigger"]["reason"], run["mixed"]) for run in new]


def promised(flood: Plan) -> list[tuple[str, str, datetime]]:
    """Return the runs behind a debounce, each with its reason and its time."""
    return [(run.slug, run.reason, one.not_before) for one in flood.runs if (run := one.run) and one.not_before]


def until(lab: Lab, end: datetime | None) -> Counter[tuple[str, str, datetime]]:
    """Let time pass and do all runs, each when it is due; return them, but not those of what expired meanwhile."""
    known = {run["id"] for run in lab.runs()}
    while end is not None and (moment := lab.one(NEXT)) is not None and moment <= end:
        lab.now = max(lab.now, moment)
        work(lab)
    new = [(run["slug"], run["trigger"]["reason"], run["queued_at"]) for run in lab.runs() if run["id"] not in known]
    return Counter(run for run in new if run[1] != "expired")


# A policy is turned on.

CHAIN = {"b": "a", "c": "b", "d": "b c", "e": "d"}


@pytest.fixture
def old(lab: Lab) -> Lab:
    """Return a lab where every workflow ran once; then only `b` was automatic while `a` changed: the rest is stale."""
    lab.apply(*(workflow(slug, inputs) for slug, inputs in CHAIN.items()))
    lab.report("a", "1")
    work(lab)
    lab.apply(*chain(on="b"))
    lab.report("a", "2")
    work(lab)
    assert lab.reads("b")[-1] == {"a": "2"}
    return lab


def chain(*, on: str, **policy: Any) -> list[Definition]:
    """Return the chain, with a policy for the workflows in `on`."""
    return [
        workflow(slug, inputs, auto={**ON_UPDATE, **policy} if slug in on else None) for slug, inputs in CHAIN.items()
    ]


def test_the_flood_of_a_policy_that_is_turned_on(old: Lab) -> None:
    """What is stale starts at once, and everything below follows in order, each with its cause; none runs twice."""
    flood = announce(old, *chain(on="bcde"))
    told = flood.as_json()["runs"]
    assert [(one["order"], one["workflowSlug"], one["reason"], one["upstream"]) for one in told] == [
        (1, "c", "upstream-update", ["b"]),
        (2, "d", "upstream-update", ["b", "c"]),
        (3, "e", "upstream-update", ["d"]),
    ]
    assert (flood.held, flood.cut) == ((), ())
    assert apply(old, *chain(on="bcde")) == announced(flood)


def test_a_block_that_is_enabled_again(old: Lab) -> None:
    """`enabled: false` and `onUpstreamUpdate: false` are off; turning either on is the same flood."""
    apply(old, *chain(on="b"), workflow("x", "b", auto={**ON_UPDATE, "enabled": False}))
    assert announced(announce(old, *chain(on="b"), workflow("x", "b"))) == [("x", "missing", False)]
    quiet = [*chain(on="b"), workflow("x", "b", auto={})]
    assert apply(old, *quiet) == [("x", "missing", False)]
    old.report("a", "3")
    work(old)
    loud = [*chain(on="b"), workflow("x", "b")]
    assert announced(announce(old, *loud)) == [("x", "upstream-update", False)] == apply(old, *loud)


def test_a_part_of_it_is_on(old: Lab) -> None:
    """Where the wave stops is told: what is not automatic, and what is behind that."""
    flood = announce(old, *chain(on="bce"))
    assert announced(flood) == [("c", "upstream-update", False)]
    assert {one.member.slug: (one.decision.reason, one.behind) for one in flood.cut} == {
        "d": ("not-auto", ()),
        "e": ("up-to-date", ("d",)),
    }
    assert apply(old, *chain(on="bce")) == announced(flood)


def test_a_hold_stops_it_until_its_end(old: Lab) -> None:
    """What would be held is told with its reason and its end, and runs then."""
    held = chain(on="bcde", minIntervalMs=HOUR)
    old.store.operations.pause("d", old.later(hours=2))
    flood = announce(old, *held)
    assert [(one.member.slug, one.decision.reason, one.hold_json()["until"]) for one in flood.held] == [
        ("c", "min-interval", old.later(hours=1).isoformat().replace("+00:00", "Z")),
        ("d", "paused", old.later(hours=2).isoformat().replace("+00:00", "Z")),
    ]
    assert apply(old, *held) == announced(flood) == []


def test_what_runs_behind_a_debounce_is_announced(old: Lab) -> None:
    """With the time at which it may run; what is below follows, and what is debounced again comes later still."""
    settling = chain(on="bcde", debounceMs=60_000)
    flood = announce(old, *settling)
    assert flood.held == ()
    later = {one.member.slug: one.not_before for one in flood.runs if one.not_before}
    assert later
    assert max(later.values()) > min(later.values())
    assert apply(old, *settling) == announced(flood)
    for slug, moment in sorted(later.items(), key=lambda one: one[1]):
        assert old.active(slug) == []
        old.now = moment
        work(old)
        assert old.runs(slug)[-1]["queued_at"] == moment, slug


def test_a_debounce_that_ends_in_quiet_hours_is_a_hold(old: Lab) -> None:
    """The hold is that of its end: quiet hours, with their end. Nothing runs before (docs/semantics.md#R8.3)."""
    quiet = {"quietHours": [{"from": "09:01", "to": "09:05"}]}
    settling = [{**one, **quiet} if one["slug"] == "c" else one for one in chain(on="bc", debounceMs=60_000)]
    flood = announce(old, *settling)
    assert [(one.member.slug, one.decision.reason, one.decision.blocks_until) for one in flood.held] == [
        ("c", "quiet-hours", old.later(minutes=5))
    ]
    assert (flood.runs, flood.reached) == ((), old.later(minutes=1))
    assert apply(old, *settling) == []
    assert until(old, flood.reached) == Counter()
    assert old.reason("c") == "quiet-hours"
    assert set(until(old, old.later(minutes=4))) == {("c", "upstream-update", old.now)}


def test_what_a_shorter_hold_releases_on_the_way_is_announced_for_its_time(lab: Lab) -> None:
    """A run that starts while another workflow debounces finishes then, and its readers follow from there."""
    often = workflow("x", "a", auto={**ON_UPDATE, "minIntervalMs": 20_000})
    lab.apply(often, workflow("y", "x"), workflow("c", "a"))
    lab.report("a", "1")
    work(lab)
    lab.report("a", "2")

    def settled(slug: str, inputs: str, debounce: int) -> Definition:
        return workflow(slug, inputs, auto={**ON_UPDATE, "debounceMs": debounce})

    then = [{**often, "description": "edited"}, settled("y", "x", 10_000), settled("c", "a", 60_000)]
    flood = announce(lab, *then)
    assert [(slug, at - lab.now) for slug, _, at in promised(flood)] == [
        ("x", timedelta(seconds=20)),
        ("y", timedelta(seconds=30)),
        ("c", timedelta(seconds=60)),
    ]
    assert apply(lab, *then) == []
    assert until(lab, flood.reached) == Counter(promised(flood))


def test_the_baseline_takes_today_as_fresh(old: Lab) -> None:
    """`--baseline now`: nothing is announced and nothing runs, not later either; the next change goes all the way."""
    flood = announce(old, *chain(on="bcde"), baseline=True)
    assert announced(flood) == apply(old, *chain(on="bcde"), baseline=True) == []
    assert {one.decision.reason for one in flood.cut} == {"up-to-date"}
    old.advance(hours=5)
    assert old.work() == []
    old.report("a", "3")
    assert old.work() == ["b", "c", "d", "e"]


def test_the_baseline_restarts_the_clocks_of_what_is_old(old: Lab) -> None:
    """A new ttl counts from its apply; with `--baseline now` an edit of something else restarts it too."""
    old.advance(hours=5)

    def aged(**more: Any) -> list[dict[str, Any]]:
        return [*chain(on="b")[:-1], workflow("e", "d", auto={}, freshness={"ttlMs": HOUR}, **more)]

    planned = announce(old, *aged())
    assert (announced(planned), planned.expiries) == ([], {"e": iso(old.later(hours=1))})
    assert apply(old, *aged()) == []
    old.advance(minutes=50)
    edited = aged(description="edited")
    assert announced(announce(old, *edited, baseline=True)) == apply(old, *edited, baseline=True) == []
    old.advance(minutes=50)
    assert old.work() == []
    old.advance(minutes=10)
    assert old.work() == ["e"]


def test_the_clock_of_an_edit_that_restarts_nothing_is_followed(old: Lab) -> None:
    """A ttl that ran out while nobody fired timers starts a run, and the preview says so."""
    timed = [*chain(on="b")[:-1], workflow("e", "d", auto={}, freshness={"ttlMs": HOUR})]
    old.apply(*timed)
    old.advance(hours=5)
    edited = [*timed[:-1], {**timed[-1], "description": "edited"}]
    assert announced(announce(old, *edited)) == [("e", "expired", False)]
    assert apply(old, *edited) == [("e", "expired", False)]


# Other edits.


def test_a_running_run_of_the_old_job_is_followed_by_one_of_the_new(lab: Lab) -> None:
    """It finishes, but what it made is of the old job; a policy edit needs no other run (docs/semantics.md#R10.2)."""
    lab.apply(workflow("b", "a"), workflow("c", "b"))
    lab.report("a", "1")
    lab.settle()
    run = lab.start()
    edit = workflow("b", "a", auto={**ON_UPDATE, "priority": 1})
    assert announced(announce(lab, edit, workflow("c", "b"))) == [("c", "missing", False)]
    change = workflow("b", "a", entrypoint="jobs:new")
    flood = announce(lab, change, workflow("c", "b"))
    assert flood.active == ("b",)
    assert announced(flood) == [("b", "definition-changed", False), ("c", "missing", False)]
    lab.apply(change, workflow("c", "b"))
    lab.finish(run)
    assert sorted(lab.work()) == ["b", "c"]


def test_who_waited_for_a_retired_workflow_goes_on(lab: Lab) -> None:
    """A join whose slow branch goes away waits for nobody any more, and is told although it is as before.

    See docs/semantics.md#R11.4.
    """
    diamond = [workflow("b", "a"), workflow("c", "a"), workflow("d", "b c")]
    lab.apply(*diamond)
    lab.report("a", "1")
    lab.work()
    lab.report("a", "2")
    lab.settle()
    lab.finish(lab.start_of("b"))
    lab.settle()
    assert lab.reason("d") == "waiting-for-upstream"
    rest = [diamond[0], diamond[2]]
    assert announced(announce(lab, *rest)) == [("d", "upstream-update", False)] == apply(lab, *rest)


def test_what_is_stale_at_two_levels_runs_once(old: Lab) -> None:
    """A changed job above a stale reader: both are queued at once, and the reader's run takes what comes from above."""
    both = [workflow("b", "a", entrypoint="jobs:new"), *chain(on="bc")[1:]]
    flood = announce(old, *both)
    assert announced(flood) == [("b", "definition-changed", False), ("c", "upstream-update", False)]
    assert apply(old, *both) == announced(flood)


def test_an_urgent_reader_does_not_wait_for_its_turn(lab: Lab) -> None:
    """It comes before what was queued earlier, and again after that; a reader that is not urgent comes once.

    See docs/semantics.md#R11.8.
    """
    urgent = workflow("z", "x y", auto={**ON_UPDATE, "priority": 1})
    lab.apply(workflow("x", "s"), workflow("y", "t"), urgent, workflow("later", "x y"))
    for source in "st":
        lab.report(source)
    work(lab)
    changed = [workflow("x", "s", entrypoint="jobs:new"), workflow("y", "t", entrypoint="jobs:new")]
    flood = announce(lab, *changed, urgent, workflow("later", "x y"))
    assert Counter(run.slug for one in flood.runs if (run := one.run)) == {"x": 1, "y": 1, "z": 2, "later": 1}
    assert Counter(announced(flood)) == Counter(apply(lab, *changed, urgent, workflow("later", "x y")))


# Random projects, histories and edits.


def _on(one: Definition, output: Definition, _luck: random.Random) -> None:
    output["autoMaterialize"] = dict(ON_UPDATE)


def _off(one: Definition, output: Definition, _luck: random.Random) -> None:
    output.pop("autoMaterialize", None)


def _job(one: Definition, _output: Definition, _luck: random.Random) -> None:
    one["steps"][0]["job"]["entrypoint"] = "jobs:other"


def _output(one: Definition, _output: Definition, _luck: random.Random) -> None:
    one["steps"][0]["produces"].append({"assetId": f"{one['slug']}.new"})


def _freshness(_one: Definition, output: Definition, luck: random.Random) -> None:
    output["freshness"] = {"ttlMs": luck.choice((1_000, HOUR))}


def _debounce(_one: Definition, output: Definition, _luck: random.Random) -> None:
    output["autoMaterialize"] = {**ON_UPDATE, "debounceMs": 60_000}


def _input(one: Definition, _output: Definition, _luck: random.Random) -> None:
    read = one["steps"][0]["consumes"]
    if all(item["assetId"] != "s0" for item in read):
        read.append({"assetId": "s0"})


EDITS: tuple[Callable[[Definition, Definition, random.Random], None], ...]
EDITS = (_on, _on, _on, _off, _job, _output, _freshness, _debounce, _input)


def edited(luck: random.Random, workflows: list[Definition]) -> list[Definition]:
    """Return the project after random edits: workflows are changed, one may be removed, one may be added."""
    made = deepcopy(workflows)
    for one in luck.sample(made, luck.randint(1, len(made))):
        luck.choice(EDITS)(one, one["steps"][0]["produces"][0], luck)
    if luck.random() < 0.3:
        made.remove(luck.choice(made))
    if luck.random() < 0.5:
        made.append(workflow("extra", ["s0", made[-1]["slug"]]))
    return [agreeing(one) for one in made]


def agreeing(one: Definition) -> Definition:
    """Return it with the same block on every output: contradicting policies are refused (docs/semantics.md#R2.1)."""
    first, *others = one["steps"][0]["produces"]
    for output in others:
        output.pop("autoMaterialize", None)
        output.update({key: value for key, value in first.items() if key == "autoMaterialize"})
    return one


def live(lab: Lab, luck: random.Random) -> None:
    """Let some days pass with reports and runs."""
    for _ in range(luck.randint(1, 3)):
        for row in lab.rows("SELECT id FROM assets WHERE producer_id IS NULL ORDER BY id"):
            if luck.random() < 0.7:
                lab.report(row["id"])
        work(lab)
        lab.advance(seconds=luck.choice((5, 60, 400)))
    work(lab)


@pytest.mark.parametrize(
    "seed", [*range(SEEDS), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(SEEDS, MORE_SEEDS))]
)
def test_what_is_announced_is_what_runs(seed: int, lab: Lab) -> None:
    """After any history and any edit: the same runs for the same reasons and the same holds, with a baseline or not."""
    luck = random.Random(seed)  # noqa: S311 - a seed, not a secret
    first = [agreeing(one) for one in random_project(luck, dense=seed % 2 == 0)]
    quiet = deepcopy(first)
    for one in luck.sample(quiet, luck.randint(0, len(quiet))):
        _off(one, one["steps"][0]["produces"][0], luck)
        agreeing(one)
    for definitions in (first, quiet):
        lab.apply(*definitions)
        live(lab, luck)
    then, baseline = edited(luck, quiet), seed % 4 == 3
    flood = announce(lab, *then, baseline=baseline)
    ran = apply(lab, *then, baseline=baseline)
    assert Counter(announced(flood)) == Counter(ran)
    assert until(lab, flood.reached) == Counter(promised(flood))
    told = {one.member.slug: one.decision.reason for one in (*flood.held, *flood.cut) if not one.behind}
    assert told == {slug: lab.reason(slug) for slug in told}
