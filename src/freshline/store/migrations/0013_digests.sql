-- Numbers of changes and digests of assets with partitions: a consumer of thousands of partitions compares one digest.

-- A term of the digest of an asset: its sum over all heads does not depend on their order.
CREATE FUNCTION freshline_digest(partition_key text, data_version text) RETURNS numeric
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT hashtextextended(partition_key || chr(31) || data_version, 0)::numeric $$;

-- `change`: the number of the last change of a head. Whoever moves a head holds the lock of the asset, so numbers are committed in order.
CREATE TABLE asset_digests (
    asset_id text PRIMARY KEY REFERENCES assets (id) ON DELETE CASCADE,
    change bigint NOT NULL CONSTRAINT asset_digests_change_check CHECK (change > 0),
    keys integer NOT NULL CONSTRAINT asset_digests_keys_check CHECK (keys >= 0),
    digest numeric NOT NULL,
    changed_at timestamptz NOT NULL
) WITH (fillfactor = 80);

-- The number of the change that made a snapshot the head of its partition. NULL: without partitions, or it never was the head.
ALTER TABLE snapshots ADD COLUMN change bigint;
CREATE INDEX snapshots_changes ON snapshots (asset_id, change) WHERE change IS NOT NULL;
CREATE INDEX snapshots_at_change ON snapshots (asset_id, partition_key, change DESC) WHERE change IS NOT NULL;
CREATE INDEX snapshots_mixed ON snapshots (asset_id, partition_key, sequence) WHERE change IS NOT NULL AND (mixed OR mixed_from <> '{}');
