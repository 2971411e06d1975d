-- breaking
-- Times of partitions: when the next one comes to exist, when old ones are removed, and the keys that appeared.

-- `next-key`: of an asset whose partitions come with the time. `retire`: of an asset that keeps its partitions for a time.
ALTER TABLE timers DROP CONSTRAINT timers_kind_check, DROP CONSTRAINT timers_reason_check;
ALTER TABLE timers
    ADD CONSTRAINT timers_kind_check CHECK (kind IN ('expiry', 'overdue', 'next-key', 'retire')),
    ADD CONSTRAINT timers_reason_check
        CHECK (reason IN ('ttl', 'cadence', 'cron', 'manual', 'max-age', 'next-key', 'retire'));

-- `arrived`: partitions of the asset came to exist from `since` to `at`. `retired`: a partition was removed.
ALTER TABLE inbox ADD COLUMN since timestamptz;
ALTER TABLE inbox DROP CONSTRAINT inbox_kind_check, DROP CONSTRAINT inbox_asset_iff_kind_about_asset;
ALTER TABLE inbox
    ADD CONSTRAINT inbox_kind_check
        CHECK (kind IN ('changed', 'unchanged', 'expired', 'ended', 'touched', 'arrived', 'retired')),
    ADD CONSTRAINT inbox_asset_iff_kind_about_asset
        CHECK ((kind IN ('changed', 'unchanged', 'expired', 'arrived', 'retired')) = (asset_id IS NOT NULL)),
    ADD CONSTRAINT inbox_since_iff_arrived CHECK ((kind = 'arrived') = (since IS NOT NULL));

-- When retention removed the data of a partition. Its last version still counts as consumed. NULL: it has its data.
ALTER TABLE heads ADD COLUMN retired_at timestamptz;

-- The keys of assets with dynamic partitions: they exist once they were seen.
CREATE TABLE partition_keys (
    asset_id text NOT NULL REFERENCES assets (id),
    partition_key text NOT NULL CHECK (partition_key <> ''),
    first_seen timestamptz NOT NULL,
    PRIMARY KEY (asset_id, partition_key)
);
INSERT INTO partition_keys (asset_id, partition_key, first_seen)
SELECT h.asset_id, h.partition_key, min(s.produced_at)
  FROM heads h
  JOIN assets a ON a.id = h.asset_id AND a.partitioning IS NOT NULL
  JOIN snapshots s ON (s.asset_id, s.partition_key) = (h.asset_id, h.partition_key)
 WHERE h.partition_key <> '' AND (a.partitioning ? 'dynamic' OR a.partitioning -> 'dimensions' @> '[{"dynamic": {}}]')
 GROUP BY h.asset_id, h.partition_key;
