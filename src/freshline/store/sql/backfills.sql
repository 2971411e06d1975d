-- name: create_backfill
-- purpose: insert a backfill; its time is that of the statement, the last one that reads the clock before the commit
INSERT INTO backfills (id, project, asset_id, status, requested_by, requested_at, request_key, selection, upstream, downstream,
                       kind, batch, concurrency, newest_first, not_before, during_quiet_hours, priority, partial)
VALUES (%(id)s, %(project)s, %(asset)s, 'active', %(requested_by)s, freshline_now(), %(key)s, %(selection)s, %(upstream)s,
        %(downstream)s, %(only)s, %(batch)s, %(concurrency)s, %(newest_first)s, %(not_before)s, %(during_quiet_hours)s,
        %(priority)s, %(partial)s)
RETURNING requested_at

-- name: create_parts
-- purpose: insert the parts of a backfill, one per workflow, with the versions of now
INSERT INTO backfill_workflows (backfill_id, workflow_id, version, selection, rest, total)
SELECT %(id)s, r.workflow_id, w.version, r.selection, r.selection, r.total
  FROM jsonb_to_recordset(%(parts)s) AS r (workflow_id bigint, selection jsonb, total integer)
  JOIN workflows w ON w.id = r.workflow_id AND w.retired_at IS NULL
 ORDER BY r.workflow_id

-- name: requested_backfill
-- purpose: find the backfill that was requested with a key
SELECT id::text, asset_id, selection FROM backfills WHERE request_key = %(key)s

-- name: lock_backfill
-- purpose: lock a backfill; whoever changes it, or gives turns to its partitions, does this first
SELECT b.*, b.id::text AS id, freshline_now() AS now FROM backfills b WHERE b.id = %(id)s FOR NO KEY UPDATE

-- name: active_backfills
-- purpose: read the ids of active backfills, the oldest first
SELECT id::text FROM backfills WHERE ended_at IS NULL AND status = 'active' ORDER BY requested_at LIMIT %(most)s

-- name: claim_backfill
-- purpose: lock an active backfill that no other process is advancing
SELECT b.*, b.id::text AS id, freshline_now() AS now, (SELECT epoch FROM installation) AS epoch
  FROM backfills b WHERE b.id = %(id)s AND b.status = 'active' FOR NO KEY UPDATE SKIP LOCKED

-- name: set_status
-- purpose: move a backfill to another state
WITH parts AS (
    UPDATE backfill_workflows SET open = %(open)s WHERE backfill_id = %(id)s::uuid AND open <> %(open)s
)
UPDATE backfills SET status = %(status)s, ended_at = CASE WHEN NOT %(open)s THEN freshline_now() END WHERE id = %(id)s

-- name: lock_considerations
-- purpose: wait for reconcilers that evaluate partitions of a backfill, so that runs that they queue are seen
SELECT FROM considerations c
 WHERE (c.workflow_id, c.partition_key) IN (
           SELECT p.workflow_id, p.partition_key FROM backfill_partitions p WHERE p.backfill_id = %(id)s::uuid AND p.state = 'open')
 ORDER BY c.workflow_id, c.partition_key FOR UPDATE

-- name: end_queued
-- purpose: cancel the queued runs of a backfill that no worker has started; no mark keeps them from running for another cause
WITH ended AS (
    UPDATE runs SET status = 'canceled', finished_at = freshline_now(), cancel_reason = %(reason)s
     WHERE id IN (SELECT id FROM runs
                   WHERE trigger ->> 'backfillId' = %(id)s::uuid::text AND trigger_type = 'backfill' AND status = 'queued'
                   ORDER BY workflow_id, partition_key, id FOR UPDATE)
    RETURNING id, workflow_id, partition_key, trigger
), told AS (
    INSERT INTO events (id, time, type, subject, data)
    SELECT freshline_id(), freshline_now(), 'workflow.run.canceled', w.slug,
           jsonb_build_object('workflowSlug', w.slug, 'workflowId', w.id, 'runId', e.id, 'partitionKey', e.partition_key,
                              'trigger', e.trigger, 'reason', %(reason)s::text)
      FROM ended e JOIN workflows w ON w.id = e.workflow_id
)
SELECT count(*) AS ended FROM ended

-- name: kill_running
-- purpose: ask the workers of the running runs of a backfill to stop
UPDATE runs SET cancel_at = freshline_now(), cancel_reason = %(reason)s
 WHERE id IN (SELECT id FROM runs
               WHERE trigger ->> 'backfillId' = %(id)s::uuid::text AND trigger_type = 'backfill' AND status = 'running'
                 AND cancel_at IS NULL
               ORDER BY workflow_id, partition_key, id FOR UPDATE)

-- name: note_open
-- purpose: let the open partitions of a backfill be evaluated, in key order
INSERT INTO considerations AS c (workflow_id, partition_key, not_before, class, noted_at, origin)
SELECT p.workflow_id, p.partition_key, m.now, 'sweep', m.now, %(origin)s
  FROM backfill_partitions p JOIN workflows w ON w.id = p.workflow_id AND w.retired_at IS NULL,
       (SELECT freshline_now() AS now) m
 WHERE p.backfill_id = %(id)s::uuid AND p.state = 'open'
 ORDER BY p.workflow_id, p.partition_key
ON CONFLICT (workflow_id, partition_key) DO UPDATE
   SET not_before = least(c.not_before, excluded.not_before), evaluations = 0

-- name: drop_open
-- purpose: forget the open partitions of a backfill that ended
DELETE FROM backfill_partitions WHERE backfill_id = %(id)s::uuid AND state IN ('open', 'done')

-- name: retry_partitions
-- purpose: open the failed and refused partitions of a backfill again; return them, and those that failed and are still open
WITH again AS (
    UPDATE backfill_partitions SET state = 'open' WHERE backfill_id = %(id)s::uuid AND state IN ('failed', 'refused')
    RETURNING workflow_id, partition_key
)
SELECT workflow_id, partition_key FROM again
UNION ALL
SELECT b.workflow_id, b.partition_key
  FROM backfill_partitions b
  JOIN workflow_partitions p USING (workflow_id, partition_key)
 WHERE b.backfill_id = %(id)s::uuid AND b.state = 'open' AND p.failures > 0

-- name: clear_failures
-- purpose: end cooldowns and breakers of partitions, and allow canceled runs again
UPDATE workflow_partitions p
   SET failures = 0, eligible_at = NULL, breaker_at = NULL, probed_versions = NULL, canceled = NULL, cause_repeats = 0,
       success_cause = NULL
 WHERE (p.workflow_id, p.partition_key) IN (SELECT * FROM unnest(%(workflows)s::bigint[], %(partitions)s::text[]))

-- name: tally
-- purpose: count the partitions of a backfill that are done, and forget them
WITH ended AS (
    DELETE FROM backfill_partitions WHERE backfill_id = %(id)s::uuid AND state = 'done' RETURNING workflow_id, partition_key
), unlisted AS (
    DELETE FROM proposed_partitions l USING ended e
     WHERE l.backfill_id = %(id)s::uuid AND (l.workflow_id, l.partition_key) = (e.workflow_id, e.partition_key)
), counted AS (
    SELECT workflow_id, count(*)::integer AS done FROM ended GROUP BY workflow_id
), parts AS (
    UPDATE backfill_workflows w SET done = w.done + c.done
      FROM counted c WHERE w.backfill_id = %(id)s::uuid AND w.workflow_id = c.workflow_id
), stamped AS (
    UPDATE backfills SET progressed_at = freshline_now() WHERE id = %(id)s AND EXISTS (SELECT FROM counted)
)
SELECT coalesce(sum(done), 0)::integer AS done FROM counted

-- name: parts
-- purpose: read the parts of a backfill with their counts
SELECT p.workflow_id, w.slug, p.version, p.selection, p.rest, p.total, p.done, w.retired_at IS NOT NULL AS retired,
       (SELECT count(*) FROM backfill_partitions x WHERE x.backfill_id = p.backfill_id AND x.workflow_id = p.workflow_id
           AND x.state = 'failed')::integer AS failed,
       (SELECT count(*) FROM backfill_partitions x WHERE x.backfill_id = p.backfill_id AND x.workflow_id = p.workflow_id
           AND x.state = 'refused')::integer AS refused,
       (SELECT count(*) FROM backfill_partitions x WHERE x.backfill_id = p.backfill_id AND x.workflow_id = p.workflow_id
           AND x.state = 'open')::integer AS open
  FROM backfill_workflows p JOIN workflows w ON w.id = p.workflow_id
 WHERE p.backfill_id = %(id)s::uuid
 ORDER BY p.workflow_id

-- name: places
-- purpose: count the partitions of a backfill by workflow that take places: of active runs, and open ones not evaluated yet
SELECT w.id AS workflow_id, w.policy ->> 'batch' = 'true' AS batch,
       (SELECT count(*) FROM runs r
         WHERE r.trigger ->> 'backfillId' = %(id)s::uuid::text AND r.trigger_type = 'backfill'
           AND r.status IN ('queued', 'running') AND r.workflow_id = w.id)
       + (SELECT count(*) FROM backfill_partitions p
            JOIN considerations c ON (c.workflow_id, c.partition_key) = (p.workflow_id, p.partition_key)
           WHERE p.backfill_id = %(id)s::uuid AND p.workflow_id = w.id AND p.state = 'open'
             AND c.not_before <= freshline_now()
             AND NOT EXISTS (SELECT FROM runs r WHERE (r.workflow_id, r.partition_key) = (p.workflow_id, p.partition_key)
                                AND r.status IN ('queued', 'running'))) AS taken
  FROM backfill_workflows b JOIN workflows w ON w.id = b.workflow_id
 WHERE b.backfill_id = %(id)s::uuid

-- name: open_partitions
-- purpose: insert partitions whose turn has come
INSERT INTO backfill_partitions (backfill_id, workflow_id, partition_key)
SELECT %(id)s, * FROM unnest(%(workflows)s::bigint[], %(partitions)s::text[])
ON CONFLICT DO NOTHING

-- name: note_turns
-- purpose: let partitions whose turn has come be evaluated, in key order; the origin is the time of the request
INSERT INTO considerations AS c (workflow_id, partition_key, not_before, class, noted_at, origin)
SELECT n.workflow_id, n.partition_key, m.now, 'sweep', m.now, %(origin)s
  FROM unnest(%(workflows)s::bigint[], %(partitions)s::text[]) AS n (workflow_id, partition_key)
  JOIN workflows w ON w.id = n.workflow_id AND w.retired_at IS NULL,
       (SELECT freshline_now() AS now) m
 ORDER BY n.workflow_id, n.partition_key
ON CONFLICT (workflow_id, partition_key) DO UPDATE
   SET not_before = least(c.not_before, excluded.not_before), evaluations = 0, origin = least(c.origin, excluded.origin)

-- name: set_rest
-- purpose: store the partitions whose turn has not come
UPDATE backfill_workflows w SET rest = r.rest
  FROM jsonb_to_recordset(%(parts)s) AS r (workflow_id bigint, rest jsonb)
 WHERE w.backfill_id = %(id)s::uuid AND w.workflow_id = r.workflow_id

-- name: succeeded_keys
-- purpose: read the partitions of a workflow that have a success
SELECT partition_key FROM workflow_partitions WHERE workflow_id = %(workflow)s AND succeeded_at IS NOT NULL

-- name: failed_keys
-- purpose: read the partitions of a workflow whose last automatic run failed
SELECT partition_key FROM workflow_partitions WHERE workflow_id = %(workflow)s AND failures > 0

-- name: record_states
-- purpose: record how the demands of backfills for partitions have ended
UPDATE backfill_partitions p SET state = n.state
  FROM jsonb_to_recordset(%(ended)s) AS n (backfill_id uuid, workflow_id bigint, partition_key text, state text)
 WHERE (p.workflow_id, p.partition_key, p.backfill_id) = (n.workflow_id, n.partition_key, n.backfill_id) AND p.state = 'open'

-- name: demands_of
-- purpose: read the open backfills of a workflow, when one of its runs is published
SELECT p.backfill_id::text AS id, p.version, p.selection, b.requested_at, b.kind
  FROM backfill_workflows p JOIN backfills b ON b.id = p.backfill_id
 WHERE p.workflow_id = %(workflow)s AND p.open AND b.status IN ('active', 'paused')

-- name: run_and_outputs
-- purpose: read when a run started, and how its outputs are divided
SELECT r.started_at, r.version, r.partition_key,
       (SELECT a.partitioning FROM assets a WHERE a.producer_id = r.workflow_id ORDER BY a.id LIMIT 1) AS partitioning
  FROM runs r WHERE r.id = %(run)s

-- name: pinned_parts
-- purpose: read which pins of a run belong to workflows of a backfill and were not made for it, and have not ended otherwise
SELECT s.asset_id, s.partition_key, p.selection, a.partitioning
  FROM (SELECT y.asset_id, y.partition_key, y.backfills
          FROM unnest(%(assets)s::text[], %(keys)s::text[], %(sequences)s::bigint[]) AS x (asset_id, partition_key, sequence)
          JOIN snapshots y ON (y.asset_id, y.partition_key, y.sequence) = (x.asset_id, x.partition_key, x.sequence)
        UNION ALL -- partitions that are read as one: of each, the head at the pinned change
        SELECT z.asset_id, z.partition_key, z.backfills
          FROM unnest(%(wholes)s::text[], %(changes)s::bigint[]) AS x (asset_id, change)
         CROSS JOIN LATERAL (SELECT DISTINCT ON (y.partition_key) y.asset_id, y.partition_key, y.backfills
                               FROM snapshots y WHERE y.asset_id = x.asset_id AND y.change <= x.change
                              ORDER BY y.partition_key, y.change DESC) z) s
  JOIN assets a ON a.id = s.asset_id
  JOIN backfill_workflows p ON p.backfill_id = %(id)s::uuid AND p.workflow_id = a.producer_id
 WHERE NOT coalesce(s.backfills @> ARRAY[%(id)s::uuid], false)
   AND NOT EXISTS (SELECT FROM backfill_partitions e
                    WHERE (e.workflow_id, e.partition_key, e.backfill_id) = (p.workflow_id, s.partition_key, p.backfill_id)
                      AND e.state IN ('failed', 'refused'))

-- name: satisfy
-- purpose: record for which backfills a success counts, with what it published
WITH made AS (
    UPDATE snapshots SET backfills = %(ids)s::uuid[] WHERE run_id = %(run)s
)
UPDATE workflow_partitions p
   SET backfills = %(ids)s::uuid[] || ARRAY(SELECT b.id FROM unnest(p.backfills) AS x (id) JOIN backfills b ON b.id = x.id
                                             WHERE b.ended_at IS NULL AND NOT b.id = ANY (%(ids)s::uuid[]))
 WHERE (p.workflow_id, p.partition_key) = (%(workflow)s, %(partition)s)

-- name: list_backfills
-- purpose: read backfills, the newest first
SELECT b.*, freshline_now() AS now FROM backfills b
 WHERE (%(status)s::text[] IS NULL OR b.status = ANY (%(status)s)) AND (%(asset)s::text IS NULL OR b.asset_id = %(asset)s)
   AND (%(after)s::uuid IS NULL OR (b.requested_at, b.id) < (SELECT a.requested_at, a.id FROM backfills a WHERE a.id = %(after)s))
 ORDER BY b.requested_at DESC, b.id DESC LIMIT %(limit)s

-- name: find_backfill
-- purpose: read one backfill
SELECT b.*, freshline_now() AS now FROM backfills b WHERE b.id = %(id)s

-- name: part_counts
-- purpose: read the parts of backfills with their counts by state
SELECT p.backfill_id::text AS id, w.slug, p.workflow_id, p.version, p.selection, p.rest, p.total, p.done,
       coalesce(x.failed, 0) AS failed, coalesce(x.refused, 0) AS refused, coalesce(x.running, 0) AS running,
       coalesce(x.queued, 0) AS queued, coalesce(x.open, 0) - coalesce(x.running, 0) - coalesce(x.queued, 0) AS waiting,
       coalesce(x.unseen, 0) AS unseen, x.eligible_at
  FROM backfill_workflows p
  JOIN workflows w ON w.id = p.workflow_id
  LEFT JOIN LATERAL (
      SELECT count(*) FILTER (WHERE y.state = 'failed')::integer AS failed,
             count(*) FILTER (WHERE y.state = 'refused')::integer AS refused,
             count(*) FILTER (WHERE y.state = 'done')::integer AS unseen,
             count(*) FILTER (WHERE y.state = 'open')::integer AS open,
             count(*) FILTER (WHERE y.state = 'open' AND r.status = 'running')::integer AS running,
             count(*) FILTER (WHERE y.state = 'open' AND r.status = 'queued')::integer AS queued,
             -- When the last open partition that failed is tried again.
             max((SELECT f.eligible_at FROM workflow_partitions f WHERE y.state = 'open'
                     AND (f.workflow_id, f.partition_key) = (y.workflow_id, y.partition_key))) AS eligible_at
        FROM backfill_partitions y
        LEFT JOIN LATERAL (SELECT z.status FROM runs z
                            WHERE (z.workflow_id, z.partition_key) = (y.workflow_id, y.partition_key)
                              AND z.status IN ('queued', 'running') ORDER BY z.status = 'running' DESC LIMIT 1) r ON true
       WHERE y.backfill_id = p.backfill_id AND y.workflow_id = p.workflow_id) x ON true
 WHERE p.backfill_id = ANY (%(ids)s::uuid[])
 ORDER BY p.backfill_id, p.workflow_id

-- name: ended_badly
-- purpose: read the first partitions of a backfill that failed or were refused
SELECT w.slug, p.partition_key, p.state FROM backfill_partitions p JOIN workflows w ON w.id = p.workflow_id
 WHERE p.backfill_id = %(id)s::uuid AND p.state IN ('failed', 'refused')
 ORDER BY w.slug, p.partition_key LIMIT %(limit)s

-- name: durations
-- purpose: read how long runs of workflows took lately
SELECT w.id AS workflow_id,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY x.ms)::bigint AS p50, percentile_cont(0.95) WITHIN GROUP (ORDER BY x.ms)::bigint AS p95
  FROM unnest(%(workflows)s::bigint[]) AS w (id)
 CROSS JOIN LATERAL (SELECT extract(epoch FROM r.finished_at - r.started_at) * 1000 AS ms FROM runs r
                      WHERE r.workflow_id = w.id AND r.status = 'succeeded' AND (r.batch_id IS NULL OR r.batch_id = r.id)
                      ORDER BY r.queued_at DESC LIMIT 200) x
 GROUP BY w.id

-- name: frozen_after
-- purpose: read after which time partitions of workflows do not run by themselves; few workflows have such a time
SELECT id, (policy ->> 'frozen_after_ms')::bigint AS frozen_after_ms FROM workflows
 WHERE policy -> 'frozen_after_ms' IS NOT NULL AND retired_at IS NULL

-- name: sizes
-- purpose: add up the rows and bytes of the current versions of partitions, per workflow
SELECT u.workflow_id, sum(s.rows)::bigint AS rows, sum(s.bytes)::bigint AS bytes
  FROM unnest(%(workflows)s::bigint[], %(keys)s::text[]) u (workflow_id, partition_key)
  JOIN assets a ON a.producer_id = u.workflow_id
  JOIN heads h ON (h.asset_id, h.partition_key) = (a.id, u.partition_key) AND h.retired_at IS NULL
  JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
 GROUP BY u.workflow_id

-- name: partition_states
-- purpose: read the states of the partitions of a backfill that had their turn and are not counted as done
SELECT p.workflow_id, p.partition_key,
       CASE WHEN p.state <> 'open' THEN p.state ELSE coalesce((
           SELECT r.status FROM runs r WHERE (r.workflow_id, r.partition_key) = (p.workflow_id, p.partition_key)
              AND r.status IN ('queued', 'running') ORDER BY r.status = 'running' DESC LIMIT 1), 'waiting') END AS state
  FROM backfill_partitions p WHERE p.backfill_id = %(id)s::uuid

-- name: prune_partitions
-- purpose: delete a page of the partitions of backfills that ended long ago
DELETE FROM backfill_partitions WHERE ctid = ANY (ARRAY(
    SELECT p.ctid FROM backfills b JOIN backfill_partitions p ON p.backfill_id = b.id
     WHERE b.ended_at < freshline_now() - make_interval(days => %(days)s) LIMIT %(batch)s))

-- name: prune_backfills
-- purpose: delete a page of backfills that ended long ago and have no rows of partitions any more
DELETE FROM backfills WHERE id IN (
    SELECT b.id FROM backfills b
     WHERE b.ended_at < freshline_now() - make_interval(days => %(days)s)
       AND NOT EXISTS (SELECT FROM backfill_partitions p WHERE p.backfill_id = b.id)
     ORDER BY b.ended_at LIMIT %(batch)s)

-- name: count_open
-- purpose: count the backfills that have not ended, up to a limit
SELECT count(*) AS count FROM (SELECT FROM backfills WHERE ended_at IS NULL LIMIT %(most)s) b

-- name: refuse_retired
-- purpose: refuse the open partitions of workflows that were retired: nothing evaluates them any more
UPDATE backfill_partitions p SET state = 'refused'
  FROM workflows w
 WHERE p.backfill_id = %(id)s::uuid AND p.state = 'open' AND w.id = p.workflow_id AND w.retired_at IS NOT NULL

-- name: project_of
-- purpose: read the project of a workflow
SELECT project FROM workflows WHERE id = %(workflow)s

-- name: hurry_one
-- purpose: let one queued run of a backfill compete with all others after a minute, while none of its runs is running
UPDATE runs r SET urgency = extract(epoch FROM r.queued_at) + 1000
 WHERE r.status = 'queued'
   AND r.id = (SELECT q.id FROM runs q
                WHERE q.trigger ->> 'backfillId' = %(id)s::uuid::text AND q.trigger_type = 'backfill' AND q.status = 'queued'
                  AND q.queued_at <= freshline_now() - interval '1 minute'
                ORDER BY q.urgency, q.id LIMIT 1)
   AND r.urgency > extract(epoch FROM r.queued_at) + 1000
   AND NOT EXISTS (SELECT FROM runs x WHERE x.trigger ->> 'backfillId' = %(id)s::uuid::text AND x.trigger_type = 'backfill'
                      AND x.status = 'running')

-- name: batching
-- purpose: read which steps of workflows compute several partitions in one run
SELECT w.id AS workflow_id, s.step ->> 'id' AS step_id, coalesce((s.step ->> 'batch')::boolean, false) AS batch
  FROM workflows w JOIN workflow_versions v ON (v.workflow_id, v.version) = (w.id, w.version)
 CROSS JOIN LATERAL jsonb_array_elements(v.definition -> 'steps') WITH ORDINALITY AS s (step, ordinal)
 WHERE w.id = ANY (%(workflows)s::bigint[])
 ORDER BY w.id, s.ordinal
