-- name: claim
-- purpose: claim due watches, and watches with a notification that nobody looks at, for the time of a lease
WITH moment AS MATERIALIZED (
    SELECT freshline_now() AS now
), due AS MATERIALIZED (
    SELECT w.asset_id FROM watches w CROSS JOIN moment m
     WHERE w.next_at <= m.now AND w.kind = ANY (%(kinds)s) AND NOT w.asset_id = ANY (%(excluded)s)
       AND (%(project)s::text IS NULL OR (
            SELECT p.code_hash FROM assets a JOIN projects p ON p.name = a.source_project
             WHERE a.id = w.asset_id AND p.name = %(project)s) = %(code_hash)s::text)
     ORDER BY w.next_at, w.asset_id LIMIT %(most)s
       FOR UPDATE OF w SKIP LOCKED
), hinted AS MATERIALIZED (
    SELECT w.asset_id FROM watches w
     WHERE w.asset_id = ANY (%(hinted)s) AND w.lease_until IS NULL AND w.breaker_at IS NULL
     ORDER BY w.asset_id LIMIT %(most)s
       FOR UPDATE OF w SKIP LOCKED
), claimed AS (
    UPDATE watches w
       SET claim = w.claim + 1, held_by = %(holder)s::uuid,
           lease_until = m.now + (w.timeout_ms + %(margin_ms)s) * interval '1 millisecond',
           next_at = m.now + (w.timeout_ms + %(margin_ms)s) * interval '1 millisecond'
      FROM (SELECT asset_id FROM due UNION SELECT asset_id FROM hinted) c, moment m
     WHERE w.asset_id = c.asset_id
    RETURNING w.asset_id, w.kind, w.mode, w.spec, w.timeout_ms, w.claim, w.position, w.revision, w.failures,
              w.breaker_at IS NOT NULL AS half_open, m.now
)
SELECT c.*, a.declaration, a.partitioning FROM claimed c JOIN assets a ON a.id = c.asset_id ORDER BY c.asset_id

-- name: peek
-- purpose: read a watch without a claim
SELECT w.asset_id, w.kind, w.mode, w.spec, w.timeout_ms, w.claim, w.position, w.revision, w.failures,
       w.breaker_at IS NOT NULL AS half_open, freshline_now() AS now, a.declaration, a.partitioning
  FROM watches w JOIN assets a ON a.id = w.asset_id WHERE w.asset_id = %(asset)s

-- name: until_due
-- purpose: read the seconds until the next watch is due; the end of a lease counts
SELECT extract(epoch FROM w.next_at - freshline_now())::double precision AS seconds
  FROM watches w
 WHERE w.kind = ANY (%(kinds)s) AND NOT w.asset_id = ANY (%(excluded)s)
   AND (%(project)s::text IS NULL OR (
            SELECT p.code_hash FROM assets a JOIN projects p ON p.name = a.source_project
             WHERE a.id = w.asset_id AND p.name = %(project)s) = %(code_hash)s::text)
 ORDER BY w.next_at LIMIT 1

-- name: lock_claim
-- purpose: lock the watch if the claim is still valid: not claimed later, not recorded yet, and not applied again
SELECT mode, revision FROM watches WHERE asset_id = %(asset)s AND claim = %(claim)s AND lease_until IS NOT NULL FOR UPDATE

-- name: record
-- purpose: store the position and the result of a look, and when the next one is due; end the lease
UPDATE watches w
   SET lease_until = NULL, held_by = NULL, position = %(position)s, summary = %(summary)s, looked_at = m.now,
       conflicts = CASE WHEN %(partial)s THEN w.conflicts ELSE %(conflicts)s END,
       revision = w.revision + %(revised)s, reported = w.reported + %(reported)s,
       reported_at = CASE WHEN %(reported)s > 0 THEN m.now ELSE w.reported_at END,
       failures = 0, failing_since = NULL, error = NULL, breaker_at = NULL,
       next_at = m.now + freshline_next_look(w.every_ms, %(pause_ms)s, %(took_ms)s) * interval '1 millisecond'
  FROM (SELECT freshline_now() AS now OFFSET 0) m
 WHERE w.asset_id = %(asset)s

-- name: note
-- purpose: store the results of looks that found nothing new, in one statement; return those whose claim was valid
WITH looks AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(%(looks)s) AS l (
        asset_id text, claim bigint, summary text, conflicts jsonb, pause_ms bigint, took_ms bigint,
        waited_ms bigint)
), held AS MATERIALIZED (
    SELECT w.asset_id FROM watches w JOIN looks l USING (asset_id)
     WHERE w.claim = l.claim AND w.lease_until IS NOT NULL ORDER BY w.asset_id FOR UPDATE OF w
)
UPDATE watches w
   SET lease_until = NULL, held_by = NULL, summary = l.summary, looked_at = m.now, conflicts = coalesce(l.conflicts, w.conflicts),
       failures = 0, failing_since = NULL, error = NULL, breaker_at = NULL,
       next_at = m.now + (freshline_next_look(w.every_ms, l.pause_ms, l.took_ms) - l.waited_ms) * interval '1 millisecond'
  FROM held h JOIN looks l USING (asset_id), (SELECT freshline_now() AS now OFFSET 0) m
 WHERE w.asset_id = h.asset_id
RETURNING w.asset_id

-- name: fail
-- purpose: store the error of a look; the next one follows after a growing pause, or after a long one with the breaker open
UPDATE watches w
   SET lease_until = NULL, held_by = NULL, failures = w.failures + 1, error = %(error)s,
       failing_since = coalesce(w.failing_since, m.now),
       breaker_at = CASE WHEN w.failures + 1 >= %(budget)s THEN coalesce(w.breaker_at, m.now) END,
       next_at = m.now + CASE WHEN w.failures + 1 >= %(budget)s THEN %(probe_ms)s::bigint * interval '1 millisecond'
                              ELSE freshline_backoff(w.failures, w.every_ms, %(probe_ms)s::bigint) END
  FROM (SELECT freshline_now() AS now OFFSET 0) m
 WHERE w.asset_id = %(asset)s
RETURNING w.failures, w.failures = %(budget)s AS opened

-- name: abandoned
-- purpose: find looks whose process has stopped, or is not seen any more; one that was never seen may be starting
SELECT w.asset_id, w.claim FROM watches w JOIN workers k ON k.id = w.held_by
 WHERE w.held_by IS NOT NULL AND w.lease_until IS NOT NULL
   AND (k.stopped_at IS NOT NULL OR k.seen_at <= freshline_now() - %(silent_ms)s * interval '1 millisecond')
 ORDER BY w.asset_id LIMIT %(most)s

-- name: release
-- purpose: end the leases of looks that nobody will record, so that others look now; a late result is refused
WITH held AS MATERIALIZED (
    SELECT w.asset_id FROM watches w JOIN jsonb_to_recordset(%(looks)s) AS l (asset_id text, claim bigint) USING (asset_id)
     WHERE w.claim = l.claim AND w.lease_until IS NOT NULL ORDER BY w.asset_id FOR UPDATE OF w
)
UPDATE watches w SET lease_until = NULL, held_by = NULL, next_at = m.now, claim = w.claim + 1
  FROM held h, (SELECT freshline_now() AS now OFFSET 0) m
 WHERE w.asset_id = h.asset_id
RETURNING w.asset_id

-- name: save_files
-- purpose: store the files whose state a look has changed
INSERT INTO watched_files AS f (asset_id, path_key, path, size, version, identity, state, was_size, was_version, seen_at,
                                revision)
SELECT %(asset)s, r.path_key, r.path, r.size, r.version, r.identity, r.state, r.was_size, r.was_version, m.now,
       %(revision)s
  FROM jsonb_to_recordset(%(files)s) AS r (
           path_key uuid, path text, size bigint, version text, identity bigint, state text, was_size bigint,
           was_version text),
       (SELECT freshline_now() AS now OFFSET 0) m
ON CONFLICT (asset_id, path_key) DO UPDATE
   SET size = excluded.size, version = excluded.version, identity = excluded.identity, state = excluded.state,
       was_size = excluded.was_size, was_version = excluded.was_version, seen_at = excluded.seen_at,
       revision = excluded.revision

-- name: files_since
-- purpose: read the files that were stored after a revision
SELECT path_key, identity FROM watched_files WHERE asset_id = %(asset)s AND revision > %(revision)s

-- name: files
-- purpose: read what is stored of some files
SELECT path, size, version, state, was_size, was_version FROM watched_files
 WHERE asset_id = %(asset)s AND path_key = ANY (%(keys)s)

-- name: watched_directories
-- purpose: read the watches of files, for notifications of the file system
SELECT w.asset_id, w.spec, a.declaration FROM watches w JOIN assets a ON a.id = w.asset_id
 WHERE w.kind = 'files' ORDER BY w.asset_id

-- name: lock
-- purpose: lock the watches of a project before its assets, as looks do
SELECT w.asset_id FROM watches w JOIN assets a ON a.id = w.asset_id WHERE a.source_project = %(project)s
 ORDER BY w.asset_id FOR UPDATE OF w

-- name: save
-- purpose: store the watches of a project; one that changed is looked at now, and another kind or mode begins anew
INSERT INTO watches AS w (asset_id, kind, mode, spec, every_ms, timeout_ms, next_at, revision)
SELECT r.asset_id, r.kind, r.mode, r.spec, r.every_ms, r.timeout_ms, freshline_now(),
       coalesce((SELECT max(f.revision) FROM watched_files f WHERE f.asset_id = r.asset_id), 0)
  FROM jsonb_to_recordset(%(rows)s) AS r (
           asset_id text, kind text, mode text, spec jsonb, every_ms bigint, timeout_ms bigint)
 ORDER BY r.asset_id
ON CONFLICT (asset_id) DO UPDATE
   SET kind = excluded.kind, mode = excluded.mode, spec = excluded.spec, every_ms = excluded.every_ms,
       timeout_ms = excluded.timeout_ms, next_at = excluded.next_at, claim = w.claim + 1, lease_until = NULL,
       position = CASE WHEN (w.kind, w.mode) = (excluded.kind, excluded.mode) THEN w.position END,
       held_by = NULL, failures = 0, failing_since = NULL, error = NULL, breaker_at = NULL
 WHERE (w.kind, w.mode, w.spec) IS DISTINCT FROM (excluded.kind, excluded.mode, excluded.spec)

-- name: redivide
-- purpose: look now at sources whose partitions have changed; other calendars and dimensions begin anew
UPDATE watches w
   SET next_at = freshline_now(), claim = w.claim + 1, lease_until = NULL, held_by = NULL, failures = 0,
       failing_since = NULL, error = NULL, breaker_at = NULL,
       position = CASE WHEN w.asset_id = ANY (%(anew)s) THEN NULL ELSE w.position END
 WHERE w.asset_id = ANY (%(assets)s)

-- name: drop
-- purpose: delete the watches of sources without `watch`, and of assets that are not sources any more
DELETE FROM watches w USING assets a
 WHERE a.id = w.asset_id AND NOT w.asset_id = ANY (%(watched)s)
   AND (a.source_project = %(project)s OR a.source_project IS NULL)

-- name: drop_files
-- purpose: forget the files of assets that are not sources any more
DELETE FROM watched_files WHERE asset_id = ANY (%(assets)s)
