-- name: try_lock
-- purpose: one relay at a time
SELECT pg_try_advisory_xact_lock(%(key)s) AS locked

-- name: append_events
-- purpose: facts, in the transaction that made them true, and what the absorber has to look at
WITH new AS (
    SELECT e.*, freshline_now() AS now FROM jsonb_to_recordset(%(events)s) AS e (
        id uuid, type text, subject text, data jsonb, kind text, asset_id text, workflow_id bigint, partition_key text)
), logged AS (
    INSERT INTO events (id, time, type, subject, data) SELECT id, now, type, subject, data FROM new WHERE type IS NOT NULL
)
INSERT INTO inbox (event_id, kind, asset_id, workflow_id, partition_key, at)
SELECT id, kind, asset_id, workflow_id, partition_key, now FROM new WHERE kind IS NOT NULL

-- name: lock
-- purpose: one apply at a time
SELECT pg_advisory_xact_lock(%(key)s)

-- name: now
-- purpose: the database's clock
SELECT freshline_now() AS now
