-- name: facts
-- purpose: read what several checks refer to: the clocks, the definitions, the live processes
SELECT freshline_now() AS now, clock_timestamp() AS clock, epoch, warehouse_id::text,
       freshline_now() - epoch_at > %(late)s * interval '1 ms' AS settled,
       (SELECT count(*) FROM heads) AS heads,
       (SELECT count(*) FROM workers WHERE kind = 'materializer' AND stopped_at IS NULL
           AND seen_at > freshline_now() - %(grace)s * interval '1 ms') AS materializers
  FROM installation

-- name: run_doubled
-- purpose: find workflows with more than one active automatic run, or more than one running run
SELECT w.slug, d.what, d.found, count(*) OVER () AS total
  FROM (SELECT workflow_id, 'active automatic' AS what, count(*) AS found FROM runs
         WHERE status IN ('queued', 'running') AND trigger_type <> 'manual'
         GROUP BY workflow_id, partition_key HAVING count(*) > 1
        UNION ALL
        SELECT workflow_id, 'running', count(*) FROM runs
         WHERE status = 'running' GROUP BY workflow_id, partition_key HAVING count(*) > 1) d
  JOIN workflows w ON w.id = d.workflow_id
 ORDER BY w.slug, d.what LIMIT %(limit)s

-- name: index_missing
-- purpose: find unique partial indexes that are missing, invalid, or on other columns
SELECT e.name, e.of, count(*) OVER () AS total
  FROM (VALUES ('runs_one_active', 'runs', '{workflow_id,partition_key}'),
               ('runs_one_running', 'runs', '{workflow_id,partition_key}'),
               ('runs_slots', 'runs', '{project,pool,slot}'),
               ('runs_concurrency_slots', 'runs', '{workflow_id,concurrency_slot}'),
               ('api_tokens_name', 'api_tokens', '{name}'),
               ('snapshots_report_key', 'snapshots', '{asset_id,partition_key,report_key}')) AS e (name, of, columns)
 WHERE NOT EXISTS (
        SELECT FROM pg_index i
         WHERE i.indexrelid = to_regclass(e.name) AND i.indrelid = to_regclass(e.of)
           AND i.indisunique AND i.indisvalid AND i.indpred IS NOT NULL
           AND e.columns::text[] = ARRAY(
                   -- The columns of the table: those of the index keep their names when a column is renamed.
                   SELECT a.attname::text
                     FROM unnest(i.indkey) WITH ORDINALITY AS k (attnum, ordinal)
                     JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
                    ORDER BY k.ordinal))
 ORDER BY e.name LIMIT %(limit)s

-- name: head_missing
-- purpose: find heads whose snapshot is missing or marked as gone
SELECT h.asset_id AS asset, h.sequence, CASE WHEN s.asset_id IS NULL THEN 'does not exist' ELSE 'is gone' END AS how,
       count(*) OVER () AS total
  FROM heads h
  LEFT JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
 WHERE s.asset_id IS NULL OR (s.gone_at IS NOT NULL AND h.retired_at IS NULL)
 ORDER BY h.asset_id LIMIT %(limit)s

-- name: head_differs
-- purpose: find heads that differ from their snapshot
SELECT h.asset_id AS asset, h.sequence, h.data_version AS head, s.data_version AS snapshot, count(*) OVER () AS total
  FROM heads h
  JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
 WHERE h.data_version <> s.data_version OR h.table_version IS DISTINCT FROM s.table_version
    OR h.produced_at <> s.produced_at
 ORDER BY h.asset_id LIMIT %(limit)s

-- name: code_unknown
-- purpose: find heads with rows of a version of a workflow that does not exist; 0 stands for several versions
SELECT h.asset_id AS asset, e.part ->> 'workflowVersion' AS version, e.part ->> 'workflow' AS workflow, count(*) OVER () AS total
  FROM heads h
  JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
 CROSS JOIN LATERAL jsonb_array_elements(s.code) AS e (part)
  LEFT JOIN workflow_versions v ON (v.workflow_id, v.version) = ((e.part ->> 'workflow')::bigint, (e.part ->> 'workflowVersion')::integer)
 WHERE v.version IS NULL AND e.part ->> 'workflowVersion' <> '0'
 ORDER BY h.asset_id LIMIT %(limit)s

-- name: pin_missing
-- purpose: find active runs whose pinned snapshot is missing or marked as gone
SELECT w.slug, r.id::text AS run, p.key AS asset, p.value ->> 'sequence' AS sequence, count(*) OVER () AS total
  FROM runs r
  JOIN workflows w ON w.id = r.workflow_id
 CROSS JOIN jsonb_each(r.pins) p
  LEFT JOIN snapshots s ON s.asset_id = freshline_asset(p.key) AND s.partition_key = freshline_key(p.key)
                       AND s.sequence = (p.value ->> 'sequence')::bigint
 WHERE r.status IN ('queued', 'running') AND (s.asset_id IS NULL OR s.gone_at IS NOT NULL)
   AND p.key NOT LIKE '%%@' -- all partitions as one: a number of a change
 ORDER BY w.slug, p.key LIMIT %(limit)s

-- name: vector_ahead
-- purpose: find workflows that consumed a version which never existed
SELECT w.slug, v.key AS asset, v.value ->> 'sequence' AS sequence, coalesce(d.change, h.last_sequence, 0) AS last,
       count(*) OVER () AS total
  FROM workflow_partitions p
  JOIN workflows w ON w.id = p.workflow_id
 CROSS JOIN jsonb_each(p.consumed_versions) v
  LEFT JOIN heads h ON h.asset_id = freshline_asset(v.key) AND h.partition_key = freshline_key(v.key)
  LEFT JOIN asset_digests d ON v.key = d.asset_id || '@'
 WHERE (v.value ->> 'sequence')::bigint > coalesce(d.change, h.last_sequence, 0)
 ORDER BY w.slug, v.key LIMIT %(limit)s

-- name: digest_differs
-- purpose: find assets with partitions whose digest is not that of their heads, or is missing
-- Those that retention removed are counted beside the others.
SELECT asset_id AS asset, coalesce(d.keys, 0) AS keys, coalesce(h.heads, 0) AS heads, count(*) OVER () AS total
  FROM asset_digests d
  FULL JOIN (SELECT asset_id, count(*) FILTER (WHERE retired_at IS NULL) AS heads,
                    coalesce(sum(freshline_digest(partition_key, data_version)) FILTER (WHERE retired_at IS NULL), 0) AS digest,
                    count(*) FILTER (WHERE retired_at IS NOT NULL) AS retired,
                    coalesce(sum(freshline_digest(partition_key, data_version)) FILTER (WHERE retired_at IS NOT NULL), 0)
                        AS retired_digest
               FROM heads WHERE partition_key <> '' GROUP BY asset_id) h USING (asset_id)
 WHERE (coalesce(d.keys, 0), coalesce(d.digest, 0), coalesce(d.retired_keys, 0), coalesce(d.retired_digest, 0))
    <> (coalesce(h.heads, 0), coalesce(h.digest, 0), coalesce(h.retired, 0), coalesce(h.retired_digest, 0))
 ORDER BY asset_id LIMIT %(limit)s

-- name: recompute_digests
-- purpose: compute the digests of locked assets from their heads, as a new change
INSERT INTO asset_digests AS d (asset_id, change, keys, digest, retired_keys, retired_digest, changed_at)
SELECT a.id, 1 + coalesce((SELECT max(s.change) FROM snapshots s WHERE s.asset_id = a.id AND s.change IS NOT NULL), 0),
       count(h.asset_id) FILTER (WHERE h.retired_at IS NULL),
       coalesce(sum(freshline_digest(h.partition_key, h.data_version)) FILTER (WHERE h.retired_at IS NULL), 0),
       count(h.asset_id) FILTER (WHERE h.retired_at IS NOT NULL),
       coalesce(sum(freshline_digest(h.partition_key, h.data_version)) FILTER (WHERE h.retired_at IS NOT NULL), 0),
       freshline_now()
  FROM unnest(%(assets)s::text[]) AS a (id)
  LEFT JOIN heads h ON h.asset_id = a.id AND h.partition_key <> ''
 GROUP BY a.id
 ORDER BY a.id
ON CONFLICT (asset_id) DO UPDATE
   SET change = greatest(d.change + 1, excluded.change), keys = excluded.keys, digest = excluded.digest,
       retired_keys = excluded.retired_keys, retired_digest = excluded.retired_digest, changed_at = excluded.changed_at

-- name: touch_readers
-- purpose: have the workflows evaluated that read partitions of these assets
INSERT INTO inbox (event_id, kind, workflow_id, partition_key, at)
SELECT freshline_id(), 'touched', e.workflow_id, '', freshline_now()
  FROM edges e JOIN workflows w ON w.id = e.workflow_id AND w.retired_at IS NULL
 WHERE e.asset_id = ANY (%(assets)s) AND e.mapped
 ORDER BY e.workflow_id

-- name: backfill_stuck
-- purpose: find active backfills that nothing moves: partitions that nothing evaluates, or no turn for an hour
WITH active AS MATERIALIZED (
    SELECT b.id, b.asset_id, greatest(b.requested_at, b.progressed_at, b.not_before) AS since, (SELECT freshline_now()) AS now
      FROM backfills b WHERE b.ended_at IS NULL AND b.status = 'active'
), concerned AS MATERIALIZED (
    SELECT i.workflow_id FROM inbox i WHERE i.workflow_id IS NOT NULL
    UNION SELECT e.workflow_id FROM inbox i JOIN edges e ON e.asset_id = i.asset_id
), counted AS (
    SELECT b.id, b.asset_id, b.since, b.now,
           -- One that misses an input is evaluated when the input gets data.
           (SELECT count(*) FROM backfill_partitions p
             WHERE p.backfill_id = b.id AND p.state = 'open'
               AND NOT EXISTS (SELECT FROM considerations c
                                WHERE c.workflow_id = p.workflow_id AND c.partition_key IN (p.partition_key, ''))
               AND NOT EXISTS (SELECT FROM runs r WHERE (r.workflow_id, r.partition_key) = (p.workflow_id, p.partition_key)
                                  AND r.status IN ('queued', 'running'))
               AND NOT EXISTS (SELECT FROM concerned c WHERE c.workflow_id = p.workflow_id)
               AND (SELECT d.reason FROM decisions d WHERE (d.workflow_id, d.partition_key) = (p.workflow_id, p.partition_key)
                     ORDER BY d.at DESC, d.id DESC LIMIT 1) IS DISTINCT FROM 'input-missing') AS lost,
           EXISTS (SELECT FROM backfill_partitions p WHERE p.backfill_id = b.id AND p.state = 'open') AS open,
           EXISTS (SELECT FROM runs r WHERE r.trigger ->> 'backfillId' = b.id::text AND r.trigger_type = 'backfill'
                      AND r.status IN ('queued', 'running')) AS running
      FROM active b
)
SELECT c.id::text AS id, c.asset_id AS asset, count(*) OVER () AS total,
       CASE WHEN c.lost = 1 THEN 'has an open partition that nothing evaluates'
            WHEN c.lost > 1 THEN 'has ' || c.lost || ' open partitions that nothing evaluates'
            ELSE 'has not gone on for an hour, and nothing of it is open or running' END AS how
  FROM counted c
 WHERE (c.lost > 0 AND c.since < c.now - %(late)s * interval '1 ms')
    OR (NOT c.open AND NOT c.running AND c.since < c.now - interval '1 hour')
 ORDER BY c.id LIMIT %(limit)s

-- name: removed_has_data
-- purpose: find partitions that retention removed and that the newest version of their table still has
SELECT h.asset_id AS asset, h.partition_key AS key, n.table_version AS version, count(*) OVER () AS total
  FROM heads h
 CROSS JOIN LATERAL (SELECT s.table_version, s.retired FROM snapshots s
                      WHERE s.asset_id = h.asset_id AND s.partition_key = h.partition_key AND s.table_version IS NOT NULL
                      ORDER BY s.table_version DESC, s.sequence DESC LIMIT 1) n
 WHERE h.retired_at IS NOT NULL AND NOT n.retired
 ORDER BY h.asset_id, h.partition_key LIMIT %(limit)s

-- name: definition_differs
-- purpose: find assets and edges that differ from the current definitions
WITH step AS (
    SELECT w.id, s.value AS step
      FROM workflows w
      JOIN workflow_versions v ON (v.workflow_id, v.version) = (w.id, w.version)
     CROSS JOIN jsonb_array_elements(v.definition -> 'steps') s
     WHERE w.retired_at IS NULL
), made AS (
    SELECT DISTINCT id, p ->> 'assetId' AS asset FROM step, jsonb_array_elements(step -> 'produces') p
), read AS (
    SELECT id, c ->> 'assetId' AS asset FROM step, jsonb_array_elements(step -> 'consumes') c
    EXCEPT SELECT id, asset FROM made
), odd AS (
    (SELECT id, asset, 'should produce' AS how, 'is not stored as its producer' AS but FROM made
      EXCEPT SELECT producer_id, id, 'should produce', 'is not stored as its producer' FROM assets)
    UNION ALL
    (SELECT a.producer_id, a.id, 'is stored as the producer of', 'does not produce it'
       FROM assets a JOIN workflows w ON w.id = a.producer_id AND w.retired_at IS NULL
      EXCEPT SELECT id, asset, 'is stored as the producer of', 'does not produce it' FROM made)
    UNION ALL
    (SELECT id, asset, 'should consume', 'is not stored as its consumer' FROM read
      EXCEPT SELECT workflow_id, asset_id, 'should consume', 'is not stored as its consumer' FROM edges)
    UNION ALL
    (SELECT e.workflow_id, e.asset_id, 'is stored as a consumer of', 'does not consume it'
       FROM edges e JOIN workflows w ON w.id = e.workflow_id AND w.retired_at IS NULL
      EXCEPT SELECT id, asset, 'is stored as a consumer of', 'does not consume it' FROM read)
)
SELECT w.slug, o.asset, o.how, o.but, count(*) OVER () AS total
  FROM odd o JOIN workflows w ON w.id = o.id ORDER BY w.slug, o.asset LIMIT %(limit)s

-- name: owner_retired
-- purpose: find assets and edges of retired workflows
SELECT w.slug, o.asset, o.how, w.id AS workflow_id, count(*) OVER () AS total
  FROM (SELECT producer_id AS workflow_id, id AS asset, 'producer' AS how FROM assets WHERE producer_id IS NOT NULL
        UNION ALL
        SELECT workflow_id, asset_id, 'consumer' FROM edges) o
  JOIN workflows w ON w.id = o.workflow_id AND w.retired_at IS NOT NULL
 ORDER BY w.slug, o.asset LIMIT %(limit)s

-- name: pool_overfull
-- purpose: find runs that started beyond the limit of their pool or workflow, unless the limit was lowered meanwhile
SELECT w.slug, r.id::text AS run, o.what, o.place, o.most, count(*) OVER () AS total
  FROM runs r
  JOIN workflows w ON w.id = r.workflow_id
  JOIN projects j ON j.name = r.project
  LEFT JOIN pools p ON p.project = r.project AND p.name = r.pool
 CROSS JOIN LATERAL (VALUES ('slot', r.slot, p.slots), ('concurrency slot', r.concurrency_slot, w.max_concurrency)) AS o (what, place, most)
 WHERE r.status = 'running' AND o.place > o.most
   AND r.started_at > greatest(j.applied_at, w.applied_at) + %(late)s * interval '1 ms'
 ORDER BY w.slug, r.id LIMIT %(limit)s

-- name: timer_missing
-- purpose: find assets with a declared freshness and no timer; a job may return another freshness than declared
WITH promised AS (
    SELECT a.id, w.slug, o -> 'freshness' AS fresh, h.sequence
      FROM assets a
      JOIN workflows w ON w.id = a.producer_id AND w.retired_at IS NULL
     CROSS JOIN jsonb_array_elements(w.policy -> 'outputs') o
      LEFT JOIN heads h ON h.asset_id = a.id AND h.partition_key = ''
     WHERE o ->> 'asset_id' = a.id AND a.partitioning IS NULL
), expected AS (
    SELECT id, slug, sequence, 'expiry' AS kind FROM promised
     WHERE fresh ->> 'cadence_ms' IS NOT NULL OR fresh ->> 'cron' IS NOT NULL
        OR (fresh ->> 'ttl_ms' IS NOT NULL AND sequence IS NOT NULL)
    UNION ALL
    SELECT id, slug, sequence, 'overdue' FROM promised
     WHERE fresh ->> 'max_age_ms' IS NOT NULL AND sequence IS NOT NULL
)
SELECT e.id AS asset, e.slug, e.kind, count(*) OVER () AS total
  FROM expected e
 WHERE NOT EXISTS (SELECT FROM timers t WHERE (t.asset_id, t.partition_key, t.kind) = (e.id, '', e.kind))
   AND NOT EXISTS (SELECT FROM snapshots s JOIN run_steps r ON r.run_id = s.run_id, jsonb_array_elements(r.outputs) x
                    WHERE (s.asset_id, s.partition_key, s.sequence) = (e.id, '', e.sequence)
                      AND x ->> 'asset_id' = e.id AND x ->> 'freshness' IS NOT NULL)
 ORDER BY e.id, e.kind LIMIT %(limit)s

-- name: timer_orphan
-- purpose: find armed timers without a declared freshness; a job may have returned one that is not declared
SELECT t.asset_id AS asset, t.kind, t.reason, count(*) OVER () AS total
  FROM timers t
  JOIN assets a ON a.id = t.asset_id
  LEFT JOIN workflows w ON w.id = a.producer_id AND w.retired_at IS NULL
  LEFT JOIN LATERAL (SELECT o -> 'freshness' AS fresh FROM jsonb_array_elements(w.policy -> 'outputs') o
                      WHERE o ->> 'asset_id' = a.id) p ON true
 WHERE t.due_at IS NOT NULL AND t.reason <> 'manual' AND t.kind IN ('expiry', 'overdue')
   AND CASE t.kind WHEN 'overdue' THEN p.fresh ->> 'max_age_ms' IS NULL
            ELSE coalesce(p.fresh ->> 'ttl_ms', p.fresh ->> 'cadence_ms', p.fresh ->> 'cron') IS NULL END
   AND (w.id IS NULL OR NOT EXISTS (
        SELECT FROM heads h
          JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
          JOIN run_steps r ON r.run_id = s.run_id, jsonb_array_elements(r.outputs) x
         WHERE (h.asset_id, h.partition_key) = (t.asset_id, t.partition_key)
           AND x ->> 'asset_id' = t.asset_id AND x ->> 'freshness' IS NOT NULL))
 ORDER BY t.asset_id, t.kind LIMIT %(limit)s

-- name: consideration_late
-- purpose: find workflows that should have been evaluated long ago
SELECT w.slug, coalesce(' (held: ' || c.hold || ')', '') AS held,
       extract(epoch FROM m.now - c.not_before)::float AS age, count(*) OVER () AS total
  FROM considerations c JOIN workflows w ON w.id = c.workflow_id, (SELECT freshline_now() AS now) m
 WHERE w.retired_at IS NULL AND c.not_before < m.now - %(late)s * interval '1 ms'
 ORDER BY c.not_before LIMIT %(limit)s

-- name: consideration_retired
-- purpose: find considerations of retired workflows; one may be added during an apply, and a reconciler deletes it
SELECT w.slug, w.id AS workflow_id, extract(epoch FROM m.now - c.noted_at)::float AS age, count(*) OVER () AS total
  FROM considerations c JOIN workflows w ON w.id = c.workflow_id, (SELECT freshline_now() AS now) m
 WHERE w.retired_at IS NOT NULL AND c.noted_at < m.now - %(late)s * interval '1 ms'
 ORDER BY c.noted_at LIMIT %(limit)s

-- name: event_unabsorbed
-- purpose: find inbox rows that should have been consumed long ago
SELECT coalesce('asset ''' || i.asset_id || '''', 'workflow ''' || w.slug || '''') AS subject, i.kind,
       extract(epoch FROM m.now - i.at)::float AS age, count(*) OVER () AS total
  FROM inbox i LEFT JOIN workflows w ON w.id = i.workflow_id, (SELECT freshline_now() AS now) m
 WHERE i.at < m.now - %(late)s * interval '1 ms'
 ORDER BY i.at LIMIT %(limit)s

-- name: timer_late
-- purpose: find timers that should have fired long ago
SELECT t.asset_id AS asset, t.kind, extract(epoch FROM m.now - t.due_at)::float AS age, count(*) OVER () AS total
  FROM timers t, (SELECT freshline_now() AS now) m
 WHERE t.due_at < m.now - %(late)s * interval '1 ms'
 ORDER BY t.due_at LIMIT %(limit)s

-- name: lease_lost
-- purpose: find runs whose lease ended long ago
SELECT w.slug, r.id::text AS run, extract(epoch FROM m.now - r.lease_until)::float AS age, count(*) OVER () AS total
  FROM runs r JOIN workflows w ON w.id = r.workflow_id, (SELECT freshline_now() AS now) m
 WHERE r.status = 'running' AND r.lease_until < m.now - %(late)s * interval '1 ms'
 ORDER BY r.lease_until LIMIT %(limit)s

-- name: run_unattended
-- purpose: find runs that have waited for long and that no recently seen worker could take
SELECT w.slug, r.id::text AS run, r.project, extract(epoch FROM m.now - r.queued_at)::float AS age,
       count(*) OVER () AS total
  FROM runs r JOIN workflows w ON w.id = r.workflow_id, (SELECT freshline_now() AS now) m
 WHERE r.status = 'queued' AND r.queued_at < m.now - %(late)s * interval '1 ms'
   AND NOT EXISTS (SELECT FROM workers k WHERE k.kind = 'worker' AND k.project = r.project
                      AND k.seen_at > m.now - %(late)s * interval '1 ms'
                      AND (r.code_hash IS NULL OR k.code_hash = r.code_hash)
                      AND (NOT r.needs_spark OR coalesce(k.info ->> 'engine', 'ok') = 'ok'))
 ORDER BY r.queued_at LIMIT %(limit)s

-- name: event_unstamped
-- purpose: find events that should have been numbered long ago
SELECT e.type, e.subject, extract(epoch FROM m.now - e.time)::float AS age, count(*) OVER () AS total
  FROM events e, (SELECT freshline_now() AS now) m
 WHERE e.position IS NULL AND e.time < m.now - %(late)s * interval '1 ms'
 ORDER BY e.time LIMIT %(limit)s

-- name: materializers
-- purpose: read what live materializers report, and how many heads may be newer than each report
SELECT k.host, k.pid, k.info ->> 'graph' AS graph, (k.info ->> 'epoch')::bigint AS epoch,
       (k.info ->> 'heads')::bigint AS heads,
       (SELECT count(*) FROM heads h WHERE h.produced_at > k.seen_at - interval '1 minute') AS young
  FROM workers k
 WHERE k.kind = 'materializer' AND k.stopped_at IS NULL
   AND k.seen_at > freshline_now() - %(grace)s * interval '1 ms'
 ORDER BY k.started_at, k.id LIMIT 1000

-- name: tables
-- purpose: read a page of the directories that Freshline wrote and that heads consist of, by asset and table version
SELECT h.asset_id AS asset, h.partition_key AS key, h.sequence, p.table_version AS version, p.location
  FROM heads h
  JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
 CROSS JOIN LATERAL (
     SELECT DISTINCT ON (x.table_version) x.table_version, x.location FROM snapshots x
      WHERE x.asset_id = s.asset_id AND x.partition_key = s.partition_key
        AND x.table_version BETWEEN s.base_version AND s.table_version
      ORDER BY x.table_version, x.sequence) p
 WHERE h.asset_id >= %(asset)s AND (h.asset_id, p.table_version, h.partition_key) > (%(asset)s, %(version)s, %(key)s)
   AND p.location ? 'files' AND h.retired_at IS NULL
 ORDER BY h.asset_id, p.table_version, h.partition_key LIMIT %(batch)s

-- name: commit_late
-- purpose: find table versions that should be in their Delta logs by now
SELECT c.asset_id AS asset, c.table_version AS version, c.tries, coalesce(c.trouble, 'not tried yet') AS trouble,
       count(*) OVER () AS total
  FROM table_commits c JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (c.asset_id, c.partition_key, c.sequence)
 WHERE s.produced_at < (SELECT freshline_now()) - %(late)s * interval '1 ms'
 ORDER BY c.asset_id, c.table_version LIMIT %(limit)s

-- name: incident_stuck
-- purpose: find open incidents whose members are all fine, although alerts should have been evaluated since
SELECT r.name AS rule, substr(i.root, strpos(i.root, ':') + 1) AS root,
       to_char(i.opened_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') AS since, count(*) OVER () AS total
  FROM alert_incidents i JOIN alert_rules r ON r.id = i.rule_id CROSS JOIN alert_evaluation e
 WHERE i.closed_at IS NULL AND i.done_at IS NULL
   AND coalesce(i.recovered_at, e.evaluated_at, i.opened_at) < (SELECT freshline_now()) - %(late)s * interval '1 ms'
                                                              - (r.policy ->> 'clear_after_ms')::bigint * interval '1 ms'
   AND NOT EXISTS (SELECT FROM workflows w JOIN workflow_partitions p ON p.workflow_id = w.id
                    WHERE 'workflow:' || w.slug = ANY (i.members) AND w.retired_at IS NULL AND p.failures > 0)
   AND NOT EXISTS (SELECT FROM timers t JOIN assets a ON a.id = t.asset_id JOIN workflows w ON w.id = a.producer_id
                    WHERE t.kind = 'overdue' AND t.expired_at IS NOT NULL AND 'workflow:' || w.slug = ANY (i.members))
 ORDER BY r.name, i.opened_at LIMIT %(limit)s

-- name: alert_unsent
-- purpose: find rules whose messages wait for long or were given up
SELECT r.name AS rule, coalesce(r.shown[m.target + 1], 'a former address') AS "to", count(*) AS waiting,
       to_char(min(m.created_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') AS since,
       coalesce((array_agg(m.trouble ORDER BY m.number DESC) FILTER (WHERE m.trouble IS NOT NULL))[1],
                'no materializer has tried it') AS trouble, count(*) OVER () AS total
  FROM alert_messages m JOIN alert_rules r ON r.id = m.rule_id
 WHERE m.sent_at IS NULL AND r.paused_at IS NULL
   AND m.created_at < (SELECT freshline_now()) - %(late)s * interval '1 ms'
   AND (m.dead_at IS NULL OR NOT EXISTS (SELECT FROM alert_messages x
                                          WHERE (x.rule_id, x.target) = (m.rule_id, m.target) AND x.number > m.number
                                            AND x.sent_at IS NOT NULL))
 GROUP BY r.name, r.shown, m.target ORDER BY r.name, m.target LIMIT %(limit)s

-- name: head_sequence
-- purpose: read whether a head is still the one that was checked
SELECT sequence FROM heads WHERE asset_id = %(asset)s AND partition_key = %(key)s

-- name: kept_directories
-- purpose: find directories that must stay: of unfinished runs and recently failed checks by run, of needed versions by path
SELECT r.id::text AS run, NULL AS path FROM runs r
 WHERE r.id = ANY (%(runs)s::uuid[])
   AND (r.status IN ('queued', 'running')
        OR (r.error ->> 'code' = 'check' AND r.finished_at > freshline_now() - %(hours)s * interval '1 hour'))
UNION ALL
-- The directory of a batch has one below it for each partition.
SELECT NULL, d.path
  FROM snapshots s, jsonb_array_elements_text(s.location -> 'paths') AS p (path),
       array_to_string((string_to_array(p.path, '/'))[1:3], '/') AS d (path)
 WHERE s.asset_id = ANY (%(assets)s) AND s.removed_at IS NULL AND d.path = ANY (%(paths)s)

-- name: known_runs
-- purpose: find which of these runs the database knows, and the time from which on it has not forgotten any
SELECT freshline_now() - %(days)s * interval '1 day' AS since, array(SELECT r.id::text FROM runs r WHERE r.id = ANY (%(runs)s::uuid[])) AS known

-- name: mark
-- purpose: read the last position of an event and the revoked tokens, for the mark in the warehouse
SELECT freshline_now() AS at, e.position, e.id::text AS event,
       array(SELECT t.id::text FROM api_tokens t WHERE t.revoked_at IS NOT NULL AND t.expires_at > freshline_now()
              ORDER BY t.revoked_at DESC LIMIT %(limit)s) AS revoked
  FROM (SELECT 1) one
  LEFT JOIN LATERAL (SELECT position, id FROM events WHERE position IS NOT NULL ORDER BY position DESC LIMIT 1) e ON true

-- name: marked_event
-- purpose: read the event that now has a position of the mark, and the last position that was given
SELECT (SELECT id::text FROM events WHERE position = %(position)s) AS event,
       (SELECT last_value FROM event_positions) AS last

-- name: valid_tokens
-- purpose: read the valid tokens that were created before a time, with whether the mark says that they were revoked
SELECT name, id::text = ANY (%(revoked)s) AS revived
  FROM api_tokens
 WHERE revoked_at IS NULL AND expires_at > freshline_now() AND created_at <= %(at)s
 ORDER BY name

-- name: fingerprinted_heads
-- purpose: read the heads that are tables with a fingerprint, smallest first, with the rule of their data versions
SELECT h.asset_id AS asset, h.partition_key AS key, h.sequence, s.location, s.schema, s.rows, freshline_parts(s) AS parts,
       a.declaration -> 'dataVersion' AS rule
  FROM heads h
  JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
  JOIN assets a ON a.id = h.asset_id
 WHERE s.location ? 'fingerprint' AND h.retired_at IS NULL AND (%(assets)s::text[] IS NULL OR h.asset_id = ANY (%(assets)s))
 ORDER BY s.bytes, h.asset_id

-- name: part_schemas
-- purpose: read the columns that each directory of a table was written with; a later version may have more
SELECT DISTINCT ON (p.path) p.path, s.schema
  FROM snapshots s CROSS JOIN jsonb_array_elements_text(s.location -> 'paths') AS p (path)
 WHERE s.asset_id = %(asset)s AND s.table_version IS NOT NULL
 ORDER BY p.path, s.table_version, s.sequence

-- name: retired_rests
-- purpose: find retired workflows that still own something
SELECT w.id, EXISTS (SELECT FROM assets a WHERE a.producer_id = w.id)
             OR EXISTS (SELECT FROM edges e WHERE e.workflow_id = w.id) AS owns
  FROM workflows w
 WHERE w.retired_at IS NOT NULL
   AND (EXISTS (SELECT FROM considerations c WHERE c.workflow_id = w.id)
        OR EXISTS (SELECT FROM assets a WHERE a.producer_id = w.id)
        OR EXISTS (SELECT FROM edges e WHERE e.workflow_id = w.id))
 ORDER BY w.id

-- name: lock_assets
-- purpose: lock assets against publishing, as apply does, so that the time of production does not change
SELECT id, producer_id FROM assets WHERE id = ANY (%(assets)s) ORDER BY id FOR NO KEY UPDATE
