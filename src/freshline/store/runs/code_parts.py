"""Which code made the rows of a snapshot, carried from version to version (docs/semantics.md#R9.9). Pure.

An entry names a workflow and the first of its versions with that job, so that another policy does not count
as other code. The store compares the fingerprints of these versions, so a former job that comes back is current again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from freshline.model.documents.asset import CodePart
from freshline.model.run import StagedOutput

MOST_CODES = 100
JOINED = 0
"""The version of rows of so many different jobs that they are not told apart any more. It is never the current one."""


class Code(NamedTuple):
    """The job of a run: its workflow, and the first version with it."""

    workflow: int
    version: int


class Before(NamedTuple):
    """The head that an output extends: its rows and who made them."""

    rows: int | None
    parts: Sequence[CodePart] | None


def made(by: Code, output: StagedOutput, before: Before, *, changed: bool, keep: bool) -> list[CodePart]:
    """Return who made the rows of an output. `keep`: rows of other jobs are accepted as they are."""
    own: CodePart = {"workflow": by.workflow, "workflowVersion": by.version, "rows": output.rows, "parts": 1}
    if not (output.appended or output.merged):
        return [own]
    parts = list(before.parts or ())
    if changed:
        parts = _extended(own, output, before.rows, parts)
    return [_accepted(one, by) if keep and not _is_of(one, by) else one for one in _joined(parts)]


def _extended(own: CodePart, output: StagedOutput, rows_before: int | None, parts: list[CodePart]) -> list[CodePart]:
    """Return the entries after an increment. Nobody counts whose rows a merge replaces: its entries are limits."""
    by = Code(own["workflow"], own["workflowVersion"])
    known = next((one for one in parts if _is_of(one, by)), None)
    others = [one for one in parts if one is not known]
    if output.appended:
        added = _difference(output.rows, rows_before)
        own["rows"] = added if known is None else _sum(known["rows"], added)
    else:
        others = [_limited(one, output.rows) for one in others]
    own["parts"] += known["parts"] if known else 0
    return [*others, own]


def _limited(one: CodePart, rows: int | None) -> CodePart:
    known = [number for number in (one["rows"], rows) if number is not None]
    return {**one, "rows": min(known, default=None)}


def _joined(parts: list[CodePart]) -> list[CodePart]:
    """Return at most `MOST_CODES` entries: the oldest become one."""
    excess = len(parts) - MOST_CODES + 1
    if excess < 2:  # noqa: PLR2004 - one entry alone is not shortened
        return parts
    oldest, rest = parts[:excess], parts[excess:]
    rows = None if any(one["rows"] is None for one in oldest) else sum(one["rows"] or 0 for one in oldest)
    return [
        {
            "workflow": oldest[-1]["workflow"],
            "workflowVersion": JOINED,
            "rows": rows,
            "parts": sum(one["parts"] for one in oldest),
        },
        *rest,
    ]


def _is_of(one: CodePart, by: Code) -> bool:
    return (one["workflow"], one["workflowVersion"]) == by


def _accepted(one: CodePart, by: Code) -> CodePart:
    return {**one, "forWorkflow": by.workflow, "forVersion": by.version}


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _difference(now: int | None, before: int | None) -> int | None:
    return None if now is None else max(now - (before or 0), 0)
