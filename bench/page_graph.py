"""The graph in a browser with 10,000 assets: frames while it is panned and zoomed, and memory while states change.

Chromium draws without a GPU, at 1280x800, in a window of the real page: a `freshline api` serves it, a materializer
decides, and this process executes the runs. Each report of a source makes three assets stale, waiting, running and
fresh again, through the same events as in production. The baseline of the frames is a graph of 100 assets.

A frame is the time between two animation callbacks, which the browser gives at most 60 times a second. On a busy
machine read `main_thread_ms` too: the processor time of the page's thread per frame, drawing and rasterising included.
"""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from bench import graph, load
from bench.measure import Claim, Options, Pairs, Result, percentile, phase
from bench.play import Player
from bench.server import Listener, Project, Server, listening, materializers, opened, started
from freshline.api.bundle import PAGE_FILES
from freshline.model.run import StagedOutput
from freshline.store.db.ids import new_id
from freshline.store.store import Store

FRAME_MS, PAINT_MS = 33.0, 1000.0
CHANGES, GROWTH = 100, 1.1
ASSETS, FEW = 10_000, 100
WINDOW = {"width": 1280, "height": 800}
ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
DOMAINS = 100
SOURCES_A_SECOND = 20  # with three consumers each: 60 runs, and at least two changes of state per run
WARM_S, SECONDS, QUIET_S = 10.0, 60.0, 5.0
QUARTERS = 4
WORKERS = 3  # the waits of their commits overlap
MOVES, TURNS = 90, 24
RECORD = """() => {
    const frames = []
    let last = performance.now()
    let on = true
    const next = () => {
        const now = performance.now()
        frames.push(Math.max(0.1, now - last)) // the resolution of the clock
        last = now
        if (on) requestAnimationFrame(next)
    }
    requestAnimationFrame(() => { last = performance.now(); requestAnimationFrame(next) })
    window.recorded = () => { on = false; return frames }
}"""
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
COUNTS = """() => Object.fromEntries([...document.querySelectorAll('.graph-legend button')].map((one) => [
    one.querySelector('.state-name').textContent, Number(one.lastChild.textContent.replaceAll(',', '')),
]))"""
RUNS = "SELECT count(*) FROM runs WHERE status = 'succeeded'"


@dataclass(slots=True)
class Drawn:
    """Frames of one graph, in milliseconds, by what was done."""

    frames: dict[str, list[float]] = field(default_factory=dict)
    main_thread_ms: float = 0.0
    paint_ms: float = 0.0
    ready_ms: float = 0.0

    @property
    def all(self) -> list[float]:
        """Return the frames of all gestures."""
        return [one for frames in self.frames.values() for one in frames]


def run(options: Options) -> Result:
    """Measure gestures on the small and the large graph, then the memory of the large one while states change."""
    if not (PAGE_FILES / "index.html").exists():
        raise FileNotFoundError("the page is not built: run `make setup`")
    assets, few = options.size(ASSETS, 200), options.size(FEW, 40)
    with started() as server, chromium() as browser:
        with phase(f"gestures on {few} assets"), serving(server, few) as (url, _, _):
            small = gestures(browser, url, options)
        with phase(f"gestures on {assets} assets"), serving(server, assets) as (url, store, listener):
            large = gestures(browser, url, options)
            with phase("changes of states"):
                memory = changes(browser, url, store, listener, options)
        figures: dict[str, Any] = {
            "assets": assets,
            "frames_ms": {name: _summary(frames) for name, frames in large.frames.items()},
            "main_thread_ms": large.main_thread_ms,
            "ready_ms": large.ready_ms,
            **memory,
            "server": server.settings,
        }
    pairs = Pairs(large.all, small.all)
    worst = max(percentile(frames, 0.95) for frames in large.frames.values())
    goal = None if options.quick else CHANGES
    claims = [
        Claim("p95 frame, against a small graph", pairs.at(0.95)),
        Claim("p95 frame", percentile(large.all, 0.95), FRAME_MS, unit=" ms"),
        Claim("p95 frame of the slowest gesture", worst, unit=" ms"),
        Claim("first paint", large.paint_ms, PAINT_MS, unit=" ms"),
        Claim("heap after a minute of changes", memory["heap_mb"][-1] / memory["heap_mb"][0], GROWTH),
        Claim("changes a second", memory["changes_a_second"], goal, at_least=True, unit=""),
    ]
    return Result("page-graph", claims, large.all, small.all, "ms", figures)


def _summary(frames: Sequence[float]) -> dict[str, float]:
    return {"count": len(frames), **{f"p{share}": percentile(frames, share / 100) for share in (50, 95, 100)}}


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a browser that draws without a GPU."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - not needed by the other benchmarks

    from scripts.chromium import find  # noqa: PLC0415

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


def layout(assets: int) -> graph.Layout:
    """Return trees of 20 assets whose names have prefixes, as those of domains."""
    plain = graph.components(assets)
    names = {name: f"d{int(name[1:6]) % DOMAINS:02}.{name}" for name in (*plain.sources, *plain.consumes)}
    consumes = {names[slug]: tuple(names[one] for one in inputs) for slug, inputs in plain.consumes.items()}
    return graph.Layout([names[one] for one in plain.sources], consumes)


@contextmanager
def serving(server: Server, assets: int) -> Iterator[tuple[str, Store, Listener]]:
    """Yield the address of an API on a graph of this size, with a materializer beside it."""
    url = server.database()
    graph.store(url, layout(assets))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    project = Project(Path(server.home, f"api-{assets}"), url)
    with (
        materializers(server, url),
        project.running("api", "--port", str(port)),
        opened(url) as store,
        listening(url) as listener,
    ):
        address = f"http://127.0.0.1:{port}"
        _until(lambda: _answers(f"{address}/healthz"), "the API")
        yield address, store, listener


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310 - our own server
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


def _until(condition: Callable[[], bool], what: str, timeout_s: float = 90.0) -> None:
    deadline = time.perf_counter() + timeout_s
    while not condition():
        assert time.perf_counter() < deadline, f"waited {timeout_s:g} s for {what}"
        time.sleep(0.1)


def gestures(browser: Any, url: str, options: Options) -> Drawn:
    """Pan and zoom through the whole graph, as cells and in frames of groups."""
    found = Drawn()
    moves, turns = options.size(MOVES, 10), options.size(TURNS, 4)
    tasks = count = 0.0
    for groups in ("none", "prefix"):
        page, session = _open(browser, f"{url}/#/graph?show=all&groups={groups}")
        if groups == "none":
            found.paint_ms, found.ready_ms = page.evaluate(PAINT), page.evaluate("performance.now()")
        page.wait_for_timeout(1000)
        steps: list[tuple[str, Callable[[], None]]] = [
            ("pan, far", lambda page=page: _pan(page, moves)),  # type: ignore[misc]
            ("zoom in", lambda page=page: _zoom(page, -60, turns)),  # type: ignore[misc]
            ("pan, between", lambda page=page: _pan(page, moves)),  # type: ignore[misc]
            ("zoom to names", lambda page=page: _zoom(page, -60, turns // 2)),  # type: ignore[misc]
            ("pan, near", lambda page=page: _pan(page, moves)),  # type: ignore[misc]
            ("zoom out", lambda page=page: _zoom(page, 60, turns * 3 // 2)),  # type: ignore[misc]
        ]
        for name, act in steps:
            before = _metrics(session)["TaskDuration"]
            page.evaluate(RECORD)
            act()
            frames = page.evaluate("window.recorded()")
            found.frames[f"{name} ({'cells' if groups == 'none' else 'groups'})"] = frames
            tasks += _metrics(session)["TaskDuration"] - before
            count += len(frames)
        page.context.close()
    found.main_thread_ms = 1000 * tasks / count
    return found


def _open(browser: Any, address: str) -> tuple[Any, Any]:
    page = browser.new_context(viewport=WINDOW).new_page()
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    page.goto(address)
    page.wait_for_selector(".graph-stage canvas", timeout=60_000)
    return page, session


def _pan(page: Any, moves: int) -> None:
    page.mouse.move(900, 500)
    page.mouse.down()
    for number in range(moves):
        away = abs(number % 60 - 30) - 15
        page.mouse.move(900 - 20 * away, 400 - 8 * away)
        page.wait_for_timeout(12)
    page.mouse.up()


def _zoom(page: Any, delta: int, turns: int) -> None:
    page.mouse.move(560, 420)
    for _ in range(turns):
        page.mouse.wheel(0, delta)
        page.wait_for_timeout(16)


def _metrics(session: Any) -> dict[str, float]:
    return {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}


def changes(browser: Any, url: str, store: Store, listener: Listener, options: Options) -> dict[str, Any]:
    """Change states for a minute; return the heap while nothing happens before and after, and what happened between.

    The page first sees changes for a while, so that its code is compiled when the heap is measured.
    """
    seconds = float(options.size(int(SECONDS), 4))
    page, session = _open(browser, f"{url}/#/graph?show=all&groups=none")
    with _waves(store):
        page.wait_for_timeout(1000 * min(WARM_S, seconds))
    _agrees(page, url)
    quiet, nodes = [_heap(session)], [_metrics(session)["Nodes"]]
    with _waves(store):
        figures = _watch(page, session, listener, seconds)
    _agrees(page, url)
    quiet.append(_heap(session))
    nodes.append(_metrics(session)["Nodes"])
    page.context.close()
    return {"heap_mb": quiet, "dom_nodes": nodes, **figures}


def _watch(page: Any, session: Any, listener: Listener, seconds: float) -> dict[str, Any]:
    before, began, tasks = listener.value(RUNS), time.perf_counter(), _metrics(session)["TaskDuration"]
    page.evaluate(RECORD)
    heaps = []
    for _ in range(QUARTERS):
        page.wait_for_timeout(1000 * seconds / QUARTERS)
        heaps.append(_heap(session))
    frames = page.evaluate("window.recorded()")
    elapsed = time.perf_counter() - began
    return {
        "heap_while_changing_mb": heaps,
        "changes_a_second": 2 * (listener.value(RUNS) - before) / elapsed,
        "frames_while_changing_ms": _summary(frames),
        "main_thread_share_while_changing": (_metrics(session)["TaskDuration"] - tasks) / elapsed,
    }


@contextmanager
def _waves(store: Store) -> Iterator[None]:
    """Change states while the body runs; then execute what is left."""
    stop = threading.Event()
    with ThreadPoolExecutor(1 + WORKERS) as executor:
        parts = [executor.submit(_report, store, stop), *(executor.submit(_work, store, stop) for _ in range(WORKERS))]
        try:
            yield
        finally:
            stop.set()
        for part in parts:
            part.result()


def _report(store: Store, stop: threading.Event) -> None:
    """Report sources at a fixed pace."""
    sources = _sources(store)
    tick, due = 0, time.perf_counter()
    while not stop.is_set():
        first = tick * SOURCES_A_SECOND
        chosen = {sources[(first + one) % len(sources)] for one in range(SOURCES_A_SECOND)}
        load.report_all(store, sorted(chosen), new_id())
        store.database.notify("events")
        tick += 1
        due = max(due + 1, time.perf_counter())
        stop.wait(due - time.perf_counter())


def _work(store: Store, stop: threading.Event) -> None:
    """Execute what is queued. Outputs stay equal, so nothing runs below."""
    player = Player(store, graph.PROJECT, graph.CODE)
    idle_since = None
    while idle_since is None or time.perf_counter() < idle_since + QUIET_S:
        if _execute(player):
            idle_since = None
            continue
        if stop.is_set():
            idle_since = idle_since or time.perf_counter()
        time.sleep(0.05)


def _execute(player: Player) -> bool:
    """Execute one queued run as a worker would; return whether there was one."""
    run = player.claim()
    if run is None:
        return False
    (step,) = run.definition["steps"]
    player.store.runs.publish(run, [StagedOutput(one["assetId"], step["id"], "v1") for one in step["produces"]])
    return True


def _sources(store: Store) -> list[str]:
    with store.database.transaction("sources") as connection:
        rows = connection.execute("SELECT id FROM assets WHERE producer_id IS NULL ORDER BY id").fetchall()
        return [row["id"] for row in rows]


def _heap(session: Any) -> float:
    """Return the used heap after a collection, in MB."""
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
    return _metrics(session)["JSHeapUsedSize"] / 2**20


def _agrees(page: Any, url: str) -> None:
    """Check that the page shows the states that the API has, once everything is quiet."""

    def same() -> bool:
        with urllib.request.urlopen(f"{url}/api/v1/assets/states", timeout=30) as answer:  # noqa: S310
            wanted = Counter(json.load(answer)["states"].values())
        page.wait_for_timeout(200)
        return bool(page.evaluate(COUNTS) == dict(wanted))

    _until(same, "the page to show the states of the API")
