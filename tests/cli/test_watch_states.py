"""The lines of `freshline dev` about watchers: one for each change of state, however often a look fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from freshline.cli.watch_states import WatchStates
from freshline.store.watches.watches import BREAKER_FAILURES
from tests.watching.harness import SOURCE, Watching, watching


@pytest.fixture
def place(database_url: str, tmp_path: Path) -> Iterator[Watching]:
    """Yield a project with a watched directory."""
    with watching(database_url, tmp_path) as found:
        yield found


def test_a_watcher_that_goes_on_failing_is_one_line(place: Watching) -> None:
    """When it begins to fail, when it looks rarely, and when it works again."""
    states = WatchStates(place.lab.store.reader, pause_s=0)

    def lines() -> list[str]:
        return [line.plain.partition("  ")[2] for line in states.poll()]

    place.apply()
    place.look()
    assert lines() == []
    place.drop.rename(place.root / "away")
    seen = []
    for _ in range(BREAKER_FAILURES + 1):
        place.look(minutes=11)
        seen += lines()
    failed = f"the directory {place.drop} does not exist on "
    assert len(seen) == 2
    assert seen[0].startswith(f"the watcher of {SOURCE} fails: {failed}")
    assert seen[0].endswith(f"; `freshline watch show {SOURCE}` says more")
    assert seen[1].startswith(f"the watcher of {SOURCE} failed 5 times in a row, and looks rarely now: {failed}")
    (place.root / "away").rename(place.drop)
    place.look(minutes=11)
    assert lines() == [f"the watcher of {SOURCE} works again"]
    place.apply({})
    assert lines() == []


def test_watchers_that_fail_from_the_start_are_named(place: Watching) -> None:
    """They are read once in a while, not at every poll."""
    place.apply()
    place.drop.rmdir()
    place.look()
    states = WatchStates(place.lab.store.reader, pause_s=60)
    assert [line.plain.partition("  ")[2].partition(": ")[0] for line in states.poll()] == [
        f"the watcher of {SOURCE} fails"
    ]
    place.drop.mkdir()
    place.look(minutes=5)
    assert states.poll() == []
