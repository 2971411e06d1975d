"""Backfills on a real terminal: the dry run, the prompt, the live view while it is resized, and the list."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.terminal.conftest import Deployment
from tests.terminal.harness import CTRL_C, LARGE, SMALL, Size, assert_readable
from tests.waiting import wait_until

RAW, DAILY, TOTAL = "warehouse.orders.raw", "warehouse.orders.daily", "warehouse.orders.total"
SLUGS = ("warehouse-orders-daily", "warehouse-orders-total")
NAMES = (RAW, DAILY, TOTAL, *SLUGS)
DAYS = [f"2026-01-{day:02}" for day in range(1, 9)]
INTERRUPTED = 130
WORKFLOWS = f"""
import time
from pathlib import Path

from freshline import asset, daily, on_upstream_update

DAYS = daily(start="2026-01-01", end="2026-01-09")


@asset("{DAILY}", kind="python", partitioning=DAYS, inputs={{"raw": "{RAW}"}}, auto=on_upstream_update())
def days(ctx, raw):
    while Path("stop").exists():
        time.sleep(0.02)
    return {{"assets": [{{"assetId": "{DAILY}", "dataVersion": raw.data_version}}]}}


@asset("{TOTAL}", kind="python", inputs={{"days": "{DAILY}"}}, auto=on_upstream_update())
def total(days):
    return {{"assets": [{{"assetId": "{TOTAL}", "dataVersion": days.data_version}}]}}
"""
SIZES = [SMALL, pytest.param(LARGE, marks=pytest.mark.full)]
COLOURS = [True, pytest.param(False, marks=pytest.mark.full)]


@pytest.fixture(scope="module")
def shared(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """One project with running services and eight days, all of them fresh."""
    root = tmp_path_factory.mktemp("terminal") / "orders"
    for directory in ("workflows", "sources"):
        (root / directory).mkdir(parents=True)
    (root / "freshline.toml").write_text('name = "orders"\n')
    partitioning = "{ time: day, start: 2026-01-01, end: 2026-01-09 }"
    (root / "sources" / "raw.yaml").write_text(f"assetId: {RAW}\npartitioning: {partitioning}\n")
    (root / "workflows" / "orders.py").write_text(WORKFLOWS)
    made = Deployment(root, module_database_url)
    made.call("apply", "--yes")
    made.start("materializer")
    made.start("worker", "--grace", "0")
    try:
        for day in DAYS:
            made.call("report", RAW, "--partition", day, "--data-version", "v1")
        wait_until(lambda: fresh(made), 120, every=0.5, what="fresh days")
        yield made
    finally:
        made.stop()


@pytest.fixture
def deployment(shared: Deployment) -> Iterator[Deployment]:
    """Yield the shared project; afterwards end its backfills and programs."""
    yield shared
    shared.close_terminals()
    (shared.project / "stop").unlink(missing_ok=True)
    for one in shared.json("backfill", "list"):
        shared.call("backfill", "cancel", one["id"], "--kill")


def fresh(deployment: Deployment) -> bool:
    """Return whether all days are fresh."""
    [daily] = deployment.json("status", DAILY)["assets"]
    return bool(daily["partitions"]["counts"]["fresh"] == len(DAYS))


@pytest.mark.process
@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_dry_run_and_the_prompt(deployment: Deployment, size: Size, colour: bool) -> None:
    """Both show what would run, from the oldest day to the newest; only `y` starts it."""
    words = ("backfill", DAILY, "--from", "2026-01-02", "--downstream")
    dry = deployment.terminal(*words, "--dry-run", size=size, colour=colour)
    assert dry.end() == 0
    assert_readable(dry, NAMES)
    assert "2026-01-02  2026-01-08" in dry.text
    assert (dry.screen.colours() > {"default"}) is False, "nothing in it is good or bad"
    asked = deployment.terminal(*words, size=size, colour=colour)
    asked.wait_for("Start this backfill?")
    asked.send("n\r")
    assert asked.end() == 1
    assert "nothing was started" in asked.text
    assert_readable(asked, NAMES)
    interrupted = deployment.terminal(*words, size=size, colour=colour)
    interrupted.wait_for("Start this backfill?")
    interrupted.send(CTRL_C)
    assert interrupted.end(again=CTRL_C) in {1, INTERRUPTED}
    assert "Traceback" not in interrupted.text
    assert deployment.json("backfill", "list", "--all") == []


@pytest.mark.process
@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_backfill_is_followed(deployment: Deployment, size: Size, colour: bool) -> None:
    """The view is drawn in place, also after a resize; Ctrl-C ends the view and not the backfill."""
    (deployment.project / "stop").touch()
    asked = deployment.terminal("backfill", DAILY, "--from", "2026-01-05", size=size, colour=colour)
    asked.wait_for("Start this backfill?")
    asked.send("y\r")
    assert asked.end() == 0
    [made] = deployment.json("backfill", "list")
    number = made["id"][-8:]
    shown = deployment.terminal("backfill", "show", number, "--follow", size=size, colour=colour)
    shown.wait_for(lambda: "▶" in shown.text and "running" in shown.text)
    shown.resize(Size(size.columns + 20, size.rows + 5))
    shown.send(CTRL_C)
    assert shown.end() == INTERRUPTED
    assert_readable(shown, NAMES)
    followed = deployment.terminal("backfill", "show", number, "--follow", size=size, colour=colour)
    followed.wait_for("0 of 4 (0 %)")
    (deployment.project / "stop").unlink()
    assert followed.end() == 0
    assert "4 of 4 (100 %) are done" in followed.text
    assert_readable(followed, NAMES)
    assert (followed.screen.colours() > {"default"}) == colour
    listed = deployment.terminal("backfill", "list", "--all", size=size, colour=colour)
    assert listed.end() == 0
    assert number in listed.text
    assert_readable(listed, NAMES)


def proposed(deployment: Deployment, line: str) -> str:
    """Change the code of the days, of which three may run by themselves; return the number of the proposal."""
    changed = WORKFLOWS.replace("on_upstream_update())", 'on_upstream_update(partitions={"limit": 3}))', 1)
    (deployment.project / "workflows" / "orders.py").write_text(changed.replace("    while", f"    {line}\n    while"))
    deployment.call("apply", "--yes")
    wait_until(lambda: len(deployment.json("backfill", "list")) == 1, 120, every=0.5, what="a proposal")
    [found] = deployment.json("backfill", "list")
    return str(found["id"][-8:])


@pytest.mark.process
def test_a_proposal_is_answered_as_it_was_shown(deployment: Deployment) -> None:
    """On narrow and wide terminals it is shown with its cost, and only `y` answers it; a pipe needs a revision."""
    number = proposed(deployment, "len('one')")
    for size in (SMALL, LARGE):
        asked = deployment.terminal("backfill", "deny", number, size=size)
        asked.wait_for("Leave these partitions as they are?")
        assert "old partitions would run, and wait for an approval" in asked.text
        assert "the code changed" in asked.text
        asked.send("n\r")
        assert asked.end() == 1
        assert "nothing was changed" in asked.text
        assert_readable(asked, NAMES)
    interrupted = deployment.terminal("backfill", "approve", number)
    interrupted.wait_for("Run these partitions?")
    interrupted.send(CTRL_C)
    assert interrupted.end(again=CTRL_C) in {1, INTERRUPTED}
    assert deployment.json("backfill", "show", number)["status"] == "proposed"
    agreed = deployment.terminal("backfill", "deny", number, size=LARGE)
    agreed.wait_for("Leave these partitions as they are?")
    agreed.send("y\r")
    assert agreed.end() == 0
    assert "is denied" in agreed.text
    assert deployment.json("backfill", "show", number)["status"] == "denied"
