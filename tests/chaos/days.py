"""Late hours, corrections, redefinitions and backfills of the partitioned project while everything is killed.

The materializers of the fleet decide. Its runs are executed here, as those of the tables: a worker publishes what
follows from the pins, and is lost now and then.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from freshline.definitions.loading.project import load_project
from freshline.errors import FreshlineError
from freshline.model.backfill import BackfillPolicy, BackfillRequest, BackfillStatus, Only
from freshline.model.run import ClaimedRun, StagedOutput
from freshline.model.state import reference
from freshline.store.db.ids import new_id
from freshline.store.runs.claim import Claimant
from freshline.store.store import Store
from tests.chaos.calendar import (
    ALL_DAYS,
    ALL_HOURS,
    COMPUTED,
    DAYS,
    HOURS,
    PREFIX,
    PROJECT,
    TOTAL,
    TRIOS,
    Calendar,
    misfits,
    mixes,
    named,
    version,
)
from tests.chaos.insisting import Insisting
from tests.chaos.repeating import Repeating

Row = dict[str, Any]
ACT_S, WORK_S = (0.2, 1.2), (0.0, 0.05)
LOST = 0.04  # of the runs lose their worker
OPEN = (BackfillStatus.ACTIVE, BackfillStatus.PAUSED)
HEADS = "SELECT asset_id, partition_key, data_version FROM heads WHERE asset_id LIKE %s"
SNAPSHOTS = "SELECT * FROM snapshots WHERE asset_id LIKE %s AND run_id IS NOT NULL"
RUNS = (
    "SELECT r.*, w.slug, v.definition FROM runs r JOIN workflows w ON w.id = r.workflow_id"
    " JOIN workflow_versions v ON (v.workflow_id, v.version) = (r.workflow_id, r.version)"
    " WHERE w.slug LIKE %s AND r.status = 'succeeded'"
)
BACKFILLS = "SELECT id::text, status, requested_at FROM backfills"


@dataclass(frozen=True, slots=True)
class Report:
    """An answered report of an hour."""

    hour: str
    key: str
    version: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """A backfill of all partitions of a range that was requested."""

    id: str
    slug: str
    days: Sequence[str]


class Days:
    """Reports hours, edits jobs and requests backfills until stopped. `gates` are held during each call."""

    def __init__(self, url: str, root: Path, seed: int) -> None:
        self._url = url
        self._root = root
        self._insisting, self._working = (Insisting(url, root, name) for name in ("chaos-days", "chaos-calendar"))
        self._rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._luck = random.Random(seed + 1)  # noqa: S311 - repeatable, not secret
        self._who = Claimant(new_id(), PROJECT, "none", spark=True)
        self._acting = Repeating("days", self._act, self._rng, ACT_S)
        self._worker = Repeating("calendar", self._work, self._luck, WORK_S)
        self.gates = (self._acting.gate, self._worker.gate)
        self.calendar = Calendar()
        self.reported: list[Report] = []
        self.wanted: list[Wanted] = []
        self.edits: list[tuple[datetime, datetime]] = []
        self.done: Counter[str] = Counter()

    def start(self) -> None:
        """Apply the project, report every hour once, and begin."""
        self._insisting.open()
        self._working.open()
        self._apply(self.calendar)
        self._report(*ALL_HOURS)
        self._acting.start()
        self._worker.start()

    def stop(self) -> None:
        """Stop, and let every backfill go on. The worker works until `close`."""
        self._acting.stop()
        for one in self._open_backfills():
            self._insisting.call(lambda store, one=one: store.backfills.resume(one))  # type: ignore[misc]

    def close(self) -> None:
        self._acting.end()
        self._worker.join()
        self._insisting.close()
        self._working.close()

    def mark(self) -> int:
        """Return how many reports are answered by now."""
        return len(self.reported)

    def after_restore(self, mark: int) -> None:
        """Report again what a restored database may lack, and apply the definitions. The caller holds `gates`."""
        for one in self.reported[mark:]:
            self._send(one)
        self._apply(self.calendar)

    # --- changes ----------------------------------------------------------------------------------------------------

    def _act(self) -> None:
        kinds: dict[str, tuple[int, Callable[[], object]]] = {
            "report a late hour": (40, lambda: self._report(self._rng.choice(ALL_HOURS))),
            "correct hours of a day": (10, self._correct),
            "run a partition by hand": (6, self._run),
            "edit the job of partitions": (3, self._edit),
            "request a backfill": (6, self._backfill),
            "pause a backfill": (3, lambda: self._change("pause")),
            "resume a backfill": (5, lambda: self._change("resume")),
            "cancel a backfill": (1, lambda: self._change("cancel")),
        }
        names, weights = zip(*((name, weight) for name, (weight, _) in kinds.items()), strict=True)
        name = self._rng.choices(names, weights)[0]
        kinds[name][1]()
        self.done[name] += 1

    def _correct(self) -> None:
        day = self._rng.choice(ALL_DAYS)
        self._report(*(f"{day}T{hour:02}" for hour in self._rng.sample(range(24), 5)))

    def _report(self, *hours: str) -> None:
        for hour in hours:
            number = len(self.reported) + 1
            one = Report(hour, f"hour-{number}", f"v{self._rng.randint(1, 5)}-{hour}")
            self._send(one)
            self.reported.append(one)

    def _send(self, one: Report) -> None:
        self._insisting.call(
            lambda store: store.operations.report(HOURS, version=one.version, key=one.key, partition_key=one.hour)
        )

    def _run(self) -> None:
        slug, day = self._rng.choice([DAYS, TRIOS]), self._rng.choice(ALL_DAYS)
        self._try(lambda store: store.operations.request_run(slug, partition_key=day))

    def _edit(self) -> None:
        self._apply(self.calendar.edited(self._rng.choice(COMPUTED)))

    def _apply(self, calendar: Calendar) -> None:
        begun = self._insisting.now()
        self._insisting.call(lambda _: calendar.write(self._root))
        self._insisting.call(lambda store: store.apply.commit(load_project(self._root)))
        self.calendar = calendar
        self.edits.append((begun, self._insisting.now()))

    def _backfill(self) -> None:
        slug = self._rng.choice([DAYS, DAYS, TRIOS])
        first, last = sorted(self._rng.choices(range(len(ALL_DAYS)), k=2))
        days = ALL_DAYS[first : last + 1]
        only = self._rng.choice([Only.ALL, Only.ALL, Only.STALE, Only.MISSING])
        policy = BackfillPolicy(only=only, concurrency=self._rng.randint(1, 4), newest_first=self._rng.random() < 0.5)
        downstream = self._rng.random() < 0.5
        asked = BackfillRequest(slug, first=days[0], last=days[-1], downstream=downstream, policy=policy)
        key = f"backfill-{self.done['request a backfill']}-{len(self.reported)}"
        made = self._try(lambda store: store.backfills.create(asked, key=key))
        if made and only is Only.ALL:
            self.wanted.append(Wanted(made, slug, days))

    def _change(self, what: str) -> None:
        ids = self._open_backfills()
        if ids:
            one = self._rng.choice(ids)
            self._try(lambda store: getattr(store.backfills, what)(one))

    def _open_backfills(self) -> list[str]:
        return [one["id"] for one in self._insisting.call(lambda store: store.backfills.list(statuses=OPEN))]

    def _try(self, call: Any) -> Any:
        """Return the answer; None if the store refuses: nothing was selected, or it has ended meanwhile."""
        try:
            return self._insisting.call(call)
        except FreshlineError:
            return None

    # --- work -------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        run = self._working.call(lambda store: store.runs.claim(self._who))
        if run is None or self._luck.random() < LOST:
            return
        read = {name: one.data_version for name, one in run.inputs.items() if one.asset_id != run.slug}
        made = version(run.slug, run.partition_key, run.definition["parameters"]["salt"], read)
        self._publish(run, StagedOutput(run.slug, "work", made, partition_key=run.partition_key))

    def _publish(self, run: ClaimedRun, output: StagedOutput) -> None:
        def publish(store: Store) -> list[str]:
            return store.runs.publish(run, [output])

        try:
            self._working.call(publish)
        except FreshlineError:  # its lease is lost: another attempt follows
            return

    # --- checks -----------------------------------------------------------------------------------------------------

    def unsettled(self) -> list[str]:
        """Return partitions without their final version, and backfills that have not ended."""
        hours = {named(HOURS, one.hour): one.version for one in self.reported}
        with psycopg.connect(self._url, row_factory=dict_row) as connection:
            rows = connection.execute(HEADS, [f"{PREFIX}%"]).fetchall()
            backfills = connection.execute(BACKFILLS).fetchall()
        heads = {reference(row["asset_id"], row["partition_key"]): row["data_version"] for row in rows}
        open_ = [f"backfill {one['id']} is {one['status']}" for one in backfills if one["status"] in OPEN]
        return [*misfits(heads, self.calendar.versions(hours)), *open_]

    def wrong(self) -> Iterator[str]:
        """Yield a message for every broken guarantee."""
        for thread in (self._acting, self._worker):
            if thread.failure is not None:
                yield f"a thread of the partitions failed: {thread.failure!r}"
        with psycopg.connect(self._url, row_factory=dict_row) as connection:
            snapshots = connection.execute(SNAPSHOTS, [f"{PREFIX}%"]).fetchall()
            runs = connection.execute(RUNS, [f"{PREFIX}%"]).fetchall()
            backfills = {one["id"]: one for one in connection.execute(BACKFILLS).fetchall()}
        yield from self.unsettled()
        yield from wrong_versions(snapshots, runs)
        yield from silent_mixes(snapshots, [one for one in runs if not self._edited_during(one)])
        for wanted in self.wanted:
            if wanted.id in backfills:  # else a restore has lost the request
                yield from not_done(wanted, backfills[wanted.id], runs)

    def _edited_during(self, run: Row) -> bool:
        return any(begun <= run["started_at"] and run["queued_at"] <= done for begun, done in self.edits)


def wrong_versions(snapshots: Sequence[Row], runs: Sequence[Row]) -> Iterator[str]:
    """Yield publications that do not follow from their recorded inputs and the parameters of their run."""
    by_id = {run["id"]: run for run in runs}
    for one in snapshots:
        run, name = by_id.get(one["run_id"]), reference(one["asset_id"], one["partition_key"])
        if run is None:
            yield f"{name} #{one['sequence']} was published by run {one['run_id']}, which did not succeed"
            continue
        salt = run["definition"]["parameters"]["salt"]
        if one["data_version"] != version(one["asset_id"], one["partition_key"], salt, _read(one)):
            yield f"{name} #{one['sequence']} is {one['data_version']}, which does not follow from its inputs"


def silent_mixes(snapshots: Sequence[Row], runs: Sequence[Row]) -> Iterator[str]:
    """Yield runs of the total that read two generations of a day and do not say so."""
    bound = {run["id"] for run in runs if not run["mixed"]}
    trios = {
        (named(TRIOS, one["partition_key"]), one["data_version"]): _read(one)
        for one in snapshots
        if one["asset_id"] == TRIOS and one["run_id"] in bound
    }
    for one in snapshots:
        if one["asset_id"] == TOTAL and one["run_id"] in bound:
            for what in mixes(_read(one), trios):
                yield f"run {one['run_id']} of {TOTAL} is not `mixed`: {what}"


def not_done(wanted: Wanted, backfill: Row, runs: Sequence[Row]) -> Iterator[str]:
    """Yield the partitions of a finished backfill without a success that started after the request."""
    if backfill["status"] != BackfillStatus.FINISHED:
        return
    done = {
        run["partition_key"]
        for run in runs
        if run["slug"] == wanted.slug and run["started_at"] >= backfill["requested_at"]
    }
    for day in wanted.days:
        if day not in done:
            yield f"backfill {wanted.id} is finished, and {named(wanted.slug, day)} has no success since its request"


def _read(snapshot: Row) -> dict[str, str]:
    return {name: pin["dataVersion"] for name, pin in snapshot["inputs"].items()}
