"""Checks of the guarantees against the database after a chaos run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.chaos.chaos_workload import BASE_MS, MAX_MS, Clients, final_versions

Row = dict[str, Any]


class History:
    """The rows that the database holds about a chaos run."""

    def __init__(self, url: str) -> None:
        with psycopg.connect(url, row_factory=dict_row) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            self.heads = self._map(connection, "SELECT asset_id, data_version FROM heads")
            self.runs = connection.execute(
                "SELECT r.*, w.slug FROM runs r JOIN workflows w ON w.id = r.workflow_id ORDER BY r.queued_at, r.id"
            ).fetchall()
            self.snapshots = connection.execute("SELECT * FROM snapshots ORDER BY asset_id, sequence").fetchall()
            self.ended = connection.execute(
                "SELECT data ->> 'runId' AS run, type FROM events WHERE type IN"
                " ('workflow.run.succeeded', 'workflow.run.failed', 'workflow.run.canceled')"
            ).fetchall()
            self.left = self._map(
                connection,
                "SELECT 'events not absorbed' AS what, count(*) FROM inbox UNION ALL"
                " SELECT 'considerations due', count(*) FROM considerations WHERE not_before <= clock_timestamp()"
                " UNION ALL SELECT 'runs that are ' || status, count(*) FROM runs"
                "  WHERE status IN ('queued', 'running') GROUP BY status UNION ALL"
                " SELECT 'events without a position', count(*) FROM events WHERE position IS NULL",
            )
            positions = connection.execute(
                "SELECT count(position) AS n, count(DISTINCT position) AS d FROM events"
            ).fetchone()
            self.positions: Row = positions or {}

    @staticmethod
    def _map(connection: psycopg.Connection[Row], query: str) -> dict[str, Any]:
        rows = [tuple(row.values()) for row in connection.execute(query).fetchall()]
        return {row[0]: row[1] for row in rows}

    def unsettled(self, clients: Clients) -> str | None:
        """Return the work that is left, or None if all queues are empty and every asset has its final version."""
        waiting = [f"{count} {what}" for what, count in self.left.items() if count]
        return ", ".join([*waiting, *self.wrong_versions(clients)]) or None

    def wrong_versions(self, clients: Clients) -> Iterator[str]:
        """Yield assets that a reported change did not reach."""
        sources = {source: reports[-1][1] for source, reports in clients.reported.items()}
        for asset, version in final_versions(sources).items():
            if self.heads.get(asset) != version:
                yield f"{asset} is {self.heads.get(asset)} and not {version}, which follows from the sources"

    def violations(self, clients: Clients) -> list[str]:
        """Return a message for every broken guarantee."""
        return [
            *self.wrong_versions(clients),
            *self._reports(clients),
            *self._overlaps(),
            *self._published_twice(),
            *self._stale_attempts(),
            *self._ends(),
            *self._cooldowns(),
            *self._pools(),
            *(f"{count} {what} left" for what, count in self.left.items() if count),
            *([] if self.positions["n"] == self.positions["d"] else [f"positions are not unique: {self.positions}"]),
        ]

    def _reports(self, clients: Clients) -> Iterator[str]:
        keys: Counter[str | None] = Counter()
        for snapshot in self.snapshots:
            keys[snapshot["report_key"]] += 1
        for key, _ in (one for reports in clients.reported.values() for one in reports):
            if keys[key] != 1:
                yield f"the report {key} was answered and is stored {keys[key]} times"
        requests: Counter[str | None] = Counter()
        for run in self.runs:
            requests[run["request_key"]] += 1
        for key in clients.requested:
            if requests[key] != 1:
                yield f"the request {key} was answered and has {requests[key]} runs"

    def _overlaps(self) -> Iterator[str]:
        """Yield automatic runs that were queued while another one of the workflow was active."""
        for slug, runs in self._automatic().items():
            for first, second in pairwise(runs):
                if first["finished_at"] is None or second["queued_at"] < first["finished_at"]:
                    yield f"{slug}: automatic run {second['id']} was queued while {first['id']} was active"

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

    def _cooldowns(self) -> Iterator[str]:
        """Yield automatic runs queued in a cooldown: base * 2^(n-1) after the n-th failure, unless a run succeeded."""
        for slug, automatic in self._automatic().items():
            ended = [run for run in self.runs if run["slug"] == slug and run["finished_at"]]
            for failed_at, until in _cooldowns(sorted(ended, key=lambda run: run["finished_at"])):
                for run in automatic:
                    if failed_at <= run["queued_at"] < until:
                        yield f"{slug}: run {run['id']} was queued at {run['queued_at']}, in a cooldown until {until}"

    def _pools(self) -> Iterator[str]:
        slots = {run["slot"] for run in self.runs if run["pool"] == "one" and run["slot"]}
        if slots - {1}:
            yield f"the pool of one slot had the slots {sorted(slots)}"

    def _automatic(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = defaultdict(list)
        for run in self.runs:
            if run["trigger_type"] == "auto-materialize":
                found[run["slug"]].append(run)
        return found


def _cooldowns(ended: list[Row]) -> Iterator[tuple[datetime, datetime]]:
    """Yield the cooldowns of a workflow, given its runs in the order in which they ended."""
    failures = 0
    for number, run in enumerate(ended):
        if run["status"] == "succeeded":
            failures = 0
        elif run["status"] == "failed" and run["trigger_type"] == "auto-materialize":
            failures += 1
            until = run["finished_at"] + timedelta(milliseconds=min(MAX_MS, BASE_MS * 2 ** (failures - 1)))
            healed = (one["finished_at"] for one in ended[number + 1 :] if one["status"] == "succeeded")
            yield run["finished_at"], min(until, next(healed, until))
