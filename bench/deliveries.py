"""Cost of a look, a report and their readers with a million seen files and deliveries, against a thousand.

Half of the deliveries are in rows of their own and half in joined rows, as compaction leaves them. Also shown: the
processor time to load the seen files into a process, and to list as many real files of a directory, once each.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from bench.measure import Claim, Options, Pairs, Result, percentile, phase
from bench.play import Player
from bench.server import Project, Server, opened, started
from freshline.definitions.loading.project import load_project
from freshline.definitions.schema.watch import FilesWatch
from freshline.model.allowed_paths import default
from freshline.model.watch import Found, Look, SeenFile, identity, path_key
from freshline.store.store import Store
from freshline.store.watches.watches import Looked
from freshline.watching import files
from freshline.watching.look import LookContext
from freshline.watching.seen import SeenFiles

GOAL = 1.3
SIZES = ((1_000, 100), (1_000_000, 2_000))  # normal, and quick
WARM, ROUNDS = 10, 100
NEW = 10
SHOWN = 20
MEMORY = "/dev/shm"  # noqa: S108 - a new directory below it
SOURCE = """assetId: landing
mode: append
format: csv
path: drop
watch: { files: "drop/*.csv", every: 1h }
"""
WORKFLOW = """slug: consumer
steps:
  - id: work
    job: {kind: python, entrypoint: "jobs:work"}
    consumes: [{assetId: landing, rows: new}]
    produces: [{assetId: consumer, autoMaterialize: {onUpstreamUpdate: true}}]
"""
ONE_BY_ONE = """
INSERT INTO deliveries (asset_id, first_number, last_number, items, keys)
SELECT d.asset_id, n, n, jsonb_build_array((d.items -> 0) || jsonb_build_object('number', n, 'key', 'k' || n)),
       ARRAY['k' || n]
  FROM deliveries d, generate_series(%(first)s::bigint, %(last)s) n WHERE d.last_number = 1
"""
JOINED = """
INSERT INTO deliveries (asset_id, first_number, last_number, items, keys)
SELECT d.asset_id, c, least(c + 999, %(last)s), i.items, i.keys
  FROM deliveries d, generate_series(2::bigint, %(last)s, 1000) c
 CROSS JOIN LATERAL (
    SELECT jsonb_agg((d.items -> 0) || jsonb_build_object('number', n, 'key', 'k' || n) ORDER BY n) AS items,
           array_agg('k' || n) AS keys
      FROM generate_series(c, least(c + 999, %(last)s)) n) i
 WHERE d.last_number = 1
"""
SEEN = """
INSERT INTO watched_files (asset_id, path_key, path, size, version, identity, state, seen_at, revision)
SELECT 'landing', md5('drop/' || n)::uuid, 'drop/' || n || '.csv', 100, n::text, n, 'delivered', now(), n / 1000
  FROM generate_series(1, %(last)s) n
"""
MOVE = (
    "UPDATE snapshots SET delivery = %(last)s, data_version = 'delivery:' || %(last)s WHERE asset_id = 'landing'",
    "UPDATE heads SET data_version = 'delivery:' || %(last)s WHERE asset_id = 'landing'",
    "UPDATE watches SET revision = %(last)s / 1000, position = '{\"started\": true}'",
    "ANALYZE",
)
DUE = "UPDATE watches SET next_at = now(), lease_until = NULL"


@dataclass
class Side:
    """A source with so many deliveries, and the actions that are measured on it."""

    store: Store
    player: Player
    url: str
    number: int = 0
    times: dict[str, list[float]] = field(default_factory=dict)

    def play(self, *, counts: bool) -> None:
        """Do each action once, and note its time."""
        self.number += 1
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(DUE)
        for name, action in self._actions().items():
            began = time.perf_counter()
            action()
            if counts:
                self.times.setdefault(name, []).append(time.perf_counter() - began)
        self.player.drain(f"v{self.number}")
        self.player.settle()

    def _actions(self) -> dict[str, Callable[[], object]]:
        store, key = self.store, f"n{self.number}"
        return {
            "look": self._look,
            "report": lambda: store.operations.report("landing", key=key, payload={"path": f"drop/{key}.csv"}),
            "evaluation": self.player.decide,
            "run": self._run,
            "delivery list": lambda: store.reader.deliveries("landing", SHOWN),
            "watch show": lambda: store.reader.watch("landing"),
        }

    def _look(self) -> None:
        (watch,) = self.store.watches.claim(("files",), 1)
        names = [f"drop/{self.number}-{one}.csv" for one in range(NEW)]
        found = tuple(Found(f"file:{name}", None, {"path": name}) for name in names)
        seen = tuple(SeenFile(name, 1, "1", "delivered") for name in names)
        self.store.watches.record(Looked(watch, Look(found, {"started": True}, f"{NEW} are new.", seen=seen), 1))

    def _run(self) -> None:
        run = self.player.claim()
        assert run is not None, "the consumer is not queued"
        self.player.finish(run, f"c{self.number}")


def run(options: Options) -> Result:
    """Measure all actions in turns on a short and on a long list, then the loads that grow with it."""
    sizes = [options.size(*pair) for pair in SIZES]
    with started() as server, ExitStack() as stack:
        short, long = (_side(server, stack, size) for size in sizes)
        with phase("actions"):
            for number in range(WARM + options.size(ROUNDS, 2)):
                for side in (short, long):
                    side.play(counts=number >= WARM)
        figures = {"files": sizes, "load_s": _load(long.store), "server": server.settings}
    figures |= _directory(sizes[-1])
    pairs = {name: Pairs(times, short.times[name]) for name, times in long.times.items()}
    figures |= {f"{name.replace(' ', '_')}_ms": 1000 * percentile(one.measured, 0.5) for name, one in pairs.items()}
    claims = sorted((Claim(name, one.ratio, GOAL) for name, one in pairs.items()), key=lambda claim: -claim.value)
    worst = pairs[claims[0].what]
    return Result("deliveries", claims, worst.measured, worst.baseline, "s", figures)


def _side(server: Server, stack: ExitStack, size: int) -> Side:
    """Return a source with as many seen files and deliveries, written directly."""
    url = server.database()
    project = Project(server.home / f"deliveries-{size}", url)
    for directory in ("sources", "drop"):
        (project.root / directory).mkdir()
    (project.root / "sources" / "landing.yaml").write_text(SOURCE)
    (project.root / "workflows" / "consumer.yaml").write_text(WORKFLOW)
    (project.root / "jobs.py").write_text("def work(ctx):\n    return None\n")
    project.call("apply", "--yes")
    store = stack.enter_context(opened(url, silent=True))
    player = Player(store, "bench", load_project(project.root).code_hash)
    store.operations.report("landing", payload={"path": "drop/0.csv"})
    with phase(f"{size} deliveries"), psycopg.connect(url, autocommit=True) as connection:
        half = 1 + size // 2
        connection.execute(JOINED, {"last": half})
        connection.execute(ONE_BY_ONE, {"first": half + 1, "last": size})
        connection.execute(SEEN, {"last": size})
        for statement in MOVE:
            connection.execute(statement.encode(), {"last": size} if "%(" in statement else None)
    player.settle()
    player.drain("v0")
    player.settle()
    return Side(store, player, url)


def _load(store: Store) -> float:
    """Return the processor time in which a new process learns which files were seen."""
    with phase("load"):
        began = time.process_time()
        SeenFiles(partial(store.watches.files, "landing")).load(store.watches.files_since("landing", -1), 0)
        return time.process_time() - began


def _directory(count: int) -> dict[str, Any]:
    """Return the processor time of a first look at real files, which finds them, and of one that finds nothing."""
    memory_only = MEMORY if Path(MEMORY).is_dir() else None  # a million files are written faster there
    with tempfile.TemporaryDirectory(prefix="freshline-bench-", dir=memory_only) as home, phase(f"{count} real files"):
        drop = Path(home, "drop")
        drop.mkdir()
        for number in range(count):
            (drop / f"{number}.csv").touch()
        spec = FilesWatch(files="drop/*.csv", existing="ignore")
        memory = SeenFiles(lambda _: {})
        context = LookContext("landing", datetime.now(UTC), default(home, None), 600, memory)
        seconds, first = _timed(lambda: files.look(spec, "append", None, context))
        memory.load(((path_key(one.path), identity(one.size, one.version)) for one in first.seen), 0)
        again, _ = _timed(lambda: files.look(spec, "append", first.position, context))
    return {"first_listing_s": seconds, "listing_s": again}


def _timed(call: Callable[[], Look]) -> tuple[float, Look]:
    began = time.process_time()
    result = call()
    return time.process_time() - began, result
