-- name: next_commit
-- purpose: claim the lowest version of a table that is not in its Delta log; the row lock keeps other writers off that log
-- Versions are numbered over all partitions of a table, and are written in this order.
SELECT c.asset_id, c.partition_key, c.table_version, c.tries, (SELECT freshline_now()) AS now
  FROM table_commits c
 WHERE c.eligible_at <= (SELECT freshline_now())
   AND NOT EXISTS (SELECT FROM table_commits e
                    WHERE e.asset_id = c.asset_id AND e.table_version < c.table_version)
 ORDER BY c.eligible_at, c.asset_id LIMIT 1
   FOR UPDATE OF c SKIP LOCKED

-- name: committed
-- purpose: delete the table versions that are now in the log
DELETE FROM table_commits WHERE asset_id = %(asset)s AND table_version <= %(version)s

-- name: commit_failed
-- purpose: schedule the next try, doubling up to five minutes, and store the error
UPDATE table_commits
   SET tries = tries + 1, trouble = %(trouble)s,
       eligible_at = freshline_now() + least(300, 2.0 ^ least(tries, 10)) * interval '1 s'
 WHERE asset_id = %(asset)s AND table_version = %(version)s

-- name: lock_log
-- purpose: lock the Delta log of a table until the end of the transaction; an advisory lock, because there may be no row
SELECT pg_advisory_xact_lock(hashtextextended(concat_ws('/', 'freshline log', %(asset)s::text, ''), 0))

-- name: try_lock_log
-- purpose: lock the Delta log of a table, or report that another session holds it
SELECT pg_try_advisory_xact_lock(
           hashtextextended(concat_ws('/', 'freshline log', %(asset)s::text, ''), 0)) AS locked

-- name: commit_waits
-- purpose: postpone a commit while the table's log is being rewritten
UPDATE table_commits SET eligible_at = freshline_now() + interval '1 s'
 WHERE asset_id = %(asset)s AND table_version = %(version)s

-- name: versions
-- purpose: read a range of versions of a table, with what each added
-- A batch publishes several partitions in one version, and retention removes several with one.
SELECT DISTINCT ON (table_version, partition_key) table_version, base_version, partition_key, sequence, produced_at, schema,
       location, gone_at, retired
  FROM snapshots
 WHERE asset_id = %(asset)s AND table_version BETWEEN %(first)s AND %(last)s
 ORDER BY table_version, partition_key, sequence

-- name: table_at
-- purpose: read what a version of a table consists of: of each partition, or of one, its newest version up to then
WITH part AS MATERIALIZED (
    SELECT DISTINCT ON (partition_key) partition_key, base_version, table_version FROM snapshots
     WHERE asset_id = %(asset)s AND table_version <= %(version)s AND (%(key)s::text IS NULL OR partition_key = %(key)s)
     ORDER BY partition_key, table_version DESC, sequence
)
SELECT DISTINCT ON (s.table_version, s.partition_key) s.table_version, s.base_version, s.partition_key, s.sequence,
       s.produced_at, s.schema, s.location, s.gone_at, s.retired
  FROM part p JOIN snapshots s ON s.asset_id = %(asset)s AND s.partition_key = p.partition_key
                              AND s.table_version BETWEEN p.base_version AND p.table_version
 ORDER BY s.table_version, s.partition_key, s.sequence

-- name: logged_tables
-- purpose: read a page of tables with their newest versions and the lowest ones that are not in their Delta logs yet
SELECT a.id AS asset, n.number AS newest,
       (SELECT min(c.table_version) FROM table_commits c WHERE c.asset_id = a.id) AS pending
  FROM assets a
 CROSS JOIN LATERAL (SELECT max(s.table_version) AS number FROM snapshots s
                      WHERE s.asset_id = a.id AND s.table_version IS NOT NULL) n
 WHERE a.id > %(after)s AND n.number IS NOT NULL
 ORDER BY a.id LIMIT %(batch)s

-- name: table_head
-- purpose: lock an asset that has a table, with the number of its newest version and the columns of the whole table
SELECT a.id, a.producer_id, a.declaration, h.sequence, h.last_sequence, h.data_version, h.retired_at, t.table_version, t.schema
  FROM assets a
  LEFT JOIN heads h ON h.asset_id = a.id AND h.partition_key = %(partition)s
  LEFT JOIN LATERAL (SELECT s.table_version, coalesce(s.location -> 'tableSchema', s.schema) AS schema FROM snapshots s
                      WHERE s.asset_id = a.id AND s.table_version IS NOT NULL ORDER BY s.table_version DESC LIMIT 1) t ON true
 WHERE a.id = %(asset)s
   FOR NO KEY UPDATE OF a

-- name: newest_version
-- purpose: read the number of the newest version of a table, without a lock
SELECT (SELECT max(s.table_version) FROM snapshots s WHERE s.asset_id = a.id AND s.table_version IS NOT NULL) AS number
  FROM assets a
 WHERE a.id = %(asset)s

-- name: restored
-- purpose: read a version to roll back to, with all its directories and files
SELECT s.*, freshline_parts(s) AS parts,
       (SELECT jsonb_object_agg(f.key, f.value)
          FROM snapshots x, jsonb_each(x.location -> 'files') f
         WHERE x.asset_id = s.asset_id AND x.partition_key = s.partition_key
           AND x.table_version BETWEEN s.base_version AND s.table_version) AS all_files
  FROM snapshots s
 WHERE s.asset_id = %(asset)s AND s.partition_key = %(partition)s AND s.sequence = %(version)s

-- name: restored_partition
-- purpose: read the version of a partition that a version of the whole table had, with all its directories and files
SELECT s.*, freshline_parts(s) AS parts,
       (SELECT jsonb_object_agg(f.key, f.value)
          FROM snapshots x, jsonb_each(x.location -> 'files') f
         WHERE x.asset_id = s.asset_id AND x.partition_key = s.partition_key
           AND x.table_version BETWEEN s.base_version AND s.table_version) AS all_files
  FROM snapshots s
 WHERE s.asset_id = %(asset)s AND s.partition_key = %(partition)s AND s.table_version <= %(version)s AND NOT s.retired
 ORDER BY s.table_version DESC, s.sequence LIMIT 1

-- name: partitioning
-- purpose: read how an asset is divided into partitions
SELECT id, partitioning FROM assets WHERE id = %(asset)s

-- name: mark_versions
-- purpose: mark the versions of a page of tables that are no longer needed (docs/semantics.md#R9.8)
-- Kept are the head, the newest versions, versions that were replaced recently, the pins of queued and running runs, and
-- everything that these were appended to.
WITH page AS MATERIALIZED (
    SELECT a.id, coalesce((a.declaration #>> '{table,keepVersions}')::bigint, %(versions)s) AS versions,
           coalesce((a.declaration #>> '{table,keepMs}')::bigint, %(age_ms)s) AS age_ms
      FROM assets a
     WHERE a.id > %(after)s AND (%(only)s::text IS NULL OR a.id = %(only)s)
       AND EXISTS (SELECT FROM snapshots s WHERE s.asset_id = a.id AND s.table_version IS NOT NULL)
     ORDER BY a.id LIMIT %(batch)s
), clock AS MATERIALIZED (
    SELECT freshline_now() AS now
), version AS MATERIALIZED (
    SELECT v.*, row_number() OVER newest AS rank, lag(v.since) OVER newest AS replaced_at,
           -- What retention removed is not one of the newest versions that are kept.
           v.table_version < coalesce(max(v.table_version) FILTER (WHERE v.retired)
                                      OVER (PARTITION BY v.asset_id, v.partition_key), 0) AS removed
      FROM (SELECT s.asset_id, s.partition_key, s.table_version, min(s.base_version) AS base_version,
                   min(s.produced_at) AS since, bool_or(s.retired) AS retired
              FROM page p JOIN snapshots s ON s.asset_id = p.id
             WHERE s.table_version IS NOT NULL AND s.gone_at IS NULL
             GROUP BY s.asset_id, s.partition_key, s.table_version) v
    WINDOW newest AS (PARTITION BY v.asset_id, v.partition_key ORDER BY v.table_version DESC)
), needed AS MATERIALIZED (
    SELECT v.asset_id, v.partition_key, v.base_version, v.table_version
      FROM version v JOIN page p ON p.id = v.asset_id, clock c
     WHERE (v.rank <= p.versions AND NOT v.removed) OR v.replaced_at > c.now - p.age_ms * interval '1 ms'
    UNION ALL
    SELECT s.asset_id, s.partition_key, s.base_version, s.table_version
      FROM page p JOIN heads h ON h.asset_id = p.id
      JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
     WHERE h.retired_at IS NULL
    UNION ALL -- a pin of all partitions as one: of each, the head that it had then
    SELECT s.asset_id, s.partition_key, s.base_version, s.table_version
      FROM runs r CROSS JOIN jsonb_each(r.pins) i JOIN page p ON i.key = p.id || '@'
     CROSS JOIN LATERAL (SELECT DISTINCT ON (x.partition_key) x.* FROM snapshots x
                          WHERE x.asset_id = p.id AND x.change <= (i.value ->> 'sequence')::bigint
                          ORDER BY x.partition_key, x.change DESC) s
     WHERE r.status IN ('queued', 'running') AND s.table_version IS NOT NULL
    UNION ALL
    SELECT s.asset_id, s.partition_key, s.base_version, s.table_version
      FROM runs r CROSS JOIN jsonb_each(r.pins) i JOIN page p ON p.id = freshline_asset(i.key)
      JOIN snapshots s ON s.asset_id = p.id AND s.partition_key = freshline_key(i.key)
                      AND s.sequence = (i.value ->> 'sequence')::bigint
     WHERE r.status IN ('queued', 'running')
), marked AS (
    UPDATE snapshots s SET gone_at = c.now
      FROM version v, clock c
     WHERE (s.asset_id, s.partition_key, s.table_version) = (v.asset_id, v.partition_key, v.table_version)
       AND s.gone_at IS NULL
       AND NOT EXISTS (SELECT FROM needed n
                        WHERE (n.asset_id, n.partition_key) = (v.asset_id, v.partition_key)
                          AND v.table_version BETWEEN n.base_version AND n.table_version)
    RETURNING s.asset_id, s.table_version
)
SELECT (SELECT max(id) FROM page) AS last, (SELECT count(*) FROM page) AS tables,
       (SELECT count(DISTINCT (asset_id, table_version)) FROM marked) AS marked

-- name: gone_versions
-- purpose: lock versions that were marked long enough ago; a decision that was made meanwhile has stored its pins by now
SELECT s.asset_id, s.partition_key, s.sequence, s.table_version, s.location
  FROM snapshots s
 WHERE s.gone_at < (SELECT freshline_now()) - %(grace_ms)s * interval '1 ms' AND s.removed_at IS NULL
   AND (%(only)s::text IS NULL OR s.asset_id = %(only)s)
 ORDER BY s.gone_at LIMIT %(batch)s
   FOR UPDATE OF s SKIP LOCKED

-- name: spared
-- purpose: find the marked versions that a queued or running run is pinned to
SELECT DISTINCT n.asset_id, n.partition_key, n.sequence
  FROM jsonb_to_recordset(%(rows)s) AS n (asset_id text, partition_key text, sequence bigint, table_version bigint)
 CROSS JOIN LATERAL (SELECT CASE n.partition_key WHEN '' THEN n.asset_id
                                 ELSE n.asset_id || '@' || n.partition_key END AS name) f
  JOIN runs r ON r.status IN ('queued', 'running') AND r.pins ? f.name
 CROSS JOIN LATERAL (SELECT s.base_version, s.table_version FROM snapshots s
                      WHERE s.asset_id = n.asset_id AND s.partition_key = n.partition_key
                        AND s.sequence = (r.pins -> f.name ->> 'sequence')::bigint LIMIT 1) s
 WHERE n.table_version BETWEEN s.base_version AND s.table_version
UNION -- a pin of all partitions as one
SELECT n.asset_id, n.partition_key, n.sequence
  FROM jsonb_to_recordset(%(rows)s) AS n (asset_id text, partition_key text, sequence bigint, table_version bigint)
  JOIN runs r ON r.status IN ('queued', 'running') AND r.pins ? (n.asset_id || '@')
 CROSS JOIN LATERAL (SELECT x.base_version, x.table_version FROM snapshots x
                      WHERE x.asset_id = n.asset_id AND x.partition_key = n.partition_key
                        AND x.change <= (r.pins -> (n.asset_id || '@') ->> 'sequence')::bigint
                      ORDER BY x.change DESC LIMIT 1) s
 WHERE n.table_version BETWEEN s.base_version AND s.table_version

-- name: spare
-- purpose: unmark versions
UPDATE snapshots s SET gone_at = NULL
  FROM jsonb_to_recordset(%(rows)s) AS n (asset_id text, partition_key text, sequence bigint)
 WHERE (s.asset_id, s.partition_key, s.sequence) = (n.asset_id, n.partition_key, n.sequence)

-- name: removed
-- purpose: mark versions as removed before their files are deleted
UPDATE snapshots s SET removed_at = freshline_now()
  FROM jsonb_to_recordset(%(rows)s) AS n (asset_id text, partition_key text, sequence bigint)
 WHERE (s.asset_id, s.partition_key, s.sequence) = (n.asset_id, n.partition_key, n.sequence)

-- name: named_paths
-- purpose: find directories that a needed version refers to
SELECT DISTINCT p.path
  FROM unnest(%(assets)s::text[]) AS a (id)
  JOIN snapshots s ON s.asset_id = a.id AND s.removed_at IS NULL
 CROSS JOIN jsonb_array_elements_text(s.location -> 'paths') AS p (path)
 WHERE p.path = ANY (%(paths)s)
