-- A try of a step ends with its run: `canceled`. A try whose worker, Spark or warehouse was lost is `lost`.
ALTER TABLE run_steps DROP CONSTRAINT run_steps_status_check;
ALTER TABLE run_steps ADD CONSTRAINT run_steps_status_check
    CHECK (status IN ('running', 'succeeded', 'failed', 'canceled', 'lost'));

-- Tries of ended runs and of earlier attempts were left running.
UPDATE run_steps s
   SET status = CASE WHEN r.status = 'canceled' AND s.attempt = r.attempt THEN 'canceled' ELSE 'lost' END,
       finished_at = greatest(s.started_at, coalesce(r.finished_at, r.queued_at))
  FROM runs r
 WHERE r.id = s.run_id AND s.status = 'running' AND (r.finished_at IS NOT NULL OR s.attempt < r.attempt);
