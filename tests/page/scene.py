"""A small installation with everything that the page shows: each state, a log, rows, partitions, watchers, receivers.

Time is virtual, so each view shows the same at every test. Texts that come from users are hostile where they may be.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from freshline.definitions.schema.workflow import Workflow
from freshline.definitions.steps import produced
from freshline.model.alerts import AlertKind, AlertPolicy, AlertRule, AlertTarget
from freshline.model.backfill import BackfillPolicy, BackfillRequest, Only
from freshline.model.run import ClaimedRun, StagedOutput
from freshline.services.alert_evaluator import AlertEvaluator
from freshline.services.event_sequencer import EventSequencer
from freshline.storage import layout
from freshline.store.db.ids import new_id
from freshline.store.operations.audit import Actor, acting
from freshline.store.webhooks.subscriptions import Webhook
from tests.api.conftest import HOUR
from tests.scenarios.test_partitions import divided
from tests.store_harness import Lab, laboratory, workflow

MARKUP = "<img src=x onerror='window.__hacked=1'><script>window.__hacked=2</script>"
HOSTILE = f"{MARKUP} \x1b[31mred\x1b[0m \x07bell \u202eevil \u2066x"
DAYS = {"time": "day", "start": "2025-12-01"}
KEYS = tuple(f"2025-12-{day:02}" for day in range(1, 32))
PARTITIONED = {"onUpstreamUpdate": True, "partitions": {"limit": 1_000}}
FEW = {"onUpstreamUpdate": True, "partitions": {"limit": 2}}
ALERT = AlertRule("oncall", AlertPolicy((AlertKind.FAILING, AlertKind.BREAKER)), (AlertTarget(env="ONCALL_URL"),))
TOKENS = {
    "reader": ("read", False),
    "analyst": ("read", True),
    "operator": ("operate", False),
    "chief": ("admin", False),
}
SPARK = {"durationMs": 11_400, "rowsIn": 336_776, "rowsOut": 3, "tasks": 48, "stages": 6}

WORKFLOWS = (
    workflow("flights-clean", "flights.raw", outputs=["flights.clean"], freshness={"maxAgeMs": 6 * HOUR}),
    workflow("flights-delay", "flights.clean weather.raw", outputs=["flights.delay", "flights.late"]),
    workflow("flights-report", "flights.delay", outputs=["flights.report"]),
    workflow("orders-clean", "orders.raw", outputs=["orders.clean"], freshness={"maxAgeMs": HOUR}),
    workflow("orders-daily", "orders.clean", outputs=["orders.daily"]),
    workflow("orders-report", "orders.daily", outputs=["orders.report"]),
    workflow("planes", "planes.raw", outputs=["planes.known"]),
    workflow("stock-level", "stock.raw", outputs=["stock.level"]),
    workflow("landing-load", [{"assetId": "landing.files", "rows": "new"}], outputs=["landing.loaded"]),
    workflow("by-hand", "flights.delay", outputs=["flights.export"], auto=None),
    divided("sales-daily", {"sales.raw": None}, DAYS, outputs=["sales.daily"], auto=PARTITIONED),
    divided("web-daily", {"web.raw": None}, DAYS, outputs=["web.daily"], auto=FEW),
)
SOURCES = (
    "flights.raw",
    "weather.raw",
    "orders.raw",
    "planes.raw",
    "stock.raw",
    {"assetId": "landing.files", "mode": "append", "watch": {"files": "inbox/*.csv", "every": "30s"}},
    {"assetId": "partner.prices", "watch": {"http": "https://partner.example/prices.json", "every": "1m"}},
    {"assetId": "sales.raw", "partitioning": DAYS},
    {"assetId": "web.raw", "partitioning": DAYS},
)


@dataclass(frozen=True, slots=True)
class Scene:
    """The installation, and the ids that addresses of the page need."""

    lab: Lab
    succeeded: str
    failed: str
    queued: str
    backfill: str
    proposal: str
    event: str

    def address(self, template: str) -> str:
        """Return the address of a view with ids of this scene: `runs/{failed}`."""
        return re.sub(r"{(\w+)}", lambda found: str(getattr(self, found[1])), template)


@contextmanager
def installed(url: str, home: Path, *, hostile: bool = True) -> Iterator[Scene]:
    """Yield an installation in a database; its tables are below `home`."""
    with laboratory(url, warehouse=str(home / "warehouse"), poll_ms=50) as lab:
        layout.check_warehouse(lab.storage, lab.store.warehouse_id)
        yield _Builder(lab, hostile=hostile).build()


def secret(name: str) -> str:
    """Return the token with a name."""
    return f"freshline_{name}"


def number(lab: Lab) -> None:
    """Give every event its position, as the materializer does: then the streams have it."""
    sequencer = EventSequencer(lab.store)
    while sequencer.run_once():
        pass


class _Builder:
    """Makes the scene. `odd`: what an attacker would write; without hostile texts, a word."""

    def __init__(self, lab: Lab, *, hostile: bool) -> None:
        self.lab = lab
        self.hostile = hostile
        self.odd = HOSTILE if hostile else "order_id"
        self.fields = (("carrier", "string"), ("delay", "long"), (MARKUP[:50] if hostile else "note", "string"))

    def build(self) -> Scene:
        """Let everything happen; return what addresses need."""
        lab = self.lab
        first = {**WORKFLOWS[0], "description": f"Drops canceled flights and those without {self.odd}"}
        lab.apply(first, *WORKFLOWS[1:], sources=SOURCES, pools={"heavy": 2}, alerts=(ALERT,))
        succeeded = self._flights()
        self._planes()
        self._landing()
        failed = self._orders()
        self._sales()
        backfill = self._demands()
        self._receivers()
        queued = lab.store.operations.request_run("by-hand", {"note": self.odd})
        number(lab)
        event = lab.one("SELECT id FROM events WHERE subject = 'flights.raw' ORDER BY position DESC LIMIT 1")
        proposal = lab.one("SELECT id FROM backfills WHERE status = 'proposed'")
        return Scene(lab, succeeded, failed, str(queued), backfill, str(proposal), str(event))

    def _flights(self) -> str:
        """Have fresh assets of two days; the last run has a log."""
        run = ""
        self.lab.report("weather.raw", "w1")
        for day in ("2026-01-04", "2026-01-05"):
            self.lab.report("flights.raw", day, payload={"note": self.odd})
            lines = (*(f"partition {at} of 40 read" for at in range(40)), f"WARN no {self.odd}", "wrote 3 rows")
            run = self._execute("flights-clean", *lines)
            for slug in ("flights-delay", "flights-report"):
                self._execute(slug, "done")
            self.lab.advance(minutes=20)
        return run

    def _planes(self) -> None:
        """Pause a workflow until a time, while it has something to do."""
        self.lab.report("planes.raw", "p1")
        self._execute("planes")
        with acting(Actor("token:chief")):
            self.lab.store.operations.pause("planes", self.lab.later(hours=8))
        self.lab.report("planes.raw", "p2")
        self.lab.settle()

    def _landing(self) -> None:
        """Deliver files, skip one of them, and let a watcher fail."""
        lab = self.lab
        for at in range(1, 5):
            path = f"inbox/2026-01-{at:02}.csv"
            lab.report("landing.files", f"v{at}", key=path, payload={"path": path})
        lab.store.operations.skip_delivery("landing.files", 2, f"truncated before {self.odd}")
        self._execute("landing-load", "loaded 3 files")
        for claimed in lab.store.watches.claim(("http",), 10):
            lab.store.watches.fail(claimed, f"https://partner.example/prices.json answered 503 {self.odd}")

    def _orders(self) -> str:
        """Fail an asset from which two others are made."""
        self.lab.report("orders.raw", "o1")
        return self._execute("orders-clean", "reading orders", error=f"ValueError: no column {self.odd}")

    def _sales(self) -> None:
        """Produce some days; one of them fails."""
        for key in KEYS[:16]:
            self.lab.report("sales.raw", "s1", partition_key=key)
        for at in range(16):
            self._execute("sales-daily", error="no rows" if at == 1 else None, minutes=0.02)

    def _demands(self) -> str:
        """Have a proposal, and a backfill that has begun."""
        for key in KEYS[:6]:
            self.lab.report("web.raw", "w1", partition_key=key)
        self.lab.settle()
        policy = BackfillPolicy(only=Only.ALL)
        made = self.lab.store.backfills.create(BackfillRequest("sales.daily", KEYS[0], KEYS[11], policy=policy))
        for _ in range(4):
            self._execute("sales-daily", minutes=0.02)
        return made

    def _receivers(self) -> None:
        """Have processes, tokens of each scope, a webhook, and an alert with an incident."""
        store = self.lab.store
        store.processes.register(new_id(), "materializer", project=None, code_hash=None, info={"epoch": 1})
        info = {"slots": 4, "engine": f"no session: {self.odd}" if self.hostile else "ok"}
        store.processes.register(self.lab.worker, "worker", project="lab", code_hash="code-1", info=info)
        for name, (scope, data) in TOKENS.items():
            digest = hashlib.sha256(secret(name).encode()).digest()
            store.tokens.create(name, scope, digest, lifetime_ms=24 * HOUR, data=data)
        store.webhooks.add(Webhook("catalogue", "https://hooks.example/freshline?token=x", b"s" * 32), after=0)
        AlertEvaluator(store).run_once()

    def _execute(self, slug: str, *lines: str, error: str | None = None, minutes: float = 1) -> str:
        """Execute the run of a workflow that is due, with one step that prints lines; return its id."""
        lab, runs = self.lab, self.lab.store.runs
        lab.settle()
        run = lab.start_of(slug)
        runs.begin_step(run.id, run.attempt, "work", 1)
        logged = [{"step_id": "work", "stream": "stderr" if "WARN" in one else "stdout", "text": one} for one in lines]
        if logged:
            runs.append_logs(run.id, run.attempt, logged, after=0)
        lab.advance(minutes=minutes)
        if error is None:
            runs.finish_step(run.id, run.attempt, "work", 1, outputs=[], metrics=SPARK)
            runs.publish(run, list(self._outputs(run)))
        else:
            problem = {"code": "job", "message": error, "step": "work"}
            runs.finish_step(run.id, run.attempt, "work", 1, error=problem)
            runs.fail(run.id, run.attempt, {**problem, "traceback": f"Traceback\n  File jobs.py, line 3\n{error}"})
        lab.settle()
        return str(run.id)

    def _outputs(self, run: ClaimedRun) -> Iterator[StagedOutput]:
        """Yield the outputs of a run, with checks, and a table if it is of flights."""
        read = repr(sorted((name, pin.data_version) for name, pin in run.inputs.items()))
        short = f"3 rows, fewer than 4, in {self.odd}"
        checks: list[dict[str, Any]] = [
            {"check": "notNull: carrier", "severity": "error", "passed": True, "observed": 0},
            {"check": "minRows: 4", "severity": "warn", "passed": False, "observed": 3, "message": short},
        ]
        for asset_id, (step_id, _) in produced(Workflow.model_validate(run.definition)).items():
            version = f"fp1:{hashlib.sha256((asset_id + read).encode()).hexdigest()}"
            more = {"checks": checks, **(self._table(run) if asset_id == "flights.clean" else {})}
            yield StagedOutput(asset_id, step_id, version, partition_key=run.partition_key, rows=3, bytes=2_048, **more)

    def _table(self, run: ClaimedRun) -> dict[str, Any]:
        """Write a table; return where it is."""
        name = layout.staging_directory("flights.clean", run.id, 1, 1)
        directory = self.lab.warehouse / name
        directory.mkdir(parents=True)
        values = (["UA", "AA", None], [3, 14, -2], [self.odd, "on time", ""])
        frame = pl.DataFrame({column: value for (column, _), value in zip(self.fields, values, strict=True)})
        frame.write_parquet(directory / "part-0.parquet")
        fields = [{"name": column, "type": kind, "nullable": True, "metadata": {}} for column, kind in self.fields]
        return {"location": layout.seal(self.lab.storage, name), "schema": {"type": "struct", "fields": fields}}
