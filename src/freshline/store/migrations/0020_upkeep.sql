-- Notes about all partitions of a workflow, which are expanded in chunks, and how far the sweep of partitions is.

-- Of a note, which has no partition key: how many partitions are still to be considered (NULL: all, not counted yet), the
-- last one that was noted, newest first (NULL: none), and when a change came after that: then all of them are noted again.
ALTER TABLE considerations
    ADD COLUMN keys_left integer CONSTRAINT considerations_keys_left_check CHECK (keys_left >= 0),
    ADD COLUMN expanded_to text,
    ADD COLUMN again_at timestamptz,
    ADD CONSTRAINT considerations_expansion_needs_note
        CHECK (partition_key = '' OR (keys_left IS NULL AND expanded_to IS NULL AND again_at IS NULL)),
    ADD CONSTRAINT considerations_again_needs_expansion CHECK (again_at IS NULL OR expanded_to IS NOT NULL);
CREATE INDEX considerations_expanding ON considerations (workflow_id) WHERE expanded_to IS NOT NULL;

-- The last partition that a sweep has looked at; NULL before the first one.
CREATE TABLE sweep_cursor (
    one           boolean PRIMARY KEY DEFAULT true CONSTRAINT sweep_cursor_one_check CHECK (one),
    workflow_id   bigint,
    partition_key text
);
INSERT INTO sweep_cursor DEFAULT VALUES;
