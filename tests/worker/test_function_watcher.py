"""Functions that look at sources, called by a real worker on a real store: exactly once, on the applied code only."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from freshline.definitions.code import code_hash
from freshline.services.watcher import Watcher
from freshline.store.db.database import Row
from freshline.worker.worker import Worker
from tests.store_harness import Lab, laboratory, workflow
from tests.waiting import wait_until

SOURCE = "landing.orders"
JOBS = """
import os, time

def pages(ctx):
    page = (ctx.position or 0) + 1
    ctx.log.info("page %d", page)
    return [{"key": f"page-{page}", "payload": {"page": page}}], page

def same(ctx): return [{"key": "one", "payload": {"page": 1}}]
def version(ctx): return "VERSION" + os.environ.get("SHOP_KEY", "")
def broken(ctx): raise ValueError("no answer of the shop, key " + os.environ["SHOP_KEY"])
def number(ctx): return 7
def hang(ctx):
    while True:
        time.sleep(0.01)
"""


class Site:
    """A project whose functions a worker calls."""

    def __init__(self, lab: Lab, root: Path) -> None:
        self.lab = lab
        self.root = root
        self.write(JOBS)
        self.worker = Worker(lab.store, type(lab.settings)(project=root))
        self.watcher = self.worker.watcher

    def write(self, text: str) -> None:
        """Edit the code of the project."""
        (self.root / "jobs.py").write_text(text, encoding="utf-8")

    def apply(self, function: str, mode: str = "append", **more: Any) -> None:
        """Apply the code with a source that this function looks at."""
        source = {"assetId": SOURCE, "mode": mode, "watch": {"python": f"jobs:{function}", **more}}
        consumer = workflow("orders", [{"assetId": SOURCE}])
        self.lab.apply(consumer, sources=(source,), root=self.root, code=code_hash(self.root))

    def look(self, watcher: Watcher | None = None, **later: float) -> Row:
        """Let time pass, look, and return the row of the watch."""
        self.lab.advance(**(later or {"seconds": 40}))
        one = watcher or self.watcher

        def idle() -> bool:
            one.run_once()
            return not one.busy

        wait_until(idle)
        (row,) = self.lab.rows("SELECT * FROM watches WHERE asset_id = %s", SOURCE)
        return row

    def payloads(self) -> list[Any]:
        """Return the payloads of the deliveries, in their order."""
        rows = self.lab.rows(
            "SELECT i.item -> 'payload' AS payload FROM deliveries d, jsonb_array_elements(d.items) WITH ORDINALITY "
            "AS i (item, n) WHERE asset_id = %s ORDER BY last_number, n",
            SOURCE,
        )
        return [row["payload"] for row in rows]


@pytest.fixture
def site(database_url: str, tmp_path: Path) -> Iterator[Site]:
    """Yield a project with a worker; its runners end with the test."""
    (tmp_path / "freshline.toml").write_text('name = "lab"\n')
    with laboratory(database_url) as lab:
        site = Site(lab, tmp_path)
        yield site
        site.watcher.stop()


def test_deliveries_are_reported_once_and_the_position_comes_back(site: Site) -> None:
    """Each look goes on where the last one ended; its log lines are in the log of the worker."""
    site.apply("pages")
    site.look()
    with capture_logs() as logs:
        row = site.look()
    assert site.payloads() == [{"page": 1}, {"page": 2}]
    assert (row["error"], row["position"]["position"]) == (None, 2)
    said = [one for one in logs if one["event"] == "look_output"]
    assert [(one["asset"], one["text"].removeprefix("INFO ")) for one in said] == [(SOURCE, "page 2")]


def test_a_key_that_was_delivered_is_not_delivered_again(site: Site) -> None:
    """A function without a position may return everything each time."""
    site.apply("same")
    site.look()
    assert site.look()["reported"] == 1
    assert site.payloads() == [{"page": 1}]


def test_a_version_is_reported_with_its_secret_only_if_the_watch_names_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that a watch names is a secret for everybody else."""
    monkeypatch.setenv("SHOP_KEY", "7")
    site.apply("version", "snapshot", secrets=["SHOP_KEY"])
    site.look()
    assert site.lab.one("SELECT data_version FROM heads WHERE asset_id = %s", SOURCE) == "VERSION7"
    assert site.lab.store.runs.secret_names() == ["SHOP_KEY"]


def test_variables_of_other_kinds_are_secrets_too(site: Site) -> None:
    """A worker that has the variables of the materializer, as in `dev`, does not give them to jobs."""
    watch = {"http": "https://shop.example/", "headers": {"Authorization": {"env": "SHOP_TOKEN"}}}
    other = {"sql": "SELECT 1", "url": {"env": "SHOP_DATABASE"}}
    sources = ({"assetId": "a", "watch": watch}, {"assetId": "b", "watch": other})
    site.lab.apply(workflow("c", "a b", secrets=["OWN"]), sources=sources, root=site.root)
    assert site.lab.store.runs.secret_names() == ["OWN", "SHOP_DATABASE", "SHOP_TOKEN"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("broken", "jobs.py:11: ValueError: no answer of the shop, key ***"),
        ("number", "jobs:number returned a value of the type int; allowed for a source with mode append"),
    ],
)
def test_an_error_is_stored_and_tried_again(
    site: Site, monkeypatch: pytest.MonkeyPatch, function: str, message: str
) -> None:
    """With the place in the user's file and without the secret; the next look that works clears it."""
    monkeypatch.setenv("SHOP_KEY", "secret-word")
    site.apply(function, secrets=["SHOP_KEY"])
    row = site.look()
    assert message in row["error"]
    assert row["failures"] == 1
    site.apply("same")
    assert site.look()["error"] is None


def test_a_function_that_hangs_is_stopped(site: Site) -> None:
    """It fails after its timeout, and the next look can begin when its process is free."""
    site.apply("hang", timeout="300ms")
    assert "did not end within 300ms" in site.look()["error"]
    site.apply("pages")
    wait_until(lambda: site.look(seconds=400) and site.payloads())
    assert site.payloads()[0] == {"page": 1}


def test_only_the_applied_code_is_called(site: Site) -> None:
    """A worker with an edit that was not applied leaves the watch to others; after the apply it calls the new code."""
    site.apply("version", "snapshot")
    site.write(JOBS.replace('"VERSION"', '"EDITED"'))
    assert site.look()["looked_at"] is None
    site.apply("version", "snapshot")
    site.look()
    assert site.lab.one("SELECT data_version FROM heads WHERE asset_id = %s", SOURCE) == "EDITED"


def test_the_materializer_leaves_functions_to_workers(site: Site) -> None:
    """It has no code of projects."""
    site.apply("pages")
    watcher = Watcher(site.lab.store)
    assert site.look(watcher)["looked_at"] is None
    watcher.stop()


def test_a_worker_that_stops_does_not_count_as_a_failure(site: Site) -> None:
    """The lease ends, and another worker calls the function again."""
    site.apply("hang")
    site.watcher.start()
    wait_until(lambda: site.lab.one("SELECT claim FROM watches") == 1)
    site.watcher.stop()
    wait_until(lambda: all(one.name != f"look {SOURCE}" for one in threading.enumerate()))
    site.watcher.run_once()  # records what has ended
    (row,) = site.lab.rows("SELECT failures, error, lease_until IS NOT NULL AS leased FROM watches")
    assert row == {"failures": 0, "error": None, "leased": True}
