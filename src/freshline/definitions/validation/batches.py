"""Checks of `batch: true`: one run that computes several partitions together."""

from __future__ import annotations

from collections.abc import Iterator

from freshline.definitions.schema.workflow import Consumes, SparkSql, Step, Workflow
from freshline.definitions.sql.partition_parameters import named_columns, parameters_used
from freshline.definitions.steps import produced
from freshline.definitions.validation.problems import Loc, Problem
from freshline.partitions import Around


def batch_problems(workflow: Workflow) -> Iterator[Problem]:
    """Yield what keeps a step from computing several partitions in one run."""
    batched = [step.batch for step in workflow.steps]
    if not any(batched):
        return
    partitioned = any(output.partitioning for _, output in produced(workflow).values())
    for s, step in enumerate(workflow.steps):
        if not step.batch:
            continue
        loc: Loc = ("steps", s, "batch")
        if not partitioned:
            yield Problem(loc, "'batch' has no effect on a workflow without partitions; remove it")
            continue
        if not all(batched):
            other = workflow.steps[batched.index(False)]
            message = f"'batch' has no effect, because step {other.id!r} does not have it; add it there, or remove it"
            yield Problem(loc, message, warning=True)
        yield from (Problem(loc, f"'batch' is not possible {reason}", see=see) for reason, see in _reasons(s, step))


def _reasons(s: int, step: Step) -> Iterator[tuple[str, Loc]]:
    """Yield why a step cannot compute several partitions at once, and the field that is the reason."""
    own = {output.asset_id for output in step.produces}
    for c, item in enumerate(step.consumes):
        loc: Loc = ("steps", s, "consumes", c)
        if item.asset_id in own:
            yield f"for a step that reads its own output {item.asset_id!r}: partitions would need each other", loc
        elif _has_window(item):
            yield f"with the window of {item.asset_id!r}: each partition reads other rows; remove 'batch'", loc
        if item.rows == "new":
            yield f"with 'rows: new' of {item.asset_id!r}: each partition has read other rows", (*loc, "rows")
    for p, output in enumerate(step.produces):
        mode = output.table.mode if output.table else "overwrite"
        if mode != "overwrite":
            yield f"with table mode {mode!r}: a run replaces its partitions", ("steps", s, "produces", p, "table")
    if isinstance(step.job, SparkSql):
        yield from _reasons_in_sql(s, step, step.job)


def _reasons_in_sql(s: int, step: Step, job: SparkSql) -> Iterator[tuple[str, Loc]]:
    blocks = {output.asset_id: output.partitioning for output in step.produces}
    for asset_id, query in job.queries(step).items():
        loc: Loc = ("steps", s, "job", "outputs", asset_id) if job.outputs else ("steps", s, "job", "sql")
        for name in parameters_used(query.text):
            yield f"with :{name} in the SQL, which has one value in a run; use the column of the partition", loc
        found, block = named_columns(query.text), blocks.get(asset_id)
        if found is None or block is None:
            continue
        for column in block.columns():
            if column.name.lower() not in found:
                yield f"without the column {column.name!r} in the SQL, which says where a row belongs; select it", loc


def _has_window(item: Consumes) -> bool:
    if item.partitions is None:
        return False
    declared = item.partitions.declared()
    return any(isinstance(rule, Around) for rule in (declared.rule, *(rule for _, rule in declared.dimensions)))
