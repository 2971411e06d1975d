"""Numbers for Prometheus are true, bounded, and listed on their page."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from freshline.api import metrics
from tests.api.conftest import HOUR, Api
from tests.docs.pages import ROOT, Page, code
from tests.lab import workflow


def numbers(api: Api) -> dict[str, float]:
    """Every sample, by its name and labels."""
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
    assert (more(f"{name}_count"), more(f"{name}_sum")) == (1, 4)


def test_the_number_of_assets_is_bounded(api: Api) -> None:
    """However many promise a maximal age, those nearest to it are shown."""
    many = [workflow(f"w{n}", "a", freshness={"maxAgeMs": HOUR * (n + 1)}) for n in range(metrics.MOST_ASSETS + 20)]
    api.lab.apply(*many)
    api.lab.work()
    shown = {name for name in numbers(api) if name.startswith("freshline_asset_age_seconds")}
    assert len(shown) == metrics.MOST_ASSETS


def test_the_alerts_of_the_page_are_the_rules() -> None:
    """The same conditions on metrics that exist."""
    page = Page("docs/metrics.md")
    rules = YAML(typ="safe").load(ROOT / "deploy" / "prometheus" / "freshline.rules.yaml")["groups"][0]["rules"]
    conditions = {rule["expr"] for rule in rules}
    assert {code(row[0]) for row in page.table("Alerts")} == conditions
    known = {code(row[0]) for row in page.table("How the installation stands")}
    assert {name for one in conditions for name in re.findall(r"freshline_\w+", one)} <= known


def test_the_page_lists_what_is_told(shared: Api) -> None:
    """Each with its meaning, and no other."""
    text = shared.client.get("/metrics").text
    told = {one.name: one.documentation for one in text_string_to_metric_families(text)}
    standing = {name: meaning for name, meaning in told.items() if meaning != "What this process counted."}
    rows = Page("docs/metrics.md").table("How the installation stands")
    assert {code(row[0]): row[1] for row in rows} == standing
