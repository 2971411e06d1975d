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

-- How long a workflow has waited for its ancestors: what earlier waits since the last success add up to, and the current wait.
ALTER TABLE workflow_partitions
    ADD COLUMN waited_ms bigint NOT NULL DEFAULT 0 CHECK (waited_ms >= 0),
    -- With `when: all`: by source, its sequence when the last success was decided. A round begins there.
    ADD COLUMN round jsonb NOT NULL DEFAULT '{}';
ALTER TABLE considerations
    ADD COLUMN waited_ms bigint NOT NULL DEFAULT 0 CHECK (waited_ms >= 0),
    ADD COLUMN evaluated_at timestamptz,
    ADD COLUMN next_at timestamptz; -- as the last evaluation scheduled it; a wake-up makes `not_before` earlier

-- The quiet hours of a queued automatic run: the current or the next ones. No worker starts it in them.
ALTER TABLE runs
    ADD COLUMN quiet tstzrange,
    ADD COLUMN round jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN mixed_upstream boolean NOT NULL DEFAULT false;

-- `mixed`: made by a run that may have read a mix. `mixed_from`: by asset, the data version of a mix that it descends from.
ALTER TABLE snapshots
    ADD COLUMN mixed boolean NOT NULL DEFAULT false,
    ADD COLUMN mixed_from jsonb NOT NULL DEFAULT '{}';

-- Whether data that descends from these mixes is still in doubt. A mix is healed when a run that read one generation has
-- made the same data.
CREATE FUNCTION freshline_mixed(origins jsonb, partition text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT EXISTS (
        SELECT FROM jsonb_each_text(origins) m
          LEFT JOIN heads h ON h.asset_id = m.key AND h.partition_key = partition
          LEFT JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
         WHERE s.mixed IS DISTINCT FROM false OR s.data_version <> m.value)
$$;
