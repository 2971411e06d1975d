-- Sources whose reports add deliveries instead of replacing the data. Every consumer reads every delivery once.

-- The number of the newest delivery that a snapshot of such a source includes.
ALTER TABLE snapshots ADD COLUMN delivery bigint CHECK (delivery > 0);

-- Deliveries in order, without gaps. A new one gets a row of its own; compaction joins rows and loses nothing.
CREATE TABLE deliveries (
    asset_id        text NOT NULL REFERENCES assets (id),
    partition_key   text NOT NULL DEFAULT '',
    first_number    bigint NOT NULL CHECK (first_number > 0),
    last_number     bigint NOT NULL,
    items           jsonb NOT NULL, -- number, path, version, payload, sequence, key, reportedAt, eventId, skipped
    keys            text[] NOT NULL DEFAULT '{}',
    CONSTRAINT deliveries_pkey PRIMARY KEY (asset_id, partition_key, last_number),
    CONSTRAINT deliveries_one_item_per_number CHECK (jsonb_array_length(items) = last_number - first_number + 1)
);
CREATE INDEX deliveries_by_key ON deliveries USING gin (keys);

-- The deliveries of a source up to a number that are not skipped, in order.
CREATE FUNCTION freshline_deliveries(asset text, partition text, up_to bigint) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE WHEN up_to IS NOT NULL THEN coalesce((
        SELECT jsonb_agg(i.item ORDER BY d.last_number, i.ordinal)
          FROM deliveries d, jsonb_array_elements(d.items) WITH ORDINALITY AS i (item, ordinal)
         WHERE d.asset_id = asset AND d.partition_key = partition AND d.first_number <= up_to
           AND (i.item ->> 'number')::bigint <= up_to AND NOT i.item ? 'skipped'), '[]') END
$$;
