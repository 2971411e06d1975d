"""Stored rows for tests of the read side, written with plain SQL, at chosen times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from freshline.store.db.ids import new_id

_began = [datetime.now(UTC)]


def ago(seconds: float) -> datetime:
    """Return a time before the start of the test's data; negative seconds give a time after it."""
    return _began[0] - timedelta(seconds=seconds)


def auto(reason: str = "upstream-update", **fields: Any) -> dict[str, Any]:
    """Return the trigger of an automatic run."""
    return {"type": "auto-materialize", "reason": reason, "upstream": [], "eventIds": [], **fields}


class Rows:
    """Inserts rows that satisfy the schema's constraints, with defaults for most columns."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        _began[0] = datetime.now(UTC)
        self._connection = connection
        self.ids: dict[str, int] = {}
        self.insert("projects", name="shop", code_hash="c0", applied_at=ago(3600))

    def insert(self, table: str, **values: Any) -> Any:
        """Insert one row, with JSON values wrapped, and return its first column."""
        statement = sql.SQL("INSERT INTO {} ({}) VALUES ({}) RETURNING *").format(
            sql.Identifier(table),
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join(sql.Placeholder() * len(values)),
        )
        row = self._connection.execute(statement, [_adapted(value) for value in values.values()]).fetchone()
        assert row is not None
        return row[0]

    def update(self, statement: str, *parameters: Any) -> None:
        """Execute any other change."""
        self._connection.execute(statement.encode(), [_adapted(one) for one in parameters])

    def source(self, *assets: str) -> None:
        """Insert source assets."""
        for asset in assets:
            self.insert("assets", id=asset)

    def workflow(
        self,
        slug: str,
        produces: Sequence[str],
        consumes: Mapping[str, bool] | Sequence[str] = (),
        *,
        automatic: bool = True,
        **columns: Any,
    ) -> int:
        """Insert a workflow with its outputs and inputs; a mapping says which inputs trigger."""
        times = {"applied_at": ago(3600)}
        made: int = self.insert(
            "workflows",
            slug=slug,
            version=1,
            automatic=automatic,
            policy={},
            **{"project": "shop", "job_fingerprint": "j1", "created_at": ago(3600), **times, **columns},
        )
        self.ids[slug] = made
        self.insert(
            "workflow_versions",
            workflow_id=made,
            version=1,
            fingerprint="f1",
            job_fingerprint="j1",
            **{"needs_spark": False, "definition": {}, **times},
        )
        for asset in produces:
            self.insert("assets", id=asset, producer_id=made, step_id="one")
        edges = consumes if isinstance(consumes, Mapping) else dict.fromkeys(consumes, True)
        for asset, triggers in edges.items():
            self.insert("edges", asset_id=asset, workflow_id=made, triggers=triggers, declaration={})
        return made

    def run(self, slug: str, status: str = "succeeded", *, queued: float = 60, **columns: Any) -> str:
        """Insert a run in a state, with the columns that the state requires."""
        trigger = columns.pop("trigger", auto())
        run_id: str = columns.pop("id", new_id())
        began = {} if status == "queued" else {"attempt": 1, "worker_id": new_id(), "started_at": ago(queued - 1)}
        ended = {} if status in {"queued", "running"} else {"finished_at": ago(queued - 3)}
        lease = {"lease_until": ago(-3600)} if status == "running" else {}
        error = {"error": {"code": "job", "message": "it broke"}} if status == "failed" else {}
        self.insert(
            "runs",
            id=run_id,
            workflow_id=self.ids[slug],
            partition_key="",
            version=1,
            project="shop",
            needs_spark=False,
            status=status,
            trigger=trigger,
            trigger_type=trigger["type"],
            cause="c",
            priority=5,
            urgency=0,
            queued_at=ago(queued),
            **{"pins": {}, **began, **ended, **lease, **error, **columns},
        )
        return run_id

    def snapshot(self, asset: str, data_version: str, sequence: int = 1, *, at: float = 30, **columns: Any) -> None:
        """Insert a snapshot as the asset's head."""
        if columns.get("run_id"):
            columns.setdefault("attempt", 1)
        if "workflow_id" not in columns:
            producer = self._connection.execute("SELECT producer_id FROM assets WHERE id = %s", [asset]).fetchone()
            columns["workflow_id"] = producer[0] if producer else None
        self.insert(
            "snapshots",
            asset_id=asset,
            partition_key="",
            sequence=sequence,
            data_version=data_version,
            **{"changed": True, "produced_at": ago(at), "event_id": new_id(), **columns},
        )
        self.update("DELETE FROM heads WHERE asset_id = %s", asset)
        self.insert(
            "heads",
            asset_id=asset,
            partition_key="",
            sequence=sequence,
            last_sequence=sequence,
            data_version=data_version,
            produced_at=ago(at),
        )

    def partition(self, slug: str, consumed: Mapping[str, str] | None = None, **columns: Any) -> None:
        """Insert the versions that the last success of a workflow read, and its failure state."""
        read = {asset: {"sequence": 1, "dataVersion": version} for asset, version in (consumed or {}).items()}
        success = (
            {} if consumed is None else {"consumed_versions": read, "job_fingerprint": "j1", "succeeded_at": ago(30)}
        )
        values = {"workflow_id": self.ids[slug], "partition_key": "", **success, **columns}
        self.insert("workflow_partitions", **values)

    def decision(self, slug: str, outcome: str, reason: str, *, at: float = 20, **columns: Any) -> str:
        """Insert a decision; `at` is in seconds before now."""
        made: str = columns.pop("id", new_id())
        self.insert(
            "decisions",
            id=made,
            workflow_id=self.ids[slug],
            partition_key="",
            version=1,
            outcome=outcome,
            **{"reason": reason, "digest": "d", "evidence": {}, "at": ago(at), "last_at": ago(at), **columns},
        )
        return made

    def consideration(self, slug: str, *, due: float = 0, **columns: Any) -> None:
        """Insert a consideration of a workflow, `due` seconds from now."""
        values = {"workflow_id": self.ids[slug], "partition_key": "", "not_before": ago(-due), "class": "event"}
        waiting = {"priority": 100, "blocker_key": ""} if "blocker_id" in columns else {}
        self.insert("considerations", **{**values, "noted_at": ago(0), **waiting, **columns})

    def event(self, type_: str, subject: str, *, at: float = 10, **columns: Any) -> str:
        """Insert an event."""
        made: str = columns.pop("id", new_id())
        self.insert("events", **{"id": made, "time": ago(at), "type": type_, "subject": subject, "data": {}, **columns})
        return made

    def worker(self, kind: str = "worker", *, seen: float = 1, **columns: Any) -> str:
        """Insert a process that sent its last heartbeat `seen` seconds ago."""
        made = new_id()
        now = datetime.now(UTC)  # heartbeats are compared with the current time, not with the start of the test
        times = {"started_at": now - timedelta(hours=2), "seen_at": now - timedelta(seconds=seen)}
        values = {"id": made, "kind": kind, "host": "here", "pid": 7, **times}
        self.insert("workers", **{**values, **columns})
        return made


def _adapted(value: Any) -> Any:
    return Jsonb(value) if isinstance(value, dict | list) else value
