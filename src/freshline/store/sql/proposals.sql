-- name: pending
-- purpose: find out whether a held partition is not listed as it is, or a listed one is not stale any more
SELECT EXISTS (SELECT FROM considerations c
                WHERE c.hold = 'backfill-proposed' AND c.counted IS NOT NULL AND c.not_before > (SELECT freshline_now())
                  AND (c.counted IN ('shared', 'own')
                       OR (c.counted = 'joined' AND NOT EXISTS (
                               SELECT FROM proposed_partitions l
                                WHERE (l.workflow_id, l.partition_key) = (c.workflow_id, c.partition_key)
                                  AND l.staleness = c.staleness))))
    OR EXISTS (SELECT FROM (SELECT id FROM backfills WHERE ended_at IS NULL AND status = 'proposed' OFFSET 0) b
                JOIN proposed_partitions l ON l.backfill_id = b.id
               WHERE NOT EXISTS (SELECT FROM considerations c
                                  WHERE (c.workflow_id, c.partition_key) = (l.workflow_id, l.partition_key))
                 AND NOT EXISTS (SELECT FROM runs r WHERE (r.workflow_id, r.partition_key) = (l.workflow_id, l.partition_key)
                                    AND r.status IN ('queued', 'running'))) AS pending

-- name: try_lock
-- purpose: let one process propose at a time
SELECT pg_try_advisory_xact_lock(%(lock)s) AS locked

-- name: drop_gone
-- purpose: forget listed partitions that came to rest: what made them stale is gone
DELETE FROM proposed_partitions l USING backfills b
 WHERE b.id = l.backfill_id AND b.ended_at IS NULL AND b.status = 'proposed'
   AND NOT EXISTS (SELECT FROM considerations c WHERE (c.workflow_id, c.partition_key) = (l.workflow_id, l.partition_key))
   AND NOT EXISTS (SELECT FROM runs r WHERE (r.workflow_id, r.partition_key) = (l.workflow_id, l.partition_key)
                      AND r.status IN ('queued', 'running'))
RETURNING l.backfill_id::text AS id

-- name: held
-- purpose: read the partitions that are held for an approval, with what is listed about them
SELECT c.workflow_id, c.partition_key, c.counted, c.staleness, c.origin,
       CASE WHEN b.status = 'proposed' THEN l.backfill_id::text END AS backfill_id, l.staleness AS listed
  FROM considerations c
  LEFT JOIN proposed_partitions l ON (l.workflow_id, l.partition_key) = (c.workflow_id, c.partition_key)
  LEFT JOIN backfills b ON b.id = l.backfill_id
 WHERE c.hold = 'backfill-proposed' AND c.counted IS NOT NULL AND c.not_before > (SELECT freshline_now())
 ORDER BY c.workflow_id, c.partition_key

-- name: unresolved
-- purpose: find the workflows with partitions that are due; `fresh`: for less than a minute
SELECT workflow_id, bool_or(not_before > (SELECT freshline_now()) - interval '1 minute') AS fresh
  FROM considerations
 WHERE class IN ('event', 'timer', 'sweep') AND not_before <= (SELECT freshline_now())
 GROUP BY workflow_id

-- name: confirmed
-- purpose: count the partitions of workflows that are stale, that have a reason of their own, and that started lately
SELECT w.id AS workflow_id, w.slug, w.version, w.project, w.policy,
       (SELECT count(*) FROM considerations c WHERE c.workflow_id = w.id AND c.counted IS NOT NULL) AS stale,
       (SELECT count(*) FROM considerations c WHERE c.workflow_id = w.id AND c.counted = 'own') AS own,
       (SELECT count(DISTINCT r.partition_key) FROM runs r
         WHERE r.workflow_id = w.id AND r.counted AND r.queued_at > (SELECT freshline_now()) - interval '24 h'
           AND (r.status <> 'canceled' OR r.started_at IS NOT NULL)
           AND NOT EXISTS (SELECT FROM considerations c
                            WHERE (c.workflow_id, c.partition_key) = (r.workflow_id, r.partition_key)
                              AND c.counted IS NOT NULL)) AS started
  FROM workflows w WHERE w.id = ANY (%(workflows)s)

-- name: lock_held
-- purpose: lock considerations in key order, before their partitions: whoever evaluates them comes first or waits
SELECT FROM considerations c
  JOIN unnest(%(workflows)s::bigint[], %(partitions)s::text[]) AS u (workflow_id, partition_key)
    ON (c.workflow_id, c.partition_key) = (u.workflow_id, u.partition_key)
 ORDER BY c.workflow_id, c.partition_key FOR UPDATE OF c

-- name: lock_listed
-- purpose: do the same with the considerations of all partitions that a backfill lists
SELECT FROM considerations c JOIN proposed_partitions l ON (l.workflow_id, l.partition_key) = (c.workflow_id, c.partition_key)
 WHERE l.backfill_id = %(id)s::uuid
 ORDER BY c.workflow_id, c.partition_key FOR UPDATE OF c

-- name: release
-- purpose: let held partitions be evaluated again, in key order, and forget what is listed about them
WITH released AS MATERIALIZED (
    SELECT c.workflow_id, c.partition_key
      FROM considerations c
      JOIN unnest(%(workflows)s::bigint[], %(partitions)s::text[]) AS u (workflow_id, partition_key)
        ON (c.workflow_id, c.partition_key) = (u.workflow_id, u.partition_key)
     ORDER BY c.workflow_id, c.partition_key FOR UPDATE OF c
), forgotten AS (
    DELETE FROM proposed_partitions l USING released r
     WHERE (l.workflow_id, l.partition_key) = (r.workflow_id, r.partition_key)
)
UPDATE considerations c SET not_before = least(c.not_before, (SELECT freshline_now())), evaluations = 0
  FROM released r WHERE (c.workflow_id, c.partition_key) = (r.workflow_id, r.partition_key)

-- name: decline
-- purpose: accept exactly these versions beside the consumed ones; any other version is a cause again
INSERT INTO workflow_partitions AS p (workflow_id, partition_key, declined, accepted, mixed)
SELECT u.workflow_id, u.partition_key, u.staleness, coalesce(u.staleness -> 'outputs', '{}'), true
  FROM jsonb_to_recordset(%(rows)s) AS u (workflow_id bigint, partition_key text, staleness jsonb)
 ORDER BY u.workflow_id, u.partition_key
ON CONFLICT (workflow_id, partition_key) DO UPDATE
   SET declined = coalesce(p.declined, '{}') || excluded.declined
                  || jsonb_build_object('inputs', coalesce(p.declined -> 'inputs', '{}') || coalesce(excluded.declined -> 'inputs', '{}')),
       accepted = p.accepted || excluded.accepted,
       mixed = true

-- name: open_proposal
-- purpose: insert a proposal; its selection and its reasons follow
INSERT INTO backfills (id, project, asset_id, status, requested_at, selection, kind, batch, concurrency, newest_first,
                       during_quiet_hours, priority, partial, reasons)
VALUES (%(id)s, %(project)s, %(asset)s, 'proposed', freshline_now(), '[]', 'stale', 1, %(concurrency)s, %(newest_first)s,
        false, %(priority)s, false, '[]')

-- name: ensure_parts
-- purpose: insert the parts of a proposal that it does not have yet; their selections follow
INSERT INTO backfill_workflows (backfill_id, workflow_id, version, selection, total)
SELECT %(id)s, w.id, w.version, '[]', 1 FROM workflows w WHERE w.id = ANY (%(workflows)s) ORDER BY w.id
ON CONFLICT (backfill_id, workflow_id) DO NOTHING

-- name: list_partitions
-- purpose: store what a proposal lists about partitions, in place of what was listed before
INSERT INTO proposed_partitions AS l (backfill_id, workflow_id, partition_key, staleness)
SELECT %(id)s, u.workflow_id, u.partition_key, u.staleness
  FROM jsonb_to_recordset(%(rows)s) AS u (workflow_id bigint, partition_key text, staleness jsonb)
 ORDER BY u.workflow_id, u.partition_key
ON CONFLICT (workflow_id, partition_key) DO UPDATE SET backfill_id = excluded.backfill_id, staleness = excluded.staleness

-- name: mark_listed
-- purpose: record that held partitions are listed, unless they were evaluated again
UPDATE considerations c SET counted = 'listed'
  FROM jsonb_to_recordset(%(rows)s) AS u (workflow_id bigint, partition_key text, staleness jsonb)
 WHERE (c.workflow_id, c.partition_key) = (u.workflow_id, u.partition_key) AND c.staleness = u.staleness
   AND c.hold = 'backfill-proposed' AND c.counted IN ('shared', 'own')

-- name: move_listed
-- purpose: move what other proposals list to one proposal, because their workflows are connected now
UPDATE proposed_partitions SET backfill_id = %(id)s WHERE backfill_id = ANY (%(others)s::uuid[])

-- name: listed
-- purpose: read what proposals list
SELECT l.workflow_id, l.partition_key, l.staleness, w.slug, w.version
  FROM proposed_partitions l JOIN workflows w ON w.id = l.workflow_id
 WHERE l.backfill_id = %(id)s::uuid ORDER BY l.workflow_id, l.partition_key

-- name: set_parts
-- purpose: store the selections of a proposal, and drop the parts that nothing is listed of
WITH parts AS (
    SELECT * FROM jsonb_to_recordset(%(parts)s) AS r (workflow_id bigint, version integer, selection jsonb, total integer)
), dropped AS (
    DELETE FROM backfill_workflows w WHERE w.backfill_id = %(id)s::uuid AND w.workflow_id NOT IN (SELECT workflow_id FROM parts)
)
UPDATE backfill_workflows w
   SET selection = p.selection, rest = p.selection, total = p.total, done = 0, version = p.version, open = true
  FROM parts p WHERE w.backfill_id = %(id)s::uuid AND w.workflow_id = p.workflow_id

-- name: set_proposal
-- purpose: store the selection and the reasons of a proposal; it has another revision if it grew
UPDATE backfills
   SET asset_id = %(asset)s, selection = %(selection)s, reasons = %(reasons)s, revision = revision + %(grew)s::integer
 WHERE id = %(id)s
RETURNING revision

-- name: proposals_of
-- purpose: lock open proposals
SELECT b.*, b.id::text AS id FROM backfills b
 WHERE b.id = ANY (%(ids)s::uuid[]) AND b.status = 'proposed' ORDER BY b.requested_at, b.id FOR NO KEY UPDATE

-- name: close
-- purpose: end a proposal of which nothing is left
UPDATE backfills SET status = 'canceled', ended_at = freshline_now() WHERE id = %(id)s

-- name: approve
-- purpose: make an active backfill of a proposal, requested now
UPDATE backfills SET status = 'active', requested_at = freshline_now(), requested_by = %(by)s WHERE id = %(id)s

-- name: stop_counting
-- purpose: partitions whose proposal was approved are demanded, and count no more
UPDATE considerations c SET counted = NULL
  FROM proposed_partitions l
 WHERE l.backfill_id = %(id)s::uuid AND (c.workflow_id, c.partition_key) = (l.workflow_id, l.partition_key)
   AND c.counted IS NOT NULL

-- name: count_again
-- purpose: let the listed partitions of a backfill that is proposed again count again
UPDATE considerations c SET counted = 'listed'
  FROM proposed_partitions l
 WHERE l.backfill_id = %(id)s::uuid AND (c.workflow_id, c.partition_key) = (l.workflow_id, l.partition_key)
   AND c.hold = 'backfill-proposed'

-- name: reopen
-- purpose: propose the rest of a canceled backfill again
UPDATE backfills SET status = 'proposed', ended_at = NULL, progressed_at = NULL WHERE id = %(id)s

-- name: forget_listed
-- purpose: forget what a backfill that ended lists, and let its held partitions be evaluated again
WITH listed AS MATERIALIZED (
    DELETE FROM proposed_partitions WHERE backfill_id = %(id)s::uuid RETURNING workflow_id, partition_key
), locked AS MATERIALIZED (
    SELECT c.workflow_id, c.partition_key
      FROM considerations c JOIN listed l ON (c.workflow_id, c.partition_key) = (l.workflow_id, l.partition_key)
     WHERE c.hold = 'backfill-proposed'
     ORDER BY c.workflow_id, c.partition_key FOR UPDATE OF c
)
UPDATE considerations c SET not_before = least(c.not_before, (SELECT freshline_now())), evaluations = 0
  FROM locked l WHERE (c.workflow_id, c.partition_key) = (l.workflow_id, l.partition_key)
