-- name: forget_workers
-- purpose: delete processes that were not seen for a day
DELETE FROM workers WHERE seen_at < freshline_now() - interval '1 day'

-- name: prune
-- purpose: delete a batch of old events and logs, and a page of old decisions and runs
-- The last decision of each workflow stays, and so do runs that a snapshot or a decision refers to. A tour visits each row that
-- stays once.
WITH old AS (SELECT freshline_now() - make_interval(days => %(days)s) AS before),
gone_events AS (
    DELETE FROM events_default WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM events_default
         WHERE time < (SELECT before FROM old) AND position IS NOT NULL ORDER BY time LIMIT %(batch)s
    )) RETURNING 1
), some_decisions AS MATERIALIZED (
    SELECT d.id, d.at FROM decisions d
     WHERE d.at < (SELECT before FROM old) AND (d.at, d.id) > (%(decided_at)s::timestamptz, %(decision)s::uuid)
     ORDER BY d.at, d.id LIMIT %(batch)s
), gone_decisions AS (
    DELETE FROM decisions d USING some_decisions x, old
     WHERE d.id = x.id AND d.last_at < old.before
       AND NOT EXISTS (SELECT FROM runs r WHERE r.id = d.run_id AND r.status IN ('queued', 'running'))
       -- The last decision of a workflow stays: it explains the present state, however old it is.
       AND d.id <> (SELECT n.id FROM decisions n
                     WHERE (n.workflow_id, n.partition_key) = (d.workflow_id, d.partition_key)
                     ORDER BY n.at DESC, n.id DESC LIMIT 1)
    RETURNING 1
), some_runs AS MATERIALIZED (
    SELECT r.id, r.queued_at FROM runs r
     WHERE r.queued_at < (SELECT before FROM old) AND (r.queued_at, r.id) > (%(queued_at)s::timestamptz, %(run)s::uuid)
     ORDER BY r.queued_at, r.id LIMIT %(batch)s
), gone_runs AS (
    DELETE FROM runs r USING some_runs x, old
     WHERE r.id = x.id AND r.finished_at < old.before
       AND NOT EXISTS (SELECT FROM snapshots s WHERE s.run_id = r.id)
       AND NOT EXISTS (SELECT FROM decisions d WHERE d.run_id = r.id)
    RETURNING 1
), gone_logs AS (
    DELETE FROM run_logs l USING (
        SELECT l.run_id, l.line FROM run_logs l WHERE l.at < (SELECT before FROM old) LIMIT %(batch)s
    ) x WHERE (l.run_id, l.line) = (x.run_id, x.line) RETURNING 1
)
SELECT (SELECT count(*) FROM gone_events) AS events, (SELECT count(*) FROM gone_decisions) AS decisions,
       (SELECT count(*) FROM gone_runs) AS runs, (SELECT count(*) FROM gone_logs) AS logs,
       (SELECT count(*) FROM some_decisions) AS decisions_seen, (SELECT count(*) FROM some_runs) AS runs_seen,
       d.at::text AS decided_at, d.id::text AS decision, r.queued_at::text AS queued_at, r.id::text AS run
  FROM (SELECT 1) one LEFT JOIN (SELECT at, id FROM some_decisions ORDER BY at DESC, id DESC LIMIT 1) d ON true
  LEFT JOIN (SELECT queued_at, id FROM some_runs ORDER BY queued_at DESC, id DESC LIMIT 1) r ON true

-- name: forget_snapshots
-- purpose: delete a page of snapshots that were replaced long ago and have no data of their own any more
-- Kept are the pins of queued and running runs, the first change that a consumer has not read (docs/semantics.md#R4.5), and the
-- newest version number of a table, so that it is not used twice.
WITH old AS MATERIALIZED (
    SELECT freshline_now() - make_interval(days => %(days)s) AS before
), page AS MATERIALIZED (
    SELECT s.asset_id, s.partition_key, s.sequence, s.changed, s.table_version, s.removed_at, s.produced_at, s.event_id
      FROM snapshots s
     WHERE (NOT s.changed OR s.table_version IS NULL OR s.removed_at IS NOT NULL)
       AND s.produced_at < (SELECT before FROM old) AND (s.produced_at, s.event_id) > (%(at)s::timestamptz, %(event)s::uuid)
     ORDER BY s.produced_at, s.event_id LIMIT %(batch)s
), replaced AS MATERIALIZED (
    SELECT p.asset_id, p.partition_key, p.sequence
      FROM page p JOIN heads h ON (h.asset_id, h.partition_key) = (p.asset_id, p.partition_key), old
     WHERE p.sequence < h.sequence
       AND (NOT p.changed OR p.table_version IS NULL OR (p.removed_at < old.before AND p.table_version < h.table_version))
       AND (SELECT x.produced_at FROM snapshots x
             WHERE (x.asset_id, x.partition_key) = (p.asset_id, p.partition_key) AND x.sequence > p.sequence
               AND (x.changed OR NOT p.changed) ORDER BY x.sequence LIMIT 1) < old.before
), reached AS MATERIALIZED ( -- how far consumers have read: many consumers, few distinct positions
    SELECT DISTINCT a.asset_id, a.partition_key, coalesce((w.consumed_versions -> a.asset_id ->> 'sequence')::bigint, 0) AS sequence
      FROM (SELECT DISTINCT asset_id, partition_key FROM replaced) a
      JOIN edges e ON e.asset_id = a.asset_id
      LEFT JOIN workflow_partitions w ON (w.workflow_id, w.partition_key) = (e.workflow_id, a.partition_key)
), pins AS MATERIALIZED (
    SELECT i.key, (i.value ->> 'sequence')::bigint AS sequence
      FROM runs r CROSS JOIN jsonb_each(r.pins) i
     WHERE r.status IN ('queued', 'running')
), needed AS MATERIALIZED (
    SELECT freshline_asset(i.key) AS asset_id, freshline_key(i.key) AS partition_key, i.sequence FROM pins i
    UNION ALL -- a pin of all partitions as one: of each that is replaced here, the head that it had then
    SELECT a.asset_id, a.partition_key, n.sequence
      FROM pins i
      JOIN (SELECT DISTINCT asset_id, partition_key FROM replaced) a ON i.key = a.asset_id || '@'
     CROSS JOIN LATERAL (SELECT x.sequence FROM snapshots x
                          WHERE (x.asset_id, x.partition_key) = (a.asset_id, a.partition_key)
                            AND x.change <= i.sequence ORDER BY x.change DESC LIMIT 1) n
    UNION ALL
    SELECT r.asset_id, r.partition_key, n.sequence
      FROM reached r
     CROSS JOIN LATERAL (SELECT x.sequence FROM snapshots x
                          WHERE (x.asset_id, x.partition_key) = (r.asset_id, r.partition_key) AND x.changed
                            AND x.sequence > r.sequence ORDER BY x.sequence LIMIT 1) n
), gone AS (
    DELETE FROM snapshots s USING replaced r
     WHERE (s.asset_id, s.partition_key, s.sequence) = (r.asset_id, r.partition_key, r.sequence)
       AND NOT EXISTS (SELECT FROM needed n WHERE (n.asset_id, n.partition_key, n.sequence)
                                                = (r.asset_id, r.partition_key, r.sequence))
    RETURNING 1
)
SELECT (SELECT count(*) FROM page) AS looked, (SELECT count(*) FROM gone) AS forgotten, l.produced_at::text AS at,
       l.event_id::text AS event
  FROM (SELECT 1) one LEFT JOIN (SELECT * FROM page ORDER BY produced_at DESC, event_id DESC LIMIT 1) l ON true

-- name: compactable
-- purpose: page over append sources; say of each whether its first deliveries that are not joined yet fill a chunk that is due
-- A chunk is due when all consumers have read it and it is an hour old, or when it is older than the retention.
WITH RECURSIVE sources AS (
    (SELECT d.asset_id, d.partition_key, d.last_number AS first_number FROM deliveries d
      WHERE d.first_number = d.last_number AND (d.asset_id, d.partition_key) > (%(asset)s, %(partition)s)
      ORDER BY d.asset_id, d.partition_key, d.last_number LIMIT 1)
    UNION ALL
    SELECT n.* FROM sources s
     CROSS JOIN LATERAL (
         SELECT d.asset_id, d.partition_key, d.last_number FROM deliveries d
          WHERE d.first_number = d.last_number AND (d.asset_id, d.partition_key) > (s.asset_id, s.partition_key)
          ORDER BY d.asset_id, d.partition_key, d.last_number LIMIT 1) n
), page AS MATERIALIZED (SELECT * FROM sources LIMIT %(batch)s)
SELECT p.asset_id, p.partition_key, p.first_number,
       coalesce(l.reported_at < freshline_now() - make_interval(days => %(days)s)
                OR (l.reported_at < freshline_now() - interval '1 hour' AND NOT EXISTS (
                    SELECT FROM edges e JOIN workflows w ON w.id = e.workflow_id AND w.retired_at IS NULL
                      LEFT JOIN workflow_partitions c ON (c.workflow_id, c.partition_key) = (e.workflow_id, p.partition_key)
                     WHERE e.asset_id = p.asset_id
                       AND coalesce((c.consumed_versions -> e.asset_id ->> 'sequence')::bigint, 0) < l.sequence)),
                false) AS due
  FROM page p
  LEFT JOIN LATERAL (
      SELECT (d.items -> 0 ->> 'reportedAt')::timestamptz AS reported_at, (d.items -> 0 ->> 'sequence')::bigint AS sequence
        FROM deliveries d
       WHERE d.asset_id = p.asset_id AND d.partition_key = p.partition_key AND d.last_number = p.first_number + %(chunk)s - 1
      ) l ON true
 ORDER BY p.asset_id, p.partition_key

-- name: lock_source
-- purpose: lock the head of a source against reports and skips, if nobody else has locked it
SELECT 1 FROM heads WHERE asset_id = %(asset)s AND partition_key = %(partition)s FOR UPDATE SKIP LOCKED

-- name: join_deliveries
-- purpose: join rows of one delivery each into one row; no delivery, number or key is lost
WITH chosen AS MATERIALIZED (
    SELECT x.last_number, x.items, x.keys FROM (
        SELECT d.last_number, d.items, d.keys,
               sum(octet_length(d.items::text)) OVER (ORDER BY d.last_number) - octet_length(d.items::text) AS bytes_before
          FROM deliveries d
         WHERE d.asset_id = %(asset)s AND d.partition_key = %(partition)s AND d.first_number = d.last_number
           AND d.last_number >= %(first)s AND d.last_number < %(first)s::bigint + %(chunk)s) x
     WHERE x.bytes_before < %(bytes)s
), joined AS MATERIALIZED (
    SELECT min(c.last_number) AS first_number, max(c.last_number) AS last_number,
           jsonb_agg(c.items -> 0 ORDER BY c.last_number) AS items,
           coalesce(array_agg(c.keys[1] ORDER BY c.last_number) FILTER (WHERE c.keys <> '{}'), '{}') AS keys
      FROM chosen c HAVING count(*) > 1
), gone AS (
    DELETE FROM deliveries d USING joined j
     WHERE d.asset_id = %(asset)s AND d.partition_key = %(partition)s
       AND d.last_number >= j.first_number AND d.last_number < j.last_number
)
UPDATE deliveries d SET first_number = j.first_number, items = j.items, keys = j.keys
  FROM joined j
 WHERE d.asset_id = %(asset)s AND d.partition_key = %(partition)s AND d.last_number = j.last_number
RETURNING d.last_number - d.first_number + 1 AS joined

-- name: partitions
-- purpose: list the time partitions of the event log
SELECT c.relname AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
 WHERE i.inhparent = 'events'::regclass ORDER BY c.relname
