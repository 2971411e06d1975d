"""Batches: runs of several partitions that one worker claims, executes and ends together (docs/semantics.md#R14.8).

Each partition keeps its own run. One of the runs leads: the others have its id as their `batch_id`, and its lease.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from psycopg.types.json import Jsonb

from freshline.decide.times import milliseconds, next_quiet
from freshline.model.enums import TriggerType
from freshline.model.json import Json
from freshline.model.policy import Policy
from freshline.model.state import is_whole, split_reference
from freshline.plural import counted
from freshline.settings import Settings
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.runs.finish import JITTER

SQL = load("runs")
LOOKED_AT = 2  # candidates that are read for each place in a batch
MOST_LOG_LINES = 10_000  # of a run
MOST_SHOWN = 500  # characters of an error in the log


def join(connection: Connection, leader: Row) -> list[Row]:
    """Let queued runs of the same backfill join a run that was just claimed, and return them.

    Only those whose pins fit together, up to the limit of the backfill (docs/semantics.md#R14.8).
    """
    size = _limit(connection, leader)
    if size < 2:  # noqa: PLR2004 - one partition is no batch
        return []
    wanted = {"run": leader["id"], "most": LOOKED_AT * (size - 1)}
    found = connection.execute(SQL["batch_candidates"], wanted).fetchall()
    members = _fitting(leader["pins"], found, size - 1)
    if members:
        ids = [one["id"] for one in members]
        connection.execute(SQL["join_batch"], {"run": leader["id"], "members": ids, "size": len(members) + 1})
    return members


def _limit(connection: Connection, leader: Row) -> int:
    """Return how many partitions the run may compute: one, if a step of its version has no `batch`."""
    backfill = leader["trigger"].get("backfillId") if leader["trigger_type"] == TriggerType.BACKFILL else None
    if backfill is None or not all(step.get("batch") for step in leader["definition"]["steps"]):
        return 1
    row = connection.execute(SQL["batch_limit"], {"backfill": backfill}).fetchone()
    limit = row["batch"] if row else 1
    return limit if leader["batch_most"] is None else min(limit, leader["batch_most"])


def _fitting(pins: Mapping[str, Json], candidates: Iterable[Row], most: int) -> list[Row]:
    together, found = _Pins(), list[Row]()
    together.add(pins)
    for one in candidates:
        if len(found) < most and together.fit(one["pins"]):
            together.add(one["pins"])
            found.append(one)
    return found


@dataclass(slots=True)
class _Pins:
    """The pins of runs that are executed together: each input has one version in it."""

    versions: dict[str, int] = field(default_factory=dict)  # by reference
    sets: dict[str, list[frozenset[str]]] = field(default_factory=lambda: defaultdict(list))  # of partitions, by asset
    shared: frozenset[str] | None = None  # the inputs that are not read by partition

    def fit(self, pins: Mapping[str, Json]) -> bool:
        """Return whether a run with these pins reads the same as if it were alone.

        Inputs that all partitions read must be the same in all of them. Partitions of one input are either read by
        both runs or by one of them only: of two sets that overlap, a run would see rows that it is not pinned to.
        """
        if self.shared is not None and _shared(pins) != self.shared:
            return False
        if any(self.versions.get(name, pin["sequence"]) != pin["sequence"] for name, pin in pins.items()):
            return False
        return all(
            keys in self.sets[asset_id] or not any(keys & other for other in self.sets[asset_id])
            for asset_id, keys in _partitions(pins).items()
        )

    def add(self, pins: Mapping[str, Json]) -> None:
        """Add a run that fits."""
        self.shared = _shared(pins)
        self.versions |= {name: pin["sequence"] for name, pin in pins.items()}
        for asset_id, keys in _partitions(pins).items():
            if keys not in self.sets[asset_id]:
                self.sets[asset_id].append(keys)


def _shared(pins: Mapping[str, Json]) -> frozenset[str]:
    return frozenset(name for name in pins if is_whole(name) or not split_reference(name)[1])


def _partitions(pins: Mapping[str, Json]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for name in pins:
        if not is_whole(name) and split_reference(name)[1]:
            found[split_reference(name)[0]].add(name)
    return {asset_id: frozenset(names) for asset_id, names in found.items()}


def members(connection: Connection, leader: Row) -> Sequence[Row]:
    """Return the other runs of the batch of a locked run, locked; none if it is alone."""
    if leader["batch_id"] is None:
        return []
    return connection.execute(SQL["lock_members"], {"run": leader["id"]}).fetchall()


def halve(connection: Connection, rows: Sequence[Row], error: Json, settings: Settings) -> None:
    """Queue the runs of a batch that failed again, with half its size, after the shortest cooldown.

    `rows`: the leader first. It counts as a failure of none of them (docs/semantics.md#R14.8). Runs that have to end
    are not among them.
    """
    if not rows:
        return
    leader = rows[0]
    backoff = Policy.from_json(leader["policy"]).backoff
    wait = (backoff.base_ms or settings.base_backoff_ms) * (1 + random.random() * JITTER)  # noqa: S311 - spreads load
    most = max(1, leader["batch_size"] // 2)
    values = {"most": most, "not_before": leader["now"] + milliseconds(round(wait))}
    for row in rows:
        connection.execute(SQL["halve_run"], {"run": row["id"], **values, **quiet(row)})
    _explain(connection, leader, most, error)


def _explain(connection: Connection, leader: Row, most: int, error: Json) -> None:
    """Add to the log why the run starts again: no error is stored with it."""
    alone = "each partition alone" if most == 1 else f"at most {counted(most, 'partition')} at a time"
    text = (
        f"ERROR the batch of {counted(leader['batch_size'], 'partition')} failed: {error['message'][:MOST_SHOWN]}; "
        f"it counts as a failure of none of them; they run again, {alone}"
    )
    lines = [{"step_id": error.get("step") or "", "stream": "log", "text": line} for line in text.splitlines()]
    where = {"run": leader["id"], "attempt": leader["attempt"], "lines": Jsonb(lines)}
    connection.execute(SQL["append_logs"], {**where, "after": MOST_LOG_LINES, "most": MOST_LOG_LINES})


def quiet(row: Row) -> Json:
    """Return the next quiet hours of an automatic run that is queued again."""
    automatic = TriggerType(row["trigger_type"]).decided
    window = next_quiet(Policy.from_json(row["policy"]).quiet_hours, row["now"]) if automatic else None
    return {"quiet_from": window.begins if window else None, "quiet_until": window.ends if window else None}
