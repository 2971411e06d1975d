-- name: add_webhook
-- purpose: insert a webhook that begins with future events, or after a position
INSERT INTO webhooks (id, name, kind, url, types, assets, secret, request_key, created_at, eligible_at, position)
SELECT %(id)s, %(name)s, %(kind)s, %(url)s, %(types)s, %(assets)s, %(secret)s, %(key)s, n.now, n.now,
       coalesce(%(after)s::bigint, (SELECT max(position) FROM events WHERE position IS NOT NULL), 0)
  FROM (SELECT freshline_now() AS now OFFSET 0) n
ON CONFLICT (id) DO NOTHING

-- name: added
-- purpose: find the webhook that was requested with this key
SELECT id::text, name, kind, url, types, assets FROM webhooks WHERE request_key = %(key)s

-- name: lock_webhook
-- purpose: lock the webhook with this name
SELECT id FROM webhooks WHERE name = %(name)s FOR UPDATE

-- name: webhook_names
-- purpose: list names of webhooks, for "did you mean"
SELECT name FROM webhooks ORDER BY name

-- name: target
-- purpose: read the URL and the secret for a test delivery
SELECT name, kind, url, secret FROM webhooks WHERE name = %(name)s

-- name: remove_webhook
-- purpose: delete a webhook and its deliveries
DELETE FROM webhooks WHERE id = %(id)s

-- name: pause_webhook
-- purpose: pause deliveries; events wait
UPDATE webhooks SET paused_at = coalesce(paused_at, freshline_now()) WHERE id = %(id)s

-- name: resume_webhook
-- purpose: resume deliveries at once, regardless of earlier failures
UPDATE webhooks SET paused_at = NULL, eligible_at = freshline_now() WHERE id = %(id)s

-- name: redeliver
-- purpose: give dead deliveries a new budget: all of them, or that of one event
UPDATE webhook_deliveries SET dead_at = NULL, attempts = 0, since = n.now, eligible_at = n.now
  FROM (SELECT freshline_now() AS now OFFSET 0) n
 WHERE webhook_id = %(id)s AND dead_at IS NOT NULL AND (%(event)s::uuid IS NULL OR event_id = %(event)s)
RETURNING event_id

-- name: claim
-- purpose: claim the webhook that has waited longest and has something to send, for the time of a lease
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
-- purpose: read the failed deliveries that are due again, in the order of events; an event may be deleted already
SELECT d.position, d.event_id::text AS id, e.type, e.subject, e.time, e.data,
       '/freshline/' || i.warehouse_id AS source, d.since
  FROM webhook_deliveries d CROSS JOIN installation i
  LEFT JOIN LATERAL (SELECT x.type, x.subject, x.time, x.data FROM events x WHERE x.position = d.position LIMIT 1) e ON true
 WHERE d.webhook_id = %(id)s AND d.dead_at IS NULL AND d.eligible_at <= (SELECT freshline_now())
 ORDER BY d.position LIMIT %(batch)s

-- name: following
-- purpose: read the next events in order, with the data of those that the webhook subscribes to
-- An event about a workflow matches the assets that the workflow produces.
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
-- purpose: lock the webhook if the claim is still valid: not claimed later, and not recorded yet
SELECT id FROM webhooks WHERE id = %(id)s AND claim = %(claim)s AND lease_until IS NOT NULL FOR UPDATE

-- name: taken
-- purpose: delete deliveries that were accepted
DELETE FROM webhook_deliveries WHERE webhook_id = %(id)s AND position = ANY (%(positions)s)

-- name: refused
-- purpose: store failed deliveries; they are tried again with doubling delays until the budget ends
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
-- purpose: make first failures due at once after the receiver recovered; not deliveries that it refused repeatedly
UPDATE webhook_deliveries SET eligible_at = freshline_now() WHERE webhook_id = %(id)s AND dead_at IS NULL AND attempts = 1

-- name: outlived
-- purpose: mark deliveries as dead that became too old while the receiver was down
UPDATE webhook_deliveries SET dead_at = freshline_now()
 WHERE webhook_id = %(id)s AND dead_at IS NULL AND since <= freshline_now() - %(age)s

-- name: release
-- purpose: move the cursor and end the lease; after repeated failures with a delay
UPDATE webhooks
   SET position = greatest(position, %(position)s), lease_until = NULL, failures = %(failures)s, trouble = %(trouble)s,
       delivered = delivered + %(delivered)s,
       delivered_at = CASE WHEN %(delivered)s > 0 THEN freshline_now() ELSE delivered_at END,
       eligible_at = CASE WHEN %(failures)s < %(patience)s THEN eligible_at
                          ELSE freshline_now()
                               + freshline_backoff(%(failures)s - %(patience)s, %(base_ms)s, %(longest_ms)s) END
 WHERE id = %(id)s

-- name: pass
-- purpose: move the cursor over events that the webhook does not subscribe to, and end the lease
UPDATE webhooks SET position = greatest(position, %(position)s), lease_until = NULL WHERE id = %(id)s

-- name: prune_deliveries
-- purpose: delete dead deliveries that are older than the retention, as their events are
DELETE FROM webhook_deliveries WHERE dead_at < freshline_now() - make_interval(days => %(days)s)
