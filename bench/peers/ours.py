"""Freshline with default settings: a materializer, a worker with two slots, and a graph of fresh assets."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from bench import graph
from bench.graph import Layout
from bench.peers import system
from bench.peers.system import Queries, System
from bench.server import Project, Server, materializers, opened, worker
from freshline.definitions.code import code_hash
from freshline.store.db.ids import new_id
from freshline.store.store import Store

DEFINITIONS = Path(__file__).with_name("definitions")
QUERIES = Queries(
    runs="SELECT count(*) FROM runs",
    active="SELECT count(*) FROM runs WHERE status IN ('queued', 'running')",
    results="SELECT coalesce(max(last_sequence), 0) FROM heads WHERE asset_id = %s",
)
READY = "SELECT count(*) FROM workers WHERE kind = 'worker' AND stopped_at IS NULL"


@contextmanager
def running(server: Server, home: Path, layout: Layout) -> Iterator[System]:
    """Yield a running installation."""
    root = home / "project"
    root.mkdir(parents=True)
    shutil.copy(DEFINITIONS / "job.py", root)
    shutil.copy(DEFINITIONS / "freshline_jobs.py", root / "jobs.py")
    url = server.database()
    graph.store(url, layout, code_hash(root))
    notes = home / "notes"
    project = Project(root, url)
    project.environ.update(PEERS_LOG=str(notes), PEERS_SLOW_SECONDS=str(system.SLOW_S))
    with (
        materializers(server, url),
        worker(project, "--slots", "2"),
        opened(url) as store,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        found = System(QUERIES, connection, lambda source: report(store, source), notes)
        system.until(lambda: found.count(READY), "the worker")
        yield found


def report(store: Store, source: str) -> None:
    """Report a new version each time."""
    store.operations.report(source, version=new_id())
