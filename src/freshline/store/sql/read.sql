-- name: runs
-- purpose: read a page of runs, or the runs with these ids, newest first; `after` is the last run of the previous page
SELECT r.id, w.slug AS "workflowSlug", r.partition_key AS "partitionKey", r.status, r.attempt, r.trigger, r.priority,
       r.mixed, r.mixed_upstream AS "mixedUpstream", r.parameters, r.pins, r.version AS "workflowVersion",
       r.queued_at AS "queuedAt", r.started_at AS "startedAt", r.finished_at AS "finishedAt", r.error, r.result, r.progress,
       r.worker_id AS "workerId", r.lease_until AS "leaseUntil", r.cancel_reason AS "cancelReason",
       r.decision_id AS "decisionId", r.batch_id AS "batchId",
       CASE WHEN r.batch_id = r.id THEN (SELECT jsonb_agg(x.partition_key ORDER BY x.partition_key) FROM runs x
                                          WHERE x.batch_id = r.id)
            WHEN r.partition_key = '' THEN '[]'
            ELSE jsonb_build_array(r.partition_key) END AS "partitionKeys"
FROM runs r JOIN workflows w ON w.id = r.workflow_id
WHERE (%(ids)s::uuid[] IS NULL OR r.id = ANY(%(ids)s))
  AND (%(status)s::text IS NULL OR r.status = %(status)s)
  AND (%(workflows)s::bigint[] IS NULL OR r.workflow_id = ANY(%(workflows)s))
  AND (%(partition)s::text IS NULL OR r.partition_key = %(partition)s)
  AND (%(trigger)s::text IS NULL OR r.trigger_type = %(trigger)s)
  AND (%(since)s::timestamptz IS NULL OR r.queued_at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR r.queued_at < %(until)s)
  AND (%(after)s::uuid IS NULL OR (r.queued_at, r.id) < (SELECT a.queued_at, a.id FROM runs a WHERE a.id = %(after)s))
ORDER BY r.queued_at DESC, r.id DESC
LIMIT %(limit)s

-- name: moving_runs
-- purpose: find the runs that a follower may not have seen: active ones, tracked ones, and recently queued ones
SELECT id FROM runs
WHERE (status IN ('queued', 'running') OR id = ANY(%(tracked)s) OR queued_at >= %(since)s)
  AND (%(workflow)s::bigint IS NULL OR workflow_id = %(workflow)s)
  AND (%(partition)s::text IS NULL OR partition_key = %(partition)s)

-- name: steps
-- purpose: read the tries of the steps of these runs
SELECT run_id AS "runId", step_id AS "stepId", attempt, try, status, started_at AS "startedAt",
       finished_at AS "finishedAt", metrics, error
FROM run_steps
WHERE run_id = ANY(%(ids)s)
ORDER BY run_id, started_at, attempt, try

-- name: run_outputs
-- purpose: read what a run published
SELECT asset_id AS "assetId", partition_key AS "partitionKey", sequence AS version, data_version AS "dataVersion", changed,
       rows, bytes, checks
FROM snapshots
WHERE run_id = %(id)s
ORDER BY asset_id, partition_key

-- name: lineage_run
-- purpose: read when a run was requested
SELECT queued_at, workflow_id FROM runs WHERE id = %(id)s

-- name: lineage_inputs
-- purpose: read the pinned inputs of a run
SELECT freshline_asset(p.key) AS asset_id, freshline_key(p.key) AS partition_key, p.value ->> 'dataVersion' AS data_version,
       s.schema
FROM runs r CROSS JOIN jsonb_each(r.pins) p
LEFT JOIN snapshots s ON s.asset_id = freshline_asset(p.key) AND s.partition_key = freshline_key(p.key)
                     AND s.sequence = (p.value ->> 'sequence')::bigint
WHERE r.id = %(id)s ORDER BY p.key

-- name: lineage_outputs
-- purpose: read the outputs of a run's workflow, with what this run published
SELECT coalesce(s.asset_id, a.id) AS asset_id, coalesce(s.partition_key, '') AS partition_key, s.data_version, s.schema,
       s.rows, s.bytes, s.checks
FROM (SELECT id FROM assets WHERE producer_id = %(workflow)s) a
FULL JOIN (SELECT * FROM snapshots WHERE run_id = %(id)s) s ON s.asset_id = a.id
ORDER BY 1, 2

-- name: run_ids_by_suffix
-- purpose: find runs whose id ends with these hex digits; three are enough to tell that it is ambiguous
SELECT id FROM runs WHERE replace(id::text, '-', '') LIKE '%%' || %(suffix)s ORDER BY queued_at DESC LIMIT 3

-- name: events
-- purpose: read a page of events, newest first; `after` is the last event of the previous page
SELECT id, position, type, time, subject, data,
       '/freshline/' || (SELECT warehouse_id FROM installation) AS source
FROM events
WHERE (%(type)s::text IS NULL OR type = %(type)s OR starts_with(type, %(prefix)s))
  AND (%(subjects)s::text[] IS NULL OR subject = ANY(%(subjects)s))
  AND (%(partition)s::text IS NULL OR data ->> 'partitionKey' = %(partition)s)
  AND (%(since)s::timestamptz IS NULL OR time >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR time < %(until)s)
  AND (%(after_time)s::timestamptz IS NULL OR (time, id) < (%(after_time)s, %(after_id)s))
ORDER BY time DESC, id DESC
LIMIT %(limit)s

-- name: event_near
-- purpose: find an event by its id near the time that the id contains, in milliseconds
SELECT id, position, type, time, subject, data,
       '/freshline/' || (SELECT warehouse_id FROM installation) AS source
FROM events
WHERE id = %(id)s
  AND time BETWEEN to_timestamp(%(made)s / 1000.0) - interval '1 minute'
               AND to_timestamp(%(made)s / 1000.0) + interval '1 minute'

-- name: event_by_id
-- purpose: find an event by its id in all partitions
SELECT id, position, type, time, subject, data,
       '/freshline/' || (SELECT warehouse_id FROM installation) AS source
FROM events WHERE id = %(id)s

-- name: event_by_position
-- purpose: find an event by its position
SELECT id, position, type, time, subject, data,
       '/freshline/' || (SELECT warehouse_id FROM installation) AS source
FROM events WHERE position = %(position)s

-- name: events_since
-- purpose: read numbered events after a position, oldest first; positions are in commit order, so a follower misses none
SELECT id, position, type, time, subject, data,
       '/freshline/' || (SELECT warehouse_id FROM installation) AS source
FROM events
WHERE position > %(position)s
  AND (%(type)s::text IS NULL OR type = %(type)s OR starts_with(type, %(prefix)s))
  AND (%(subjects)s::text[] IS NULL OR subject = ANY(%(subjects)s))
  AND (%(partition)s::text IS NULL OR data ->> 'partitionKey' = %(partition)s)
ORDER BY position
LIMIT 1000

-- name: last_position
-- purpose: read the newest position, or 0
SELECT coalesce(max(position), 0) AS position FROM events WHERE position IS NOT NULL

-- name: decisions
-- purpose: read a page of decisions, newest first; `after` is the last decision of the previous page
SELECT d.id, w.slug AS "workflowSlug", d.partition_key AS "partitionKey", d.version AS "workflowVersion", d.outcome,
       d.reason, freshline_evidence(d) AS "evidence", d.at, d.last_at AS "lastAt", d.count, d.run_id AS "runId"
FROM decisions d JOIN workflows w ON w.id = d.workflow_id
WHERE (%(workflows)s::bigint[] IS NULL OR d.workflow_id = ANY(%(workflows)s))
  AND (%(partition)s::text IS NULL OR d.partition_key = %(partition)s)
  AND (%(outcome)s::text IS NULL OR d.outcome = %(outcome)s)
  AND (%(since)s::timestamptz IS NULL OR d.at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR d.at < %(until)s)
  AND (%(after)s::uuid IS NULL OR (d.at, d.id) < (SELECT a.at, a.id FROM decisions a WHERE a.id = %(after)s))
ORDER BY d.at DESC, d.id DESC
LIMIT %(limit)s

-- name: decisions_since
-- purpose: read decisions made at or after a time, oldest first; the follower drops those that it has shown
SELECT d.id, w.slug AS "workflowSlug", d.partition_key AS "partitionKey", d.version AS "workflowVersion", d.outcome,
       d.reason, freshline_evidence(d) AS "evidence", d.at, d.last_at AS "lastAt", d.count, d.run_id AS "runId"
FROM decisions d JOIN workflows w ON w.id = d.workflow_id
WHERE d.at >= %(since)s AND (%(workflow)s::bigint IS NULL OR d.workflow_id = %(workflow)s)
  AND (%(partition)s::text IS NULL OR d.partition_key = %(partition)s)
ORDER BY d.at, d.id

-- name: decision_by_id
-- purpose: find a decision, to continue a listing after it
SELECT id, at FROM decisions WHERE id = %(id)s

-- name: epoch
-- purpose: read the definitions epoch, which says whether a cached graph is current
SELECT epoch FROM installation

-- name: clock
-- purpose: read the database clock
SELECT freshline_now() AS now

-- name: status_assets
-- purpose: read every asset with its head and the facts that determine its state; of partitions, those of the newest
WITH RECURSIVE shown AS (
    SELECT a.id, a.producer_id, a.source_project, a.unused_since, coalesce(n.partition_key, '') AS partition_key
    FROM assets a
    LEFT JOIN unnest(%(newest_assets)s::text[], %(newest_keys)s::text[]) n (asset_id, partition_key) ON n.asset_id = a.id
    WHERE %(assets)s::text[] IS NULL OR a.id = ANY(%(assets)s)
), below_failing AS (
    SELECT e.workflow_id AS id FROM workflow_partitions p
    JOIN workflows w ON w.id = p.workflow_id AND w.retired_at IS NULL
    JOIN assets a ON a.producer_id = p.workflow_id JOIN edges e ON e.asset_id = a.id
    WHERE p.failures > 0
    UNION
    SELECT e.workflow_id FROM below_failing b JOIN assets a ON a.producer_id = b.id JOIN edges e ON e.asset_id = a.id
), makers AS (
    SELECT DISTINCT producer_id AS id FROM shown WHERE producer_id IS NOT NULL
), active AS (
    SELECT workflow_id, bool_or(status = 'running') AS running, bool_or(status = 'queued') AS queued
    FROM runs WHERE status IN ('queued', 'running') GROUP BY workflow_id
), behind AS (
    SELECT DISTINCT e.workflow_id
    FROM makers m
    JOIN edges e ON e.workflow_id = m.id AND e.triggers AND NOT e.mapped
    JOIN heads h ON h.asset_id = e.asset_id AND h.partition_key = ''
    LEFT JOIN workflow_partitions p ON p.workflow_id = e.workflow_id AND p.partition_key = ''
    WHERE freshline_differs(h.data_version, h.column_versions, p.consumed_versions -> e.asset_id)
    UNION
    SELECT e.workflow_id
    FROM makers m
    JOIN edges e ON e.workflow_id = m.id AND e.triggers AND e.mapped
    JOIN workflow_partitions p ON p.workflow_id = e.workflow_id AND p.partition_key = ''
    CROSS JOIN LATERAL jsonb_each(p.consumed_versions) v
    JOIN heads h ON (h.asset_id, h.partition_key) = (freshline_asset(v.key), freshline_key(v.key)) AND h.asset_id = e.asset_id
    WHERE h.data_version IS DISTINCT FROM v.value ->> 'dataVersion'
), unread AS (
    SELECT e.workflow_id FROM inbox i JOIN edges e ON e.asset_id = i.asset_id AND e.triggers WHERE i.kind = 'changed'
    UNION
    SELECT workflow_id FROM inbox WHERE kind = 'touched'
), last_auto AS (
    SELECT m.id AS workflow_id, r.*
    FROM makers m CROSS JOIN LATERAL (
        SELECT r.id AS run_id, r.status, r.finished_at, r.trigger ->> 'reason' AS reason FROM runs r
        WHERE r.workflow_id = m.id AND r.trigger_type <> 'manual'
        ORDER BY r.queued_at DESC LIMIT 1
    ) r
), last_ended AS (
    SELECT m.id AS workflow_id, r.status
    FROM makers m CROSS JOIN LATERAL (
        SELECT r.status FROM runs r WHERE r.workflow_id = m.id AND r.status IN ('succeeded', 'failed')
        ORDER BY r.queued_at DESC LIMIT 1
    ) r
)
SELECT s.id AS "assetId", coalesce(w.project, s.source_project) AS project, s.partition_key AS "partitionKey",
       w.slug AS "workflowSlug", h.produced_at AS "producedAt", h.data_version AS "dataVersion", h.sequence AS version,
       h.table_version AS "tableVersion", n.rows, n.bytes, n.run_id AS "runId", coalesce(n.mixed, false) AS mixed,
       coalesce(n.mixed_from <> '{}' AND freshline_mixed(n.mixed_from), false) AS "mixedUpstream",
       coalesce(t.due_at, t.expired_at, n.expires_at) AS "expiresAt", t.due_at, t.reason AS due_reason, t.expired_at,
       w.automatic AS automatic, w.paused_at, w.paused_until,
       coalesce(c.running, false) AS running, coalesce(c.queued, false) AS queued,
       h.asset_id IS NULL AS missing, coalesce(p.failures, 0) AS failures, p.eligible_at, p.breaker_at,
       h.asset_id IS NULL AND coalesce(z.status = 'failed', false) AS only_failed,
       s.producer_id IN (SELECT id FROM below_failing) IS TRUE AS "upstreamFailing",
       s.producer_id IS NULL AND s.source_project IS NULL AND s.unused_since IS NOT NULL
           AND coalesce(h.produced_at <= s.unused_since, true)
           AND NOT EXISTS (SELECT FROM edges e WHERE e.asset_id = s.id) AS retired,
       k.hold, k.not_before, k.blocks_until,
       coalesce(d.evidence ->> 'until', d.evidence ->> 'deadline', d.evidence ->> 'nextProbeAt') AS until,
       b.slug AS blocker,
       (k.workflow_id IS NOT NULL AND k.hold IS NULL AND k.not_before <= freshline_now()) AS due,
       (x.workflow_id IS NOT NULL OR u.workflow_id IS NOT NULL
        OR (p.job_fingerprint IS NOT NULL AND p.job_fingerprint <> w.job_fingerprint)
        OR (w.automatic AND n.workflow_id IS DISTINCT FROM w.id AND NOT coalesce(n.difference ? 'rolledBack', false)
            AND (p.accepted ->> s.id)::bigint IS DISTINCT FROM h.sequence)) AS behind,
       l.run_id AS last_run, l.status AS last_status, l.finished_at AS last_finished, l.reason AS last_reason
FROM shown s
LEFT JOIN workflows w ON w.id = s.producer_id
LEFT JOIN heads h ON h.asset_id = s.id AND h.partition_key = s.partition_key
LEFT JOIN snapshots n ON n.asset_id = h.asset_id AND n.partition_key = h.partition_key AND n.sequence = h.sequence
LEFT JOIN timers t ON t.asset_id = s.id AND t.partition_key = s.partition_key AND t.kind = 'expiry'
LEFT JOIN active c ON c.workflow_id = s.producer_id
LEFT JOIN workflow_partitions p ON p.workflow_id = s.producer_id AND p.partition_key = s.partition_key
LEFT JOIN considerations k ON k.workflow_id = s.producer_id AND k.partition_key = s.partition_key
LEFT JOIN LATERAL (
    SELECT x.reason, x.evidence FROM decisions x
    WHERE k.hold IS NOT NULL AND x.workflow_id = k.workflow_id AND x.partition_key = k.partition_key
    ORDER BY x.at DESC, x.id DESC LIMIT 1
) d ON d.reason = k.hold
LEFT JOIN workflows b ON b.id = k.blocker_id
LEFT JOIN behind x ON x.workflow_id = s.producer_id
LEFT JOIN unread u ON u.workflow_id = s.producer_id
LEFT JOIN last_auto l ON l.workflow_id = s.producer_id
LEFT JOIN last_ended z ON z.workflow_id = s.producer_id
ORDER BY s.id

-- name: older_code
-- purpose: read the assets whose current rows were made by older code and wait for a decision (docs/semantics.md#R9.9)
-- A rebuild that the next run does by itself waits for nobody. A rebuild costs what the last complete computation took, in
-- proportion to the rows; else the rows of the last runs per time.
WITH older AS MATERIALIZED (
    SELECT a.id, w.slug, h.partition_key, s.rows AS total, o.parts,
           a.declaration #>> '{table,mode}' = 'append' AS counted,
           least(s.rows, (SELECT sum(coalesce((e.part ->> 'rows')::bigint, s.rows)) FROM jsonb_array_elements(o.parts) e (part))) AS rows
      FROM assets a
      JOIN workflows w ON w.id = a.producer_id AND w.retired_at IS NULL
      JOIN heads h ON h.asset_id = a.id AND h.retired_at IS NULL
      JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
      LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (w.id, h.partition_key)
     CROSS JOIN LATERAL (SELECT freshline_older_code(s.code, w.id) AS parts) o
     CROSS JOIN LATERAL (SELECT coalesce(a.declaration #>> '{table,onCodeChange}',
                                         CASE WHEN a.partitioning IS NULL THEN 'ask' ELSE 'rebuild' END) AS answer) c
     WHERE (%(assets)s::text[] IS NULL OR a.id = ANY (%(assets)s))
       AND a.declaration #>> '{table,mode}' IN ('append', 'merge')
       AND o.parts IS NOT NULL AND s.rows IS DISTINCT FROM 0
       AND c.answer <> 'keep' AND (c.answer <> 'rebuild' OR p.job_fingerprint IS NOT DISTINCT FROM w.job_fingerprint)
), cost AS (
    SELECT o.*, CASE WHEN f.rows > 0 THEN f.ms * greatest(1, o.total::float8 / f.rows)
                     WHEN e.written > 0 THEN e.ms * o.total::float8 / e.written END AS ms
      FROM older o
      LEFT JOIN LATERAL (
          SELECT x.rows, extract(epoch FROM r.finished_at - r.started_at) * 1000 / coalesce(r.batch_size, 1) AS ms
            FROM snapshots x JOIN runs r ON r.id = x.run_id
           WHERE (x.asset_id, x.partition_key) = (o.id, o.partition_key)
             AND jsonb_array_length(x.code) = 1 AND x.code #>> '{0,parts}' = '1' AND x.changed
           ORDER BY x.sequence DESC LIMIT 1) f ON true
      LEFT JOIN LATERAL (
          SELECT sum(l.ms) AS ms, sum(l.written) AS written
            FROM (SELECT extract(epoch FROM r.finished_at - r.started_at) * 1000 / coalesce(r.batch_size, 1) AS ms,
                         greatest(x.rows - lag(x.rows) OVER (ORDER BY x.sequence), 0) AS written
                    FROM snapshots x JOIN runs r ON r.id = x.run_id
                   WHERE (x.asset_id, x.partition_key) = (o.id, o.partition_key)
                   ORDER BY x.sequence DESC LIMIT 20) l
           WHERE l.written > 0) e ON f.ms IS NULL
     WHERE o.rows IS DISTINCT FROM 0
)
SELECT id AS "assetId", slug, bool_and(counted) AS counted, sum(rows)::bigint AS rows, sum(total)::bigint AS total,
       CASE WHEN bool_and(ms IS NOT NULL) THEN sum(ms)::bigint END AS ms,
       array_agg(partition_key ORDER BY partition_key DESC) AS keys,
       (SELECT array_agg(DISTINCT (e.part ->> 'workflowVersion')::integer)
          FROM cost x, jsonb_array_elements(x.parts) AS e (part) WHERE x.id = c.id) AS versions
  FROM cost c
 GROUP BY id, slug
 ORDER BY id

-- name: project_names
-- purpose: read the names of all projects
SELECT name FROM projects ORDER BY name

-- name: status_workflows
-- purpose: read every workflow that is not retired, with its failures, its active run and its hold
-- Of partitions: the failures of the one that failed most, the last success, and the hold of the newest.
WITH newest AS (
    SELECT a.producer_id AS workflow_id, max(n.partition_key) AS partition_key
    FROM unnest(%(newest_assets)s::text[], %(newest_keys)s::text[]) n (asset_id, partition_key)
    JOIN assets a ON a.id = n.asset_id WHERE a.producer_id IS NOT NULL GROUP BY a.producer_id
), active AS (
    SELECT DISTINCT ON (workflow_id) workflow_id, id, status FROM runs WHERE status IN ('queued', 'running')
    ORDER BY workflow_id, status DESC, priority, queued_at
)
SELECT w.slug, w.version, w.project, w.automatic, w.paused_at, w.paused_until, r.id AS "inFlight",
       r.status AS "inFlightStatus", coalesce(p.failures, 0) AS failures, p.eligible_at, p.breaker_at,
       p.succeeded_at AS "succeededAt", coalesce(p.runs_avoided, 0) AS avoided,
       k.hold, k.not_before, k.blocks_until,
       coalesce(d.evidence ->> 'until', d.evidence ->> 'deadline', d.evidence ->> 'nextProbeAt') AS until,
       b.slug AS blocker
FROM workflows w
LEFT JOIN active r ON r.workflow_id = w.id
LEFT JOIN newest n ON n.workflow_id = w.id
LEFT JOIN LATERAL (
    SELECT max(p.failures) AS failures, min(p.eligible_at) AS eligible_at, min(p.breaker_at) AS breaker_at,
           max(p.succeeded_at) AS succeeded_at, sum(p.runs_avoided)::bigint AS runs_avoided
    FROM workflow_partitions p WHERE p.workflow_id = w.id
) p ON true
LEFT JOIN considerations k ON k.workflow_id = w.id AND k.partition_key = coalesce(n.partition_key, '')
LEFT JOIN LATERAL (
    SELECT x.reason, x.evidence FROM decisions x
    WHERE k.hold IS NOT NULL AND x.workflow_id = k.workflow_id AND x.partition_key = k.partition_key
    ORDER BY x.at DESC, x.id DESC LIMIT 1
) d ON d.reason = k.hold
LEFT JOIN workflows b ON b.id = k.blocker_id
WHERE w.retired_at IS NULL AND (%(slugs)s::text[] IS NULL OR w.slug = ANY(%(slugs)s))
ORDER BY w.slug

-- name: proposals
-- purpose: read the proposed backfills of workflows that wait for an approval
SELECT right(b.id::text, 8) AS id, b.asset_id, sum(p.total)::integer AS partitions
  FROM backfills b JOIN backfill_workflows p ON p.backfill_id = b.id JOIN workflows w ON w.id = p.workflow_id
 WHERE b.ended_at IS NULL AND b.status = 'proposed'
 GROUP BY b.id
HAVING %(slugs)s::text[] IS NULL OR bool_or(w.slug = ANY (%(slugs)s))
 ORDER BY b.requested_at, b.id LIMIT 20

-- name: queue
-- purpose: read what waits, which processes are live, and what keeps them from it
WITH live AS (
    SELECT * FROM workers
    WHERE stopped_at IS NULL AND seen_at > freshline_now() - %(grace)s * interval '1 millisecond'
), queued AS (
    SELECT project, code_hash FROM runs WHERE status = 'queued'
)
SELECT (SELECT count(*) FROM queued) AS queued,
       (SELECT count(*) FROM queued q
        WHERE EXISTS (SELECT FROM live l WHERE l.kind = 'worker' AND l.project = q.project)
          AND NOT EXISTS (SELECT FROM live l WHERE l.kind = 'worker' AND l.project = q.project
                          AND (q.code_hash IS NULL OR l.code_hash = q.code_hash))) AS other_code,
       (SELECT array_agg(DISTINCT q.project ORDER BY q.project) FROM queued q
        WHERE NOT EXISTS (SELECT FROM live l WHERE l.kind = 'worker' AND l.project = q.project)) AS unattended,
       (SELECT count(*) FROM live WHERE kind = 'materializer') AS materializers,
       (SELECT count(*) FROM considerations WHERE not_before <= freshline_now()) AS due,
       (SELECT count(*) FROM inbox) AS unabsorbed,
       (SELECT array_agg(DISTINCT info ->> 'engine') FROM live WHERE kind = 'worker' AND info ->> 'engine' <> 'ok')
           AS engine,
       (SELECT array_agg(DISTINCT info ->> 'bus') FROM live WHERE info ->> 'bus' <> 'ok') AS bus,
       (SELECT array_agg(DISTINCT info ->> 'warehouse') FROM live WHERE info ->> 'warehouse' <> 'ok') AS warehouse,
       (SELECT count(DISTINCT asset_id) FROM table_commits WHERE tries > 1) AS unlogged

-- name: partitioned_assets
-- purpose: find the assets with partitions among these, or all
SELECT id FROM assets WHERE partitioning IS NOT NULL AND (%(assets)s::text[] IS NULL OR id = ANY(%(assets)s)) ORDER BY id

-- name: unread_changes
-- purpose: read the changes in the inbox that the producers of these assets read, by a mapping of partitions
SELECT i.asset_id, i.partition_key, i.at, e.workflow_id,
       (SELECT s.sequence = 1 FROM snapshots s WHERE s.event_id = i.event_id) AS first
  FROM inbox i
JOIN edges e ON e.asset_id = i.asset_id AND e.mapped AND e.triggers
WHERE i.kind = 'changed' AND e.workflow_id IN (SELECT a.producer_id FROM assets a WHERE a.id = ANY(%(assets)s))
ORDER BY i.at LIMIT %(limit)s

-- name: later_inputs
-- purpose: find the partitions with a success among these for which an input partition came later, or that read all of an input
SELECT DISTINCT r.workflow_id, r.partition_key
FROM unnest(%(reading)s::bigint[], %(reading_keys)s::text[], %(read_assets)s::text[], %(read_keys)s::text[])
     AS r (workflow_id, partition_key, asset_id, input_key)
JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (r.workflow_id, r.partition_key)
JOIN heads h ON (h.asset_id, h.partition_key) = (r.asset_id, r.input_key) AND h.retired_at IS NULL
WHERE p.consumed_versions IS NOT NULL
  AND NOT p.consumed_versions ? (r.asset_id || CASE r.input_key WHEN '' THEN '' ELSE '@' || r.input_key END)
UNION
SELECT r.workflow_id, r.partition_key
FROM unnest(%(whole)s::bigint[], %(whole_keys)s::text[], %(whole_assets)s::text[], %(whole_keep)s::boolean[])
     AS r (workflow_id, partition_key, asset_id, keep)
JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (r.workflow_id, r.partition_key)
JOIN asset_digests d ON d.asset_id = r.asset_id
WHERE p.consumed_versions IS NOT NULL
  AND p.consumed_versions -> (r.asset_id || '@') ->> 'dataVersion' IS DISTINCT FROM
      CASE WHEN r.keep THEN 'digest:' || d.keys + d.retired_keys || ':' || d.digest + d.retired_digest
           ELSE 'digest:' || d.keys || ':' || d.digest END

-- name: partition_states
-- purpose: read the states of the partitions of assets, one by one (`each`) or counted; a partition without a row is missing
-- A stale partition of an automatic workflow has a consideration, an active run or an unread change (docs/semantics.md#R4.1).
-- Of other workflows, the versions that were read are compared. `firsts` and `lasts` are bounds of keys, or null.
WITH asked AS (
    SELECT a.asset_id, a.first, a.last, s.producer_id, w.automatic, w.job_fingerprint,
           EXISTS (SELECT FROM considerations k WHERE k.workflow_id = s.producer_id AND k.partition_key = '') AS noted
    FROM unnest(%(assets)s::text[], %(firsts)s::text[], %(lasts)s::text[]) a (asset_id, first, last)
    JOIN assets s ON s.id = a.asset_id
    LEFT JOIN workflows w ON w.id = s.producer_id
), facts AS (
    SELECT a.asset_id, h.partition_key, true AS head, false AS running, false AS failed, false AS frozen, a.noted AS behind
    FROM asked a JOIN heads h ON h.asset_id = a.asset_id AND h.retired_at IS NULL
    UNION ALL
    SELECT a.asset_id, r.partition_key, false, r.status = 'running', false, false, true
    FROM asked a JOIN runs r ON r.workflow_id = a.producer_id AND r.status IN ('queued', 'running')
    UNION ALL
    SELECT a.asset_id, p.partition_key, false, false, p.failures > 0, false,
           p.job_fingerprint IS DISTINCT FROM a.job_fingerprint AND p.job_fingerprint IS NOT NULL
    FROM asked a JOIN workflow_partitions p ON p.workflow_id = a.producer_id
    WHERE p.failures > 0 OR p.job_fingerprint <> a.job_fingerprint
    UNION ALL
    SELECT a.asset_id, r.partition_key, false, false, true, false, false
    FROM asked a JOIN runs r ON r.workflow_id = a.producer_id AND r.status = 'failed'
    WHERE NOT EXISTS (SELECT FROM heads h WHERE (h.asset_id, h.partition_key) = (a.asset_id, r.partition_key))
    UNION ALL
    SELECT a.asset_id, k.partition_key, false, false, false, k.hold = 'frozen', true
    FROM asked a JOIN considerations k ON k.workflow_id = a.producer_id AND k.partition_key <> ''
    WHERE k.hold IS NOT NULL OR k.not_before <= freshline_now()
    UNION ALL
    SELECT a.asset_id, u.partition_key, false, false, false, false, true
    FROM asked a JOIN unnest(%(changed)s::bigint[], %(changed_keys)s::text[]) u (workflow_id, partition_key)
      ON u.workflow_id = a.producer_id
    UNION ALL
    SELECT a.asset_id, t.partition_key, false, false, false, false, true
    FROM asked a JOIN timers t ON t.asset_id = a.asset_id AND t.kind = 'expiry' AND t.expired_at IS NOT NULL
    UNION ALL
    SELECT a.asset_id, p.partition_key, false, false, false, false, true
    FROM asked a JOIN workflow_partitions p ON p.workflow_id = a.producer_id
    CROSS JOIN LATERAL jsonb_each(p.consumed_versions) v
    JOIN heads h ON (h.asset_id, h.partition_key) = (freshline_asset(v.key), freshline_key(v.key))
    LEFT JOIN edges e ON (e.asset_id, e.workflow_id) = (h.asset_id, a.producer_id)
    WHERE NOT a.automatic AND h.data_version IS DISTINCT FROM v.value ->> 'dataVersion'
      AND coalesce(e.partitions #>> '{mapping,affects}', 'all') = 'all'
), states AS (
    SELECT f.asset_id, f.partition_key,
           CASE WHEN bool_or(f.running) THEN 'running' WHEN bool_or(f.failed) THEN 'failed'
                WHEN NOT bool_or(f.head) THEN 'missing' WHEN bool_or(f.frozen) THEN 'frozen'
                WHEN bool_or(f.behind) THEN 'stale' ELSE 'fresh' END AS state
    FROM facts f JOIN asked a ON a.asset_id = f.asset_id
    WHERE f.partition_key <> ''
      AND (a.first IS NULL OR f.partition_key COLLATE "C" >= a.first)
      AND (a.last IS NULL OR f.partition_key COLLATE "C" <= a.last)
      AND (%(keys)s::text[] IS NULL OR f.partition_key = ANY(%(keys)s))
    GROUP BY f.asset_id, f.partition_key
)
SELECT asset_id, CASE WHEN %(each)s THEN partition_key END AS partition_key, state, count(*) FROM states
GROUP BY 1, 2, 3

-- name: root_causes
-- purpose: read what keeps a workflow, or an ancestor of it, from running: sources without data, failures, people
WITH RECURSIVE above AS (
    SELECT id FROM workflows WHERE slug = ANY (%(slugs)s) AND retired_at IS NULL
    UNION
    SELECT a.producer_id FROM above u JOIN edges e ON e.workflow_id = u.id
    JOIN assets a ON a.id = e.asset_id AND a.producer_id IS NOT NULL
)
SELECT CASE WHEN l.asset_id IS NULL THEN 'never-reported' ELSE 'nothing-found' END AS kind, s.id AS "assetId",
       NULL AS "workflowSlug", '' AS "partitionKey", NULL::uuid AS "runId", l.error,
       s.declaration ->> 'mode' = 'append' AND s.declaration -> 'location' <> 'null' AS append,
       s.partitioning IS NOT NULL AS partitioned
FROM assets s LEFT JOIN watches l ON l.asset_id = s.id
WHERE s.producer_id IS NULL AND s.id IN (SELECT e.asset_id FROM above u JOIN edges e ON e.workflow_id = u.id)
  AND NOT EXISTS (SELECT FROM heads h WHERE h.asset_id = s.id)
UNION ALL
SELECT CASE WHEN f.id IS NOT NULL THEN 'failing' WHEN k.hold = 'paused' THEN 'paused' ELSE 'not-automatic' END,
       o.id, w.slug, coalesce(f.partition_key, ''), f.id, coalesce(f.error ->> 'message', ''), false, false
FROM above u
JOIN workflows w ON w.id = u.id AND w.retired_at IS NULL
LEFT JOIN LATERAL (
    SELECT p.partition_key, p.failures FROM workflow_partitions p WHERE p.workflow_id = w.id AND p.failures > 0
    ORDER BY p.partition_key DESC LIMIT 1
) p ON true
LEFT JOIN LATERAL (
    SELECT k.hold FROM considerations k WHERE k.workflow_id = w.id AND k.hold = 'paused' LIMIT 1
) k ON true
LEFT JOIN LATERAL (
    SELECT min(a.id) AS id, bool_or(NOT EXISTS (SELECT FROM heads h WHERE h.asset_id = a.id)) AS missing FROM assets a
    WHERE a.producer_id = w.id
) o ON true
LEFT JOIN LATERAL (
    SELECT r.id, r.partition_key, r.error, r.status FROM runs r
    WHERE r.workflow_id = w.id AND r.partition_key = coalesce(p.partition_key, r.partition_key)
      AND r.status IN ('succeeded', 'failed')
    ORDER BY r.queued_at DESC LIMIT 1
) f ON f.status = 'failed' AND (p.failures > 0 OR o.missing)
WHERE f.id IS NOT NULL OR k.hold = 'paused' OR (NOT w.automatic AND o.missing)
ORDER BY 1, 2, 3
LIMIT %(limit)s

-- name: measures
-- purpose: count what waits, with the age of the oldest in seconds
SELECT r.queued, r.queued_age AS "queuedAge", r.running, i.unabsorbed, i.age AS "unabsorbedAge", k.due, k.age AS "dueAge",
       u.unstamped, u.age AS "unstampedAge", t.due AS "timersDue", t.age AS "timersDueAge", c.unlogged, c.age AS "unloggedAge",
       p.failing, p.breakers, p.avoided,
       (SELECT count(*) FROM workflows WHERE paused_at IS NOT NULL AND retired_at IS NULL) AS paused,
       (SELECT count(*) FROM watches WHERE failures > 0) AS "watchesFailing",
       (SELECT count(*) FROM watches WHERE breaker_at IS NOT NULL) AS "watchBreakers",
       (SELECT count(*) FROM webhooks WHERE failures > 0) AS "hooksFailing",
       d.waiting AS "lettersWaiting", d.dead AS "lettersDead",
       (SELECT count(*) FROM alert_incidents WHERE done_at IS NULL AND closed_at IS NULL) AS "alertsOpen",
       m.waiting AS "alertsWaiting", m.dead AS "alertsDead"
FROM (SELECT count(*) FILTER (WHERE status = 'queued') AS queued, count(*) FILTER (WHERE status = 'running') AS running,
             extract(epoch FROM freshline_now() - min(queued_at) FILTER (WHERE status = 'queued'))::float8 AS queued_age
      FROM runs WHERE status IN ('queued', 'running')) r,
     (SELECT count(*) AS unabsorbed, extract(epoch FROM freshline_now() - min(at))::float8 AS age FROM inbox) i,
     (SELECT count(*) AS due, extract(epoch FROM freshline_now() - min(not_before))::float8 AS age
      FROM considerations WHERE not_before <= freshline_now()) k,
     (SELECT count(*) FILTER (WHERE dead_at IS NULL) AS waiting, count(dead_at) AS dead FROM webhook_deliveries) d,
     (SELECT count(*) FILTER (WHERE sent_at IS NULL AND dead_at IS NULL) AS waiting, count(dead_at) AS dead
      FROM alert_messages) m,
     (SELECT count(*) AS unstamped, extract(epoch FROM freshline_now() - min(time))::float8 AS age
      FROM events WHERE position IS NULL) u,
     (SELECT count(*) AS due, extract(epoch FROM freshline_now() - min(due_at))::float8 AS age
      FROM timers WHERE due_at <= freshline_now()) t,
     (SELECT count(*) AS unlogged, extract(epoch FROM freshline_now() - min(s.produced_at))::float8 AS age
      FROM table_commits k JOIN snapshots s USING (asset_id, partition_key, sequence)) c,
     (SELECT count(*) FILTER (WHERE failures > 0) AS failing, count(breaker_at) AS breakers,
             coalesce(sum(runs_avoided), 0)::bigint AS avoided
      FROM workflow_partitions) p

-- name: waiting
-- purpose: read the age of the oldest inbox row in seconds; null when there is none
SELECT extract(epoch FROM freshline_now() - min(at))::float8 AS age FROM inbox

-- name: measured_holds
-- purpose: count the held workflows by reason
SELECT hold AS name, count(*) FROM considerations WHERE hold IS NOT NULL GROUP BY hold ORDER BY hold

-- name: measured_workers
-- purpose: count the live processes by kind
SELECT kind AS name, count(*) FROM workers
WHERE stopped_at IS NULL AND seen_at > freshline_now() - %(grace)s * interval '1 millisecond'
GROUP BY kind ORDER BY kind

-- name: measured_assets
-- purpose: read the ages of the assets that are nearest to their limit or furthest beyond it, in seconds
SELECT a.id AS "assetId", extract(epoch FROM freshline_now() - h.produced_at)::float8 AS age,
       (a.declaration #>> '{freshness,maxAgeMs}')::float8 / 1000 AS max_age
FROM assets a
CROSS JOIN LATERAL (SELECT max(x.produced_at) AS produced_at FROM heads x WHERE x.asset_id = a.id) h
WHERE a.declaration #>> '{freshness,maxAgeMs}' IS NOT NULL AND h.produced_at IS NOT NULL
ORDER BY extract(epoch FROM freshline_now() - h.produced_at)::float8
         / (a.declaration #>> '{freshness,maxAgeMs}')::float8 DESC,
         a.id
LIMIT %(limit)s

-- name: measured_lags
-- purpose: read for how long the assets that are furthest behind have had an unread change, in seconds
-- A stale workflow has a consideration, an active run or an inbox row (docs/semantics.md#R4.1), so only those are compared.
WITH moving AS (
    SELECT workflow_id FROM considerations
    UNION SELECT workflow_id FROM runs WHERE status IN ('queued', 'running')
    UNION SELECT e.workflow_id FROM inbox i JOIN edges e ON e.asset_id = i.asset_id
), behind AS (
    SELECT m.workflow_id, min(n.produced_at) AS since
    FROM moving m
    JOIN workflow_partitions p ON p.workflow_id = m.workflow_id AND p.partition_key = ''
    JOIN edges e ON e.workflow_id = m.workflow_id AND e.triggers
    JOIN heads h ON h.asset_id = e.asset_id AND h.partition_key = ''
     AND freshline_differs(h.data_version, h.column_versions, p.consumed_versions -> e.asset_id)
    CROSS JOIN LATERAL (
        SELECT s.produced_at FROM snapshots s
        WHERE s.asset_id = e.asset_id AND s.partition_key = '' AND s.changed
          AND s.sequence > (p.consumed_versions -> e.asset_id ->> 'sequence')::bigint
        ORDER BY s.sequence LIMIT 1
    ) n
    GROUP BY m.workflow_id
)
SELECT a.id AS "assetId", extract(epoch FROM freshline_now() - b.since)::float8 AS lag
FROM behind b JOIN assets a ON a.producer_id = b.workflow_id
ORDER BY b.since, a.id
LIMIT %(limit)s

-- name: names
-- purpose: list assets and workflows whose names have a prefix, for completion and warnings
SELECT kind, name
FROM (SELECT 'asset' AS kind, id AS name FROM assets
      UNION ALL SELECT 'workflow', slug FROM workflows WHERE retired_at IS NULL) n
WHERE starts_with(name, %(prefix)s) ORDER BY name, kind LIMIT %(limit)s

-- name: asset_names
-- purpose: list every asset with the slug of its producer, null for a source
SELECT a.id AS "assetId", w.slug AS "workflowSlug", a.step_id AS "stepId"
FROM assets a LEFT JOIN workflows w ON w.id = a.producer_id ORDER BY a.id

-- name: matching_assets
-- purpose: list the assets whose ids match a regular expression, of one project or of all
SELECT a.id AS "assetId", w.slug AS "workflowSlug", a.producer_id AS "workflowId"
FROM assets a LEFT JOIN workflows w ON w.id = a.producer_id
WHERE (%(pattern)s::text IS NULL OR a.id ~ %(pattern)s)
  AND (%(project)s::text IS NULL OR coalesce(w.project, a.source_project) = %(project)s)
ORDER BY a.id

-- name: matching_workflows
-- purpose: list the workflows whose slugs match a regular expression, of one project or of all; retired ones too
SELECT id, slug FROM workflows
WHERE (%(pattern)s::text IS NULL OR slug ~ %(pattern)s) AND (%(project)s::text IS NULL OR project = %(project)s)
ORDER BY slug

-- name: asset
-- purpose: find an asset with its producer
SELECT a.id AS "assetId", w.slug AS "workflowSlug", a.step_id AS "stepId", a.producer_id AS "workflowId", a.declaration,
       a.partitioning
FROM assets a LEFT JOIN workflows w ON w.id = a.producer_id WHERE a.id = %(asset)s

-- name: workflow_names
-- purpose: list every slug, including retired ones, whose history stays
SELECT slug FROM workflows ORDER BY slug

-- name: workflow
-- purpose: find a workflow by its slug
SELECT id, slug, retired_at AS "retiredAt" FROM workflows WHERE slug = %(slug)s

-- name: workflow_partitioning
-- purpose: read how the outputs of a workflow are partitioned, which is the same for all of them
SELECT a.id AS "assetId", a.partitioning FROM assets a JOIN workflows w ON w.id = a.producer_id
WHERE w.slug = %(slug)s ORDER BY a.id LIMIT 1

-- name: graph_assets
-- purpose: read every asset of the graph with its declared freshness
SELECT a.id AS "assetId", w.slug AS "workflowSlug", a.step_id AS "stepId", a.declaration -> 'freshness' AS freshness,
       a.declaration -> 'autoMaterialize' AS "autoMaterialize"
FROM assets a LEFT JOIN workflows w ON w.id = a.producer_id ORDER BY a.id

-- name: declarations
-- purpose: read these assets, or a page of all or of one workflow's, as declared, with their consumers
SELECT a.id AS "assetId", a.declaration,
       coalesce((SELECT jsonb_agg(c.slug ORDER BY c.slug) FROM edges e
                 JOIN workflows c ON c.id = e.workflow_id AND c.retired_at IS NULL
                 WHERE e.asset_id = a.id), '[]') AS "consumedBy"
FROM assets a
WHERE (%(assets)s::text[] IS NULL OR a.id = ANY(%(assets)s))
  AND (%(workflow)s::bigint IS NULL OR a.producer_id = %(workflow)s)
  AND (%(after)s::text IS NULL OR a.id > %(after)s)
ORDER BY a.id
LIMIT %(limit)s

-- name: workflow_page
-- purpose: read a page of the workflows that are not retired, by slug
SELECT slug FROM workflows
WHERE retired_at IS NULL AND (%(after)s::text IS NULL OR slug > %(after)s)
ORDER BY slug
LIMIT %(limit)s

-- name: definition
-- purpose: read the current definition of a workflow
SELECT w.slug, w.version AS "workflowVersion", w.project, w.automatic, w.applied_at AS "appliedAt", w.retired_at AS "retiredAt",
       v.fingerprint, v.source_file AS "sourceFile", v.definition,
       coalesce((SELECT jsonb_agg(a.id ORDER BY a.id) FROM assets a WHERE a.producer_id = w.id), '[]') AS produces,
       coalesce((SELECT jsonb_agg(e.asset_id ORDER BY e.asset_id) FROM edges e WHERE e.workflow_id = w.id), '[]')
           AS consumes
FROM workflows w JOIN workflow_versions v ON v.workflow_id = w.id AND v.version = w.version
WHERE w.slug = %(slug)s

-- name: edges
-- purpose: read who consumes what
SELECT e.asset_id AS "assetId", w.slug AS "workflowSlug", e.triggers
FROM edges e JOIN workflows w ON w.id = e.workflow_id
WHERE w.retired_at IS NULL ORDER BY e.asset_id, w.slug

-- name: logs
-- purpose: read the lines of a run after a given line; a batch has one log, that of the run that leads it
SELECT line, at, attempt, step_id AS "stepId", stream, text
FROM run_logs
WHERE run_id = coalesce((SELECT r.batch_id FROM runs r WHERE r.id = %(run)s), %(run)s) AND line > %(after)s
  AND (%(since)s::timestamptz IS NULL OR at >= %(since)s) AND (%(until)s::timestamptz IS NULL OR at < %(until)s)
ORDER BY line LIMIT %(limit)s

-- name: last_logs
-- purpose: read the last lines of a run, or of its batch, newest first
SELECT line, at, attempt, step_id AS "stepId", stream, text
FROM run_logs
WHERE run_id = coalesce((SELECT r.batch_id FROM runs r WHERE r.id = %(run)s), %(run)s) AND line > %(after)s
  AND (%(since)s::timestamptz IS NULL OR at >= %(since)s) AND (%(until)s::timestamptz IS NULL OR at < %(until)s)
ORDER BY line DESC LIMIT %(limit)s

-- name: read_in_increments
-- purpose: find sources whose reports replace their data, and that are read with `rows: new`
SELECT e.asset_id, array_agg(w.slug ORDER BY w.slug) AS slugs
  FROM edges e JOIN workflows w ON w.id = e.workflow_id AND w.retired_at IS NULL
  JOIN assets a ON a.id = e.asset_id AND a.producer_id IS NULL AND a.source_project IS NOT NULL
 WHERE (e.asset_id = ANY (%(assets)s) OR e.workflow_id IN (SELECT x.id FROM workflows x WHERE x.slug = ANY (%(slugs)s)))
   AND e.declaration ->> 'rows' = 'new' AND a.declaration ->> 'mode' IS DISTINCT FROM 'append'
 GROUP BY e.asset_id ORDER BY e.asset_id

-- name: never_read
-- purpose: find versions of sources that named another path than the next one and that a consumer never read
-- Of each source the last 100 reports of a week count, and of these the ones since the consumer exists.
SELECT e.asset_id, w.slug, jsonb_agg(jsonb_build_object('version', s.sequence, 'path', s.path) ORDER BY s.sequence DESC) AS versions
  FROM edges e JOIN workflows w ON w.id = e.workflow_id AND w.retired_at IS NULL
  JOIN assets a ON a.id = e.asset_id AND a.producer_id IS NULL AND a.source_project IS NOT NULL
 CROSS JOIN LATERAL (
     SELECT x.sequence, x.produced_at, x.payload ->> 'path' AS path, lag(x.payload ->> 'path') OVER (ORDER BY x.sequence DESC) AS next_path
       FROM (SELECT n.sequence, n.produced_at, n.payload FROM snapshots n
              WHERE n.asset_id = e.asset_id AND n.partition_key = '' AND n.payload ? 'path'
                AND n.produced_at > freshline_now() - interval '7 days'
              ORDER BY n.sequence DESC LIMIT 100) x) s
 WHERE (e.asset_id = ANY (%(assets)s) OR e.workflow_id IN (SELECT x.id FROM workflows x WHERE x.slug = ANY (%(slugs)s)))
   AND a.declaration ->> 'mode' IS DISTINCT FROM 'append' AND s.next_path <> s.path
   AND s.produced_at >= w.created_at
   AND NOT EXISTS (SELECT FROM runs r WHERE r.workflow_id = w.id AND r.partition_key = ''
                      AND r.status IN ('queued', 'running', 'succeeded')
                      AND (r.pins -> e.asset_id ->> 'sequence')::bigint = s.sequence)
 GROUP BY e.asset_id, w.slug ORDER BY e.asset_id, w.slug LIMIT 20

-- name: deliveries
-- purpose: list the deliveries of an append source, newest first
-- They are numbered without gaps, and a row has at most 1,000: the numbers say which rows to read.
WITH newest AS (
    SELECT least(d.last_number, %(before)s::bigint - 1) AS number FROM deliveries d
     WHERE d.asset_id = %(asset)s AND d.partition_key = '' ORDER BY d.last_number DESC LIMIT 1
)
SELECT i.item FROM newest n
  JOIN deliveries d ON d.asset_id = %(asset)s AND d.partition_key = '' AND d.first_number <= n.number
   AND d.last_number > n.number - %(limit)s AND d.last_number < n.number + 1000
 CROSS JOIN LATERAL (SELECT e.item, d.first_number + e.ordinal - 1 AS number
                       FROM jsonb_array_elements(d.items) WITH ORDINALITY AS e (item, ordinal)) i
 WHERE i.number > n.number - %(limit)s AND i.number <= n.number
 ORDER BY i.number DESC

-- name: snapshots
-- purpose: read the history of an asset, newest first
SELECT n.asset_id AS "assetId", n.partition_key AS "partitionKey", n.sequence AS version,
       n.data_version AS "dataVersion", n.changed, n.table_version AS "tableVersion", n.location, n.schema, n.rows,
       n.bytes, n.checks, w.slug AS "workflowSlug", n.run_id AS "runId", n.attempt, n.step_id AS "stepId",
       n.produced_at AS "producedAt", n.expires_at AS "expiresAt", n.inputs, n.sources, n.payload,
       n.gone_at AS "goneAt", n.difference, n.code, freshline_parts(n) AS parts,
       (h.sequence IS NOT NULL) AS head
FROM snapshots n
LEFT JOIN workflows w ON w.id = n.workflow_id
LEFT JOIN heads h ON h.asset_id = n.asset_id AND h.partition_key = n.partition_key AND h.sequence = n.sequence
  AND h.retired_at IS NULL
WHERE n.asset_id = %(asset)s
  AND (%(partition)s::text IS NULL OR n.partition_key = %(partition)s) AND (n.changed OR NOT %(changed)s)
  AND (%(version)s::bigint IS NULL OR n.sequence = %(version)s)
  AND (%(before)s::bigint IS NULL OR n.sequence < %(before)s)
  AND (%(table_version)s::bigint IS NULL OR n.table_version <= %(table_version)s)
  AND (NOT %(head)s OR h.sequence IS NOT NULL)
-- Of a version of the table, the publication that made it: later ones with equal rows have its number too.
ORDER BY CASE WHEN %(table_version)s::bigint IS NOT NULL THEN n.table_version END DESC,
         CASE WHEN %(table_version)s::bigint IS NOT NULL THEN -n.sequence ELSE n.sequence END DESC
LIMIT %(limit)s

-- name: table_parts
-- purpose: read where the rows of the partitions of a table are, at a version of the table or now
WITH part AS MATERIALIZED (
    SELECT h.partition_key, h.sequence FROM heads h
    WHERE h.asset_id = %(asset)s AND h.partition_key <> '' AND h.retired_at IS NULL AND %(version)s::bigint IS NULL
    UNION ALL
    (SELECT DISTINCT ON (x.partition_key) x.partition_key, x.sequence FROM snapshots x
     WHERE x.asset_id = %(asset)s AND x.partition_key <> '' AND x.table_version <= %(version)s
     ORDER BY x.partition_key, x.table_version DESC, x.sequence)
)
SELECT s.partition_key, s.sequence, s.location, freshline_parts(s) AS parts, s.rows, s.bytes, s.table_version,
       s.produced_at, s.gone_at
FROM part p JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (%(asset)s, p.partition_key, p.sequence)
WHERE NOT s.retired
ORDER BY s.partition_key
LIMIT %(limit)s

-- name: workers
-- purpose: read the processes, newest first, with the runs that they hold
SELECT k.id, k.kind, k.host, k.pid, k.project, k.code_hash AS "codeHash", k.started_at AS "startedAt",
       k.seen_at AS "seenAt", k.stopped_at AS "stoppedAt", k.info,
       (k.stopped_at IS NULL AND k.seen_at > freshline_now() - %(grace)s * interval '1 millisecond') AS live,
       coalesce((SELECT jsonb_agg(r.id ORDER BY r.started_at) FROM runs r
                 WHERE r.worker_id = k.id AND r.status = 'running'), '[]') AS runs
FROM workers k
WHERE %(all)s OR k.stopped_at IS NULL
ORDER BY k.seen_at DESC
LIMIT %(limit)s

-- name: tokens
-- purpose: read the tokens, newest first; never the digest
SELECT id, name, scope, data, created_at AS "createdAt", expires_at AS "expiresAt", revoked_at AS "revokedAt",
       used_at AS "usedAt", (revoked_at IS NULL AND expires_at > freshline_now()) AS active
FROM api_tokens ORDER BY created_at DESC, id DESC

-- name: token
-- purpose: find the valid token with this digest
SELECT id, name, scope, data, expires_at, digest,
       (used_at IS NULL OR used_at < freshline_now() - interval '1 minute') AS stale
FROM api_tokens
WHERE digest = %(digest)s AND revoked_at IS NULL AND expires_at > freshline_now()

-- name: audit
-- purpose: read a page of changes, newest first; `after` is the last one of the previous page
SELECT id, at, who, token_id AS "tokenId", what, subject, before, after
FROM audit
WHERE (%(subject)s::text IS NULL OR subject = %(subject)s)
  AND (%(after)s::uuid IS NULL OR (at, id) < (SELECT a.at, a.id FROM audit a WHERE a.id = %(after)s))
ORDER BY at DESC, id DESC
LIMIT %(limit)s

-- name: watches
-- purpose: read watches by asset, with at most 20 files that have changed and at most 20 consumers whose last run failed
SELECT w.asset_id AS "assetId", w.kind, w.mode, w.spec AS watch, w.lease_until IS NOT NULL AS looking,
       w.looked_at AS "lookedAt", w.next_at AS "nextAt", w.summary, w.reported, w.reported_at AS "reportedAt",
       CASE WHEN w.kind = 'files' THEN coalesce(w.position -> 'last', '[]') ELSE '[]' END AS "reportedPartitions",
       w.conflicts || coalesce(c.changed, '[]') AS conflicts, w.failures, w.failing_since AS "failingSince",
       w.error AS "lookError", w.breaker_at AS "breakerOpenedAt", coalesce(b.failing, '[]') AS "failingConsumers"
  FROM watches w
 CROSS JOIN LATERAL (
    SELECT jsonb_agg(jsonb_build_object('subject', f.path, 'message',
               format('changed after it was delivered: %%s bytes then, %%s now; not delivered again', f.was_size, f.size)
           ) ORDER BY f.seen_at) AS changed
      FROM (SELECT path, was_size, size, seen_at FROM watched_files x
             WHERE x.asset_id = w.asset_id AND x.state = 'changed' ORDER BY x.seen_at DESC LIMIT 20) f
 ) c
 CROSS JOIN LATERAL (
    SELECT jsonb_agg(jsonb_build_object('workflowSlug', f.slug, 'runId', f.id, 'error', f.error ->> 'message')
                     ORDER BY f.slug) AS failing
      FROM (SELECT o.slug, r.id, r.error
              FROM edges e
              JOIN workflows o ON o.id = e.workflow_id AND o.retired_at IS NULL
             CROSS JOIN LATERAL (
                SELECT p.partition_key FROM workflow_partitions p
                 WHERE p.workflow_id = e.workflow_id AND p.failures > 0 ORDER BY p.failed_at DESC LIMIT 1) p
             CROSS JOIN LATERAL (
                SELECT r.id, r.error, r.status FROM runs r
                 WHERE r.workflow_id = e.workflow_id AND r.partition_key = p.partition_key
                   AND r.status IN ('succeeded', 'failed') ORDER BY r.queued_at DESC LIMIT 1) r
             WHERE e.asset_id = w.asset_id AND r.status = 'failed' ORDER BY o.slug LIMIT 20) f
 ) b
 WHERE (%(asset)s::text IS NULL OR w.asset_id = %(asset)s) AND (%(after)s::text IS NULL OR w.asset_id > %(after)s)
 ORDER BY w.asset_id LIMIT %(limit)s

-- name: failing_watches
-- purpose: read the watches with a failed look or a conflict among assets and the inputs of workflows
SELECT w.asset_id, w.error, w.failures, w.breaker_at IS NOT NULL AS open, w.conflicts -> 0 AS first,
       (SELECT count(*) FROM watched_files f WHERE f.asset_id = w.asset_id AND f.state = 'changed')
       + jsonb_array_length(w.conflicts) AS conflicts
  FROM watches w
 WHERE (w.asset_id = ANY (%(assets)s) OR w.asset_id IN (
            SELECT e.asset_id FROM edges e JOIN workflows f ON f.id = e.workflow_id WHERE f.slug = ANY (%(slugs)s)))
   AND (w.failures > 0 OR w.conflicts <> '[]'
        OR EXISTS (SELECT FROM watched_files f WHERE f.asset_id = w.asset_id AND f.state = 'changed'))
 ORDER BY w.asset_id LIMIT 20

-- name: webhooks
-- purpose: read the webhooks and their state; never a secret, and no query of a URL, which may be one
SELECT w.id, w.name, w.kind, regexp_replace(w.url, '\?.*', '?…') AS url, w.types, w.assets, w.created_at AS "createdAt",
       w.paused_at IS NOT NULL AS paused, w.position, w.delivered, w.delivered_at AS "deliveredAt", w.failures, w.trouble,
       CASE WHEN w.failures > 0 THEN w.eligible_at END AS "nextAttemptAt",
       (SELECT count(*) FROM webhook_deliveries d WHERE d.webhook_id = w.id AND d.dead_at IS NULL) AS waiting,
       (SELECT count(*) FROM webhook_deliveries d WHERE d.webhook_id = w.id AND d.dead_at IS NOT NULL) AS dead
FROM webhooks w WHERE %(name)s::text IS NULL OR w.name = %(name)s ORDER BY w.name

-- name: webhook_names
-- purpose: list names of webhooks, for "did you mean"
SELECT name FROM webhooks ORDER BY name

-- name: webhook_deliveries
-- purpose: read the deliveries that a webhook did not accept, in the order of events
SELECT d.event_id AS "eventId", d.position, CASE WHEN d.dead_at IS NULL THEN 'waiting' ELSE 'dead' END AS state,
       d.attempts, d.tried_at AS "triedAt", CASE WHEN d.dead_at IS NULL THEN d.eligible_at END AS "nextAttemptAt",
       d.dead_at AS "deadAt", d.trouble
FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id
WHERE w.name = %(webhook)s AND (%(after)s::bigint IS NULL OR d.position > %(after)s)
ORDER BY d.position
LIMIT %(limit)s

-- name: assets_of
-- purpose: read the assets that a workflow produces
SELECT a.id FROM assets a JOIN workflows w ON w.id = a.producer_id WHERE w.slug = %(slug)s ORDER BY a.id

-- name: pools
-- purpose: read the use of the declared pools
SELECT p.project, p.name, p.slots,
       (SELECT count(*) FROM runs r WHERE r.project = p.project AND r.pool = p.name AND r.status = 'running'
           AND r.slot IS NOT NULL) AS running,
       (SELECT count(*) FROM runs r WHERE r.project = p.project AND r.pool = p.name AND r.status = 'queued') AS queued
  FROM pools p WHERE p.retired_at IS NULL ORDER BY p.project, p.name

-- name: event_change
-- purpose: find the snapshot of an event, and the data version that was current after it
SELECT s.asset_id, s.partition_key, s.sequence, s.data_version, s.column_versions, s.delivery, s.changed, s.produced_at AS at,
       c.data_version AS current,
       EXISTS (SELECT FROM inbox WHERE event_id = %(event)s) AS unabsorbed,
       EXISTS (SELECT FROM edges e WHERE e.asset_id = s.asset_id AND e.mapped) AS mapped
  FROM snapshots s
  LEFT JOIN LATERAL (
      SELECT x.data_version FROM snapshots x
       WHERE (x.asset_id, x.partition_key) = (s.asset_id, s.partition_key) AND x.changed AND x.sequence <= s.sequence
       ORDER BY x.sequence DESC LIMIT 1
  ) c ON true
 WHERE s.event_id = %(event)s

-- name: event_consumers
-- purpose: read what each consumer of a changed asset read of it, with its state; the first consumers by slug, and their number
-- Of a consumer with partitions, or of an asset with partitions, `workflows` and `keys` are those that read the change. A
-- consumer of very many partitions has read the snapshot that was current at the change of its number (docs/semantics.md#R13.4).
SELECT w.slug, w.partition_key, w.consumers, w.triggers, w.automatic, (w.policy ->> 'declared')::boolean AS declared,
       -- Whether an unchanged output matters to it: it completes a round, or renews an age.
       ((w.policy ->> 'when') = 'all' AND w.triggers)
       OR jsonb_path_exists(w.policy, '$.inputs[*] ? (@.asset_id == $asset && @.max_age_ms != null)',
                            jsonb_build_object('asset', %(asset)s::text)) AS counts_unchanged,
       coalesce(p.consumed_versions -> %(reference)s, (
           SELECT jsonb_build_object('sequence', x.sequence, 'dataVersion', x.data_version) FROM snapshots x
            WHERE (x.asset_id, x.partition_key) = (%(asset)s, %(partition)s)
              AND x.change <= (p.consumed_versions -> %(whole)s ->> 'sequence')::bigint
            ORDER BY x.change DESC LIMIT 1)) AS consumed,
       r.id AS run_id, r.status, r.trigger, r.trigger_type, r.queued_at, r.decision_id, r.pin,
       o.evidence AS origin, c.sequence AS newest, c.event_id AS newest_event,
       f.id AS tried, f.status AS tried_status,
       k.not_before <= (SELECT freshline_now()) AS due,
       d.id AS decision, d.outcome, d.reason, d.evidence, d.last_at
  FROM (SELECT e.triggers, count(*) OVER () AS consumers, w.id, w.slug, w.automatic, w.policy, u.number,
               coalesce(u.partition_key, '') AS partition_key
          FROM edges e JOIN workflows w ON w.id = e.workflow_id AND w.retired_at IS NULL
          LEFT JOIN unnest(%(workflows)s::bigint[], %(keys)s::text[]) WITH ORDINALITY u (workflow_id, partition_key, number)
            ON e.mapped AND u.workflow_id = e.workflow_id
         WHERE e.asset_id = %(asset)s AND (NOT e.mapped OR u.workflow_id IS NOT NULL)
         ORDER BY w.slug, u.number LIMIT %(limit)s) w
  LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (w.id, w.partition_key)
  LEFT JOIN considerations k ON (k.workflow_id, k.partition_key) = (w.id, w.partition_key)
  -- Runs that were queued before the change read it only if their pins were renewed; the run active at that time may be.
  LEFT JOIN LATERAL (
      SELECT x.queued_at FROM runs x
       WHERE (x.workflow_id, x.partition_key) = (w.id, w.partition_key) AND x.queued_at < %(at)s
         AND x.trigger_type <> 'manual'
       ORDER BY x.queued_at DESC LIMIT 1
  ) q ON true
  LEFT JOIN LATERAL (
      SELECT * FROM (
          (SELECT 1 AS rank, x.*, p.pin FROM runs x CROSS JOIN LATERAL (
              SELECT coalesce((x.pins -> %(reference)s ->> 'sequence')::bigint, (
                  SELECT y.sequence FROM snapshots y
                   WHERE (y.asset_id, y.partition_key) = (%(asset)s, %(partition)s)
                     AND y.change <= (x.pins -> %(whole)s ->> 'sequence')::bigint
                   ORDER BY y.change DESC LIMIT 1)) AS pin) p
            WHERE (x.workflow_id, x.partition_key) = (w.id, w.partition_key)
              AND x.queued_at >= coalesce(q.queued_at, %(at)s) AND x.status = 'succeeded'
              AND p.pin >= %(sequence)s
            ORDER BY x.queued_at, x.finished_at, x.id LIMIT 1)
          UNION ALL
          (SELECT 2, x.*, p.pin FROM runs x CROSS JOIN LATERAL (
              SELECT coalesce((x.pins -> %(reference)s ->> 'sequence')::bigint, (
                  SELECT y.sequence FROM snapshots y
                   WHERE (y.asset_id, y.partition_key) = (%(asset)s, %(partition)s)
                     AND y.change <= (x.pins -> %(whole)s ->> 'sequence')::bigint
                   ORDER BY y.change DESC LIMIT 1)) AS pin) p
            WHERE (x.workflow_id, x.partition_key) = (w.id, w.partition_key) AND x.status IN ('queued', 'running')
              AND p.pin >= %(sequence)s
            ORDER BY x.queued_at LIMIT 1)) x
       ORDER BY x.rank LIMIT 1
  ) r ON true
  LEFT JOIN LATERAL (
      SELECT x.id, x.status FROM runs x CROSS JOIN LATERAL (
        SELECT coalesce((x.pins -> %(reference)s ->> 'sequence')::bigint, (
            SELECT y.sequence FROM snapshots y
             WHERE (y.asset_id, y.partition_key) = (%(asset)s, %(partition)s)
               AND y.change <= (x.pins -> %(whole)s ->> 'sequence')::bigint
             ORDER BY y.change DESC LIMIT 1)) AS pin) p
       WHERE r.id IS NULL AND (x.workflow_id, x.partition_key) = (w.id, w.partition_key)
         AND x.queued_at >= coalesce(q.queued_at, %(at)s) AND x.status IN ('failed', 'canceled')
         AND p.pin >= %(sequence)s
       ORDER BY x.queued_at DESC LIMIT 1
  ) f ON true
  -- The newest change that the run reads, or the newest of all if there is no such run.
  LEFT JOIN LATERAL (
      SELECT x.sequence, x.event_id FROM snapshots x
       WHERE (x.asset_id, x.partition_key) = (%(asset)s, %(partition)s) AND x.changed
         AND x.sequence <= coalesce(r.pin, 9223372036854775807)
       ORDER BY x.sequence DESC LIMIT 1
  ) c ON true
  LEFT JOIN LATERAL (
      SELECT x.evidence FROM decisions x WHERE x.run_id = r.id AND x.outcome = 'run' LIMIT 1
  ) o ON true
  LEFT JOIN LATERAL (
      SELECT x.id, x.outcome, x.reason, x.evidence, x.last_at FROM decisions x
       WHERE (x.workflow_id, x.partition_key) = (w.id, w.partition_key)
       ORDER BY x.at DESC, x.id DESC LIMIT 1
  ) d ON true
 ORDER BY w.slug, w.number

-- name: event_producer
-- purpose: read how the producer of an expired asset reacted: the run of the next snapshot, or the active run
WITH ran_out AS MATERIALIZED (
    SELECT coalesce(
        (SELECT s.sequence FROM snapshots s WHERE s.run_id = %(run)s AND s.asset_id = %(asset)s),
        (SELECT s.sequence FROM snapshots s
          WHERE (s.asset_id, s.partition_key) = (%(asset)s, %(partition)s) AND s.produced_at = %(produced)s
          ORDER BY s.sequence DESC LIMIT 1),
        0) AS sequence
)
SELECT w.slug, %(partition)s::text AS partition_key, 1 AS consumers, w.automatic, (w.policy ->> 'declared')::boolean AS declared,
       jsonb_path_exists(w.policy, '$.outputs[*] ? (@.asset_id == $asset && @.enabled == true)',
                         jsonb_build_object('asset', %(asset)s::text)) AS triggers,
       EXISTS (SELECT FROM inbox WHERE event_id = %(event)s) AS unabsorbed,
       t.event_id IS NOT DISTINCT FROM %(event)s::uuid AS expired,
       n.sequence IS NOT NULL AS answered, l.id AS later_event,
       r.id AS run_id, r.status, r.trigger, r.trigger_type, r.decision_id, o.evidence AS origin,
       NULL AS tried, NULL AS tried_status,
       k.not_before <= (SELECT freshline_now()) AS due,
       d.id AS decision, d.outcome, d.reason, d.evidence, d.last_at
  FROM assets a
  JOIN workflows w ON w.id = a.producer_id
  CROSS JOIN ran_out
  LEFT JOIN timers t ON (t.asset_id, t.partition_key, t.kind) = (a.id, %(partition)s, 'expiry')
  LEFT JOIN considerations k ON (k.workflow_id, k.partition_key) = (w.id, %(partition)s)
  LEFT JOIN LATERAL (
      SELECT x.sequence, x.run_id, x.produced_at FROM snapshots x
       WHERE (x.asset_id, x.partition_key) = (a.id, %(partition)s) AND x.sequence > ran_out.sequence
       ORDER BY x.sequence LIMIT 1
  ) n ON true
  LEFT JOIN LATERAL (
      SELECT x.id FROM events x
       WHERE x.subject = %(asset)s AND x.type = 'asset.expired' AND x.data ->> 'partitionKey' = %(partition)s
         AND x.time BETWEEN %(at)s AND coalesce(n.produced_at, 'infinity')
         AND (x.time, x.id) > (%(at)s, %(event)s::uuid)
       ORDER BY x.time LIMIT 1
  ) l ON true
  LEFT JOIN LATERAL (
      (SELECT x.* FROM runs x WHERE x.id = n.run_id)
      UNION ALL
      (SELECT x.* FROM runs x
        WHERE n.sequence IS NULL AND (x.workflow_id, x.partition_key) = (w.id, %(partition)s)
          AND x.status IN ('queued', 'running')
        ORDER BY x.status DESC, x.queued_at LIMIT 1)
  ) r ON true
  LEFT JOIN LATERAL (
      SELECT x.evidence FROM decisions x WHERE x.run_id = r.id AND x.outcome = 'run' LIMIT 1
  ) o ON true
  LEFT JOIN LATERAL (
      SELECT x.id, x.outcome, x.reason, x.evidence, x.last_at FROM decisions x
       WHERE (x.workflow_id, x.partition_key) = (w.id, %(partition)s)
       ORDER BY x.at DESC, x.id DESC LIMIT 1
  ) d ON true
 WHERE a.id = %(asset)s
