-- name: runs
-- purpose: count the newest runs by status, up to a number of them
SELECT status AS name, count(*) AS number
FROM (
    SELECT r.status FROM runs r
    WHERE (%(status)s::text IS NULL OR r.status = %(status)s)
      AND (%(workflows)s::bigint[] IS NULL OR r.workflow_id = ANY(%(workflows)s))
      AND (%(partition)s::text IS NULL OR r.partition_key = %(partition)s)
      AND (%(trigger)s::text IS NULL OR r.trigger_type = %(trigger)s)
      AND (%(since)s::timestamptz IS NULL OR r.queued_at >= %(since)s)
      AND (%(until)s::timestamptz IS NULL OR r.queued_at < %(until)s)
    ORDER BY r.queued_at DESC, r.id DESC LIMIT %(most)s
) x
GROUP BY status ORDER BY count(*) DESC, status

-- name: decisions
-- purpose: count the newest decisions by outcome, up to a number of them
SELECT outcome AS name, count(*) AS number
FROM (
    SELECT d.outcome FROM decisions d
    WHERE (%(workflows)s::bigint[] IS NULL OR d.workflow_id = ANY(%(workflows)s))
      AND (%(partition)s::text IS NULL OR d.partition_key = %(partition)s)
      AND (%(outcome)s::text IS NULL OR d.outcome = %(outcome)s)
      AND (%(since)s::timestamptz IS NULL OR d.at >= %(since)s)
      AND (%(until)s::timestamptz IS NULL OR d.at < %(until)s)
    ORDER BY d.at DESC, d.id DESC LIMIT %(most)s
) x
GROUP BY outcome ORDER BY count(*) DESC, outcome

-- name: events
-- purpose: count the newest events by type, up to a number of them
SELECT type AS name, count(*) AS number
FROM (
    SELECT e.type FROM events e
    WHERE (%(type)s::text IS NULL OR e.type = %(type)s OR starts_with(e.type, %(prefix)s))
      AND (%(subjects)s::text[] IS NULL OR e.subject = ANY(%(subjects)s))
      AND (%(partition)s::text IS NULL OR e.data ->> 'partitionKey' = %(partition)s)
      AND (%(since)s::timestamptz IS NULL OR e.time >= %(since)s)
      AND (%(until)s::timestamptz IS NULL OR e.time < %(until)s)
    ORDER BY e.time DESC, e.id DESC LIMIT %(most)s
) x
GROUP BY type ORDER BY count(*) DESC, type
