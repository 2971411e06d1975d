-- The versions of a table are numbered over all its partitions. The newest number, and the versions of a range, are read by asset.
CREATE INDEX snapshots_table ON snapshots (asset_id, table_version) WHERE table_version IS NOT NULL;
