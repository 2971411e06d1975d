-- Batches: one run of a worker that computes several partitions of a backfill.

-- Each partition keeps its own run, with its own pins. A worker claims several of them together: one of them leads, and all of
-- them have its id. Only the leader takes a slot of a pool and of the workflow, has steps and a log, and is renewed.
ALTER TABLE runs ADD COLUMN batch_id uuid; -- of the leader; NULL: the run is alone, or it is queued
ALTER TABLE runs ADD COLUMN batch_size integer CONSTRAINT runs_batch_size_check CHECK (batch_size > 1);
ALTER TABLE runs ADD COLUMN batch_most integer -- of how many partitions its next batch may be, after one that failed
    CONSTRAINT runs_batch_most_check CHECK (batch_most > 0);
ALTER TABLE runs ADD COLUMN not_before timestamptz; -- when a worker may claim it again
ALTER TABLE runs ADD CONSTRAINT runs_batch_id_iff_batch_size CHECK ((batch_id IS NULL) = (batch_size IS NULL));
ALTER TABLE runs ADD CONSTRAINT runs_queued_has_no_batch CHECK (NOT status = 'queued' OR batch_id IS NULL);
ALTER TABLE runs DROP CONSTRAINT runs_running_in_pool_has_slot;
ALTER TABLE runs ADD CONSTRAINT runs_running_in_pool_has_slot
    CHECK (NOT (status = 'running' AND pool <> '' AND (batch_id IS NULL OR batch_id = id)) OR slot IS NOT NULL);
CREATE INDEX runs_batch ON runs (batch_id) WHERE batch_id IS NOT NULL;
