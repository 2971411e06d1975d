"""The checks of the chaos test: each finds nothing in a right history, and the violation that is planted in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.chaos_workload import FILES, State, code_of, damaged_files, first_state, version, write_project
from tests.chaos.disk import Disk
from tests.chaos.generations import silent_mixes, wrong_contents
from tests.chaos.landing import Reported, misdelivered
from tests.chaos.redefinitions import Applied
from tests.chaos.starts import queued_in_cooldown, running_twice, started_in_quiet_hours

Row = dict[str, Any]
START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return a time."""
    return START + timedelta(seconds=seconds)


def run(
    name: str, begin: float, end: float, *, slug: str = "clean", trigger: str = "auto-materialize", **more: Any
) -> Row:
    """Return a run that was queued and started at one time."""
    times = {"queued_at": at(begin), "started_at": at(begin), "finished_at": at(end)}
    fixed = {"workflow_id": 1, "version": 1, "code_hash": "h", "attempt": 1, "status": "succeeded", "mixed": False}
    return {"id": name, "slug": slug, "trigger_type": trigger, **times, **fixed, **more}


def start(
    name: str, seconds: float, *, slug: str = "clean", trigger: str = "auto-materialize", attempt: int = 1
) -> Row:
    """Return the event of a start."""
    return {"run": name, "time": at(seconds), "slug": slug, "trigger": trigger, "attempt": attempt}


def snapshot(asset: str, sequence: int, data_version: str, run_id: str | None = None, **inputs: str) -> Row:
    """Return a snapshot; the versions of inputs end with their sequence."""
    read = {one: {"sequence": int(pin[1:]), "dataVersion": pin} for one, pin in inputs.items()}
    return {
        "asset_id": asset,
        "sequence": sequence,
        "data_version": data_version,
        "run_id": run_id,
        "inputs": read,
        "table_version": None,
    }


def applied(state: State, done: float, over: float | None = None) -> Applied:
    """Return a state that was applied."""
    return Applied(state, at(done - 1), at(done), at(over) if over is not None else None)


def found(messages: Sequence[str], *words: str) -> None:
    """Check that there is one message, with these words."""
    assert len(messages) == 1, messages
    assert all(word in messages[0] for word in words), messages


def test_manual_runs_must_not_run_at_the_same_time() -> None:
    """See docs/semantics.md#R6.4. A lost attempt may have ended before; the last one was running until its end."""
    runs = [run("a", 0, 10), run("m", 5, 12, trigger="manual"), run("o", 5, 6, slug="other")]
    starts = [start("a", 0), start("m", 10), start("o", 5, slug="other")]
    assert [*running_twice(runs, starts)] == []
    found([*running_twice(runs, [start("a", 0), start("m", 9, trigger="manual")])], "m started while a")
    again = [{**runs[0], "attempt": 2}, runs[1]]
    assert [*running_twice(again, [start("a", 0), start("m", 3), start("a", 13, attempt=2)])] == []


def test_no_automatic_run_starts_in_quiet_hours_that_are_applied() -> None:
    """The time of the apply decides, and manual runs may start."""
    state = first_state()
    quiet = state.having(replace(state.flows["clean"], quiet=(at(60), at(240))))
    log = [applied(state, 0, 50), applied(quiet, 52, 80), applied(state, 82)]
    allowed = [start("a", 59), start("b", 60.1), start("c", 80.5), start("d", 100), start("m", 70, trigger="manual")]
    assert [*started_in_quiet_hours([*allowed, start("w", 70, slug="wide")], log)] == []
    found([*started_in_quiet_hours([*allowed, start("bad", 70, attempt=2)], log)], "bad, attempt 2", "quiet hours")


def test_a_cooldown_ends_with_a_new_version_only() -> None:
    """See docs/semantics.md#R7.3. The new version also begins to count from one."""
    state = first_state()
    runs = [run("a", 0, 1, status="failed"), run("b", 1.5, 3)]
    other = state.having(replace(state.flows["wide"], salt=1))
    found([*queued_in_cooldown(runs, [applied(state, 0, 1), applied(other, 1.2)])], "run b", "cooldown")
    edited = state.having(replace(state.flows["clean"], policy="priority: 3"))
    log = [applied(state, 0, 1), applied(edited, 1.2)]
    assert [*queued_in_cooldown(runs, log)] == []
    runs = [run("a", 0, 0.1, status="failed"), run("b", 1.2, 1.6, status="failed"), run("c", 2.7, 3)]
    assert [*queued_in_cooldown(runs, log)] == []
    found([*queued_in_cooldown(runs, log[:1])], "run c")


def test_what_is_published_follows_from_its_recorded_inputs_and_its_version() -> None:
    """Code or parameters of another version, another input, and another set of inputs show."""
    definitions: dict[tuple[int, int], Row] = {
        (1, 1): {"parameters": {"salt": 4}, "steps": [{"consumes": [{"assetId": "orders"}]}]}
    }
    right = version(7, "clean", 4, {"orders": "v1"})
    source = snapshot("orders", 1, "v1")

    def check(one: Row) -> list[str]:
        return [*wrong_contents([source, one], [run("a", 0, 1)], definitions, {"h": 7})]

    assert check(snapshot("clean", 1, right, "a", orders="v1")) == []
    for wrong in (version(6, "clean", 4, {"orders": "v1"}), version(7, "clean", 3, {"orders": "v1"})):
        found(check(snapshot("clean", 1, wrong, "a", orders="v1")), "does not follow")
    found(check(snapshot("clean", 1, version(7, "clean", 4, {"orders": "v2"}), "a", orders="v1")), "does not follow")
    more = version(7, "clean", 4, {"orders": "v1", "prices": "v9"})
    found(check(snapshot("clean", 1, more, "a", orders="v1", prices="v9")), "reads other assets")
    found(check({**snapshot("clean", 1, right, "a", orders="v1"), "run_id": "a"} | {"data_version": "x"}), "is x")


def mixes(
    *,
    says_mixed: bool = False,
    upper_mixed: bool = False,
    over: float | None = None,
    before: Row | None = None,
    removed: str | None = None,
) -> list[str]:
    """Return what is found where `weekly` reads `clean` of v2, and `daily` of a `clean` of v1.

    `before`: an earlier run of `weekly`. `removed`: the asset whose workflow was removed at that time.
    """
    snapshots = [
        snapshot("clean", 1, "c1", "c1", orders="v1"),
        snapshot("clean", 2, "c2", "c2", orders="v2"),
        snapshot("priced", 1, "p1", "p", clean="c1", prices="v1"),
        snapshot("daily", 1, "d1", "d", priced="p1"),
    ]
    pins = {"daily": {"sequence": 1, "dataVersion": "d1"}, "clean": {"sequence": 2, "dataVersion": "c2"}}
    upper = [run(name, 0, 1, pins={}) for name in ("c1", "c2", "d")] + [run("p", 0, 1, pins={}, mixed=upper_mixed)]
    earlier = [run("b", 2, 3, slug="weekly", **{"pins": pins, **before})] if before else []
    runs = [*upper, *earlier, run("w", 5, 6, slug="weekly", pins=pins, mixed=says_mixed)]
    first = [applied(first_state().without(removed), 0, 4)] if removed else []
    return [*silent_mixes(snapshots, runs, [*first, applied(first_state(), 4 if removed else 0, over)])]


def test_a_mix_must_say_so() -> None:
    """Data without a guarantee is not traced, and neither is a run during which something was applied."""
    messages = mixes()
    assert len(messages) == 2, messages
    assert "two versions of clean (c1, c2)" in messages[0]
    assert "two versions of orders (v1, v2)" in messages[1]
    assert mixes(says_mixed=True) == []
    assert mixes(upper_mixed=True) == []
    assert mixes(over=4) == []


def test_what_a_redefinition_made_a_mix_is_not_judged_again() -> None:
    """A run that reads what the last success read follows the rule; not so if that was a mix already."""
    other = {"daily": {"sequence": 1, "dataVersion": "d0"}, "clean": {"sequence": 2, "dataVersion": "c2"}}
    assert len(mixes(before={"mixed": False})) == 2  # the earlier run itself
    assert len(mixes(before={"mixed": True})) == 2
    assert len(mixes(before={"mixed": False, "pins": other})) == 2


def test_a_version_that_was_read_as_a_source_stays_one() -> None:
    """A run that was pinned while `daily` had no workflow did not trace it; nor is it traced in what it made."""
    other = {"daily": {"sequence": 1, "dataVersion": "d1"}, "clean": {"sequence": 3, "dataVersion": "c3"}}
    assert len(mixes(before={"mixed": False, "pins": other})) == 3
    assert mixes(before={"mixed": False, "pins": other}, removed="daily") == []
    assert len(mixes(before={"mixed": False, "pins": other}, removed="report")) == 3


def test_the_file_of_a_head_is_whole(tmp_path: Path) -> None:
    """The job of the workload writes it as the check reads it."""
    state = replace(first_state(), code=3)
    write_project(tmp_path, state)
    jobs = (tmp_path / "jobs.py").read_text()
    assert code_of(jobs) == 3
    module: dict[str, Any] = {}
    exec(compile(jobs, "jobs.py", "exec"), module)  # noqa: S102 - our own text
    text = module["content"]("priced", 0, [("clean", "c1"), ("prices", "v1")])
    made = version(3, "priced", 0, {"prices": "v1", "clean": "c1"})
    file = tmp_path / FILES / f"priced-{made}"
    found(damaged_files(tmp_path, [("priced", made), ("wide", "w")]), "missing")
    module["write"](str(file), text, "unique")
    assert damaged_files(tmp_path, [("priced", made)]) == []
    file.write_text(file.read_text().replace("c1", "c2"))
    found(damaged_files(tmp_path, [("priced", made)]), "damaged")


def test_a_redefinition_changes_the_final_versions() -> None:
    """Each edit of a job reaches everything below, and edits of policy reach nothing."""
    state, sources = first_state(), {"orders": "v1", "prices": "v1", "stock": "v1"}
    before = state.versions(sources)
    clean = state.flows["clean"]

    def changed(other: State) -> set[str]:
        return {asset for asset, one in other.final().versions(sources).items() if before[asset] != one}

    assert changed(state.having(replace(clean, policy="when: all", quiet=(at(0), at(60)), slug="c"))) == set()
    assert changed(state.without("clean")) == set()
    assert changed(state.having(replace(clean, salt=1))) == {"clean", "priced", "daily", "weekly", "report"}
    assert changed(replace(state, code=1)) == {*state.flows}


def test_a_full_disk_is_full_and_has_room_again(tmp_path: Path) -> None:
    """Where a file system can be mounted."""
    disk = Disk("small", tmp_path / "disk", 2**20)
    try:
        disk.mount()
    except Exception as error:  # noqa: BLE001 - not permitted, or no mount at all
        pytest.skip(f"no file system can be mounted here: {error}")
    try:
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            (disk.path / "file").write_bytes(bytes(5_000))
        disk.release()
        (disk.path / "file").write_bytes(bytes(600_000))
        disk.release()
        (disk.path / "more").write_bytes(bytes(1_000_000))
    finally:
        disk.unmount()


def test_every_file_is_one_delivery_one_event_and_one_row() -> None:
    """A lost, a doubled and an invented one show, each in its place."""
    names = ["000001.csv", "000002.csv"]
    right = Reported(names, names)
    assert misdelivered([1, 2], right, [2, 1]) == []
    found(misdelivered([1, 2], right, [1]), "000002.csv has 0 rows")
    found(misdelivered([1, 2], right, [1, 2, 2]), "000002.csv has 2 rows")
    found(misdelivered([1, 2], Reported([*names, names[0]], names), [1, 2]), "000001.csv has 2 deliveries")
    found(misdelivered([1, 2], Reported(names, names[:1]), [1, 2]), "000002.csv has 0 events")
    found(misdelivered([1, 2], right, [1, 2, 3]), "rows of 000003.csv", "never dropped")
    found(misdelivered([1, 2], right, "no such table"), "cannot be read", "no such table")
