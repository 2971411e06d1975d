"""Content fingerprints of the project's code, of a definition, and of its jobs (docs/semantics.md#R1.2)."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from freshline.definitions.schema.workflow import SparkSql, Step, Workflow, workflow_json
from freshline.definitions.steps import view_name
from freshline.errors import DefinitionError, Place
from freshline.model.json import Json

MAX_CODE_FILES = 20_000
MAX_CODE_BYTES = 64 * 1024 * 1024
_NOT_CODE = frozenset({"tests", "__pycache__", "node_modules", "site-packages"})
_SQL = re.compile(
    r"""(?P<kept>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|/\*\+.*?\*/)|(?P<space>(?:\s|--[^\n]*|/\*.*?\*/)+)""",
    re.DOTALL,
)
_RAW_STRING = re.compile(r"""\b[rR]['"]""")


def code_hash(root: Path) -> str:
    """Return a hash of all Python files of a project, by relative path and content.

    Virtual environments, hidden directories, tests and caches are ignored. Too much code is a `DefinitionError`.
    """
    digest, size = hashlib.sha256(), 0
    for count, path in enumerate(sorted(code_files(root)), start=1):
        content = (root / path).read_bytes()
        size += len(content)
        if count > MAX_CODE_FILES or size > MAX_CODE_BYTES:
            raise DefinitionError(
                f"the project has more than {MAX_CODE_FILES} Python files or {MAX_CODE_BYTES >> 20} MB of them; "
                "keep other code out of the project's directory, or in a hidden one",
                place=Place(str(root)),
            )
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def code_signature(root: Path) -> frozenset[tuple[str, int, int]]:
    """Return names, times and sizes of all files. They differ if the code changed, and cost less than the hash."""
    stats = ((path, (root / path).stat()) for path in code_files(root))
    return frozenset((path, stat.st_mtime_ns, stat.st_size) for path, stat in stats)


class CodeVersion:
    """The code hash of a project, computed again only when names, times or sizes of its files have changed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._signature: object = None
        self._hash = ""

    def current(self) -> str:
        """Return the hash of the code as it is now."""
        signature = code_signature(self._root)
        if signature != self._signature:
            self._hash = code_hash(self._root)
            self._signature = signature
        return self._hash


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


def code_files(root: Path) -> Iterator[str]:
    """Yield the Python files of a project, relative to its root."""
    for directory, below, files in os.walk(root):
        below[:] = [name for name in below if _is_code_directory(Path(directory, name))]
        for name in files:
            if name.endswith(".py") and not name.startswith("."):
                yield Path(directory, name).relative_to(root).as_posix()


def _is_code_directory(path: Path) -> bool:
    return path.name not in _NOT_CODE and not path.name.startswith(".") and not (path / "pyvenv.cfg").exists()


def _digest(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
