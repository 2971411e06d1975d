-- Facts that make edges safe: which heads a workflow accepted without having made them, how long it has waited for its
-- ancestors, when a queued run may not start, and which data was computed from a mix of generations.

-- A workflow that lost or never had its consumed versions still knows which job made its data.
ALTER TABLE workflow_partitions
    DROP CONSTRAINT workflow_partitions_versions_iff_fingerprint,
    ADD CONSTRAINT workflow_partitions_versions_need_fingerprint
        CHECK (consumed_versions IS NULL OR job_fingerprint IS NOT NULL),
    -- By asset, the sequence of a head that counts as this workflow's own: a baseline, or data from before its first apply.
    ADD COLUMN accepted jsonb NOT NULL DEFAULT '{}';

-- Before this migration baselines were not recorded. Accept every head as it is, so that nothing runs because of the upgrade.
INSERT INTO workflow_partitions AS p (workflow_id, partition_key, accepted)
SELECT a.producer_id, h.partition_key, jsonb_object_agg(h.asset_id, h.sequence)
  FROM assets a
  JOIN heads h ON h.asset_id = a.id
  JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
  LEFT JOIN workflow_partitions o ON (o.workflow_id, o.partition_key) = (a.producer_id, h.partition_key)
 WHERE a.producer_id IS NOT NULL
   AND (s.workflow_id IS DISTINCT FROM a.producer_id OR NOT s.inputs @> coalesce(o.consumed_versions, '{}'))
 GROUP BY a.producer_id, h.partition_key
ON CONFLICT (workflow_id, partition_key) DO UPDATE SET accepted = excluded.accepted;
