"""`freshline watch`: what is looked at, what was seen, and what a look would report now."""

from __future__ import annotations

import pytest

from freshline.definitions.loading.project import load_project
from freshline.services.watcher import Watcher
from freshline.settings import load
from freshline.store.db.ids import new_id
from freshline.store.db.opening import open_store
from freshline.store.runs.claim import Claimant
from tests.cli.conftest import Freshline
from tests.cli.test_backend_api import settle
from tests.waiting import wait_until

SOURCES = """
- assetId: landing.orders
  mode: append
  format: csv
  path: drop
  watch: { files: "drop/*.csv" }
- assetId: landing.gone
  mode: append
  watch: { files: "gone/*.csv" }
"""
WORKFLOW = """
slug: orders
steps:
  - id: one
    job: { kind: python, entrypoint: "landing:run" }
    consumes: [{ assetId: landing.orders, rows: new }, { assetId: landing.gone }]
    produces: [{ assetId: orders, autoMaterialize: { onUpstreamUpdate: true } }]
"""


@pytest.fixture
def watched(applied: Freshline) -> Freshline:
    """Return a project with two watched sources, one of which has no directory."""
    project = applied.project
    (project / "sources").mkdir(exist_ok=True)
    (project / "drop").mkdir()
    (project / "sources" / "landing.yaml").write_text(SOURCES)
    (project / "workflows" / "orders.yaml").write_text(WORKFLOW)
    (project / "landing.py").write_text("def run(ctx): return None\n")
    applied("apply", "--yes")
    return applied


def look() -> None:
    """Look at everything that is due, and decide about it, as a materializer does."""
    with open_store(load()) as store:
        watcher = Watcher(store)
        wait_until(lambda: watcher.run_once() or not watcher.busy)
        watcher.stop()
        settle(store)


def test_a_look_is_shown_with_what_it_saw_and_what_it_does_not_deliver(watched: Freshline) -> None:
    """`check` says what would be reported and reports nothing; `list`, `show` and `why` say what a look saw."""
    drop = watched.project / "drop"
    (drop / "a.csv").write_text("id\n1\n")
    (drop / "b[1].csv").write_text("id\n1\n")
    assert "nothing yet; is `freshline materializer` running?" in watched("watch", "list").stdout
    checked = watched("watch", "check", "landing.orders").stdout
    assert "2 files match, 1 is new, 1 cannot be delivered." in checked
    assert "would report a delivery of drop/a.csv" in checked
    assert watched.json("delivery", "list", "landing.orders")["deliveries"] == []
    look()
    assert [one["path"] for one in watched.json("delivery", "list", "landing.orders")["deliveries"]] == [
        str(drop / "a.csv")
    ]
    (drop / "a.csv").write_text("id\n1\n2\n")
    shown = watched.json("watch", "show", "landing.orders")
    assert (shown["reported"], shown["summary"]) == (1, "2 files match, 1 is new, 1 cannot be delivered.")
    text = watched("watch", "show", "landing.orders").stdout
    assert "reported    1 delivery, the last one " in text
    assert "not delivered: drop/b[1].csv: the name contains '['" in text
    with open_store(load()) as store, store.database.transaction("test") as connection:
        connection.execute("UPDATE watches SET next_at = now() - interval '1 hour'")
    look()
    assert "1 changed after its delivery." in " ".join(watched("watch", "show", "landing.orders").stdout.split())
    with open_store(load()) as store, store.database.transaction("test") as connection:
        connection.execute("UPDATE watches SET next_at = now() - interval '1 hour'")
    assert "next look   due since " in watched("watch", "show", "landing.orders").stdout
    why = watched("why", "orders").stdout
    assert "the watcher of 'landing.orders' saw 2 things that it does not deliver" in " ".join(why.split())


def test_a_failing_look_is_named_wherever_somebody_asks(watched: Freshline) -> None:
    """In `watch list`, in `watch show`, in `why` of the source, and in `why` of its consumer."""
    look()
    error = f"the directory {watched.project / 'gone'} does not exist on"
    for words in (("watch", "list"), ("watch", "show", "landing.gone"), ("why", "landing.gone"), ("why", "orders")):
        result = watched(*words)
        assert error in " ".join((result.stdout + result.stderr).split()), words
    assert "last look   none succeeded, failing since " in watched("watch", "show", "landing.gone").stdout
    assert "none succeeded" in watched("watch", "list").stdout
    assert error in watched("watch", "check", "landing.gone", code=1).stderr


def test_consumers_that_cannot_read_are_shown(watched: Freshline) -> None:
    """A watcher does not read the files that it delivers, so it shows what their readers say, until they succeed."""
    assert watched.json("watch", "show", "landing.orders")["failingConsumers"] == []
    (watched.project / "drop" / "a.csv").write_text("id\n1\n")
    (watched.project / "gone").mkdir()
    (watched.project / "gone" / "a.csv").write_text("id\n1\n")
    look()
    with open_store(load()) as store:
        run = store.runs.claim(Claimant(new_id(), "shop", load_project(watched.project).code_hash, spark=True))
        assert run is not None
        store.runs.fail(run.id, run.attempt, {"code": "job", "message": "delivery 1 cannot be read"})
    (consumer,) = watched.json("watch", "show", "landing.orders")["failingConsumers"]
    assert consumer == {"workflowSlug": "orders", "runId": run.id, "error": "delivery 1 cannot be read"}
    told = " ".join(watched("watch", "show", "landing.orders").stdout.split())
    assert "orders failed: delivery 1 cannot be read; `freshline why orders` says more" in told
    watched("reset", "orders")
    assert watched.json("watch", "show", "landing.orders")["failingConsumers"] == []


def test_why_names_a_failing_look_once(watched: Freshline) -> None:
    """As the root cause of what never ran, and else as a warning."""
    look()
    error = f"the directory {watched.project / 'gone'} does not exist on"
    for name, begins in (("orders", "root cause: looking at landing.gone fails: "), ("landing.gone", "warning: ")):
        result = watched("why", name)
        text = " ".join((result.stdout + result.stderr).split())
        assert text.count(error) == 1, text
        assert begins in text
        assert "the watcher of 'landing.gone' notices nothing" in text or name == "orders"


def test_the_partitions_of_a_look_are_named(watched: Freshline) -> None:
    """`check`, `list`, `show`, `why` and `events` name the partitions, and what belongs to none."""
    (watched.project / "sources" / "days.yaml").write_text(
        "assetId: landing.days\npartitioning: {time: day, start: 2024-01-01}\n"
        "watch: {files: 'drop/dt={partitionKey}/*.csv'}\n"
    )
    watched("apply", "--yes")
    for part in ("2024-01-31", "2024-02-01", "31.1."):
        (watched.project / "drop" / f"dt={part}").mkdir()
        (watched.project / "drop" / f"dt={part}" / "a.csv").write_text("id\n1\n")
    checked = watched("watch", "check", "landing.days").stdout
    assert " of landing.days@2024-01-31\n" in checked
    assert "not delivered: drop/dt=31.1./a.csv: partition key '31.1.' is not a day" in " ".join(checked.split())
    found = watched.json("watch", "check", "landing.days")["found"]
    assert sorted(one["partitionKey"] for one in found) == ["2024-01-31", "2024-02-01"]
    look()
    shown = watched.json("watch", "show", "landing.days")
    assert sorted(shown["reportedPartitions"]) == ["2024-01-31", "2024-02-01"]
    text = " ".join(watched("watch", "show", "landing.days").stdout.split())
    assert "reported 2 versions, the last one " in text
    assert ", of 2024-01-31, 2024-02-01" in text
    assert "not delivered: drop/dt=31.1./a.csv: partition key '31.1.' is not a day; allowed are keys such as" in text
    assert "2 have a new version: 2024-01-31, 2024-02-01" in " ".join(watched("watch", "list").stdout.split())
    why = " ".join(watched("why", "landing.days").stdout.split())
    assert "saw one thing that it does not deliver, such as drop/dt=31.1./a.csv: partition key '31.1.'" in why
    events = watched.json("events", "--subject", "landing.days")
    keys = [one["data"]["partitionKey"] for one in events if one["type"] == "asset.produced"]
    assert sorted(keys) == ["2024-01-31", "2024-02-01"]


def test_sources_without_a_watch_say_what_to_do(applied: Freshline) -> None:
    """A wrong name is an error with a suggestion."""
    assert "no source has a watch; add `watch:" in applied("watch", "list").stderr
    error = applied("watch", "show", "shop.raw", code=1).stderr
    assert "source 'shop.raw' has no watch (add `watch` to it in sources/, and run `freshline apply`)" in error
    assert "did you mean 'shop.raw'" in applied("watch", "check", "shop.rw", code=1).stderr
