"""Checks of the guarantees against the database after a chaos run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.chaos.calendar import PREFIX
from tests.chaos.chaos_workload import damaged_files
from tests.chaos.clients import Clients
from tests.chaos.generations import silent_mixes, wrong_contents
from tests.chaos.redefinitions import Redefinitions
from tests.chaos.starts import active_twice, queued_in_cooldown, running_twice, started_in_quiet_hours

Row = dict[str, Any]
LEFT = (
    "SELECT 'events not absorbed' AS what, count(*) FROM inbox UNION ALL"
    " SELECT 'considerations due', count(*) FROM considerations WHERE not_before <= clock_timestamp()"
    " UNION ALL SELECT 'runs that are ' || status, count(*) FROM runs"
    "  WHERE status IN ('queued', 'running') GROUP BY status UNION ALL"
    " SELECT 'events without a position', count(*) FROM events WHERE position IS NULL UNION ALL"
    " SELECT 'versions of tables that no log has', count(*) FROM table_commits"
)
STARTED = (
    "SELECT time, subject || coalesce('@' || nullif(data ->> 'partitionKey', ''), '') AS slug,"
    " data ->> 'runId' AS run, (data ->> 'attempt')::int AS attempt, data -> 'trigger' ->> 'type' AS trigger"
    " FROM events WHERE type = 'workflow.run.started' ORDER BY time"
)
ENDED = (
    "SELECT data ->> 'runId' AS run, type FROM events WHERE type IN"
    " ('workflow.run.succeeded', 'workflow.run.failed', 'workflow.run.canceled')"
)


class Heads:
    """The heads, and the work that is left."""

    def __init__(self, url: str) -> None:
        with psycopg.connect(url, row_factory=dict_row) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            self.heads = self._map(connection, "SELECT asset_id, data_version FROM heads")
            self.left = self._map(connection, LEFT)
            self._read(connection)

    def _read(self, connection: psycopg.Connection[Row]) -> None:
        """Read more, in the same snapshot."""

    @staticmethod
    def _map(connection: psycopg.Connection[Row], query: str) -> dict[str, Any]:
        rows = [tuple(row.values()) for row in connection.execute(query).fetchall()]
        return {row[0]: row[1] for row in rows}

    def unsettled(self, clients: Clients, redefinitions: Redefinitions) -> str | None:
        """Return the work that is left, or None if all queues are empty and every asset has its final version."""
        waiting = [f"{count} {what}" for what, count in self.left.items() if count]
        return ", ".join([*waiting, *self.wrong_versions(clients, redefinitions)]) or None

    def wrong_versions(self, clients: Clients, redefinitions: Redefinitions) -> Iterator[str]:
        """Yield assets that a reported change or a redefinition did not reach."""
        for asset, version in redefinitions.state.versions(clients.sources()).items():
            if self.heads.get(asset) != version:
                yield f"{asset} is {self.heads.get(asset)} and not {version}, as sources and definitions say"


class History(Heads):
    """The rows that the database holds about a chaos run."""

    def _read(self, connection: psycopg.Connection[Row]) -> None:
        self.runs = connection.execute(
            "SELECT r.*, w.slug || CASE r.partition_key WHEN '' THEN '' ELSE '@' || r.partition_key END AS slug"
            " FROM runs r JOIN workflows w ON w.id = r.workflow_id ORDER BY r.queued_at, r.id"
        ).fetchall()
        self.snapshots = connection.execute("SELECT * FROM snapshots ORDER BY asset_id, sequence").fetchall()
        self.started = connection.execute(STARTED).fetchall()
        self.ended = connection.execute(ENDED).fetchall()
        versions = connection.execute("SELECT workflow_id, version, definition FROM workflow_versions").fetchall()
        self.definitions = {(one["workflow_id"], one["version"]): one["definition"] for one in versions}
        positions = connection.execute(
            "SELECT count(position) AS n, count(DISTINCT position) AS d FROM events"
        ).fetchone()
        self.positions: Row = positions or {}

    def violations(self, clients: Clients, redefinitions: Redefinitions, project: Path) -> list[str]:
        """Return a message for every broken guarantee."""
        log = redefinitions.log
        return [
            *self.wrong_versions(clients, redefinitions),
            *self._reports(clients),
            *active_twice(self.runs),
            *running_twice(self.runs, self.started),
            *started_in_quiet_hours(self.started, log),
            *queued_in_cooldown(self.runs, log),
            *wrong_contents(self._without_partitions(), self.runs, self.definitions, redefinitions.codes),
            *silent_mixes(self._without_partitions(), self._of_the_project(), log),
            *damaged_files(project, self.heads.items()),
            *self._published_twice(),
            *self._stale_attempts(),
            *self._ends(),
            *self._pools(),
            *(f"{count} {what} left" for what, count in self.left.items() if count),
            *([] if self.positions["n"] == self.positions["d"] else [f"positions are not unique: {self.positions}"]),
        ]

    def _without_partitions(self) -> list[Row]:
        return [one for one in self.snapshots if not one["asset_id"].startswith(PREFIX)]

    def _of_the_project(self) -> list[Row]:
        return [one for one in self.runs if not one["slug"].startswith(PREFIX)]

    def _reports(self, clients: Clients) -> Iterator[str]:
        keys: Counter[str | None] = Counter(snapshot["report_key"] for snapshot in self.snapshots)
        for _, key, _ in clients.reported:
            if keys[key] != 1:
                yield f"the report {key} was answered and is stored {keys[key]} times"
        requests: Counter[str | None] = Counter(run["request_key"] for run in self.runs)
        for key in clients.requested:
            if requests[key] != 1:
                yield f"the request {key} was answered and has {requests[key]} runs"

    def _published_twice(self) -> Iterator[str]:
        seen: Counter[tuple[str, Any]] = Counter()
        for one in self.snapshots:
            if one["run_id"]:
                seen[one["asset_id"], one["run_id"]] += 1
        for (asset, run), count in seen.items():
            if count > 1:
                yield f"run {run} published {asset} {count} times"

    def _stale_attempts(self) -> Iterator[str]:
        """Yield publications by anything but the last attempt of a successful run."""
        runs = {run["id"]: run for run in self.runs}
        for one in self.snapshots:
            if one["run_id"] is None:
                continue
            run = runs[one["run_id"]]
            if run["status"] != "succeeded" or run["attempt"] != one["attempt"]:
                what = (
                    f"attempt {one['attempt']} of run {run['id']}, which is {run['status']} by attempt {run['attempt']}"
                )
                yield f"{one['asset_id']} #{one['sequence']} was published by {what}"

    def _ends(self) -> Iterator[str]:
        """Yield runs that did not end exactly once, with exactly one event."""
        reported: dict[str, list[str]] = defaultdict(list)
        for event in self.ended:
            reported[event["run"]].append(event["type"].rpartition(".")[2])
        for run in self.runs:
            expected = [run["status"]] if run["finished_at"] else []
            if reported[str(run["id"])] != expected:
                yield f"run {run['id']} is {run['status']} and the events say {reported[str(run['id'])]}"

    def _pools(self) -> Iterator[str]:
        slots = {run["slot"] for run in self.runs if run["pool"] == "one" and run["slot"]}
        if slots - {1}:
            yield f"the pool of one slot had the slots {sorted(slots)}"
