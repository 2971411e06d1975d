"""Content fingerprints of a definition and of its jobs (docs/semantics.md#R1.2)."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from freshline.definitions.schema.workflow import SparkSql, Step, Workflow, workflow_json
from freshline.definitions.steps import view_name
from freshline.model.json import Json

_SQL = re.compile(
    r"""(?P<kept>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|/\*\+.*?\*/)|(?P<space>(?:\s|--[^\n]*|/\*.*?\*/)+)""",
    re.DOTALL,
)
_RAW_STRING = re.compile(r"""\b[rR]['"]""")


def definition_fingerprint(workflow: Workflow) -> str:
    """Return a hash of the whole definition."""
    return _digest(workflow_json(workflow))


def job_fingerprint(workflow: Workflow, code_hash: str) -> str:
    """Return a hash of what a run computes. Policy and freshness do not change it.

    It covers kinds, SQL, entry points, parameters, consumed assets with their views, and the code if there is a Python
    job.
    """
    steps = sorted(json.dumps(_job(step), sort_keys=True) for step in workflow.steps)
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


def _job(step: Step) -> Json:
    job = step.job
    if isinstance(job, SparkSql):
        queries = {asset: normal_sql(query.text) for asset, query in job.queries(step).items()}
        work: Any = queries if job.outputs else normal_sql(job.sql or "")
    else:
        work = job.entrypoint
    consumed = sorted((item.asset_id, view_name(item), item.rows) for item in step.consumes)
    return {"kind": job.kind, "work": work, "parameters": job.parameters, "consumes": consumed}


def _digest(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
