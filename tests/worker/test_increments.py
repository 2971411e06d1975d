"""What is new to a step, as a pure function of what it reads and of what its outputs were computed from.

See docs/semantics.md#R9.5.
"""

from __future__ import annotations

from typing import Any

import pytest

from freshline.definitions.schema.workflow import Step
from freshline.model.run import PinnedInput, Position
from freshline.worker.increments import InputReading, plan_reading

SOURCE = PinnedInput("in", 7, "v1", {"format": "csv", "path": "/x.csv"})
TABLE = PinnedInput("in", 7, "v1", {"paths": ["p"]}, table_version=5, base_version=2)


def step(*outputs: str, consumes: str = "in") -> Step:
    """Return a step that appends to each output."""
    produces: list[dict[str, Any]] = [{"assetId": one, "table": {"mode": "append"}} for one in outputs]
    job = {"kind": "spark.python", "entrypoint": "jobs:work"}
    return Step.model_validate({"id": "s", "job": job, "consumes": [{"assetId": consumes}], "produces": produces})


@pytest.mark.parametrize(
    ("pinned", "read", "expected"),
    [
        (SOURCE, Position("v1", None, None), InputReading(None, {"in": 0}, frozenset({"in"}))),
        (SOURCE, Position("v0", None, None), InputReading("in was changed other than by append")),
        (SOURCE, None, InputReading("in was never read")),
        (TABLE, Position("v1", 5, 2), InputReading(None, {"in": 5}, frozenset({"in"}))),
        (TABLE, Position("v1", 1, 1), InputReading(None, {"in": 5}, frozenset({"in"}))),
        (TABLE, Position("v0", 3, 2), InputReading(None, {"in": 3})),
        (TABLE, Position("v0", 1, 1), InputReading("in was changed other than by append")),
        (TABLE, Position("v2", 6, 2), InputReading("in was changed other than by append")),
    ],
)
def test_new_is_what_came_after_the_version_that_the_output_has_read(
    pinned: PinnedInput, read: Position | None, expected: InputReading
) -> None:
    """Nothing, if the data version is the same, of a source too; everything, unless it was read up to a part of it."""
    positions = {"out": {"in": read} if read else {}}
    assert plan_reading(step("out"), {"in": pinned}, positions) == expected


def test_where_outputs_stand_apart_everything_is_new() -> None:
    """A row too many in one output is as wrong as a missing row in the other."""
    positions = {"a": {"in": Position("v0", 3, 2)}, "b": {"in": Position("v0", 4, 2)}}
    assert (
        plan_reading(step("a", "b"), {"in": TABLE}, positions).full_refresh_reason
        == "the outputs have read different versions of in"
    )


def test_what_a_step_makes_itself_is_no_input_to_come_further_in() -> None:
    """It reads the previous head, and nobody asks how far that was read (docs/semantics.md#R1.3)."""
    assert plan_reading(step("in"), {"in": TABLE}, {"in": {}}) == InputReading(None, {})


def test_a_step_without_outputs_stands_at_the_head_of_what_its_run_replaces() -> None:
    """That is published with its success; what comes from outside it has never read, as nothing says so."""
    head = Position("v0", 4, 2)
    assert plan_reading(step(), {"in": TABLE}, {}, heads={"in": head}) == InputReading(None, {"in": 4})
    assert plan_reading(step(), {"in": TABLE}, {}) == InputReading("in was never read")
    # An output says it better than the head.
    read = {"out": {"in": Position("v0", 3, 2)}}
    assert plan_reading(step("out"), {"in": TABLE}, read, heads={"in": head}) == InputReading(None, {"in": 3})
