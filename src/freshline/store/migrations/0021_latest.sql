-- Indexes for `latest` and `affects: latest`: what is the newest must not cost more with more partitions.

-- The dynamic keys of an asset by when they were first seen.
CREATE INDEX partition_keys_seen ON partition_keys (asset_id, first_seen, partition_key);

-- The last change of an asset without partitions before a time.
CREATE INDEX snapshots_produced ON snapshots (asset_id, produced_at, sequence) WHERE changed AND partition_key = '';

-- The values of each dimension that have data. Keys without dimensions are not in these indexes.
CREATE INDEX heads_dimension_1 ON heads (asset_id, split_part(partition_key, '|', 1))
 WHERE partition_key LIKE '%|%' AND retired_at IS NULL;
CREATE INDEX heads_dimension_2 ON heads (asset_id, split_part(partition_key, '|', 2))
 WHERE partition_key LIKE '%|%' AND retired_at IS NULL;
CREATE INDEX heads_dimension_3 ON heads (asset_id, split_part(partition_key, '|', 3))
 WHERE partition_key LIKE '%|%' AND retired_at IS NULL;
