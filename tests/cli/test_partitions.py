"""Partitions on the command line: `partitions`, `--partition` on every command, and the summary of `status`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.conftest import Freshline
from tests.scenarios.test_partitions import divided
from tests.store_harness import Lab, laboratory

HOURS: dict[str, Any] = {"assetId": "raw", "partitioning": {"time": "hour", "start": "2025-12-01"}}
# The commands read the real clock, and the lab has its own: with an end, both see the same partitions.
DAYS: dict[str, Any] = {"time": "day", "start": "2025-12-28", "end": "2026-01-05"}


@pytest.fixture
def lab(database_url: str, freshline: Freshline) -> Iterator[Lab]:
    """Yield days that are fresh, failed and stale, and a total of them."""
    with laboratory(database_url) as lab:
        lab.apply(
            divided("daily", {"raw": {"require": "any"}}, DAYS),
            divided("total", {"daily": None}),
            sources=(HOURS,),
        )
        for hour in range(6):
            lab.report("raw", "v1", partition_key=f"2025-12-31T0{hour}")
        lab.report("raw", "v1", partition_key="2026-01-02T01")
        lab.work()
        lab.report("raw", "v2", partition_key="2025-12-31T01")
        lab.settle()
        lab.fail(lab.start_of("daily"))
        yield lab


def test_partitions_are_listed_in_ranges(lab: Lab, freshline: Freshline) -> None:
    """A line above counts them; filters and pages choose."""
    text = freshline("partitions", "daily").stdout.splitlines()
    assert text[0] == "daily: 1 of 8 fresh, 6 missing, 1 failed; the newest is 2026-01-04"
    assert [line.split() for line in text[1:]] == [
        ["STATE", "FROM", "TO", "PARTITIONS"],
        ["missing", "2026-01-03", "2026-01-04", "2"],
        ["fresh", "2026-01-02", "1"],
        ["missing", "2026-01-01", "1"],
        ["failed", "2025-12-31", "1"],
        ["missing", "2025-12-28", "2025-12-30", "3"],
    ]
    found = freshline.json("partitions", "daily", "--state", "missing", "--from", "2025-12-30", "--to", "2026-01-03")
    assert [(one["from"], one["to"]) for one in found["items"]] == [
        ("2026-01-03", "2026-01-03"),
        ("2026-01-01", "2026-01-01"),
        ("2025-12-30", "2025-12-30"),
    ]
    page = freshline("partitions", "daily", "--limit", "2")
    assert "there are more: --after 2026-01-02 continues" in page.stderr
    rest = freshline("partitions", "daily", "--after", "2026-01-02", "--state", "fresh")
    assert "nothing matches" in rest.stderr


def test_a_listing_looks_at_a_bounded_number_of_partitions(
    lab: Lab, freshline: Freshline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of few keys: after the last page that is looked at, the message says how to go on."""
    monkeypatch.setattr("freshline.store.read.partitions.MOST_KEYS", 2)
    monkeypatch.setattr("freshline.cli.commands.partitions.MOST_PAGES", 2)
    page = freshline("partitions", "daily", "--state", "failed")
    assert "there are more: --after 2026-01-01 continues; no more partitions were looked at" in page.stderr
    assert "nothing matches" not in page.stderr
    rest = freshline("partitions", "daily", "--state", "failed", "--after", "2026-01-01")
    assert "2025-12-31" in rest.stdout
    assert freshline.json("partitions", "daily")["next"] == "2026-01-01"


def test_status_counts_partitions_in_one_line(lab: Lab, freshline: Freshline) -> None:
    """One line per asset; the detail names the newest partition and the command that lists them."""
    [line] = [line for line in freshline("status").stdout.splitlines() if line.startswith("daily ")][:1]
    assert "1 of 8 fresh, 6 missing, 1 failed" in line
    detail = freshline("status", "daily")
    assert "newest partition" in detail.stdout
    assert "`freshline partitions daily` lists partitions" in detail.stderr


def test_why_explains_the_newest_or_one(lab: Lab, freshline: Freshline) -> None:
    """Without a key the counts and the newest; with one, its state and its decisions."""
    text = freshline("why", "daily").stdout
    assert "daily: 1 of 8 fresh, 6 missing, 1 failed" in text
    assert "the newest is daily@2026-01-04; --partition KEY explains another one" in text
    one = freshline("why", "daily", "--partition", "2025-12-31").stdout
    assert "daily@2025-12-31 is failed" in one
    assert "run: 'raw@2025-12-31T01' changed (v1 -> v2)" in one
    assert "5 more partitions of raw" in one


def test_listings_name_the_partition(lab: Lab, freshline: Freshline) -> None:
    """As `workflow@key`; the filter shows one partition, `logs` its last run."""
    assert "daily@2026-01-02" in freshline("runs").stdout
    runs = freshline.json("runs", "--asset", "daily", "--partition", "2026-01-02")
    assert [run["partitionKey"] for run in runs] == ["2026-01-02"]
    text = freshline("runs", runs[0]["id"]).stdout
    assert f"run {runs[0]['id']} of daily@2026-01-02" in text
    assert "raw@2026-01-02T01" in text
    assert "daily@2025-12-31" in freshline("decisions", "--workflow", "daily").stdout
    assert "raw@2025-12-31T01" in freshline("events", "--subject", "raw").stdout
    assert {one["data"]["partitionKey"] for one in freshline.json("events", "--asset", "daily", "--partition",
                                                                  "2025-12-31")} == {"2025-12-31"}  # fmt: skip
    assert "printed nothing" in freshline("logs", "daily", "--partition", "2026-01-02").stderr
    none = freshline("logs", "daily", "--partition", "2026-01-01", code=1)
    assert "partition '2026-01-01' of 'daily' was never run" in none.stderr


def test_logs_of_an_asset_need_a_partition(lab: Lab, freshline: Freshline) -> None:
    """The error says what to write."""
    error = freshline("logs", "daily", code=2).stderr
    assert "'daily' is not a run id but an asset" in error
    assert "`freshline logs daily --partition KEY` shows the last run of a partition" in error
    assert "`freshline runs --asset daily` lists its runs" in error
    assert "'no-run!' is not a run id; give the id" in freshline("logs", "no-run!", code=2).stderr


def test_a_report_names_its_partition(lab: Lab, freshline: Freshline) -> None:
    """The answer too."""
    text = freshline("report", "raw", "--partition", "2025-12-30T05", "--data-version", "v1").stderr
    assert "raw@2025-12-30T05 version 1 (v1) is reported" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("partitions total", "asset 'total' has no partitions"),
        ("partitions daily --from January", "'January' is not"),
        ("partitions dayly", "did you mean 'daily'"),
        ("why daily --partition 2025-01-01", "is before the first; allowed are 2025-12-28 to 2026-01-04"),
        ("why total --partition 2025-12-31", "asset 'total' has no partitions"),
        ("runs --partition 2025-12-31", "belongs to an asset or a workflow"),
        ("events --asset raw --partition x", "'x' is not"),
        ("decisions --workflow daily --partition 31.12.", "'31.12.' is not"),
        ("report raw", "asset 'raw' has partitions, and none is named; the newest is"),
        ("report raw --partition 2025-12-31", "'2025-12-31' is not"),
        ("plan raw", "asset 'raw' has partitions, and none is named; the newest is 20"),
        ("plan daily", "name one: --partition 2026-01-04"),
        ("logs total --partition x", "has no partitions"),
    ],
)
def test_a_wrong_key_is_an_error_that_says_what_is_allowed(
    lab: Lab, freshline: Freshline, words: str, said: str
) -> None:
    """Never an empty answer, never a traceback; nothing is stored."""
    before = lab.everything()
    result = freshline(*words.split(), code=2 if "dayly" not in words else 1)
    assert said in result.stderr
    assert lab.everything() == before
