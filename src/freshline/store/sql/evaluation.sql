-- name: claim_inbox
-- purpose: claim a batch of inbox rows, oldest first; they are deleted when the transaction commits
WITH claimed AS MATERIALIZED (
    SELECT event_id FROM inbox ORDER BY event_id LIMIT %(batch)s FOR UPDATE SKIP LOCKED
)
DELETE FROM inbox i USING claimed c WHERE i.event_id = c.event_id
RETURNING i.kind, i.asset_id, i.workflow_id, i.partition_key, i.at::text, i.since::text,
          -- Whether the asset had no data before: then it concerns all that miss it.
          (SELECT s.sequence = 1 FROM snapshots s WHERE s.event_id = i.event_id) AS first,
          -- Whether it takes the graph to find out which partitions it concerns.
          CASE WHEN i.kind IN ('changed', 'unchanged')
               -- A scalar subquery: EXISTS could read all edges and assets with partitions.
               THEN (SELECT true FROM edges e WHERE e.asset_id = i.asset_id AND e.mapped LIMIT 1) IS NOT NULL
               WHEN i.kind = 'touched' AND i.partition_key = ''
               THEN (SELECT true FROM assets a WHERE a.producer_id = i.workflow_id AND a.partitioning IS NOT NULL LIMIT 1)
                    IS NOT NULL
               ELSE i.kind IN ('arrived', 'retired') END AS mapped

-- name: epoch_and_time
-- purpose: read the definitions epoch and the time, to find out which partitions events concern
SELECT epoch, freshline_now() AS now FROM installation

-- name: note_considerations
-- purpose: add a consideration for each workflow that an event concerns, in key order; the earlier time and the better class win
WITH happened AS (
    SELECT * FROM jsonb_to_recordset(%(events)s)
        AS e (kind text, asset_id text, workflow_id bigint, partition_key text, mapped boolean)
), moment AS MATERIALIZED ( -- one value for all rows: a join could read the clock per row, and rows would not group
    SELECT freshline_now() AS now
), concerned AS (
    SELECT e.workflow_id, h.partition_key, 'event'::consideration_class AS class, NULL::timestamptz AS origin,
           NULL::integer AS keys_left
      FROM happened h JOIN edges e ON e.asset_id = h.asset_id AND NOT e.mapped WHERE h.kind = 'changed'
    UNION -- partitions that read a changed one, and notes about all partitions
    SELECT c.workflow_id, c.partition_key, 'event', c.origin, c.keys_left
      FROM unnest(%(workflows)s::bigint[], %(partitions)s::text[], %(origins)s::timestamptz[], %(counts)s::integer[])
        AS c (workflow_id, partition_key, origin, keys_left)
    UNION
    SELECT a.producer_id, h.partition_key, 'timer', NULL, NULL
      FROM happened h JOIN assets a ON a.id = h.asset_id WHERE h.kind = 'expired' AND a.producer_id IS NOT NULL
    UNION
    SELECT h.workflow_id, h.partition_key, 'event', NULL, NULL FROM happened h WHERE h.kind IN ('ended', 'touched') AND NOT h.mapped
    UNION -- workflows that wait for one that no longer moves
    SELECT c.workflow_id, c.partition_key, c.class, NULL, NULL
      FROM happened h JOIN considerations c ON (c.blocker_id, c.blocker_key) = (h.workflow_id, h.partition_key)
     WHERE h.kind IN ('ended', 'touched')
    UNION -- an unchanged output only matters to these holds (docs/semantics.md#R9.3), and to a due workflow, which may get one
    SELECT c.workflow_id, c.partition_key, c.class, NULL, NULL
      FROM happened h
      JOIN edges e ON e.asset_id = h.asset_id AND NOT e.mapped
      JOIN considerations c ON c.workflow_id = e.workflow_id AND c.partition_key = h.partition_key
     WHERE h.kind = 'unchanged'
       AND (c.hold IN ('waiting-for-all', 'input-too-old', 'waiting-for-upstream')
            OR c.not_before <= (SELECT now FROM moment))
    UNION -- the same for partitions
    SELECT c.workflow_id, c.partition_key, c.class, NULL, NULL
      FROM unnest(%(unchanged)s::bigint[], %(unchanged_keys)s::text[]) AS u (workflow_id, partition_key)
      JOIN considerations c ON (c.workflow_id, c.partition_key) = (u.workflow_id, u.partition_key)
     WHERE c.hold IN ('waiting-for-all', 'input-too-old', 'waiting-for-upstream')
        OR c.not_before <= (SELECT now FROM moment)
    UNION -- the same for all partitions of a workflow; those that a note stands for are evaluated anyway
    SELECT c.workflow_id, c.partition_key, c.class, NULL, NULL
      FROM considerations c
     WHERE c.workflow_id = ANY (%(unchanged_notes)s) AND c.partition_key <> ''
       AND (c.hold IN ('waiting-for-all', 'input-too-old', 'waiting-for-upstream')
            OR c.not_before <= (SELECT now FROM moment))
)
INSERT INTO considerations AS c (workflow_id, partition_key, not_before, class, noted_at, origin, keys_left)
SELECT n.workflow_id, n.partition_key, m.now, min(n.class), m.now, min(n.origin), max(n.keys_left)
  FROM concerned n
  JOIN workflows w ON w.id = n.workflow_id AND w.retired_at IS NULL
 CROSS JOIN moment m
 GROUP BY n.workflow_id, n.partition_key, m.now
 ORDER BY n.workflow_id, n.partition_key
ON CONFLICT (workflow_id, partition_key) DO UPDATE
   SET not_before = least(c.not_before, excluded.not_before),
       class = least(c.class, excluded.class),
       -- A note that is being expanded goes on, and begins once more after that: if it began at once, changes that come
       -- fast would keep the oldest partitions from ever being considered.
       noted_at = CASE WHEN c.expanded_to IS NULL THEN excluded.noted_at ELSE c.noted_at END,
       again_at = CASE WHEN c.expanded_to IS NOT NULL THEN coalesce(c.again_at, excluded.noted_at) END,
       keys_left = coalesce(excluded.keys_left, c.keys_left),
       evaluations = 0

-- name: wake_waiting
-- purpose: make waiting workflows due when their blocker stops moving; rows that another reconciler holds are evaluated anyway
WITH woken AS MATERIALIZED (
    SELECT workflow_id, partition_key
      FROM considerations
     WHERE (blocker_id, blocker_key) IN (SELECT * FROM unnest(%(blockers)s::bigint[], %(blocker_keys)s::text[]))
     ORDER BY workflow_id, partition_key
       FOR UPDATE SKIP LOCKED
)
UPDATE considerations c SET not_before = least(c.not_before, freshline_now()), evaluations = 0
  FROM woken w WHERE (c.workflow_id, c.partition_key) = (w.workflow_id, w.partition_key)

-- name: claim_considerations
-- purpose: lock due considerations; the lock is the claim, and each class has a share, so that none starves
WITH events AS MATERIALIZED (
    SELECT workflow_id, partition_key, evaluations, hold FROM considerations
     WHERE class = 'event' AND not_before <= (SELECT freshline_now())
     ORDER BY not_before, workflow_id, partition_key LIMIT %(batch)s FOR UPDATE SKIP LOCKED
), timers AS MATERIALIZED (
    SELECT workflow_id, partition_key, evaluations, hold FROM considerations
     WHERE class = 'timer' AND not_before <= (SELECT freshline_now())
     ORDER BY not_before, workflow_id, partition_key LIMIT greatest(1, %(batch)s / 4) FOR UPDATE SKIP LOCKED
), sweep AS MATERIALIZED (
    SELECT workflow_id, partition_key, evaluations, hold FROM considerations
     WHERE class = 'sweep' AND not_before <= (SELECT freshline_now())
     ORDER BY not_before, workflow_id, partition_key LIMIT greatest(1, %(batch)s / 8) FOR UPDATE SKIP LOCKED
)
SELECT * FROM events UNION ALL SELECT * FROM timers UNION ALL SELECT * FROM sweep

-- name: lock_consideration
-- purpose: claim known considerations, for a batch that is being halved
SELECT workflow_id, partition_key, evaluations, hold FROM considerations
 WHERE (workflow_id, partition_key) IN (SELECT * FROM unnest(%(workflows)s::bigint[], %(partitions)s::text[]))
   AND not_before <= (SELECT freshline_now())
 ORDER BY workflow_id, partition_key FOR UPDATE SKIP LOCKED

-- name: read_notes
-- purpose: read how far claimed notes were expanded
SELECT workflow_id, expanded_to, keys_left, again_at FROM considerations
 WHERE workflow_id = ANY (%(notes)s) AND partition_key = '' ORDER BY workflow_id

-- name: expand_notes
-- purpose: add considerations of the next partitions of notes, in key order; the notes shrink, and end with their last chunk
WITH notes AS MATERIALIZED (
    SELECT workflow_id, class, noted_at, origin, (SELECT freshline_now()) AS now
      FROM considerations WHERE workflow_id = ANY (%(notes)s) AND partition_key = ''
), ended AS (
    DELETE FROM considerations WHERE workflow_id = ANY (%(ended)s) AND partition_key = ''
), shrunk AS ( -- behind the partitions that it noted, and behind the events that came before
    UPDATE considerations c
       SET expanded_to = s.expanded_to, keys_left = s.keys_left, noted_at = coalesce(s.noted_at, c.noted_at),
           again_at = CASE WHEN s.expanded_to IS NOT NULL THEN c.again_at END, not_before = n.now
      FROM jsonb_to_recordset(%(left)s) AS s (workflow_id bigint, expanded_to text, keys_left integer, noted_at timestamptz)
      JOIN notes n ON n.workflow_id = s.workflow_id
     WHERE c.workflow_id = s.workflow_id AND c.partition_key = ''
)
INSERT INTO considerations AS c (workflow_id, partition_key, not_before, class, noted_at, origin)
SELECT u.workflow_id, u.partition_key, n.now - u.place * interval '1 microsecond', n.class, n.noted_at, n.origin
  FROM unnest(%(workflows)s::bigint[], %(partitions)s::text[], %(places)s::integer[]) AS u (workflow_id, partition_key, place)
  JOIN notes n ON n.workflow_id = u.workflow_id
 ORDER BY u.workflow_id, u.partition_key
ON CONFLICT (workflow_id, partition_key) DO UPDATE
   SET not_before = least(c.not_before, excluded.not_before), class = least(c.class, excluded.class),
       noted_at = least(c.noted_at, excluded.noted_at), evaluations = 0

-- name: uncounted_notes
-- purpose: read which new notes are about partitions, to count these
SELECT c.workflow_id, a.id AS asset_id, a.partitioning, (SELECT freshline_now()) AS now
  FROM considerations c
 CROSS JOIN LATERAL (SELECT id, partitioning FROM assets WHERE producer_id = c.workflow_id AND partitioning IS NOT NULL
                      ORDER BY id LIMIT 1) a
 WHERE c.workflow_id = ANY (%(workflows)s) AND c.partition_key = '' AND c.keys_left IS NULL

-- name: count_notes
-- purpose: store how many partitions notes stand for
UPDATE considerations c SET keys_left = n.keys_left
  FROM unnest(%(workflows)s::bigint[], %(counts)s::integer[]) AS n (workflow_id, keys_left)
 WHERE c.workflow_id = n.workflow_id AND c.partition_key = ''

-- name: load_states
-- purpose: read everything that a decision depends on, in one snapshot: what is in motion above a batch, and its states
--
-- This must stay one statement, and it must run after the claim (docs/semantics.md#R6.2). Its parts are named queries and not
-- functions: the planner sees through them. With SQL functions for motion and pending changes, a batch of 500 took a fifth
-- longer.
WITH moment AS MATERIALIZED (
    SELECT freshline_now() AS now
), batch AS MATERIALIZED (
    SELECT * FROM unnest(%(workflows)s::bigint[], %(partitions)s::text[]) AS b (workflow_id, partition_key)
), above AS MATERIALIZED (
    -- The ancestors of the batch. NULL: read whatever moves anywhere. Of each pair below, only one part is executed.
    SELECT * FROM unnest(%(above)s::bigint[]) AS a (workflow_id)
), moving_runs AS (
    SELECT workflow_id, partition_key, status, origin
      FROM runs WHERE status IN ('queued', 'running') AND %(above)s::bigint[] IS NULL
    UNION ALL
    SELECT a.workflow_id, r.partition_key, r.status, r.origin
      FROM above a, LATERAL (SELECT partition_key, status, origin FROM runs WHERE workflow_id = a.workflow_id
                                AND status IN ('queued', 'running') OFFSET 0) r
), considered AS (
    SELECT c.* FROM considerations c WHERE %(above)s::bigint[] IS NULL
    UNION ALL
    SELECT c.* FROM above a, LATERAL (SELECT * FROM considerations WHERE workflow_id = a.workflow_id OFFSET 0) c
), unconsumed AS (
    -- Events in the inbox, by the workflows that they concern.
    SELECT e.workflow_id, '' AS partition_key, i.at
      FROM inbox i, LATERAL (SELECT workflow_id FROM edges WHERE asset_id = i.asset_id AND NOT mapped OFFSET 0) e
     WHERE i.kind = 'changed'
    UNION ALL
    -- A scalar subquery: the planner does not know how few rows there are, and would read all assets for a join.
    SELECT (SELECT a.producer_id FROM assets a WHERE a.id = i.asset_id), i.partition_key, i.at
      FROM inbox i WHERE i.kind = 'expired'
    UNION ALL
    SELECT i.workflow_id, i.partition_key, i.at FROM inbox i WHERE i.kind IN ('ended', 'touched')
), due_timers AS (
    SELECT (SELECT a.producer_id FROM assets a WHERE a.id = t.asset_id) AS workflow_id, t.partition_key, t.due_at
      FROM timers t WHERE t.due_at <= (SELECT now FROM moment) AND t.kind = 'expiry'
), moving AS (
    SELECT workflow_id, partition_key, status AS kind, NULL::timestamptz AS until, false AS cannot_run, origin
      FROM moving_runs
    UNION ALL
    SELECT c.workflow_id, c.partition_key,
           CASE WHEN c.not_before <= m.now THEN 'due' ELSE coalesce(c.hold, 'due') END,
           CASE WHEN c.not_before <= m.now THEN NULL ELSE c.blocks_until END,
           coalesce(c.not_before > m.now AND c.blocks_until IS NULL AND c.hold <> 'waiting-for-upstream', false),
           coalesce(c.origin, c.noted_at)
      FROM considered c, moment m
     WHERE c.not_before <= m.now OR c.hold IS DISTINCT FROM 'in-flight'
    UNION ALL
    SELECT workflow_id, partition_key, 'unabsorbed', NULL, false, at FROM unconsumed
    UNION ALL
    SELECT workflow_id, partition_key, 'timer', NULL, false, due_at FROM due_timers
    UNION ALL
    -- Ancestors that no event starts, and that did not read the current versions: their data is of another generation.
    SELECT x.workflow_id, '', 'stale', NULL, true, NULL
      FROM unnest(%(not_automatic)s::bigint[]) AS x (workflow_id)
     WHERE EXISTS (
         SELECT FROM edges e
           JOIN heads h ON h.asset_id = e.asset_id AND h.partition_key = ''
           LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (e.workflow_id, '')
          WHERE e.workflow_id = x.workflow_id
            AND freshline_differs(h.data_version, h.column_versions, p.consumed_versions -> e.asset_id))
    UNION ALL -- the same for their partitions that feed the batch
    SELECT r.workflow_id, r.partition_key, 'stale', NULL, true, NULL
      FROM unnest(%(unread_reading)s::bigint[], %(unread_reading_keys)s::text[], %(unread_read_assets)s::text[],
                  %(unread_read_keys)s::text[]) AS r (workflow_id, partition_key, asset_id, input_key)
      JOIN heads h ON (h.asset_id, h.partition_key) = (r.asset_id, r.input_key) AND h.retired_at IS NULL
      LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (r.workflow_id, r.partition_key)
     WHERE h.data_version IS DISTINCT FROM (p.consumed_versions
               -> (r.asset_id || CASE r.input_key WHEN '' THEN '' ELSE '@' || r.input_key END) ->> 'dataVersion')
     GROUP BY r.workflow_id, r.partition_key
    UNION ALL
    SELECT r.workflow_id, r.partition_key, 'stale', NULL, true, NULL
      FROM unnest(%(unread_whole)s::bigint[], %(unread_whole_keys)s::text[], %(unread_whole_assets)s::text[],
                  %(unread_whole_keep)s::boolean[]) AS r (workflow_id, partition_key, asset_id, keep)
     CROSS JOIN LATERAL (SELECT * FROM asset_digests WHERE asset_id = r.asset_id OFFSET 0) d
      LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (r.workflow_id, r.partition_key)
     WHERE CASE WHEN r.keep THEN 'digest:' || d.keys + d.retired_keys || ':' || d.digest + d.retired_digest
                ELSE 'digest:' || d.keys || ':' || d.digest END
           IS DISTINCT FROM (p.consumed_versions -> (r.asset_id || '@') ->> 'dataVersion')
), motion AS (
    -- Whether a partition that cannot run has data, retired or not (docs/semantics.md#R13.5). A scalar subquery: the planner
    -- would hash all heads for EXISTS.
    SELECT m.*, CASE WHEN m.cannot_run AND m.partition_key <> '' THEN coalesce((
               SELECT true FROM (SELECT id FROM assets WHERE producer_id = m.workflow_id OFFSET 0) a
                CROSS JOIN LATERAL (SELECT FROM heads WHERE (asset_id, partition_key) = (a.id, m.partition_key) OFFSET 0) h
                LIMIT 1), false) ELSE true END AS has_head
      FROM moving m
), input AS (
    -- One row per workflow and input: its head, and the version that the last success consumed.
    SELECT e.workflow_id, e.partition_key, e.asset_id, e.input_key, NULL::integer AS keys, h.sequence, h.data_version,
           h.column_versions, h.produced_at, s.run_id, s.origin,
           p.consumed_versions -> (e.asset_id || CASE e.input_key WHEN '' THEN '' ELSE '@' || e.input_key END) AS consumed,
           s.mixed OR (s.mixed_from <> '{}' AND freshline_mixed(s.mixed_from)) AS mixed, h.retired_at, e.since, e.until,
           -- Of an input whose changes concern the newest partition: the last change before the next partition came.
           CASE WHEN e.until IS NOT NULL THEN coalesce((
               SELECT json_build_array(y.sequence, y.data_version, y.produced_at) FROM snapshots y
                WHERE y.asset_id = e.asset_id AND y.partition_key = '' AND y.changed AND y.produced_at < e.until
                ORDER BY y.produced_at DESC, y.sequence DESC LIMIT 1), '[0]') END AS last_then
      FROM (SELECT b.workflow_id, b.partition_key, x.asset_id, '' AS input_key, NULL::timestamptz AS since, NULL::timestamptz AS until
              FROM batch b JOIN edges x ON x.workflow_id = b.workflow_id AND NOT x.mapped
            UNION ALL -- what mappings say that a partition reads
            SELECT * FROM unnest(%(reading)s::bigint[], %(reading_keys)s::text[], %(read_assets)s::text[], %(read_keys)s::text[],
                                 %(read_since)s::timestamptz[], %(read_until)s::timestamptz[])
           ) e (workflow_id, partition_key, asset_id, input_key, since, until)
      LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (e.workflow_id, e.partition_key)
      LEFT JOIN heads h ON (h.asset_id, h.partition_key) = (e.asset_id, e.input_key)
      LEFT JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
    UNION ALL
    -- All partitions of an asset as one: its digest, and the number of its last change (docs/semantics.md#R13.4).
    -- With `keep`, those that retention removed count at their last versions (docs/semantics.md#R13.15).
    SELECT e.workflow_id, e.partition_key, e.asset_id, '', coalesce(d.keys, 0), d.change,
           CASE WHEN e.keep THEN 'digest:' || d.keys + d.retired_keys || ':' || d.digest + d.retired_digest
                ELSE 'digest:' || d.keys || ':' || d.digest END,
           NULL, d.changed_at, NULL, NULL, p.consumed_versions -> (e.asset_id || '@'),
           (SELECT true FROM snapshots s
              JOIN heads h ON (h.asset_id, h.partition_key, h.sequence) = (s.asset_id, s.partition_key, s.sequence)
             WHERE s.asset_id = e.asset_id AND s.change IS NOT NULL AND (s.mixed OR s.mixed_from <> '{}')
               AND (s.mixed OR freshline_mixed(s.mixed_from)) LIMIT 1),
           CASE WHEN e.keep AND d.retired_keys > 0 THEN d.changed_at END, NULL, NULL, NULL
      FROM unnest(%(whole)s::bigint[], %(whole_keys)s::text[], %(whole_assets)s::text[], %(whole_keep)s::boolean[])
           AS e (workflow_id, partition_key, asset_id, keep)
      LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (e.workflow_id, e.partition_key)
      LEFT JOIN LATERAL (SELECT * FROM asset_digests WHERE asset_id = e.asset_id OFFSET 0) d ON true
), inputs AS ( -- json, not jsonb: it is only sent, and takes half the time to build
    SELECT i.workflow_id, i.partition_key,
           json_agg(json_build_object(
               'asset_id', i.asset_id,
               'key', i.input_key,
               'keys', i.keys,
               'sequence', i.sequence,
               'data_version', i.data_version,
               'column_versions', i.column_versions,
               'produced_at', i.produced_at,
               'run_id', i.run_id,
               'origin', i.origin,
               'mixed', i.mixed,
               'consumed', i.consumed,
               'retired_at', i.retired_at,
               'since', i.since,
               'last_then', i.last_then,
               'pending', pending.found
           ) ORDER BY i.asset_id, i.input_key) AS list
      FROM input i
      -- The changes that the last success has not read: the first and the last 20.
      LEFT JOIN LATERAL (
          SELECT json_build_object(
                     'first_at', min(x.produced_at), 'last_at', max(x.produced_at), 'origin', min(x.origin),
                     'event_ids', json_agg(DISTINCT x.event_id ORDER BY x.event_id)) AS found
            FROM ((SELECT produced_at, coalesce(origin, produced_at) AS origin, event_id FROM snapshots x
                    WHERE (x.asset_id, x.partition_key) = (i.asset_id, i.input_key) AND x.changed AND i.keys IS NULL
                      AND x.sequence > coalesce((i.consumed ->> 'sequence')::bigint, 0)
                      AND x.sequence <= coalesce((i.last_then ->> 0)::bigint, 9223372036854775807)
                      AND (i.consumed IS NOT NULL OR x.produced_at >= coalesce(i.since, '-infinity'))
                      AND freshline_differs(i.data_version, i.column_versions, i.consumed)
                      AND NOT coalesce(i.consumed -> 'columns' <> '{}' AND x.column_versions @> (i.consumed -> 'columns'), false)
                    ORDER BY x.sequence LIMIT 20)
                  UNION ALL
                  (SELECT produced_at, coalesce(origin, produced_at) AS origin, event_id FROM snapshots x
                    WHERE (x.asset_id, x.partition_key) = (i.asset_id, i.input_key) AND x.changed AND i.keys IS NULL
                      AND x.sequence > coalesce((i.consumed ->> 'sequence')::bigint, 0)
                      AND x.sequence <= coalesce((i.last_then ->> 0)::bigint, 9223372036854775807)
                      AND (i.consumed IS NOT NULL OR x.produced_at >= coalesce(i.since, '-infinity'))
                      AND freshline_differs(i.data_version, i.column_versions, i.consumed)
                      AND NOT coalesce(i.consumed -> 'columns' <> '{}' AND x.column_versions @> (i.consumed -> 'columns'), false)
                    ORDER BY x.sequence DESC LIMIT 20)
                  UNION ALL
                  (SELECT produced_at, coalesce(origin, produced_at) AS origin, event_id FROM snapshots x
                    WHERE x.asset_id = i.asset_id AND x.changed AND i.keys IS NOT NULL
                      AND x.change > coalesce((i.consumed ->> 'sequence')::bigint, 0)
                      AND i.data_version IS DISTINCT FROM (i.consumed ->> 'dataVersion')
                    ORDER BY x.change LIMIT 20)
                  UNION ALL
                  (SELECT produced_at, coalesce(origin, produced_at) AS origin, event_id FROM snapshots x
                    WHERE x.asset_id = i.asset_id AND x.changed AND i.keys IS NOT NULL
                      AND x.change > coalesce((i.consumed ->> 'sequence')::bigint, 0)
                      AND i.data_version IS DISTINCT FROM (i.consumed ->> 'dataVersion')
                    ORDER BY x.change DESC LIMIT 20)) x
           HAVING count(*) > 0
      ) pending ON true
     GROUP BY i.workflow_id, i.partition_key
), outputs AS (
    SELECT b.workflow_id, b.partition_key,
           json_agg(json_build_object(
               'asset_id', a.id,
               'sequence', h.sequence,
               'data_version', h.data_version,
               'produced_at', h.produced_at,
               'expired_at', t.expired_at,
               'expired_reason', t.expired_reason,
               'event_id', t.event_id,
               -- Made by another workflow or from outside; a rollback is a decision of a user, and stays.
               'foreign', s.workflow_id IS DISTINCT FROM b.workflow_id AND NOT coalesce(s.difference ? 'rolledBack', false)
                          AND (p.accepted ->> a.id)::bigint IS DISTINCT FROM h.sequence,
               'lost', h.asset_id IS NULL AND EXISTS (
                   SELECT FROM heads x WHERE (x.asset_id, x.partition_key) = (a.id, b.partition_key)),
               'made_by', CASE WHEN s.workflow_id <> b.workflow_id
                               THEN (SELECT m.slug FROM workflows m WHERE m.id = s.workflow_id) END,
               -- Made from other versions than those that count as consumed.
               'behind', s.run_id IS NOT NULL AND NOT s.inputs @> p.consumed_versions
                         AND (p.accepted ->> a.id)::bigint IS DISTINCT FROM h.sequence
           ) ORDER BY a.id) AS list
      FROM batch b
      JOIN assets a ON a.producer_id = b.workflow_id
      LEFT JOIN heads h ON (h.asset_id, h.partition_key) = (a.id, b.partition_key) AND h.retired_at IS NULL
      LEFT JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
      LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (b.workflow_id, b.partition_key)
      LEFT JOIN timers t ON (t.asset_id, t.partition_key, t.kind) = (a.id, b.partition_key, 'expiry')
     GROUP BY b.workflow_id, b.partition_key
), floods AS (
    -- How many partitions of workflows count for the flood guard (docs/semantics.md#R14.7), each up to one more than the limit.
    SELECT g.workflow_id, due.count + stale.count + started.count AS stale, due.count + own.count + started.count AS own
      FROM unnest(%(guarded)s::bigint[]) AS g (workflow_id)
     CROSS JOIN LATERAL (SELECT coalesce((policy #>> '{flood,limit}')::integer, 100) + 1 AS most
                           FROM workflows WHERE id = g.workflow_id OFFSET 0) w
     -- Those that were not evaluated may be stale, and so may the rest of a note.
     CROSS JOIN LATERAL (
         SELECT (SELECT count(*) FROM (
             SELECT FROM considerations c WHERE c.workflow_id = g.workflow_id AND c.partition_key <> ''
                AND c.not_before <= (SELECT now FROM moment) LIMIT w.most) c)
             + coalesce((SELECT coalesce(c.keys_left, w.most) FROM considerations c
                          WHERE (c.workflow_id, c.partition_key) = (g.workflow_id, '')), 0) AS count) due
     CROSS JOIN LATERAL (SELECT count(*) FROM (
         SELECT FROM considerations c WHERE c.workflow_id = g.workflow_id AND c.counted IS NOT NULL
            AND c.not_before > (SELECT now FROM moment) LIMIT w.most) c) stale
     CROSS JOIN LATERAL (SELECT count(*) FROM (
         SELECT FROM considerations c WHERE c.workflow_id = g.workflow_id AND c.counted = 'own'
            AND c.not_before > (SELECT now FROM moment) LIMIT w.most) c) own
     CROSS JOIN LATERAL (SELECT count(*) FROM (
         SELECT DISTINCT r.partition_key FROM runs r
          WHERE r.workflow_id = g.workflow_id AND r.counted AND r.queued_at > (SELECT now FROM moment) - interval '24 h'
            AND (r.status <> 'canceled' OR r.started_at IS NOT NULL)
            AND NOT EXISTS (SELECT FROM considerations c WHERE (c.workflow_id, c.partition_key) = (r.workflow_id, r.partition_key)
                               AND (c.counted IS NOT NULL OR c.not_before <= (SELECT now FROM moment)))
          LIMIT w.most) r) started
), states AS (
    SELECT json_build_object(
               'workflow_id', w.id, 'slug', w.slug, 'partition_key', b.partition_key, 'version', w.version,
               'project', w.project, 'policy', w.policy, 'job_fingerprint', w.job_fingerprint,
               'applied_at', w.applied_at, 'paused_at', w.paused_at, 'paused_until', w.paused_until,
               'retired', w.retired_at IS NOT NULL, 'code_hash', v.code_hash, 'needs_spark', v.needs_spark,
               'inputs', coalesce(i.list, '[]'), 'outputs', coalesce(o.list, '[]'),
               'partition', to_jsonb(p) - 'consumed_versions', 'active', to_json(r),
               'reshaped', p.consumed_versions IS NOT NULL AND coalesce(p.epoch, 0) < w.reshaped_epoch,
               'last_decision', to_json(d), 'waited_ms', coalesce(c.waited_ms, 0),
               -- With `when: all`: of each source above, its sequence now and at the last success. All outputs are of one run.
               'sources', CASE WHEN w.policy ->> 'when' = 'all' THEN (
                   SELECT json_object_agg(k.key, json_build_array(
                              n.sequence, coalesce((p.round ->> k.key)::bigint, (k.value ->> 'sequence')::bigint)))
                     FROM (SELECT s.sources FROM assets a
                             JOIN heads h ON (h.asset_id, h.partition_key) = (a.id, b.partition_key)
                             JOIN snapshots s
                               ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
                            WHERE a.producer_id = w.id ORDER BY s.produced_at DESC LIMIT 1) o
                    CROSS JOIN jsonb_each(o.sources) k
                     JOIN heads n ON (n.asset_id, n.partition_key) = (freshline_asset(k.key), freshline_key(k.key))) END,
               'waiting', (SELECT min(c.priority) FROM considerations c
                            WHERE (c.blocker_id, c.blocker_key) = (w.id, b.partition_key)),
               -- Backfills in which the turn of the partition has come.
               'demands', (SELECT json_agg(json_build_object(
                                      'id', f.id, 'requested_at', f.requested_at, 'version', q.version, 'only', f.kind,
                                      'priority', f.priority, 'during_quiet_hours', f.during_quiet_hours,
                                      'not_before', f.not_before, 'partial', f.partial, 'paused', f.status = 'paused',
                                      'newest_first', f.newest_first,
                                      'satisfied', coalesce(p.backfills @> ARRAY[f.id], false)) ORDER BY f.requested_at, f.id)
                             FROM (SELECT * FROM backfill_partitions
                                    WHERE (workflow_id, partition_key) = (w.id, b.partition_key) OFFSET 0) t
                            CROSS JOIN LATERAL (SELECT * FROM backfills WHERE id = t.backfill_id OFFSET 0) f
                            CROSS JOIN LATERAL (SELECT version FROM backfill_workflows WHERE (backfill_id, workflow_id)
                                                     = (t.backfill_id, t.workflow_id) OFFSET 0) q
                            WHERE t.state = 'open' AND f.ended_at IS NULL)) AS state
      FROM batch b
      JOIN workflows w ON w.id = b.workflow_id
      JOIN workflow_versions v ON (v.workflow_id, v.version) = (w.id, w.version)
      LEFT JOIN inputs i ON (i.workflow_id, i.partition_key) = (b.workflow_id, b.partition_key)
      LEFT JOIN outputs o ON (o.workflow_id, o.partition_key) = (b.workflow_id, b.partition_key)
      LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (b.workflow_id, b.partition_key)
      LEFT JOIN LATERAL (
          SELECT x.id, x.status, x.trigger_type, x.attempt, x.version, x.pins, x.mixed, x.origin,
                 lower(x.quiet) AS quiet_from, upper(x.quiet) AS quiet_until
            FROM runs x
           WHERE (x.workflow_id, x.partition_key) = (b.workflow_id, b.partition_key)
             AND x.status IN ('queued', 'running')
           ORDER BY x.trigger_type <> 'manual' DESC, x.status = 'running' DESC, x.queued_at
           LIMIT 1
      ) r ON true
      LEFT JOIN LATERAL (
          SELECT x.id, x.digest FROM decisions x
           WHERE (x.workflow_id, x.partition_key) = (b.workflow_id, b.partition_key)
           ORDER BY x.at DESC, x.id DESC LIMIT 1
      ) d ON true
      LEFT JOIN LATERAL (
          -- Time since the last evaluation counts as waiting up to the evaluation that was scheduled then, or 30 s: after a
          -- downtime the rest was not spent waiting. A success meanwhile ends the wait.
          SELECT CASE WHEN p.succeeded_at > x.evaluated_at THEN 0
                      ELSE x.waited_ms + CASE WHEN x.hold = 'waiting-for-upstream' THEN greatest(0, round(1000 * extract(
                               epoch FROM least(greatest(x.next_at, x.evaluated_at + interval '30 s'),
                                                (SELECT now FROM moment)) - x.evaluated_at)))::bigint ELSE 0 END
                 END AS waited_ms
            FROM considerations x WHERE (x.workflow_id, x.partition_key) = (b.workflow_id, b.partition_key)
      ) c ON true
)
SELECT (SELECT epoch FROM installation) AS epoch,
       (SELECT now FROM moment) AS now,
       (SELECT json_agg(json_build_array(workflow_id, partition_key, kind, until, cannot_run, origin, has_head))
          FROM motion WHERE workflow_id IS NOT NULL) AS motion,
       -- Events about assets with partitions, or with consumers that have them; the graph knows whom they concern.
       (SELECT json_agg(json_build_array(i.asset_id, i.partition_key, coalesce(
                   (SELECT coalesce(s.origin, s.produced_at) FROM snapshots s WHERE s.event_id = i.event_id), i.at), i.at,
                   (SELECT s.sequence = 1 FROM snapshots s WHERE s.event_id = i.event_id)))
          FROM inbox i
         WHERE i.kind IN ('changed', 'retired') AND i.since IS NULL AND %(mapped)s
           AND (SELECT true FROM edges e WHERE e.asset_id = i.asset_id AND e.mapped LIMIT 1)) AS unconsumed,
       -- Partitions that came to exist, and that nobody has considered yet.
       (SELECT json_agg(json_build_array(x.asset_id, x.since, x.at))
          FROM (SELECT i.asset_id, i.since, i.at FROM inbox i WHERE i.kind = 'arrived' AND %(mapped)s
                UNION ALL
                SELECT t.asset_id, t.due_at, m.now FROM timers t, moment m
                 WHERE t.due_at <= (SELECT now FROM moment) AND t.kind = 'next-key' AND %(mapped)s) x) AS arriving,
       -- Notes that are being expanded: the last partition that was noted, or NULL if all of them are noted again.
       (SELECT json_agg(json_build_array(n.workflow_id, CASE WHEN n.again_at IS NULL THEN n.expanded_to END))
          FROM considerations n WHERE n.expanded_to IS NOT NULL AND %(mapped)s) AS expanding,
       -- Active backfills, and those that ended lately, by their time, which is the origin of what they change.
       (SELECT coalesce(json_agg(json_build_array(
                   f.requested_at, f.priority, coalesce(f.progressed_at, f.requested_at), f.ended)), '[]')
          FROM (SELECT requested_at, priority, progressed_at, false AS ended FROM backfills
                 WHERE ended_at IS NULL AND status = 'active'
                UNION ALL -- what they changed last may still be computed
                (SELECT requested_at, priority, progressed_at, true FROM backfills
                  WHERE %(mapped)s AND ended_at > (SELECT now FROM moment) - interval '24 h' AND progressed_at IS NOT NULL
                  ORDER BY ended_at DESC LIMIT 1000)) f) AS backfills,
       -- Partitions of backfills whose turn has not come: they are in motion, and those of a paused one cannot run.
       (SELECT json_agg(json_build_array(
                   q.workflow_id, q.rest, CASE WHEN f.not_before > (SELECT now FROM moment) THEN f.not_before END, f.status <> 'active', f.requested_at))
          FROM (SELECT * FROM backfills WHERE ended_at IS NULL OFFSET 0) f
         CROSS JOIN LATERAL (SELECT * FROM backfill_workflows WHERE backfill_id = f.id OFFSET 0) q
         WHERE f.status IN ('active', 'paused') AND q.rest IS NOT NULL
           AND (%(above)s::bigint[] IS NULL OR q.workflow_id = ANY (%(above)s)
                OR q.workflow_id = ANY (%(workflows)s))) AS rests,
       -- Times of backfills that are open or ended lately: what follows from them was asked for.
       (SELECT json_agg(f.requested_at) FROM backfills f
         WHERE %(mapped)s AND f.status NOT IN ('proposed', 'denied')
           AND (f.ended_at IS NULL OR f.ended_at > (SELECT now FROM moment) - interval '24 h')) AS asked,
       -- What proposals list about the batch.
       (SELECT json_agg(json_build_array(l.workflow_id, l.partition_key, l.backfill_id, l.staleness, f.status <> 'proposed'))
          FROM batch b
         CROSS JOIN LATERAL (SELECT * FROM proposed_partitions
                              WHERE (workflow_id, partition_key) = (b.workflow_id, b.partition_key) OFFSET 0) l
         CROSS JOIN LATERAL (SELECT status FROM backfills WHERE id = l.backfill_id OFFSET 0) f
         WHERE %(mapped)s) AS listed,
       -- Groups of reports that have not settled (docs/semantics.md#R4.7).
       (SELECT json_agg(json_build_array(g.id, g.members) ORDER BY g.id) FROM report_groups g) AS groups,
       (SELECT json_agg(json_build_array(workflow_id, stale, own)) FROM floods) AS floods,
       (SELECT count(*) FROM (SELECT FROM considerations LIMIT %(few)s) c) < %(few)s
       AND (SELECT count(*) FROM (SELECT FROM runs WHERE status IN ('queued', 'running') LIMIT %(few)s) r) < %(few)s AS calm,
       (SELECT json_agg(state) FROM states) AS states

-- name: open_groups
-- purpose: read the groups of reports that have not settled
SELECT id::text, members FROM report_groups ORDER BY id

-- name: settle_groups
-- purpose: end groups of reports when all workflows are at rest that could let a join read half of them
WITH awaited AS MATERIALIZED ( -- in one snapshot, as for motion: what ends moves on to another table in one transaction
    SELECT * FROM unnest(%(groups)s::uuid[], %(workflows)s::bigint[]) AS a (group_id, workflow_id)
), moving AS (
    -- Scalar subqueries: EXISTS could read the tables from end to end.
    SELECT a.group_id FROM awaited a
     WHERE coalesce(
         (SELECT true FROM considerations c WHERE c.workflow_id = a.workflow_id LIMIT 1),
         (SELECT true FROM runs r WHERE r.workflow_id = a.workflow_id AND r.status IN ('queued', 'running') LIMIT 1),
         (SELECT true FROM (SELECT id FROM assets WHERE producer_id = a.workflow_id OFFSET 0) o
           CROSS JOIN LATERAL (SELECT true FROM timers t WHERE t.asset_id = o.id AND t.kind = 'expiry'
                                  AND t.due_at <= freshline_now() OFFSET 0) t LIMIT 1),
         (SELECT true FROM (SELECT * FROM backfills WHERE ended_at IS NULL AND status IN ('active', 'paused') OFFSET 0) f
           CROSS JOIN LATERAL (SELECT q.rest FROM backfill_workflows q
                                WHERE (q.backfill_id, q.workflow_id) = (f.id, a.workflow_id) OFFSET 0) q
           WHERE q.rest IS NOT NULL LIMIT 1))
    UNION ALL
    SELECT a.group_id FROM inbox i JOIN awaited a ON a.workflow_id = i.workflow_id
    UNION ALL
    SELECT a.group_id
      FROM inbox i
     CROSS JOIN LATERAL (SELECT e.workflow_id FROM edges e WHERE e.asset_id = i.asset_id
                         UNION ALL
                         SELECT o.producer_id FROM assets o WHERE o.id = i.asset_id OFFSET 0) w
      JOIN awaited a ON a.workflow_id = w.workflow_id
     WHERE i.kind <> 'unchanged'
    UNION ALL -- those that only users start, and that did not read the current versions
    SELECT x.group_id
      FROM unnest(%(idle_groups)s::uuid[], %(idle)s::bigint[]) AS x (group_id, workflow_id)
     CROSS JOIN LATERAL (SELECT asset_id FROM edges WHERE workflow_id = x.workflow_id OFFSET 0) e
     CROSS JOIN LATERAL (SELECT data_version, column_versions FROM heads
                          WHERE (asset_id, partition_key) = (e.asset_id, '') OFFSET 0) h
      LEFT JOIN LATERAL (SELECT consumed_versions FROM workflow_partitions
                          WHERE (workflow_id, partition_key) = (x.workflow_id, '') OFFSET 0) p ON true
     WHERE freshline_differs(h.data_version, h.column_versions, p.consumed_versions -> e.asset_id)
)
DELETE FROM report_groups
 WHERE id IN (SELECT id FROM report_groups
               WHERE id = ANY (%(known)s::uuid[]) AND id NOT IN (SELECT group_id FROM moving)
               ORDER BY id FOR UPDATE SKIP LOCKED)

-- name: large_inputs
-- purpose: find the inputs that are read as one: those of very many partitions, and those that the last success read as one
SELECT u.workflow_id, u.partition_key, u.asset_id
  FROM unnest(%(workflows)s::bigint[], %(partitions)s::text[], %(assets)s::text[]) AS u (workflow_id, partition_key, asset_id)
  LEFT JOIN LATERAL (SELECT keys FROM asset_digests WHERE asset_id = u.asset_id OFFSET 0) d ON true
  LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (u.workflow_id, u.partition_key)
 WHERE d.keys > %(most)s OR p.consumed_versions ? (u.asset_id || '@')

-- name: outline
-- purpose: read the definitions epoch and the number of heads, which materializers report for comparison
SELECT epoch, (SELECT count(*) FROM heads) AS heads FROM installation

-- name: load_bare
-- purpose: read the minimum about workflows whose state cannot be read or evaluated, to record the error
SELECT w.id AS workflow_id, w.slug, b.partition_key, w.version, w.job_fingerprint, w.applied_at, w.project,
       (SELECT to_jsonb(d) FROM (
            SELECT x.id, x.digest FROM decisions x
             WHERE (x.workflow_id, x.partition_key) = (b.workflow_id, b.partition_key)
             ORDER BY x.at DESC, x.id DESC LIMIT 1) d) AS last_decision,
       (SELECT freshline_now()) AS now
  FROM unnest(%(workflows)s::bigint[], %(partitions)s::text[]) AS b (workflow_id, partition_key)
  JOIN workflows w ON w.id = b.workflow_id
 ORDER BY w.id, b.partition_key

-- name: queue_runs
-- purpose: insert the automatic runs of a batch with their events, in key order
WITH new AS (
    SELECT * FROM jsonb_to_recordset(%(runs)s) AS r (
        id uuid, workflow_id bigint, partition_key text, version integer, project text, code_hash text,
        needs_spark boolean, trigger jsonb, cause text, priority integer, inherited integer, mixed boolean,
        mixed_upstream boolean, pins jsonb, parameters jsonb, decision_id uuid, event jsonb, quiet_from timestamptz,
        quiet_until timestamptz, round jsonb, origin timestamptz, counted boolean)
), inserted AS (
    INSERT INTO runs (id, workflow_id, partition_key, version, project, pool, code_hash, needs_spark, status, trigger,
                      trigger_type, cause, priority, urgency, mixed, mixed_upstream, pins, parameters, decision_id,
                      queued_at, round, origin, epoch, counted, quiet)
    SELECT n.id, n.workflow_id, n.partition_key, n.version, n.project, w.pool, n.code_hash, n.needs_spark, 'queued',
           n.trigger, n.trigger ->> 'type', n.cause, n.priority, extract(epoch FROM m.now) + 10 * n.inherited, n.mixed,
           n.mixed_upstream, n.pins, n.parameters, n.decision_id, m.now, n.round, n.origin, %(epoch)s, n.counted,
           CASE WHEN n.quiet_from IS NOT NULL THEN tstzrange(n.quiet_from, n.quiet_until) END
      FROM new n JOIN workflows w ON w.id = n.workflow_id, (SELECT freshline_now() AS now) m
     ORDER BY n.workflow_id, n.partition_key
    RETURNING id
)
INSERT INTO events (id, time, type, subject, data)
SELECT freshline_id(), freshline_now(), 'workflow.run.queued', event ->> 'workflowSlug', event
  FROM new ORDER BY workflow_id, partition_key

-- name: renew_runs
-- purpose: move the pins of queued runs to the new heads, unless a worker has started them (docs/semantics.md#R6.3)
UPDATE runs r
   SET pins = n.pins, cause = n.cause, trigger = n.trigger, trigger_type = n.trigger ->> 'type', mixed = n.mixed,
       mixed_upstream = n.mixed_upstream, decision_id = n.decision_id, round = n.round, origin = n.origin, epoch = %(epoch)s,
       -- A run of a backfill that gets a cause of its own moves to its priority (docs/semantics.md#R14.4).
       urgency = least(r.urgency, extract(epoch FROM r.queued_at) + 10 * n.urgency)
  FROM jsonb_to_recordset(%(renewals)s) AS n (
        id uuid, pins jsonb, cause text, trigger jsonb, mixed boolean, mixed_upstream boolean, decision_id uuid,
        round jsonb, origin timestamptz, urgency integer)
 WHERE r.id = n.id AND r.status = 'queued' AND r.attempt = 0

-- name: set_quiet
-- purpose: store the next quiet hours of queued runs
UPDATE runs r SET quiet = CASE WHEN n.quiet_from IS NOT NULL THEN tstzrange(n.quiet_from, n.quiet_until) END
  FROM jsonb_to_recordset(%(quiet)s) AS n (id uuid, quiet_from timestamptz, quiet_until timestamptz)
 WHERE r.id = n.id AND r.status = 'queued' AND r.id = ANY (%(ids)s::uuid[]) -- by id, or it reads the whole queue

-- name: hurry_runs
-- purpose: give queued blockers the priority of the workflows that wait for them; a hint, so it skips locked rows
WITH waiting AS (
    SELECT blocker_id, blocker_key, min(priority) AS priority
      FROM jsonb_to_recordset(%(holds)s) AS n (blocker_id bigint, blocker_key text, priority integer)
     WHERE blocker_id IS NOT NULL GROUP BY blocker_id, blocker_key
), slower AS MATERIALIZED (
    SELECT r.id, w.priority
      FROM waiting w
      JOIN runs r ON (r.workflow_id, r.partition_key) = (w.blocker_id, w.blocker_key) AND r.status = 'queued'
     WHERE r.urgency > extract(epoch FROM r.queued_at) + 10 * w.priority
     ORDER BY r.id
       FOR UPDATE OF r SKIP LOCKED
)
UPDATE runs r SET urgency = extract(epoch FROM r.queued_at) + 10 * s.priority FROM slower s WHERE r.id = s.id

-- name: supersede_runs
-- purpose: cancel queued automatic runs whose cause is gone (docs/semantics.md#R6.3), or that quiet hours have reached
WITH ended AS (
    UPDATE runs SET status = 'canceled', finished_at = freshline_now(),
                    cancel_reason = CASE WHEN id = ANY (%(quiet)s::uuid[]) THEN 'quiet-hours' ELSE 'superseded' END
     WHERE id = ANY (%(ids)s::uuid[]) AND status = 'queued' AND attempt = 0
    RETURNING id, workflow_id, partition_key, trigger, cancel_reason
)
INSERT INTO events (id, time, type, subject, data)
SELECT freshline_id(), freshline_now(), 'workflow.run.canceled', w.slug,
       jsonb_build_object('workflowSlug', w.slug, 'workflowId', w.id, 'runId', e.id, 'partitionKey', e.partition_key,
                          'trigger', e.trigger, 'reason', e.cancel_reason)
  FROM ended e JOIN workflows w ON w.id = e.workflow_id

-- name: drop_considerations
-- purpose: delete considerations until the next event
DELETE FROM considerations
 WHERE (workflow_id, partition_key) IN (SELECT * FROM unnest(%(workflows)s::bigint[], %(partitions)s::text[]))

-- name: hold_considerations
-- purpose: store the hold of a workflow and the time of its next evaluation
UPDATE considerations c
   SET not_before = n.not_before, hold = n.hold, blocker_id = n.blocker_id, blocker_key = n.blocker_key,
       blocks_until = n.blocks_until, origin = n.origin,
       priority = n.priority, waited_ms = n.waited_ms, evaluated_at = %(now)s, next_at = n.not_before,
       counted = n.counted, staleness = n.staleness,
       evaluations = CASE WHEN c.hold IS NOT DISTINCT FROM n.hold THEN c.evaluations + 1 ELSE 0 END
  FROM jsonb_to_recordset(%(holds)s) AS n (
        workflow_id bigint, partition_key text, not_before timestamptz, hold text, blocker_id bigint, blocker_key text,
        blocks_until timestamptz, origin timestamptz, priority integer, waited_ms bigint, counted text, staleness jsonb)
 WHERE (c.workflow_id, c.partition_key) = (n.workflow_id, n.partition_key)

-- name: keep_waits
-- purpose: store how long workflows waited in vain before their runs, or that nothing is pending any more
INSERT INTO workflow_partitions AS p (workflow_id, partition_key, waited_ms)
SELECT workflow_id, partition_key, waited_ms
  FROM jsonb_to_recordset(%(waits)s) AS n (workflow_id bigint, partition_key text, waited_ms bigint)
 ORDER BY workflow_id, partition_key
ON CONFLICT (workflow_id, partition_key) DO UPDATE SET waited_ms = excluded.waited_ms

-- name: record_decisions
-- purpose: insert new decisions
INSERT INTO decisions (id, workflow_id, partition_key, version, outcome, reason, digest, evidence, at, last_at, run_id)
SELECT id, workflow_id, partition_key, version, outcome, reason, digest, evidence, %(now)s, %(now)s, run_id
  FROM jsonb_to_recordset(%(decisions)s) AS d (
        id uuid, workflow_id bigint, partition_key text, version integer, outcome text, reason text, digest text,
        evidence jsonb, run_id uuid)
 ORDER BY workflow_id, partition_key

-- name: count_decisions
-- purpose: count a decision that equals the previous one instead of repeating it
UPDATE decisions SET count = count + 1, last_at = greatest(at, %(now)s) WHERE id = ANY (%(ids)s::uuid[])

-- name: fire_timers
-- purpose: lock due timers; the caller computes when each fires next
SELECT t.asset_id, t.partition_key, t.kind, t.due_at, t.reason, a.producer_id, a.step_id, a.declaration, a.partitioning,
       w.slug, w.policy, h.sequence, h.data_version, h.produced_at, s.run_id, s.rows, s.bytes, s.payload,
       (SELECT freshline_now()) AS now
  FROM timers t
  JOIN assets a ON a.id = t.asset_id
  LEFT JOIN workflows w ON w.id = a.producer_id
  LEFT JOIN heads h ON (h.asset_id, h.partition_key) = (t.asset_id, t.partition_key)
  LEFT JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
 WHERE t.due_at <= (SELECT freshline_now()) AND t.kind <> 'retire'
 ORDER BY t.due_at LIMIT %(batch)s
   FOR UPDATE OF t SKIP LOCKED

-- name: expire_timers
-- purpose: mark fired timers as expired, and arm the next point of fixed schedules
UPDATE timers t
   SET expired_at = n.expired_at, expired_reason = n.expired_reason, event_id = n.event_id,
       due_at = n.due_at, reason = n.reason
  FROM jsonb_to_recordset(%(timers)s) AS n (
        asset_id text, partition_key text, kind text, expired_at timestamptz, expired_reason text, event_id uuid,
        due_at timestamptz, reason text)
 WHERE (t.asset_id, t.partition_key, t.kind) = (n.asset_id, n.partition_key, n.kind)

-- name: next_timer
-- purpose: read the seconds until the next timer is due
SELECT extract(epoch FROM min(due_at) - coalesce(%(now)s::timestamptz, freshline_now()))::float8 AS seconds FROM timers

-- name: next_evaluation
-- purpose: read the seconds until the next consideration is due; each class has its part of the index
SELECT extract(epoch FROM least((SELECT min(not_before) FROM considerations WHERE class = 'event'),
                                (SELECT min(not_before) FROM considerations WHERE class = 'timer'),
                                (SELECT min(not_before) FROM considerations WHERE class = 'sweep'))
                          - coalesce(%(now)s::timestamptz, freshline_now()))::float8 AS seconds

-- name: forgotten
-- purpose: find stale workflows that nothing will evaluate (docs/semantics.md#R4.1); normally none
WITH stale AS (
    SELECT e.workflow_id FROM edges e
      JOIN workflows w ON w.id = e.workflow_id AND w.automatic AND w.retired_at IS NULL
      JOIN heads h ON h.asset_id = e.asset_id AND h.partition_key = ''
      LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (e.workflow_id, '')
     WHERE e.triggers AND NOT e.mapped
       AND CASE WHEN p.job_fingerprint = w.job_fingerprint
                THEN freshline_differs(h.data_version, h.column_versions, p.consumed_versions -> e.asset_id)
                ELSE h.data_version IS DISTINCT FROM (p.consumed_versions -> e.asset_id ->> 'dataVersion') END
       AND h.data_version IS DISTINCT FROM (p.declined -> 'inputs' ->> e.asset_id)
    UNION
    SELECT a.producer_id FROM assets a
      JOIN workflows w ON w.id = a.producer_id AND w.automatic AND w.retired_at IS NULL
      LEFT JOIN heads h ON h.asset_id = a.id AND h.partition_key = ''
      LEFT JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
      LEFT JOIN timers t ON t.asset_id = a.id AND t.partition_key = '' AND t.kind = 'expiry'
      LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (w.id, '')
      LEFT JOIN LATERAL (SELECT (o ->> 'enabled')::boolean AS enabled, (o ->> 'optional')::boolean AS optional
                           FROM jsonb_array_elements(w.policy -> 'outputs') o WHERE o ->> 'asset_id' = a.id) d ON true
     WHERE a.partitioning IS NULL AND ((h.asset_id IS NULL AND (w.policy ->> 'on_missing')::boolean
            AND NOT (d.optional AND p.succeeded_at IS NOT NULL))
        OR (t.expired_at IS NOT NULL AND d.enabled)
        OR (p.job_fingerprint IS NOT NULL AND p.job_fingerprint <> w.job_fingerprint
            AND w.job_fingerprint IS DISTINCT FROM p.declined ->> 'job')
        -- Not from the consumed versions alone: a head says itself who made it, and from what.
        OR ((p.accepted ->> a.id)::bigint IS DISTINCT FROM h.sequence
            AND ((s.workflow_id IS DISTINCT FROM w.id AND NOT coalesce(s.difference ? 'rolledBack', false))
                 OR (s.run_id IS NOT NULL AND EXISTS (
                         SELECT FROM edges e JOIN heads i ON i.asset_id = e.asset_id AND i.partition_key = ''
                          WHERE e.workflow_id = w.id AND e.triggers AND NOT e.mapped
                            AND freshline_differs(i.data_version, i.column_versions, s.inputs -> e.asset_id))))))
)
SELECT s.workflow_id, w.slug, count(*) OVER () AS total
  FROM stale s JOIN workflows w ON w.id = s.workflow_id
 WHERE NOT EXISTS (SELECT FROM runs r WHERE r.workflow_id = s.workflow_id AND r.partition_key = ''
                      AND r.status IN ('queued', 'running'))
   AND NOT EXISTS (SELECT FROM considerations c WHERE c.workflow_id = s.workflow_id AND c.partition_key = '')
   AND NOT EXISTS (SELECT FROM inbox i JOIN edges e ON e.asset_id = i.asset_id WHERE e.workflow_id = s.workflow_id)
   AND NOT EXISTS (SELECT FROM inbox i JOIN assets a ON a.id = i.asset_id WHERE a.producer_id = s.workflow_id)
   AND NOT EXISTS (SELECT FROM inbox i WHERE i.workflow_id = s.workflow_id)
 ORDER BY s.workflow_id
 LIMIT %(limit)s

-- name: note_forgotten
-- purpose: add considerations for what was forgotten, with the lowest class
INSERT INTO considerations (workflow_id, partition_key, not_before, class, noted_at)
SELECT u.workflow_id, u.partition_key, m.now, 'sweep', m.now
  FROM unnest(%(workflows)s::bigint[], %(partitions)s::text[]) AS u (workflow_id, partition_key),
       (SELECT freshline_now() AS now) m
 ORDER BY u.workflow_id, u.partition_key
ON CONFLICT DO NOTHING

-- name: has_partitions
-- purpose: read the time if anything has partitions; few assets have
SELECT freshline_now() AS now FROM assets WHERE partitioning IS NOT NULL LIMIT 1

-- name: lock_sweep
-- purpose: lock how far the sweep of partitions is; no row while another process sweeps
SELECT workflow_id, partition_key FROM sweep_cursor FOR UPDATE SKIP LOCKED

-- name: move_sweep
-- purpose: store how far the sweep of partitions is; NULL: it begins with the first one
UPDATE sweep_cursor SET workflow_id = %(workflow)s, partition_key = %(partition)s

-- name: suspects
-- purpose: find the partitions among these that may be stale and that nothing will evaluate, and count the inputs with data
WITH compared AS (
    -- What retention removed is a change for some; the evaluation knows for whom.
    SELECT r.workflow_id, r.partition_key, r.asset_id, (h.data_version IS NOT NULL)::integer AS keys,
           CASE WHEN h.retired_at IS NULL THEN h.data_version ELSE 'retired' END AS data_version,
           p.consumed_versions -> (r.asset_id || CASE r.input_key WHEN '' THEN '' ELSE '@' || r.input_key END) AS consumed
      FROM unnest(%(reading)s::bigint[], %(reading_keys)s::text[], %(read_assets)s::text[], %(read_keys)s::text[])
           AS r (workflow_id, partition_key, asset_id, input_key)
      LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (r.workflow_id, r.partition_key)
      LEFT JOIN heads h ON (h.asset_id, h.partition_key) = (r.asset_id, r.input_key)
    UNION ALL
    SELECT r.workflow_id, r.partition_key, r.asset_id, d.keys,
           CASE WHEN r.keep THEN 'digest:' || d.keys + d.retired_keys || ':' || d.digest + d.retired_digest
                ELSE 'digest:' || d.keys || ':' || d.digest END,
           p.consumed_versions -> (r.asset_id || '@')
      FROM unnest(%(whole)s::bigint[], %(whole_keys)s::text[], %(whole_assets)s::text[], %(whole_keep)s::boolean[])
           AS r (workflow_id, partition_key, asset_id, keep)
      LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (r.workflow_id, r.partition_key)
      LEFT JOIN LATERAL (SELECT * FROM asset_digests WHERE asset_id = r.asset_id OFFSET 0) d ON true
), per_input AS (
    SELECT c.workflow_id, c.partition_key, c.asset_id, sum(c.keys) AS found,
           bool_or(c.data_version IS NOT NULL AND c.data_version IS DISTINCT FROM c.consumed ->> 'dataVersion') AS differs
      FROM compared c GROUP BY c.workflow_id, c.partition_key, c.asset_id
), per_unit AS (
    SELECT i.workflow_id, i.partition_key, jsonb_object_agg(i.asset_id, i.found) AS found,
           bool_or(i.differs AND coalesce(e.triggers, true)) AS differs
      FROM per_input i LEFT JOIN edges e ON (e.asset_id, e.workflow_id) = (i.asset_id, i.workflow_id)
     GROUP BY i.workflow_id, i.partition_key
), concerned AS MATERIALIZED ( -- workflows about which an event in the inbox is
    SELECT e.workflow_id FROM inbox i JOIN edges e ON e.asset_id = i.asset_id
    UNION SELECT a.producer_id FROM inbox i JOIN assets a ON a.id = i.asset_id
    UNION SELECT i.workflow_id FROM inbox i
)
SELECT u.workflow_id, u.partition_key, n.found
  FROM unnest(%(workflows)s::bigint[], %(partitions)s::text[]) AS u (workflow_id, partition_key)
  JOIN workflows w ON w.id = u.workflow_id AND w.automatic AND w.retired_at IS NULL
  LEFT JOIN per_unit n ON (n.workflow_id, n.partition_key) = (u.workflow_id, u.partition_key)
  LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (u.workflow_id, u.partition_key)
 WHERE (n.differs OR p.job_fingerprint <> w.job_fingerprint
        OR EXISTS (SELECT FROM assets a
                     LEFT JOIN heads h ON (h.asset_id, h.partition_key) = (a.id, u.partition_key) AND h.retired_at IS NULL
                     LEFT JOIN timers t ON (t.asset_id, t.partition_key, t.kind) = (a.id, u.partition_key, 'expiry')
                    WHERE a.producer_id = w.id
                      AND (t.expired_at IS NOT NULL OR (h.asset_id IS NULL AND (w.policy ->> 'on_missing')::boolean))))
   AND NOT EXISTS (SELECT FROM considerations c
                    WHERE c.workflow_id = u.workflow_id AND c.partition_key IN (u.partition_key, ''))
   AND NOT EXISTS (SELECT FROM runs r WHERE (r.workflow_id, r.partition_key) = (u.workflow_id, u.partition_key)
                      AND r.status IN ('queued', 'running'))
   AND NOT EXISTS (SELECT FROM concerned c WHERE c.workflow_id = u.workflow_id)
 ORDER BY u.workflow_id, u.partition_key

-- name: stamp_positions
-- purpose: number committed events in the order that outside consumers follow
WITH batch AS MATERIALIZED (
    SELECT time, id FROM events WHERE position IS NULL ORDER BY time, id LIMIT %(batch)s
), numbered AS MATERIALIZED (
    SELECT time, id, nextval('event_positions') AS position FROM (SELECT * FROM batch ORDER BY time, id) b
)
UPDATE events e SET position = n.position FROM numbered n WHERE e.time = n.time AND e.id = n.id

-- name: lock_cursor
-- purpose: lock the position up to which the event bus has every event; no row while another process publishes
SELECT position FROM bus_cursor FOR UPDATE SKIP LOCKED

-- name: unpublished
-- purpose: read the next events for the event bus, limited by count and bytes, but at least one
SELECT id::text, position, type, subject, time, data,
       '/freshline/' || (SELECT warehouse_id FROM installation) AS source
FROM (
    SELECT id, position, type, subject, time, data,
           sum(octet_length(data)) OVER (ORDER BY position) - octet_length(data) AS bytes_before
    FROM (
        SELECT id, position, type, subject, time, data::text AS data FROM events
        WHERE position > %(after)s ORDER BY position LIMIT %(batch)s
    ) next
) e
WHERE bytes_before < %(most_bytes)s
ORDER BY position

-- name: move_cursor
-- purpose: record the position up to which the event bus has every event
UPDATE bus_cursor SET position = %(position)s
