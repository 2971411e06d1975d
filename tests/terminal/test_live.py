"""Commands that go on until they are stopped, on a real terminal: resized while they run, and ended with Ctrl-C."""

from __future__ import annotations

import itertools

import pytest

from freshline.cli.render.progress import BAR_WIDTH
from tests.terminal.conftest import DAILY, NAMES, RAW, SLOW, SLUGS, Deployment, Slow
from tests.terminal.harness import CTRL_C, LARGE, SMALL, Size, assert_readable

SIZES = [SMALL, pytest.param(LARGE, marks=pytest.mark.full)]
COLOURS = [True, pytest.param(False, marks=pytest.mark.full)]
INTERRUPTED = 130
deliveries = itertools.count(2)


def larger(size: Size) -> Size:
    """Return the size to which a terminal is changed: lines that were printed for the old one still fit."""
    return Size(size.columns + 40, size.rows + 10)


@pytest.mark.process
@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(
    ("listing", "entry"), [("events", "asset.produced"), ("decisions", "upstream-update"), ("runs", "succeeded")]
)
def test_followers(deployment: Deployment, listing: str, entry: str, size: Size, colour: bool) -> None:
    """What happens is printed as it happens, also after a resize, and Ctrl-C ends it with 130 and no more words."""
    terminal = deployment.terminal(listing, "--follow", "--limit", "3", size=size, colour=colour)
    terminal.wait_for(lambda: entry in terminal.text or "refresh" in terminal.text)
    terminal.resize(larger(size))
    seen = terminal.text.count(entry)
    deployment.report(f"delivery-{next(deliveries)}")
    terminal.wait_for(lambda: terminal.text.count(entry) > seen)
    terminal.send(CTRL_C)
    assert terminal.end() == INTERRUPTED
    assert_readable(terminal, NAMES)
    assert "Error" not in terminal.text
    assert (terminal.screen.colours() > {"default"}) == (colour and listing != "events")


@pytest.mark.process
@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_watching_the_status(deployment: Deployment, size: Size, colour: bool) -> None:
    """The view changes in place and follows the size of the terminal; after Ctrl-C, which ends with 130, it stays."""
    terminal = deployment.terminal("status", "warehouse.*", "--watch", size=size, colour=colour)
    terminal.wait_for(lambda: "Ctrl-C ends it" in terminal.text and DAILY in terminal.text)
    terminal.resize(larger(size))
    delivery = f"delivery-{next(deliveries)}"
    deployment.report(delivery)
    terminal.wait_for(lambda: delivery in terminal.text)
    terminal.send(CTRL_C)
    assert terminal.end() == INTERRUPTED
    assert delivery in terminal.text
    assert_readable(terminal, NAMES)
    assert "Error" not in terminal.text
    assert terminal.text.count("status at ") <= 3, "the view is drawn in place, except where the terminal was resized"
    assert (terminal.screen.colours() > {"default"}) == colour


@pytest.mark.process
def test_watching_the_status_on_a_small_terminal(deployment: Deployment) -> None:
    """What does not fit is counted, so that the view does not scroll."""
    terminal = deployment.terminal("status", "--watch", size=Size(80, 6))
    terminal.wait_for("more lines; a pattern such as 'sales.*' or a larger terminal shows them")
    terminal.send(CTRL_C)
    assert terminal.end() == INTERRUPTED


@pytest.mark.process
@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_waiting_for_a_run(deployment: Deployment, size: Size, colour: bool) -> None:
    """`run --wait` draws a bar, which follows the size of the terminal and is gone when the end is told."""
    terminal = deployment.terminal("run", SLUGS[SLOW], "--wait", size=size, colour=colour)
    terminal.wait_for(lambda: "━" in terminal.text and "3/10" in terminal.text)
    terminal.resize(larger(size))
    terminal.wait_for(lambda: "━" in terminal.text)
    (deployment.project / "go").touch()
    assert terminal.end() == 0
    assert f"of {SLUGS[SLOW]} succeeded after" in terminal.text
    assert_readable(terminal, NAMES)


@pytest.mark.process
@pytest.mark.full
def test_a_follower_in_a_terminal_that_shrinks(deployment: Deployment) -> None:
    """Entries are wrapped for the size that the terminal has when they are printed."""
    terminal = deployment.terminal("decisions", "--follow", "--limit", "1", size=LARGE)
    terminal.wait_for(lambda: "refresh" in terminal.text and terminal.screen.cursor.x == 0)
    terminal.resize(SMALL)
    before = terminal.text.count("upstream-update")
    deployment.report(f"delivery-{next(deliveries)}")
    terminal.wait_for(lambda: terminal.text.count("upstream-update") > before)
    terminal.send(CTRL_C)
    assert terminal.end() == INTERRUPTED
    assert_readable(terminal, NAMES)


@pytest.mark.process
@pytest.mark.full
def test_a_bar_in_a_terminal_that_shrinks(deployment: Deployment) -> None:
    """The bar is drawn again so that it fits, or without it if there is no room; the command goes on."""
    terminal = deployment.terminal("run", SLUGS[SLOW], "--wait", size=LARGE)
    terminal.wait_for(lambda: "━" * BAR_WIDTH in terminal.text)
    terminal.resize(Size(50, 20))
    terminal.wait_for(lambda: any("3/10" in line and "━" not in line for line in terminal.screen.display))
    (deployment.project / "go").touch()
    assert terminal.end() == 0
    assert "succeeded after" in " ".join(terminal.text.split())
    assert "Traceback" not in terminal.text


@pytest.mark.process
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_no_longer_waiting_for_a_run(deployment: Deployment, size: Size, slow_run: Slow) -> None:
    """Ctrl-C ends the waiting with 130 and no traceback; `logs -f` of the same run likewise, the run goes on."""
    run_id = slow_run()
    waiting = deployment.terminal("run", SLUGS[SLOW], "--wait", size=size)
    waiting.wait_for("━")
    waiting.send(CTRL_C)
    assert waiting.end() == INTERRUPTED
    assert "goes on; `freshline logs " in waiting.text
    assert_readable(waiting, NAMES)
    logs = deployment.terminal("logs", run_id, "-f", size=size)
    logs.wait_for("waiting for the file")
    logs.resize(larger(size))
    logs.send(CTRL_C)
    assert logs.end() == INTERRUPTED
    assert_readable(logs, NAMES)
    assert deployment.json("runs", run_id)["status"] == "running"


@pytest.mark.process
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_logs_are_followed_to_the_end(deployment: Deployment, size: Size, slow_run: Slow) -> None:
    """Lines appear as they are printed; the command ends with the run."""
    logs = deployment.terminal("logs", slow_run(), "-f", size=size)
    logs.wait_for("waiting for the file")
    (deployment.project / "go").touch()
    assert logs.end() == 0
    assert "the file is there" in logs.text
    assert_readable(logs, NAMES)


@pytest.mark.process
@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_dev(deployment: Deployment, size: Size, colour: bool) -> None:
    """It prints what happens, also after a resize; Ctrl-C stops everything, says so, and is no failure."""
    terminal = deployment.terminal("dev", "--grace", "0", size=size, colour=colour)
    terminal.wait_for("freshline is running; Ctrl-C stops it")
    terminal.resize(larger(size))
    deployment.report(f"delivery-{next(deliveries)}")
    terminal.wait_for(lambda: RAW in terminal.text and DAILY in terminal.text)
    terminal.send(CTRL_C)
    assert terminal.end() == 0
    assert "stopping; once more to stop at once" in terminal.text
    assert_readable(terminal, NAMES)
