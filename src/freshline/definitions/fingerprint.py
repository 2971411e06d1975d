"""Content fingerprints of a definition and of its jobs (docs/semantics.md#R1.2)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from freshline.definitions.import_closure import METHOD
from freshline.definitions.schema.workflow import Consumes, Produces, SparkSql, Step, Workflow, workflow_json
from freshline.definitions.steps import partitioning_of, view_name
from freshline.model.json import Json
from freshline.partitions import All, Around, Overlap, Same, TimePartitioning
from freshline.partitions.declaration import Rule
from freshline.partitions.mapping import axes_of

_SQL = re.compile(
    r"""(?P<kept>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|/\*\+.*?\*/)|(?P<space>(?:\s|--[^\n]*|/\*.*?\*/)+)""",
    re.DOTALL,
)
_RAW_STRING = re.compile(r"""\b[rR]['"]""")


def definition_fingerprint(workflow: Workflow) -> str:
    """Return a hash of the whole definition."""
    return _digest(workflow_json(workflow))


def job_fingerprint(workflow: Workflow, code_of: Callable[[str], str]) -> str:
    """Return a hash of what a run computes. Policy and freshness do not change it.

    It covers kinds, SQL, entry points, parameters, consumed assets with their views and partitions, the kind of the
    partitions that are written, and for Python jobs the code. `code_of` returns the fingerprint of what an entry point
    executes. If there is code, the text names the method, so that another method can be told from another job.
    """
    partitioned = bool(axes_of(partitioning_of(workflow)))
    jobs = [_job(step, partitioned=partitioned) | _code(step, code_of) for step in workflow.steps]
    steps = sorted(json.dumps(job, sort_keys=True) for job in jobs)
    found = _digest({"steps": steps, "parameters": workflow.parameters, "code": None})
    return f"{METHOD}:{found}" if needs_code(workflow) else found


def former_fingerprint(workflow: Workflow, code_hash: str) -> str:
    """Return the fingerprint of the same job by the method of 0.1, where every Python file of the project counted."""
    partitioned = bool(axes_of(partitioning_of(workflow)))
    steps = sorted(json.dumps(_job(step, partitioned=partitioned), sort_keys=True) for step in workflow.steps)
    code = code_hash if needs_code(workflow) else None
    return _digest({"steps": steps, "parameters": workflow.parameters, "code": code})


def needs_code(workflow: Workflow) -> bool:
    """Return whether a job calls the project's Python code."""
    return any(not isinstance(step.job, SparkSql) for step in workflow.steps)


def needs_spark(workflow: Workflow) -> bool:
    """Return whether a job needs a Spark session."""
    return any(step.job.kind != "python" for step in workflow.steps)


def normal_sql(sql: str) -> str:
    """Remove comments and collapse whitespace, except inside quotes and hints."""
    if _RAW_STRING.search(sql):  # a backslash does not escape in a raw string, so the pattern cannot find its end
        return sql.strip()
    return _SQL.sub(lambda match: match["kept"] or " ", sql).strip()


def _job(step: Step, *, partitioned: bool) -> Json:
    job = step.job
    if isinstance(job, SparkSql):
        queries = {asset: normal_sql(query.text) for asset, query in job.queries(step).items()}
        work: Any = queries if job.outputs else normal_sql(job.sql or "")
    else:
        work = job.entrypoint
    consumed = sorted(
        (item.asset_id, view_name(item), item.rows, *_mapping(item, partitioned=partitioned)) for item in step.consumes
    )
    partitions = sorted(_partitions(output) for output in step.produces if output.partitioning)
    return {
        "kind": job.kind,
        "work": work,
        "parameters": job.parameters,
        "consumes": consumed,
        # Left out of other steps: they keep the fingerprints that they had before there were partitions.
        **({"partitions": partitions} if partitions else {}),
    }


def _code(step: Step, code_of: Callable[[str], str]) -> Json:
    return {} if isinstance(step.job, SparkSql) else {"code": code_of(step.job.entrypoint)}


def _partitions(output: Produces) -> tuple[str, str, list[str]]:
    """Return what a job writes into: the kind of partitions, their time zones and columns.

    `start`, `end`, `open`, the keys of a list and `limit` decide which partitions exist, not what is in them.
    """
    block = output.partitioning
    axes = axes_of(block.compiled()) if block else ()
    kinds = [one.calendar.name if isinstance(one, TimePartitioning) else "keys" for one in axes]
    return output.asset_id, ", ".join(kinds), [column.name for column in block.columns()] if block else []


def _mapping(item: Consumes, *, partitioned: bool) -> Iterator[str]:
    """Yield the mapping of an input if it is not the default one.

    `same`, `overlap` and a window from 0 to 0 are the default mapping wherever they are possible.
    """
    if item.partitions is None:
        return
    declared = item.partitions.declared()
    named = [(name, _rule(rule)) for name, rule in declared.dimensions]
    rule = None if isinstance(declared.rule, All) and not partitioned else _rule(declared.rule)
    reads = {
        **({"rule": rule} if rule else {}),
        **({"dimensions": found} if (found := {name: one for name, one in named if one}) else {}),
        **({"timeColumn": declared.time_column} if declared.time_column else {}),
    }
    if reads:
        yield json.dumps(reads, sort_keys=True)


def _rule(rule: Rule | None) -> Json | None:
    if rule is None or isinstance(rule, Same | Overlap):
        return None
    if isinstance(rule, Around):
        return {"window": [rule.first, rule.last]} if (rule.first, rule.last) != (0, 0) else None
    return rule.as_json()


def _digest(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
