"""Numbers for Prometheus are true, bounded, and listed on their page."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from freshline.api import metrics
from tests.api.conftest import HOUR, Api
from tests.docs.pages import Page, code
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


def test_the_number_of_assets_is_bounded(api: Api) -> None:
    """However many promise a maximal age, those nearest to it are shown."""
    many = [workflow(f"w{n}", "a", freshness={"maxAgeMs": HOUR * (n + 1)}) for n in range(metrics.MOST_ASSETS + 20)]
    api.lab.apply(*many)
    api.lab.work()
    shown = {name for name in numbers(api) if name.startswith("freshline_asset_age_seconds")}
    assert len(shown) == metrics.MOST_ASSETS


def test_the_page_lists_what_is_told(shared: Api) -> None:
    """Each with its meaning, and no other."""
    text = shared.client.get("/metrics").text
    told = {one.name: one.documentation for one in text_string_to_metric_families(text)}
    standing = {name: meaning for name, meaning in told.items() if meaning != "What this process counted."}
    rows = Page("docs/metrics.md").table("How the installation stands")
    assert {code(row[0]): row[1] for row in rows} == standing
