"""Checks of when runs were queued and started: one at a time, not in quiet hours, not in a cooldown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import Any

from tests.chaos.chaos_workload import BASE_MS, MAX_MS, Flow
from tests.chaos.generations import in_force
from tests.chaos.redefinitions import Applied

Row = dict[str, Any]
AUTOMATIC = "auto-materialize"
STATEMENT = timedelta(milliseconds=500)  # a claim reads the clock for its check before it does for its event


def automatic(runs: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the automatic runs by slug, in the order in which they were queued."""
    found: dict[str, list[Row]] = defaultdict(list)
    for run in runs:
        if run["trigger_type"] == AUTOMATIC:
            found[run["slug"]].append(run)
    return found


def active_twice(runs: Iterable[Row]) -> Iterator[str]:
    """Yield automatic runs that were queued while another one of the workflow was active."""
    for slug, queued in automatic(runs).items():
        for first, second in pairwise(queued):
            if first["finished_at"] is None or second["queued_at"] < first["finished_at"]:
                yield f"{slug}: automatic run {second['id']} was queued while {first['id']} was active"


def running_twice(runs: Iterable[Row], started: Iterable[Row]) -> Iterator[str]:
    """Yield runs of any trigger that started while another run of the workflow was running.

    `started`: the events of starts, one per attempt, in their order. The last attempt of a run that succeeded or
    failed was running from its start to the end of the run; of other attempts the end is not recorded.
    """
    by_id = {str(run["id"]): run for run in runs}
    starts: dict[str, list[Row]] = defaultdict(list)
    for event in started:
        starts[event["slug"]].append(event)
    for slug, events in starts.items():
        for number, first in enumerate(events):
            run = by_id[first["run"]]
            if run["status"] not in {"succeeded", "failed"} or run["attempt"] != first["attempt"]:
                continue
            for second in islice(events, number + 1, None):
                if second["time"] >= run["finished_at"]:
                    break
                if second["run"] != first["run"]:
                    yield f"{slug}: run {second['run']} started while {first['run']} was running"


def started_in_quiet_hours(started: Iterable[Row], log: Sequence[Applied]) -> Iterator[str]:
    """Yield automatic runs that started in quiet hours that were in force."""
    for event in started:
        applied = in_force(log, event["time"], event["time"])
        if applied is None or event["trigger"] != AUTOMATIC:
            continue
        for flow in applied.state.flows.values():
            if flow.slug == event["slug"] and flow.quiet and flow.quiet[0] + STATEMENT <= event["time"] < flow.quiet[1]:
                what = f"run {event['run']}, attempt {event['attempt']}, started at {event['time']}"
                yield f"{flow.slug}: {what}, in quiet hours from {flow.quiet[0]} that were applied at {applied.done}"


def queued_in_cooldown(runs: Sequence[Row], log: Sequence[Applied]) -> Iterator[str]:
    """Yield automatic runs queued in a cooldown: base * 2^(n-1) after the n-th failure, unless a run succeeded.

    A new version of the workflow ends its cooldown, and failures are counted from then on.
    """
    for slug, queued in automatic(runs).items():
        ended = [run for run in runs if run["slug"] == slug and run["finished_at"]]
        for failed_at, until in _cooldowns(sorted(ended, key=lambda run: run["finished_at"]), slug, log):
            for run in queued:
                if failed_at <= run["queued_at"] < until and not _redefined(log, slug, failed_at, run["queued_at"]):
                    yield f"{slug}: run {run['id']} was queued at {run['queued_at']}, in a cooldown until {until}"


def _redefined(log: Sequence[Applied], slug: str, after: datetime, before: datetime) -> bool:
    """Return whether a workflow may have been applied in another version in this time."""
    for earlier, later in pairwise(log):
        if later.done >= after and later.begun <= before:
            edited = _flow(earlier, slug) != _flow(later, slug) or earlier.state.code != later.state.code
            if later.rebuilt or edited:
                return True
    return False


def _flow(applied: Applied, slug: str) -> Flow | None:
    found: Mapping[str, Flow] = {one.slug: one for one in applied.state.flows.values()}
    return found.get(slug)


def _cooldowns(ended: list[Row], slug: str, log: Sequence[Applied]) -> Iterator[tuple[datetime, datetime]]:
    """Yield the cooldowns of a workflow, given its runs in the order in which they ended."""
    failures, failed_at = 0, None
    for number, run in enumerate(ended):
        if run["status"] == "succeeded":
            failures = 0
        elif run["status"] == "failed" and run["trigger_type"] == AUTOMATIC:
            if failed_at is not None and _redefined(log, slug, failed_at, run["finished_at"]):
                failures = 0
            failures, failed_at = failures + 1, run["finished_at"]
            until = run["finished_at"] + timedelta(milliseconds=min(MAX_MS, BASE_MS * 2 ** (failures - 1)))
            healed = (one["finished_at"] for one in ended[number + 1 :] if one["status"] == "succeeded")
            yield run["finished_at"], min(until, next(healed, until))
