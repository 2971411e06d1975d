"""What a process remembers of the files that it has seen."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshline.definitions.schema.watch import FilesWatch
from freshline.model.allowed_paths import AllowedPaths
from freshline.model.watch import identity, path_key
from freshline.watching import seen
from freshline.watching.look import LookContext, look
from freshline.watching.seen import Digests, SeenFiles

KEYS = st.integers(0, 2**128 - 1)
NUMBERS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.lists(st.tuples(KEYS | st.integers(0, 3).map(lambda n: n << 64 | 7), NUMBERS))))
def test_digests_are_a_dictionary(batches: list[list[tuple[int, int]]]) -> None:
    """Keys with equal halves are different keys, also across merges."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seen, "MERGE_AT", 2)
        digests, expected = Digests(), dict[int, int]()
        for batch in batches:
            digests.update(batch)
            expected |= dict(batch)
        assert {key: digests.get(key) for key in expected} == expected
        assert len(digests) == len(expected)
        assert digests.get(2**127 + 5) == expected.get(2**127 + 5)


def test_known_files_are_not_examined_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many delivered files one look examines a part, and the next looks the rest: a change is found in the end."""
    monkeypatch.setattr("freshline.watching.files.MOST_CHECKED", 10)
    drop = tmp_path / "drop"
    drop.mkdir()
    files = [drop / f"{number}.csv" for number in range(35)]
    for file in files:
        file.write_text("id\n")
    memory = SeenFiles(lambda _: {})
    known = ((f"drop/{file.name}", file.stat()) for file in files)
    memory.load(((path_key(path), identity(one.st_size, str(one.st_mtime_ns))) for path, one in known), 1)
    context = LookContext("a", datetime.now(UTC), AllowedPaths(str(tmp_path), (str(tmp_path),)), 30, seen=memory)
    examined: list[str] = []
    original = os.stat

    def counted(path: str, **more: bool) -> os.stat_result:
        if str(path).endswith(".csv"):
            examined.append(path)
        return original(path, **more)

    monkeypatch.setattr(os, "stat", counted)
    for number in range(1, 5):
        found = look(FilesWatch(files="drop/*.csv"), "append", {"started": True}, context)
        assert found.summary == "35 files match, none is new."
        assert len(examined) == min(10 * number, 35)
    assert len(set(examined)) == 35
    assert memory.checked == 0


def test_a_million_files_fit() -> None:
    """Each takes 24 bytes: two halves of its key, and its identity."""
    digests = Digests()
    digests.update((number << 64 | number, number) for number in range(50_000))
    arrays = sum(sys.getsizeof(one) for one in (digests._high, digests._low, digests._numbers))
    assert arrays < 50_000 * 30
