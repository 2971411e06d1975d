"""The comparison with other systems, as far as it can be tested without them; `bench peers` measures them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import __main__ as bench
from bench.peers import comparison, dagster_peer, environment, ours, process, system, table
from bench.peers.comparison import Column
from bench.peers.environment import Unavailable
from bench.peers.process import Ended
from bench.peers.system import Execution, Interrupted
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
TIMES = {"samples": 3, "median": 2.5, "low": 0.4, "high": 5.25}
RIGHT = {"rounds": 2, "lost": 0, "more": [1, 1], "overlapped": 0}
DOCUMENT: dict[str, Any] = {
    "at": "2026-01-05T09:00:00+00:00",
    "machine": {"cores": 2, "architecture": "x", "memory_gb": 8, "system": "Linux", "python": "3.11"},
    "server": {"server_version": "18.1"},
    "seconds": 540.0,
    "quick": False,
    "ratio": 0.1,
    "notes": ["Not measured: something."],
    "columns": [
        Column("Freshline", "0.1.0", "defaults", {"idle": {"created": TIMES}, "during": {"one": RIGHT}}).as_json(),
        Column(
            "Dagster",
            "1.2.3",
            "best",
            {
                "idle": {"created": TIMES, "ticks": {"busy": TIMES, "quiet": 0.5}},
                "during": {
                    "one": {"rounds": 2, "lost": 1, "more": [0, 1], "overlapped": 0},
                    "burst": {"rounds": 1, "lost": 0, "more": [3], "overlapped": 1},
                },
            },
        ).as_json(),
        Column("Airflow", "3.2.1", "best", {"idle": {"created": TIMES}}).as_json(),
    ],
}


def test_the_graph_has_as_many_assets_as_it_says() -> None:
    """Sources, three layers below each, and the slow one; whoever reads the file gets the same."""
    for assets in (comparison.SMALL, comparison.LARGE):
        layout = system.chains(assets)
        assert assets - system.LAYERS <= layout.assets <= assets
        assert layout.consumes["c000_3"] == ("c000_2",)
        read = json.loads(system.as_json(layout))
        assert len(read["sources"]) + len(read["consumes"]) == layout.assets


def test_what_the_slow_job_notes_is_read() -> None:
    """Executions by process; one without an end is at work, and belongs to what is counted."""
    text = "begin 1.0 7\nbegin 2.0 8\nend 4.0 7\nend 5.0 8\nbegin 6.0 7\n"
    assert list(system.parsed(text)) == [Execution(1.0, 4.0), Execution(2.0, 5.0), Execution(6.0, None)]
    assert system.executions(Path("/nowhere/notes")) == []


@pytest.mark.parametrize(
    ("executions", "lost", "overlapped"),
    [
        ([(0.0, 3.0)], True, False),
        ([(0.0, 3.0), (3.5, 6.5)], False, False),
        ([(0.0, 3.0), (2.0, 5.0)], False, True),
        ([(0.0, 3.0), (1.0, 4.0)], True, True),
    ],
)
def test_an_update_is_lost_if_nothing_began_after_it(
    executions: list[tuple[float, float]], lost: bool, overlapped: bool
) -> None:
    """An update at 1.5: only an execution that begins later has read it."""
    found = Interrupted(1.5, tuple(Execution(*one) for one in executions))
    assert (found.lost, found.overlapped) == (lost, overlapped)
    assert system.tally([found]) == {
        "rounds": 1,
        "lost": int(lost),
        "more": [len(executions) - 1],
        "overlapped": int(overlapped),
    }


def test_ticks_of_dagster_are_told_apart() -> None:
    """Those that asked for runs, and those that found nothing to do."""
    rows = [
        ("SUCCESS", '{"timestamp": 10.0, "end_timestamp": 12.0}'),
        ("SKIPPED", '{"timestamp": 20.0, "end_timestamp": 20.5}'),
        ("SUCCESS", '{"timestamp": 30.0, "end_timestamp": 31.0}'),
    ]
    found = dagster_peer.summary(rows)
    assert found["busy"] == {"samples": 2, "median": 1.5, "low": 1.0, "high": 2.0}
    assert found["quiet"] == 0.5
    assert dagster_peer.summary([]) == {"busy": None, "quiet": None}


def test_dagster_waits_in_its_queue_only_by_default() -> None:
    """The best settings name the coordinator; the default ones only the database."""
    assert "DefaultRunCoordinator" in dagster_peer.configuration("postgresql://x", dagster_peer.BEST.coordinator)
    assert set(json.loads(dagster_peer.configuration("postgresql://x", dagster_peer.DEFAULT.coordinator))) == {
        "storage",
        "telemetry",
    }


def test_the_table_tells_who_lost_what() -> None:
    """On a terminal only what was measured; the loss, the runs after it and two at once in words."""
    lines = list(table.show(DOCUMENT))
    assert "    Freshline 0.1.0, defaults  2.5 (0.400 to 5.2)" in lines
    assert "    Freshline 0.1.0, defaults  not lost; runs after it: 1, 1" in lines
    assert "    Dagster 1.2.3, best        **lost** 1 of 2 times; runs after it: 0, 1" in lines
    assert "    Dagster 1.2.3, best        not lost; runs after it: 3; **two at once**" in lines
    assert lines[-1] == "  Not measured: something."


def test_the_page_gets_the_table_between_its_markers(tmp_path: Path) -> None:
    """What stands around it stays, a second time changes nothing more, and the real page has the markers."""
    (tmp_path / "docs").mkdir()
    copy = tmp_path / table.NAME
    text = (ROOT / table.NAME).read_text(encoding="utf-8")
    copy.write_text(text, encoding="utf-8")
    assert list(comparison.write(DOCUMENT, tmp_path)) == [f"wrote {table.NAME}"]
    written = copy.read_text(encoding="utf-8")
    assert list(comparison.write(DOCUMENT, tmp_path)) == [f"wrote {table.NAME}"]
    assert copy.read_text(encoding="utf-8") == written
    assert written.partition(table.BEGIN)[0] == text.partition(table.BEGIN)[0]
    assert written.partition(table.END)[2] == text.partition(table.END)[2]
    assert "| | Freshline 0.1.0, defaults | Dagster 1.2.3, best | Airflow 3.2.1, best |\n|---|---|---|---|\n" in written
    assert "| evaluation that asks for runs, 100 assets | - | 2.5 (0.400 to 5.2) | - |" in written
    assert "2 cores (x), 8 GB, Linux, Python 3.11, PostgreSQL 18.1" in written


@pytest.mark.parametrize("change", [{"quick": True}, {"columns": DOCUMENT["columns"][:2]}])
def test_the_page_stays_if_the_comparison_is_not_whole(tmp_path: Path, change: dict[str, Any]) -> None:
    """Figures that mean nothing, or without one of the peers (`--only`), are told and not written."""
    (line,) = comparison.write(DOCUMENT | change, tmp_path)
    assert "stays as it is" in line


def test_the_ratio_is_of_the_fastest_peer() -> None:
    """Ours against the best of theirs, told as other benchmarks do; without theirs there is none."""
    columns = [
        Column(name, "1", "best", {"idle": {"created": TIMES | {"median": median}}})
        for name, median in (("Freshline", 0.5), ("Dagster", 4.0), ("Airflow", 2.0))
    ]
    found = comparison.sides(columns)
    assert found["ratio"] == found["claims"][0]["value"] == 0.25
    assert (found["measured"]["median"], found["baseline"]["median"]) == (0.5, 2.0)
    for alone in (columns[:1], [*columns[:1], Column("Dagster", "1", "best")]):
        assert comparison.sides(alone)["ratio"] is None
        assert comparison.sides(alone)["claims"] == []


def test_an_environment_that_cannot_be_made_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others go on, nothing half made stays, and the reason is in it."""
    command = [sys.executable, "-c", "import sys; sys.exit('ERROR: No matching distribution found for dagster')"]
    monkeypatch.setattr(environment, "commands", lambda home, *_: [["mkdir", str(home)], command])
    homes, missing = comparison.environments(tmp_path, ["dagster"])
    assert homes == {}
    (sentence,) = missing
    assert sentence == (
        "dagster is left out: its environment could not be made (ERROR: No matching distribution found for dagster);"
        " bench/peers/requirements/dagster.txt needs a package index that pip or uv reaches."
    )
    assert sentence.removesuffix(".") in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_is_not_there_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No traceback where a command does not exist."""
    monkeypatch.setattr(environment, "commands", lambda *_: [["/nowhere/uv"]])
    with pytest.raises(Unavailable, match=r"airflow is left out.*/nowhere/uv"):
        environment.environment("airflow", tmp_path)


def test_an_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is complete is used again; what was cut off is made anew."""
    monkeypatch.setattr(environment, "commands", lambda home, *_: [["mkdir", str(home)]])
    home = environment.environment("dagster", tmp_path)
    (home / "kept").touch()
    assert (environment.environment("dagster", tmp_path) / "kept").exists()
    (home / environment.MADE).unlink()
    assert not (environment.environment("dagster", tmp_path) / "kept").exists()


def test_uv_is_used_where_it_is() -> None:
    """Otherwise what Python brings; both install the pins and nothing else."""
    for uv, first in (("/bin/uv", "/bin/uv"), (None, sys.executable)):
        make, install = environment.commands(Path("/home"), Path("/pins.txt"), uv)
        assert make[0] == first
        assert install[-2:] == ["-r", "/pins.txt"]


@pytest.mark.parametrize("name", comparison.PEERS)
def test_every_package_of_a_peer_is_pinned(name: str) -> None:
    """The figures are of these versions."""
    pins = (environment.PINS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in pins if "==" not in line] == []
    assert environment.version(name, {"airflow": "apache-airflow"}.get(name, name))


@pytest.mark.process
def test_what_a_peer_started_ends_with_it(tmp_path: Path) -> None:
    """By id, with the processes that it left behind, though it ignores SIGTERM's spirit and forks."""
    child = "import os, time; open('child', 'w').write(str(os.getpid())); time.sleep(600)"
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(600)"
    command = ["env", "-C", str(tmp_path), sys.executable, "-c", parent]
    with process.service(command, process.plain(), tmp_path / "log") as started:
        wait_until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text())
    pid = int((tmp_path / "child").read_text())
    assert started.returncode is not None
    wait_until(lambda: not _alive(pid))


@pytest.mark.process
def test_a_peer_that_ends_too_early_is_told_with_its_last_words(tmp_path: Path) -> None:
    """Nobody waits minutes for a process that is gone."""
    log = tmp_path / "daemon.log"
    with process.service([sys.executable, "-c", "import sys; sys.exit('no such table')"], process.plain(), log) as one:
        one.wait(30)
        with pytest.raises(Ended, match=r"daemon.log ended with status 1 and said 'no such table'"):
            process.alive(one, log)


def test_what_one_part_cannot_measure_the_others_still_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peers take turns, most important first; a problem or the end of the time leaves a sentence in the notes."""
    ran: list[str] = []

    def part(name: str, problem: str | None = None) -> Any:
        def run(server: Any) -> str | None:
            ran.append(name)
            return problem

        return SimpleNamespace(run=run)

    groups = [[part("a1"), part("a2", "Not measured: a2.")], [part("b1"), part("b2"), part("b3")]]
    parts = list(comparison.in_turns(groups))
    assert list(comparison._measure(parts, None)) == ["Not measured: a2."]  # type: ignore[arg-type]
    assert ran == ["a1", "b1", "a2", "b2", "b3"]
    monkeypatch.setattr(comparison, "LIMIT_S", -1.0)
    late = comparison.Part(Column("Dagster", "1", "best"), ours.running, 100, {})
    assert list(comparison._measure([late], None)) == [  # type: ignore[arg-type]
        "Not measured, as the time was up: Dagster, best, 100 assets."
    ]


def _alive(pid: int) -> bool:
    """Return whether the process runs; a zombie counts as ended."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(shown.stdout.strip()) and not shown.stdout.startswith("Z")


def test_peers_are_not_part_of_all() -> None:
    """`make bench` downloads nothing."""
    assert bench.PEERS not in bench.NAMES
