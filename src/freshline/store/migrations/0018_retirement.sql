-- breaking
-- Retention of partitions: what was removed, as versions of tables and as parts of digests.

-- `retired`: retention removed the partition. The row stands for no data: it is the version of the table without the partition.
ALTER TABLE snapshots ADD COLUMN retired boolean NOT NULL DEFAULT false;

-- The partitions whose data retention removed, at their last versions. `keys` and `digest` do not have them.
ALTER TABLE asset_digests
    ADD COLUMN retired_keys integer NOT NULL DEFAULT 0 CONSTRAINT asset_digests_retired_keys_check CHECK (retired_keys >= 0),
    ADD COLUMN retired_digest numeric NOT NULL DEFAULT 0;

-- Retention looks for what has data, oldest first.
CREATE INDEX heads_with_data ON heads (asset_id, partition_key COLLATE "C") WHERE retired_at IS NULL AND partition_key <> '';

-- A `retired` row without a key is about all partitions of the asset whose time ended from `since` to `at`.
ALTER TABLE inbox DROP CONSTRAINT inbox_since_iff_arrived;
ALTER TABLE inbox ADD CONSTRAINT inbox_since_iff_arrived
    CHECK (CASE kind WHEN 'retired' THEN since IS NULL OR partition_key = '' ELSE (kind = 'arrived') = (since IS NOT NULL) END);
