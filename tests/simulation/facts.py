"""The facts that are compared: everything that both the store and the simulator keep, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from freshline.decide import Decision
from freshline.model.state import Version, reference
from freshline.simulation import Member, Observer, Run, Simulator
from freshline.simulation.backfill_records import Backfill
from tests.store_harness import Lab

Spoken = tuple[str, str, datetime]
Facts = dict[str, Any]

DECISIONS = """
SELECT w.slug, d.partition_key AS key, d.outcome, d.reason, d.at
  FROM decisions d JOIN workflows w ON w.id = d.workflow_id ORDER BY d.at, d.id
"""
PARTITIONS = """
SELECT w.slug, coalesce(p.partition_key, '') AS key, p.consumed_versions, p.succeeded_at, p.started_at,
       coalesce(p.mixed, false) AS mixed,
       coalesce(p.cause_repeats, 0) AS cause_repeats, coalesce(p.runs_avoided, 0) AS avoided,
       coalesce(p.failures, 0) AS failures, p.eligible_at, p.breaker_at, p.probed_versions
  FROM workflows w LEFT JOIN workflow_partitions p ON p.workflow_id = w.id
   AND NOT (p.partition_key = '' AND EXISTS (SELECT FROM assets WHERE producer_id = w.id AND partitioning IS NOT NULL))
"""
HOLDS = "SELECT w.slug, c.partition_key AS key, c.hold FROM considerations c JOIN workflows w ON w.id = c.workflow_id"
TIMERS = "SELECT asset_id, partition_key AS key, due_at, expired_at FROM timers WHERE kind = 'expiry'"
PARTS = """
SELECT p.backfill_id::text AS id, w.slug, p.total, p.done, p.rest IS NOT NULL AS resting
  FROM backfill_workflows p JOIN workflows w ON w.id = p.workflow_id ORDER BY p.backfill_id, p.workflow_id
"""
STATES = """
SELECT p.backfill_id::text AS id, w.slug, p.partition_key AS key, p.state
  FROM backfill_partitions p JOIN workflows w ON w.id = p.workflow_id
"""
HEADS = "SELECT asset_id, partition_key AS key, sequence, data_version, produced_at FROM heads"


@dataclass
class Said(Observer):
    """Records the decisions and the runs of a simulator."""

    decisions: dict[str, list[Spoken]] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)

    def decided(self, simulator: Simulator, member: Member, decision: Decision, run: Run | None) -> None:
        if decision.run is not None and run is not None:
            self.runs.append(run)
        said = (str(decision.outcome), str(decision.reason), simulator.now)
        self.decisions.setdefault(member.name, []).append(said)


def once(said: Iterable[Spoken]) -> list[Spoken]:
    """Return the decisions without repetitions. Every decision that queued a run counts."""
    found: list[Spoken] = []
    for one in said:
        if one[0] == "run" or not found or found[-1][:2] != one[:2]:
            found.append(one)
    return found


def stored(lab: Lab) -> Facts:
    """Return all facts of the real store."""
    heads = {_asset(row): (row["sequence"], row["data_version"], row["produced_at"]) for row in lab.rows(HEADS)}
    timers = {_asset(row): (row["due_at"], row["expired_at"]) for row in lab.rows(TIMERS)}
    return {
        "runs": _stored_runs(lab),
        "heads": heads,
        "timers": timers,
        "holds": {_unit(row): row["hold"] for row in lab.rows(HOLDS)},
        "partitions": _known({_unit(row): _stored_partition(row) for row in lab.rows(PARTITIONS)}),
        "backfills": _stored_backfills(lab),
        "groups": sorted(tuple(row["members"]) for row in lab.rows("SELECT members FROM report_groups")),
    }


def stored_decisions(lab: Lab) -> Facts:
    """Return the decisions of the store about every workflow, with their times."""
    found: dict[str, list[Spoken]] = {}
    for row in lab.rows(DECISIONS):
        found.setdefault(_unit(row), []).append((row["outcome"], row["reason"], row["at"]))
    return {slug: once(said) for slug, said in found.items()}


def _stored_runs(lab: Lab) -> list[Facts]:
    rows = lab.rows("SELECT id::text FROM backfills ORDER BY requested_at")
    numbers = {row["id"]: f"b{number}" for number, row in enumerate(rows, start=1)}
    return [_stored_run(row, numbers.get) for row in lab.runs()]


def _stored_run(row: dict[str, Any], number_of: Callable[[str], str | None]) -> Facts:
    trigger = row["trigger"]
    return {
        "slug": reference(row["slug"], row["partition_key"]),
        "status": row["status"],
        "reason": trigger["reason"],
        "upstream": sorted(map(_change, trigger["upstream"])),
        "backfill": number_of(trigger.get("backfillId", "")),
        "expiry": trigger["expiry"],
        "pins": {asset_id: (pin["sequence"], pin["dataVersion"]) for asset_id, pin in row["pins"].items()},
        "mixed": row["mixed"],
        "times": (row["queued_at"], row["started_at"], row["finished_at"]),
    }


def _stored_partition(row: dict[str, Any]) -> Facts:
    read = {one: (pin["sequence"], pin["dataVersion"]) for one, pin in (row["consumed_versions"] or {}).items()}
    return {key: value for key, value in row.items() if key not in {"slug", "key"}} | {"consumed_versions": read}


def remembered(simulator: Simulator, said: Said) -> Facts:
    """Return all facts of the simulator."""
    assets, members = simulator.assets.values(), simulator.catalogue.members
    clocks = {one.id: (one.due_at, one.expired.at if one.expired else None) for one in assets}
    return {
        "runs": [_run(run) for run in said.runs],
        "heads": {a.id: (a.head.sequence, a.head.data_version, a.head.produced_at) for a in assets if a.head},
        "timers": {asset_id: clock for asset_id, clock in clocks.items() if clock != (None, None)},
        "holds": {one.name: hold for one in members.values() if (hold := simulator.considerations.hold_of(one.id))},
        "partitions": _known({member.name: _partition(simulator, member) for member in members.values()}),
        "backfills": [_backfill(simulator, one) for one in simulator.backfills.known.values()],
        "groups": sorted(simulator.report_groups.open),
    }


def decisions(said: Said) -> Facts:
    """Return the decisions of the simulator about every workflow, with their times."""
    return {slug: once(one) for slug, one in said.decisions.items()}


def _asset(row: dict[str, Any]) -> str:
    return reference(row["asset_id"], row["key"])


def _unit(row: dict[str, Any]) -> str:
    return reference(row["slug"], row["key"])


def _change(one: Mapping[str, Any]) -> tuple[str, str, str]:
    return reference(one["assetId"], one["partitionKey"]), one["from"] or "", one["to"]


def _known(partitions: dict[str, Facts]) -> dict[str, Facts]:
    """Leave out those about which nothing is known yet: the store has no rows of them."""
    return {name: one for name, one in partitions.items() if any(one.values())}


def _stored_backfills(lab: Lab) -> list[Facts]:
    parts: dict[str, list[Any]] = {}
    for row in lab.rows(PARTS):
        parts.setdefault(row["id"], []).append((row["slug"], row["total"], row["done"], row["resting"]))
    states: dict[str, Any] = {}
    for row in lab.rows(STATES):
        states.setdefault(row["id"], {})[_unit(row)] = row["state"]
    return [
        {"status": row["status"], "parts": parts[row["id"]], "states": states.get(row["id"], {})}
        for row in lab.rows("SELECT id::text, status FROM backfills ORDER BY requested_at")
    ]


def _backfill(simulator: Simulator, one: Backfill) -> Facts:
    catalogue = simulator.catalogue
    parts = [
        (catalogue.workflows[number].slug, part.total, part.done, part.rest is not None)
        for number, part in sorted(one.parts.items())
    ]
    states = {catalogue.members[number].name: str(state) for number, state in one.states.items()}
    return {"status": str(one.status), "parts": parts, "states": states}


def _run(run: Run) -> Facts:
    upstream = sorted(map(_change, run.trigger["upstream"]))
    return {
        "slug": reference(run.slug, run.partition_key),
        "status": str(run.status),
        "reason": run.reason,
        "upstream": upstream,
        "backfill": run.backfill_id,
        "expiry": run.trigger["expiry"],
        "pins": _versions(run.pins.items()),
        "mixed": run.mixed,
        "times": (run.queued_at, run.started_at, run.finished_at),
    }


def _partition(simulator: Simulator, member: Member) -> Facts:
    one = simulator.workflow_state(member.id)
    return {
        "consumed_versions": _versions(one.consumed_versions.items()),
        "succeeded_at": one.succeeded_at,
        "started_at": one.started_at,
        "mixed": one.mixed,
        "cause_repeats": one.cause_repeats,
        "avoided": one.runs_avoided,
        "failures": one.failures.count,
        "eligible_at": one.failures.eligible_at,
        "breaker_at": one.failures.breaker_at,
        "probed_versions": one.failures.probed_versions,
    }


def _versions(read: Iterable[tuple[str, Version]]) -> dict[str, tuple[int, str]]:
    return {asset_id: (version.sequence, version.data_version) for asset_id, version in read}
