"""What is new to a step: which rows of its inputs none of its outputs was computed from yet (R9.5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from freshline.definitions.schema.workflow import Produces, Step
from freshline.model.run import PinnedInput, Position

Positions = Mapping[str, Mapping[str, Position]]


@dataclass(frozen=True, slots=True)
class Reading:
    """How a step reads its inputs. `since`: by input, the version of its table after which rows are new.

    `refresh`: why everything counts as new; nothing if it does not.
    """

    refresh: str | None = None
    since: Mapping[str, int] = field(default_factory=dict)


def reading(
    step: Step,
    inputs: Mapping[str, PinnedInput],
    positions: Positions,
    *,
    heads: Mapping[str, Position] | None = None,
    forced: bool = False,
) -> Reading:
    """From how far the heads of the step's outputs have read. What it makes itself is nothing to come further in.

    `inputs`: pins, and what earlier steps of the run have made. `heads`: what the latter is going to replace; a step
    without outputs stands there, as that is published with its success.
    """
    if forced:
        return Reading("it was asked for")
    outputs = _outputs(step)
    unmade = [output.asset_id for output in outputs if output.asset_id not in positions]
    if unmade:
        return Reading(f"{unmade[0]} was never produced")
    made = {output.asset_id for output in step.produces}
    since = {}
    for asset_id, pinned in inputs.items():
        if asset_id in made:
            continue
        read = [positions[output.asset_id].get(asset_id) for output in outputs]
        found = _since(pinned, read or [(heads or {}).get(asset_id)])
        if isinstance(found, str):
            return Reading(found)
        since[asset_id] = found
    return Reading(None, since)


def reads_increments(step: Step) -> bool:
    """Whether it matters to the step what is new: it adds to what is there, or asks for new rows."""
    adds = any(output.table and output.table.mode != "overwrite" for output in step.produces)
    return adds or any(item.rows == "new" for item in step.consumes)


def _outputs(step: Step) -> list[Produces]:
    """The outputs that say how far the step has come: those that add to what is there, if there are such.

    One that a run may leave out says little; where every one may, the rest is as good as any.
    """
    extended = [output for output in step.produces if output.table and output.table.mode != "overwrite"]
    chosen = extended or list(step.produces)
    return [output for output in chosen if not output.optional] or chosen


def _since(pinned: PinnedInput, read: Iterable[Position | None]) -> int | str:
    """After which version of the input's table rows are new, or why all are. What is no table has the one version 0."""
    positions = set(read)
    if len(positions) > 1:
        return f"the outputs have read different versions of {pinned.asset_id}"
    (position,) = positions
    if position is None:
        return f"{pinned.asset_id} was never read"
    then, now = position.table_version or 0, pinned.table_version or 0
    if position.data_version == pinned.data_version:
        return now
    same_table = position.base_version is not None and position.base_version == pinned.base_version
    if same_table and then <= now:
        return then
    return f"{pinned.asset_id} was changed other than by append"
