-- name: claim_run
-- purpose: claim the most urgent queued run that this worker may execute; attempt + 1 is its fencing token
-- Full pools are excluded first. The first runs of each pool are read without a lock, so that the cost depends on the number of
-- pools and not of queued runs; then the most urgent run that no other worker is claiming is locked.
WITH room AS MATERIALIZED (
    SELECT '' AS pool, NULL::integer AS slot
    UNION ALL
    SELECT p.name, free.slot
      FROM pools p
     CROSS JOIN LATERAL (
         SELECT array_agg(x.slot) AS slots FROM runs x
          WHERE x.project = p.project AND x.pool = p.name AND x.status = 'running' AND x.slot IS NOT NULL) taken
     CROSS JOIN LATERAL (
         -- At random, so that two workers rarely choose the same slot. If they do, the unique index refuses one.
         SELECT n.slot FROM generate_series(1, p.slots) AS n (slot)
          WHERE NOT n.slot = ANY (coalesce(taken.slots, '{}')) ORDER BY random() LIMIT 1) free
     WHERE p.project = %(project)s AND coalesce(cardinality(taken.slots), 0) < p.slots
), first AS MATERIALIZED (
    SELECT q.id, room.slot
      FROM room
     CROSS JOIN LATERAL (
         SELECT r.id FROM runs r JOIN workflows w ON w.id = r.workflow_id
          WHERE r.status = 'queued'
            AND w.retired_at IS NULL
            -- No automatic run starts in quiet hours. One that was never started is taken back by then; if it was not, the
            -- materializer is down, and nothing knows the next quiet hours.
            AND (r.quiet IS NULL OR freshline_now() < lower(r.quiet) OR (r.attempt > 0 AND freshline_now() >= upper(r.quiet)))
            AND r.project = %(project)s
            AND r.pool = room.pool
            AND (r.not_before IS NULL OR r.not_before <= freshline_now())
            AND (r.code_hash IS NULL OR r.code_hash = %(code_hash)s)
            AND (%(spark)s OR NOT r.needs_spark)
            AND NOT EXISTS (SELECT FROM runs x WHERE x.workflow_id = r.workflow_id AND x.partition_key = r.partition_key
                               AND x.status = 'running')
            AND (w.max_concurrency IS NULL
                 OR w.max_concurrency > (SELECT count(*) FROM runs x WHERE x.workflow_id = w.id AND x.status = 'running'
                                            AND (x.batch_id IS NULL OR x.batch_id = x.id))) -- a batch counts once
          ORDER BY r.urgency, r.id LIMIT %(first)s) q
), candidate AS MATERIALIZED (
    -- By id, because a join could read the whole queue.
    SELECT r.id, r.workflow_id, (SELECT f.slot FROM first f WHERE f.id = r.id) AS slot
      FROM runs r
     WHERE r.id = ANY (ARRAY(SELECT f.id FROM first f)) AND r.status = 'queued'
     ORDER BY r.urgency, r.id LIMIT 1
       FOR UPDATE OF r SKIP LOCKED
), claimed AS (
    UPDATE runs r
       SET status = 'running', attempt = r.attempt + 1, worker_id = %(worker)s, slot = c.slot,
           concurrency_slot = free.concurrency_slot,
           lease_until = m.now + %(lease_ms)s * interval '1 ms', started_at = coalesce(r.started_at, m.now)
      FROM candidate c
      JOIN workflows w ON w.id = c.workflow_id
     CROSS JOIN LATERAL (
         SELECT min(n.slot) AS concurrency_slot FROM generate_series(1, w.max_concurrency) AS n (slot)
          WHERE NOT EXISTS (SELECT FROM runs x WHERE x.workflow_id = w.id AND x.status = 'running'
                               AND x.concurrency_slot = n.slot)
     ) free, (SELECT freshline_now() AS now) m
     WHERE r.id = c.id
    RETURNING r.*
), noted AS (
    INSERT INTO workflow_partitions (workflow_id, partition_key, started_at)
    SELECT workflow_id, partition_key, started_at FROM claimed WHERE trigger_type <> 'manual'
    ON CONFLICT (workflow_id, partition_key) DO UPDATE SET started_at = excluded.started_at
), told AS (
    INSERT INTO events (id, time, type, subject, data)
    SELECT freshline_id(), freshline_now(), 'workflow.run.started', w.slug,
           jsonb_build_object('workflowSlug', w.slug, 'workflowId', w.id, 'runId', c.id, 'attempt', c.attempt,
                              'partitionKey', c.partition_key, 'trigger', c.trigger)
      FROM claimed c JOIN workflows w ON w.id = c.workflow_id
)
SELECT c.id, c.workflow_id, w.slug, c.partition_key, c.version, c.attempt, v.definition, c.parameters, c.trigger,
       c.pins, c.code_hash, c.trigger_type, c.batch_most
  FROM claimed c
  JOIN workflows w ON w.id = c.workflow_id
  JOIN workflow_versions v ON (v.workflow_id, v.version) = (c.workflow_id, c.version)

-- name: rebuild_due
-- purpose: find a table with rows of older code whose workflow has not succeeded yet with the code of a run, if it is the current one
SELECT h.asset_id
  FROM workflows w
  JOIN workflow_versions v ON (v.workflow_id, v.version) = (w.id, %(version)s) AND v.job_fingerprint = w.job_fingerprint
  JOIN assets a ON a.producer_id = w.id AND a.id = ANY (%(assets)s)
  JOIN heads h ON h.asset_id = a.id AND h.partition_key = %(partition_key)s AND h.retired_at IS NULL
  JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
  LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (w.id, h.partition_key)
 WHERE w.id = %(workflow_id)s AND s.rows IS DISTINCT FROM 0 AND p.job_fingerprint IS DISTINCT FROM w.job_fingerprint
   AND freshline_older_code(s.code, w.id) IS NOT NULL
 ORDER BY h.asset_id LIMIT 1

-- name: batch_limit
-- purpose: read how many partitions one run of a backfill may compute
SELECT batch FROM backfills WHERE id = %(backfill)s

-- name: batch_candidates
-- purpose: lock queued runs of the same backfill, workflow and version as a run that was just claimed, in the backfill's order
-- Runs that were in a batch that failed are together only with others of the same limit: each partition is in few such batches.
SELECT r.id::text, r.partition_key, r.pins
  FROM runs l
  JOIN backfills b ON b.id = (l.trigger ->> 'backfillId')::uuid
  JOIN runs r ON r.trigger ->> 'backfillId' = l.trigger ->> 'backfillId' AND r.trigger_type = 'backfill' AND r.status = 'queued'
 WHERE l.id = %(run)s
   AND (r.workflow_id, r.version, r.project, r.pool, r.needs_spark, r.parameters)
       = (l.workflow_id, l.version, l.project, l.pool, l.needs_spark, l.parameters)
   AND r.code_hash IS NOT DISTINCT FROM l.code_hash
   AND r.batch_most IS NOT DISTINCT FROM l.batch_most
   AND (r.not_before IS NULL OR r.not_before <= freshline_now())
   AND (r.quiet IS NULL OR freshline_now() < lower(r.quiet) OR (r.attempt > 0 AND freshline_now() >= upper(r.quiet)))
   AND NOT EXISTS (SELECT FROM runs x WHERE x.workflow_id = r.workflow_id AND x.partition_key = r.partition_key
                      AND x.status = 'running')
 ORDER BY CASE WHEN b.newest_first THEN r.partition_key END DESC, r.partition_key
 LIMIT %(most)s
   FOR UPDATE OF r SKIP LOCKED

-- name: join_batch
-- purpose: let runs belong to the batch of a run that was just claimed; each gets its next attempt, and none takes a slot
WITH leader AS (
    UPDATE runs SET batch_id = id, batch_size = %(size)s WHERE id = %(run)s RETURNING *
), joined AS (
    UPDATE runs r
       SET status = 'running', attempt = r.attempt + 1, worker_id = l.worker_id, slot = NULL, concurrency_slot = NULL,
           lease_until = l.lease_until, started_at = coalesce(r.started_at, m.now), batch_id = l.id, batch_size = %(size)s
      FROM leader l, (SELECT freshline_now() AS now) m
     WHERE r.id = ANY (%(members)s::uuid[])
    RETURNING r.*
), noted AS (
    INSERT INTO workflow_partitions (workflow_id, partition_key, started_at)
    SELECT workflow_id, partition_key, started_at FROM joined ORDER BY partition_key
    ON CONFLICT (workflow_id, partition_key) DO UPDATE SET started_at = excluded.started_at
)
INSERT INTO events (id, time, type, subject, data)
SELECT freshline_id(), freshline_now(), 'workflow.run.started', w.slug,
       jsonb_build_object('workflowSlug', w.slug, 'workflowId', w.id, 'runId', j.id, 'attempt', j.attempt,
                          'partitionKey', j.partition_key, 'trigger', j.trigger)
  FROM joined j JOIN workflows w ON w.id = j.workflow_id
 ORDER BY j.partition_key

-- name: pinned_inputs
-- purpose: read the snapshots that a run is pinned to, with their locations
SELECT s.asset_id, s.partition_key, s.sequence, s.data_version, s.location, s.payload, s.table_version, s.schema, s.sources,
       s.mixed, s.mixed_from, s.base_version, s.rows, s.bytes, s.change, freshline_parts(s) AS parts,
       s.delivery, freshline_skipped(s.asset_id, s.partition_key, s.delivery) AS skipped, s.gone_at,
       a.producer_id IS NULL AS is_source,
       CASE WHEN s.run_id IS NULL AND (s.payload ? 'path' OR s.delivery IS NOT NULL) AND s.location ? 'path'
            THEN CASE WHEN a.source_project IS NULL THEN '{}' ELSE a.declaration END END AS path_declaration
  FROM (SELECT * FROM unnest(%(assets)s::text[], %(keys)s::text[], %(sequences)s::bigint[]) AS p (asset_id, partition_key, sequence)
        UNION ALL -- a pin of all partitions is the number of a change: of each partition, the head that it had then
        SELECT w.asset_id, n.partition_key, n.sequence
          FROM unnest(%(wholes)s::text[], %(changes)s::bigint[]) AS w (asset_id, change)
         CROSS JOIN LATERAL (SELECT DISTINCT ON (x.partition_key) x.partition_key, x.sequence FROM snapshots x
                              WHERE x.asset_id = w.asset_id AND x.change <= w.change
                              ORDER BY x.partition_key, x.change DESC) n) p
  JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (p.asset_id, p.partition_key, p.sequence)
  JOIN assets a ON a.id = s.asset_id
 WHERE NOT s.retired -- what all partitions were, without those that had been removed
 ORDER BY s.asset_id, s.partition_key

-- name: partitioned_inputs
-- purpose: find the consumed assets with partitions; of those that the run reads nothing of, the newest snapshot with data
SELECT a.id, s.*
  FROM assets a
  LEFT JOIN LATERAL (
      SELECT s.asset_id, s.partition_key, s.sequence, s.data_version, s.location, s.payload, s.table_version, s.schema,
             s.base_version, s.rows, s.bytes, s.change, freshline_parts(s) AS parts, NULL::bigint AS delivery,
             NULL::jsonb AS path_declaration
        FROM heads h JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
       WHERE h.asset_id = a.id AND NOT a.id = ANY (%(read)s) AND s.location IS NOT NULL AND h.retired_at IS NULL
       ORDER BY h.produced_at DESC LIMIT 1) s ON true
 WHERE a.id = ANY (%(assets)s) AND a.partitioning IS NOT NULL

-- name: deliveries_between
-- purpose: read the deliveries of an append source from one number to another, in order, as many as fit into one message
-- A row has at most 1,000 deliveries. Without this upper bound every later row of the source would be read.
SELECT x.item FROM (
    SELECT i.item, i.number, sum(octet_length(i.item::text)) OVER (ORDER BY i.number) - octet_length(i.item::text) AS bytes_before
      FROM deliveries d
     CROSS JOIN LATERAL (SELECT n.item, d.first_number + n.ordinal - 1 AS number
                           FROM jsonb_array_elements(d.items) WITH ORDINALITY AS n (item, ordinal)) i
     WHERE d.asset_id = %(asset)s AND d.partition_key = %(partition)s
       AND d.last_number >= %(first)s AND d.last_number < %(last)s::bigint + 1000 AND d.first_number <= %(last)s
       AND i.number BETWEEN %(first)s AND %(last)s
     ORDER BY i.number LIMIT %(most)s) x
 WHERE x.bytes_before < %(bytes)s ORDER BY x.number

-- name: own_heads
-- purpose: read the heads of a run's own outputs, for steps that read or append to what they produce
-- The outputs are those of the run's definition. Of one that the workflow no longer owns, it is the last snapshot that it made,
-- so that every attempt finds the same. With each comes how far it had read its inputs; a forgotten snapshot counts as the
-- newest one before it.
WITH own AS MATERIALIZED (
    SELECT a.id AS asset_id, k.partition_key,
           CASE WHEN h.retired_at IS NULL
                THEN coalesce(h.sequence, (SELECT max(x.sequence) FROM snapshots x
                                            WHERE x.asset_id = a.id AND x.partition_key = k.partition_key
                                              AND x.workflow_id = %(workflow)s)) END AS sequence
      FROM assets a
     CROSS JOIN unnest(%(partitions)s::text[]) AS k (partition_key)
      LEFT JOIN heads h ON h.asset_id = a.id AND h.partition_key = k.partition_key AND a.producer_id = %(workflow)s
     WHERE a.id = ANY (%(outputs)s)
)
SELECT s.asset_id, s.partition_key, s.sequence, s.data_version, s.location, s.payload, s.table_version, s.schema,
       s.base_version, s.rows, s.bytes, s.change, freshline_parts(s) AS parts, NULL::bigint AS delivery,
       NULL::jsonb AS path_declaration,
       (SELECT jsonb_object_agg(i.key, jsonb_build_object('data_version', i.value -> 'dataVersion',
                                                          'table_version', p.table_version,
                                                          'base_version', p.base_version,
                                                          -- A pin of all partitions is the number of a change.
                                                          'change', CASE WHEN i.key LIKE '%%@' THEN i.value -> 'sequence' END))
          FROM jsonb_each(s.inputs) i
          LEFT JOIN LATERAL (
              SELECT x.table_version, x.base_version FROM snapshots x
               WHERE x.asset_id = freshline_asset(i.key) AND x.partition_key = freshline_key(i.key)
                 AND x.table_version IS NOT NULL
                 AND x.sequence <= (i.value ->> 'sequence')::bigint
               ORDER BY x.table_version DESC, x.sequence DESC LIMIT 1) p ON true) AS positions
  FROM own
  JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (own.asset_id, own.partition_key, own.sequence)
 ORDER BY s.asset_id, s.partition_key

-- name: finished_steps
-- purpose: read the steps that earlier attempts of the run finished; a new attempt continues after them
SELECT DISTINCT ON (step_id) step_id, attempt, outputs, metrics FROM run_steps
 WHERE run_id = %(run)s AND status = 'succeeded' ORDER BY step_id, attempt DESC, try DESC

-- name: open_sessions
-- purpose: read the Spark Connect sessions of tries that did not succeed; the new owner ends them
SELECT session::text FROM run_steps
 WHERE run_id = %(run)s AND status <> 'succeeded' AND session IS NOT NULL ORDER BY started_at DESC LIMIT 100

-- name: renew_leases
-- purpose: extend the leases that this worker still holds; runs that are not returned are lost
-- The other runs of a batch have the lease of their leader. Rows are locked in the order of docs/semantics.md#R11.2.
WITH held AS (
    SELECT * FROM jsonb_to_recordset(%(held)s) AS n (id uuid, attempt integer, progress jsonb)
), locked AS MATERIALIZED (
    SELECT r.id FROM runs r
     WHERE (r.id IN (SELECT id FROM held) OR r.batch_id IN (SELECT id FROM held)) AND r.status = 'running'
     ORDER BY r.workflow_id, r.partition_key, r.id FOR UPDATE
), renewed AS (
    UPDATE runs r SET lease_until = m.now + %(lease_ms)s * interval '1 ms', progress = coalesce(n.progress, r.progress)
      FROM held n, (SELECT freshline_now() AS now) m
     WHERE r.id = n.id AND r.attempt = n.attempt AND r.status = 'running' AND r.id IN (SELECT id FROM locked)
    RETURNING r.id, r.attempt, r.cancel_at, r.lease_until, r.batch_id
), members AS (
    UPDATE runs r SET lease_until = l.lease_until
      FROM renewed l
     WHERE r.batch_id = l.batch_id AND r.id <> l.id AND r.status = 'running'
    RETURNING r.batch_id, r.cancel_at
)
SELECT l.id::text, l.attempt,
       l.cancel_at IS NOT NULL
       OR EXISTS (SELECT FROM members m WHERE m.batch_id = l.batch_id AND m.cancel_at IS NOT NULL) AS cancel
  FROM renewed l

-- name: lock_batch
-- purpose: lock all runs of a batch, in the order of docs/semantics.md#R11.2; none of a run that is alone
SELECT FROM runs WHERE batch_id = %(run)s AND status = 'running' ORDER BY workflow_id, partition_key, id FOR UPDATE

-- name: lock_run
-- purpose: lock a run under its fencing token before a write; no row: another attempt owns it
SELECT r.id, r.attempt, r.workflow_id, r.partition_key, r.trigger_type, r.trigger, r.pins, r.mixed, r.round, r.origin, r.epoch, r.cause,
       r.version,
       r.cancel_at, r.batch_id, r.batch_size,
       w.slug, w.policy, r.parameters, (SELECT freshline_now()) AS now, cardinality(r.crashed) AS crashes,
       -- Workers only take runs of their own code: with the project's former code a run would wait forever.
       coalesce(r.code_hash <> p.code_hash, false) OR w.retired_at IS NOT NULL AS outdated
  FROM runs r JOIN workflows w ON w.id = r.workflow_id JOIN projects p ON p.name = r.project
 WHERE r.id = %(run)s AND r.attempt = %(attempt)s AND r.status = 'running'
   FOR UPDATE OF r

-- name: lock_members
-- purpose: read the other runs of a batch, which are locked, in the order of their partitions
SELECT r.id, r.attempt, r.workflow_id, r.partition_key, r.trigger_type, r.trigger, r.pins, r.mixed, r.round, r.origin, r.epoch, r.cause,
       r.version,
       r.cancel_at, r.batch_id, r.batch_size,
       w.slug, w.policy, r.parameters, (SELECT freshline_now()) AS now, cardinality(r.crashed) AS crashes,
       -- Workers only take runs of their own code: with the project's former code a run would wait forever.
       coalesce(r.code_hash <> p.code_hash, false) OR w.retired_at IS NOT NULL AS outdated
  FROM runs r JOIN workflows w ON w.id = r.workflow_id JOIN projects p ON p.name = r.project
 WHERE r.batch_id = %(run)s AND r.id <> %(run)s AND r.status = 'running'
 ORDER BY r.partition_key
   FOR UPDATE OF r

-- name: begin_step
-- purpose: record the start of a try of a step
INSERT INTO run_steps (run_id, step_id, attempt, try, status, started_at, session)
VALUES (%(run)s, %(step)s, %(attempt)s, %(try)s, 'running', freshline_now(), %(session)s)
ON CONFLICT DO NOTHING

-- name: finish_step
-- purpose: record the end of a try: its staged outputs and metrics, or its error
UPDATE run_steps
   SET status = %(status)s, finished_at = freshline_now(), outputs = %(outputs)s, metrics = %(metrics)s, error = %(error)s
 WHERE run_id = %(run)s AND step_id = %(step)s AND attempt = %(attempt)s AND try = %(try)s AND status = 'running'

-- name: close_steps
-- purpose: end the tries that a canceled or lost attempt leaves behind
UPDATE run_steps SET status = %(status)s, finished_at = freshline_now() WHERE run_id = %(run)s AND status = 'running'

-- name: append_logs
-- purpose: append lines to the run's log under the run's lock, up to the limit; skip lines that are already stored
INSERT INTO run_logs (run_id, line, attempt, step_id, at, stream, text)
SELECT %(run)s, n.last - n.there + l.ordinal, %(attempt)s, l.step_id, freshline_now(), l.stream, l.text
  FROM (SELECT coalesce(max(line), 0) AS last,
               greatest(count(*) FILTER (WHERE attempt = %(attempt)s) - %(after)s, 0) AS there
          FROM run_logs WHERE run_id = %(run)s) n,
       ROWS FROM (jsonb_to_recordset(%(lines)s) AS (step_id text, stream text, text text)) WITH ORDINALITY
           AS l (step_id, stream, text, ordinal)
 WHERE l.ordinal > n.there AND n.last - n.there + l.ordinal <= %(most)s

-- name: lock_outputs
-- purpose: lock the assets that the workflow still owns, so that apply cannot move them, and their heads
-- The lock of an asset also gives out the versions of its table, which are numbered over all partitions.
SELECT h.asset_id FROM heads h
 WHERE h.asset_id = ANY (ARRAY(SELECT a.id FROM assets a WHERE a.producer_id = %(workflow)s ORDER BY a.id FOR NO KEY UPDATE))
   AND h.partition_key = %(partition)s
 ORDER BY h.asset_id FOR UPDATE

-- name: owned_outputs
-- purpose: read the assets that the workflow owns; a separate statement, which sees the changes that the locks waited for
-- A head of which retention removed the data has only a last sequence.
SELECT a.id, a.step_id, a.declaration, h.sequence, k.last_sequence, h.data_version, h.table_version, v.last_version,
       v.last_schema, s.location, s.schema, s.rows, s.bytes, s.base_version, s.inputs, s.code, t.expired_at AS overdue_at,
       -- The first version with the job of the run: versions that differ in other things are the same code.
       (SELECT min(x.version) FROM workflow_versions r JOIN workflow_versions x USING (workflow_id, job_fingerprint)
         WHERE (r.workflow_id, r.version) = (%(workflow)s, %(version)s)) AS code_version
  FROM assets a
  LEFT JOIN heads k ON k.asset_id = a.id AND k.partition_key = %(partition)s
  LEFT JOIN LATERAL (SELECT k.* WHERE k.retired_at IS NULL) h ON true
  LEFT JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
  LEFT JOIN timers t ON t.asset_id = a.id AND t.partition_key = %(partition)s AND t.kind = 'overdue'
  LEFT JOIN LATERAL (SELECT x.table_version AS last_version,
                            CASE WHEN %(partition)s <> '' AND x.partition_key <> ''
                                 THEN coalesce(x.location -> 'tableSchema', x.schema) END AS last_schema
                       FROM snapshots x WHERE x.asset_id = a.id AND x.table_version IS NOT NULL
                      ORDER BY x.table_version DESC LIMIT 1) v ON true
 WHERE a.producer_id = %(workflow)s
 ORDER BY a.id

-- name: policy
-- purpose: read the workflow's policy after its assets are locked: apply may have changed it meanwhile
SELECT policy, slug FROM workflows WHERE id = %(workflow)s

-- name: lock_heads
-- purpose: lock heads in key order
SELECT asset_id FROM heads WHERE asset_id = ANY (%(assets)s) AND partition_key = %(partition)s
 ORDER BY asset_id FOR UPDATE

-- name: number_changes
-- purpose: take the next number of each asset whose partitions get new heads, and move its digest; before the heads move
-- A partition that retention had removed and that is built again is one that is there again.
INSERT INTO asset_digests AS d (asset_id, change, keys, digest, changed_at, retired_keys, retired_digest)
SELECT r.asset_id, 1, count(*) FILTER (WHERE h.asset_id IS NULL OR h.retired_at IS NOT NULL),
       sum(freshline_digest(r.partition_key, r.data_version)
           - CASE WHEN h.retired_at IS NULL THEN coalesce(freshline_digest(h.partition_key, h.data_version), 0) ELSE 0 END),
       max(r.produced_at), count(*) FILTER (WHERE h.retired_at IS NOT NULL),
       coalesce(sum(freshline_digest(h.partition_key, h.data_version)) FILTER (WHERE h.retired_at IS NOT NULL), 0)
  FROM jsonb_to_recordset(%(rows)s) AS r (asset_id text, partition_key text, data_version text, produced_at timestamptz)
  LEFT JOIN heads h ON (h.asset_id, h.partition_key) = (r.asset_id, r.partition_key)
 GROUP BY r.asset_id
 ORDER BY r.asset_id
ON CONFLICT (asset_id) DO UPDATE
   SET change = d.change + 1, keys = d.keys + excluded.keys, digest = d.digest + excluded.digest,
       changed_at = greatest(d.changed_at, excluded.changed_at), retired_keys = d.retired_keys - excluded.retired_keys,
       retired_digest = d.retired_digest - excluded.retired_digest
RETURNING asset_id, change

-- name: insert_snapshots
-- purpose: insert snapshots
INSERT INTO snapshots (asset_id, partition_key, sequence, data_version, changed, table_version, base_version, location,
                       schema, rows, bytes, checks, difference, workflow_id, run_id, attempt, step_id, produced_at,
                       expires_at, inputs, sources, mixed, mixed_from, payload, event_id, report_key, report_sequence,
                       delivery, origin, change, retired, code, column_versions)
SELECT asset_id, partition_key, sequence, data_version, changed, table_version, base_version, location, schema, rows,
       bytes, checks, difference, workflow_id, run_id, attempt, step_id, produced_at, expires_at, coalesce(inputs, '{}'),
       coalesce(sources, '{}'), coalesce(mixed, false), coalesce(mixed_from, '{}'), payload, event_id, report_key,
       report_sequence, delivery, origin, change, coalesce(retired, false), code, column_versions
  FROM jsonb_to_recordset(%(rows)s) AS r (
        asset_id text, partition_key text, sequence bigint, data_version text, changed boolean, table_version bigint,
        base_version bigint, location jsonb, schema jsonb, rows bigint, bytes bigint, checks jsonb, difference jsonb,
        workflow_id bigint, run_id uuid, attempt integer, step_id text, produced_at timestamptz, expires_at timestamptz,
        inputs jsonb, sources jsonb, mixed boolean, mixed_from jsonb, payload jsonb, event_id uuid, report_key text,
        report_sequence bigint, delivery bigint, origin timestamptz, change bigint, retired boolean, code jsonb,
        column_versions jsonb)
 ORDER BY asset_id

-- name: note_commits
-- purpose: queue table versions for the Delta log
INSERT INTO table_commits (asset_id, partition_key, table_version, sequence, eligible_at)
SELECT asset_id, partition_key, table_version, sequence, freshline_now()
  FROM jsonb_to_recordset(%(rows)s) AS r (
        asset_id text, partition_key text, table_version bigint, sequence bigint, location jsonb)
 WHERE location ? 'files'
 ORDER BY asset_id
ON CONFLICT DO NOTHING

-- name: move_heads
-- purpose: make new snapshots current; a report that arrived out of order only moves last_sequence
INSERT INTO heads AS h (asset_id, partition_key, sequence, last_sequence, data_version, table_version, produced_at,
                        report_sequence, column_versions)
SELECT asset_id, partition_key, sequence, sequence, data_version, table_version, produced_at, report_sequence, column_versions
  FROM jsonb_to_recordset(%(rows)s) AS r (
        asset_id text, partition_key text, sequence bigint, data_version text, table_version bigint,
        produced_at timestamptz, report_sequence bigint, late boolean, column_versions jsonb)
 ORDER BY asset_id
ON CONFLICT (asset_id, partition_key) DO UPDATE
   SET last_sequence = excluded.sequence,
       retired_at = CASE WHEN %(late)s THEN h.retired_at END,
       sequence = CASE WHEN %(late)s THEN h.sequence ELSE excluded.sequence END,
       data_version = CASE WHEN %(late)s THEN h.data_version ELSE excluded.data_version END,
       column_versions = CASE WHEN %(late)s THEN h.column_versions ELSE excluded.column_versions END,
       table_version = CASE WHEN %(late)s THEN h.table_version ELSE excluded.table_version END,
       produced_at = CASE WHEN %(late)s THEN h.produced_at ELSE excluded.produced_at END,
       report_sequence = CASE WHEN %(late)s THEN h.report_sequence
                              ELSE coalesce(excluded.report_sequence, h.report_sequence) END

-- name: arm_timers
-- purpose: restart the freshness timers of produced assets; delete rows with neither a due time nor an expiry
INSERT INTO timers (asset_id, partition_key, kind, due_at, reason)
SELECT asset_id, partition_key, kind, due_at, reason
  FROM jsonb_to_recordset(%(timers)s) AS n (
        asset_id text, partition_key text, kind text, due_at timestamptz, reason text)
 ORDER BY asset_id, partition_key, kind
ON CONFLICT (asset_id, partition_key, kind) DO UPDATE
   SET due_at = excluded.due_at, reason = excluded.reason, expired_at = NULL, expired_reason = NULL, event_id = NULL

-- name: disarm_timers
-- purpose: delete the timers of assets that have no freshness of this kind
DELETE FROM timers t USING jsonb_to_recordset(%(timers)s) AS n (asset_id text, partition_key text, kind text)
 WHERE (t.asset_id, t.partition_key, t.kind) = (n.asset_id, n.partition_key, n.kind)

-- name: column_sets
-- purpose: read the sets of columns that consumers read of these assets, those with the most consumers first
SELECT asset_id, columns
  FROM (SELECT e.asset_id, e.columns, row_number() OVER (PARTITION BY e.asset_id ORDER BY count(*) DESC, e.columns) AS place
          FROM edges e JOIN workflows w ON w.id = e.workflow_id AND w.retired_at IS NULL
         WHERE e.asset_id = ANY (%(assets)s) AND e.columns IS NOT NULL AND NOT e.mapped
         GROUP BY e.asset_id, e.columns) s
 WHERE place <= %(most)s
 ORDER BY asset_id, place

-- name: pinned_columns
-- purpose: read the versions of the sets of columns that a run has read, from the snapshots that it was pinned to
SELECT s.asset_id, u.key, s.column_versions ->> u.key AS version
  FROM unnest(%(assets)s::text[], %(sequences)s::bigint[], %(keys)s::text[]) AS u (asset_id, sequence, key)
  JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (u.asset_id, '', u.sequence)
 WHERE s.column_versions ? u.key AND %(version)s = (SELECT version FROM workflows WHERE id = %(workflow)s)

-- name: note_read_columns
-- purpose: store which columns the current version of a workflow reads of its inputs; a hint, so it skips locked rows
WITH known AS (
    SELECT e.asset_id, r.columns
      FROM edges e
      JOIN workflows w ON w.id = e.workflow_id AND w.version = %(version)s
      LEFT JOIN jsonb_to_recordset(%(reads)s) AS r (asset_id text, columns text[]) ON r.asset_id = e.asset_id
     WHERE e.workflow_id = %(workflow)s AND NOT e.mapped AND e.columns IS DISTINCT FROM r.columns
     ORDER BY e.asset_id FOR UPDATE OF e SKIP LOCKED
)
UPDATE edges e SET columns = k.columns FROM known k WHERE (e.asset_id, e.workflow_id) = (k.asset_id, %(workflow)s)

-- name: record_success
-- purpose: store the consumed versions in the transaction that publishes the outputs, and reset failures
INSERT INTO workflow_partitions AS p (workflow_id, partition_key, consumed_versions, job_fingerprint, succeeded_at, success_cause,
                                      cause_repeats, mixed, runs_avoided, accepted, round, epoch)
VALUES (%(workflow)s, %(partition)s, %(consumed_versions)s,
        (SELECT v.job_fingerprint FROM workflow_versions v WHERE (v.workflow_id, v.version) = (%(workflow)s, %(version)s)), %(now)s, %(cause)s, 1, %(mixed)s, %(runs_avoided)s,
        %(accepted)s, %(round)s, %(epoch)s)
ON CONFLICT (workflow_id, partition_key) DO UPDATE
   SET consumed_versions = excluded.consumed_versions, job_fingerprint = excluded.job_fingerprint, succeeded_at = excluded.succeeded_at,
       cause_repeats = CASE WHEN p.success_cause = excluded.success_cause THEN p.cause_repeats + 1 ELSE 1 END,
       success_cause = excluded.success_cause, failures = 0, eligible_at = NULL, breaker_at = NULL, probed_versions = NULL,
       canceled = NULL, declined = NULL, accepted = excluded.accepted, round = excluded.round, epoch = excluded.epoch, waited_ms = 0, mixed = excluded.mixed,
       runs_avoided = p.runs_avoided + excluded.runs_avoided
RETURNING (SELECT o.breaker_at FROM workflow_partitions o
            WHERE o.workflow_id = %(workflow)s AND o.partition_key = %(partition)s) AS closed_breaker,
          -- How long the first change that it consumed had waited; null if it consumed none.
          (SELECT extract(epoch FROM %(now)s - min(n.produced_at))::float8
             FROM workflow_partitions o, jsonb_each(%(consumed_versions)s) v
             JOIN snapshots n ON (n.asset_id, n.partition_key) = (freshline_asset(v.key), freshline_key(v.key)) AND n.changed
            WHERE o.workflow_id = %(workflow)s AND o.partition_key = %(partition)s
              AND n.sequence > (o.consumed_versions -> v.key ->> 'sequence')::bigint
              AND n.sequence <= (v.value ->> 'sequence')::bigint) AS waited

-- name: record_dropped
-- purpose: reset failures after a success without outputs: its workflow owns none of them any more, so nothing is consumed
UPDATE workflow_partitions SET failures = 0, eligible_at = NULL, breaker_at = NULL, probed_versions = NULL
 WHERE workflow_id = %(workflow)s AND partition_key = %(partition)s

-- name: record_failure
-- purpose: count a failure; the cooldown doubles, and jitter only lengthens it (docs/semantics.md#R7.2)
INSERT INTO workflow_partitions AS p (workflow_id, partition_key, failures, failed_at, eligible_at, breaker_at, probed_versions)
VALUES (%(workflow)s, %(partition)s, 1, %(now)s,
        %(now)s + least(%(max_ms)s, %(base_ms)s) * %(jitter)s * interval '1 ms',
        CASE WHEN %(budget)s <= 1 THEN %(now)s::timestamptz END, %(probed_versions)s)
ON CONFLICT (workflow_id, partition_key) DO UPDATE
   SET failures = p.failures + 1, failed_at = %(now)s, probed_versions = %(probed_versions)s,
       eligible_at = %(now)s + least(%(max_ms)s, %(base_ms)s * 2.0 ^ least(p.failures, 40)) * %(jitter)s * interval '1 ms',
       breaker_at = CASE WHEN p.breaker_at IS NULL AND p.failures + 1 >= %(budget)s THEN %(now)s ELSE p.breaker_at END
RETURNING failures, eligible_at, breaker_at = %(now)s AS opened

-- name: record_canceled
-- purpose: store the versions of a run that a user canceled, so that it is not queued again for them
-- A run of a backfill that has ended leaves no mark: its partition runs again for any other cause.
INSERT INTO workflow_partitions (workflow_id, partition_key, canceled)
SELECT %(workflow)s, %(partition)s, c.canceled FROM (SELECT %(canceled)s::jsonb AS canceled) c
 WHERE NOT c.canceled ? 'backfillId'
    OR (SELECT b.ended_at IS NULL FROM backfills b WHERE b.id = (c.canceled ->> 'backfillId')::uuid)
ON CONFLICT (workflow_id, partition_key) DO UPDATE SET canceled = excluded.canceled

-- name: end_run
-- purpose: record the final state of a run
UPDATE runs SET status = %(status)s, finished_at = freshline_now(), lease_until = NULL, error = %(error)s,
                result = %(result)s, cancel_reason = coalesce(cancel_reason, %(cancel_reason)s), progress = NULL
 WHERE id = %(run)s

-- name: return_run
-- purpose: queue a run again on the same pins
UPDATE runs SET status = 'queued', lease_until = NULL, worker_id = NULL, progress = NULL, batch_id = NULL, batch_size = NULL,
                crashed = crashed || %(crashed)s::integer[],
                quiet = CASE WHEN %(quiet_from)s::timestamptz IS NOT NULL
                             THEN tstzrange(%(quiet_from)s::timestamptz, %(quiet_until)s::timestamptz) END
 WHERE id = %(run)s

-- name: halve_run
-- purpose: queue a run of a batch that failed again; its next batch is half as large
UPDATE runs SET status = 'queued', lease_until = NULL, worker_id = NULL, progress = NULL, batch_id = NULL, batch_size = NULL,
                crashed = '{}', batch_most = %(most)s, not_before = %(not_before)s,
                quiet = CASE WHEN %(quiet_from)s::timestamptz IS NOT NULL
                             THEN tstzrange(%(quiet_from)s::timestamptz, %(quiet_until)s::timestamptz) END
 WHERE id = %(run)s

-- name: drop_steps
-- purpose: forget what the steps of a batch have staged: its runs may be in other batches next
UPDATE run_steps SET status = 'lost', outputs = NULL, finished_at = coalesce(finished_at, freshline_now())
 WHERE run_id = %(run)s AND status IN ('running', 'succeeded')

-- name: excuse_run
-- purpose: record that the worker of this attempt lost its lease but did not crash
UPDATE runs SET crashed = array_remove(crashed, %(attempt)s::integer)
 WHERE id = %(run)s AND status IN ('queued', 'running') AND %(attempt)s = ANY (crashed)

-- name: lost_runs
-- purpose: find runs whose worker did not renew the lease
SELECT r.id::text, r.attempt FROM runs r
 WHERE r.status = 'running' AND r.lease_until < (SELECT freshline_now())
   AND (r.batch_id IS NULL OR r.batch_id = r.id) -- a leader brings the others of its batch along
 ORDER BY r.lease_until LIMIT %(batch)s FOR UPDATE SKIP LOCKED

-- name: run_status
-- purpose: read the state of a run, to resolve a commit whose answer was lost; wait for a transaction that is still open
SELECT status, attempt FROM runs WHERE id = %(run)s FOR SHARE

-- name: engines
-- purpose: read whether a project's workflows need Spark, plain Python, or both
SELECT DISTINCT v.needs_spark FROM workflows w
  JOIN workflow_versions v ON (v.workflow_id, v.version) = (w.id, w.version)
 WHERE w.project = %(project)s AND w.retired_at IS NULL ORDER BY v.needs_spark

-- name: locations
-- purpose: read where the data of a run's published outputs is
SELECT location FROM snapshots
 WHERE run_id = ANY (ARRAY(SELECT id FROM runs WHERE batch_id = %(run)s) || %(run)s::uuid) AND location IS NOT NULL

-- name: secret_names
-- purpose: read the names of the variables that workflows and watches declare as secrets, and of those that hold addresses of alerts
SELECT jsonb_array_elements_text(v.definition -> 'secrets') AS name FROM workflows w
  JOIN workflow_versions v ON (v.workflow_id, v.version) = (w.id, w.version)
UNION
SELECT t.target ->> 'env' FROM alert_rules r, jsonb_array_elements(r.targets) AS t (target) WHERE t.target ? 'env'
UNION
SELECT jsonb_array_elements_text(spec -> 'secrets') FROM watches WHERE jsonb_typeof(spec -> 'secrets') = 'array'
UNION
SELECT jsonb_path_query(spec, '$.**.env') #>> '{}' FROM watches
 ORDER BY name

-- name: spark_waits
-- purpose: read whether a queued run of a project needs Spark
SELECT 1 AS found FROM runs WHERE status = 'queued' AND project = %(project)s AND needs_spark LIMIT 1

-- name: triggered_by
-- purpose: count the automatic workflows that a change of these assets would run
SELECT count(DISTINCT e.workflow_id) AS workflows FROM edges e
 CROSS JOIN LATERAL (SELECT FROM workflows w WHERE w.id = e.workflow_id AND w.automatic AND w.retired_at IS NULL LIMIT 1) w
 WHERE e.triggers AND e.asset_id = ANY (%(assets)s)
