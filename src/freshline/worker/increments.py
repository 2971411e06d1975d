"""Increments: which rows of its inputs a step has not read yet (docs/semantics.md#R9.5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from freshline.definitions.schema.workflow import Produces, Step
from freshline.model.run import PinnedInput, Position
from freshline.model.state import reference

Positions = Mapping[str, Mapping[str, Position]]


@dataclass(frozen=True, slots=True)
class InputReading:
    """How a step reads its inputs. `since`: per input, the version of its table after which rows are new.

    `full_refresh_reason`: why all rows count as new; None if they do not. `unchanged`: inputs whose data is what the
    outputs have read. Inputs with partitions are named by the references of these.
    """

    full_refresh_reason: str | None = None
    since: Mapping[str, int] = field(default_factory=dict)
    unchanged: frozenset[str] = frozenset()

    def is_changed(self, name: str) -> bool:
        """Return whether an input has other data than the outputs have read."""
        return name not in self.unchanged


@dataclass(frozen=True, slots=True)
class _Increment:
    """The new rows of one input: those after version `since`, or all of them for `full_refresh_reason`."""

    since: int = 0
    full_refresh_reason: str | None = None
    unchanged: bool = False


def plan_reading(
    step: Step,
    inputs: Mapping[str, PinnedInput],
    positions: Positions,
    *,
    heads: Mapping[str, Position] | None = None,
    forced: str | None = None,
) -> InputReading:
    """Return how the step reads its inputs, given how far the heads of its outputs have read them.

    A step's own outputs are excluded from increment tracking. `inputs`: pins, and outputs of earlier steps of the run.
    `heads`: the snapshots that those outputs will replace; they are the positions of a step without outputs.
    `forced`: why everything is read again, whatever was read before.
    """
    if forced:
        return InputReading(forced)
    outputs = _tracking_outputs(step)
    missing = [output.asset_id for output in outputs if output.asset_id not in positions]
    if missing:
        return InputReading(f"{missing[0]} was never produced")
    own = {output.asset_id for output in step.produces}
    since, unchanged, reasons = dict[str, int](), set[str](), list[str]()
    for name, pinned in _single(inputs):
        if pinned.asset_id in own:
            continue
        read = [_position(positions[output.asset_id], name, pinned) for output in outputs]
        if pinned.partition_key and not any(read):
            continue  # a partition that is new to the step: all its rows are, and nothing else is read again
        increment = _increment(pinned, read or [(heads or {}).get(name)])
        since[name] = increment.since
        if increment.full_refresh_reason:
            reasons.append(increment.full_refresh_reason)
        if increment.unchanged:
            unchanged.add(name)
    return InputReading(reasons[0] if reasons else None, {} if reasons else since, frozenset(unchanged))


def _single(inputs: Mapping[str, PinnedInput]) -> Iterator[tuple[str, PinnedInput]]:
    """Yield the inputs by asset id, and each partition of an input by its reference."""
    for asset_id, pinned in inputs.items():
        if pinned.partitions is None:
            yield asset_id, pinned
        for one in pinned.partitions or ():
            yield reference(asset_id, one.partition_key), one


def _position(positions: Mapping[str, Position], name: str, pinned: PinnedInput) -> Position | None:
    """Return how far an output has read an input. All partitions may have been read as one, up to a change."""
    whole = positions.get(f"{pinned.asset_id}@") if pinned.partition_key else None
    if whole is None or whole.change is None or pinned.change is None:
        return positions.get(name)
    if pinned.change <= whole.change:
        return Position(pinned.data_version, pinned.table_version, pinned.base_version)
    return None if pinned.sequence == 1 else Position("", None, None)


def reads_increments(step: Step) -> bool:
    """Return whether the step depends on which rows are new: it adds to a table, or consumes `rows: new`."""
    adds = any(output.table and output.table.mode != "overwrite" for output in step.produces)
    return adds or any(item.rows == "new" for item in step.consumes)


def _tracking_outputs(step: Step) -> list[Produces]:
    """Return the outputs whose positions count: those that are appended to or merged, if there are any.

    Optional outputs count only if all are optional, as a run may leave them out.
    """
    extended = [output for output in step.produces if output.table and output.table.mode != "overwrite"]
    chosen = extended or list(step.produces)
    return [output for output in chosen if not output.optional] or chosen


def _increment(pinned: PinnedInput, read: Iterable[Position | None]) -> _Increment:
    """Return the increment of one input. An input that is not a table has one version, 0."""
    positions = set(read)
    if len(positions) > 1:
        return _Increment(full_refresh_reason=f"the outputs have read different versions of {pinned.asset_id}")
    (position,) = positions
    if position is None:
        return _Increment(full_refresh_reason=f"{pinned.asset_id} was never read")
    then, now = position.table_version or 0, pinned.table_version or 0
    if position.data_version == pinned.data_version:
        return _Increment(now, unchanged=True)
    same_table = position.base_version is not None and position.base_version == pinned.base_version
    if same_table and then <= now:
        return _Increment(then)
    return _Increment(full_refresh_reason=f"{pinned.asset_id} was changed other than by append")
