"""The named parameters of queries that Freshline sets in workflows with partitions: `:partition_key` and others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from freshline.definitions.names import PARTITION_KEY as KEY
from freshline.definitions.names import PARTITION_TIMES as OF_TIME
from freshline.definitions.partition_edges import has_time
from freshline.definitions.schema.workflow import Workflow
from freshline.definitions.sql.lint import Text, parsed, queries
from freshline.definitions.steps import partitioning_of, produced
from freshline.definitions.validation.problems import Problem
from freshline.partitions import Partitioning
from freshline.partitions.compatibility import described
from freshline.partitions.mapping import axes_of

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

NAMES = (KEY, *OF_TIME)
_MENTION = re.compile(r":partition_(?:key|start|end)\b")


def parameter_problems(workflow: Workflow) -> Iterator[Problem]:
    """Yield the parameters of partitions that have no value in a workflow."""
    partitioning = partitioning_of(workflow)
    declared = set() if axes_of(partitioning) else _parameters(workflow)
    for index, step in enumerate(workflow.steps):
        for text in queries(index, step):
            for name in parameters_used(text.query.text):
                if name not in declared and (reason := _without_value(name, partitioning)):
                    yield text.problem(f"the SQL uses :{name}; {reason}", _line(text, name))


def _parameters(workflow: Workflow) -> set[str]:
    """Return the declared parameters. A workflow without partitions may have some of its own with these names."""
    jobs = [set(step.job.parameters) for step in workflow.steps]
    blocks = [output.auto_materialize for _, output in produced(workflow).values()]
    return set(workflow.parameters).union(*jobs, *(set(block.parameter_defaults) for block in blocks if block))


def parameters_used(sql: str) -> list[str]:
    """Return the parameters of partitions that a query uses, in the order of `NAMES`."""
    if not _MENTION.search(sql):
        return []
    from sqlglot import exp  # noqa: PLC0415 - it takes 0.5 s, which commands without definitions should not pay

    found = {one.name for statement in _statements(sql) for one in statement.find_all(exp.Placeholder)}
    return [name for name in NAMES if name in found]


def named_columns(sql: str) -> set[str] | None:
    """Return the columns of a query's result in lower case; None if they follow from the tables that it reads."""
    from sqlglot import exp  # noqa: PLC0415

    statements = _statements(sql)
    only = statements[0] if len(statements) == 1 else None
    if not isinstance(only, exp.Query) or only.is_star or not all(only.named_selects):
        return None
    return {name.lower() for name in only.named_selects} or None


def _statements(sql: str) -> list[Expr]:
    try:
        return parsed(sql)
    except ValueError:  # a query that cannot be parsed is a problem of its own
        return []


def _without_value(name: str, partitioning: Partitioning) -> str | None:
    if not axes_of(partitioning):
        return "it has a value only in a workflow whose outputs have 'partitioning'"
    if name in OF_TIME and not has_time(partitioning):
        return f"it needs partitions by time, and the outputs have {described(partitioning)}; use :{KEY}"
    return None


def _line(text: Text, name: str) -> int | None:
    before, found, _ = text.query.text.partition(f":{name}")
    return before.count("\n") + 1 if found else None
