"""A watched directory of the chaos test: a writer drops files all the time, and an append table has each row once.

The materializers of the fleet look at the directory. The worker of the tables loads what is new.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from freshline.definitions.schema.workflow import Workflow
from freshline.model.deliveries import Deliveries, Delivery
from freshline.model.run import ClaimedRun
from freshline.worker.increments import plan_reading
from tests.chaos.chaos_workload import BASE_MS, MAX_MS

SOURCE, TABLE, DROP = "landing", "loaded", "drop"
MOST_PARTS = 30  # then the table is written again, from all deliveries
SOURCE_YAML = (
    f"assetId: {SOURCE}\nmode: append\nformat: csv\npath: {DROP}\n"
    f"watch: {{files: '{DROP}/*.csv', every: 2s, timeout: 2s}}\n"
)
TABLE_YAML = (
    f"slug: {TABLE}\nbackoff: {{baseMs: {BASE_MS}, maxMs: {MAX_MS}}}\nsteps:\n"
    f"  - id: work\n    job: {{kind: spark.sql, sql: 'SELECT * FROM {SOURCE}'}}\n"
    f"    consumes: [{{assetId: {SOURCE}, rows: new}}]\n"
    f"    produces: [{{assetId: {TABLE}, table: {{mode: append}}, autoMaterialize: {{onUpstreamUpdate: true}}}}]\n"
)
DELIVERED = """
SELECT i.item ->> 'path' FROM deliveries d, jsonb_array_elements(d.items) AS i (item) WHERE d.asset_id = %s
"""
PRODUCED = "SELECT data -> 'payload' ->> 'path' FROM events WHERE type = 'asset.produced' AND subject = %s"


@dataclass(frozen=True, slots=True)
class Reported:
    """The names of the files of all deliveries, and of all events of deliveries."""

    deliveries: Sequence[str]
    events: Sequence[str]


@dataclass(frozen=True, slots=True)
class Increment:
    """The rows of the deliveries that a run has to load. `whole`: they replace the table."""

    rows: list[int]
    whole: bool


class Landing:
    """Writes files with one row each: beside the directory, then moved in, because the disk is full now and then."""

    def __init__(self, url: str, root: Path, seed: int) -> None:
        self._url = url
        self._root = root
        self._rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="landing", daemon=True)
        self.dropped: list[int] = []

    def start(self) -> None:
        """Begin to write. The source must be applied."""
        self._thread.start()

    def stop(self) -> None:
        """Stop writing."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def wrong(self, rows: Sequence[int] | str) -> list[str]:
        """Return what is lost or doubled, given the rows of the table."""
        return misdelivered(self.dropped, self._reported(), rows)

    def _reported(self) -> Reported:
        with psycopg.connect(self._url) as connection:
            found = [connection.execute(query.encode(), [SOURCE]).fetchall() for query in (DELIVERED, PRODUCED)]
        return Reported(*([Path(path).name for (path,) in rows] for rows in found))

    def _loop(self) -> None:
        while not self._stopping.wait(self._rng.uniform(0.1, 1.5)):
            for _ in range(self._rng.choice([1, 1, 2, 5])):
                self._drop(len(self.dropped) + 1)

    def _drop(self, number: int) -> None:
        beside = self._root / "next.part"
        with suppress(OSError):  # the disk is full: the same number follows
            beside.write_text(f"x\n{number}\n")
            beside.rename(self._root / DROP / name_of(number))
            self.dropped.append(number)


def new_rows(run: ClaimedRun, fetch: Callable[[int, int], Sequence[Delivery]]) -> Increment:
    """Return what a run has to load: the deliveries that the table does not have, as a step of a worker gets them."""
    (step,) = Workflow.model_validate(run.definition).steps
    pinned, head = run.inputs[SOURCE], run.inputs.get(TABLE)
    assert pinned.deliveries is not None
    crowded = head is not None and len(head.parts) >= MOST_PARTS
    reading = plan_reading(step, {SOURCE: pinned}, run.positions, forced="it has many parts" if crowded else None)
    new = Deliveries(pinned.deliveries, fetch).after(reading.since.get(SOURCE))
    # Plainly, because a lease that nobody renews must last for ten thousand files.
    rows = [int(line) for one in new for line in Path(str(one.path)).read_text().splitlines()[1:]]
    return Increment(rows, reading.full_refresh_reason is not None)


def name_of(number: int) -> str:
    """Return the name of a file."""
    return f"{number:06}.csv"


def misdelivered(dropped: Sequence[int], reported: Reported, rows: Sequence[int] | str) -> list[str]:
    """Return a message for every file that is not one delivery, one event and one row, and for what has no file."""
    if isinstance(rows, str):
        return [f"the table {TABLE} cannot be read: {rows}"]
    names = [name_of(number) for number in dropped]
    counts = {
        "deliveries": Counter(reported.deliveries),
        "events": Counter(reported.events),
        "rows": Counter(map(name_of, rows)),
    }
    return [message for what, found in counts.items() for message in _differing(names, what, found)]


def _differing(names: Sequence[str], what: str, found: Counter[str]) -> Iterator[str]:
    for name in names:
        if found[name] != 1:
            yield f"the file {name} has {found[name]} {what}"
    for name in found.keys() - set(names):
        yield f"{what} of {name}, which was never dropped"
