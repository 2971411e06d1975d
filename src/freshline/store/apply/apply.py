"""The transaction `apply`, its difference, and its preview."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from freshline.definitions.loading.existing_data import sources_with_data
from freshline.definitions.loading.project import Project
from freshline.model.moment import iso
from freshline.settings import Settings
from freshline.store.apply import code_changes, partition_changes, write
from freshline.store.apply.diff import ApplyPlan, Stored, make_plan, proposed_graph
from freshline.store.apply.rename import Renamed, rename
from freshline.store.apply.stored import read_durations, read_stored
from freshline.store.apply.timers import DueTimer
from freshline.store.apply.wait_warnings import WaitWarnings
from freshline.store.db import locks
from freshline.store.db.database import Connection, Database
from freshline.store.db.queries import load
from freshline.store.operations import audit

if TYPE_CHECKING:
    from freshline.simulation.plan import Plan

DB = load("db")
SQL = load("apply")
# Comparing and writing thousands of definitions takes longer than the idle timeout of other transactions.
LONG_IDLE_TIMEOUT = "SET LOCAL idle_in_transaction_session_timeout = '60s'"


class Apply:
    """Compares a project with the stored definitions, previews what would run, and stores it."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def diff(self, project: Project) -> ApplyPlan:
        """Return what `commit` would change, with warnings about ancestors that run longer than `maxWaitMs`."""
        with_data = sources_with_data(project)
        with self._database.reading(unhurried=True) as connection:
            stored = read_stored(connection, project.name)
            plan = _plan(connection, project, stored, with_data)
            waits = WaitWarnings(project, proposed_graph(project, stored))
            plan.warnings.extend(waits.warnings(read_durations(connection, waits)))
        return plan

    def commit(self, project: Project, *, baseline: bool = False) -> ApplyPlan:
        """Store the project's definitions and retire missing ones, in one transaction (docs/semantics.md#R10.2)."""
        with_data = sources_with_data(project)  # looks at files, so before the transaction
        with (
            self._database.transaction("apply", whole=True) as connection,
            audit.changing(connection, "apply", project.name, "project_state", project.name) as noted,
        ):
            plan, _ = _apply(connection, project, with_data, baseline=baseline)
            noted |= {name: audit.some(getattr(plan, name)) for name in ("added", "changed", "retired")}
        self._database.notify("events", "considerations", "timers", "runs", "watches")
        return plan

    def rename(self, before: str, after: str) -> Renamed:
        """Rename a project (docs/semantics.md#R10.1)."""
        with (
            self._database.transaction("rename_project", whole=True) as connection,
            audit.changing(connection, "rename_project", before, "project_state", before) as noted,
        ):
            renamed = rename(connection, before, after)
            noted["renamedTo"] = after
        self._database.notify("considerations", "runs")
        return renamed

    def renamed_to(self, project: str) -> str | None:
        """Return the new name of a project that no longer exists, if an audited rename is the reason."""
        with self._database.reading() as connection:
            row = connection.execute(SQL["renamed_to"], {"project": project}).fetchone()
        return str(row["name"]) if row and row["name"] else None

    def preview(self, project: Project, *, baseline: bool = False) -> Plan:
        """Return what would run because of `commit`, and what would not and why.

        It runs `apply` and rolls it back, so the answer is exact. It holds the same locks for that time.
        """
        from freshline.store.apply import preview  # noqa: PLC0415 - only previews need the simulation

        with_data = sources_with_data(project)
        with self._database.rehearsing() as connection:
            plan, edited = _apply(connection, project, with_data, baseline=baseline)
            touched = {*plan.added, *plan.changed}
            moved = [*plan.assets_removed, *plan.reported]
            found = preview.around(connection, touched, moved)
            parts = preview.partitions(connection, touched)
            asked = code_changes.questions(connection, touched)
        planned = preview.triggered(found, self._settings, touched, moved)
        due = {one["asset_id"]: one["due_at"] for one in edited}
        planned = replace(planned, partitions=parts, questions=asked.sentences, undecided=asked.undecided)
        return replace(planned, expiries={one: at and iso(datetime.fromisoformat(at)) for one, at in due.items()})


def _plan(connection: Connection, project: Project, stored: Stored, with_data: AbstractSet[str]) -> ApplyPlan:
    """Compare. Raise an error about mappings to partitions of other projects that cannot be."""
    plan = make_plan(project, stored, with_data)
    partition_changes.refuse_edges(connection, project, stored)
    plan.partitions.update(partition_changes.changes(connection, project, stored))
    return plan


def _apply(
    connection: Connection, project: Project, with_data: AbstractSet[str], *, baseline: bool
) -> tuple[ApplyPlan, list[DueTimer]]:
    """Write the project. Return the plan, and the expiries whose freshness it changed."""
    connection.execute("SET LOCAL lock_timeout = '30s'")
    connection.execute(LONG_IDLE_TIMEOUT)
    connection.execute(DB["lock"], {"key": locks.APPLY})
    stored = read_stored(connection, project.name)
    plan = _plan(connection, project, stored, with_data)
    return plan, write.write(connection, project, plan, stored, baseline=baseline)
