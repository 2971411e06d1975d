"""A consumer of some columns of an input does not run when only others changed (docs/semantics.md#R1.6)."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from freshline import counters
from freshline.cli.render.decisions import sentence, vectors
from freshline.model.column_sets import set_key
from freshline.store.store import Store
from tests.store_harness import Lab, workflow

AB, C = ("a", "b"), ("c",)
KEY, OTHER = set_key(AB), set_key(C)


def sets(ab: str, c: str = "x") -> dict[str, dict[str, str]]:
    """Return the versions of the sets of `table`."""
    return {"table": {KEY: ab, OTHER: c}}


class Chain:
    """A source, a table that is made from it, and a consumer of two of its columns."""

    def __init__(self, lab: Lab, **consumer: Any) -> None:
        self.lab = lab
        lab.apply(workflow("table", "s"), workflow("consumer", "table", **consumer))
        self.made = 0

    def make(self, columns: dict[str, dict[str, str]] | None = None) -> None:
        """Publish the table with other data."""
        self.made += 1
        self.lab.report("s", str(self.made))
        self.lab.settle()
        self.lab.finish(self.lab.start_of("table"), columns=columns, table=f"table-{self.made}")
        self.lab.settle()

    def consume(self, **more: Any) -> None:
        """Let the consumer, which must be queued, read two columns."""
        self.lab.finish(self.lab.start_of("consumer"), **{"reads": {"table": AB}, **more})
        self.lab.settle()

    @property
    def queued(self) -> bool:
        """Whether the consumer is queued."""
        return any(run["slug"] == "consumer" and run["status"] == "queued" for run in self.lab.runs())

    @property
    def decision(self) -> Any:
        """The last decision about the consumer."""
        sql = "SELECT d.* FROM decisions d JOIN workflows w ON w.id = d.workflow_id WHERE w.slug = 'consumer'"
        return self.lab.rows(f"{sql} ORDER BY d.at DESC, d.id DESC LIMIT 1")[0]


def test_other_columns_cause_no_run(lab: Lab) -> None:
    """The decision says so, a counter counts it, and the next change is compared with what was consumed."""
    chain = Chain(lab)
    chain.make(sets("1"))
    chain.consume()
    before = counters.snapshot().get("runs_avoided_by_columns", {}).get("", 0)
    for number in range(3):
        lab.advance(seconds=1)
        chain.make(sets("1", str(number)))
        assert not chain.queued
        (found,) = chain.decision["evidence"]["inputs"]
        assert chain.decision["reason"] == "up-to-date"
        assert (found["unread"], found["changed"], found["to"]) == (True, False, f"table-{chain.made}")
        assert sentence(chain.decision) == "nothing to do: only columns changed that it does not read"
        assert vectors(chain.decision)[0][-1] == "changed, not in the columns that it reads"
    event = lab.one("SELECT event_id FROM snapshots WHERE asset_id = 'table' ORDER BY sequence DESC LIMIT 1")
    (outcome,) = lab.store.reader.event(str(event))["fates"]
    assert (outcome["fate"], outcome["reason"]) == ("ignored", "up-to-date")
    assert counters.snapshot()["runs_avoided_by_columns"][""] - before == 3
    assert lab.store.evaluation.sweep() == 0
    lab.advance(seconds=1)
    chain.make(sets("2"))
    assert chain.queued


def test_the_producer_learns_what_is_read(lab: Lab) -> None:
    """The run that follows computes versions of the sets that current consumers read, those of most consumers first."""
    chain = Chain(lab)
    chain.make()
    assert lab.rows("SELECT columns FROM edges WHERE asset_id = 'table'") == [{"columns": None}]
    chain.consume()
    lab.report("s", "again")
    lab.settle()
    assert dict(lab.start_of("table").column_sets) == {"table": [list(AB)]}


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_only_so_many_sets(lab: Lab, limit: int) -> None:
    """Those with the most consumers; the others compare whole rows."""
    lab.store = Store(lab.database, replace(lab.settings, column_sets=limit))
    lab.apply(workflow("table", "s"), *(workflow(slug, "table") for slug in ("one", "two", "three")))
    lab.report("s", "1")
    lab.settle()
    lab.finish(lab.start_of("table"))
    lab.settle()
    for slug, columns in (("one", C), ("two", AB), ("three", AB)):
        lab.finish(lab.start_of(slug), reads={"table": columns})
    lab.report("s", "2")
    lab.settle()
    wanted = [list(AB), list(C)][:limit]
    assert dict(lab.start_of("table").column_sets) == ({"table": wanted} if limit else {})


@pytest.mark.parametrize(
    ("consumed", "head"),
    [
        (None, sets("1")),  # the version that was read has no version of the set
        (sets("1"), None),  # the head has none
        (sets("1"), {"table": {OTHER: "1"}}),  # the head has that of another set
        (sets("1"), sets("2")),
    ],
)
def test_what_is_not_known_to_be_equal_is_a_change(lab: Lab, consumed: Any, head: Any) -> None:
    """Then whole rows are compared."""
    chain = Chain(lab)
    chain.make(consumed)
    chain.consume()
    chain.make(head)
    assert chain.queued


def test_whole_rows(lab: Lab) -> None:
    """A run that read whole rows, also of one step of several, runs for every change."""
    chain = Chain(lab)
    chain.make(sets("1"))
    chain.consume(reads={})
    chain.make(sets("1", "2"))
    assert chain.queued


def test_another_job_reads_other_columns(lab: Lab) -> None:
    """What the old job read says nothing about the new one: its first run compares whole rows."""
    chain = Chain(lab)
    chain.make(sets("1"))
    chain.consume()
    lab.apply(workflow("table", "s"), workflow("consumer", "table", entrypoint="jobs:other"), baseline=True)
    lab.settle()
    assert not chain.queued
    chain.make(sets("1", "2"))
    assert chain.queued


def test_a_run_of_the_old_definition_teaches_nothing(lab: Lab) -> None:
    """It ends after an apply: the new definition may read other columns."""
    chain = Chain(lab)
    chain.make(sets("1"))
    run = lab.start_of("consumer")
    lab.apply(workflow("table", "s"), workflow("consumer", "table", entrypoint="jobs:other"))
    lab.finish(run, reads={"table": AB})
    lab.settle()
    assert lab.rows("SELECT columns FROM edges WHERE asset_id = 'table'") == [{"columns": None}]
    chain.consume(reads={"table": C})
    assert lab.rows("SELECT columns FROM edges WHERE asset_id = 'table'") == [{"columns": list(C)}]


def test_the_wait_counts_from_the_change_that_is_read(lab: Lab) -> None:
    """A change of other columns begins no debounce."""
    chain = Chain(lab, auto={"onUpstreamUpdate": True, "debounceMs": 10_000, "maxDelayMs": 30_000})
    chain.make(sets("1"))
    lab.live(seconds=20)
    chain.consume()
    chain.make(sets("1", "2"))
    lab.live(seconds=60)
    assert not chain.queued
    chain.make(sets("2"))
    assert not chain.queued
    lab.live(seconds=11)
    assert chain.queued


def test_below_a_consumer_at_rest_nothing_waits(lab: Lab) -> None:
    """A workflow that was passed over is no ancestor in motion, and its data is of the current generation."""
    lab.apply(workflow("table", "s"), workflow("a", "table"), workflow("b", "table"), workflow("d", "a b"))
    for number, c in ((1, "1"), (2, "2")):
        lab.report("s", str(number))
        lab.settle()
        lab.finish(lab.start_of("table"), columns=sets("1", c), table=f"table-{number}")
        lab.settle()
        if number == 1:
            lab.finish(lab.start_of("a"), reads={"table": AB})
        lab.finish(lab.start_of("b"), reads={"table": C}, b=f"b-{number}")
        lab.settle()
        run = lab.start_of("d")
        assert not lab.one("SELECT mixed FROM runs WHERE id = %s", run.id)
        lab.finish(run)
        lab.settle()
    assert [run["slug"] for run in lab.runs()].count("a") == 1


def test_a_rollback_is_compared_as_a_whole(lab: Lab) -> None:
    """Its snapshot has no versions of sets."""
    chain = Chain(lab)
    chain.make(sets("1"))
    chain.consume()
    lab.report("s", "x")
    lab.settle()
    lab.finish(lab.start_of("table"), columns={}, table="other")
    lab.settle()
    assert chain.queued


Table = list[tuple[int, ...]]
SETS = {"one": ("a", "b"), "two": ("c",), "three": ("b", "d")}


def projected(rows: Table, columns: tuple[str, ...]) -> str:
    """Return the multiset of the rows projected to some columns, as a text."""
    return repr(sorted(tuple(row["abcd".index(name)] for name in columns) for row in rows))


def play(lab: Lab, changes: int) -> None:
    """Change one or two of four columns at random; compare the runs of three consumers with an oracle's."""
    luck = random.Random(1)  # noqa: S311
    lab.apply(workflow("table", "s"), *(workflow(slug, "table") for slug in SETS))
    rows: Table = [(7, 7, 7, 7)] * 3
    avoided = 0
    for number in range(changes):
        # The first run says what is read, and what the second one reads has versions.
        before, chosen = rows, luck.sample(range(4), min(4, number * 4) if number < 2 else luck.choice((1, 2)))
        values = [[luck.randint(0, 1) if at in chosen else row[at] for row in rows] for at in range(4)]
        rows = list(zip(*values, strict=True))
        lab.report("s", str(number))
        lab.settle()
        run = lab.start_of("table")
        sets = {set_key(one): projected(rows, tuple(one)) for one in run.column_sets.get("table", ())}
        lab.finish(run, columns={"table": sets}, table=projected(rows, tuple("abcd")))
        lab.settle()
        expected = {slug for slug, columns in SETS.items() if projected(before, columns) != projected(rows, columns)}
        queued = set(lab.active())
        if number > 1:
            assert queued == expected, f"change {number}: {before} -> {rows}"
            avoided += len(SETS) - len(expected)
        for slug in queued:
            lab.finish(lab.start_of(slug), reads={"table": SETS[slug]})
        lab.settle()
    assert avoided > changes / 2


def test_runs_equal_those_of_an_oracle(lab: Lab) -> None:
    """Each consumer runs when, and only when, the rows projected to its columns differ from those that it has read."""
    play(lab, 60)


@pytest.mark.full
def test_runs_of_a_thousand_changes_equal_those_of_an_oracle(lab: Lab) -> None:
    """The same, for long."""
    play(lab, 1_000)
