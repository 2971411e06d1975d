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
from freshline.model.watch import Found, Look
from freshline.services.alert_evaluator import AlertEvaluator
from freshline.services.event_sequencer import EventSequencer
from freshline.storage import layout
from freshline.store.db.ids import new_id
from freshline.store.operations.audit import Actor, acting
from freshline.store.watches.watches import Looked
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
# What pictures show of the past: the rows of each version, and how many minutes its runs took.
PAST = ((1_180, 1.2), (1_204, 1.4), (1_204, 1.3), (1_251, 1.4), (1_022, 1.1))
IDENTICAL = (1, 2)
FAILED = 3

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
    {"assetId": "sales.raw", "partitioning": DAYS, "watch": {"files": "sales/{partitionKey}.csv", "every": "1m"}},
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
    """Makes the scene. Without hostile texts it is one for pictures, with a longer past."""

    def __init__(self, lab: Lab, *, hostile: bool) -> None:
        self.lab = lab
        self.hostile = hostile
        self.rows = 3
        self.fields = (("carrier", "string"), ("delay", "long"), (MARKUP[:50] if hostile else "note", "string"))

    def _odd(self, usual: str) -> str:
        """Return what an attacker would write; without hostile texts, what is usual."""
        return HOSTILE if self.hostile else usual

    @contextmanager
    def _by(self, name: str) -> Iterator[None]:
        """Audit what happens, in pictures: tests see what they do themselves."""
        if self.hostile:
            yield
            return
        with acting(Actor(f"token:{name}")):
            yield

    def build(self) -> Scene:
        """Let everything happen; return what addresses need."""
        lab = self.lab
        first = {**WORKFLOWS[0], "description": f"Drops canceled flights and those without {self._odd('a carrier')}"}
        lab.apply(first, *WORKFLOWS[1:], sources=SOURCES, pools={"heavy": 2}, alerts=(ALERT,))
        succeeded = self._flights()
        self._planes()
        self._landing()
        failed = self._orders()
        self._sales()
        backfill = self._demands()
        self._receivers()
        with self._by("operator"):
            queued = lab.store.operations.request_run("by-hand", {"note": self._odd("for the monthly report")})
        number(lab)
        event = lab.one("SELECT id FROM events WHERE subject = 'flights.raw' ORDER BY position DESC LIMIT 1")
        proposal = lab.one("SELECT id FROM backfills WHERE status = 'proposed'")
        return Scene(lab, succeeded, failed, str(queued), backfill, str(proposal), str(event))

    def _flights(self) -> str:
        """Have fresh assets of two days; the last run has a log."""
        run = ""
        self.lab.report("weather.raw", "w1")
        if not self.hostile:
            self._past()
        for day in ("2026-01-04", "2026-01-05"):
            self.lab.report("flights.raw", day, payload={"note": self._odd("a full day")})
            lines = [f"partition {at} of 40 read" for at in range(40)]
            lines += [f"WARN no {self._odd('carrier in 1 row')}", f"wrote {self.rows} rows"]
            run = self._execute("flights-clean", *lines)
            for slug in ("flights-delay", "flights-report"):
                self._execute(slug, "done")
            self.lab.advance(minutes=20)
        return run

    def _past(self) -> None:
        """Have versions with other numbers of rows, one that is identical, and a run that failed."""
        for at, (rows, minutes) in enumerate(PAST):
            self.rows = rows
            self.lab.report("flights.raw", f"2025-12-{27 + at}")
            if at == FAILED:
                self._execute("flights-clean", error="ConnectionError: the bucket did not answer", minutes=minutes)
                self.lab.live(minutes=10)
            content = "as before" if at in IDENTICAL else ""
            self._execute("flights-clean", "done", minutes=minutes, content=content)
            self.lab.settle()
            if at != IDENTICAL[1]:
                for slug in ("flights-delay", "flights-report"):
                    self._execute(slug, "done", minutes=minutes / 2)
            self.lab.advance(minutes=95)
        self.rows = 1_377

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
        with self._by("operator"):
            lab.store.operations.skip_delivery("landing.files", 2, f"truncated before {self._odd('its last line')}")
        self._execute("landing-load", "loaded 3 files")
        for claimed in lab.store.watches.claim(("http",), 10):
            lab.store.watches.fail(
                claimed, f"https://partner.example/prices.json answered 503 {self._odd('Service Unavailable')}"
            )

    def _orders(self) -> str:
        """Fail an asset from which two others are made."""
        self.lab.report("orders.raw", "o1")
        return self._execute("orders-clean", "reading orders", error=f"ValueError: no column {self._odd('order_id')}")

    def _sales(self) -> None:
        """Produce some days, the last two of which a watcher finds; one of them fails."""
        for key in KEYS[:14]:
            self.lab.report("sales.raw", "s1", partition_key=key)
        self._look(KEYS[14:16])
        for at in range(16):
            self._execute("sales-daily", error="no rows" if at == 1 else None, minutes=0.02)

    def _look(self, keys: tuple[str, ...]) -> None:
        """Let the watcher of the partitioned source find these days."""
        watches = self.lab.store.watches
        for claimed in watches.claim(("files",), 10):
            if claimed.asset_id != "sales.raw":
                watches.release([claimed])
                continue
            found = tuple(Found(key, "s1", {"path": f"sales/{key}.csv"}, partition_key=key) for key in keys)
            position = {"partitions": dict.fromkeys(keys, "s1"), "last": list(keys)}
            watches.record(Looked(claimed, Look(found, position, "saw 16 partitions; 2 have a new version"), 12))

    def _demands(self) -> str:
        """Have a proposal, and a backfill that has begun."""
        for key in KEYS[:6]:
            self.lab.report("web.raw", "w1", partition_key=key)
        self.lab.settle()
        policy = BackfillPolicy(only=Only.ALL)
        with self._by("operator"):
            made = self.lab.store.backfills.create(BackfillRequest("sales.daily", KEYS[0], KEYS[11], policy=policy))
        for _ in range(4):
            self._execute("sales-daily", minutes=0.02)
        return made

    def _receivers(self) -> None:
        """Have processes, tokens of each scope, a webhook, and an alert with an incident."""
        store = self.lab.store
        store.processes.register(new_id(), "materializer", project=None, code_hash=None, info={"epoch": 1})
        info = {"slots": 4, "engine": f"no session: {HOSTILE}" if self.hostile else "ok"}
        store.processes.register(self.lab.worker, "worker", project="lab", code_hash="code-1", info=info)
        for name, (scope, data) in TOKENS.items():
            digest = hashlib.sha256(secret(name).encode()).digest()
            store.tokens.create(name, scope, digest, lifetime_ms=24 * HOUR, data=data)
        store.webhooks.add(Webhook("catalogue", "https://hooks.example/freshline?token=x", b"s" * 32), after=0)
        if not self.hostile:
            url, types, assets = "https://warehouse.example/refresh", ("asset.*",), ("flights.*", "weather.*")
            with self._by("chief"):
                store.webhooks.add(Webhook("warehouse", url, b"s" * 32, types=types, assets=assets), after=0)
        AlertEvaluator(store).run_once()

    def _execute(self, slug: str, *lines: str, error: str | None = None, minutes: float = 1, content: str = "") -> str:
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
            metrics = {
                **SPARK,
                "rowsOut": self.rows,
                **({} if self.hostile else {"durationMs": round(minutes * 54_200)}),
            }
            runs.finish_step(run.id, run.attempt, "work", 1, outputs=[], metrics=metrics)
            runs.publish(run, list(self._outputs(run, content)))
        else:
            problem = {"code": "job", "message": error, "step": "work"}
            runs.finish_step(run.id, run.attempt, "work", 1, error=problem)
            runs.fail(run.id, run.attempt, {**problem, "traceback": f"Traceback\n  File jobs.py, line 3\n{error}"})
        lab.settle()
        return str(run.id)

    def _outputs(self, run: ClaimedRun, content: str) -> Iterator[StagedOutput]:
        """Yield the outputs of a run, with checks, and a table if it is of flights. `content`: what they depend on."""
        read = content or repr(sorted((name, pin.data_version) for name, pin in run.inputs.items()))
        enough: dict[str, Any] = {
            "check": "minRows: 4",
            "severity": "warn",
            "passed": self.rows >= 4,
            "observed": self.rows,
        }
        if self.rows < 4:
            enough["message"] = f"{self.rows} rows, fewer than 4, in {self._odd('flights.clean')}"
        checks = [{"check": "notNull: carrier", "severity": "error", "passed": True, "observed": 0}, enough]
        for asset_id, (step_id, _) in produced(Workflow.model_validate(run.definition)).items():
            version = f"fp1:{hashlib.sha256((asset_id + read).encode()).hexdigest()}"
            more = {"checks": checks, **(self._table(run) if asset_id == "flights.clean" else {})}
            size = 2_048 if self.hostile else 4_096 + 31 * self.rows
            yield StagedOutput(
                asset_id, step_id, version, partition_key=run.partition_key, rows=self.rows, bytes=size, **more
            )

    def _table(self, run: ClaimedRun) -> dict[str, Any]:
        """Write a table; return where it is."""
        name = layout.staging_directory("flights.clean", run.id, 1, 1)
        directory = self.lab.warehouse / name
        directory.mkdir(parents=True)
        values: tuple[list[Any], ...] = (["UA", "AA", None], [3, 14, -2], [self._odd("late"), "on time", ""])
        times = -(-self.rows // 3)
        frame = pl.DataFrame({column: value * times for (column, _), value in zip(self.fields, values, strict=True)})
        frame = frame.head(self.rows)
        frame.write_parquet(directory / "part-0.parquet")
        fields = [{"name": column, "type": kind, "nullable": True, "metadata": {}} for column, kind in self.fields]
        return {"location": layout.seal(self.lab.storage, name), "schema": {"type": "struct", "fields": fields}}
