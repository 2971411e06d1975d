"""Benchmarks run end to end, compute their ratios from measurements, and end with one JSON line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from bench import __main__ as bench
from bench import baseline, chart, graph, page, suite
from bench.measure import Claim, Options, Pairs, Result
from tests.store_harness import laboratory, project
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
PAGE = ROOT / page.NAME
SPARK = {"spark-small", "spark-large"}


def measure(name: str) -> dict[str, Any]:
    """Run a benchmark with --quick and return the JSON of its last line."""
    command = [sys.executable, "-m", "bench", name, "--quick", "--json"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def whole(name: str, found: dict[str, Any]) -> None:
    """Check that the result is complete and that both sides were measured."""
    assert {"name", "ratio", "goal", "met", "measured", "baseline", "claims", "quick"} <= set(found)
    assert found["name"] == name
    assert found["quick"] is True
    assert found["ratio"] == found["claims"][0]["value"] > 0
    for side in ("measured", "baseline"):
        one = found[side]
        assert one["samples"] > 0
        assert 0 < one["low"] <= one["median"] <= one["high"]
    # A ratio of pairs lies between the ratios of the extremes, whatever the load of the machine.
    measured, plain = found["measured"], found["baseline"]
    assert measured["low"] / plain["high"] * 0.99 <= found["ratio"] <= measured["high"] / plain["low"] * 1.01


@pytest.mark.process
@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in bench.NAMES | bench.EXTRA if name not in SPARK])
def test_a_benchmark_runs_and_ends_with_a_json_line(name: str) -> None:
    """`python -m bench NAME --json`; the last line is one object with the ratio, its goal and whether met."""
    whole(name, measure(name))


@pytest.mark.process
@pytest.mark.spark
@pytest.mark.full
@pytest.mark.parametrize("name", sorted(SPARK))
def test_a_spark_benchmark_runs_and_ends_with_a_json_line(name: str) -> None:
    """The same with a real worker, its Spark and a bare session."""
    whole(name, measure(name))


@pytest.mark.process
@pytest.mark.full
def test_the_suite_writes_what_it_measured_and_tells_what_failed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One that cannot run does not stop the others and counts as missed; only a whole run is written, and it agrees."""
    (tmp_path / "docs").mkdir()
    (tmp_path / page.NAME).write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    assert suite.run_all(["nonsense", "latency"], quick=True, root=tmp_path) == 1
    assert "failed: nonsense" in capfd.readouterr().out
    assert not (tmp_path / "bench").exists()
    assert (tmp_path / page.NAME).read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
    suite.run_all(["latency"], quick=True, root=tmp_path)
    (written,) = (tmp_path / "bench" / "results").glob("*.json")
    (result,) = json.loads(written.read_text(encoding="utf-8"))["results"]
    whole("latency", result)
    assert f"| `latency` | p50 | {result['ratio']:.3g}x |" in (tmp_path / page.NAME).read_text(encoding="utf-8")
    assert f">{result['ratio']:.3g}x</text>" in (tmp_path / chart.NAME).read_text(encoding="utf-8")


def test_a_ratio_needs_both_sides() -> None:
    """There is no ratio without a baseline, and it is the median of the pairs' ratios."""
    with pytest.raises(ValueError, match="pairs"):
        _ = Pairs([1.0], []).ratio
    assert Pairs([2.0, 9.0, 8.0], [1.0, 3.0, 4.0]).ratio == 2.0
    assert Pairs([1.0, 2.0, 30.0], [1.0, 1.0, 10.0]).at(0.99) == 3.0


@pytest.mark.parametrize(
    ("claim", "met"),
    [
        (Claim("a", 3.0, 3.0), True),
        (Claim("a", 3.1, 3.0), False),
        (Claim("a", 0.3, 0.25, at_least=True), True),
        (Claim("a", 0.2, 0.25, at_least=True), False),
        (Claim("a", 7.0), None),
    ],
)
def test_a_claim_is_met_or_not(claim: Claim, met: bool | None) -> None:
    """At most, at least, or without a goal; one that is missed makes the whole result missed."""
    assert claim.met is met
    both = Result("x", [Claim("b", 1.0, 2.0), claim], [1.0], [1.0])
    assert both.as_json(Options(), 1.0)["met"] is (met is not False)


def test_a_stored_graph_is_what_apply_would_store(database_url: str) -> None:
    """The quick way to 100,000 workflows leaves what `apply` leaves, so that what is measured is the product."""
    layout = graph.Layout(["s"], {"a": ("s",), "b": ("a", "s")})
    definitions = [graph.definition(slug, inputs) for slug, inputs in layout.consumes.items()]
    with laboratory(database_url) as lab:
        lab.store.apply.commit(project(*definitions, name=graph.PROJECT, code=graph.CODE))
        applied = rows_of(database_url)
        with lab.database.connection() as connection:
            connection.execute("TRUNCATE projects, workflows CASCADE")
    graph.store(database_url, layout)
    assert rows_of(database_url) == applied


def rows_of(url: str) -> dict[str, list[dict[str, Any]]]:
    """Return the stored definitions without ids, times and hashes."""
    queries = {
        "workflows": "SELECT slug, project, version, automatic, policy, pool FROM workflows ORDER BY 1",
        "versions": "SELECT version, code_hash, needs_spark, definition FROM workflow_versions ORDER BY definition",
        "assets": "SELECT a.id, w.slug, a.step_id, a.declaration FROM assets a LEFT JOIN workflows w"
        " ON w.id = a.producer_id ORDER BY 1",
        "edges": "SELECT e.asset_id, w.slug, e.triggers, e.declaration FROM edges e JOIN workflows w"
        " ON w.id = e.workflow_id ORDER BY 1, 2",
    }
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return {name: connection.execute(query.encode()).fetchall() for name, query in queries.items()}


def test_the_plain_baseline_writes_the_same_rows(database_url: str, module_database_url: str) -> None:
    """What the measured side wrote is in the twin afterwards, row by row."""
    layout = graph.fan(3)
    for url in (database_url, module_database_url):
        graph.store(url, layout)
    since = baseline.now(database_url)
    with laboratory(database_url) as lab:
        lab.now = wait_until(lambda: lab.one("SELECT clock_timestamp()"))
        for source in layout.sources:
            lab.report(source, "v2")
        lab.settle()
    rows = baseline.written(database_url, since)
    assert baseline.counts(rows) == dict.fromkeys(("considerations", "snapshots", "heads", "runs", "decisions"), 3) | {
        "events": 6
    }
    assert baseline.write(module_database_url, rows) > 0
    again = baseline.written(module_database_url, since)
    assert {one.table: sorted(one.rows, key=str) for one in again} == {
        one.table: sorted(one.rows, key=str) for one in rows
    }


DOCUMENT = {
    "at": "2026-01-05T09:00:00+00:00",
    "machine": {"cores": 2, "architecture": "x", "memory_gb": 8, "system": "Linux", "python": "3.11"},
    "results": [
        Result("one", [Claim("a <b>", 2.0, 3.0), Claim("told", 1.0)], [2.0], [1.0]).as_json(Options(), 1.0),
        Result("two", [Claim("c", 0.1, 0.25, at_least=True)], [1.0], [10.0]).as_json(Options(), 1.0),
    ],
}


def test_the_chart_is_whole(tmp_path: Path) -> None:
    """Well-formed, with title and description, a bar for each goal, for light and dark."""
    chart.write(DOCUMENT, tmp_path / "chart.svg")
    text = (tmp_path / "chart.svg").read_text(encoding="utf-8")
    root = ET.fromstring(text)  # noqa: S314 - our own file
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title") is not None
    assert "at least 0.25x" in (root.findtext(f"{space}desc") or "")
    assert "prefers-color-scheme: dark" in text
    kinds = [one.get("class") for one in root.findall(f"{space}rect")]
    assert kinds == ["paper", "met", "missed"]


def test_the_page_gets_the_results_between_its_markers(tmp_path: Path) -> None:
    """What stands around them stays, and a second time changes nothing more; the real page has the markers."""
    assert page.BEGIN in PAGE.read_text(encoding="utf-8")
    assert page.END in PAGE.read_text(encoding="utf-8")
    copy = tmp_path / "page.md"
    copy.write_text(f"before\n\n{page.BEGIN}\n\nyesterday\n\n{page.END}\n\nafter\n", encoding="utf-8")
    page.write(DOCUMENT, copy)
    text = copy.read_text(encoding="utf-8")
    page.write(DOCUMENT, copy)
    assert copy.read_text(encoding="utf-8") == text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "yesterday" not in text
    assert "| `two` | c | 0.1x | at least 0.25x | **no** |" in text


def test_every_benchmark_is_on_the_page() -> None:
    """The page tells what each measures."""
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in bench.NAMES if f"| `{name}` |" not in text] == []
