"""Checks of the fields about partitions within one definition. `partitions` checks how definitions fit together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from freshline.definitions.partition_edges import has_time
from freshline.definitions.schema.partitioning import Partitioning
from freshline.definitions.schema.watch import FilesWatch, Watch
from freshline.definitions.schema.workflow import Consumes, Produces, Source, Step, Workflow
from freshline.definitions.sql.partition_parameters import NAMES
from freshline.definitions.steps import produced
from freshline.definitions.validation.problems import Loc, Problem, show
from freshline.model.file_patterns import PARTITION
from freshline.partitions import Same
from freshline.suggest import suggestion

_PLACEHOLDER = re.compile(r"\{\w+\}")
_OUTPUT_FIELDS = ("partitioning", "retain_ms", "frozen_after_ms")


def mentions_partitions(workflow: Workflow) -> bool:
    """Return whether a field of a workflow is about partitions."""
    return any(
        step.batch
        or any(item.partitions is not None for item in step.consumes)
        or any(next(_fields(output), None) for output in step.produces)
        for step in workflow.steps
    )


def field_problems(workflow: Workflow) -> Iterator[Problem]:
    """Yield what one workflow says about partitions that cannot be."""
    yield from _outputs_that_disagree(workflow)
    yield from _inputs_that_disagree(workflow)
    yield from _read_within_a_run(workflow)
    yield from _reserved_parameters(workflow)
    for s, step in enumerate(workflow.steps):
        for p, output in enumerate(step.produces):
            loc: Loc = ("steps", s, "produces", p)
            yield from _without_partitions(loc, output)
            yield from _ages(loc, output)
            yield from _columns(loc, output)


def source_problems(source: Source) -> Iterator[Problem]:
    """Yield what a source says about partitions that cannot be."""
    path = source.path or ""
    if source.partitioning is None:
        if PARTITION in path:
            yield Problem(("path",), f"'path' has {PARTITION}, and the source has no partitions; add 'partitioning'")
        if isinstance(source.watch, FilesWatch) and PARTITION in source.watch.files:
            message = f"'files' has {PARTITION}, and the source has no partitions; add 'partitioning'"
            yield Problem(("watch", "files"), message)
        return
    if source.mode == "append":
        yield Problem(
            ("partitioning",),
            "'partitioning' is not possible with 'mode: append': a report of a partition replaces its data, and one of"
            " an append source adds to it; remove 'mode: append' if each file belongs to a partition, else"
            " 'partitioning'",
        )
    if source.watch is not None:
        yield from _watch_without_key(source.watch)
    if path and PARTITION not in path:
        message = f"'path' has no {PARTITION}, so that every report of a partition needs a path of its own{_hint(path)}"
        yield Problem(("path",), message, warning=True)


def _watch_without_key(watch: Watch) -> Iterator[Problem]:
    """Yield a watch of a source with partitions that does not say which of them has changed."""
    if not isinstance(watch, FilesWatch):
        yield Problem(
            ("watch",),
            f"'watch' with '{watch.kind}' is not possible with 'partitioning': it does not say which partition has"
            f" changed; watch 'files' whose path has {PARTITION}, or remove it, and report the partitions",
        )
    elif PARTITION not in watch.files:
        hint = _hint(watch.files, ", as in drop/dt={partitionKey}/*.csv")
        message = f"'files' has no {PARTITION}, so that a file does not say to which partition it belongs{hint}"
        yield Problem(("watch", "files"), message)


def _hint(path: str, example: str = "") -> str:
    """Return what to write in a path without the key."""
    found = next((one for one in _PLACEHOLDER.findall(path) if suggestion(one, [PARTITION])), "")
    return suggestion(found, [PARTITION]) if found else f"; write {PARTITION} where the key is{example}"


def _fields(output: Produces) -> Iterator[tuple[str, ...]]:
    if output.partitioning is not None:
        yield ("partitioning",)
    if output.retain_ms is not None:
        yield ("retain",)
    if output.frozen_after_ms is not None:
        yield ("frozenAfter",)
    if output.freshness and output.freshness.partitions:
        yield ("freshness", "partitions")
    if output.auto_materialize and output.auto_materialize.partitions:
        yield ("autoMaterialize", "partitions")


def _without_partitions(loc: Loc, output: Produces) -> Iterator[Problem]:
    if output.partitioning is None:
        for field in _fields(output):
            name = ".".join(field)
            message = f"'{name}' has no effect on an asset without 'partitioning'; add it, or remove '{name}'"
            yield Problem((*loc, *field), message)


def _ages(loc: Loc, output: Produces) -> Iterator[Problem]:
    """Yield limits of age for partitions that have none."""
    if output.partitioning is None:
        return
    if not has_time(output.partitioning.compiled()):
        for field in set(_fields(output)) & {("retain",), ("frozenAfter",)}:
            message = f"'{field[0]}' needs partitions by time, whose age is known; remove it"
            yield Problem((*loc, *field), message)
    retain, frozen = output.retain_ms, output.frozen_after_ms
    if retain is not None and frozen is not None and frozen >= retain:
        message = "'frozenAfter' is not shorter than 'retain', so that no partition is frozen before it is removed"
        yield Problem((*loc, "frozenAfter"), f"{message}; write a shorter one, or remove it", see=(*loc, "retain"))


def _columns(loc: Loc, output: Produces) -> Iterator[Problem]:
    """Yield columns of `partitionBy` that the partition has anyway: a table has each column once."""
    if output.partitioning is None or output.table is None:
        return
    own = {column.name.lower() for column in output.partitioning.columns()}
    for number, column in enumerate(output.table.partition_by):
        if column.lower() in own:
            yield Problem(
                (*loc, "table", "partitionBy", number),
                f"'partitionBy' names {column!r}, the column of the partition, which comes first by itself; remove it",
                see=(*loc, "partitioning"),
            )


def _outputs_that_disagree(workflow: Workflow) -> Iterator[Problem]:
    """Yield outputs with other partitions than the first: a run makes one partition of all of them."""
    first: tuple[Loc, Produces] | None = None
    for s, step in enumerate(workflow.steps):
        for p, output in enumerate(step.produces):
            loc: Loc = ("steps", s, "produces", p)
            other_loc, other = first = first or (loc, output)
            for field in _OUTPUT_FIELDS:
                here, there = _stated(output, field), _stated(other, field)
                if here != there:
                    name = Produces.model_fields[field].alias or field
                    yield Problem(
                        (*loc, name),
                        f"'{name.removesuffix('Ms')}' is {show(here)}, but {show(there)} for asset {other.asset_id!r};"
                        " the outputs of a workflow have the same partitions; split the workflow",
                        see=(*other_loc, name),
                    )
                    break


def _stated(output: Produces, field: str) -> object:
    value = getattr(output, field)
    return value.compiled().as_json() if isinstance(value, Partitioning) else value


def _inputs_that_disagree(workflow: Workflow) -> Iterator[Problem]:
    """Yield inputs that two steps read in different ways: a run pins each input once."""
    own = produced(workflow)
    first: dict[str, tuple[Loc, Consumes]] = {}
    for s, step in enumerate(workflow.steps):
        for c, item in enumerate(step.consumes):
            if item.asset_id in own:
                continue
            loc: Loc = ("steps", s, "consumes", c)
            other_loc, other = first.setdefault(item.asset_id, (loc, item))
            if _declared(item) != _declared(other):
                yield Problem(
                    (*loc, "partitions"),
                    "is read by two steps with different 'partitions'; write the same for both, or split the workflow",
                    see=(*other_loc, "partitions"),
                )


def _declared(item: Consumes) -> object:
    return item.partitions.model_dump(exclude_none=True) if item.partitions else {}


def _read_within_a_run(workflow: Workflow) -> Iterator[Problem]:
    """Yield inputs from another step of the same run for which another partition is declared."""
    makers = {asset_id: step_id for asset_id, (step_id, _) in produced(workflow).items()}
    for s, step in enumerate(workflow.steps):
        for c, item in enumerate(step.consumes):
            maker = makers.get(item.asset_id)
            if item.partitions is None or maker is None:
                continue
            loc: Loc = ("steps", s, "consumes", c, "partitions")
            rule = item.partitions.declared().rule
            if maker != step.id and not isinstance(rule, Same | None):
                yield Problem(
                    loc,
                    f"step {maker!r} of this workflow produces it in the same run, for the same partition; remove"
                    " 'partitions', or split the workflow",
                )
            elif maker == step.id and produced(workflow)[item.asset_id][1].partitioning is None:
                yield Problem(loc, "the workflow has no partitions, and reads its own output; remove 'partitions'")


def _reserved_parameters(workflow: Workflow) -> Iterator[Problem]:
    """Yield parameters whose names a workflow with partitions needs itself."""
    if not any(output.partitioning for _, output in produced(workflow).values()):
        return
    blocks: list[tuple[Loc, Step | None]] = [(("parameters",), None)]
    blocks += [(("steps", s, "job", "parameters"), step) for s, step in enumerate(workflow.steps)]
    for loc, step in blocks:
        for name in step.job.parameters if step else workflow.parameters:
            if name in NAMES:
                message = f"parameter {name!r} is set by Freshline in a workflow with partitions; choose another name"
                yield Problem((*loc, name), message)
