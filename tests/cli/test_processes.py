"""Commands that start processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from freshline.cli.commands.dev import Activity, Watched, stamps, unreported_sources
from freshline.cli.signals import KILLED, stop_signals
from freshline.store.store import Store
from tests.cli.conftest import Freshline
from tests.store_harness import Lab, laboratory, project, workflow
from tests.waiting import wait_until

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(freshline: Freshline, tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts the real program; processes that are left at the end are killed."""
    running: list[subprocess.Popen[str]] = []

    def begin(*words: str) -> subprocess.Popen[str]:
        with (tmp_path / f"process-{len(running)}.txt").open("w") as told:
            process = subprocess.Popen(
                [sys.executable, "-m", "freshline.cli.main", *words], stdout=told, stderr=told, text=True
            )
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.wait()


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a fresh installation."""
    with laboratory(database_url) as lab:
        yield lab


def output(tmp_path: Path, number: int = 0) -> str:
    """Return the output of a process so far."""
    return (tmp_path / f"process-{number}.txt").read_text()


def states(freshline: Freshline) -> dict[str, str]:
    """Return the state of each asset."""
    return {one["assetId"]: one["state"] for one in freshline.json("status")["assets"]}


@pytest.mark.process
def test_materializer_and_worker_do_the_work_and_end_on_sigterm(
    applied: Freshline, start: Start, tmp_path: Path
) -> None:
    """A report becomes one run per descendant; on SIGTERM both leave with 0 and are listed as stopped."""
    processes = [start("materializer", "--log-format", "json"), start("worker", "--slots", "2", "--grace", "5")]
    wait_until(lambda: len(applied.json("workers")) == 2, 60, what="two processes")
    applied("report", "shop.raw", "--version", "v1")
    fresh = {"shop.raw": "source", "shop.clean": "fresh", "shop.daily": "fresh"}
    wait_until(lambda: states(applied) == fresh, 60, what="everything fresh")
    runs = applied.json("runs")
    assert sorted(run["workflowSlug"] for run in runs) == ["make-clean", "make-daily"]
    assert {run["trigger"]["type"] for run in runs} == {"auto-materialize"}
    assert applied("run", "make-daily", "--wait").exit_code == 0
    for process in processes:
        process.send_signal(signal.SIGTERM)
    assert [process.wait(30) for process in processes] == [0, 0]
    assert applied.json("workers") == []
    assert len(applied.json("workers", "--all")) == 2
    assert "Traceback" not in output(tmp_path) + output(tmp_path, 1)


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.mark.process
def test_the_api_serves_until_it_is_told_to_stop(applied: Freshline, start: Start, tmp_path: Path) -> None:
    """`freshline api` answers, is among the workers, and ends with 0; where its place is taken it says so."""
    port = free_port()
    process = start("api", "--port", str(port))
    wait_until(lambda: f"the API is at http://127.0.0.1:{port}/api/v1" in output(tmp_path), 60)
    answer = httpx.get(f"http://127.0.0.1:{port}/api/v1/assets/shop.clean", trust_env=False)
    assert answer.json()["freshness"] == {"ttlMs": 3_600_000}
    wait_until(lambda: [one["kind"] for one in applied.json("workers")] == ["api"], 30)
    assert "Address already in use" in applied("api", "--port", str(port), code=2).stderr
    assert "`freshline token create NAME`" in applied("api", "--host", "0.0.0.0", "--port", "0", code=2).stderr  # noqa: S104
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert applied.json("workers") == []
    assert "Traceback" not in output(tmp_path)


@pytest.mark.process
def test_the_materializer_tells_prometheus_what_it_counted(
    applied: Freshline, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a port is set; a port that is taken is told at once."""
    port = free_port()
    monkeypatch.setenv("FRESHLINE_METRICS_PORT", str(port))
    process = start("materializer")
    wait_until(lambda: len(applied.json("workers")) == 1, 60)
    applied("report", "shop.raw")

    def told_prometheus() -> bool:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
        return 'freshline_decisions_total{outcome="run",reason="missing"} 1.0' in text

    wait_until(told_prometheus, 30)
    assert "no metrics on 127.0.0.1" in applied("worker", code=2).stderr
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


@pytest.mark.process
def test_dev_applies_works_watches_and_stops(
    freshline: Freshline, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One command: applied, refreshed, applied again on a change, kept on a mistake, gone on Ctrl-C."""
    monkeypatch.setenv("FRESHLINE_API_PORT", str(free_port()))
    process = start("dev")
    report = "make-clean cannot run: shop.raw was never reported; report it with `freshline report shop.raw`"
    wait_until(lambda: report in output(tmp_path), 60)
    wait_until(lambda: {one["kind"] for one in freshline.json("workers")} == {"materializer", "worker", "api"}, 60)
    freshline("report", "shop.raw", "--version", "v1")
    wait_until(lambda: states(freshline).get("shop.daily") == "fresh", 60)
    file = freshline.project / "workflows" / "w0.yaml"
    good = file.read_text()
    file.write_text("slug: [")
    wait_until(lambda: "the last good definitions stay" in output(tmp_path), 30)
    file.write_text(good.replace("ttl: 1h", "ttl: 2h"))
    wait_until(lambda: {one["workflowVersion"] for one in freshline.json("status")["workflows"]} == {1, 2}, 30)
    wait_until(lambda: "asset.produced  shop.daily" in output(tmp_path), 30)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    text = output(tmp_path)
    assert "run: 'shop.clean' was never produced" in text
    assert "Traceback" not in text


@pytest.mark.process
def test_dev_serves_the_api_where_it_is_told(freshline: Freshline, start: Start, tmp_path: Path) -> None:
    """`--port` chooses; a chosen port that is taken is an error, and nothing is started."""
    port = free_port()
    process = start("dev", "--port", str(port))
    wait_until(lambda: f"open http://127.0.0.1:{port} in a browser" in output(tmp_path), 60)
    assert "<title>Freshline</title>" in httpx.get(f"http://127.0.0.1:{port}/", trust_env=False).text
    other = start("dev", "--port", str(port))
    assert other.wait(60) == 2
    assert f"the API cannot listen on 127.0.0.1 port {port}" in output(tmp_path, 1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0


@pytest.mark.process
def test_dev_prints_a_failing_watcher_once(
    freshline: Freshline, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a line that people can read, also into a file; not with a log line for each look."""
    monkeypatch.setenv("FRESHLINE_API_PORT", str(free_port()))
    (freshline.project / "sources").mkdir(exist_ok=True)
    watch = "assetId: landing.gone\nmode: append\nwatch: {files: 'gone/*.csv', every: 1s}\n"
    (freshline.project / "sources" / "gone.yaml").write_text(watch)
    process = start("dev")
    wait_until(lambda: "the watcher of landing.gone fails: the directory " in output(tmp_path), 60)
    wait_until(lambda: freshline.json("watch", "show", "landing.gone")["failures"] >= 3, 60)
    (freshline.project / "gone").mkdir()
    wait_until(lambda: "the watcher of landing.gone works again" in output(tmp_path), 60)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert output(tmp_path).count("does not exist on") == 1
    assert "watch_failed" not in output(tmp_path)


@pytest.mark.process
def test_dev_refuses_a_broken_project(freshline: Freshline, start: Start, tmp_path: Path) -> None:
    """Nothing good to keep: it says what is wrong and ends with 1."""
    (freshline.project / "workflows" / "w0.yaml").write_text("slug: [")
    assert start("dev").wait(60) == 1
    assert "workflows/w0.yaml" in output(tmp_path)


def test_dev_prints_an_error_once(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """In full below the event of the failed run; the same error of the next run in one line."""
    lab.apply(workflow("clean", "raw"))
    activity = Activity(lab.store, quiet=False)
    error = {"code": "job", "message": "KeyError: 'b'\nin line 2", "step": "work", "traceback": "Traceback: jobs.py"}
    for number in (1, 2):
        lab.report("raw", str(number))
        lab.settle()
        run = lab.claim()
        assert run is not None
        lab.store.runs.fail(run.id, run.attempt, error)
        lab.store.events.stamp_positions(100)
        lab.store.operations.reset("clean")
        activity.show()
        told = capsys.readouterr().out
        assert told.count("KeyError") == 1
        assert ("Traceback: jobs.py" in told, "the same error again" in told) == (number == 1, number == 2)
        assert "workflow.run.failed  clean" in told


class TestUnreportedSources:
    """What `dev` says when workflows wait for sources that were never reported."""

    def test_says_what_to_report_and_how(self, lab: Lab) -> None:
        """A path that has no data yet, an append source, and only those that a workflow reads."""
        path = {"format": "csv", "path": "in/a.csv"}
        sources = [
            {"assetId": "a", **path},
            {"assetId": "b", "mode": "append", **path},
            {"assetId": "c", "mode": "append"},
            {"assetId": "d"},
            {"assetId": "e"},
        ]
        wanted = project(workflow("x", "a b c d f"), workflow("y", "a"), sources=tuple(sources))
        lab.store.apply.commit(wanted)
        lab.report("d")
        assert unreported_sources(wanted, lab.store.reader.status()) == [
            "x and 1 more cannot run: a was never reported; put its data at in/a.csv, then `freshline report a`",
            'x cannot run: b was never reported; report it with `freshline report b --payload \'{"path": "..."}\'`',
            "x cannot run: c was never reported; report it with `freshline report c`",
            "x cannot run: f was never reported; report it with `freshline report f`",
        ]

    def test_does_not_fill_the_screen(self, lab: Lab) -> None:
        """Five, and how many more."""
        wanted = project(workflow("x", "a b c d e f g"))
        lab.store.apply.commit(wanted)
        lines = unreported_sources(wanted, lab.store.reader.status())
        assert (len(lines), lines[-1]) == (6, "2 more sources were never reported")


class TestSignals:
    """The first signal asks for a shutdown, the second one kills."""

    def test_the_first_one_sets_the_event_and_handlers_are_put_back(self) -> None:
        """SIGTERM and SIGINT both ask; afterwards everything is as before."""
        before = signal.getsignal(signal.SIGTERM)
        for number in (signal.SIGTERM, signal.SIGINT):
            with stop_signals() as asked:
                os.kill(os.getpid(), number)
                assert asked.wait(5)
        assert signal.getsignal(signal.SIGTERM) is before

    def test_the_second_one_ends_the_process(self) -> None:
        """A stop that hangs can be ended."""
        code = (
            "import os, signal\nfrom freshline.cli.signals import stop_signals\n"
            "with stop_signals():\n os.kill(os.getpid(), signal.SIGTERM); os.kill(os.getpid(), signal.SIGTERM)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        assert done.returncode == KILLED + signal.SIGTERM

    def test_one_that_comes_at_any_moment_of_the_wait_is_heard(self) -> None:
        """The handler runs between two lines of the thread that waits: no lock that it holds may matter."""
        done = subprocess.run([sys.executable, "-c", AT_ANY_MOMENT], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) > 3


AT_ANY_MOMENT = """
import faulthandler, signal, sys
from freshline.cli.signals import stop_signals, wait_for

def interrupted(moment):
    seen = 0
    def trace(frame, event, arg):
        nonlocal seen
        seen += 1
        if seen == moment:
            signal.raise_signal(signal.SIGTERM)
        return trace
    with stop_signals() as asked:
        sys.settrace(trace)
        if not asked.wait(0.01):
            sys.settrace(None)
            return False
        wait_for(asked)
        sys.settrace(None)
        return True

faulthandler.dump_traceback_later(20, exit=True)
moment = 1
while interrupted(moment):
    moment += 1
print(moment - 1)
"""


class TestWatched:
    """The files that `dev` watches."""

    def test_looks_only_at_what_defines_something(self, project: Path) -> None:
        """Definitions and code count; the private directory, caches and data do not."""
        before = stamps(project)
        for name in (".freshline/x.yaml", "__pycache__/x.py", "data/x.csv"):
            (project / name).parent.mkdir(exist_ok=True)
            (project / name).write_text("x")
        assert stamps(project) == before
        (project / "jobs.py").write_text("x = 1\n")
        assert stamps(project) != before

    def test_applies_once_per_change(self, store: Store, project: Path) -> None:
        """No change, no apply; a change, one apply."""
        watched = Watched(store, project)
        watched.apply()
        assert watched.poll() is False
        (project / "workflows" / "w1.yaml").unlink()
        assert watched.poll() is True
        assert watched.poll() is False
        assert [one["slug"] for one in store.reader.status()["workflows"]] == ["make-clean"]


def test_logs_follow_a_run_to_its_end(applied: Freshline, store: Store) -> None:
    """Lines that come while following are printed, and it ends with the run."""
    applied("report", "shop.raw")
    run_id = applied.json("run", "make-clean")["id"]

    def work() -> None:
        line = "INSERT INTO run_logs VALUES (%s, %s, 1, 'one', freshline_now(), 'stderr', 'line')"
        for number in range(3):
            with store.database.transaction("test") as connection:
                connection.execute(line, [run_id, number])
        store.operations.cancel(run_id)

    worker = threading.Thread(target=work)
    worker.start()
    lines = applied("logs", run_id, "--follow", "--json").stdout.splitlines()
    worker.join()
    assert len(lines) == 3


@pytest.mark.parametrize("process", ["materializer", "worker"])
@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("redis://:se/cret@host", "FRESHLINE_EVENT_BUS, a redis:// address, cannot be read"),
        ("redis://:secret@host?ssl_nonsense=1", "that redis-py does not take"),
    ],
)
def test_a_bad_event_bus_is_refused_at_the_start(
    freshline: Freshline, monkeypatch: pytest.MonkeyPatch, process: str, address: str, told: str
) -> None:
    """One sentence, the exit code of wrong usage, and no password in it."""
    monkeypatch.setenv("FRESHLINE_EVENT_BUS", address)
    result = freshline(process, code=2)
    assert told in result.stderr
    assert "cret" not in result.output
    assert "Traceback" not in result.output
