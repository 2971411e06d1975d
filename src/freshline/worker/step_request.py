"""Builds the request for one try of a step: which snapshots it reads, what is new to it, where it writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from freshline.definitions.schema.workflow import Consumes, Produces, Step, Table, Workflow
from freshline.definitions.steps import internal_inputs
from freshline.model.enums import Reason
from freshline.model.run import BatchPartition, ClaimedRun, OutputTarget, PinnedInput, Position, StagedOutput
from freshline.model.state import reference
from freshline.storage import layout
from freshline.storage.base import Storage
from freshline.worker.increments import InputReading, plan_reading
from freshline.worker.partition_inputs import RunPartition, advanced, combined
from freshline.worker.protocol import StepRequest

# Causes of a run after which a partition holds nothing of what it was before.
REPLACING = frozenset({str(Reason.DEFINITION_CHANGED), "backfill"})


@dataclass(frozen=True)
class RequestBuilder:
    """Builds the requests of one attempt.

    `staged`: outputs of the steps that have already finished, by asset; in a batch by reference.
    """

    run: ClaimedRun
    definition: Workflow
    storage: Storage
    staged: Mapping[str, StagedOutput]

    @property
    def full_refresh_requested(self) -> bool:
        """Whether a user requested that everything is computed again."""
        return full_refresh_requested(self.run)

    def reading(self, step: Step) -> InputReading:
        """Return how the step reads its inputs: increments or everything."""
        internal = internal_inputs(self.definition)[step.id]
        pins = self.run.inputs
        heads = {asset_id: _position(pins[asset_id]) for asset_id in internal if asset_id in pins}
        inputs = self._inputs(step, internal)
        return plan_reading(step, inputs, self.run.positions, heads=heads, forced=self._forced)

    @property
    def _forced(self) -> str | None:
        """Why everything is computed again, whatever was read before; None if it need not be.

        A partition that is computed again because its code changed, or by a backfill, is replaced: others are still of
        the code before, and each has to be the result of one.
        """
        if self.full_refresh_requested:
            return "it was asked for"
        if self.run.rebuilt:
            return f"the code of '{self.run.rebuilt}' changed, and its onCodeChange is 'rebuild'"
        causes = {str(self.run.trigger.get(name)) for name in ("reason", "type")} & self._replacing
        return f"the cause of the run is {min(causes)}" if causes and self.run.partition_key else None

    @property
    def _replacing(self) -> frozenset[str]:
        """The causes that replace a partition. What the definition says about changed code comes first."""
        tables = [output.table for step in self.definition.steps for output in step.produces if output.table]
        answers = {one.on_code_change for one in tables} & {"ask", "keep"}
        return REPLACING - {str(Reason.DEFINITION_CHANGED)} if answers else REPLACING

    @cached_property
    def _partition(self) -> RunPartition:
        keys = self.run.batch or ((self.run.partition_key,) if self.run.partition_key else ())
        return RunPartition(self.definition, keys)

    def build(
        self, step: Step, try_: int, reading: InputReading, *, session: str | None, orphans: Collection[str]
    ) -> StepRequest:
        """Return the request. `session` and `orphans`: see `StepRequest`."""
        run, definition = self.run, self.definition
        inputs = self._inputs(step, internal_inputs(definition)[step.id])
        own = {output.asset_id for output in step.produces}
        return StepRequest(
            run_id=run.id,
            attempt=run.attempt,
            try_=try_,
            slug=run.slug,
            partition_key="" if run.batch else run.partition_key,
            step=step.model_dump(mode="json", by_alias=True, exclude_unset=True),
            parameters={**definition.parameters, **run.parameters},
            inputs={asset_id: _new_since(one, reading) for asset_id, one in inputs.items()},
            outputs={output.asset_id: self._target(output, try_, reading) for output in step.produces},
            warehouse=str(self.storage),
            timeout_ms=step.timeout_ms,
            secrets=tuple(definition.secrets),
            full_refresh=reading.full_refresh_reason is not None,
            conf=definition.spark.conf if definition.spark else {},
            session=session,
            orphans=tuple(orphans) if session else (),
            window=_window(self._partition),
            batch=run.batch,
            gaps=len(self._partition.windows) > 1,
            empty=tuple(
                item.asset_id
                for item in step.consumes
                if item.asset_id in run.partitioned and item.asset_id not in {*inputs, *own}
            ),
        )

    def _target(self, output: Produces, try_: int, reading: InputReading) -> OutputTarget:
        run = self.run
        staging = layout.unused_staging_directory(self.storage, output.asset_id, run.id, run.attempt, try_)
        if run.batch:
            return OutputTarget(staging, None, batch=[self._of_batch(output, key) for key in run.batch])
        return OutputTarget(
            staging=staging,
            head=run.inputs.get(output.asset_id),
            replace=self._forced is not None or _replaces(output, reading),
            partition=self._partition.columns(output, run.partition_key),
            column_sets=run.column_sets.get(output.asset_id, ()),
        )

    def _of_batch(self, output: Produces, key: str) -> BatchPartition:
        head = self.run.inputs.get(reference(output.asset_id, key))
        return BatchPartition(key, self._partition.columns(output, key), head)

    def _inputs(self, step: Step, internal: Collection[str]) -> dict[str, PinnedInput]:
        """Return pins, outputs of earlier steps of this run, and the previous head of the step's own outputs.

        A full refresh has no previous head, as on the first run (docs/semantics.md#R1.3): it is about to be replaced.
        """
        own = {output.asset_id for output in step.produces}
        inputs = {}
        for item in step.consumes:
            pinned = self._internal(item.asset_id) if item.asset_id in internal else self._pinned(item)
            replaced = item.asset_id in own and pinned is not None and pinned.partitions is None
            if pinned is not None and not (replaced and self._forced):
                inputs[item.asset_id] = replace(pinned, cut=self._partition.cut(item))
        return inputs

    def _pinned(self, item: Consumes) -> PinnedInput | None:
        """Return what the run reads of an input: a snapshot, or all partitions that are mapped to the run's."""
        run = self.run
        if item.asset_id not in run.partitioned or (item.asset_id in run.inputs and item.partitions is None):
            return run.inputs.get(item.asset_id)
        return combined(item.asset_id, self._members[item.asset_id], run.partitioned[item.asset_id])

    @cached_property
    def _members(self) -> Mapping[str, list[PinnedInput]]:
        """The pinned partitions, by asset."""
        found: dict[str, list[PinnedInput]] = defaultdict(list)
        for name, one in self.run.inputs.items():
            if "@" in name:
                found[one.asset_id].append(one)
        return found

    def _internal(self, asset_id: str) -> PinnedInput | None:
        """Return the output that an earlier step of this run staged, under the table version that it will get.

        An appended output includes the parts of the head.
        """
        if self.run.batch:
            made = [self._staged(asset_id, reference(asset_id, key), key) for key in self.run.batch]
            return combined(asset_id, [one for one in made if one is not None], None)
        return self._staged(asset_id, asset_id)

    def _staged(self, asset_id: str, name: str, key: str = "") -> PinnedInput | None:
        output, head = self.staged.get(name), self.run.inputs.get(name)
        if output is None:
            return None
        version = 0 if head is None or head.table_version is None else head.table_version + 1
        before = head if output.appended else None
        paths = (output.location or {}).get("paths", ())
        return PinnedInput(
            asset_id,
            0,
            output.data_version or f"run:{self.run.id}",
            output.location,
            output.payload,
            table_version=version,
            schema=output.schema,
            base_version=before.base_version if before else version,
            parts=[*(before.parts if before else ()), *((version, path) for path in paths)],
            rows=output.rows,
            partition_key=key,
        )


def full_refresh_requested(run: ClaimedRun) -> bool:
    """Return whether a user requested that the run computes everything again."""
    return bool(run.trigger.get("fullRefresh"))


def _new_since(one: PinnedInput, reading: InputReading) -> PinnedInput:
    """Return an input with the version after which its rows are new to the step."""
    if one.partitions is None:
        return replace(one, since=reading.since.get(one.asset_id), changed=reading.is_changed(one.asset_id))
    names = {member.partition_key: reference(one.asset_id, member.partition_key) for member in one.partitions}
    since = {key: reading.since[name] for key, name in names.items() if name in reading.since}
    return advanced(one, since, {key: reading.is_changed(name) for key, name in names.items()})


def _window(partition: RunPartition) -> tuple[str, str] | None:
    window = partition.window
    return (window.begins.isoformat(), window.ends.isoformat()) if window else None


def _position(head: PinnedInput) -> Position:
    return Position(head.data_version, head.table_version, head.base_version)


def _replaces(output: Produces, reading: InputReading) -> bool:
    """Return whether an append replaces the table, because its inputs were replaced (docs/semantics.md#R9.5)."""
    table = output.table or Table()
    return table.mode == "append" and table.on_replaced_input == "replace" and reading.full_refresh_reason is not None
