-- name: try_lock
-- purpose: take an advisory lock until the end of the transaction, or report that another session holds it
SELECT pg_try_advisory_xact_lock(%(key)s) AS locked

-- name: append_events
-- purpose: append events in the transaction that made them true, with the inbox rows that the materializer consumes
WITH new AS (
    SELECT e.*, freshline_now() AS now FROM jsonb_to_recordset(%(events)s) AS e (
        id uuid, type text, subject text, data jsonb, kind text, asset_id text, workflow_id bigint, partition_key text,
        since timestamptz)
), logged AS (
    INSERT INTO events (id, time, type, subject, data) SELECT id, now, type, subject, data FROM new WHERE type IS NOT NULL
)
INSERT INTO inbox (event_id, kind, asset_id, workflow_id, partition_key, at, since)
SELECT id, kind, asset_id, workflow_id, partition_key, now, since FROM new WHERE kind IS NOT NULL

-- name: lock
-- purpose: take an advisory lock until the end of the transaction; wait for it
SELECT pg_advisory_xact_lock(%(key)s)

-- name: now
-- purpose: read the database clock
SELECT freshline_now() AS now
