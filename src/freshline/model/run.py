"""What a worker needs to execute a run, and what a step gives back: plain data that crosses the process boundary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PinnedInput:
    """The snapshot of one asset that a run reads, and where its data is.

    `location`: {"format": "parquet", "paths": [...]}; table paths are relative to the warehouse, source paths are not.
    """

    asset_id: str
    sequence: int
    data_version: str
    location: Mapping[str, Any] | None
    payload: Any = None
    table_version: int | None = None
    schema: Any = None


@dataclass(frozen=True, slots=True)
class StagedOutput:
    """One produced asset of a finished step, written and checked, not yet published.

    `data_version` None: every publication counts as changed (R9.6 `none`).
    `location`: {"format": "parquet", "paths": ["<asset>/data/<run>-<attempt>-<try>"], "files": {name: size}} or None.
    """

    asset_id: str
    step_id: str
    data_version: str | None
    location: Mapping[str, Any] | None = None
    schema: Any = None
    rows: int | None = None
    bytes: int | None = None
    checks: Any = None
    payload: Any = None
    partition_key: str = ""
    freshness: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run that this worker holds. `attempt` is the fencing token of every write.

    `sessions`: on a Connect server, of tries that never told their end; they may still compute (R12.1).
    """

    id: str
    workflow_id: int
    slug: str
    partition_key: str
    version: int
    attempt: int
    definition: Mapping[str, Any]
    parameters: Mapping[str, Any]
    trigger: Mapping[str, Any]
    inputs: Mapping[str, PinnedInput]
    finished_steps: Mapping[str, tuple[StagedOutput, ...]]
    job_fingerprint: str
    code_hash: str | None
    lease_ms: int
    sessions: tuple[str, ...] = ()
