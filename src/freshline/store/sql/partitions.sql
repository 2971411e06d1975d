-- name: seen_keys
-- purpose: read the keys of an asset with dynamic partitions, in the order in which they were first seen
SELECT partition_key FROM partition_keys WHERE asset_id = %(asset)s ORDER BY first_seen, partition_key

-- name: is_seen
-- purpose: read whether an asset has a dynamic key
SELECT true AS seen FROM partition_keys WHERE asset_id = %(asset)s AND partition_key = %(key)s

-- name: count_seen
-- purpose: count the dynamic keys of an asset, or the values of one dimension, up to a limit
SELECT count(*) AS count, coalesce(bool_or(k.value = %(value)s), false) AS known
  FROM (SELECT DISTINCT CASE WHEN %(place)s::integer IS NULL THEN partition_key
                             ELSE split_part(partition_key, '|', %(place)s) END AS value
          FROM partition_keys WHERE asset_id = %(asset)s LIMIT %(limit)s) k

-- name: add_keys
-- purpose: record dynamic keys that appeared; those that are known stay as they are
INSERT INTO partition_keys (asset_id, partition_key, first_seen)
SELECT k.asset_id, k.partition_key, freshline_now()
  FROM unnest(%(assets)s::text[], %(keys)s::text[]) AS k (asset_id, partition_key)
 ORDER BY k.asset_id, k.partition_key
ON CONFLICT DO NOTHING

-- name: dynamic_sources
-- purpose: find the sources with dynamic partitions; few assets have partitions
SELECT id, partitioning FROM assets
 WHERE partitioning IS NOT NULL AND producer_id IS NULL
   AND (partitioning ? 'dynamic' OR partitioning -> 'dimensions' @> '[{"dynamic": {}}]')
 ORDER BY id

-- name: with_data
-- purpose: find the partitions of an asset among these that have data
SELECT partition_key FROM heads WHERE asset_id = %(asset)s AND partition_key = ANY (%(keys)s) AND retired_at IS NULL

-- name: retention
-- purpose: read how long partitions of an asset are kept; no row: without end
SELECT (w.policy ->> 'retain_ms')::bigint AS retain_ms FROM assets a JOIN workflows w ON w.id = a.producer_id AND w.retired_at IS NULL
 WHERE a.id = %(asset)s AND w.policy -> 'retain_ms' IS NOT NULL


-- name: newest_times
-- purpose: find the newest windows of an asset that have data. `form`: a key of its grain; others are of a former definition
-- From the index, newest first: for a range with two ends the planner expects so few that it would read and sort all.
SELECT value FROM (
    SELECT partition_key AS value FROM heads
     WHERE asset_id = %(asset)s AND partition_key <= %(last)s AND retired_at IS NULL AND length(partition_key) = length(%(last)s)
     ORDER BY partition_key DESC LIMIT %(count)s) n
 WHERE value >= %(first)s

-- name: newest_seen
-- purpose: find the dynamic keys of an asset that have data and were first seen last
SELECT k.partition_key AS value
  FROM partition_keys k JOIN heads h ON (h.asset_id, h.partition_key) = (k.asset_id, k.partition_key) AND h.retired_at IS NULL
 WHERE k.asset_id = %(asset)s ORDER BY k.first_seen DESC, k.partition_key DESC LIMIT %(count)s

-- name: newest_in_dimension
-- purpose: find the newest windows of a dimension that have data, one after the other from the index
WITH RECURSIVE found AS (
    (SELECT split_part(partition_key, '|', %(place)s::integer) AS value, 1 AS number FROM heads
      WHERE asset_id = %(asset)s AND partition_key LIKE '%%|%%' AND retired_at IS NULL
        AND split_part(partition_key, '|', %(place)s::integer) BETWEEN %(first)s AND %(last)s
        AND length(split_part(partition_key, '|', %(place)s::integer)) = length(%(last)s)
      ORDER BY 1 DESC LIMIT 1)
    UNION ALL
    SELECT n.value, f.number + 1
      FROM found f CROSS JOIN LATERAL (
          SELECT split_part(h.partition_key, '|', %(place)s::integer) AS value FROM heads h
           WHERE h.asset_id = %(asset)s AND h.partition_key LIKE '%%|%%' AND h.retired_at IS NULL
             AND split_part(h.partition_key, '|', %(place)s::integer) >= %(first)s
             AND split_part(h.partition_key, '|', %(place)s::integer) < f.value
             AND length(split_part(h.partition_key, '|', %(place)s::integer)) = length(%(last)s)
           ORDER BY 1 DESC LIMIT 1) n
     WHERE f.number < %(count)s
)
SELECT value FROM found ORDER BY number

-- name: dimension_values
-- purpose: read the values of a dimension that have data, by when they were first seen; the last one first
SELECT split_part(h.partition_key, '|', %(place)s::integer) AS value
  FROM heads h LEFT JOIN partition_keys k ON (k.asset_id, k.partition_key) = (h.asset_id, h.partition_key)
 WHERE h.asset_id = %(asset)s AND h.retired_at IS NULL AND h.partition_key LIKE '%%|%%'
 GROUP BY 1 ORDER BY min(k.first_seen) DESC NULLS LAST, 1 DESC

-- name: seen_from
-- purpose: read when a dynamic key was first seen, and when the next one was
SELECT k.first_seen AS since, (
    SELECT n.first_seen FROM partition_keys n
     WHERE n.asset_id = k.asset_id AND (n.first_seen, n.partition_key) > (k.first_seen, k.partition_key)
     ORDER BY n.first_seen, n.partition_key LIMIT 1) AS until
  FROM partition_keys k WHERE (k.asset_id, k.partition_key) = (%(asset)s, %(key)s)

-- name: seen_last
-- purpose: find the dynamic key of an asset that was the newest at a time
SELECT partition_key FROM partition_keys WHERE asset_id = %(asset)s AND first_seen <= %(at)s
 ORDER BY first_seen DESC, partition_key DESC LIMIT 1

-- name: partitioned_assets
-- purpose: read the assets with partitions that have a consumer or a producer, to set the timers of their next keys
SELECT a.id, a.partitioning, a.producer_id, w.policy, (SELECT freshline_now()) AS now,
       CASE WHEN w.policy -> 'retain_ms' IS NOT NULL
            THEN ARRAY(SELECT h.partition_key FROM heads h WHERE h.asset_id = a.id AND h.partition_key <> '' AND h.retired_at IS NULL
                        ORDER BY h.partition_key COLLATE "C") END AS keys
  FROM assets a LEFT JOIN workflows w ON w.id = a.producer_id
 WHERE a.partitioning IS NOT NULL
   AND (a.producer_id IS NOT NULL OR EXISTS (SELECT FROM edges e WHERE e.asset_id = a.id))
 ORDER BY a.id

-- name: set_next_keys
-- purpose: set the timers of next keys, and of what is removed next; one that is due already has to fire first
-- `first_at`: of a timer that does not exist yet.
WITH wanted AS (
    SELECT * FROM jsonb_to_recordset(%(timers)s) AS n (asset_id text, kind text, due_at timestamptz, first_at timestamptz)
), gone AS (
    DELETE FROM timers t
     WHERE t.kind IN ('next-key', 'retire')
       AND NOT EXISTS (SELECT FROM wanted n WHERE (n.asset_id, n.kind) = (t.asset_id, t.kind))
)
INSERT INTO timers AS t (asset_id, partition_key, kind, due_at, reason)
SELECT asset_id, '', kind, coalesce(first_at, due_at), kind FROM wanted ORDER BY asset_id, kind
ON CONFLICT (asset_id, partition_key, kind) DO UPDATE
   SET due_at = CASE WHEN t.due_at <= freshline_now() THEN t.due_at
                     ELSE (SELECT n.due_at FROM wanted n WHERE (n.asset_id, n.kind) = (t.asset_id, t.kind)) END

-- name: move_next_keys
-- purpose: set the timers of next keys that fired to the key after that; the last key of a range has none
WITH fired AS (
    SELECT * FROM jsonb_to_recordset(%(timers)s) AS n (asset_id text, kind text, due_at timestamptz)
), last AS (
    DELETE FROM timers t USING fired n
     WHERE (t.asset_id, t.partition_key, t.kind) = (n.asset_id, '', n.kind) AND n.due_at IS NULL
)
UPDATE timers t SET due_at = n.due_at FROM fired n
 WHERE (t.asset_id, t.partition_key, t.kind) = (n.asset_id, '', n.kind) AND n.due_at IS NOT NULL

-- name: stop_clocks
-- purpose: stop the freshness clocks of the partitions of these assets that are not among the newest ones any more
-- An expiry that a user asked for stays. Whoever has locked a row sets it itself.
DELETE FROM timers WHERE (asset_id, partition_key, kind) IN (
    SELECT t.asset_id, t.partition_key, t.kind FROM timers t JOIN assets a ON a.id = t.asset_id
     WHERE t.asset_id = ANY (%(assets)s) AND t.kind IN ('expiry', 'overdue')
       AND (t.asset_id, t.partition_key) NOT IN (SELECT * FROM unnest(%(newest)s::text[], %(keys)s::text[]))
       AND ((t.partition_key = '') <> (a.partitioning IS NULL)
            OR 'manual' NOT IN (coalesce(t.reason, ''), coalesce(t.expired_reason, '')))
     ORDER BY t.asset_id, t.partition_key, t.kind FOR UPDATE OF t SKIP LOCKED)

-- name: start_clocks
-- purpose: start the schedules of partitions that came to exist
INSERT INTO timers (asset_id, partition_key, kind, due_at, reason)
SELECT asset_id, partition_key, 'expiry', due_at, reason
  FROM jsonb_to_recordset(%(timers)s) AS n (asset_id text, partition_key text, due_at timestamptz, reason text)
 ORDER BY asset_id, partition_key
ON CONFLICT DO NOTHING

-- name: outside_consumers
-- purpose: read the workflows of other projects that consume these assets
SELECT DISTINCT w.slug, w.project, w.policy
  FROM edges e JOIN workflows w ON w.id = e.workflow_id AND w.retired_at IS NULL
 WHERE e.asset_id = ANY (%(assets)s) AND w.project <> %(project)s
 ORDER BY w.slug

-- name: head_keys
-- purpose: read the partitions of an asset that have data
SELECT partition_key FROM heads WHERE asset_id = %(asset)s AND retired_at IS NULL ORDER BY partition_key

-- name: take_baselines
-- purpose: accept existing data as fresh for partitions: store the heads that they read as their consumed versions
INSERT INTO workflow_partitions AS p (workflow_id, partition_key, consumed_versions, mixed, job_fingerprint)
SELECT u.workflow_id, u.partition_key,
       coalesce(jsonb_object_agg(h.asset_id || CASE h.partition_key WHEN '' THEN '' ELSE '@' || h.partition_key END,
                                 jsonb_build_object('sequence', h.sequence, 'dataVersion', h.data_version))
                FILTER (WHERE h.asset_id IS NOT NULL), '{}'), true, w.job_fingerprint
  FROM unnest(%(workflows)s::bigint[], %(partitions)s::text[]) AS u (workflow_id, partition_key)
  JOIN workflows w ON w.id = u.workflow_id
  LEFT JOIN unnest(%(reading)s::bigint[], %(reading_keys)s::text[], %(read_assets)s::text[], %(read_keys)s::text[])
         AS r (workflow_id, partition_key, asset_id, input_key)
         ON (r.workflow_id, r.partition_key) = (u.workflow_id, u.partition_key)
  LEFT JOIN heads h ON (h.asset_id, h.partition_key) = (r.asset_id, r.input_key) AND h.retired_at IS NULL
 GROUP BY u.workflow_id, u.partition_key, w.job_fingerprint
 ORDER BY u.workflow_id, u.partition_key
ON CONFLICT (workflow_id, partition_key) DO UPDATE
   SET consumed_versions = CASE WHEN %(force)s OR p.consumed_versions IS NULL THEN excluded.consumed_versions ELSE p.consumed_versions END,
       mixed = %(force)s OR p.consumed_versions IS NULL OR p.mixed,
       job_fingerprint = CASE WHEN %(force)s OR p.job_fingerprint IS NULL THEN excluded.job_fingerprint
                              ELSE p.job_fingerprint END

-- name: accept_all_heads
-- purpose: record the current heads of all partitions of these workflows as their own
INSERT INTO workflow_partitions AS p (workflow_id, partition_key, accepted)
SELECT a.producer_id, h.partition_key, jsonb_object_agg(h.asset_id, h.sequence)
  FROM assets a JOIN heads h ON h.asset_id = a.id
 WHERE a.producer_id = ANY (%(workflows)s)
 GROUP BY a.producer_id, h.partition_key
 ORDER BY a.producer_id, h.partition_key
ON CONFLICT (workflow_id, partition_key) DO UPDATE SET accepted = excluded.accepted
