-- name: due
-- purpose: find the asset of which partitions have to be removed since the longest time
SELECT asset_id FROM timers WHERE kind = 'retire' AND due_at <= (SELECT freshline_now()) ORDER BY due_at, asset_id LIMIT 1

-- name: lock
-- purpose: lock an asset, so that no run publishes and no apply changes its retention meanwhile
SELECT id FROM assets WHERE id = %(asset)s FOR NO KEY UPDATE

-- name: asset
-- purpose: read the locked asset with its retention and its timer; a separate statement, which sees what the lock waited for
SELECT a.id, a.partitioning, w.slug, a.producer_id, (w.policy ->> 'retain_ms')::bigint AS retain_ms, t.due_at,
       n.table_version, n.location, coalesce(n.location -> 'tableSchema', n.schema) AS schema, (SELECT freshline_now()) AS now
  FROM assets a
  JOIN timers t ON (t.asset_id, t.partition_key, t.kind) = (a.id, '', 'retire') AND t.due_at <= (SELECT freshline_now())
  LEFT JOIN workflows w ON w.id = a.producer_id AND w.retired_at IS NULL
  LEFT JOIN LATERAL (SELECT s.table_version, s.location, s.schema FROM snapshots s
                      WHERE s.asset_id = a.id AND s.table_version IS NOT NULL
                      ORDER BY s.table_version DESC LIMIT 1) n ON true
 WHERE a.id = %(asset)s

-- name: with_data
-- purpose: read the partitions of an asset that have data, oldest first; those by time up to a key
SELECT partition_key FROM heads
 WHERE asset_id = %(asset)s AND partition_key <> '' AND retired_at IS NULL
   AND (%(before)s::text IS NULL OR partition_key COLLATE "C" < %(before)s)
 ORDER BY partition_key COLLATE "C"

-- name: lock_heads
-- purpose: lock the heads of partitions that are removed, in key order
SELECT h.partition_key, h.sequence, h.last_sequence, h.data_version, s.location ? 'files' AS table
  FROM heads h
  JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
 WHERE h.asset_id = %(asset)s AND h.partition_key = ANY (%(keys)s) AND h.retired_at IS NULL
 ORDER BY h.partition_key FOR UPDATE OF h

-- name: number
-- purpose: take the next number of the asset's changes, and move what is removed to the other part of its digest
UPDATE asset_digests d
   SET change = d.change + 1, keys = d.keys - g.keys, digest = d.digest - g.digest,
       retired_keys = d.retired_keys + g.keys, retired_digest = d.retired_digest + g.digest,
       changed_at = greatest(d.changed_at, freshline_now())
  FROM (SELECT count(*) AS keys, sum(freshline_digest(h.partition_key, h.data_version)) AS digest
          FROM heads h WHERE h.asset_id = %(asset)s AND h.partition_key = ANY (%(keys)s)) g
 WHERE d.asset_id = %(asset)s
RETURNING d.change

-- name: retire_heads
-- purpose: record that partitions have no data any more; their last versions stay known
UPDATE heads SET retired_at = freshline_now(), last_sequence = last_sequence + 1
 WHERE asset_id = %(asset)s AND partition_key = ANY (%(keys)s)

-- name: stop_clocks
-- purpose: stop the freshness clocks of removed partitions
DELETE FROM timers WHERE asset_id = %(asset)s AND partition_key = ANY (%(keys)s) AND kind IN ('expiry', 'overdue')

-- name: move_timer
-- purpose: set the time at which the next partition is removed
UPDATE timers SET due_at = %(due)s WHERE asset_id = %(asset)s AND partition_key = '' AND kind = 'retire'

-- name: drop_timer
-- purpose: delete the timer of an asset of which nothing is removed any more
DELETE FROM timers WHERE asset_id = %(asset)s AND partition_key = '' AND kind = 'retire'
