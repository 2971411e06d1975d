"""docs/policies.md matches the behaviour: every definition loads, and every timeline is simulated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest

from freshline.decide.times import expires_at
from freshline.definitions.loading.project import load_project
from freshline.definitions.policy import compile_freshness
from freshline.definitions.schema.base import Model
from freshline.definitions.schema.timing import AutoMaterialize, Backoff, Freshness, InputFreshness, QuietHours
from freshline.errors import DefinitionErrors
from freshline.model.enums import Reason, RunStatus
from freshline.settings import Settings
from freshline.simulation import Catalogue, Observer, Simulator
from freshline.simulation.loading import load_workflows
from freshline.simulation.records import Asset
from freshline.testing import MONDAY, Chain, given
from tests.docs.pages import Page, codes

PAGE = Page("docs/policies.md")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
BEGINNINGS = ("time", "nothing yet", "and then")
RUN_REASONS = ("missing", "retry", "expired")
BLOCKS = re.findall(r"^```(yaml|text)\n(.*?)^```", PAGE.text, re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Timeline:
    """One timeline of the page: times, and per row the event or state at each of them."""

    definition: str
    beginning: str
    moments: tuple[datetime, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]

    def play(self, chain: Chain) -> Chain:
        """Simulate the timeline column by column, and compare the states."""
        for number, moment in enumerate(self.moments):
            chain = chain.at(moment) if chain.steps == () or moment > chain.now else chain
            words = [(name, word) for name, cells in self.rows for word in cells[number].split()]
            for name, word in words:
                chain = HAPPENS[word](chain, name) if word in HAPPENS else chain
            for name, word in words:
                if word not in HAPPENS:
                    compare(chain, name, word)
        return chain


HAPPENS = {
    "report": lambda chain, name: chain.report(name),
    "again": lambda chain, name: chain.report(name, version=chain.simulator.assets[name].head.data_version),
    "starts": lambda chain, name: chain.start(name),
    "done": lambda chain, name: chain.succeed(name),
    "same": lambda chain, name: chain.succeed(name, changed=False),
    "fails": lambda chain, name: chain.fail(name),
    "pause": lambda chain, name: chain.pause(name),
    "resume": lambda chain, name: chain.resume(name),
    "cancel": lambda chain, name: chain.cancel(name),
}


def compare(chain: Chain, name: str, word: str) -> None:
    """Check that the workflow is in the state that the cell names."""
    runs = {run.slug: run for run in chain.simulator.active.values()}
    if word == "fresh":
        chain.expect_fresh(name)
        assert name not in runs
    elif word == "stale":
        chain.expect_stale(name)
    elif word in {"queued", "running"}:
        chain.expect_run(name, mixed=False)
        assert runs[name].status == word
    elif word == "mixed":
        chain.expect_run(name, mixed=True)
    elif word in RUN_REASONS:
        chain.expect_run(name, word, mixed=False)
        assert runs[name].status is RunStatus.QUEUED
    else:
        chain.expect_held(name, word)


def read(definition: str, text: str) -> Timeline:
    """Parse a timeline; the column heads determine where the cells begin."""
    head, *lines = text.splitlines()
    starts = [match.start() for match in re.finditer(r"(?<!\S)\S+(?: \S+)*", head)]
    beginning, *moments = cut(head, starts)
    rows = tuple((first, tuple(rest)) for first, *rest in (cut(line, starts) for line in lines))
    return Timeline(definition, beginning, tuple(dates(moments)), rows)


def cut(line: str, starts: list[int]) -> list[str]:
    """Cut a line into cells; a word across two columns is a mistake in the timeline."""
    assert [line for start in starts[1:] if line[start - 1 : start].strip()] == []
    ends = [*starts[1:], None]
    return [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]


def dates(moments: list[str]) -> Iterator[datetime]:
    """Parse times: `Tue 06:00` is the next Tuesday; without a day it is the same day."""
    day = MONDAY
    for moment in moments:
        *name, clock = moment.split()
        day += timedelta(days=(DAYS.index(name[0]) - day.weekday()) % 7 if name else 0)
        yield datetime.combine(day, time.fromisoformat(clock), UTC)


def timelines() -> list[Timeline]:
    """Return all timelines of the page, each with the definition above it."""
    found: list[Timeline] = []
    definition = ""
    for language, text in BLOCKS:
        if language == "yaml":
            definition = text
        elif text.startswith(BEGINNINGS):
            found.append(read(definition, text))
    return found


TIMELINES = timelines()


@pytest.mark.parametrize("number", range(len(TIMELINES)), ids=lambda n: f"{n}-{TIMELINES[n].rows[-1][0]}")
def test_every_timeline_is_what_happens(number: int) -> None:
    """Played through the code that decides, each picture holds in every column."""
    timeline = TIMELINES[number]
    chain = given(timeline.definition, fresh=timeline.beginning != "nothing yet")
    if timeline.beginning == "and then":
        chain = TIMELINES[number - 1].play(chain)
    timeline.play(chain)


def test_the_timelines_are_many() -> None:
    """A picture that is not recognised as one would not be played."""
    pictures = [text for language, text in BLOCKS if language == "text" and re.search(r"\d\d:\d\d", text)]
    assert len(pictures) == len(TIMELINES)


def test_the_legend_has_every_word() -> None:
    """All that happens is explained, and what is held is held for a reason that exists."""
    legend = {word for row in PAGE.table("How to read the timelines") for word in codes(row[0])}
    states = {"fresh", "stale", "queued", "running", "mixed", *RUN_REASONS}
    assert legend == states | set(HAPPENS)
    shown = {word for timeline in TIMELINES for _, cells in timeline.rows for cell in cells for word in cell.split()}
    assert shown - legend <= set(Reason)


@pytest.mark.parametrize("text", PAGE.blocks("yaml"))
def test_every_definition_loads(text: str, tmp_path: Path) -> None:
    """Nothing but undeclared sources is warned about."""
    (tmp_path / "workflows").mkdir()
    (tmp_path / "freshline.toml").write_text(PAGE.blocks("toml")[0], encoding="utf-8")
    (tmp_path / "workflows" / "example.yaml").write_text(text, encoding="utf-8")
    project = load_project(tmp_path)
    assert project.workflows
    assert [str(one) for one in project.warnings if "neither produced nor a declared source" not in str(one)] == []


@pytest.mark.parametrize("block", [AutoMaterialize, Freshness, InputFreshness, Backoff, QuietHours])
def test_every_field_is_told(block: type[Model]) -> None:
    """Each field of a policy has its place on the page."""
    named = set(re.findall(r"\w+", " ".join(codes(PAGE.prose))))
    assert {field.alias or name for name, field in block.model_fields.items()} - named == set()


def test_blocks_are_merged_as_told() -> None:
    """The page's example gives the policy that the page names, and a contradiction the message that it shows."""
    text = PAGE.blocks("yaml")[0]
    (sales,) = load_workflows(text)
    policy = sales.policy
    assert all(one.triggers for one in policy.inputs)
    assert (policy.on_missing, policy.priority, policy.debounce_ms) == (True, 5, 60_000)
    with pytest.raises(DefinitionErrors) as refused:
        load_workflows(text.replace("{ priority: 5 }", "{ priority: 5, debounce: 2m }"))
    assert PAGE.blocks("text")[0].strip() in str(refused.value)


def test_the_fields_that_must_agree_are_named() -> None:
    """The table of the merge covers every field of the block but `enabled`."""
    named = [name for row in PAGE.table("One policy per workflow") for name in codes(row[0])]
    assert sorted([*named, "enabled"]) == sorted(field.alias or "" for field in AutoMaterialize.model_fields.values())


def nightly() -> Freshness:
    """Return the freshness of the example with cron."""
    freshness = load_workflows(example("nightly"))[0].definition.steps[0].produces[0].freshness
    assert freshness is not None
    return freshness


@pytest.mark.parametrize("row", PAGE.table("Freshness: `ttl`, `cadence`, `cron`"), ids=lambda row: str(row[0]))
def test_cron_at_clock_changes(row: list[str]) -> None:
    """The table of the page is what the code computes."""
    after, expected = (datetime.fromisoformat(cell).replace(tzinfo=UTC) for cell in row[:2])
    found = expires_at(compile_freshness(nightly()), after)
    assert found is not None
    assert found[0] == expected


def test_a_max_age_alerts_once_and_runs_nothing() -> None:
    """An asset that nobody refreshes is overdue once (docs/semantics.md#R8.4)."""
    text = """
slug: kept
steps:
  - id: kept
    job: { kind: spark.sql, sql: "SELECT 1 AS n" }
    produces: [{ assetId: kept, freshness: { maxAge: 26h }, autoMaterialize: {} }]
"""
    observer = Alarms()
    simulator = Simulator(Catalogue.of(load_workflows(text), Settings(project=Path())), MONDAY, observer=observer)
    simulator.start(fresh=True)
    simulator.advance(MONDAY + timedelta(days=5))
    assert observer.rung == [MONDAY + timedelta(hours=26)]
    assert simulator.active == {}


class Alarms(Observer):
    """Records when an asset was overdue."""

    def __init__(self) -> None:
        self.rung: list[datetime] = []

    def overdue(self, simulator: Simulator, asset: Asset) -> None:  # noqa: ARG002 - the signature is given
        self.rung.append(simulator.now)


def test_priorities_age() -> None:
    """The rows of the table start in the order that it says: 10 seconds of waiting are worth 1."""
    rows = PAGE.table("Priorities")
    names = [f"w{number}" for number in range(len(rows))]
    texts = [WAITING.format(name=name, priority=row[1]) for name, row in zip(names, rows, strict=True)]
    chain = given("---".join(texts))
    for name, row in zip(names, rows, strict=True):
        moment = datetime.combine(MONDAY, time.fromisoformat(row[0]), UTC)
        chain = (chain.at(moment) if moment > chain.now else chain).report(f"{name}.in")
    simulator = chain.simulator
    started = [run.slug for run in iter(simulator.claim, None)]
    places = ["first", "second", "third"]
    assert [places[started.index(name)] for name in names] == [row[2] for row in rows]


WAITING = """
slug: {name}
steps:
  - id: one
    job: {{ kind: spark.sql, sql: "SELECT * FROM {name}_in" }}
    consumes: [{{ assetId: {name}.in }}]
    produces: [{{ assetId: {name}.out, autoMaterialize: {{ onUpstreamUpdate: true, priority: {priority} }} }}]
"""


def test_the_example_of_a_pool_is_a_project(tmp_path: Path) -> None:
    """The two blocks of the page fit together; a pool that the manifest does not name is refused."""
    (manifest,), definition = PAGE.blocks("toml"), example("load-orders")
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "load.yaml").write_text(definition)
    (tmp_path / "freshline.toml").write_text(manifest)
    project = load_project(tmp_path)
    assert (dict(project.pools), project.workflows[0].definition.pool) == ({"warehouse": 2}, "warehouse")
    (tmp_path / "freshline.toml").write_text(manifest.replace("warehouse", "warehouses"))
    with pytest.raises(DefinitionErrors, match="did you mean 'warehouses'"):
        load_project(tmp_path)


def example(slug: str) -> str:
    """Return the first definition on the page that begins with this workflow."""
    return next(text for text in PAGE.blocks("yaml") if text.startswith(f"slug: {slug}\n"))


def test_who_does_not_wait_says_nothing() -> None:
    """`waitForUpstream: false` runs at once, and its run is not `mixed`."""
    text = example("clean").replace("maxWait: 30m", "waitForUpstream: false")
    given(text).report("orders").expect_runs("clean", "report").expect_run("report", mixed=False)


def test_an_ancestor_whose_hold_ends_in_time_is_waited_for() -> None:
    """A pause that ends before the deadline is worth waiting for, a longer one is not."""
    chain = given(example("clean"))
    chain.pause("clean", minutes=20).report("orders").expect_held("report", "waiting-for-upstream")
    chain.pause("clean", minutes=40).report("orders").expect_run("report", mixed=True)


def test_a_cause_that_is_no_input_waits_for_any_ancestor() -> None:
    """The end of a chain that expires while its ancestor runs waits for it; a change alone would not."""
    chain = given(example("slow")).report("ticks").start("slow")
    chain.expire("after").expect_held("after", "waiting-for-upstream")


def test_an_expiry_does_not_wait_for_all() -> None:
    """With `when: all`, an expiry runs with what is there."""
    chain = given(example("match")).report("orders").expect_held("match", "waiting-for-all")
    chain.expire("match").expect_run("match", "expired")


def test_an_expiry_does_not_settle() -> None:
    """Debouncing is for updates alone."""
    chain = given(example("clicks")).report("raw").expect_held("clicks", "debouncing")
    chain.expire("clicks").expect_runs("clicks")


def test_a_mixed_run_is_followed_by_care() -> None:
    """After a mix, an input that comes through the ancestor in motion is waited with, too (ADR 0004)."""
    chain = given(example("clean")).report("orders").start("clean").report("orders")
    mixed = chain.advance(minutes=30).expect_run("report", mixed=True).succeed("report")
    mixed.succeed("clean").expect_runs("clean").expect_held("report", "waiting-for-upstream")
