-- Deliveries are joined into chunks, and read in pages.

ALTER TABLE deliveries
    -- Numbers of the skipped ones. A run gets them when it is claimed, so that all its pages agree.
    ADD COLUMN skipped jsonb NOT NULL
        GENERATED ALWAYS AS (jsonb_path_query_array(items, '$[*] ? (exists (@.skipped)).number')) STORED,
    -- The first page of a long list must not read the rest of it: this bounds where a delivery can be.
    ADD CONSTRAINT deliveries_at_most_1000_per_row CHECK (last_number - first_number < 1000);
-- Every report with a key looks for it: the list of pending entries would be read each time.
ALTER INDEX deliveries_by_key SET (fastupdate = off);
CREATE INDEX deliveries_with_skipped ON deliveries (asset_id, partition_key, last_number) WHERE skipped <> '[]';
-- Rows that compaction has not joined yet.
CREATE INDEX deliveries_loose ON deliveries (asset_id, partition_key, last_number) WHERE first_number = last_number;

-- The numbers of the skipped deliveries of a source up to a number, in order.
CREATE FUNCTION freshline_skipped(asset text, partition text, up_to bigint) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE WHEN up_to IS NOT NULL THEN coalesce((
        SELECT jsonb_agg(n.number ORDER BY n.number)
          FROM deliveries d, jsonb_array_elements(d.skipped) AS n (number)
         WHERE d.asset_id = asset AND d.partition_key = partition AND d.skipped <> '[]' AND d.first_number <= up_to
           AND n.number::bigint <= up_to), '[]') END
$$;
DROP FUNCTION freshline_deliveries(text, text, bigint); -- it returned the whole list
