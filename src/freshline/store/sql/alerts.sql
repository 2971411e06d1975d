-- name: add_rule
-- purpose: insert an alert rule
INSERT INTO alert_rules (id, name, project, policy, targets, shown, request_key, created_at, changed_at, digested_at)
SELECT %(id)s, %(name)s, %(project)s, %(policy)s, %(targets)s, %(shown)s, %(key)s, n.now, n.now, n.now
  FROM (SELECT freshline_now() AS now OFFSET 0) n

-- name: added
-- purpose: find the rule that was requested with this key
SELECT name, project, policy, targets FROM alert_rules WHERE request_key = %(key)s

-- name: lock_rule
-- purpose: lock the rule with this name
SELECT id::text, project FROM alert_rules WHERE name = %(name)s FOR UPDATE

-- name: rule_names
-- purpose: list names of rules, for "did you mean"
SELECT name FROM alert_rules ORDER BY name

-- name: targets
-- purpose: read the addresses of a rule, for a test message
SELECT targets FROM alert_rules WHERE name = %(name)s

-- name: remove_alert
-- purpose: delete a rule with its incidents and messages
DELETE FROM alert_rules WHERE id = %(id)s

-- name: pause_alert
-- purpose: stop the messages of a rule
UPDATE alert_rules SET paused_at = coalesce(paused_at, freshline_now()) WHERE id = %(id)s

-- name: resume_alert
-- purpose: end a pause, and the wait after failures
WITH resumed AS (
    UPDATE alert_rules SET paused_at = NULL WHERE id = %(id)s RETURNING id
)
UPDATE alert_messages m SET eligible_at = freshline_now() FROM resumed r
 WHERE m.rule_id = r.id AND m.sent_at IS NULL AND m.dead_at IS NULL

-- name: stored_rules
-- purpose: read all rules, for the comparison with those that a project declares
SELECT name, project, policy, targets FROM alert_rules ORDER BY name

-- name: save_rules
-- purpose: insert or change the rules that a project declares; an unchanged rule keeps its row
INSERT INTO alert_rules AS r (id, name, project, policy, targets, shown, created_at, changed_at, digested_at)
SELECT d.id, d.name, %(project)s, d.policy, d.targets, ARRAY(SELECT jsonb_array_elements_text(d.shown)), n.now, n.now, n.now
  FROM jsonb_to_recordset(%(rules)s) AS d (id uuid, name text, policy jsonb, targets jsonb, shown jsonb),
       (SELECT freshline_now() AS now OFFSET 0) n
 ORDER BY d.name
ON CONFLICT (name) DO UPDATE
   SET policy = excluded.policy, targets = excluded.targets, shown = excluded.shown, changed_at = excluded.changed_at
 WHERE (r.policy, r.targets) IS DISTINCT FROM (excluded.policy, excluded.targets)

-- name: drop_rules
-- purpose: delete the rules that a project does not declare any more, with their incidents and messages
DELETE FROM alert_rules WHERE project = %(project)s AND NOT name = ANY (%(names)s)

-- name: give_up_targets
-- purpose: give up messages to addresses that their rule does not have any more
UPDATE alert_messages m SET dead_at = freshline_now(), trouble = 'the rule has fewer addresses now'
  FROM alert_rules r
 WHERE r.project = %(project)s AND m.rule_id = r.id AND m.sent_at IS NULL AND m.dead_at IS NULL
   AND m.target >= cardinality(r.shown)

-- name: evaluate_soon
-- purpose: make an evaluation due, because rules changed
UPDATE alert_evaluation SET next_at = NULL

-- name: time_left
-- purpose: read when the next evaluation is due: at once if something is wrong that was fine, or the reverse
SELECT CASE WHEN NOT EXISTS (SELECT FROM alert_rules) THEN NULL
            WHEN e.digest <> freshline_trouble_digest() THEN 0
            ELSE coalesce(extract(epoch FROM e.next_at - freshline_now())::float8, 0) END AS seconds
  FROM alert_evaluation e

-- name: begin_evaluation
-- purpose: lock the evaluation, unless another process has it, and read the digest of all that is wrong
SELECT n.now, (SELECT i.epoch FROM installation i) AS epoch, d.digest,
       e.digest <> d.digest OR coalesce(e.next_at <= n.now, true) AS due
  FROM alert_evaluation e, (SELECT freshline_now() AS now OFFSET 0) n,
       (SELECT freshline_trouble_digest() AS digest OFFSET 0) d
   FOR UPDATE OF e SKIP LOCKED

-- name: end_evaluation
-- purpose: note what was evaluated, and when the next evaluation is due
UPDATE alert_evaluation SET digest = %(digest)s, evaluated_at = %(now)s, next_at = %(next_at)s

-- name: rules
-- purpose: read all rules with the number of messages that each has queued since a time
SELECT r.id::text, r.name, r.project, r.policy, r.paused_at IS NOT NULL AS paused, r.digested_at,
       (SELECT count(DISTINCT (m.incident_ids, m.kind)) FROM alert_messages m
         WHERE m.rule_id = r.id AND m.created_at > %(since)s) AS recent
  FROM alert_rules r ORDER BY r.name

-- name: current_incidents
-- purpose: read the incidents about which something may still be sent
SELECT id::text, rule_id::text, root, kinds, members, assets, affected, run_id::text, error, opened_at, recovered_at, closed_at,
       closing, alerted_at, cleared_at, done_at
  FROM alert_incidents WHERE done_at IS NULL ORDER BY opened_at, id

-- name: troubles
-- purpose: read everything that is wrong: failing workflows with their last failed run, and overdue assets
WITH failing AS MATERIALIZED (
    SELECT p.workflow_id, p.failures, p.failed_at, p.breaker_at IS NOT NULL AS broken, p.consumed_versions
      FROM workflow_partitions p WHERE p.failures > 0 AND p.partition_key = ''
), late AS MATERIALIZED (
    SELECT a.producer_id AS workflow_id, array_agg(a.id ORDER BY a.id) AS assets, min(t.expired_at) AS since,
           min(h.produced_at) AS produced_at
      FROM timers t JOIN assets a ON a.id = t.asset_id
      LEFT JOIN heads h ON h.asset_id = t.asset_id AND h.partition_key = t.partition_key
     WHERE t.kind = 'overdue' AND t.expired_at IS NOT NULL AND t.partition_key = '' AND a.producer_id IS NOT NULL
     GROUP BY a.producer_id
)
SELECT w.id, w.slug, w.project, coalesce(f.failures, 0) AS failures, coalesce(f.broken, false) AS broken,
       coalesce(least(f.failed_at, l.since), f.failed_at, l.since) AS since, f.consumed_versions AS consumed,
       r.id::text AS run_id, r.error ->> 'code' AS code, left(r.error ->> 'message', 1000) AS message,
       coalesce(r.error ? 'checks', false) AS checks, r.pins, l.assets AS late, l.produced_at,
       ARRAY(SELECT a.id FROM assets a WHERE a.producer_id = w.id ORDER BY a.id) AS outputs
  FROM failing f FULL JOIN late l USING (workflow_id)
  JOIN workflows w ON w.id = workflow_id AND w.retired_at IS NULL
  LEFT JOIN LATERAL (SELECT x.id, x.error, x.pins FROM runs x
                      WHERE f.workflow_id IS NOT NULL AND (x.workflow_id, x.partition_key) = (w.id, '')
                        AND x.status = 'failed'
                      ORDER BY x.queued_at DESC LIMIT 1) r ON true
 ORDER BY w.id

-- name: watch_troubles
-- purpose: read the sources whose last looks failed; one failed look may be an accident
SELECT w.asset_id, a.source_project AS project, w.failures, coalesce(w.failing_since, w.looked_at, freshline_now()) AS since,
       left(w.error, 1000) AS error
  FROM watches w JOIN assets a ON a.id = w.asset_id
 WHERE w.failures >= %(failures)s ORDER BY w.asset_id

-- name: proposals
-- purpose: read the proposed backfills that nobody has approved or denied
SELECT b.id::text AS id, b.project, b.asset_id, b.requested_at AS since,
       (SELECT sum(p.total) FROM backfill_workflows p WHERE p.backfill_id = b.id)::integer AS partitions,
       ARRAY(SELECT a.id FROM backfill_workflows p JOIN assets a ON a.producer_id = p.workflow_id
              WHERE p.backfill_id = b.id AND a.id <> b.asset_id ORDER BY a.id) AS others
  FROM backfills b WHERE b.ended_at IS NULL AND b.status = 'proposed' ORDER BY b.id

-- name: reported_at
-- purpose: read when these sources were reported last
SELECT asset_id, produced_at FROM heads WHERE asset_id = ANY (%(assets)s) AND partition_key = ''

-- name: save_incidents
-- purpose: insert incidents, or store their new state
INSERT INTO alert_incidents AS i (id, rule_id, root, kinds, members, assets, affected, run_id, error, opened_at,
                                  recovered_at, closed_at, closing, alerted_at, cleared_at, done_at)
SELECT d.id, d.rule_id, d.root, d.kinds, d.members, d.assets, d.affected, d.run_id, d.error, d.opened_at,
       d.recovered_at, d.closed_at, d.closing, d.alerted_at, d.cleared_at, d.done_at
  FROM jsonb_to_recordset(%(incidents)s) AS d (
           id uuid, rule_id uuid, root text, kinds text[], members text[], assets text[], affected integer,
           run_id uuid, error text,
           opened_at timestamptz, recovered_at timestamptz, closed_at timestamptz, closing text, alerted_at timestamptz,
           cleared_at timestamptz, done_at timestamptz)
 ORDER BY d.id
ON CONFLICT (id) DO UPDATE
   SET root = excluded.root, kinds = excluded.kinds, members = excluded.members, assets = excluded.assets,
       affected = excluded.affected, run_id = excluded.run_id, error = excluded.error, recovered_at = excluded.recovered_at,
       closed_at = excluded.closed_at, closing = excluded.closing, alerted_at = excluded.alerted_at,
       cleared_at = excluded.cleared_at, done_at = excluded.done_at

-- name: queue_messages
-- purpose: queue messages, one per address of the rule
INSERT INTO alert_messages (rule_id, kind, incident_ids, target, created_at, eligible_at)
SELECT r.id, d.kind, ARRAY(SELECT jsonb_array_elements_text(d.incident_ids)::uuid), t.target, %(now)s, %(now)s
  FROM jsonb_array_elements(%(messages)s) WITH ORDINALITY AS x (message, ordinal),
       jsonb_to_record(x.message) AS d (rule_id uuid, kind text, incident_ids jsonb),
       alert_rules r, generate_series(0, jsonb_array_length(r.targets) - 1) AS t (target)
 WHERE r.id = d.rule_id
 ORDER BY x.ordinal, t.target

-- name: digested
-- purpose: note that the digests of these rules were due
UPDATE alert_rules SET digested_at = %(now)s WHERE id = ANY (%(rules)s::uuid[])

-- name: waiting_left
-- purpose: read when the next message may be sent
SELECT extract(epoch FROM min(greatest(m.eligible_at, coalesce(m.lease_until, m.eligible_at))) - freshline_now())::float8
           AS seconds
  FROM alert_messages m JOIN alert_rules r ON r.id = m.rule_id
 WHERE m.sent_at IS NULL AND m.dead_at IS NULL AND r.paused_at IS NULL

-- name: claim_messages
-- purpose: claim the oldest waiting message of each address, for the time of a lease
WITH moment AS MATERIALIZED (
    SELECT freshline_now() AS now
), due AS MATERIALIZED (
    SELECT m.number FROM alert_messages m JOIN alert_rules r ON r.id = m.rule_id, moment n
     WHERE m.sent_at IS NULL AND m.dead_at IS NULL AND r.paused_at IS NULL AND m.eligible_at <= n.now
       AND (m.lease_until IS NULL OR m.lease_until <= n.now)
       AND NOT EXISTS (SELECT FROM alert_messages x
                        WHERE (x.rule_id, x.target) = (m.rule_id, m.target) AND x.number < m.number
                          AND x.sent_at IS NULL AND x.dead_at IS NULL)
     ORDER BY m.eligible_at, m.number LIMIT %(batch)s
       FOR UPDATE OF m SKIP LOCKED
)
UPDATE alert_messages m
   SET claim = m.claim + 1, lease_until = n.now + %(lease_ms)s * interval '1 millisecond'
  FROM due, moment n, alert_rules r
 WHERE m.number = due.number AND r.id = m.rule_id
RETURNING m.number, m.claim, m.attempts, m.kind, m.created_at, r.name AS rule, r.policy -> 'title' AS title,
          r.policy -> 'body' AS body, r.targets -> m.target AS target, n.now,
          ARRAY(SELECT x::text FROM unnest(m.incident_ids) x) AS incident_ids

-- name: incidents_by_id
-- purpose: read the incidents of a message
SELECT id::text, rule_id::text, root, kinds, members, assets, affected, run_id::text, error, opened_at, recovered_at, closed_at,
       closing, alerted_at, cleared_at, done_at
  FROM alert_incidents WHERE id = ANY (%(ids)s::uuid[]) ORDER BY opened_at, id

-- name: record_messages
-- purpose: store the results of claimed messages; one that was claimed again meanwhile stays as it is
UPDATE alert_messages m
   SET lease_until = NULL, attempts = m.attempts + 1, title = coalesce(d.title, m.title), trouble = d.trouble,
       sent_at = CASE WHEN d.trouble IS NULL THEN n.now END,
       dead_at = CASE WHEN d.trouble IS NOT NULL
                       AND (d.final OR m.attempts + 1 >= %(attempts)s OR n.now >= m.created_at + %(age)s) THEN n.now END,
       eligible_at = CASE WHEN d.trouble IS NULL THEN m.eligible_at
                          ELSE n.now + freshline_backoff(m.attempts, %(base_ms)s, %(longest_ms)s) END
  FROM jsonb_to_recordset(%(results)s) AS d (number bigint, claim bigint, title text, trouble text, final boolean),
       (SELECT freshline_now() AS now OFFSET 0) n
 WHERE m.number = d.number AND m.claim = d.claim AND m.sent_at IS NULL AND m.dead_at IS NULL
RETURNING m.number, m.sent_at IS NOT NULL AS sent, m.dead_at IS NOT NULL AS dead

-- name: prune_alerts
-- purpose: delete incidents that are done, and messages that were sent or given up, when both are old
WITH messages AS (
    DELETE FROM alert_messages
     WHERE coalesce(sent_at, dead_at) < freshline_now() - make_interval(days => %(days)s)
)
DELETE FROM alert_incidents i
 WHERE i.done_at < freshline_now() - make_interval(days => %(days)s)
   AND NOT EXISTS (SELECT FROM alert_messages m
                    WHERE m.rule_id = i.rule_id AND m.sent_at IS NULL AND m.dead_at IS NULL AND i.id = ANY (m.incident_ids))

-- name: rename_rules
-- purpose: move the rules of a project to its new name
UPDATE alert_rules SET project = %(after)s WHERE project = %(before)s

-- name: alerts
-- purpose: read the rules and their state; never an address
SELECT r.id, r.name, r.project, r.policy -> 'on' AS "on", r.policy -> 'assets' AS assets, r.shown AS "to",
       (r.policy ->> 'after_ms')::bigint AS "afterMs", (r.policy ->> 'clear_after_ms')::bigint AS "clearAfterMs",
       r.policy -> 'quiet' AS quiet, nullif(r.policy -> 'digest', 'null') AS digest,
       r.policy ->> 'title' AS "titleTemplate", r.policy ->> 'body' AS "bodyTemplate", r.created_at AS "createdAt",
       r.paused_at IS NOT NULL AS paused,
       (SELECT count(*) FROM alert_incidents i WHERE i.rule_id = r.id AND i.closed_at IS NULL) AS open,
       m.waiting, m.dead, m.sent, m.trouble
  FROM alert_rules r,
       LATERAL (SELECT count(*) FILTER (WHERE x.sent_at IS NULL AND x.dead_at IS NULL) AS waiting,
                       count(x.dead_at) AS dead, count(x.sent_at) AS sent,
                       (array_agg(x.trouble ORDER BY x.number DESC) FILTER (WHERE x.trouble IS NOT NULL))[1] AS trouble
                  FROM alert_messages x WHERE x.rule_id = r.id) m
 WHERE %(name)s::text IS NULL OR r.name = %(name)s ORDER BY r.name

-- name: incidents
-- purpose: read the incidents of a rule, newest first
SELECT i.id, split_part(i.root, ':', 1) AS "rootType", substr(i.root, strpos(i.root, ':') + 1) AS root, i.kinds, i.assets,
       i.affected, cardinality(i.members) AS members, i.error, i.run_id AS "runId", i.opened_at AS "openedAt",
       i.recovered_at AS "recoveredAt", i.closed_at AS "closedAt", i.closing, i.alerted_at AS "alertedAt",
       i.cleared_at AS "clearedAt"
  FROM alert_incidents i JOIN alert_rules r ON r.id = i.rule_id
 WHERE r.name = %(name)s AND (%(after)s::uuid IS NULL OR i.id < %(after)s) AND (NOT %(open)s OR i.closed_at IS NULL)
 ORDER BY i.id DESC LIMIT %(limit)s

-- name: messages
-- purpose: read the messages of a rule, newest first; never an address
SELECT m.number, m.kind, r.shown[m.target + 1] AS "to", m.title,
       CASE WHEN m.sent_at IS NOT NULL THEN 'sent' WHEN m.dead_at IS NOT NULL THEN 'dead' ELSE 'waiting' END AS state,
       ARRAY(SELECT x::text FROM unnest(m.incident_ids) x) AS incidents, m.created_at AS "createdAt", m.attempts,
       CASE WHEN m.sent_at IS NULL AND m.dead_at IS NULL THEN m.eligible_at END AS "nextAttemptAt", m.sent_at AS "sentAt",
       m.trouble
  FROM alert_messages m JOIN alert_rules r ON r.id = m.rule_id
 WHERE r.name = %(name)s AND (%(after)s::bigint IS NULL OR m.number < %(after)s)
 ORDER BY m.number DESC LIMIT %(limit)s
