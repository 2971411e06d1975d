-- name: facts
-- purpose: read what keeps these workflows from being fresh; of several partitions, what a user must end comes first
WITH asked AS (
    SELECT * FROM workflows WHERE slug = ANY(%(slugs)s) AND retired_at IS NULL
), held AS (
    SELECT DISTINCT ON (k.workflow_id) k.* FROM considerations k JOIN asked w ON w.id = k.workflow_id
    ORDER BY k.workflow_id,
             coalesce(array_position(ARRAY['paused', 'canceled', 'breaker-open', 'backfill-proposed', 'input-retired'],
                                     k.hold), 9),
             k.hold IS NULL, k.not_before
), active AS (
    SELECT DISTINCT ON (r.workflow_id) r.workflow_id, r.id, r.status, coalesce(r.started_at, r.queued_at) AS since
    FROM runs r JOIN asked w ON w.id = r.workflow_id WHERE r.status IN ('queued', 'running')
    ORDER BY r.workflow_id, r.status DESC, r.queued_at
), failed AS (
    SELECT p.workflow_id, min(p.eligible_at) AS eligible_at, min(p.breaker_at) AS breaker_at
    FROM workflow_partitions p JOIN asked w ON w.id = p.workflow_id WHERE p.failures > 0 GROUP BY p.workflow_id
), proposed AS (
    SELECT DISTINCT ON (x.workflow_id) x.workflow_id, b.id
    FROM backfills b JOIN backfill_workflows x ON x.backfill_id = b.id
    WHERE b.ended_at IS NULL AND b.status = 'proposed' ORDER BY x.workflow_id, b.requested_at
)
SELECT w.id, w.slug, w.automatic, w.applied_at, w.paused_at, w.paused_until, k.hold, k.noted_at, k.not_before, k.blocks_until,
       b.slug AS blocker, r.id::text AS run_id, r.status, r.since AS run_since, f.eligible_at, f.breaker_at,
       p.id::text AS proposal, k.workflow_id IS NOT NULL AND k.hold IS NULL AS due
FROM asked w
LEFT JOIN held k ON k.workflow_id = w.id
LEFT JOIN workflows b ON b.id = k.blocker_id
LEFT JOIN active r ON r.workflow_id = w.id
LEFT JOIN failed f ON f.workflow_id = w.id
LEFT JOIN proposed p ON p.workflow_id = w.id

-- name: other_failures
-- purpose: read the last failed runs of these workflows, of the last partition that fails
SELECT w.id, w.slug, w.project, r.id::text AS run_id, r.partition_key, r.error ->> 'code' AS code,
       left(r.error ->> 'message', 1000) AS message, r.finished_at AS since,
       ARRAY(SELECT a.id FROM assets a WHERE a.producer_id = w.id ORDER BY a.id) AS outputs
FROM workflows w
LEFT JOIN LATERAL (
    SELECT p.partition_key FROM workflow_partitions p WHERE p.workflow_id = w.id AND p.failures > 0
    ORDER BY p.partition_key DESC LIMIT 1
) p ON true
CROSS JOIN LATERAL (
    SELECT x.* FROM runs x
    WHERE x.workflow_id = w.id AND x.partition_key = coalesce(p.partition_key, x.partition_key) AND x.status = 'failed'
    ORDER BY x.queued_at DESC LIMIT 1
) r
WHERE w.slug = ANY(%(slugs)s) AND w.retired_at IS NULL

-- name: first_failures
-- purpose: read since when these workflows fail: the first failed run after the last success
SELECT w.slug, min(r.finished_at) AS since
FROM workflows w
JOIN runs r ON r.workflow_id = w.id AND r.status = 'failed'
LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (w.id, r.partition_key)
WHERE w.slug = ANY(%(slugs)s) AND r.queued_at > coalesce(p.succeeded_at, '-infinity')
GROUP BY w.slug

-- name: unreported_sources
-- purpose: read the sources without data that a workflow reads, with the last look of their watchers
SELECT s.id, l.asset_id IS NOT NULL AS watched, l.error,
       s.declaration ->> 'mode' = 'append' AND s.declaration -> 'location' <> 'null' IS TRUE AS append,
       s.partitioning IS NOT NULL AS partitioned, c.since
FROM assets s
LEFT JOIN watches l ON l.asset_id = s.id
CROSS JOIN LATERAL (
    SELECT min(w.created_at) AS since FROM edges e JOIN workflows w ON w.id = e.workflow_id AND w.retired_at IS NULL
    WHERE e.asset_id = s.id
) c
WHERE s.producer_id IS NULL AND c.since IS NOT NULL AND NOT EXISTS (SELECT FROM heads h WHERE h.asset_id = s.id)

-- name: reported_sources
-- purpose: read how these sources are reported
SELECT s.id, s.declaration ->> 'mode' = 'append' AND s.declaration -> 'location' <> 'null' IS TRUE AS append,
       s.partitioning IS NOT NULL AS partitioned, EXISTS (SELECT FROM watches l WHERE l.asset_id = s.id) AS watched
FROM assets s WHERE s.id = ANY(%(assets)s) AND s.producer_id IS NULL

-- name: promises
-- purpose: count the assets that promise a greatest age, and those that are older
SELECT count(*) AS promised, count(*) FILTER (WHERE x.late) AS overdue
FROM (SELECT EXISTS (SELECT FROM timers t WHERE t.asset_id = a.id AND t.kind = 'overdue' AND t.expired_at IS NOT NULL) AS late
      FROM assets a WHERE a.declaration #>> '{freshness,maxAgeMs}' IS NOT NULL) x

-- name: counts
-- purpose: count active runs, processes and watches
SELECT r.running, r.queued, p.materializers, p.workers, p.apis, p.silent, w.total AS watches, w.failing, w.stopped
FROM (SELECT count(*) FILTER (WHERE status = 'running') AS running, count(*) FILTER (WHERE status = 'queued') AS queued
      FROM runs WHERE status IN ('queued', 'running')) r,
     (SELECT count(*) FILTER (WHERE live AND kind = 'materializer') AS materializers,
             count(*) FILTER (WHERE live AND kind = 'worker') AS workers,
             count(*) FILTER (WHERE live AND kind = 'api') AS apis, count(*) FILTER (WHERE NOT live) AS silent
      FROM (SELECT kind, seen_at > freshline_now() - %(grace)s * interval '1 millisecond' AS live
            FROM workers WHERE stopped_at IS NULL) x) p,
     (SELECT count(*) AS total, count(*) FILTER (WHERE failures > 0) AS failing, count(breaker_at) AS stopped
      FROM watches) w

-- name: ended_runs
-- purpose: count the runs that ended since a time, and the runs that their identical outputs avoided
-- Only runs that were queued in the last week are looked at: the index is about that.
WITH ended AS MATERIALIZED (
    SELECT status, result -> 'unchanged' AS unchanged FROM runs
    WHERE queued_at >= %(since)s - interval '6 days' AND finished_at >= %(since)s AND status IN ('succeeded', 'failed')
), same AS (
    SELECT unchanged, count(*) AS times FROM ended
    WHERE status = 'succeeded' AND jsonb_array_length(unchanged) > 0 GROUP BY unchanged
)
SELECT count(*) FILTER (WHERE status = 'succeeded') AS succeeded, count(*) FILTER (WHERE status = 'failed') AS failed,
       coalesce((SELECT sum(s.times * (
           SELECT count(DISTINCT e.workflow_id) FROM edges e
           JOIN workflows w ON w.id = e.workflow_id AND w.automatic AND w.retired_at IS NULL
           WHERE e.triggers AND s.unchanged ? e.asset_id)) FROM same s), 0)::bigint AS avoided
FROM ended

-- name: recent_versions
-- purpose: count the snapshots since a time, from the events about them, of which only the last days are read
SELECT count(DISTINCT subject) FILTER (WHERE changed) AS assets, count(*) FILTER (WHERE changed) AS versions,
       count(*) FILTER (WHERE NOT changed) AS identical
FROM (SELECT subject, coalesce((data ->> 'changed')::boolean, true) AS changed FROM events
      WHERE time >= %(since)s AND type = 'asset.produced') e

-- name: recent_definitions
-- purpose: read the versions of workflows that were applied since a time, newest first
SELECT w.slug, v.version AS "workflowVersion", v.applied_at AS "appliedAt"
FROM workflow_versions v JOIN workflows w ON w.id = v.workflow_id
WHERE v.applied_at >= %(since)s ORDER BY v.applied_at DESC, w.slug LIMIT %(limit)s

-- name: recent_failures
-- purpose: read the first outputs of workflows that fail, and did not fail at a time
SELECT min(a.id) AS id
FROM workflow_partitions p
JOIN workflows w ON w.id = p.workflow_id AND w.retired_at IS NULL
JOIN assets a ON a.producer_id = w.id
WHERE p.failures > 0 AND p.failed_at >= %(since)s
  AND NOT EXISTS (SELECT FROM runs r WHERE (r.workflow_id, r.partition_key) = (p.workflow_id, p.partition_key)
                  AND r.status = 'failed' AND r.queued_at > coalesce(p.succeeded_at, '-infinity')
                  AND r.finished_at < %(since)s)
GROUP BY w.id ORDER BY 1 LIMIT %(limit)s

-- name: recent_changes
-- purpose: count the entries of the audit since a time
SELECT count(*) AS changes FROM audit WHERE at >= %(since)s
