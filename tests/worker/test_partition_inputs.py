"""What a step is given of its inputs with partitions: combined pins, digests, windows, columns, what changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from freshline.definitions.schema.workflow import Workflow
from freshline.model.run import ClaimedRun, PartitionColumn, PinnedInput, Position
from freshline.storage.base import storage_at
from freshline.worker.context import without_data
from freshline.worker.increments import plan_reading
from freshline.worker.partition_inputs import RunPartition, combined, data_version
from freshline.worker.step_request import RequestBuilder

SCHEMA = {"type": "struct", "fields": [{"name": "n", "type": "long"}]}


def pinned(key: str, version: str = "v1", *, number: int = 0, schema: Any = SCHEMA) -> PinnedInput:
    """Return a pinned partition of the asset `daily`."""
    location = {"format": "parquet", "paths": [f"daily/data/{key}"], "files": {"a": 1}, "fingerprint": {}}
    return PinnedInput(
        "daily",
        1,
        version,
        location,
        table_version=number,
        schema=schema,
        base_version=number,
        rows=2,
        partition_key=key,
    )


def divided(output: dict[str, Any], consumes: list[Any] | None = None) -> Workflow:
    """Return a workflow whose output has partitions."""
    job = {"kind": "python", "entrypoint": "jobs:f"}
    step = {"id": "s", "job": job, "consumes": consumes or [], "produces": [{"assetId": "out", **output}]}
    return Workflow.model_validate({"slug": "w", "steps": [step]})


def test_several_partitions_are_one_input_with_a_digest() -> None:
    """The digest depends on keys and versions and not on their order; one partition has its own version."""
    one, two = pinned("2024-01-01"), pinned("2024-01-02", number=1)
    both = combined("daily", [two, one], None)
    assert both is not None
    assert [part.partition_key for part in both.partitions or ()] == ["2024-01-01", "2024-01-02"]
    assert both.data_version == data_version([one, two]) != data_version([one, pinned("2024-01-03", number=1)])
    assert both.data_version.startswith("keys:")
    assert both.rows == 4
    alone = combined("daily", [one], None)
    assert alone is not None
    assert (alone.data_version, alone.sequence) == ("v1", 1)


def test_a_message_to_a_runner_has_no_lists_of_files_and_columns_once() -> None:
    """A year of days must fit into one message."""
    other = {"type": "struct", "fields": []}
    both = combined("daily", [pinned("2024-01-01", schema=other), pinned("2024-01-02", number=1)], None)
    assert both is not None
    assert both.schema == SCHEMA
    assert [part.schema for part in both.partitions or ()] == [other, None]
    assert all((part.location or {}).keys() == {"format", "paths"} for part in both.partitions or ())


def test_an_input_without_any_partition_has_the_columns_of_another() -> None:
    """A query can name its view, which is empty."""
    none = combined("daily", [], pinned("2024-01-01"))
    assert none is not None
    assert (none.partitions, none.schema) == ([], SCHEMA)
    assert combined("daily", [], None) is None


def test_columns_and_windows() -> None:
    """Days are dates, hours are times in UTC, everything else is text; a day begins at midnight of its zone."""
    days = divided({"partitioning": {"time": "day", "start": "2024-01-01", "timezone": "Europe/Berlin"}})
    run = RunPartition(days, ("2024-07-01",))
    assert run.window is not None
    assert [at.isoformat() for at in run.window] == ["2024-06-30T22:00:00+00:00", "2024-07-01T22:00:00+00:00"]
    assert run.columns(days.steps[0].produces[0], "2024-07-01") == (PartitionColumn("day", "DATE", "2024-07-01"),)
    hours = divided({"partitioning": {"time": "hour", "start": "2024-01-01", "column": "h"}})
    found = RunPartition(hours, ("2024-07-01T05",)).columns(hours.steps[0].produces[0], "2024-07-01T05")
    assert found == (PartitionColumn("h", "TIMESTAMP", "2024-07-01 05:00:00"),)
    both = {"day": {"time": "day", "start": "2024-01-01"}, "region": {"keys": ["eu", "us"]}}
    product = divided({"partitioning": {"dimensions": both}})
    found = RunPartition(product, ("2024-07-01|eu",)).columns(product.steps[0].produces[0], "2024-07-01|eu")
    assert [(one.name, one.type, one.value) for one in found] == [
        ("day", "DATE", "2024-07-01"),
        ("region", "STRING", "eu"),
    ]
    keys = divided({"partitioning": {"keys": ["a", "b"]}})
    assert RunPartition(keys, ("a",)).window is None
    assert RunPartition(keys, ("a",)).columns(keys.steps[0].produces[0], "a") == (
        PartitionColumn("partition_key", "STRING", "a"),
    )


def test_an_input_is_cut_by_its_time_column() -> None:
    """By instants, and by days of the consumer's zone if the window is whole days."""
    item = {"assetId": "raw", "partitions": {"timeColumn": "at"}}
    days = divided({"partitioning": {"time": "day", "start": "2024-01-01", "timezone": "Asia/Kolkata"}}, [item])
    cut = RunPartition(days, ("2024-07-01",)).cut(days.steps[0].consumes[0])
    assert cut is not None
    assert (cut.start, cut.end) == ("2024-06-30T18:30:00+00:00", "2024-07-01T18:30:00+00:00")
    assert (cut.first_day, cut.end_day) == ("2024-07-01", "2024-07-02")
    hours = divided({"partitioning": {"time": "hour", "start": "2024-01-01"}}, [item])
    cut = RunPartition(hours, ("2024-07-01T05",)).cut(hours.steps[0].consumes[0])
    assert cut is not None
    assert cut.first_day is None


def test_a_new_partition_is_no_full_refresh() -> None:
    """All its rows are new, and those of the others are what they were; a replaced one is a full refresh."""
    step = divided({"table": {"mode": "append"}}, [{"assetId": "daily"}]).steps[0]
    both = combined("daily", [pinned("2024-01-01", number=3), pinned("2024-01-02", number=4)], None)
    assert both is not None
    read = {"out": {"daily@2024-01-01": Position("v1", 3, 3)}}
    found = plan_reading(step, {"daily": both}, read)
    assert (found.full_refresh_reason, found.since) == (None, {"daily@2024-01-01": 3})
    assert not found.is_changed("daily@2024-01-01")
    assert found.is_changed("daily@2024-01-02")
    replaced = {"out": {"daily@2024-01-01": Position("v0", 1, 1)}}
    found = plan_reading(step, {"daily": both}, replaced)
    assert found.full_refresh_reason == "daily was changed other than by append"


def test_partitions_that_were_read_as_one_are_new_after_that_change() -> None:
    """Very many partitions are pinned by the number of a change: later ones have changed, and first ones are new."""
    step = divided({"table": {"mode": "append"}}, [{"assetId": "daily"}]).steps[0]
    old = replace(pinned("2024-01-01", number=3), change=7)
    new = replace(pinned("2024-01-02", number=4), change=8)
    both = combined("daily", [old, new], None)
    assert both is not None
    found = plan_reading(step, {"daily": both}, {"out": {"daily@": Position("digest", None, None, change=7)}})
    assert (found.full_refresh_reason, found.since) == (None, {"daily@2024-01-01": 3})
    assert [found.is_changed(f"daily@2024-01-0{day}") for day in (1, 2)] == [False, True]
    again = combined("daily", [old, replace(new, sequence=2)], None)
    assert again is not None
    found = plan_reading(step, {"daily": again}, {"out": {"daily@": Position("digest", None, None, change=7)}})
    assert found.full_refresh_reason == "daily was changed other than by append"


def test_a_request_names_inputs_without_any_data(tmp_path: Path) -> None:
    """A day after the end of its source reads nothing. The step's own output is empty at first: that is no error."""
    earlier = {"assetId": "out", "partitions": {"window": {"from": -1, "to": -1}}}
    items = [{"assetId": "raw"}, {"assetId": "daily"}, earlier]
    step = divided({"partitioning": {"time": "day", "start": "2024-01-01"}}, items)
    partitioned = {"raw": None, "daily": pinned("2024-01-01"), "out": None}
    run = ClaimedRun(
        *("r", 1, "w", "2024-02-01", 1, 1, {}, {}, {}, {}, {}, {}, None, 1000),
        partitioned=partitioned,
    )
    builder = RequestBuilder(run, step, storage_at(str(tmp_path)), {})
    request = builder.build(step.steps[0], 1, builder.reading(step.steps[0]), session=None, orphans=())
    assert request.empty == ("raw",)
    assert without_data("raw", request.partition_key).message == (
        "input 'raw' has no data for partition '2024-02-01', and none of its partitions has data yet, so its columns"
        " are not known"
    )
