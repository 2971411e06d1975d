"""A lab: the real store and services on PostgreSQL, with a controlled clock and runs that tests execute.

Its steps are whole transactions. A run's output is a function of the versions that it read, so that mixes show.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from freshline.definitions.fingerprint import definition_fingerprint, job_fingerprint
from freshline.definitions.loading.project import LoadedSource, LoadedWorkflow, Project
from freshline.definitions.policy import compile_policy
from freshline.definitions.schema.workflow import Source, Workflow
from freshline.definitions.steps import produced
from freshline.errors import Place
from freshline.model.alerts import AlertRule
from freshline.model.run import ClaimedRun, StagedOutput
from freshline.services.reconciler import Reconciler
from freshline.settings import Settings
from freshline.storage.base import Storage, storage_at
from freshline.store.apply.diff import ApplyPlan
from freshline.store.db.ids import new_id
from freshline.store.operations.report import Reported
from freshline.store.runs.claim import Claimant
from freshline.store.store import Store
from tests.databases import KeptDatabase

MONDAY = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
ON_UPDATE: dict[str, Any] = {"onUpstreamUpdate": True}
CODE = "code-1"
NEXT = "SELECT least((SELECT min(not_before) FROM considerations), (SELECT min(due_at) FROM timers))"


def workflow(
    slug: str,
    consumes: str | list[Any] = "",
    *,
    auto: Mapping[str, Any] | None = ON_UPDATE,
    freshness: Mapping[str, Any] | None = None,
    entrypoint: str = "jobs:work",
    outputs: list[str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return a workflow `slug` that produces the asset `slug`: `workflow("d", "b c")` consumes b and c."""
    inputs = consumes.split() if isinstance(consumes, str) else consumes
    declared = [
        {
            "assetId": asset_id,
            **({"autoMaterialize": dict(auto)} if auto is not None else {}),
            **({"freshness": dict(freshness)} if freshness is not None else {}),
        }
        for asset_id in outputs or [slug]
    ]
    step = {
        "id": "work",
        "job": {"kind": "python", "entrypoint": entrypoint},
        "consumes": [{"assetId": one} if isinstance(one, str) else one for one in inputs],
        "produces": declared,
    }
    return {"slug": slug, "steps": [step], **more}


def project(
    *workflows: dict[str, Any],
    name: str = "lab",
    sources: tuple[str | Mapping[str, Any], ...] = (),
    code: str = CODE,
    pools: Mapping[str, int] | None = None,
    root: Path = Path("/nowhere"),
    alerts: tuple[AlertRule, ...] = (),
) -> Project:
    """Return a project of definitions that are in no file. A source is its asset id, or all of its fields."""
    loaded = []
    for data in workflows:
        definition = Workflow.model_validate(data)
        loaded.append(
            LoadedWorkflow(
                definition=definition,
                place=Place(f"workflows/{definition.slug}.yaml", 1),
                policy=compile_policy(definition),
                fingerprint=definition_fingerprint(definition),
                job_fingerprint=job_fingerprint(definition, lambda _: code),
                code_hash=code,
            )
        )
    fields = [{"assetId": one} if isinstance(one, str) else one for one in sources]
    declared = tuple(LoadedSource(Source.model_validate(one), Place("sources/all.yaml", 1)) for one in fields)
    return Project(root, name, code, tuple(loaded), declared, (), pools or {}, alerts=alerts)


class Lab:
    """One installation, with a clock that only moves when a test moves it."""

    def __init__(self, url: str, *, now: datetime = MONDAY, **settings: Any) -> None:
        self.now = now
        self.database = KeptDatabase(url, clock=lambda: self.now)
        self.database.open()
        self.settings = Settings(project=Path("/nowhere"), **settings)
        self.store = Store(self.database, self.settings)
        self.reconciler = Reconciler(self.store)
        self.worker = new_id()
        self.applied: dict[str, dict[str, Any]] = {}

    @property
    def warehouse(self) -> Path:
        """Return the directory of the tables."""
        return Path(self.settings.warehouse_at)

    @property
    def storage(self) -> Storage:
        """Return the storage of the tables."""
        return storage_at(self.settings.warehouse_at)

    def close(self) -> None:
        self.database.close()

    def apply(self, *workflows: dict[str, Any], baseline: bool = False, **more: Any) -> ApplyPlan:
        self.applied |= {one["slug"]: one for one in workflows}
        return self.store.apply.commit(project(*workflows, **more), baseline=baseline)

    def report(self, asset_id: str, version: str | None = None, **more: Any) -> Reported:
        return self.store.operations.report(asset_id, version=version, **more)

    def advance(self, **delta: float) -> None:
        self.now += timedelta(**delta)

    def live(self, **delta: float) -> None:
        """Let time pass while the services run: each evaluation happens when it is due."""
        target = self.now + timedelta(**delta)
        while (moment := self.one(NEXT)) is not None and moment <= target:
            self.now = max(self.now, moment)
            self.settle()
        self.now = target
        self.settle()

    def settle(self) -> None:
        """Process timers, events and considerations until nothing is due."""
        for _ in range(10_000):
            fired = self.store.evaluation.fire_timers(100)
            absorbed = self.store.evaluation.consume_inbox(100)
            turned = self.store.backfills.propose()
            turned = self.store.backfills.advance() or turned
            if not self.reconciler.run_once() and not fired and not absorbed and not turned:
                return
        raise AssertionError("it does not settle")

    def claim(self, *, code: str = CODE, name: str = "lab", spark: bool = True) -> ClaimedRun | None:
        return self.store.runs.claim(Claimant(self.worker, name, code, spark=spark))

    def claimant(self, worker: str) -> Claimant:
        return Claimant(worker, "lab", CODE, spark=True)

    def later(self, **delta: float) -> datetime:
        return self.now + timedelta(**delta)

    def start(self) -> ClaimedRun:
        """Claim the next run, which must exist."""
        run = self.claim()
        assert run is not None, "no run is queued"
        return run

    def start_of(self, slug: str) -> ClaimedRun:
        """Claim the queued run of `slug`, which must exist, before all others."""
        self.rows(
            "UPDATE runs SET urgency = 0 WHERE status = 'queued' AND workflow_id = (SELECT id FROM workflows"
            " WHERE slug = %s) RETURNING id",
            slug,
        )
        run = self.start()
        assert run.slug == slug, f"no run of {slug} is queued"
        return run

    def finish(
        self,
        run: ClaimedRun,
        *,
        without: Collection[str] = (),
        columns: Any = None,
        reads: Any = None,
        **versions: str,
    ) -> None:
        """Finish the run; an output's version is a function of the inputs, unless given.

        `columns`: by output, the versions of sets of columns. `reads`: by input, the columns that the run has read.
        """
        outputs = [one for key in run.batch or ("",) for one in self._outputs(run, key, without, versions)]
        given: Mapping[str, Mapping[str, str]] = columns or {}
        read: Mapping[str, Sequence[str]] = reads or {}
        outputs = [replace(one, column_versions=given.get(one.asset_id, {}), reads=read) for one in outputs]
        self.store.runs.publish(run, outputs)

    @staticmethod
    def _outputs(
        run: ClaimedRun, key: str, without: Collection[str], versions: Mapping[str, str]
    ) -> Iterator[StagedOutput]:
        """Yield the outputs of a run, or those of one partition of a batch, which reads equal keys."""
        read = {
            name: pin.data_version
            for name, pin in sorted(run.inputs.items())
            if pin.asset_id != run.slug and (not key or pin.partition_key in {"", key})
        }
        digest = hashlib.sha256(repr((run.slug, read)).encode()).hexdigest()[:8]
        for asset_id, (step_id, _) in produced(Workflow.model_validate(run.definition)).items():
            if asset_id not in without:
                version = versions.get(asset_id.replace(".", "_"), f"{asset_id}:{digest}")
                yield StagedOutput(asset_id, step_id, version, partition_key=key)

    def fail(self, run: ClaimedRun, message: str = "boom") -> None:
        self.store.runs.fail(run.id, run.attempt, {"code": "job", "message": message})

    def work(self, **versions: str) -> list[str]:
        """Settle and execute until nothing is left to do; return the slugs that ran, in order."""
        ran: list[str] = []
        for _ in range(10_000):
            self.settle()
            run = self.claim()
            if run is None:
                return ran
            ran.append(run.slug)
            self.finish(run, **versions)
        raise AssertionError("it never stops running")

    def work_with(self, outputs: Callable[[ClaimedRun], list[StagedOutput]]) -> None:
        """Do the same as `work`, with the outputs that `outputs` returns."""
        for _ in range(10_000):
            self.settle()
            run = self.claim()
            if run is None:
                return
            self.store.runs.publish(run, outputs(run))
        raise AssertionError("it never stops running")

    def rows(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        with self.database.connection() as connection:
            return connection.execute(query, parameters).fetchall()

    def one(self, query: str, *parameters: Any) -> Any:
        """Return the first column of the first row."""
        rows = self.rows(query, *parameters)
        return next(iter(rows[0].values())) if rows else None

    def runs(self, slug: str | None = None) -> list[dict[str, Any]]:
        """Return the runs, oldest first."""
        found = self.rows("SELECT r.*, w.slug FROM runs r JOIN workflows w ON w.id = r.workflow_id ORDER BY r.id")
        return [run for run in found if slug in {None, run["slug"]}]

    def active(self, slug: str | None = None) -> list[str]:
        """Return the slugs of queued and running runs, sorted."""
        return sorted(run["slug"] for run in self.runs(slug) if run["status"] in {"queued", "running"})

    def reads(self, slug: str) -> list[dict[str, str]]:
        """Return the data versions to which each run of the workflow was pinned, oldest first."""
        return [{one: pin["dataVersion"] for one, pin in run["pins"].items()} for run in self.runs(slug)]

    def state(self, slug: str) -> dict[str, Any]:
        """Return the stored state of the workflow: its consumed versions, failures, cooldown, breaker."""
        return self.rows(
            "SELECT p.* FROM workflow_partitions p JOIN workflows w ON w.id = p.workflow_id WHERE w.slug = %s", slug
        )[0]

    def decision(self, slug: str) -> dict[str, Any]:
        """Return the last decision."""
        return self.rows(
            "SELECT d.* FROM decisions d JOIN workflows w ON w.id = d.workflow_id WHERE w.slug = %s"
            " ORDER BY d.last_at DESC, d.id DESC LIMIT 1",
            slug,
        )[0]

    def reason(self, slug: str) -> str:
        return str(self.decision(slug)["reason"])

    def head(self, asset_id: str) -> dict[str, Any]:
        return self.rows("SELECT * FROM heads WHERE asset_id = %s", asset_id)[0]

    def events(self, type_: str) -> list[dict[str, Any]]:
        return self.rows("SELECT * FROM events WHERE type = %s ORDER BY time, id", type_)

    def everything(self) -> dict[str, list[str]]:
        """Return all rows of all tables, to show that nothing was changed."""
        tables = self.rows(
            "SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace"
            " AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1"
        )
        return {
            table["name"]: [row["r"] for row in self.rows(f"SELECT t::text AS r FROM {table['name']} t ORDER BY 1")]
            for table in tables
        }

    def forgotten(self) -> int:
        """Count stale workflows that nothing will evaluate; there must be none (docs/semantics.md#R4.1)."""
        return self.store.evaluation.sweep()


@contextmanager
def laboratory(url: str, **options: Any) -> Iterator[Lab]:
    """Yield a lab, and close it at the end."""
    lab = Lab(url, **options)
    try:
        yield lab
    finally:
        lab.close()


def many_deliveries(lab: Lab, asset_id: str, count: int) -> None:
    """Add many deliveries to an append source that has none, with keys, as so many reports would have."""
    lab.report(asset_id, "v1")
    lab.rows(
        """
        INSERT INTO deliveries (asset_id, partition_key, first_number, last_number, items, keys)
        SELECT d.asset_id, '', n, n, jsonb_build_array((d.items -> 0)
               || jsonb_build_object('number', n, 'version', 'v' || n, 'key', 'k' || n, 'sequence', n)), ARRAY['k' || n]
          FROM deliveries d, generate_series(2, %s) n WHERE d.asset_id = %s RETURNING 1
        """,
        count,
        asset_id,
    )
    version = f"delivery:{count}"
    lab.rows(
        "UPDATE snapshots SET delivery = %s, data_version = %s WHERE asset_id = %s RETURNING 1",
        count,
        version,
        asset_id,
    )
    lab.rows("UPDATE heads SET data_version = %s WHERE asset_id = %s RETURNING 1", version, asset_id)
