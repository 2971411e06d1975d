"""Invariants that hold after every step, at the end of a history, and when the system has settled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.random_histories.heads import Heads
from tests.random_histories.histories import Shape, policy
from tests.random_histories.increments import Increments
from tests.random_histories.lineage import Lineage
from tests.random_histories.sim_watchers import Directories
from tests.store_harness import Lab

# Each query finds rows that must not exist.
AT_EVERY_STEP = {
    "two active automatic runs of one workflow (no duplicate)": """
        SELECT workflow_id FROM runs WHERE status IN ('queued', 'running') AND trigger_type = 'auto-materialize'
         GROUP BY workflow_id HAVING count(*) > 1""",
    "two running runs of one workflow (docs/semantics.md#R6.4)": """
        SELECT workflow_id FROM runs WHERE status = 'running' GROUP BY workflow_id HAVING count(*) > 1""",
    "published by an attempt that had lost its run (stale workers are harmless)": """
        SELECT s.asset_id FROM snapshots s JOIN runs r ON r.id = s.run_id
         WHERE s.attempt <> r.attempt OR r.status <> 'succeeded'""",
    "queued in a pause (docs/semantics.md#R8.3)": """
        SELECT r.id FROM runs r JOIN workflows w ON w.id = r.workflow_id
         WHERE r.trigger_type = 'auto-materialize' AND r.status = 'queued' AND r.attempt = 0
           AND r.queued_at >= w.paused_at
           AND (w.paused_until IS NULL OR w.paused_until > r.queued_at)""",
    "more runs than the pool has slots (docs/semantics.md#R11.8)": """
        SELECT p.name FROM pools p JOIN runs r ON r.pool = p.name AND r.status = 'running'
         GROUP BY p.name, p.slots HAVING count(*) > p.slots""",
}
AT_THE_END = {
    "a run without its decision (explainable)": """
        SELECT r.id FROM runs r WHERE r.trigger_type = 'auto-materialize'
           AND NOT EXISTS (SELECT FROM decisions d WHERE d.id = r.decision_id)""",
    "a snapshot that does not say what its run read (docs/semantics.md#R6.1)": """
        SELECT s.asset_id, s.sequence FROM snapshots s JOIN runs r ON r.id = s.run_id WHERE s.inputs <> r.pins""",
    "outputs of a run that were published apart (published as a whole)": """
        SELECT r.id FROM runs r WHERE r.status = 'succeeded' AND (SELECT count(*) FROM snapshots s
               WHERE s.run_id = r.id) <> jsonb_array_length(r.result -> 'assets')""",
    "a production without its event (published as a whole)": """
        SELECT s.asset_id, s.sequence FROM snapshots s WHERE NOT EXISTS (
               SELECT FROM events e WHERE e.id = s.event_id AND e.type = 'asset.produced')""",
    "a timer that fired early (durable timers)": """
        SELECT e.id FROM events e WHERE e.type = 'asset.expired'
           AND (e.data ->> 'expiresAt')::timestamptz > e.time""",
    "a breaker that was told twice (backoff holds)": """
        SELECT x.subject FROM (SELECT e.subject, e.type, lag(e.type) OVER (PARTITION BY subject ORDER BY time, id)
               AS before FROM events e WHERE e.type ~ '^materializer.breaker') x
         WHERE x.type = coalesce(x.before, 'materializer.breaker.closed')""",
}
QUEUED = """
SELECT r.id::text, w.slug, r.pins, r.mixed, r.trigger ->> 'reason' AS reason, r.version = w.version AS current,
       p.consumed_versions, p.started_at, p.failed_at, p.failures, p.breaker_at,
       (SELECT jsonb_object_agg(e.asset_id, jsonb_build_object('sequence', h.sequence, 'dataVersion', h.data_version))
          FROM edges e JOIN heads h ON h.asset_id = e.asset_id WHERE e.workflow_id = w.id
           AND NOT EXISTS (SELECT FROM assets a WHERE a.id = e.asset_id AND a.producer_id = w.id)) AS heads,
       CASE r.trigger ->> 'reason'
           WHEN 'missing' THEN EXISTS (SELECT FROM assets a LEFT JOIN heads h ON h.asset_id = a.id
                                        WHERE a.producer_id = w.id AND h.asset_id IS NULL)
           WHEN 'definition-changed' THEN p.job_fingerprint <> w.job_fingerprint OR EXISTS (
               SELECT FROM assets a JOIN heads h ON h.asset_id = a.id
                 JOIN snapshots s ON (s.asset_id, s.sequence) = (h.asset_id, h.sequence)
                WHERE a.producer_id = w.id AND s.workflow_id IS DISTINCT FROM w.id)
           WHEN 'expired' THEN EXISTS (SELECT FROM assets a JOIN timers t ON t.asset_id = a.id
                                        WHERE a.producer_id = w.id AND t.expired_at IS NOT NULL)
           WHEN 'upstream-update' THEN EXISTS (
               SELECT FROM edges e WHERE e.workflow_id = w.id AND e.triggers AND
                 (r.pins -> e.asset_id ->> 'dataVersion')
                 IS DISTINCT FROM (p.consumed_versions -> e.asset_id ->> 'dataVersion'))
               OR EXISTS (
               SELECT FROM edges e JOIN assets a ON a.producer_id = w.id JOIN heads h ON h.asset_id = a.id
                 JOIN snapshots s ON (s.asset_id, s.sequence) = (h.asset_id, h.sequence)
                WHERE e.workflow_id = w.id AND e.triggers AND (r.pins -> e.asset_id ->> 'dataVersion')
                      IS DISTINCT FROM (s.inputs -> e.asset_id ->> 'dataVersion'))
           ELSE true END AS needed,
       CASE WHEN w.policy ->> 'when' = 'all' AND r.trigger ->> 'reason' = 'upstream-update' THEN (
           SELECT array_agg(e.asset_id) FROM edges e WHERE e.workflow_id = w.id AND e.triggers
              AND (r.pins -> e.asset_id ->> 'sequence')::bigint
                  <= (p.consumed_versions -> e.asset_id ->> 'sequence')::bigint
           ) END AS awaited
  FROM runs r JOIN workflows w ON w.id = r.workflow_id
  LEFT JOIN workflow_partitions p ON p.workflow_id = w.id
 WHERE r.trigger_type = 'auto-materialize' AND r.status = 'queued' AND r.attempt = 0
"""
# Runs that a user requested or a worker has started, with whether they read a mix that nothing has healed since.
STARTED = """
SELECT r.id::text, r.attempt, w.slug, r.pins, r.mixed, r.trigger_type = 'auto-materialize' AS automatic, r.status,
       NOT (r.mixed OR r.mixed_upstream) AND EXISTS (
           SELECT FROM jsonb_each(r.pins) pin
             JOIN heads h ON h.asset_id = pin.key AND h.sequence = (pin.value ->> 'sequence')::bigint
             JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
            WHERE s.mixed) AS unlabelled
  FROM runs r JOIN workflows w ON w.id = r.workflow_id
 WHERE r.status = 'running' OR (r.status = 'queued' AND r.trigger_type <> 'auto-materialize' AND r.attempt = 0)
"""
# No lost update: a workflow is healthy if it is automatic and its inputs exist and are not too old.
HEALTHY = """
  FROM workflows w LEFT JOIN workflow_partitions p ON p.workflow_id = w.id
 WHERE w.automatic AND w.retired_at IS NULL AND NOT EXISTS (
       SELECT FROM edges e LEFT JOIN heads h ON h.asset_id = e.asset_id WHERE e.workflow_id = w.id
          AND (h.asset_id IS NULL OR h.produced_at + (e.declaration -> 'freshness' ->> 'maxAgeMs')::bigint
               * interval '1 ms' < %(now)s))
"""
WHEN_SETTLED = {
    "not computed from the current versions (no lost update)": f"""
        SELECT w.slug {HEALTHY} AND w.policy ->> 'when' = 'any' AND EXISTS (
               SELECT FROM edges e JOIN heads h ON h.asset_id = e.asset_id WHERE e.workflow_id = w.id AND e.triggers
                  AND h.data_version IS DISTINCT FROM (p.consumed_versions -> e.asset_id ->> 'dataVersion'))""",
    "behind its last complete round (no lost update, docs/semantics.md#R1.4)": f"""
        SELECT w.slug {HEALTHY} AND w.policy ->> 'when' = 'all' AND (
               SELECT bool_and(h.sequence > coalesce((p.consumed_versions -> e.asset_id ->> 'sequence')::bigint, 0))
                      AND bool_or(h.data_version IS DISTINCT FROM (p.consumed_versions -> e.asset_id ->> 'dataVersion'))
                 FROM edges e JOIN heads h ON h.asset_id = e.asset_id WHERE e.workflow_id = w.id AND e.triggers)""",
    "never produced (no lost update)": f"""
        SELECT w.slug {HEALTHY} AND (w.policy ->> 'on_missing')::boolean AND EXISTS (
               SELECT FROM assets a LEFT JOIN heads h ON h.asset_id = a.id
                WHERE a.producer_id = w.id AND h.asset_id IS NULL)""",
    "made by an old job (no lost update, docs/semantics.md#R1.2)": f"""
        SELECT w.slug {HEALTHY} AND p.job_fingerprint <> w.job_fingerprint""",
    "expired a while ago (durable timers)": f"""
        SELECT w.slug {HEALTHY} AND EXISTS (
               SELECT FROM assets a JOIN timers t ON t.asset_id = a.id WHERE a.producer_id = w.id
                  AND t.kind = 'expiry' AND t.expired_at < %(now)s - interval '2 minutes')""",
    "a claim is stuck (self-healing)": "SELECT id FROM runs WHERE status = 'running' AND lease_until < %(now)s",
    "events were not absorbed": "SELECT event_id FROM inbox WHERE at < %(now)s",
    "a committed event has no position (docs/semantics.md#R11.5)": (
        "SELECT id FROM events WHERE position IS NULL AND time < %(now)s"
    ),
}


@dataclass
class Invariants:
    """Checks of the invariants. The pins of each checked run are kept, and compared when the run has ended."""

    lab: Lab
    shape: Shape
    outside: Directories
    increments: Increments
    lineage: Lineage = field(init=False)
    heads: Heads = field(init=False)
    _seen: int | None = None  # the last transaction that wrote, when safety was last checked
    _started: set[tuple[str, int]] = field(default_factory=set)
    _checked: dict[str, tuple[Any, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lineage = Lineage(self.lab, self.shape)
        self.heads = Heads(self.lab, self.shape, self.lineage)

    def after_step(self) -> None:
        """Check safety, unless nothing was written since the last check."""
        written = self.lab.one("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
        if written == self._seen:
            return
        self._check()
        self._seen = self.lab.one("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")

    def _check(self) -> None:
        assert self.lab.forgotten() == 0, "a stale workflow that nothing will look at (docs/semantics.md#R4.1)"
        broken = [*self.broken(AT_EVERY_STEP), *self.outside.wrong()]
        assert not broken, broken
        for run in self.lab.rows(QUEUED):
            if self._checked.get(run["id"]) != (run["pins"], run["mixed"]):
                self._check_run(run, new=run["id"] not in self._checked)
                self._checked[run["id"]] = (run["pins"], run["mixed"])
        for run in self.lab.rows(STARTED):
            if (key := (run["id"], run["attempt"])) not in self._started:
                self._started.add(key)
                self._check_start(run) if run["status"] == "running" else self._check_request(run)

    def at_the_end(self) -> None:
        """Check the invariants of the whole history."""
        broken = [*self.broken(AT_THE_END), *self.heads.wrong(), *self.increments.wrong(), *self.outside.uneventful()]
        assert not broken, broken
        started = self.lab.rows(
            "SELECT id::text, pins, mixed FROM runs WHERE trigger_type = 'auto-materialize' AND attempt > 0"
        )
        moved = [run["id"] for run in started if self._checked.get(run["id"]) != (run["pins"], run["mixed"])]
        assert not moved, f"read other versions than it was queued for (docs/semantics.md#R6.1): {moved}"

    def unsettled(self) -> list[str]:
        """Return the work that is left before every asset is computed from current data."""
        return self.broken(WHEN_SETTLED) or self.outside.missing() or self.heads.behind()

    def broken(self, queries: Mapping[str, str]) -> list[str]:
        """Return the rows that the queries find; all queries are one statement."""
        parts = [f"SELECT '{text}' AS what, x::text AS found FROM ({query}) x" for text, query in queries.items()]
        with self.lab.database.connection() as connection:
            rows = connection.execute(" UNION ALL ".join(parts).encode(), {"now": self.lab.now}).fetchall()
        return [f"{row['what']}: {row['found']}" for row in rows]

    def _check_run(self, run: Mapping[str, Any], *, new: bool) -> None:
        """Check a run that the last step queued or renewed: it had a cause, no hold, and inputs of one generation."""
        name = f"{run['slug']} ({run['reason']}, {run['id']})"
        assert run["pins"] == (run["heads"] or {}), f"{name} is not pinned to the heads (docs/semantics.md#R6.2)"
        assert run["needed"], f"{name} has no cause (minimal)"
        awaited = [one for one in run["awaited"] or () if not self._came_out_unchanged(one, run["started_at"])]
        assert not awaited, f"{name} is ahead of its round: {awaited} (docs/semantics.md#R1.4)"
        if new:
            self._check_holds(run, name)
        if not policy(self.shape.definitions[run["slug"]]).get("waitForUpstream", True):
            self.lineage.unbound.add(run["id"])
            return
        mix = self.lineage.read(run["pins"])
        assert run["mixed"] or not mix, f"{name} would read a mix without saying so (glitch-free)"

    def _came_out_unchanged(self, asset_id: str, since: datetime) -> bool:
        """Return whether a source whose changes reach the asset has moved since the last success was decided.

        Also with equal data: a production with equal content completes a round.
        """
        moved = "SELECT 1 FROM snapshots WHERE asset_id = ANY (%s) AND produced_at >= %s"
        return bool(self.lab.rows(moved, sorted(self.shape.heard(asset_id)), since))

    def _check_start(self, run: Mapping[str, Any]) -> None:
        """Check a run that a worker has just started."""
        name = f"{run['slug']} ({run['id']}, attempt {run['attempt']})"
        definition = self.shape.definitions[run["slug"]]
        assert not run["unlabelled"], f"{name} reads a mix and does not say mixedUpstream"
        if run["automatic"]:
            self._check_quiet(definition, name)

    def _check_request(self, run: Mapping[str, Any]) -> None:
        """Check a run that a user has just requested. It is pinned, and judged by the definitions of this moment."""
        if policy(self.shape.definitions[run["slug"]]).get("waitForUpstream", True):
            mix = self.lineage.read(run["pins"])
            name = f"{run['slug']} ({run['id']}, requested)"
            assert run["mixed"] or not mix, f"{name} reads a mix without saying so (glitch-free)"

    def _check_quiet(self, definition: Mapping[str, Any], name: str) -> None:
        for window in definition.get("quietHours", ()):
            assert not window["from"] <= f"{self.lab.now:%H:%M}" < window["to"], (
                f"{name} in quiet hours (docs/semantics.md#R8.3)"
            )

    def _check_holds(self, run: Mapping[str, Any], name: str) -> None:
        definition, now = self.shape.definitions[run["slug"]], self.lab.now
        self._check_quiet(definition, name)
        interval = timedelta(milliseconds=policy(definition).get("minIntervalMs", 0))
        assert run["started_at"] is None or now >= run["started_at"] + interval, f"{name} too soon (minIntervalMs)"
        if run["failures"]:
            assert now >= run["failed_at"] + _cooldown(definition, run), f"{name} in its cooldown (backoff holds)"


def _cooldown(definition: Mapping[str, Any], run: Mapping[str, Any]) -> timedelta:
    """Return the minimal cooldown (docs/semantics.md#R7.2); with an open breaker, the distance of its probes.

    See docs/semantics.md#R7.3.
    """
    base, longest = definition["backoff"]["baseMs"], definition["backoff"]["maxMs"]
    doubled = base * 2 ** (run["failures"] - 1)
    return timedelta(milliseconds=longest if run["breaker_at"] else min(longest, doubled))
