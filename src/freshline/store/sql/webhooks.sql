-- name: add_webhook
-- purpose: tell somebody about events to come, or about those after a position
INSERT INTO webhooks (id, name, kind, url, types, assets, secret, request_key, created_at, eligible_at, position)
SELECT %(id)s, %(name)s, %(kind)s, %(url)s, %(types)s, %(assets)s, %(secret)s, %(key)s, n.now, n.now,
       coalesce(%(after)s::bigint, (SELECT max(position) FROM events WHERE position IS NOT NULL), 0)
  FROM (SELECT freshline_now() AS now OFFSET 0) n
ON CONFLICT (id) DO NOTHING

-- name: added
-- purpose: the webhook that was asked for with this key
SELECT id::text, name, kind, url, types, assets FROM webhooks WHERE request_key = %(key)s

-- name: lock_webhook
-- purpose: the webhook with this name
SELECT id FROM webhooks WHERE name = %(name)s FOR UPDATE

-- name: webhook_names
-- purpose: for did-you-mean
SELECT name FROM webhooks ORDER BY name

-- name: target
-- purpose: where and how one letter is sent by hand
SELECT name, kind, url, secret FROM webhooks WHERE name = %(name)s

-- name: remove_webhook
-- purpose: nobody is told any more, and what waited is forgotten
DELETE FROM webhooks WHERE id = %(id)s

-- name: pause_webhook
-- purpose: nothing is sent until it is resumed; events wait
UPDATE webhooks SET paused_at = coalesce(paused_at, freshline_now()) WHERE id = %(id)s

-- name: resume_webhook
-- purpose: what waited is sent, from now on, whatever failed before
UPDATE webhooks SET paused_at = NULL, eligible_at = freshline_now() WHERE id = %(id)s

-- name: redeliver
-- purpose: dead letters get a new budget, all of them or that of one event
UPDATE webhook_deliveries SET dead_at = NULL, attempts = 0, since = n.now, eligible_at = n.now
  FROM (SELECT freshline_now() AS now OFFSET 0) n
 WHERE webhook_id = %(id)s AND dead_at IS NOT NULL AND (%(event)s::uuid IS NULL OR event_id = %(event)s)
RETURNING event_id

-- name: claim
-- purpose: the webhook that has waited longest for its turn and has something to send; who claims it has it for a while
WITH moment AS MATERIALIZED (
    SELECT freshline_now() AS now, (SELECT max(position) FROM events WHERE position IS NOT NULL) AS last
), due AS MATERIALIZED (
    SELECT w.id FROM webhooks w, moment m
     WHERE w.paused_at IS NULL AND w.eligible_at <= m.now AND (w.lease_until IS NULL OR w.lease_until <= m.now)
       AND (w.position < m.last
            OR EXISTS (SELECT FROM webhook_deliveries d
                        WHERE d.webhook_id = w.id AND d.dead_at IS NULL AND d.eligible_at <= m.now))
     ORDER BY w.claimed_at NULLS FIRST, w.id LIMIT 1
       FOR UPDATE OF w SKIP LOCKED
)
UPDATE webhooks w
   SET claim = w.claim + 1, claimed_at = m.now, lease_until = m.now + %(lease_ms)s * interval '1 millisecond'
  FROM due, moment m
 WHERE w.id = due.id
RETURNING w.id::text, w.name, w.kind, w.url, w.types, w.assets, w.secret, w.position, w.claim, w.failures, w.trouble

-- name: waiting
-- purpose: what a webhook did not take and is to be tried again now, in the order of events; an event may be gone
SELECT d.position, d.event_id::text AS id, e.type, e.subject, e.time, e.data,
       '/freshline/' || i.warehouse_id AS source, d.since
  FROM webhook_deliveries d CROSS JOIN installation i
  LEFT JOIN LATERAL (SELECT x.type, x.subject, x.time, x.data FROM events x WHERE x.position = d.position LIMIT 1) e ON true
 WHERE d.webhook_id = %(id)s AND d.dead_at IS NULL AND d.eligible_at <= (SELECT freshline_now())
 ORDER BY d.position LIMIT %(batch)s

-- name: following
-- purpose: the next events in their order, with the content of those that the webhook asks for; an event about a workflow
-- counts for the assets that it produces
WITH next AS MATERIALIZED (
    SELECT id, position, type, subject, time, data FROM events WHERE position > %(after)s ORDER BY position LIMIT %(window)s
), judged AS (
    SELECT n.*, n.type LIKE ANY (%(types)s) AND CASE
               WHEN '%%' = ANY (%(assets)s::text[]) THEN true
               WHEN n.data ? 'assetId' THEN n.data ->> 'assetId' LIKE ANY (%(assets)s)
               ELSE coalesce((SELECT true FROM workflows w JOIN assets a ON a.producer_id = w.id
                               WHERE w.slug = n.data ->> 'workflowSlug' AND a.id LIKE ANY (%(assets)s) LIMIT 1), false)
               END AS wanted
      FROM next n
)
SELECT j.id::text, j.position, j.type, j.subject, j.time, CASE WHEN j.wanted THEN j.data END AS data, j.wanted,
       '/freshline/' || i.warehouse_id AS source, j.time AS since
  FROM judged j CROSS JOIN installation i ORDER BY j.position

-- name: lock_claim
-- purpose: whether the claim still holds: nobody claimed it later, and it was not recorded yet
SELECT id FROM webhooks WHERE id = %(id)s AND claim = %(claim)s AND lease_until IS NOT NULL FOR UPDATE

-- name: taken
-- purpose: these have arrived
DELETE FROM webhook_deliveries WHERE webhook_id = %(id)s AND position = ANY (%(positions)s)

-- name: refused
-- purpose: these have not: they are tried again later, twice as long each time, until the budget ends
INSERT INTO webhook_deliveries AS d (webhook_id, position, event_id, since, attempts, tried_at, eligible_at, dead_at, trouble)
SELECT %(id)s, f.position, f.event_id, f.since, 1, m.now, m.now + freshline_backoff(0, %(base_ms)s, %(longest_ms)s),
       CASE WHEN f.final OR %(attempts)s <= 1 OR m.now >= f.since + %(age)s THEN m.now END, f.trouble
  FROM jsonb_to_recordset(%(failed)s) AS f (
           position bigint, event_id uuid, since timestamptz, trouble text, final boolean),
       (SELECT freshline_now() AS now OFFSET 0) m
ON CONFLICT (webhook_id, position) DO UPDATE
   SET attempts = d.attempts + 1, tried_at = excluded.tried_at, trouble = excluded.trouble,
       eligible_at = excluded.tried_at + freshline_backoff(d.attempts, %(base_ms)s, %(longest_ms)s),
       dead_at = coalesce(excluded.dead_at, CASE WHEN d.attempts + 1 >= %(attempts)s THEN excluded.tried_at END)
RETURNING dead_at IS NOT NULL AS dead

-- name: recovered
-- purpose: the receiver is back: what failed while it was away is tried before anything new; not what it refuses again and again
UPDATE webhook_deliveries SET eligible_at = freshline_now() WHERE webhook_id = %(id)s AND dead_at IS NULL AND attempts = 1

-- name: outlived
-- purpose: letters that grew too old while the receiver was away, and nothing but new ones was tried
UPDATE webhook_deliveries SET dead_at = freshline_now()
 WHERE webhook_id = %(id)s AND dead_at IS NULL AND since <= freshline_now() - %(age)s

-- name: release
-- purpose: up to here everything is delivered or noted; others may claim it, after a pause if it fails again and again
UPDATE webhooks
   SET position = greatest(position, %(position)s), lease_until = NULL, failures = %(failures)s, trouble = %(trouble)s,
       delivered = delivered + %(delivered)s,
       delivered_at = CASE WHEN %(delivered)s > 0 THEN freshline_now() ELSE delivered_at END,
       eligible_at = CASE WHEN %(failures)s < %(patience)s THEN eligible_at
                          ELSE freshline_now()
                               + freshline_backoff(%(failures)s - %(patience)s, %(base_ms)s, %(longest_ms)s) END
 WHERE id = %(id)s

-- name: pass
-- purpose: nothing up to here is asked for
UPDATE webhooks SET position = greatest(position, %(position)s), lease_until = NULL WHERE id = %(id)s

-- name: prune_deliveries
-- purpose: forget dead letters that are older than the retention, as the events are that they are about
DELETE FROM webhook_deliveries WHERE dead_at < freshline_now() - make_interval(days => %(days)s)
