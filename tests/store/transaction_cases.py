"""Every transaction of the store: how to prepare it, how to do it, and how to check that it happened exactly once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import freshline
from freshline import failpoints
from freshline.alerts.message import Frame
from freshline.alerts.records import MessageKind
from freshline.definitions.alerts import read_rule
from freshline.errors import ConflictError, NotFoundError
from freshline.model.alerts import AlertTarget
from freshline.model.backfill import BackfillRequest
from freshline.model.reports import SourceReport
from freshline.model.run import ClaimedRun, StagedOutput
from freshline.model.watch import Found, Look, SeenFile
from freshline.store.alerts.messages import Letter as AlertLetter
from freshline.store.alerts.messages import Result as AlertResult
from freshline.store.db.ids import new_id
from freshline.store.watches.watches import ClaimedWatch, Looked
from freshline.store.webhooks.delivery import Batch, Letter, Outcome
from freshline.store.webhooks.subscriptions import Webhook
from tests.store_harness import Lab, workflow

HOUR = 3_600_000
WORKFLOWS = (workflow("b", "a", freshness={"ttlMs": HOUR}), workflow("c", "b"))
NAMES = sorted(
    {
        name
        for file in Path(freshline.__file__).parent.rglob("*.py")
        for name in re.findall(r"\.transaction\(\s*f?\"(\w+)\"", file.read_text(encoding="utf-8"))
    }
)


@dataclass(slots=True)
class Scene:
    """A lab in a prepared state."""

    lab: Lab
    run: ClaimedRun | None = None
    ids: list[str] = field(default_factory=lambda: [new_id()])

    @property
    def held(self) -> ClaimedRun:
        """Return the run that a worker holds."""
        assert self.run is not None
        return self.run

    def count(self, query: str) -> int:
        """Return the number of rows."""
        return int(self.lab.one(f"SELECT count(*) FROM {query}"))


@dataclass(frozen=True, slots=True)
class Case:
    """A transaction: its initial state, the call, and the check that it happened exactly once."""

    act: Callable[[Scene], Any]
    done: Callable[[Scene], bool]
    prepare: Callable[[Scene], Any] = lambda _: None


def idle(scene: Scene) -> None:
    """Make everything fresh."""
    scene.lab.report("a", "1")
    scene.lab.work()


def unused(scene: Scene) -> None:
    """Produce an asset that nobody uses any more."""
    scene.lab.apply(*WORKFLOWS, workflow("old", "a"))
    idle(scene)
    scene.lab.apply(*WORKFLOWS)


def delivered(scene: Scene) -> None:
    """Add a delivery to a source."""
    scene.lab.apply(*WORKFLOWS, sources=({"assetId": "files", "mode": "append"},))
    scene.lab.report("files", "1")


def old_deliveries(scene: Scene) -> None:
    """Add deliveries that are old enough to be joined."""
    delivered(scene)
    scene.lab.report("files", "2")
    scene.lab.advance(days=31)


def joining(scene: Scene) -> None:
    """Make everything fresh, and declare another source."""
    scene.lab.apply(*WORKFLOWS, sources=("other",))
    idle(scene)


def reported(scene: Scene) -> None:
    """Put an update into the inbox."""
    idle(scene)
    scene.lab.report("a", "2")


def noted(scene: Scene) -> None:
    """Make a consideration due."""
    reported(scene)
    scene.lab.store.evaluation.consume_inbox(10)


def queued(scene: Scene) -> None:
    """Queue a run."""
    noted(scene)
    scene.lab.settle()


def running(scene: Scene) -> None:
    """Claim a run and begin its step."""
    queued(scene)
    scene.run = scene.lab.start()
    scene.lab.store.runs.begin_step(scene.run.id, 1, "work", 1)
    scene.lab.advance(seconds=5)


def canceling(scene: Scene) -> None:
    """Request the cancellation of the running run."""
    running(scene)
    scene.lab.store.operations.cancel(scene.held.id)


def lost(scene: Scene) -> None:
    """Let the lease of the run expire."""
    running(scene)
    scene.lab.advance(seconds=60)


def backfilled(scene: Scene) -> None:
    """Request a backfill."""
    idle(scene)
    scene.lab.advance(seconds=5)
    scene.ids[:] = [scene.lab.store.backfills.create(BackfillRequest("b"))]


def backfill_queued(scene: Scene) -> None:
    """Let it queue a run."""
    backfilled(scene)
    scene.lab.settle()


def backfill_paused(scene: Scene) -> None:
    """Pause it."""
    backfill_queued(scene)
    scene.lab.store.backfills.pause(scene.ids[0])


def backfill_failed(scene: Scene) -> None:
    """Let its partition have failed too often."""
    backfill_paused(scene)
    scene.lab.rows("UPDATE backfill_partitions SET state = 'failed' RETURNING 1")


def flooded(scene: Scene) -> None:
    """Let more old partitions be stale than may run by themselves. Nothing is proposed yet."""
    days = {"time": "day", "start": "2025-12-30"}
    auto = {"onUpstreamUpdate": True, "partitions": {"limit": 2}}
    daily = workflow("daily", "days", auto=auto)
    daily["steps"][0]["produces"][0]["partitioning"] = days
    scene.lab.advance(seconds=5)  # what happens at the time of a backfill seems to follow from it
    scene.lab.apply(daily, name="days", sources=({"assetId": "days", "partitioning": days},))
    for key in ("2025-12-30", "2025-12-31", "2026-01-01"):
        scene.lab.report("days", "v1", partition_key=key)
    while scene.lab.store.evaluation.consume_inbox(100) or scene.lab.reconciler.run_once():
        pass


def proposed(scene: Scene) -> None:
    """Propose them."""
    flooded(scene)
    assert scene.lab.store.backfills.propose()
    scene.ids[:] = [str(scene.lab.one("SELECT id FROM backfills"))]


def answer_proposal(scene: Scene, name: str) -> None:
    """Approve or deny the proposal; a repetition finds that it was answered."""
    with suppress(ConflictError):
        getattr(scene.lab.store.backfills, name)(scene.ids[0], revision=1)


def rename_project(scene: Scene) -> None:
    """Rename the project; a repetition finds that the old name is gone."""
    with suppress(NotFoundError):
        scene.lab.store.apply.rename("lab", "other")


def failed(scene: Scene) -> None:
    """Fail a run, so that the workflow cools down."""
    running(scene)
    scene.lab.fail(scene.held)
    scene.lab.settle()


def paused(scene: Scene) -> None:
    """Pause the workflow and report an update."""
    idle(scene)
    scene.lab.store.operations.pause("b")
    scene.lab.report("a", "2")
    scene.lab.settle()


def expired(scene: Scene) -> None:
    """Make a timer due."""
    idle(scene)
    scene.lab.advance(hours=2)


def outlived(scene: Scene) -> None:
    """Build a partition that is then kept for an hour only."""
    days = {"time": "day", "start": "2026-01-04"}
    old, source = workflow("old", "raw"), {"assetId": "raw", "partitioning": days}
    output = old["steps"][0]["produces"][0]
    output["partitioning"] = days
    scene.lab.apply(*WORKFLOWS, old, sources=(source,))
    scene.lab.report("raw", "1", partition_key="2026-01-04")
    idle(scene)
    output["retain"] = "1h"
    scene.lab.apply(*WORKFLOWS, old, sources=(source,))


def forgotten(scene: Scene) -> None:
    """Delete a consideration."""
    noted(scene)
    scene.lab.rows("DELETE FROM considerations RETURNING 1")


def timerless(scene: Scene) -> None:
    """Delete the timers."""
    idle(scene)
    scene.lab.rows("DELETE FROM timers RETURNING 1")


def positioned(scene: Scene) -> None:
    """Stamp the positions of events that are not published."""
    idle(scene)
    scene.lab.store.events.stamp_positions(1000)


def recoded(scene: Scene) -> None:
    """Change the job of a table that is appended to."""
    for job in ("jobs:work", "jobs:other"):
        log = workflow("log", "a", entrypoint=job)
        log["steps"][0]["produces"][0]["table"] = {"mode": "append"}
        scene.lab.apply(*WORKFLOWS, log)
        if job == "jobs:work":
            idle(scene)


def accept_code(scene: Scene) -> None:
    """Accept the rows; a repetition is told that nothing needs an answer."""
    with suppress(ConflictError):
        scene.lab.store.operations.accept("log")


def aged(scene: Scene) -> None:
    """Supersede the first versions, and let two months pass."""
    idle(scene)
    reported(scene)
    scene.lab.work()
    scene.lab.advance(days=60)


def registered(scene: Scene) -> None:
    """Prepare a registered process."""
    register(scene)


def tables(run: ClaimedRun) -> list[StagedOutput]:
    """Return the outputs that a run would have written to a warehouse."""
    path = f"{run.slug}/data/{run.id}-1-1"
    location = {"format": "parquet", "paths": [path], "files": {f"{path}/part-0.parquet": 1}}
    return [StagedOutput(run.slug, "work", f"{run.slug}:{run.id}", location=location)]


def tabled(scene: Scene) -> None:
    """Make two versions of two tables."""
    for version in ("1", "2"):
        scene.lab.report("a", version)
        scene.lab.work_with(tables)


def unlogged(scene: Scene) -> None:
    """Remove one version from its log."""
    tabled(scene)
    scene.lab.rows("DELETE FROM table_commits WHERE asset_id = 'c' OR table_version = 0 RETURNING 1")


def superfluous(scene: Scene) -> None:
    """Make the first version of b unneeded."""
    tabled(scene)
    keep = '{"table": {"keepVersions": 1, "keepMs": 0}}'
    scene.lab.rows("UPDATE assets SET declaration = declaration || %s WHERE id = 'b' RETURNING 1", keep)


def marked(scene: Scene) -> None:
    """Mark the first version of b, an hour ago."""
    superfluous(scene)
    scene.lab.store.tables.mark_versions("", 10)
    scene.lab.advance(hours=1)


def register(scene: Scene) -> None:
    """Register a process, which also renews its heartbeat."""
    scene.lab.store.processes.register(scene.ids[0], "worker", project="lab", code_hash=None, info={})


def make_token(scene: Scene) -> None:
    """Create a token."""
    digest = hashlib.sha256(scene.ids[0].encode()).digest()
    scene.lab.store.tokens.create("ci", "read", digest, lifetime_ms=HOUR)


def tokened(scene: Scene) -> None:
    """Prepare a token."""
    make_token(scene)


def add_hook(scene: Scene) -> None:
    """Add a webhook."""
    hook = Webhook("hook", "https://hooks.example/", b"x" * 32, id=scene.ids[0])
    scene.lab.store.webhooks.add(hook, key="k", after=0)


def hooked(scene: Scene) -> None:
    """Prepare a webhook with events to deliver."""
    positioned(scene)
    add_hook(scene)


def hushed(scene: Scene) -> None:
    """Pause the webhook."""
    hooked(scene)
    scene.lab.store.webhooks.pause("hook")


def claim_hook(scene: Scene) -> Batch | None:
    """Claim a batch of deliveries."""
    return scene.lab.store.deliveries.claim(lease_ms=60_000)


def claimed(scene: Scene) -> None:
    """Create a webhook and claim its deliveries."""
    hooked(scene)
    claim_hook(scene)


FIRST = "SELECT id::text, time, position FROM events ORDER BY position LIMIT 1"


def record(scene: Scene, *, final: bool = False) -> None:
    """Record the result of the first claim: the first event was rejected, the others were not tried."""
    (event,) = scene.lab.rows(FIRST)
    (hook,) = scene.lab.rows("SELECT id::text, url FROM webhooks")
    letter = Letter(event["position"], event["id"], event["time"], event)
    batch = Batch(hook["id"], "hook", "cloudevents", hook["url"], b"", claim=1, letters=(letter, letter))
    scene.lab.store.deliveries.record(batch, [Outcome(letter, "planted", final=final)])


def died(scene: Scene) -> None:
    """Prepare a dead letter."""
    claimed(scene)
    record(scene, final=True)


def forget_asset(scene: Scene) -> None:
    """Forget a retired asset. Who repeats it finds it done."""
    with suppress(NotFoundError):
        scene.lab.store.operations.forget("old")


def remove_hook(scene: Scene) -> None:
    """Remove the webhook; a repetition finds it removed."""
    with suppress(NotFoundError):
        scene.lab.store.webhooks.remove("hook")


WATCHED = {"assetId": "files", "mode": "append", "watch": {"files": "drop/*.csv"}}
FILES = tuple(SeenFile(f"drop/{name}.csv", 1, "1", "delivered") for name in ("a", "b"))
FOUND = tuple(Found(file.path, None, {"path": file.path}) for file in FILES)


def watched(scene: Scene) -> None:
    """Prepare a source with a watch that is due."""
    scene.lab.apply(*WORKFLOWS, sources=(WATCHED,))


def claim_watch(scene: Scene) -> list[ClaimedWatch]:
    """Claim the due watches."""
    return scene.lab.store.watches.claim(("files",), 10)


def looking(scene: Scene) -> None:
    """Claim the watch."""
    watched(scene)
    claim_watch(scene)


def held_watch(scene: Scene) -> ClaimedWatch:
    """Return the watch under its first claim, however often it was claimed since."""
    (row,) = scene.lab.rows(
        "SELECT w.asset_id, kind, mode, spec, timeout_ms, position, revision, failures, false AS half_open, "
        "freshline_now() AS now, declaration FROM watches w JOIN assets a ON a.id = w.asset_id"
    )
    return ClaimedWatch(**row, claim=WATCH_CLAIM)


WATCH_CLAIM = 1


def record_look(scene: Scene) -> None:
    """Record that the first look found two files."""
    look = Look(FOUND, {"started": True}, "2 files match, 2 are new.", seen=FILES)
    scene.lab.store.watches.record(Looked(held_watch(scene), look, 1))


def note_looks(scene: Scene) -> None:
    """Record that the first look found nothing."""
    watch = held_watch(scene)
    scene.lab.store.watches.note([Looked(watch, Look((), watch.position or {}, "0 files match."), 1)])


def add_alert(scene: Scene) -> None:
    """Add an alert."""
    scene.lab.store.alerts.add(
        read_rule("alarm", {"on": "failing", "to": ["json://h/", {"env": "ALERT_URL"}]}), key="k"
    )


def alerted(scene: Scene) -> None:
    """Prepare an alert, and a failure that it reports."""
    failed(scene)
    add_alert(scene)


def silenced(scene: Scene) -> None:
    """Pause the alert."""
    alerted(scene)
    scene.lab.store.alerts.pause("alarm")


def told(scene: Scene) -> None:
    """Queue the messages of the alert, one per address."""
    alerted(scene)
    scene.lab.store.alert_evaluation.run()


def claim_alerts(scene: Scene) -> list[AlertLetter]:
    """Claim the messages."""
    return scene.lab.store.alert_messages.claim(lease_ms=60_000)


def claimed_alerts(scene: Scene) -> None:
    """Queue the messages and claim them."""
    told(scene)
    claim_alerts(scene)


def record_alerts(scene: Scene) -> None:
    """Record the results of the first claim: one was sent, one failed."""
    frame, now = Frame("alarm"), scene.lab.now
    rows = scene.lab.rows("SELECT number, target FROM alert_messages ORDER BY number")
    letters = [AlertLetter(row["number"], 1, MessageKind.ALERT, frame, AlertTarget("x"), now, ()) for row in rows]
    results = [AlertResult(letters[0], "title"), AlertResult(letters[1], "title", "planted")]
    scene.lab.store.alert_messages.record(results)


def remove_alert(scene: Scene) -> None:
    """Remove the alert; a repetition finds it removed."""
    with suppress(NotFoundError):
        scene.lab.store.alerts.remove("alarm")


def key_of(lab: Lab, slug: str) -> tuple[int, str]:
    """Return the key of the workflow's consideration."""
    return lab.one("SELECT id FROM workflows WHERE slug = %s", slug), ""


def edit_policy(scene: Scene) -> None:
    """Edit a policy."""
    scene.lab.apply(
        workflow("b", "a", freshness={"ttlMs": HOUR}, auto={"onUpstreamUpdate": True, "priority": 1}), WORKFLOWS[1]
    )


LINES = [{"step_id": "work", "stream": "log", "text": "hello"}]
ERROR = {"code": "job", "message": "boom"}
CASES = {
    "create_backfill": Case(
        lambda s: s.lab.store.backfills.create(BackfillRequest("b"), key=s.ids[0]),
        lambda s: s.count("backfills") == s.count("backfill_workflows") == 1,
        idle,
    ),
    "advance_backfill": Case(
        lambda s: s.lab.store.backfills.advance(),
        lambda s: s.count("backfill_partitions WHERE state = 'open'") == 1 and s.count("considerations") == 1,
        backfilled,
    ),
    "propose_backfills": Case(
        lambda s: s.lab.store.backfills.propose(),
        lambda s: (
            s.count("backfills WHERE status = 'proposed' AND revision = 1") == 1
            and s.count("proposed_partitions") == 3
            and s.count("events WHERE type = 'backfill.proposed'") == 1
        ),
        flooded,
    ),
    "approve_backfill": Case(
        lambda s: answer_proposal(s, "approve"),
        lambda s: (
            s.count("backfills WHERE status = 'active'") == 1
            and s.count("considerations WHERE counted IS NOT NULL") == 0
            and s.count("events WHERE type = 'backfill.started'") == 1
        ),
        proposed,
    ),
    "deny_backfill": Case(
        lambda s: answer_proposal(s, "deny"),
        lambda s: (
            s.count("backfills WHERE status = 'denied'") == 1
            and s.count("workflow_partitions WHERE declined IS NOT NULL AND mixed") == 3
            and s.count("proposed_partitions") == 0
        ),
        proposed,
    ),
    "pause_backfill": Case(
        lambda s: s.lab.store.backfills.pause(s.ids[0]),
        lambda s: s.count("backfills WHERE status = 'paused'") == 1 and s.count("runs WHERE status = 'queued'") == 0,
        backfill_queued,
    ),
    "resume_backfill": Case(
        lambda s: s.lab.store.backfills.resume(s.ids[0]),
        lambda s: s.count("backfills WHERE status = 'active'") == 1,
        backfill_paused,
    ),
    "retry_backfill": Case(
        lambda s: s.lab.store.backfills.retry(s.ids[0]),
        lambda s: s.count("backfill_partitions WHERE state = 'open'") == 1,
        backfill_failed,
    ),
    "cancel_backfill": Case(
        lambda s: s.lab.store.backfills.cancel(s.ids[0]),
        lambda s: s.count("backfills WHERE status = 'canceled'") == 1 and s.count("runs WHERE status = 'queued'") == 0,
        backfill_queued,
    ),
    "add_webhook": Case(add_hook, lambda s: s.count("webhooks") == 1, positioned),
    "remove_webhook": Case(
        remove_hook,
        lambda s: s.count("webhooks") == 0 and s.count("webhook_deliveries") == 0,
        died,
    ),
    "pause_webhook": Case(
        lambda s: s.lab.store.webhooks.pause("hook"),
        lambda s: s.count("webhooks WHERE paused_at IS NOT NULL") == 1,
        hooked,
    ),
    "resume_webhook": Case(
        lambda s: s.lab.store.webhooks.resume("hook"),
        lambda s: s.count("webhooks WHERE paused_at IS NULL") == 1,
        hushed,
    ),
    "redeliver_webhook": Case(
        lambda s: s.lab.store.webhooks.redeliver("hook"),
        lambda s: s.count("webhook_deliveries WHERE dead_at IS NULL AND attempts = 0") == 1,
        died,
    ),
    "claim_webhook": Case(
        claim_hook,
        lambda s: s.count("webhooks WHERE claim = 1 AND lease_until IS NOT NULL AND position = 0") == 1,
        hooked,
    ),
    "record_deliveries": Case(
        record,
        lambda s: (
            s.count("webhooks w JOIN webhook_deliveries d ON d.webhook_id = w.id AND d.position = w.position") == 1
        ),
        claimed,
    ),
    "claim_watches": Case(
        claim_watch, lambda s: s.count("watches WHERE claim = 1 AND lease_until IS NOT NULL") == 1, watched
    ),
    "record_look": Case(
        record_look,
        lambda s: (
            s.count("deliveries") == s.count("snapshots WHERE asset_id = 'files'") == s.count("watched_files") == 2
            and s.count("events WHERE type = 'asset.produced' AND subject = 'files'") == 2
            and s.count("watches WHERE lease_until IS NULL AND position IS NOT NULL AND reported = 2") == 1
        ),
        looking,
    ),
    "note_looks": Case(
        note_looks, lambda s: s.count("watches WHERE lease_until IS NULL AND looked_at IS NOT NULL") == 1, looking
    ),
    "fail_look": Case(
        lambda s: s.lab.store.watches.fail(held_watch(s), "planted"),
        lambda s: s.count("watches WHERE failures = 1 AND lease_until IS NULL AND error = 'planted'") == 1,
        looking,
    ),
    "release_watches": Case(
        lambda s: s.lab.store.watches.release([held_watch(s)]),
        lambda s: s.count("watches WHERE lease_until IS NULL AND claim = 2 AND next_at <= freshline_now()") == 1,
        looking,
    ),
    "add_alert": Case(add_alert, lambda s: s.count("alert_rules") == 1),
    "remove_alert": Case(
        remove_alert,
        lambda s: s.count("alert_rules") == s.count("alert_incidents") == s.count("alert_messages") == 0,
        told,
    ),
    "pause_alert": Case(
        lambda s: s.lab.store.alerts.pause("alarm"),
        lambda s: s.count("alert_rules WHERE paused_at IS NOT NULL") == 1,
        alerted,
    ),
    "resume_alert": Case(
        lambda s: s.lab.store.alerts.resume("alarm"),
        lambda s: s.count("alert_rules WHERE paused_at IS NULL") == 1,
        silenced,
    ),
    "evaluate_alerts": Case(
        lambda s: s.lab.store.alert_evaluation.run(),
        lambda s: s.count("alert_incidents WHERE closed_at IS NULL") == 1 and s.count("alert_messages") == 2,
        alerted,
    ),
    "claim_alerts": Case(
        claim_alerts, lambda s: s.count("alert_messages WHERE claim = 1 AND lease_until IS NOT NULL") == 2, told
    ),
    "record_alerts": Case(
        record_alerts,
        lambda s: (
            s.count("alert_messages WHERE sent_at IS NOT NULL AND attempts = 1") == 1
            and s.count("alert_messages WHERE trouble = 'planted'") == 1
        ),
        claimed_alerts,
    ),
    "absorb": Case(
        lambda s: s.lab.store.evaluation.consume_inbox(10),
        lambda s: s.count("inbox") == 0 and s.count("considerations") == 1,
        reported,
    ),
    "append_logs": Case(
        lambda s: s.lab.store.runs.append_logs(s.held.id, s.held.attempt, LINES, after=0),
        lambda s: s.count("run_logs") == 1,
        running,
    ),
    "apply": Case(edit_policy, lambda s: s.lab.one("SELECT version FROM workflows WHERE slug = 'b'") == 2, queued),
    "rename_project": Case(
        rename_project,
        lambda s: (
            s.count("runs WHERE project = 'other' AND status = 'queued'") == 1
            and s.count("projects") == s.count("projects WHERE name = 'other'") == 1
            and s.count("workflows WHERE project = 'other'") == 2
        ),
        queued,
    ),
    "begin_step": Case(
        lambda s: s.lab.store.runs.begin_step(s.held.id, s.held.attempt, "more", 1),
        lambda s: s.count("run_steps") == 2,
        running,
    ),
    "cancel": Case(
        lambda s: s.lab.store.operations.cancel(str(s.lab.runs("b")[-1]["id"])),
        lambda s: s.lab.runs("b")[-1]["status"] == "canceled" and len(s.lab.events("workflow.run.canceled")) == 1,
        queued,
    ),
    "cancel_running": Case(
        lambda s: s.lab.store.runs.cancel(s.held.id, s.held.attempt),
        lambda s: s.lab.runs("b")[-1]["status"] == "canceled" and len(s.lab.events("workflow.run.canceled")) == 1,
        canceling,
    ),
    "claim_run": Case(
        lambda s: s.lab.claim(),
        lambda s: s.lab.runs("b")[-1]["attempt"] == 1 and s.lab.runs("b")[-1]["status"] == "running",
        queued,
    ),
    "create_token": Case(make_token, lambda s: s.count("api_tokens") == 1),
    "accept_code": Case(
        accept_code,
        lambda s: (
            len(s.lab.events("asset.code.accepted")) == 1
            and s.count("snapshots WHERE code @> '[{\"forVersion\": 2}]'") == 1
        ),
        recoded,
    ),
    "expire": Case(
        lambda s: s.lab.store.operations.expire("b"), lambda s: s.count("timers WHERE reason = 'manual'") == 1, idle
    ),
    "fail_run": Case(
        lambda s: s.lab.store.runs.fail(s.held.id, s.held.attempt, ERROR),
        lambda s: s.lab.state("b")["failures"] == 1 and len(s.lab.events("workflow.run.failed")) == 1,
        running,
    ),
    "finish_step": Case(
        lambda s: s.lab.store.runs.finish_step(s.held.id, s.held.attempt, "work", 1, outputs=[]),
        lambda s: s.count("run_steps WHERE status = 'succeeded'") == 1,
        running,
    ),
    "fire_timers": Case(
        lambda s: s.lab.store.evaluation.fire_timers(10),
        lambda s: len(s.lab.events("asset.expired")) == 1 and s.count("timers WHERE expired_at IS NOT NULL") == 1,
        expired,
    ),
    "retire_partitions": Case(
        lambda s: s.lab.store.retirement.retire_partitions(),
        lambda s: (
            len(s.lab.events("asset.partition.retired")) == 1
            and s.count("heads WHERE retired_at IS NOT NULL") == s.count("snapshots WHERE retired") == 1
            and s.count("asset_digests WHERE asset_id = 'old' AND (change, keys, retired_keys) = (2, 0, 1)") == 1
        ),
        outlived,
    ),
    "give_up": Case(
        lambda s: s.lab.store.runs.give_up(s.held.id, s.held.attempt),
        lambda s: s.lab.runs("b")[-1]["status"] == "queued" and s.lab.runs("b")[-1]["crashed"] == [],
        running,
    ),
    "hand_back": Case(
        lambda s: s.lab.store.runs.hand_back(s.held.id, s.held.attempt),
        lambda s: s.lab.runs("b")[-1]["status"] == "queued",
        running,
    ),
    "log_table": Case(
        lambda s: s.lab.store.tables.write_log(lambda _: None), lambda s: s.count("table_commits") == 0, unlogged
    ),
    "relog_table": Case(
        lambda s: s.lab.store.tables.rewrite_log("b", lambda _: None),
        lambda s: s.count("table_commits WHERE asset_id = 'b'") == 0,
        tabled,
    ),
    "mark_versions": Case(
        lambda s: s.lab.store.tables.mark_versions("", 10),
        lambda s: s.count("snapshots WHERE gone_at IS NOT NULL") == 1,
        superfluous,
    ),
    "remove_versions": Case(
        lambda s: s.lab.store.tables.remove_versions(10),
        lambda s: s.count("snapshots WHERE removed_at IS NOT NULL") == 1,
        marked,
    ),
    "rollback_table": Case(
        lambda s: s.lab.store.tables.rollback("b", 1),
        lambda s: s.lab.head("b")["sequence"] == 3 and s.count("inbox") == 1,
        tabled,
    ),
    "leave_worker": Case(
        lambda s: s.lab.store.processes.leave(s.ids[0]),
        lambda s: s.count("workers WHERE stopped_at IS NOT NULL") == 1,
        registered,
    ),
    "mark_failed": Case(
        lambda s: s.lab.store.evaluation.mark_failed(key_of(s.lab, "b"), "planted"),
        lambda s: s.count("decisions WHERE outcome = 'error'") == 1,
        noted,
    ),
    "mend": Case(lambda s: s.lab.store.doctor.repair(), lambda s: s.count("timers") == 1, timerless),
    "pause": Case(
        lambda s: s.lab.store.operations.pause("b", s.lab.now + timedelta(hours=1)),
        lambda s: s.lab.active() == [] and s.count("workflows WHERE paused_at IS NOT NULL") == 1,
        queued,
    ),
    "prune": Case(
        lambda s: s.lab.store.retention.prune(30, 100),
        lambda s: s.count("pg_inherits WHERE inhparent = 'events'::regclass") > 1,
        idle,
    ),
    "forget_snapshots": Case(
        lambda s: s.lab.store.retention.forget_snapshots(30, 100),
        lambda s: s.count("snapshots WHERE asset_id = 'a'") == 1,
        aged,
    ),
    "publish_run": Case(
        lambda s: s.lab.store.runs.publish(s.held, [StagedOutput("b", "work", "v2")]),
        lambda s: s.lab.head("b")["sequence"] == 2 and len(s.lab.events("workflow.run.succeeded")) == 3,
        running,
    ),
    "reconcile": Case(
        lambda s: s.lab.reconciler.run_once(), lambda s: s.lab.active() == ["b"] and len(s.lab.runs("b")) == 2, noted
    ),
    "register_worker": Case(register, lambda s: s.count("workers") == 1),
    "renew_leases": Case(
        lambda s: s.lab.store.runs.renew_leases([{"id": s.held.id, "attempt": s.held.attempt}]),
        lambda s: s.lab.one("SELECT max(lease_until) FROM runs") == s.lab.now + timedelta(seconds=15),
        running,
    ),
    "report": Case(
        lambda s: s.lab.report("a", "2", key="k"),
        lambda s: s.lab.head("a")["sequence"] == 2 and s.count("inbox") == 1,
        idle,
    ),
    "report_together": Case(
        lambda s: s.lab.store.operations.report_together(
            [SourceReport("a", "2", "k"), SourceReport("other", "2", "k")]
        ),
        lambda s: (
            s.lab.head("a")["sequence"] == 2
            and s.lab.head("other")["sequence"] == 1
            and (s.count("inbox"), s.count("report_groups")) == (2, 1)
        ),
        joining,
    ),
    "request_run": Case(
        lambda s: s.lab.store.operations.request_run("b", key="k"),
        lambda s: s.count("runs WHERE trigger_type = 'manual'") == 1,
        idle,
    ),
    "rescue": Case(
        lambda s: s.lab.store.runs.rescue(10),
        lambda s: s.lab.runs("b")[-1]["status"] == "queued" and s.lab.runs("b")[-1]["crashed"] == [1],
        lost,
    ),
    "publish_events": Case(
        lambda s: s.lab.store.events.publish(lambda _: None, batch=1000, most_bytes=10**6),
        lambda s: s.lab.one("SELECT position FROM bus_cursor") > 0,
        positioned,
    ),
    "reset": Case(lambda s: s.lab.store.operations.reset("b"), lambda s: s.lab.state("b")["failures"] == 0, failed),
    "resume": Case(
        lambda s: s.lab.store.operations.resume("b"),
        lambda s: s.count("workflows WHERE paused_at IS NOT NULL") == 0,
        paused,
    ),
    "revoke_token": Case(
        lambda s: s.lab.store.tokens.revoke("ci"),
        lambda s: s.count("api_tokens WHERE revoked_at IS NOT NULL") == 1,
        tokened,
    ),
    "compact_deliveries": Case(
        lambda s: s.lab.store.retention.compact_deliveries(30, 100, chunk=2),
        lambda s: s.count("deliveries WHERE first_number = 1 AND last_number = 2") == s.count("deliveries"),
        old_deliveries,
    ),
    "skip_delivery": Case(
        lambda s: s.lab.store.operations.skip_delivery("files", 1, "damaged"),
        lambda s: s.lab.store.reader.deliveries("files")[0].get("skipped", {}).get("reason") == "damaged",
        delivered,
    ),
    "forget_asset": Case(
        forget_asset,
        lambda s: s.count("assets WHERE id = 'old'") == 0 and s.count("snapshots WHERE asset_id = 'old'") == 0,
        unused,
    ),
    "stamp_positions": Case(
        lambda s: s.lab.store.events.stamp_positions(1000),
        lambda s: s.count("events WHERE position IS NULL") == 0,
        idle,
    ),
    "sweep": Case(lambda s: s.lab.store.evaluation.sweep(), lambda s: s.count("considerations") == 1, forgotten),
    "use_token": Case(
        lambda s: s.lab.store.tokens.use(str(s.lab.one("SELECT id FROM api_tokens"))),
        lambda s: s.count("api_tokens WHERE used_at IS NOT NULL") == 1,
        tokened,
    ),
}


def die(url: str, now: datetime, name: str, side: str, state: tuple[str, ClaimedRun | None, list[str]]) -> None:
    """Do one thing as a process that is killed in the middle of it."""
    lab = Lab(url, now=now)
    lab.worker, run, ids = state
    failpoints.arm_from(f"{name}:{side}=kill")
    CASES[name].act(Scene(lab, run, ids))
