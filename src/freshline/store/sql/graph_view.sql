-- name: stamp
-- purpose: read what says whether a cached layout is current; an asset that is forgotten leaves the epoch as it is
SELECT i.epoch, (SELECT count(*) FROM assets) AS assets FROM installation i

-- name: topology
-- purpose: read every asset and who consumes it; as arrays, because rows take twice as long
SELECT a.ids, a.slugs, e.consumed, e.consumers, e.triggers
  FROM (SELECT coalesce(json_agg(a.id), '[]') AS ids, coalesce(json_agg(w.slug), '[]') AS slugs
          FROM assets a LEFT JOIN workflows w ON w.id = a.producer_id) a,
       (SELECT coalesce(json_agg(e.asset_id), '[]') AS consumed, coalesce(json_agg(w.slug), '[]') AS consumers,
               coalesce(json_agg(e.triggers), '[]') AS triggers
          FROM edges e JOIN workflows w ON w.id = e.workflow_id WHERE w.retired_at IS NULL) e

-- name: states
-- purpose: read the facts that determine the states of these assets, or of all; of partitions, those of the newest
-- The same facts as in `status_assets`, without what only people read: the last runs, decisions and snapshots.
WITH shown AS (
    SELECT a.id, a.producer_id, a.source_project, a.unused_since, coalesce(n.partition_key, '') AS partition_key
    FROM assets a
    LEFT JOIN unnest(%(newest_assets)s::text[], %(newest_keys)s::text[]) n (asset_id, partition_key) ON n.asset_id = a.id
    WHERE %(assets)s::text[] IS NULL OR a.id = ANY(%(assets)s)
), makers AS (
    SELECT DISTINCT producer_id AS id FROM shown WHERE producer_id IS NOT NULL
), active AS (
    SELECT workflow_id, bool_or(status = 'running') AS running, bool_or(status = 'queued') AS queued
    FROM runs WHERE status IN ('queued', 'running') GROUP BY workflow_id
), behind AS (
    SELECT e.workflow_id
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
    UNION
    SELECT e.workflow_id FROM inbox i JOIN edges e ON e.asset_id = i.asset_id AND e.triggers WHERE i.kind = 'changed'
    UNION
    SELECT workflow_id FROM inbox WHERE kind = 'touched'
)
SELECT s.id AS "assetId", w.slug AS "workflowSlug", t.expired_at, coalesce(c.running, false) AS running,
       coalesce(c.queued, false) AS queued, h.asset_id IS NULL AS missing, coalesce(p.failures, 0) AS failures,
       h.asset_id IS NULL AND coalesce((SELECT r.status = 'failed' FROM runs r
           WHERE r.workflow_id = s.producer_id AND r.status IN ('succeeded', 'failed')
           ORDER BY r.queued_at DESC LIMIT 1), false) AS only_failed,
       s.producer_id IS NULL AND s.source_project IS NULL AND s.unused_since IS NOT NULL
           AND coalesce(h.produced_at <= s.unused_since, true)
           AND NOT EXISTS (SELECT FROM edges e WHERE e.asset_id = s.id) AS retired,
       k.hold, (k.workflow_id IS NOT NULL AND k.hold IS NULL AND k.not_before <= freshline_now()) AS due,
       (x.workflow_id IS NOT NULL
        OR (p.job_fingerprint IS NOT NULL AND p.job_fingerprint <> w.job_fingerprint)
        OR (w.automatic AND n.workflow_id IS DISTINCT FROM w.id AND NOT coalesce(n.difference ? 'rolledBack', false)
            AND (p.accepted ->> s.id)::bigint IS DISTINCT FROM h.sequence)) AS behind
FROM shown s
LEFT JOIN workflows w ON w.id = s.producer_id
LEFT JOIN heads h ON h.asset_id = s.id AND h.partition_key = s.partition_key
LEFT JOIN snapshots n ON n.asset_id = h.asset_id AND n.partition_key = h.partition_key AND n.sequence = h.sequence
LEFT JOIN timers t ON t.asset_id = s.id AND t.partition_key = s.partition_key AND t.kind = 'expiry'
LEFT JOIN active c ON c.workflow_id = s.producer_id
LEFT JOIN workflow_partitions p ON p.workflow_id = s.producer_id AND p.partition_key = s.partition_key
LEFT JOIN considerations k ON k.workflow_id = s.producer_id AND k.partition_key = s.partition_key
LEFT JOIN behind x ON x.workflow_id = s.producer_id
ORDER BY s.id
