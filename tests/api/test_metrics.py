"""The Prometheus metrics are correct, bounded, and documented."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from freshline.api import metrics
from tests.api.conftest import HOUR, Api
from tests.docs.pages import ROOT, Page, code, codes
from tests.store.transaction_cases import tables
from tests.store_harness import workflow

RULES = ROOT / "deploy" / "prometheus" / "freshline.rules.yaml"


def numbers(api: Api) -> dict[str, float]:
    """Return every sample by its name and labels."""
    found = {}
    for family in text_string_to_metric_families(api.client.get("/metrics").text):
        for one in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(one.labels.items()))
            found[one.name + (f"{{{labels}}}" if labels else "")] = one.value
    return found


def test_they_tell_how_the_installation_stands(api: Api) -> None:
    """An update in the inbox, then a queued run, then a failure and its cooldown; ages grow."""
    api.lab.advance(seconds=90)
    assert numbers(api)["freshline_asset_age_seconds{asset=b}"] == 90
    assert numbers(api)["freshline_asset_max_age_seconds{asset=b}"] == 2 * HOUR / 1000
    api.lab.report("a", "2")
    api.lab.advance(seconds=5)
    found = numbers(api)
    assert (found["freshline_events_unabsorbed"], found["freshline_events_unabsorbed_oldest_seconds"]) == (1, 5)
    api.lab.settle()
    api.lab.advance(seconds=7)
    found = numbers(api)
    assert (found["freshline_runs_queued"], found["freshline_runs_queued_oldest_seconds"]) == (1, 7)
    api.lab.fail(api.lab.start())
    api.lab.settle()
    found = numbers(api)
    assert (found["freshline_workflows_failing"], found["freshline_runs_queued"]) == (1, 0)
    assert found["freshline_holds{reason=cooling-down}"] == 1
    assert found["freshline_transactions_total{transaction=report}"] >= 2


def test_they_tell_how_long_changes_take_to_queue_a_run(api: Api) -> None:
    """From the report to the queued run, in buckets that contain each other."""
    before = numbers(api)
    api.lab.report("a", "2")
    api.lab.advance(seconds=4)
    api.lab.settle()
    after = numbers(api)
    name = "freshline_event_to_queued_seconds"

    def more(sample: str) -> float:
        return after[sample] - before.get(sample, 0)

    assert [more(f"{name}_bucket{{le={bound}}}") for bound in ("2.5", "5.0", "+Inf")] == [0, 1, 1]
    assert more(f"{name}_count") == 1
    assert more(f"{name}_sum") == pytest.approx(4)


def test_they_tell_how_long_changes_take_to_be_fresh(api: Api) -> None:
    """From the first report that was not consumed to the publication that was made from it; the first time is none."""
    name = "freshline_event_to_fresh_seconds"
    before = numbers(api)
    api.lab.report("a", "2")
    api.lab.advance(seconds=6)
    api.lab.report("a", "3")
    api.lab.advance(seconds=2)
    api.lab.settle()
    api.lab.finish(api.lab.start())
    after = numbers(api)
    assert after[f"{name}_count"] - before.get(f"{name}_count", 0) == 1
    assert after[f"{name}_sum"] - before.get(f"{name}_sum", 0) == pytest.approx(8)


def test_they_tell_who_is_behind_and_for_how_long(api: Api) -> None:
    """From the change on, absorbed or not, queued or held, until it is published; what it reads follows."""
    lag = "freshline_asset_lag_seconds"
    assert not [name for name in numbers(api) if name.startswith(lag)]
    api.lab.report("a", "2")
    api.lab.advance(seconds=5)
    assert numbers(api)[f"{lag}{{asset=b}}"] == 5
    api.lab.settle()
    run = api.lab.start()
    api.lab.advance(seconds=5)
    assert numbers(api)[f"{lag}{{asset=b}}"] == 10
    api.lab.finish(run)
    assert [name for name in numbers(api) if name.startswith(lag)] == [f"{lag}{{asset=c}}"]
    api.lab.work()
    assert not [name for name in numbers(api) if name.startswith(lag)]


def test_they_tell_what_steps_read_and_wrote(api: Api) -> None:
    """As their engine says; a step of which nothing is known counts nothing."""
    api.lab.report("a", "2")
    api.lab.settle()
    run = api.lab.start()
    before = numbers(api)
    volume = {"rowsIn": 100, "bytesIn": 4_000, "rowsOut": 10, "bytesOut": 300, "tasks": 4}
    api.lab.store.runs.begin_step(run.id, run.attempt, "work", 1)
    api.lab.store.runs.finish_step(run.id, run.attempt, "work", 1, outputs=[], metrics=volume)
    after = numbers(api)

    def more(name: str) -> float:
        return after[f"freshline_step_{name}"] - before.get(f"freshline_step_{name}", 0)

    assert (more("rows_total{direction=in}"), more("rows_total{direction=out}")) == (100, 10)
    assert (more("bytes_total{direction=in}"), more("bytes_total{direction=out}")) == (4_000, 300)


def test_every_queue_tells_the_age_of_its_oldest(api: Api) -> None:
    """Timers that are due, events without a position, table versions that no log has."""
    api.lab.store.events.stamp_positions(1000)
    api.lab.advance(hours=1, seconds=3)
    found = numbers(api)
    assert (found["freshline_timers_due"], found["freshline_timers_due_oldest_seconds"]) == (1, 3)
    assert (found["freshline_events_unstamped"], found["freshline_events_unstamped_oldest_seconds"]) == (0, 0)
    api.lab.report("a", "2")
    api.lab.settle()
    api.lab.work_with(tables)
    api.lab.advance(seconds=4)
    found = numbers(api)
    assert found["freshline_events_unstamped_oldest_seconds"] == 4
    assert (found["freshline_table_versions_unlogged"], found["freshline_table_versions_unlogged_oldest_seconds"]) == (
        2,
        4,
    )


def test_the_number_of_assets_is_bounded(api: Api) -> None:
    """However many promise a maximal age, those nearest to it are shown."""
    many = [workflow(f"w{n}", "a", freshness={"maxAgeMs": HOUR * (n + 1)}) for n in range(metrics.MAX_ASSETS + 20)]
    api.lab.apply(*many)
    api.lab.work()
    shown = {name for name in numbers(api) if name.startswith("freshline_asset_age_seconds")}
    assert len(shown) == metrics.MAX_ASSETS
    api.lab.report("a", "2")
    behind = {name for name in numbers(api) if name.startswith("freshline_asset_lag_seconds")}
    assert len(behind) == metrics.MAX_ASSETS


def test_the_alerts_of_the_page_are_the_rules() -> None:
    """The same conditions on metrics that exist."""
    page = Page("docs/metrics.md")
    rules = YAML(typ="safe").load(RULES)["groups"][0]["rules"]
    conditions = {rule["expr"] for rule in rules}
    assert {code(row[0]) for row in page.table("Alerts")} == conditions
    known = {code(row[0]) for row in page.table("Metrics of the installation")}
    assert {name for one in conditions for name in re.findall(r"freshline_\w+", one)} <= known


def test_the_rules_are_what_prometheus_reads() -> None:
    """Each has a name of its own, a severity and a summary; promtool agrees where it is installed."""
    rules = YAML(typ="safe").load(RULES)["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    assert all(rule["labels"]["severity"] and rule["annotations"]["summary"] for rule in rules)
    if promtool := shutil.which("promtool"):
        subprocess.run([promtool, "check", "rules", RULES], check=True, capture_output=True, timeout=60)


def test_the_page_lists_what_is_told(shared: Api) -> None:
    """Each with its meaning, and no other."""
    text = shared.client.get("/metrics").text
    told = {one.name: one.documentation for one in text_string_to_metric_families(text)}
    standing = {name: meaning for name, meaning in told.items() if meaning != "A counter of this process."}
    rows = Page("docs/metrics.md").table("Metrics of the installation")
    assert {code(row[0]): row[1] for row in rows} == standing


def test_the_page_lists_what_processes_count() -> None:
    """Every counter and every histogram that the code names, with its labels, and no other."""
    counted: dict[str, set[str]] = {}
    for path in sorted((ROOT / "src" / "freshline").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in {"count", "observe"}:
                for name in names_of(call):
                    counted.setdefault(name, set()).update(str(one.arg) for one in call.keywords)
    rows = Page("docs/metrics.md").table("Counters of a process")
    listed = {name: set(codes(row[1])) for row in rows for name in codes(row[0])}
    assert listed == counted


def names_of(call: ast.Call) -> list[str]:
    """Return the names that Prometheus shows: counters end with `_total`, durations with their unit."""
    text = ast.unparse(call.args[0])
    if text.startswith("f"):
        return [f"freshline_step_{what}_total" for what in ("rows", "bytes")]
    suffix = "_total" if ast.unparse(call.func) == "count" else ""
    return [f"freshline_{ast.literal_eval(text)}{suffix}"]
