-- breaking
-- Partitions: how the keys of an asset are formed, what consumers read of it, and when the root of a change happened.

-- NULL: the asset has no partitions.
ALTER TABLE assets ADD COLUMN partitioning jsonb;

-- What the consumer declares about the partitions of the input; NULL: the default. `mapped`: one of the two has partitions.
ALTER TABLE edges ADD COLUMN partitions jsonb, ADD COLUMN mapped boolean NOT NULL DEFAULT false;

-- Few assets and edges have partitions: finding out that none has must not read the others.
CREATE INDEX assets_partitioned ON assets (producer_id) WHERE partitioning IS NOT NULL;
CREATE INDEX edges_mapped ON edges (asset_id) WHERE mapped;

-- When the root of what was computed happened: a report, an expiry, an apply. NULL: when it was produced.
ALTER TABLE snapshots ADD COLUMN origin timestamptz;
ALTER TABLE runs ADD COLUMN origin timestamptz;

-- Of a held partition: when the root of its cause happened, and the partition of the workflow that it waits for.
ALTER TABLE considerations ADD COLUMN origin timestamptz, ADD COLUMN blocker_key text;
UPDATE considerations SET blocker_key = '' WHERE blocker_id IS NOT NULL;
ALTER TABLE considerations ADD CONSTRAINT considerations_blocker_key_iff_blocker
    CHECK ((blocker_id IS NULL) = (blocker_key IS NULL));
DROP INDEX considerations_blocker;
CREATE INDEX considerations_blocker ON considerations (blocker_id, blocker_key) WHERE blocker_id IS NOT NULL;

-- The asset and the partition key of a reference: `sales.daily@2024-01-31`, or the id of an asset without partitions.
CREATE FUNCTION freshline_asset(reference text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT split_part(reference, '@', 1) $$;
CREATE FUNCTION freshline_key(reference text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT CASE position('@' IN reference) WHEN 0 THEN '' ELSE substr(reference, position('@' IN reference) + 1) END $$;

-- Whether one of these heads, by reference, is still the mix that it was, or something else has been published since.
DROP FUNCTION freshline_mixed(jsonb, text);
CREATE FUNCTION freshline_mixed(origins jsonb) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT EXISTS (
        SELECT FROM jsonb_each_text(origins) m
          LEFT JOIN heads h ON (h.asset_id, h.partition_key) = (freshline_asset(m.key), freshline_key(m.key))
          LEFT JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
         WHERE s.mixed IS DISTINCT FROM false OR s.data_version <> m.value)
$$;
