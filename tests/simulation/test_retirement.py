"""Retention and frozen partitions in memory, and the same in the store (docs/semantics.md#R13.14)."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pytest

from freshline.decide.batch import with_defaults
from freshline.model.policy import Policy
from freshline.model.state import reference
from freshline.simulation import Catalogue, Member, Simulator
from freshline.store.apply.stored_graph import read_graph
from tests.scenarios.test_partitions import DAYS, MONTHS
from tests.scenarios.test_retirement import kept
from tests.store_harness import Lab, workflow

SOURCE: dict[str, Any] = {"assetId": "raw", "partitioning": {"time": "day", "start": "2025-12-30"}}
WINDOW = {"clean": {"window": {"from": -1, "to": 0}, "require": "any"}}


def definitions(retain: str, frozen: str) -> list[dict[str, Any]]:
    """Return workflows with every kind of reader of partitions that are removed, and with frozen ones."""
    return [
        kept("clean", {"raw": None}, DAYS, retain=retain),
        kept("closed", {"raw": None}, DAYS, frozen=frozen),
        kept("window", WINDOW, DAYS),
        kept("monthly", {"clean": {"require": "any", "onRetire": "recompute"}}, MONTHS),
        kept("total", {"clean": None}),
        kept("sealed", {"clean": {"onRetire": "keep"}}),
        workflow("end", ["total"]),
    ]


class Both:
    """The same in the store and in memory."""

    def __init__(self, lab: Lab, retain: str, frozen: str) -> None:
        self.lab = lab
        lab.apply(*definitions(retain, frozen), sources=(SOURCE,))
        with lab.database.reading() as connection:
            graph = read_graph(connection)
        rows = lab.rows("SELECT id, slug, policy, job_fingerprint FROM workflows ORDER BY id")
        policies = {row["id"]: with_defaults(Policy.from_json(row["policy"]), lab.store.settings) for row in rows}
        members = [
            Member(
                id=row["id"],
                slug=row["slug"],
                policy=policies[row["id"]],
                job_fingerprint=row["job_fingerprint"],
                inputs=graph.inputs(row["id"]),
                outputs=graph.outputs_of(row["id"]),
            )
            for row in rows
        ]
        self.simulator = Simulator(Catalogue(members, graph), lab.now)
        self.simulator.start(fresh=False)
        self.mine: list[tuple[datetime, str]] = []
        self.theirs: list[tuple[datetime, str]] = []

    def settle(self) -> None:
        """Run all that is due, in both, and remember what ran when."""
        busy = True
        while busy:
            self.lab.store.retirement.retire_partitions()
            before = len(self.lab.runs())
            self.lab.work()
            new = self.lab.runs()[before:]
            self.theirs += [(self.lab.now, reference(run["slug"], run["partition_key"])) for run in new]
            busy = bool(new)
        self.simulator.settle()
        while (run := self.simulator.claim()) is not None:
            self.mine.append((self.simulator.now, reference(run.slug, run.partition_key)))
            self.simulator.succeed(run, self._versions(run.workflow_id, run.pins))
            self.simulator.settle()

    def _versions(self, number: int, pins: Any) -> dict[str, str]:
        """Return what a run makes: a function of what it read."""
        member = self.simulator.catalogue.members[number]
        text = ",".join(f"{name}={pin.data_version}" for name, pin in sorted(pins.items()))
        return {reference(one, member.partition_key): text for one in member.outputs}

    def report(self, key: str, version: str) -> None:
        """Report a day in both."""
        self.lab.report("raw", version, partition_key=key)
        self.simulator.report("raw", version, key)

    def advance(self, to: datetime) -> None:
        """Let time pass in both, with all that becomes due in between."""
        while True:
            at = self.simulator.next_moment()
            now = min(to, at) if at is not None else to
            self.lab.now = self.simulator.now = max(now, self.simulator.now)
            self.settle()
            if now >= to:
                return

    def heads(self) -> tuple[set[str], set[str]]:
        """Return what has data in the store and in memory."""
        rows = self.lab.rows("SELECT asset_id, partition_key FROM heads WHERE retired_at IS NULL")
        mine = {name for name, asset in self.simulator.assets.items() if asset.current is not None}
        return {reference(row["asset_id"], row["partition_key"]) for row in rows}, mine

    def holds(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the holds that stand, in the store and in memory."""
        wanted = ("input-retired", "frozen")
        rows = self.lab.rows(
            "SELECT w.slug, c.partition_key, c.hold FROM considerations c JOIN workflows w ON w.id = c.workflow_id"
            " WHERE c.hold = ANY (%s)",
            list(wanted),
        )
        theirs = {reference(row["slug"], row["partition_key"]): row["hold"] for row in rows}
        mine = {}
        for number, member in self.simulator.catalogue.members.items():
            hold = self.simulator.considerations.hold_of(number)
            if hold in wanted:
                mine[member.name] = str(hold)
        return theirs, mine


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 10))])
def test_retention_is_the_same_in_the_store_and_in_memory(seed: int, lab: Lab) -> None:
    """A month of reports, late and corrected, with retention and frozen partitions: the same runs, data and holds."""
    chosen = random.Random(seed)  # noqa: S311 - a test
    both = Both(lab, f"{chosen.choice([2, 3, 5])}d", f"{chosen.choice([1, 2, 4])}d")
    both.settle()
    seen: set[str] = set()
    for step in range(14):
        day = lab.now - timedelta(days=chosen.randint(1, 6))
        if f"{day:%Y-%m-%d}" >= "2025-12-30":
            both.report(f"{day:%Y-%m-%d}", f"v{chosen.randint(1, 3)}")
        both.settle()
        both.advance(lab.now + timedelta(hours=chosen.choice([5, 24, 40])))
        theirs, mine = both.heads()
        assert theirs == mine, f"step {step}"
        held, meant = both.holds()
        assert held == meant, f"step {step}"
        seen |= set(held.values())
    assert sorted(both.theirs) == sorted(both.mine)
    assert len(both.mine) == len(set(both.mine)), "nothing ran twice at one moment"
    assert lab.events("asset.partition.retired")
    assert seen == {"input-retired", "frozen"}
