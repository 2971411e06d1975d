-- name: request_cancel
-- purpose: ask the worker to end a run
UPDATE runs SET cancel_at = coalesce(cancel_at, freshline_now()), cancel_reason = coalesce(cancel_reason, %(reason)s)
 WHERE id = %(run)s AND status = 'running'

-- name: stored_definition
-- purpose: read the current definition of a workflow
SELECT v.definition FROM workflows w JOIN workflow_versions v ON (v.workflow_id, v.version) = (w.id, w.version)
 WHERE w.id = %(workflow)s

-- name: input_facts
-- purpose: read what the inputs of a workflow are declared to hold, and their current versions
SELECT e.asset_id, a.declaration, a.producer_id IS NULL AS is_source, h.data_version
  FROM edges e JOIN assets a ON a.id = e.asset_id
  LEFT JOIN heads h ON h.asset_id = e.asset_id AND h.partition_key = %(partition)s
 WHERE e.workflow_id = %(workflow)s

-- name: table_facts
-- purpose: read the tables of a workflow that have rows, and what they were computed from
SELECT a.id AS asset_id, s.sequence, s.rows, s.table_version - s.base_version + 1 AS appended, s.inputs
  FROM assets a
  JOIN heads h ON h.asset_id = a.id AND h.partition_key = %(partition)s AND h.retired_at IS NULL
  JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
 WHERE a.producer_id = %(workflow)s AND s.location IS NOT NULL AND s.rows > 0
 ORDER BY a.id

-- name: lock_any_run
-- purpose: lock a run by id, regardless of its owner
SELECT r.id::text, r.status, r.attempt, r.workflow_id, r.partition_key, r.trigger_type, r.trigger, r.pins, r.version,
       r.cause, w.slug, r.parameters, w.policy, (SELECT freshline_now()) AS now
  FROM runs r JOIN workflows w ON w.id = r.workflow_id WHERE r.id = %(run)s FOR UPDATE OF r

-- name: request_run
-- purpose: insert a manual run, pinned to the current heads
INSERT INTO runs (id, workflow_id, partition_key, version, project, pool, code_hash, needs_spark, status, trigger,
                  trigger_type, cause, priority, urgency, mixed, mixed_upstream, round, epoch, pins, parameters,
                  request_key, queued_at)
SELECT %(id)s, w.id, %(partition)s, w.version, w.project, w.pool, v.code_hash, v.needs_spark, 'queued', %(trigger)s,
       'manual', 'manual', %(priority)s, extract(epoch FROM m.now) + 10 * %(priority)s, %(mixed)s, %(mixed_upstream)s,
       %(round)s, %(epoch)s, %(pins)s, %(parameters)s,
       %(key)s, m.now
  FROM workflows w JOIN workflow_versions v ON (v.workflow_id, v.version) = (w.id, w.version),
       (SELECT freshline_now() AS now) m
 WHERE w.id = %(workflow)s

-- name: lock_asset
-- purpose: lock an asset against a change of its producer, and while a number of its changes is taken
SELECT a.id, a.producer_id, a.declaration, a.source_project, a.partitioning, w.slug FROM assets a LEFT JOIN workflows w ON w.id = a.producer_id
 WHERE a.id = %(asset)s FOR NO KEY UPDATE OF a

-- name: read_asset
-- purpose: read an asset and its producer without a lock
SELECT a.id, a.producer_id, a.declaration, a.source_project, a.partitioning, w.slug FROM assets a LEFT JOIN workflows w ON w.id = a.producer_id
 WHERE a.id = %(asset)s

-- name: accept_code
-- purpose: accept the rows of older code of these assets for the current code, and return how many there are by partition
UPDATE snapshots s
   SET code = (SELECT jsonb_agg(CASE WHEN o.parts @> jsonb_build_array(e.part)
                                     THEN e.part || jsonb_build_object('forWorkflow', w.id, 'forVersion', w.version)
                                     ELSE e.part END ORDER BY e.ordinal)
                 FROM jsonb_array_elements(s.code) WITH ORDINALITY AS e (part, ordinal))
  FROM assets a
  JOIN workflows w ON w.id = a.producer_id
  JOIN heads h ON h.asset_id = a.id AND h.retired_at IS NULL
  JOIN snapshots n ON (n.asset_id, n.partition_key, n.sequence) = (h.asset_id, h.partition_key, h.sequence)
 CROSS JOIN LATERAL (SELECT freshline_older_code(n.code, w.id) AS parts) o
 WHERE a.id = ANY (%(assets)s) AND o.parts IS NOT NULL AND a.declaration #>> '{table,mode}' IN ('append', 'merge')
   AND (s.asset_id, s.partition_key, s.sequence) = (n.asset_id, n.partition_key, n.sequence)
RETURNING s.partition_key,
          least(s.rows, (SELECT sum(coalesce((e.part ->> 'rows')::bigint, s.rows))::bigint
                           FROM jsonb_array_elements(o.parts) AS e (part))) AS rows

-- name: code_state
-- purpose: read the audited state of the code that made the rows of an asset
SELECT jsonb_object_agg(h.partition_key, s.code) AS code
  FROM heads h JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
 WHERE h.asset_id = %(id)s

-- name: asset_names
-- purpose: list asset ids, for "did you mean"
SELECT id AS name FROM assets ORDER BY id

-- name: workflow_names
-- purpose: list slugs, for "did you mean"
SELECT slug AS name FROM workflows WHERE retired_at IS NULL ORDER BY slug

-- name: reported
-- purpose: find an earlier report with the same key, and whether it says the same
SELECT sequence, data_version, changed, event_id::text, false AS late,
       payload IS NOT DISTINCT FROM %(payload)s AS same_payload, report_sequence, delivery FROM snapshots
 WHERE asset_id = %(asset)s AND partition_key = %(partition)s AND report_key = %(key)s

-- name: reported_again
-- purpose: find an earlier report with the same key, or this report if the answer to its commit was lost
SELECT s.sequence, s.data_version, s.changed, s.event_id::text,
       coalesce(s.report_sequence < h.report_sequence, false) AS late,
       s.payload IS NOT DISTINCT FROM %(payload)s AS same_payload, s.report_sequence, s.delivery
  FROM snapshots s LEFT JOIN heads h ON (h.asset_id, h.partition_key) = (s.asset_id, s.partition_key)
 WHERE s.asset_id = %(asset)s AND s.partition_key = %(partition)s
   AND (s.report_key = %(key)s OR s.event_id = %(event)s)

-- name: lock_head
-- purpose: lock the head of a source
SELECT sequence, last_sequence, data_version, report_sequence, table_version FROM heads
 WHERE asset_id = %(asset)s AND partition_key = %(partition)s FOR UPDATE

-- name: increment_consumers
-- purpose: find some workflows that read a source with `rows: new`; of many consumers only the first are looked at
SELECT w.slug FROM (SELECT * FROM edges WHERE asset_id = %(asset)s LIMIT 1000) e
  JOIN workflows w ON w.id = e.workflow_id AND w.retired_at IS NULL
 WHERE e.declaration ->> 'rows' = 'new' ORDER BY w.slug LIMIT %(limit)s

-- name: reported_path
-- purpose: read the path that the report of a version named
SELECT payload ->> 'path' AS path FROM snapshots
 WHERE asset_id = %(asset)s AND partition_key = %(partition)s AND sequence = %(sequence)s

-- name: unread_consumers
-- purpose: find some workflows that have not read a version of a source; of many consumers only the first are looked at
SELECT w.slug FROM (SELECT * FROM edges WHERE asset_id = %(asset)s LIMIT 1000) e
  JOIN workflows w ON w.id = e.workflow_id AND w.retired_at IS NULL
  LEFT JOIN workflow_partitions p ON p.workflow_id = e.workflow_id AND p.partition_key = %(partition)s
 WHERE coalesce((p.consumed_versions -> e.asset_id ->> 'sequence')::bigint, 0) < %(sequence)s
 ORDER BY w.slug LIMIT %(limit)s

-- name: delivered
-- purpose: find an earlier delivery with the same key
-- By key first: the primary key would find all deliveries of the source.
WITH rows AS MATERIALIZED (
    SELECT d.asset_id, d.partition_key, d.items FROM deliveries d WHERE d.keys @> ARRAY[%(key)s::text]
)
SELECT i.item FROM rows r, jsonb_array_elements(r.items) AS i (item)
 WHERE r.asset_id = %(asset)s AND r.partition_key = %(partition)s AND i.item ->> 'key' = %(key)s

-- name: same_path
-- purpose: find a recent delivery with this path that is not skipped
SELECT (i.item ->> 'number')::bigint AS number
  FROM deliveries d, jsonb_array_elements(d.items) AS i (item)
 WHERE d.asset_id = %(asset)s AND d.partition_key = %(partition)s
   AND d.last_number >= %(first)s AND d.last_number < %(number)s::bigint + 1000 AND d.first_number < %(number)s
   AND i.item ->> 'path' = %(path)s AND (i.item ->> 'number')::bigint < %(number)s AND NOT i.item ? 'skipped'
 ORDER BY 1 DESC LIMIT 1

-- name: last_delivery
-- purpose: read the number of the newest delivery; the lock of the head makes it the last
SELECT last_number FROM deliveries WHERE asset_id = %(asset)s AND partition_key = %(partition)s
 ORDER BY last_number DESC LIMIT 1

-- name: delivered_all
-- purpose: find the earlier deliveries with one of these keys
-- By keys first: the primary key would find all deliveries of the source.
WITH rows AS MATERIALIZED (
    SELECT d.asset_id, d.partition_key, d.items FROM deliveries d WHERE d.keys && %(keys)s::text[]
)
SELECT i.item FROM rows r, jsonb_array_elements(r.items) AS i (item)
 WHERE r.asset_id = %(asset)s AND r.partition_key = %(partition)s AND i.item ->> 'key' = ANY (%(keys)s)

-- name: add_deliveries
-- purpose: add deliveries after the newest one
INSERT INTO deliveries (asset_id, partition_key, first_number, last_number, items, keys)
SELECT %(asset)s, %(partition)s, n.number, n.number, jsonb_build_array(i.item),
       CASE WHEN i.item ->> 'key' IS NULL THEN '{}' ELSE ARRAY[i.item ->> 'key'] END
  FROM jsonb_array_elements(%(items)s) AS i (item), LATERAL (SELECT (i.item ->> 'number')::bigint AS number) n

-- name: lock_delivery
-- purpose: lock the row of a delivery, and read it
SELECT d.items -> (%(number)s - d.first_number)::int AS item FROM deliveries d
 WHERE d.asset_id = %(asset)s AND d.partition_key = %(partition)s
   AND d.last_number >= %(number)s AND d.last_number < %(number)s::bigint + 1000 AND d.first_number <= %(number)s
   FOR UPDATE

-- name: skip_delivery
-- purpose: leave a delivery out for all consumers that have not read it; record who did it, when and why
-- A row has at most 1,000 deliveries.
UPDATE deliveries SET items = jsonb_set(items, ARRAY[(%(number)s - first_number)::text, 'skipped'],
           jsonb_build_object('by', %(by)s::text, 'reason', %(reason)s::text, 'at', freshline_now()))
 WHERE asset_id = %(asset)s AND partition_key = %(partition)s
   AND last_number >= %(number)s AND last_number < %(number)s::bigint + 1000 AND first_number <= %(number)s

-- name: consumers
-- purpose: find the workflows that consume an asset
SELECT w.id, w.slug FROM edges e JOIN workflows w ON w.id = e.workflow_id AND w.retired_at IS NULL
 WHERE e.asset_id = %(asset)s ORDER BY w.id

-- name: delivery_state
-- purpose: read the audited state of the deliveries of a source
SELECT jsonb_array_length(freshline_skipped(%(id)s, '', d.last_number)) AS skipped, d.last_number AS deliveries
  FROM deliveries d WHERE d.asset_id = %(id)s AND d.partition_key = '' ORDER BY d.last_number DESC LIMIT 1

-- name: expire_now
-- purpose: make an asset expire now
INSERT INTO timers (asset_id, partition_key, kind, due_at, reason)
VALUES (%(asset)s, %(partition)s, 'expiry', freshline_now(), 'manual')
ON CONFLICT (asset_id, partition_key, kind) DO UPDATE SET due_at = excluded.due_at, reason = 'manual'
RETURNING due_at

-- name: workflow
-- purpose: find a workflow that is not retired
SELECT id, slug FROM workflows WHERE slug = %(slug)s AND retired_at IS NULL

-- name: lock_workflow
-- purpose: find a workflow that is not retired, and lock it
SELECT id, slug, policy, version FROM workflows WHERE slug = %(slug)s AND retired_at IS NULL FOR NO KEY UPDATE

-- name: pause
-- purpose: pause the automatic runs of a workflow
UPDATE workflows SET paused_at = coalesce(paused_at, freshline_now()), paused_until = %(until)s WHERE id = %(workflow)s

-- name: resume
-- purpose: end the pause of a workflow
UPDATE workflows SET paused_at = NULL, paused_until = NULL WHERE id = %(workflow)s

-- name: touch
-- purpose: add an inbox row, so that the workflow is evaluated
INSERT INTO inbox (event_id, kind, workflow_id, partition_key, at)
VALUES (%(id)s, 'touched', %(workflow)s, %(partition)s, freshline_now())

-- name: reset
-- purpose: end cooldown, breaker and cancellation; return whether a breaker was open
WITH open AS (SELECT breaker_at FROM workflow_partitions WHERE workflow_id = %(workflow)s AND breaker_at IS NOT NULL
                 FOR UPDATE),
healed AS (
    UPDATE workflow_partitions SET failures = 0, eligible_at = NULL, breaker_at = NULL, probed_versions = NULL, canceled = NULL,
                                   cause_repeats = 0, success_cause = NULL
     WHERE workflow_id = %(workflow)s
)
SELECT EXISTS (SELECT FROM open) AS closed

-- name: requested
-- purpose: find the manual run that was requested with the same key, and whether it is the same request
SELECT r.id::text, w.slug, r.partition_key = %(partition)s AS same_partition,
       r.parameters = %(parameters)s AS same_parameters,
       coalesce((r.trigger ->> 'fullRefresh')::boolean, false) = %(full_refresh)s AS same_refresh FROM runs r JOIN workflows w ON w.id = r.workflow_id WHERE r.request_key = %(key)s

-- name: register_worker
-- purpose: insert or refresh the row of a process; the heartbeat repeats it
INSERT INTO workers (id, kind, host, pid, project, code_hash, started_at, seen_at, info)
VALUES (%(id)s, %(kind)s, %(host)s, %(pid)s, %(project)s, %(code_hash)s, freshline_now(), freshline_now(), %(info)s)
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, code_hash = excluded.code_hash, info = excluded.info,
                               stopped_at = NULL

-- name: leave_worker
-- purpose: mark a process as stopped
UPDATE workers SET stopped_at = freshline_now() WHERE id = %(id)s

-- name: create_token
-- purpose: insert a token by its digest; the same digest again changes nothing
INSERT INTO api_tokens (id, name, scope, data, digest, created_at, expires_at)
SELECT %(id)s, %(name)s, %(scope)s, %(data)s, %(digest)s, n.now, n.now + %(lifetime_ms)s * interval '1 millisecond'
  FROM (SELECT freshline_now() AS now OFFSET 0) n
ON CONFLICT (digest) DO NOTHING
RETURNING id

-- name: lock_token
-- purpose: lock the token with this name, preferring the one that is not revoked
SELECT id, revoked_at FROM api_tokens WHERE name = %(name)s
 ORDER BY revoked_at DESC NULLS FIRST LIMIT 1 FOR NO KEY UPDATE

-- name: token_names
-- purpose: list names of valid tokens, for "did you mean"
SELECT name FROM api_tokens WHERE revoked_at IS NULL ORDER BY name

-- name: revoke_token
-- purpose: revoke a token
UPDATE api_tokens SET revoked_at = freshline_now() WHERE id = %(id)s

-- name: use_token
-- purpose: record the use of a token, at most once per interval
UPDATE api_tokens SET used_at = freshline_now()
 WHERE id = %(id)s
   AND (used_at IS NULL OR used_at < freshline_now() - %(every_ms)s * interval '1 millisecond')

-- name: token_state
-- purpose: read the audited state of a token
SELECT name, scope, data, expires_at AS "expiresAt", revoked_at AS "revokedAt" FROM api_tokens WHERE id = %(id)s

-- name: workflow_state
-- purpose: read the audited state of a workflow
SELECT w.paused_at AS "pausedAt", w.paused_until AS "pausedUntil", coalesce(p.failures, 0) AS failures,
       p.eligible_at AS "nextEligibleAt", p.breaker_at AS "breakerOpenedAt"
  FROM workflows w LEFT JOIN workflow_partitions p ON p.workflow_id = w.id AND p.partition_key = ''
 WHERE w.id = %(id)s

-- name: run_state
-- purpose: read the audited state of a run
SELECT status, attempt, cancel_reason AS "cancelReason" FROM runs WHERE id = %(id)s

-- name: head_state
-- purpose: read the audited state of a reported asset
SELECT last_sequence AS version, data_version AS "dataVersion" FROM heads WHERE asset_id = %(id)s AND partition_key = ''

-- name: timer_state
-- purpose: read the audited state of an expired asset
SELECT due_at AS "dueAt", reason, expired_at AS "expiredAt" FROM timers
 WHERE asset_id = freshline_asset(%(id)s) AND partition_key = freshline_key(%(id)s) AND kind = 'expiry'

-- name: webhook_state
-- purpose: read the audited state of a webhook, without the query of its URL, which may be a secret
SELECT w.name, w.kind, regexp_replace(w.url, '\?.*', '?…') AS url, w.types, w.assets, w.paused_at AS "pausedAt",
       (SELECT count(*) FROM webhook_deliveries d WHERE d.webhook_id = w.id AND d.dead_at IS NOT NULL) AS "lettersDead"
  FROM webhooks w WHERE w.id = %(id)s

-- name: alert_state
-- purpose: read the audited state of a rule, without its addresses
SELECT r.name, r.project, r.policy, r.shown AS "to", r.paused_at AS "pausedAt" FROM alert_rules r WHERE r.id = %(id)s

-- name: project_state
-- purpose: read the audited state of a project
SELECT p.code_hash AS "codeHash", p.applied_at AS "appliedAt",
       (SELECT count(*) FROM workflows w WHERE w.project = p.name AND w.retired_at IS NULL) AS workflows
  FROM projects p WHERE p.name = %(id)s

-- name: log_state
-- purpose: read the audited state of a table whose log is rewritten
SELECT h.sequence AS version,
       (SELECT count(*) FROM table_commits c WHERE c.asset_id = h.asset_id AND c.partition_key = '') AS unlogged
  FROM heads h WHERE h.asset_id = %(id)s AND h.partition_key = ''

-- name: audit
-- purpose: record who changed what
INSERT INTO audit (id, at, who, token_id, what, subject, before, after)
VALUES (%(id)s, freshline_now(), %(who)s, %(token)s, %(what)s, %(subject)s, %(before)s, %(after)s)

-- name: prune_audit
-- purpose: delete a batch of audit rows that are older than the retention
DELETE FROM audit a USING (
    SELECT id FROM audit WHERE at < freshline_now() - make_interval(days => %(days)s) ORDER BY at LIMIT %(batch)s
) x WHERE a.id = x.id

-- name: prune_tokens
-- purpose: delete tokens that were revoked or expired before the retention
DELETE FROM api_tokens
 WHERE coalesce(least(revoked_at, expires_at), expires_at) < freshline_now() - make_interval(days => %(days)s)

-- name: forgettable
-- purpose: read who uses an asset, and what would be dropped with it
SELECT w.slug AS producer, a.source_project AS project, a.unused_since,
       CASE WHEN n.run_id IS NULL THEN h.produced_at END AS reported_at,
       (SELECT min(c.slug) FROM edges e JOIN workflows c ON c.id = e.workflow_id WHERE e.asset_id = a.id) AS consumer,
       (SELECT min(right(r.id::text, 8)) FROM runs r
          JOIN workflow_versions v ON (v.workflow_id, v.version) = (r.workflow_id, r.version)
         WHERE r.status IN ('queued', 'running')
           AND (EXISTS (SELECT FROM jsonb_object_keys(r.pins) k WHERE freshline_asset(k) = a.id)
                OR jsonb_path_exists(v.definition, '$.steps[*].produces[*].assetId ? (@ == $id)',
                                                   jsonb_build_object('id', a.id)))) AS run,
       (SELECT count(*) FROM snapshots s WHERE s.asset_id = a.id) AS versions,
       (SELECT coalesce(sum(d.last_number - d.first_number + 1), 0)::bigint FROM deliveries d
         WHERE d.asset_id = a.id) AS deliveries,
       n.rows, n.bytes,
       EXISTS (SELECT FROM snapshots s WHERE s.asset_id = a.id AND s.location ? 'paths') AS has_table
  FROM assets a
  LEFT JOIN workflows w ON w.id = a.producer_id
  LEFT JOIN heads h ON h.asset_id = a.id AND h.partition_key = ''
  LEFT JOIN snapshots n ON (n.asset_id, n.partition_key, n.sequence) = (h.asset_id, h.partition_key, h.sequence)
 WHERE a.id = %(asset)s

-- name: lock_forgotten
-- purpose: lock an asset against reports, publications and applies, before it is deleted
SELECT id FROM assets WHERE id = %(asset)s FOR UPDATE

-- name: forget_inbox
-- purpose: delete the events of a forgotten asset that are not absorbed yet
DELETE FROM inbox WHERE asset_id = %(asset)s

-- name: forget_partition_keys
-- purpose: delete the dynamic keys of a forgotten asset
DELETE FROM partition_keys WHERE asset_id = %(asset)s

-- name: forget_timers
-- purpose: delete the timers of a forgotten asset
DELETE FROM timers WHERE asset_id = %(asset)s

-- name: forget_table_commits
-- purpose: delete the table versions of a forgotten asset that are not in the Delta log yet
DELETE FROM table_commits WHERE asset_id = %(asset)s

-- name: forget_heads
-- purpose: delete the head of a forgotten asset
DELETE FROM heads WHERE asset_id = %(asset)s

-- name: forget_deliveries
-- purpose: delete the deliveries of a forgotten asset
DELETE FROM deliveries WHERE asset_id = %(asset)s

-- name: forget_snapshots
-- purpose: delete the versions of a forgotten asset
DELETE FROM snapshots WHERE asset_id = %(asset)s

-- name: forget_asset
-- purpose: delete a forgotten asset
DELETE FROM assets WHERE id = %(asset)s

-- name: backfill_state
-- purpose: read what the audit keeps of a backfill
SELECT status, asset_id, revision FROM backfills WHERE id = %(id)s::uuid

-- name: add_report_group
-- purpose: record which sources were reported together; the group replaces those of which it has all members
WITH replaced AS MATERIALIZED (
    SELECT id FROM report_groups WHERE members <@ %(members)s::text[] AND id <> %(id)s
     ORDER BY id FOR UPDATE SKIP LOCKED
), deleted AS (
    DELETE FROM report_groups WHERE id IN (SELECT id FROM replaced)
)
INSERT INTO report_groups (id, members, reported_at) VALUES (%(id)s, %(members)s, freshline_now())
ON CONFLICT (id) DO NOTHING
