"""Reads the overview: what is not fresh, why, since when, and what changed. A fixed number of statements."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta

from freshline.model.documents.overview import (
    AppliedDefinition,
    Overview,
    OverviewLag,
    ProcessCounts,
    RecentChanges,
    WatchCounts,
)
from freshline.model.documents.status import Pool
from freshline.model.enums import AssetState
from freshline.model.json import Json
from freshline.store.db.database import Database
from freshline.store.db.queries import load
from freshline.store.read.cause_reader import CauseReader
from freshline.store.read.partitions import Partitions
from freshline.store.read.session import ReadSession, json_value
from freshline.store.read.status import SILENT_MS, newest_of, notes, state_of
from freshline.store.read.summary import produced_states, sentence

MOST_CAUSES = 20
MOST_NAMES = 20
MOST_LAGS = 5
DAY = timedelta(days=1)
NO_MATERIALIZER = "no materializer is running: nothing is evaluated until `freshline materializer` starts one"
# What was counted over the last day is kept for this many times as long as that took, if it took longer than the least.
_KEPT_TIMES, _KEPT_LEAST_S = 20, 0.2

LastDay = tuple[Json, RecentChanges]


class OverviewReader:
    """Reads the overview. It keeps for a short time what is expensive to count."""

    def __init__(self, database: Database, partitions: Partitions) -> None:
        self._database = database
        self._partitions = partitions
        self._statements = {**load("read"), **load("graph_view"), **load("overview")}
        self._kept: tuple[float, LastDay] | None = None

    def read(self) -> Overview:
        """Return the overview."""
        with self._session() as session:
            position = int(session.rows("last_position")[0]["position"] or 0)
            now: datetime = session.rows("clock")[0]["now"]
            states = self._states(session)
            causes = CauseReader(session, self._partitions.at(session).graph, states, now)
            found = causes.found()
            counts = session.rows("counts", grace=SILENT_MS)[0]
            ended, changed = self._last_day(session, now)
            produced = produced_states(states)
            return {
                "at": json_value(now),
                "position": position,
                "sentence": sentence(produced, found, applied=bool(states)),
                "total": len(produced),
                "counts": dict(Counter(state.value for state in states.values())),
                "causes": [causes.document(one) for one in found[:MOST_CAUSES]],
                "moreCauses": max(len(found) - MOST_CAUSES, 0),
                "lag": _lag(session),
                "runs": {
                    "running": counts["running"],
                    "queued": counts["queued"],
                    "succeeded24h": ended["succeeded"],
                    "failed24h": ended["failed"],
                    "avoided24h": ended["avoided"],
                },
                "processes": _processes(counts),
                "pools": session.documents(Pool, "pools"),
                "watches": _watches(counts),
                "notes": _notes(session, applied=bool(states)),
                "changedSinceYesterday": changed,
            }

    def _states(self, session: ReadSession) -> Mapping[str, AssetState]:
        partitions = self._partitions.at(session)
        newest = partitions.newest(None)
        rows = session.rows("states", assets=None, **newest_of(newest))
        summaries = partitions.summaries(newest)
        return {row["assetId"]: state_of(row, summaries.get(row["assetId"])) for row in rows}

    def _last_day(self, session: ReadSession, now: datetime) -> LastDay:
        """Return what happened in the last day. Where counting it takes long, it is not counted at each request."""
        kept, began = self._kept, time.monotonic()
        if kept is not None and began < kept[0]:
            return kept[1]
        found = session.rows("ended_runs", since=now - DAY)[0], _changes(session, now - DAY)
        took = time.monotonic() - began
        if took > _KEPT_LEAST_S:
            self._kept = began + took * (1 + _KEPT_TIMES), found
        return found

    @contextmanager
    def _session(self) -> Iterator[ReadSession]:
        with self._database.reading(unhurried=True) as connection:
            yield ReadSession(connection, self._statements)


def _lag(session: ReadSession) -> OverviewLag:
    promises = session.rows("promises")[0]
    worst = session.rows("measured_assets", limit=MOST_LAGS)
    return {
        "promised": promises["promised"],
        "overdue": promises["overdue"],
        "worst": [
            {
                "assetId": row["assetId"],
                "ageMs": round(row["age"] * 1000),
                "maxAgeMs": round(row["max_age"] * 1000),
                "overdue": row["age"] > row["max_age"],
            }
            for row in worst
        ],
        "behind": [
            {"assetId": row["assetId"], "lagMs": round(row["lag"] * 1000)}
            for row in session.rows("measured_lags", limit=MOST_LAGS)
        ],
    }


def _processes(counts: Json) -> ProcessCounts:
    return {
        "materializers": counts["materializers"],
        "workers": counts["workers"],
        "apis": counts["apis"],
        "silent": counts["silent"],
    }


def _watches(counts: Json) -> WatchCounts:
    return {"total": counts["watches"], "failing": counts["failing"], "stopped": counts["stopped"]}


def _notes(session: ReadSession, *, applied: bool) -> list[str]:
    """Return the notes of `status`, and that nothing is evaluated."""
    queue = session.rows("queue", grace=SILENT_MS)[0]
    found = notes(queue)
    if applied and not queue["materializers"] and not any("no materializer is running" in one for one in found):
        found.append(NO_MATERIALIZER)
    return found


def _changes(session: ReadSession, since: datetime) -> RecentChanges:
    versions = session.rows("recent_versions", since=since)[0]
    return {
        "since": json_value(since),
        "assets": versions["assets"],
        "versions": versions["versions"],
        "identical": versions["identical"],
        "failing": [row["id"] for row in session.rows("recent_failures", since=since, limit=MOST_NAMES)],
        "definitions": session.documents(AppliedDefinition, "recent_definitions", since=since, limit=MOST_NAMES),
        "changes": session.rows("recent_changes", since=since)[0]["changes"],
    }
