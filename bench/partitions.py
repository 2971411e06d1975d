"""Cost of one event among 10,000 partitions, against the same graph of assets without partitions.

A day of a source feeds seven windows of seven days. Without partitions, seven workflows read seven sources each. Also
shown: the time of one decision of a total that reads all partitions.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.measure import Claim, Options, Pairs, Result, percentile, phase
from bench.play import Player
from bench.server import Server, opened, started
from freshline.definitions.fingerprint import definition_fingerprint, job_fingerprint
from freshline.definitions.loading.project import LoadedSource, LoadedWorkflow, Project
from freshline.definitions.policy import compile_policy
from freshline.definitions.schema.assets import Source
from freshline.definitions.schema.workflow import Workflow
from freshline.errors import Place
from freshline.store.store import Store

GOAL = 1.3
DECISION_GOAL_MS = 20.0
SIZE = (10_000, 300)  # normal, and quick
WINDOW = 7
WARM = 10
CODE = "bench"
AUTO = {"onUpstreamUpdate": True}
# More old partitions than a day usually has: none of them waits for an approval.
MANY = {**AUTO, "partitions": {"limit": 100_000}}
DAYS = """
CREATE TEMPORARY TABLE days AS
SELECT to_char(day, 'YYYY-MM-DD') AS key,
       jsonb_object_agg('raw@' || to_char(read, 'YYYY-MM-DD'),
                        jsonb_build_object('sequence', 1, 'dataVersion', 'v1')) AS inputs
  FROM generate_series(%(first)s::timestamp, %(last)s::timestamp, interval '1 day') day,
       generate_series(greatest(day - interval '6 days', %(first)s::timestamp), day, interval '1 day') read
 GROUP BY day
"""
FILL = (
    """
    INSERT INTO snapshots (asset_id, partition_key, sequence, data_version, changed, produced_at, event_id)
    SELECT 'raw', key, 1, 'v1', true, now(), freshline_id() FROM days
    """,
    """
    INSERT INTO snapshots (asset_id, partition_key, sequence, data_version, changed, workflow_id, produced_at,
                           event_id, inputs)
    SELECT w.slug, d.key, 1, 'v1', true, w.id, now(), freshline_id(), d.inputs
      FROM days d, workflows w WHERE w.slug = 'windows'
    """,
    """
    INSERT INTO heads (asset_id, partition_key, sequence, last_sequence, data_version, produced_at)
    SELECT asset_id, partition_key, 1, 1, 'v1', produced_at FROM snapshots
    """,
    "UPDATE snapshots SET change = 1",
    """
    INSERT INTO asset_digests (asset_id, change, keys, digest, changed_at)
    SELECT asset_id, 1, count(*), sum(freshline_digest(partition_key, data_version)), now() FROM heads GROUP BY asset_id
    """,
    """
    INSERT INTO workflow_partitions (workflow_id, partition_key, consumed_versions, job_fingerprint, succeeded_at,
                                     success_cause)
    SELECT w.id, d.key, d.inputs, w.job_fingerprint, now(), 'missing'
      FROM days d, workflows w WHERE w.slug = 'windows'
    """,
    "DELETE FROM inbox",
    "DELETE FROM considerations",
    "ANALYZE",
)


@dataclass
class Side:
    """One of the compared graphs. `places`: what to report, in turns, as asset and partition."""

    player: Player
    places: Sequence[tuple[str, str]]

    def event(self, number: int) -> float:
        """Return the time from a report until it is decided. The queued runs are then executed untimed."""
        asset, key = self.places[number * 7 % len(self.places)]
        began = time.perf_counter()
        self.player.store.operations.report(asset, version=f"e{number}", partition_key=key)
        self.player.decide()
        ended = time.perf_counter()
        assert self.player.drain(f"v{number}") == WINDOW, "other partitions ran than those that read it"
        self.player.settle()
        return ended - began


def run(options: Options) -> Result:
    """Measure events on both graphs in turns, then decisions of a total."""
    size = options.size(*SIZE)
    with started() as server, ExitStack() as stack:
        with phase(f"{size} partitions"):
            sides = (_partitions(server, stack, size), _assets(server, stack))
        pairs = Pairs()
        with phase("events"):
            for number in range(WARM + options.size(200, 5)):
                taken = [side.event(number) for side in sides]
                if number >= WARM:
                    pairs.add(*taken)
        with phase("a total of all partitions"):
            decisions = _total(server, stack, size, options.size(20, 2))
        figures: dict[str, Any] = {"partitions": size, "window": WINDOW, "server": server.settings}
    claims = [
        Claim("event", pairs.ratio, GOAL),
        Claim("decision of a total", 1000 * percentile(decisions, 0.5), DECISION_GOAL_MS, unit="ms"),
    ]
    return Result("partitions", claims, pairs.measured, pairs.baseline, "s", figures)


def _partitions(server: Server, stack: ExitStack, size: int) -> Side:
    keys = _days(size)
    windows = {"assetId": "raw", "partitions": {"window": {"from": 1 - WINDOW, "to": 0}}}
    store = _applied(server, stack, [_workflow("windows", [windows], _daily(keys))], _daily(keys))
    _fill(store, keys)
    return Side(Player(store, "bench", CODE), [("raw", key) for key in keys[WINDOW:-WINDOW]])


def _assets(server: Server, stack: ExitStack) -> Side:
    reads = [[{"assetId": f"raw{first + one}"} for one in range(WINDOW)] for first in range(WINDOW)]
    workflows = [_workflow(f"window{number}", consumes, None) for number, consumes in enumerate(reads)]
    store = _applied(server, stack, workflows, None)
    player = Player(store, "bench", CODE)
    for number in range(2 * WINDOW - 1):
        store.operations.report(f"raw{number}", version="v1")
    player.settle()
    while player.drain("v1"):
        player.settle()
    return Side(player, [(f"raw{WINDOW - 1}", "")])  # all windows read this one


def _total(server: Server, stack: ExitStack, size: int, rounds: int) -> list[float]:
    """Return the times to decide about a workflow that reads all partitions, after a report of one."""
    keys = _days(size)
    store = _applied(server, stack, [_workflow("total", [{"assetId": "raw"}], None)], _daily(keys))
    _fill(store, keys)
    player = Player(store, "bench", CODE)
    times = []
    for number in range(2 + rounds):
        store.operations.report("raw", version=f"e{number}", partition_key=keys[number])
        store.evaluation.consume_inbox(store.settings.batch)
        began = time.perf_counter()
        player.decide()
        times.append(time.perf_counter() - began)
        assert player.drain(f"v{number}") == 1
        player.settle()
    return times[2:]


def _days(size: int) -> list[str]:
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    return [(yesterday - timedelta(days=before)).isoformat() for before in reversed(range(size))]


def _daily(keys: Sequence[str]) -> dict[str, str]:
    return {"time": "day", "start": keys[0]}


def _workflow(slug: str, consumes: Sequence[dict[str, Any]], partitioning: dict[str, str] | None) -> LoadedWorkflow:
    produces: dict[str, Any] = {"assetId": slug, "autoMaterialize": MANY if partitioning else AUTO}
    if partitioning:
        produces["partitioning"] = partitioning
    step = {"id": "work", "job": {"kind": "python", "entrypoint": "jobs:work"}, "consumes": consumes}
    definition = Workflow.model_validate({"slug": slug, "steps": [{**step, "produces": [produces]}]})
    return LoadedWorkflow(
        definition=definition,
        place=Place(f"workflows/{slug}.yaml", 1),
        policy=compile_policy(definition),
        fingerprint=definition_fingerprint(definition),
        job_fingerprint=job_fingerprint(definition, lambda _: CODE),
        code_hash=CODE,
    )


def _applied(
    server: Server, stack: ExitStack, workflows: Sequence[LoadedWorkflow], partitioning: dict[str, str] | None
) -> Store:
    """Return the store of a new database with these workflows."""
    declared = [{"assetId": "raw", "partitioning": partitioning}] if partitioning else []
    sources = tuple(LoadedSource(Source.model_validate(one), Place("sources/raw.yaml", 1)) for one in declared)
    store = stack.enter_context(opened(server.database(), silent=True))
    store.apply.commit(Project(Path("/nowhere"), "bench", CODE, tuple(workflows), sources, (), {}))
    return store


def _fill(store: Store, keys: Sequence[str]) -> None:
    """Write a head for every key, and a success of every window, as reports and runs would."""
    with store.database.connection() as connection:
        connection.execute(DAYS.encode(), {"first": keys[0], "last": keys[-1]})
        for statement in FILL:
            connection.execute(statement.encode())
