"""Reports, runs and expiries of single partitions, and keys that appear (docs/semantics.md#R13.8)."""

from __future__ import annotations

from typing import Any

import pytest

from freshline.errors import ConflictError, PartitionKeyError, UsageError
from tests.scenarios.test_partitions import DAYS, HOURS, divided, ran
from tests.store_harness import Lab

CUSTOMERS: dict[str, Any] = {"dynamic": {"limit": 3}}


def customers(lab: Lab) -> None:
    """Apply a source with keys that appear, and two workflows that have its keys."""
    source = {"assetId": "raw", "partitioning": CUSTOMERS}
    lab.apply(
        divided("clean", {"raw": None}, CUSTOMERS),
        divided("sums", {"clean": None}, CUSTOMERS),
        sources=(source,),
    )


def test_the_running_window_may_be_reported(lab: Lab) -> None:
    """It has begun: it counts when it has ended."""
    lab.apply(sources=(HOURS,))
    assert lab.report("raw", "v1", partition_key="2026-01-05T09")["changed"]


def test_keys_appear_with_their_inputs(lab: Lab) -> None:
    """A report makes the key of the source, and of everything that is mapped `same` below it."""
    customers(lab)
    assert ran(lab) == []
    lab.report("raw", "v1", partition_key="acme")
    assert ran(lab) == [("clean", "acme"), ("sums", "acme")]
    lab.report("raw", "v1", partition_key="zoo")
    lab.report("raw", "v2", partition_key="acme")
    assert sorted(ran(lab)) == [("clean", "acme"), ("clean", "zoo"), ("sums", "acme"), ("sums", "zoo")]


def test_keys_that_were_there_before_the_workflow(lab: Lab) -> None:
    """An apply finds the keys of its inputs."""
    lab.apply(sources=({"assetId": "raw", "partitioning": CUSTOMERS},))
    for key in ("acme", "zoo"):
        lab.report("raw", "v1", partition_key=key)
    lab.settle()
    customers(lab)
    assert sorted(ran(lab)) == [("clean", "acme"), ("clean", "zoo"), ("sums", "acme"), ("sums", "zoo")]


def test_a_key_beyond_the_limit_is_refused(lab: Lab) -> None:
    """The limit protects from keys that are mistakes. Known keys are still reported."""
    customers(lab)
    for key in ("a", "b", "c"):
        lab.report("raw", "v1", partition_key=key)
    before = lab.everything()
    with pytest.raises(PartitionKeyError, match="'d' of 'raw' would be one more than its limit of 3 keys"):
        lab.report("raw", "v1", partition_key="d")
    assert lab.everything() == before
    lab.report("raw", "v2", partition_key="c")


def test_an_unknown_fixed_key_is_refused(lab: Lab) -> None:
    """With the allowed ones, and the one that was probably meant."""
    lab.apply(sources=({"assetId": "raw", "partitioning": {"keys": ["europe", "asia"]}},))
    with pytest.raises(PartitionKeyError, match=r"'eurpe' does not exist; allowed are europe, asia.*europe"):
        lab.report("raw", "v1", partition_key="eurpe")


def test_a_run_of_one_partition(lab: Lab) -> None:
    """It reads what is mapped to it, whether it is stale or not."""
    lab.apply(divided("daily", {"raw": {"require": "any"}}, DAYS), sources=(HOURS,))
    lab.report("raw", "v1", partition_key="2026-01-02T05")
    assert ran(lab) == [("daily", "2026-01-02")]
    run = lab.store.operations.request_run("daily", partition_key="2026-01-02")
    assert lab.work() == ["daily"]
    [manual] = [one for one in lab.runs("daily") if str(one["id"]) == run]
    assert manual["partition_key"] == "2026-01-02"
    assert set(manual["pins"]) == {"raw@2026-01-02T05"}


def test_a_suggested_key_of_dimensions_can_be_pasted_into_a_shell(lab: Lab) -> None:
    """The values of a key are separated by what is a pipe there."""
    regions = {"dimensions": {"day": DAYS, "region": {"keys": ["eu"]}}}
    lab.apply(
        divided("regional", {"regions": None}, regions), sources=({"assetId": "regions", "partitioning": regions},)
    )
    with pytest.raises(UsageError) as error:
        lab.store.operations.request_run("regional")
    assert error.value.hint == "name one: --partition '2026-01-04|eu'"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("", r"workflow 'daily' has partitions, and none is named; the newest is 2026-01-04"),
        ("2026-01-05", r"workflow 'daily': partition '2026-01-05' does not exist before 2026-01-06.*'2026-01-04'"),
        ("2025-12-29", r"workflow 'daily': partition key '2025-12-29' is before the first"),
        ("January", r"is not a day; allowed are keys such as"),
    ],
)
def test_a_run_of_a_wrong_partition_is_refused(lab: Lab, key: str, words: str) -> None:
    """The error names what is allowed, and nothing is stored. An expiry says the same."""
    lab.apply(divided("daily", {"raw": {"require": "any"}}, DAYS), sources=(HOURS,))
    lab.settle()
    before = lab.everything()
    with pytest.raises(UsageError, match=words):
        lab.store.operations.request_run("daily", partition_key=key)
    with pytest.raises(UsageError, match=words.replace("workflow", "asset")):
        lab.store.operations.expire("daily", partition_key=key)
    assert lab.everything() == before


def test_a_run_without_its_inputs_names_them(lab: Lab) -> None:
    """With the command that reports the partition that is missing."""
    source = {"assetId": "raw", "partitioning": {"time": "day", "start": "2025-12-01"}}
    lab.apply(divided("daily", {"raw": None}, DAYS), sources=(source,))
    with pytest.raises(ConflictError, match="its input 'raw@2026-01-02' has no data yet") as refused:
        lab.store.operations.request_run("daily", partition_key="2026-01-02")
    assert "`freshline report raw --partition 2026-01-02`" in (refused.value.hint or "")


def test_one_partition_expires(lab: Lab) -> None:
    """An old one too. It runs once, and its clock does not start again."""
    lab.apply(divided("daily", {}, DAYS, freshness={"cron": "0 12 * * *"}))
    ran(lab)
    assert lab.store.operations.expire("daily", partition_key="2026-01-01")["partitionKey"] == "2026-01-01"
    assert ran(lab) == [("daily", "2026-01-01")]
    lab.advance(hours=3)
    assert ran(lab) == [("daily", "2026-01-04")]
